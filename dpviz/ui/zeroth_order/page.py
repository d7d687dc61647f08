"""Description of the page of the zeroth-order methods."""

from collections.abc import Mapping
from dataclasses import replace

from dpviz.families import zeroth_order
from dpviz.families.zeroth_order import presets, texts
from dpviz.families.zeroth_order.advice import forecast
from dpviz.families.zeroth_order.conversion import EVALUATIONS
from dpviz.problems.values.black_box import BlackBox
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options
from dpviz.ui.zeroth_order import live, plan, plan_tabs, results
from dpviz.ui.zeroth_order import problem as problem_controls


class ZerothOrderPage(FamilyPage):
    """The methods, their settings, and the contents of the page."""

    prefix = plan.PREFIX
    package = zeroth_order
    by_name = presets.BY_NAME
    words = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    references = "The published algorithm once more, without noise: no privacy."
    data_heading = "Function"
    currency = "gaussian"
    at_first: Mapping[str, float] = {"mu": 0.3, "replicates": presets.REPLICATES}
    problems = problem_controls.MENU
    predict = staticmethod(forecast)
    card = staticmethod(plan.card)
    advice = staticmethod(plan.verdict)
    drawings = staticmethod(plan.drawings)
    looks = staticmethod(plan_tabs.looks)
    note = staticmethod(plan.size_note)
    assumptions = staticmethod(plan.assumptions)
    picture = staticmethod(live.picture)
    mapped = staticmethod(live.mapped)
    along_steps = staticmethod(live.curves)
    number = staticmethod(live.number)
    summary = staticmethod(results.summary)
    extra = staticmethod(results.extra)
    verdict = staticmethod(results.verdict)
    scenery = PlaneView(ground=live.below)

    def options(self, view: PlanView) -> Options:
        problem = view.experiment.problem
        is_discontinuous = isinstance(problem, BlackBox) and not problem.loss().continuous
        second = "smoothed_gradient_norm" if is_discontinuous else "stationarity_bound"
        if not problem.public:
            second = EVALUATIONS.name
        return replace(super().options(view), second=second)


PAGE = ZerothOrderPage()
