"""Description of the page of the private games."""

from collections.abc import Mapping

from dpviz.families import mirror_descent
from dpviz.families.mirror_descent import presets, texts
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.mirror_descent import plan, plan_tabs, problem, results


class GamesPage(FamilyPage):
    """The methods, their settings, and the contents of the page."""

    prefix = "mirror"
    package = mirror_descent
    by_name = presets.BY_NAME
    words = texts.WORDS
    default_methods = presets.offered(QuadraticGame)[1]
    references = "The best play that is found without privacy, tuned on the data: the floor of the picture."
    data_heading = "Game"
    currency = "approximate"
    at_first: Mapping[str, float] = {"epsilon": 1.0}
    problems = problem.MENU
    offer = staticmethod(problem.offer)
    applicable = staticmethod(problem.applicable)
    predict = staticmethod(plan.predict)
    card = staticmethod(plan.range_card)
    advice = staticmethod(plan.recommendation)
    drawings = staticmethod(plan.drawings)
    looks = staticmethod(plan_tabs.looks)
    note = staticmethod(plan.size_note)
    assumptions = staticmethod(plan.assumptions)
    options = staticmethod(plan.options)
    more_faces = staticmethod(results.more_faces)
    summary = staticmethod(results.summary)
    extra = staticmethod(results.show)
    verdict = staticmethod(results.verdict)


PAGE = GamesPage()
