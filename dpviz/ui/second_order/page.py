"""Description of the page of the second-order methods."""

from collections.abc import Mapping
from dataclasses import replace

from dpviz.families import second_order
from dpviz.families.second_order import advice, presets, texts
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options
from dpviz.ui.second_order import live, plan, plan_tabs, problem, results


class SecondOrderPage(FamilyPage):
    """The methods, their settings, and the contents of the page."""

    prefix = "second"
    package = second_order
    by_name = presets.BY_NAME
    words = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    references = "OPT once more, without noise: no privacy."
    currency = "approximate"
    at_first: Mapping[str, float] = {"epsilon": 0.2, "delta": 1e-5}
    problems = problem.MENU
    predict = staticmethod(advice.forecasts)
    card = staticmethod(plan.card)
    advice = staticmethod(plan.traffic_light)
    drawings = staticmethod(plan.drawings)
    looks = staticmethod(plan_tabs.looks)
    note = staticmethod(plan.size_note)
    assumptions = staticmethod(plan.assumptions)
    picture = staticmethod(live.picture)
    mapped = staticmethod(live.mapped)
    along_steps = staticmethod(live.curves)
    number = staticmethod(live.number)
    summary = staticmethod(results.summary)
    extra = staticmethod(results.tests)
    verdict = staticmethod(results.verdict)
    scenery = PlaneView(ground=live.ground)

    def options(self, view: PlanView) -> Options:
        public = view.experiment.problem.public
        return replace(super().options(view), second="gradient_norm" if public else "gradient_charged")


PAGE = SecondOrderPage()
