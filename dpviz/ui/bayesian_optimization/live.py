"""The live picture of the page of private tuning: the validation loss by trainings."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import streamlit as st

from dpviz.experiments.results import spent_curve
from dpviz.experiments.summary import outcome
from dpviz.experiments.trace import Trace
from dpviz.families.bayesian_optimization import figures, presets, texts
from dpviz.families.bayesian_optimization.algorithms import TRAININGS
from dpviz.numbers import short
from dpviz.plots import clouds
from dpviz.plots.clouds import Background
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.elements.sheets import Ruler
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.problems.tuning.tuning import TuningFacts
from dpviz.ui import explain
from dpviz.ui.experiment import hero, results
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.run import Run, about_problem

LOSS = "objective"
GROUND = 0.4  # seconds of trainings that the ground of two settings may take
MIN_POINTS, MAX_POINTS = 9, 41  # points of the ground along each setting
ALIKE = 1.05  # ratio of two ends up to which a search does as well


def picture(run: Run, diagnostics: bool) -> Chart | None:
    """Return a dot for every run on the loss of two settings; of more settings, or without diagnostics, `losses`."""
    if diagnostics and run.job.trace is not None and has_ground(run):
        return landscape(run, run.job.trace)
    return losses(run, diagnostics)


def along_spent(view: PlanView | None) -> Mapping[str, hero.Drawn]:
    """Return the losses against the privacy spent as a further face; none on a file, whose losses may be hidden."""
    if view is None or not view.experiment.public:
        return {}
    return {"Privacy spent": partial(losses, by_spent=True)}


def losses(run: Run, diagnostics: bool, by_spent: bool = False) -> Chart | None:
    """Return the validation losses of all methods against trainings, or against the privacy spent; or what they
    release, where losses may not be shown."""
    if run.job.trace is None:
        return None
    trace = run.job.trace.visible(diagnostics)
    if LOSS not in trace.metrics:
        return hero.curves(run, diagnostics, most=len(presets.METHODS))
    metric, along = trace.metrics[LOSS], "trainings"
    draw = partial(figures.by_trainings, ended=not run.job.active, height=hero.HEIGHT)
    styles = arm_styles(run.experiment.arms)
    if by_spent:
        currency: Currency = run.experiment.budget.currency or "rho"
        along = f"privacy spent, {UNITS[currency].label}"
        spent = {
            label: spent_curve(trace, label, run.plans[label], currency)
            for label, arm_trace in trace.lanes.items()
            if arm_trace.private
        }
        figure, note = draw(trace, LOSS, styles, spent, f"P{along[1:]}")
    else:
        figure, note = draw(trace, LOSS, styles)
    privacy = results.privacy(metric, trace, run.experiment)
    caption = " ".join(filter(None, (explain.spread(run.experiment.replicates), note, privacy)))
    alt = f"{metric.label} against {along}, one line per method"
    return Chart(figure, metric.label, alt, caption, provenance(trace.statuses(metric).values()))


def has_ground(of: PlanView | Run) -> bool:
    """Return true if the loss can be drawn over all settings: two of them, public data and quick trainings."""
    facts = facts_of(of)
    return of.experiment.problem.public and facts.d == 2 and MIN_POINTS**2 * facts.training_seconds < GROUND


def facts_of(of: PlanView | Run) -> TuningFacts:
    """Return the facts by which a run is planned."""
    facts = next(iter(of.plans.values())).facts
    assert isinstance(facts, TuningFacts)
    return facts


def landscape(run: Run, trace: Trace) -> Chart | None:
    """Return a chart of contours, and what every run of every method would release; None before the first step."""
    across, up = facts_of(run).axes
    return clouds.landscape(
        trace,
        partial(_ground, run),
        arm_styles(run.experiment.arms),
        (across, up),
        what="validation loss",
        heading="The validation loss below the runs",
        caption=f"{texts.LANDSCAPE} **Not private**: it reads the validation losses.",
    )


def below(run: Run, *_: Ruler) -> Background | None:
    """Return the loss below the runs, over the whole box of both settings; None where it cannot be drawn."""
    return _ground(run) if has_ground(run) else None


@st.cache_resource(max_entries=8, scope="session", show_spinner=False, hash_funcs={Run: about_problem})
def _ground(run: Run) -> Background:
    """Compute the mean loss of a run over both settings, at as many points as GROUND seconds allow."""
    facts = facts_of(run)
    points = int(np.clip(np.sqrt(GROUND / max(facts.training_seconds, 1e-9)), MIN_POINTS, MAX_POINTS))
    low, high = facts.box
    return clouds.evaluated(run.problem, *(np.linspace(low[j], high[j], points) for j in range(2)))


def number(run: Run, trace: Trace) -> hero.Headline | None:
    """Return the headline: the end of the best method, the trainings of all, and searches that do as well as GIBO."""
    headline, result = hero.lowest(run, trace), outcome(trace)
    if headline is None or result is None or result.metric.name != LOSS:
        return headline
    ends = {result.best: result.end, **dict(result.others)}
    sentences = [headline.sentence]
    trainings = {label: trace.lanes[label].last(TRAININGS.name) for label in ends}
    counts = [f"{label} {short(float(count.mean()))}" for label, count in trainings.items() if len(count)]
    sentences.append(f"Trainings of a run: {', '.join(counts)}.")
    if presets.GIBO in ends:
        searches = {label: ends[label] for label in (presets.RANDOM, presets.GLOBAL) if label in ends}
        sentences += [
            texts.beaten(label, end < ends[presets.GIBO], result.chance(label, presets.GIBO))
            for label, end in searches.items()
            if end < ALIKE * ends[presets.GIBO]
        ]
    return headline._replace(sentence=" ".join(sentences))
