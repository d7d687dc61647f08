"""What a visitor of the page sees first: the validation loss falling with every training."""

import numpy as np
import streamlit as st

from dpviz.experiments.outcome import outcome
from dpviz.experiments.trace import Trace
from dpviz.families.bayesian_optimization import figures, presets, texts
from dpviz.families.bayesian_optimization.algorithms import TRAININGS
from dpviz.numbers import short
from dpviz.plots.elements.sheets import Ruler
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.landscape import Background, Cloud, contours
from dpviz.problems.tuning.tuning import TuningFacts
from dpviz.ui import explain
from dpviz.ui.experiment import hero, results
from dpviz.ui.experiment.run import Run

LOSS = "objective"
GROUND = 0.4  # seconds of trainings that the ground of two settings may take
ALIKE = 1.05  # ratio of two ends up to which a search does as well
FEWEST, MOST = 9, 41  # points of it along each setting


def picture(run: Run, diagnostics: bool) -> hero.Picture | None:
    """A dot for every run on the loss of two settings; of more of them, loss against trainings; without diagnostics
    what each method releases, by step."""
    if run.job.trace is None:
        return None
    if diagnostics and has_ground(run):
        return landscape(run, run.job.trace)
    trace = run.job.trace.visible(diagnostics)
    if LOSS not in trace.metrics:
        return hero.curves(run, diagnostics, most=len(presets.METHODS))
    figure = figures.by_trainings(trace, LOSS, arm_styles(run.experiment.arms), height=hero.HEIGHT)
    metric = trace.metrics[LOSS]
    privacy = results.privacy(metric, trace, run.experiment)
    caption = f"{metric.label} after so many trainings. {explain.spread(run.experiment.replicates)} {privacy}"
    return hero.Picture(figure, f"{metric.label} against trainings, one line per method", caption)


def has_ground(run: Run) -> bool:
    """Whether the loss can be drawn over all settings: of two, on public data, where trainings are quick."""
    facts = facts_of(run)
    return run.experiment.problem.public and facts.d == 2 and FEWEST**2 * facts.training_seconds < GROUND


def facts_of(run: Run) -> TuningFacts:
    """The facts that a run was planned from."""
    facts = next(iter(run.plans.values())).facts
    assert isinstance(facts, TuningFacts)
    return facts


def landscape(run: Run, trace: Trace) -> hero.Picture | None:
    """Contours, and what every run of every method would release; None before the first step."""
    clouds = {
        label: Cloud(lane.output["x"], np.array(lane.path["x"]))
        for label, lane in trace.lanes.items()
        if "x" in lane.output and lane.path.get("x")
    }
    if not clouds:
        return None
    facts, looks = facts_of(run), arm_styles(run.experiment.arms)
    across, up = facts.axes
    figure = contours(_ground(run), clouds, looks, (across, up), height=hero.HEIGHT)
    caption = f"{texts.LANDSCAPE} **Not private**: it reads the validation losses."
    return hero.Picture(figure, "Contours of the validation loss, with a dot for every run", caption)


def below(run: Run, *_: Ruler) -> Background | None:
    """The loss below the runs, over all of both settings; None where it cannot be drawn."""
    return _ground(run) if has_ground(run) else None


def _ground(run: Run) -> Background:
    return _evaluated(run.experiment.problem.to_json(), run)


@st.cache_resource(max_entries=8, scope="session", show_spinner=False)
def _evaluated(about: str, _run: Run) -> Background:  # noqa: ARG001 (what the cache knows it by)
    """The mean loss of a run, whose problem as JSON text is `about`, over both settings: at points as many as are
    quick."""
    facts = facts_of(_run)
    points = int(np.clip(np.sqrt(GROUND / max(facts_of(_run).training_seconds, 1e-9)), FEWEST, MOST))
    low, high = facts.box
    x, y = (np.linspace(low[j], high[j], points) for j in range(2))
    places = np.stack([np.tile(x, points), np.repeat(y, points)], axis=1)
    values = _run.problem.evaluate_cheap({"x": places})["objective"]
    return Background(x, y, values.reshape(points, points))


def number(run: Run, trace: Trace) -> hero.Headline | None:
    """Where the best method ends, after how many trainings; and whether random search does as well."""
    told, found = hero.lowest(run, trace), outcome(trace)
    if told is None or found is None or found.metric.name != LOSS:
        return told
    ends = {found.best: found.end, **dict(found.others)}
    words = [told.sentence]
    trainings = {label: trace.last(label, TRAININGS.name) for label in ends}
    taken = [f"{label} {short(float(count.mean()))}" for label, count in trainings.items() if len(count)]
    words.append(f"Trainings of a run: {', '.join(taken)}.")
    if presets.GIBO in ends:
        searches = {label: ends[label] for label in (presets.RANDOM, presets.GLOBAL) if label in ends}
        words += [
            texts.beaten(label, end < ends[presets.GIBO], found.chance(label, presets.GIBO))
            for label, end in searches.items()
            if end < ALIKE * ends[presets.GIBO]
        ]
    return told._replace(sentence=" ".join(words))
