"""The page of the accelerated methods, described."""

from dpviz.families import accelerated
from dpviz.families.accelerated import presets, texts
from dpviz.ui.accelerated import own_schedule, plan, plan_tabs, problem, results, runs
from dpviz.ui.experiment.page import FamilyPage


class AcceleratedPage(FamilyPage):
    """The methods, their settings, and what the page shows of them."""

    prefix = own_schedule.PREFIX
    package = accelerated
    by_name = ("schedule", "horizon")
    words = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    problems = problem.MENU
    predict = staticmethod(plan.predict)
    advice = staticmethod(own_schedule.show)
    line = staticmethod(own_schedule.line)
    drawings = staticmethod(plan.drawings)
    looks = staticmethod(plan_tabs.looks)
    note = staticmethod(plan.batch_note)
    assumptions = staticmethod(plan.assumptions)
    options = staticmethod(plan.options)
    summary = staticmethod(results.summary)
    verdict = staticmethod(results.verdict)
    scenery = runs.SCENERY


PAGE = AcceleratedPage()
