"""Results of a run of private tuning beyond curves: signal and noise, paths of settings, the Gaussian process."""

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

MUCH = 0.9  # share of the users' gradients that are clipped, above which it is a warning
AT_ONCE = 0.5  # seconds that a picture of the process may take
FIRST = 3  # step at which the process is drawn at first


def extra(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """Draw the length of a step's gradient next to its noise, the paths of two settings, the process along one of them,
    and the released settings; return the charts."""
    left, right = st.columns(2, gap="medium")
    with left:
        drawings = _signal(panel, run, trace, diagnostics)
    with right:
        _paths(panel, run, trace)
    if run.job.active:
        return drawings
    arm = _gibo(run, trace)
    left, right = st.columns(2, gap="medium")
    with left:
        _incumbent(panel, run, trace)
    if arm is not None and diagnostics and _cheap(run, arm, trace.lanes[arm.label]):
        with right:
            _process(panel, run, trace, arm)
    return drawings


def _gibo(run: Run, trace: Trace) -> Arm | None:
    """Return the first private DP-GIBO that has taken a step, None if there is none."""
    arms = (arm for arm in run.experiment.arms if isinstance(arm.algorithm, Gibo) and not arm.reference)
    return next((arm for arm in arms if arm.label in trace.lanes and trace.lanes[arm.label].path.get("x")), None)


def _signal(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """Draw the length of a step's gradient and of its parts; return the chart."""
    arm = _gibo(run, trace)
    if arm is None:
        return []
    plan, experiment = run.plans[arm.label], run.experiment
    noise = float(np.sqrt(plan.facts.d) * plan.noise["gradient"][0])
    privacy = explain.released(experiment, experiment.replicates)
    if diagnostics:
        diagnostic = explain.diagnostic(experiment.replicates, experiment.problem.public)
        privacy = f"{privacy} Of the curves named in the frame: {diagnostic}"
    return [charts.show(figures.signal_and_noise(trace, arm.label, noise, privacy), panel.key("chart_signal"))]


@st.fragment
def _paths(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the paths of two settings that the visitor chooses."""
    arm_traces: Mapping[str, ArmTrace] = {
        label: arm_trace
        for label, arm_trace in trace.lanes.items()
        if "x" in arm_trace.output and arm_trace.path.get("x")
    }
    facts, experiment = facts_of(run), run.experiment
    if not arm_traces or facts.d < 2:
        return
    st.subheader("Where did the settings go?", anchor=False)
    row = st.container(horizontal=True)
    axes = [_setting(row, panel, facts, f"path_{axis}", axis, title) for axis, title in enumerate(("Across", "Up"))]
    released = explain.released(experiment, experiment.replicates)
    references = "" if all(arm_trace.private for arm_trace in arm_traces.values()) else f" {explain.REFERENCES}"
    pair, privacy = (axes[0], axes[1]), f"{released}{references}"
    charts.picture(
        figures.paths(arm_traces, arm_styles(experiment.arms), facts, pair, privacy), panel.key("chart_paths")
    )


def _setting(
    container: st.delta_generator.DeltaGenerator, panel: Panel, facts: TuningFacts, name: str, default: int, title: str
) -> int:
    """Draw a control for one of the settings; return its index."""
    key = panel.key(f"{name}_{facts.d}")
    return container.selectbox(
        title, range(facts.d), index=default, key=key, format_func=lambda j: facts.names[j].capitalize()
    )


# ---------------------------------------------------------------------------------------------------------- the process


def _cheap(run: Run, arm: Arm, arm_trace: ArmTrace) -> bool:
    """Return true if the process can be drawn: every step is recorded, and the trainings that it takes are quick."""
    assert isinstance(arm.algorithm, Gibo)
    seconds, evaluations = facts_of(run).training_seconds, POINTS + arm.algorithm.batches(facts_of(run)).window
    has_every_step = arm_trace.iterations == list(range(len(arm_trace.iterations))) and len(arm_trace.iterations) > 1
    is_quick = evaluations * seconds < AT_ONCE and seconds < SLOW  # a slow training would start further processes
    return has_every_step and run.has_data and is_quick


@st.fragment
def _process(panel: Panel, run: Run, trace: Trace, arm: Arm) -> None:
    """Draw the loss along one setting, as the process sees it at a step."""
    facts, arm_trace = facts_of(run), trace.lanes[arm.label]
    last = arm_trace.iterations[-1]
    st.subheader("What does the process see?", anchor=False)
    row = st.container(horizontal=True)
    setting = _setting(row, panel, facts, "along", 0, "Along")
    step = row.slider("Step t", 1, last, min(FIRST, last), key=panel.key(f"along_step_{last}")) if last > 1 else 1
    path = np.array(arm_trace.path["x"][:step], dtype=float)
    curve = _curve(about_problem(run), arm.algorithm.to_json(), path, setting, run)
    name = facts.names[setting].capitalize()
    charts.picture(figures.process(curve, name, facts.logarithmic[setting], step), panel.key("chart_process"))


@st.cache_resource(max_entries=32, scope="session", show_spinner=False)
def _curve(about: str, method: str, path: np.ndarray, setting: int, _run: Run) -> Curve:  # noqa: ARG001 (`about`: a key)
    """Compute what the method with JSON text `method` sees along a setting, at the end of a path (t, d).

    The cache knows it by the path, not by the settings, since each run on a file has another path.
    """
    problem = _run.problem
    assert isinstance(problem, TuningProblem)
    return along(problem, Gibo.from_json(method), path, setting)


# ------------------------------------------------------------------------------------------------------------ incumbent


def _incumbent(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the release of one run of each private method: the settings where it ended, in natural units."""
    facts, problem = facts_of(run), run.experiment.problem
    assert isinstance(problem, TuningSpecification)
    arm_traces = released_model.of_each(trace)
    if not arm_traces:
        return
    low, high = facts.natural(np.array(facts.box))
    model = pd.DataFrame({"setting": [name.capitalize() for name in facts.names], "from": low, "to": high})
    model = model.assign(**{label: facts.natural(arm_trace.output["x"][0]) for label, arm_trace in arm_traces.items()})
    sentences = {label: _describe_end(facts, arm_trace) for label, arm_trace in arm_traces.items()}
    meaning = f"{texts.RELEASED} {problem.not_protected}".strip()
    released_model.show(panel, run, sentences, model, meaning, digits="%.4g")


def _describe_end(facts: TuningFacts, arm_trace: ArmTrace) -> str:
    """Describe the end of the first run of a method: its trainings, and its settings at an edge of the box."""
    x, trainings = arm_trace.output["x"][0], arm_trace.values[TRAININGS.name][-1][0]
    at_edge = int(np.count_nonzero((x <= facts.box[0]) | (x >= facts.box[1])))
    wider = f"; {at_edge} of {facts.d} settings at an edge of the box: a wider one may do better" if at_edge else ""
    return f"after {short(float(trainings), 6)} trainings{wider}."


def verdict(run: Run, trace: Trace, diagnostics: bool) -> None:
    """Say which share of the gradients was clipped at the end of the run; only with diagnostics."""
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
