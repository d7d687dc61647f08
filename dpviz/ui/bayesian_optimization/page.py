"""Description of the page of private tuning."""

from collections.abc import Mapping
from dataclasses import replace

from dpviz.families import bayesian_optimization
from dpviz.families.bayesian_optimization import algorithms, presets, texts
from dpviz.families.bayesian_optimization.algorithms import BATCH_SIZE
from dpviz.families.bayesian_optimization.forecast import forecast
from dpviz.ui.bayesian_optimization import live, plan, plan_tabs, problem, results
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options


class TuningPage(FamilyPage):
    """The methods, their settings, and the contents of the page."""

    prefix = plan.PREFIX
    package = bayesian_optimization
    by_name = algorithms.BY_NAME
    words = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    references = "GIBO, and GD beside DP-GD: the same steps without noise, so without privacy."
    data_heading = "Model and data"
    currency = "gaussian"
    at_first: Mapping[str, float] = {"mu": 1.0, "replicates": presets.REPLICATES}
    problems = problem.MENU
    predict = staticmethod(forecast)
    advice = staticmethod(plan.verdict)
    drawings = staticmethod(plan.drawings)
    looks = staticmethod(plan_tabs.looks)
    note = staticmethod(plan.size_note)
    assumptions = staticmethod(plan.assumptions)
    picture = staticmethod(live.picture)
    mapped = staticmethod(live.has_ground)
    along_steps = staticmethod(live.losses)
    more_faces = staticmethod(live.along_spent)
    number = staticmethod(live.number)
    extra = staticmethod(results.extra)
    verdict = staticmethod(results.verdict)
    scenery = PlaneView(ground=live.below)

    def options(self, view: PlanView) -> Options:
        return replace(super().options(view), second=BATCH_SIZE.name)


PAGE = TuningPage()
