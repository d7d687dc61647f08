"""What a run of private tuning shows beyond curves: signal beside noise, where settings went, what the process saw."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.experiments.experiment import Arm
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.bayesian_optimization import figures, texts
from dpviz.families.bayesian_optimization.algorithms import TRAININGS, Gibo
from dpviz.families.bayesian_optimization.posterior_slice import POINTS, Curve, along
from dpviz.numbers import short
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.tuning.trainers import SLOW
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem, TuningSpecification
from dpviz.ui import charts, explain
from dpviz.ui.bayesian_optimization.live import facts_of
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import released_model
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run, about_problem

MUCH = 0.9  # of the users' gradients that are clipped, from which on it is a warning
AT_ONCE = 0.5  # seconds that a look at the process may take
FIRST = 3  # step at which it is shown at first


def extra(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """How long a step's gradient was beside its noise, the ways of two settings, the process along one of them, and
    what a run would release; what was drawn."""
    left, right = st.columns(2, gap="medium")
    with left:
        shown = _signal(panel, run, trace, diagnostics)
    with right:
        _paths(panel, run, trace)
    if run.job.active:
        return shown
    arm = _gibo(run, trace)
    left, right = st.columns(2, gap="medium")
    with left:
        _incumbent(panel, run, trace)
    if arm is not None and diagnostics and _cheap(run, arm, trace.lanes[arm.label]):
        with right:
            _process(panel, run, trace, arm)
    return shown


def _gibo(run: Run, trace: Trace) -> Arm | None:
    """The first private DP-GIBO that has taken a step."""
    arms = (arm for arm in run.experiment.arms if isinstance(arm.algorithm, Gibo) and not arm.reference)
    return next((arm for arm in arms if arm.label in trace.lanes and trace.lanes[arm.label].path.get("x")), None)


def _signal(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """What a step's gradient is made of."""
    arm = _gibo(run, trace)
    if arm is None:
        return []
    plan, experiment = run.plans[arm.label], run.experiment
    noise = float(np.sqrt(plan.facts.d) * plan.noise["gradient"][0])
    privacy = explain.released(experiment, experiment.replicates)
    if diagnostics:
        said = explain.diagnostic(experiment.replicates, experiment.problem.public)
        privacy = f"{privacy} Of the curves named in the frame: {said}"
    return [charts.show(figures.signal_and_noise(trace, arm.label, noise, privacy), panel.key("chart_signal"))]


@st.fragment
def _paths(panel: Panel, run: Run, trace: Trace) -> None:
    """Where two settings of the visitor's choice went."""
    lanes: Mapping[str, ArmTrace] = {
        label: lane for label, lane in trace.lanes.items() if "x" in lane.output and lane.path.get("x")
    }
    facts, experiment = facts_of(run), run.experiment
    if not lanes or facts.d < 2:
        return
    st.subheader("Where did the settings go?", anchor=False)
    row = st.container(horizontal=True)
    chosen = [_setting(row, panel, facts, f"path_{axis}", axis, title) for axis, title in enumerate(("Across", "Up"))]
    said = explain.released(experiment, experiment.replicates)
    references = "" if all(lane.private for lane in lanes.values()) else f" {explain.REFERENCES}"
    pair, privacy = (chosen[0], chosen[1]), f"{said}{references}"
    charts.picture(figures.paths(lanes, arm_styles(experiment.arms), facts, pair, privacy), panel.key("chart_paths"))


def _setting(
    place: st.delta_generator.DeltaGenerator, panel: Panel, facts: TuningFacts, name: str, at: int, title: str
) -> int:
    """Choose one of the settings; its number."""
    key = panel.key(f"{name}_{facts.d}")
    return place.selectbox(title, range(facts.d), index=at, key=key, format_func=lambda j: facts.names[j].capitalize())


# ---------------------------------------------------------------------------------------------------------- the process


def _cheap(run: Run, arm: Arm, lane: ArmTrace) -> bool:
    """Whether the process can be looked at: every step is recorded, and the trainings that it takes are quick."""
    assert isinstance(arm.algorithm, Gibo)
    seconds, evaluations = facts_of(run).training_seconds, POINTS + arm.algorithm.batches(facts_of(run)).window
    every = lane.iterations == list(range(len(lane.iterations))) and len(lane.iterations) > 1
    return every and run.has_data and evaluations * seconds < AT_ONCE and seconds < SLOW  # without further processes


@st.fragment
def _process(panel: Panel, run: Run, trace: Trace, arm: Arm) -> None:
    """The loss along one setting, as the process sees it at a step."""
    facts, lane = facts_of(run), trace.lanes[arm.label]
    last = lane.iterations[-1]
    st.subheader("What does the process see?", anchor=False)
    row = st.container(horizontal=True)
    setting = _setting(row, panel, facts, "along", 0, "Along")
    step = row.slider("Step t", 1, last, min(FIRST, last), key=panel.key(f"along_step_{last}")) if last > 1 else 1
    path = np.array(lane.path["x"][:step], dtype=float)
    found = _curve(about_problem(run), arm.algorithm.to_json(), path, setting, run)
    name = facts.names[setting].capitalize()
    charts.picture(figures.process(found, name, facts.logarithmic[setting], step), panel.key("chart_process"))


@st.cache_resource(max_entries=32, scope="session", show_spinner=False)
def _curve(about: str, method: str, path: np.ndarray, setting: int, _run: Run) -> Curve:  # noqa: ARG001 (`about`: a key)
    """What a method, given as its JSON text, saw at the end of a path (t, d), along a setting. Known by the path, not
    by the settings: each run on a file has another one."""
    problem = _run.problem
    assert isinstance(problem, TuningProblem)
    return along(problem, Gibo.from_json(method), path, setting)


# ------------------------------------------------------------------------------------------------------------ incumbent


def _incumbent(panel: Panel, run: Run, trace: Trace) -> None:
    """What one run of each private method would release: the settings where it ended, in their own units."""
    facts, problem = facts_of(run), run.experiment.problem
    assert isinstance(problem, TuningSpecification)
    lanes = released_model.of_each(trace)
    if not lanes:
        return
    low, high = facts.natural(np.array(facts.box))
    model = pd.DataFrame({"setting": [name.capitalize() for name in facts.names], "from": low, "to": high})
    model = model.assign(**{label: facts.natural(lane.output["x"][0]) for label, lane in lanes.items()})
    words = {label: _ended(facts, lane) for label, lane in lanes.items()}
    meaning = f"{texts.RELEASED} {problem.not_protected}".strip()
    released_model.show(panel, run, words, model, meaning, digits="%.4g")


def _ended(facts: TuningFacts, lane: ArmTrace) -> str:
    """Where the first run of a method ended, and after what."""
    x, trainings = lane.output["x"][0], lane.values[TRAININGS.name][-1][0]
    edge = int(np.count_nonzero((x <= facts.box[0]) | (x >= facts.box[1])))
    wider = f"; {edge} of {facts.d} settings at an edge of the box: a wider one may do better" if edge else ""
    return f"after {short(float(trainings), 6)} trainings{wider}."


def verdict(run: Run, trace: Trace, diagnostics: bool) -> None:
    """How many gradients were clipped where the run ended, for who may see diagnostics."""
    arm = _gibo(run, trace)
    if not diagnostics or arm is None:
        return
    shares = trace.lanes[arm.label].last("internal_clipped_share")
    if not len(shares) or not np.isfinite(shares).all():
        return
    share = float(shares.mean())
    explain.read_off(f"**Clipped**: {texts.clipped(share, arm.label)}")
    if share > MUCH:
        st.warning(texts.MUCH_CLIPPED, title=f"{short(100 * share, 2)} % of the gradients are clipped")
