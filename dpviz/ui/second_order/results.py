"""What a run of the second-order methods shows beyond curves: how it ended, both tests, and what they cost."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families.second_order import PerturbedDescent, advice, figures, texts
from dpviz.families.second_order.methods.algorithms import Descent
from dpviz.families.second_order.methods.releases import NOISY_CURVATURE, NOISY_GRADIENT
from dpviz.numbers import short
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.problems.nonconvex.nonconvex import NonconvexModel
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import show_table
from dpviz.ui.second_order import live

PURPOSES = {"gradient_charged": "gradients", "hessian_charged": "Hessians", "search_charged": "line search"}
ITERATIONS = {"iterations_charged": "iterations, gradient and Hessian together"}
SOLVED = "At a minimum"
COUNTED = 10_000_000  # numbers of a table that are loaded once more, to count rows
WORDS = {"budget": "out of budget", "exhausted": "used all steps", "diverged": "diverged", "running": "running"}


def summary(_: Panel, run: Run, trace: Trace) -> None:
    """How the runs of every method ended: whether a method finishes is its result."""
    rows, read = [], False
    for arm in run.experiment.arms:
        found = advice.finish(trace, arm, run.plans[arm.label]) if arm.label in trace.lanes else None
        if found is not None:
            row = _row(run, trace, arm.label, found)
            read |= SOLVED in row
            rows.append(row)
    if not rows:
        return
    with explain.heading("Did they stop, and where?"):
        if read:
            explain.privacy_badge("not private")
    show_table(
        rows,
        placeholder="–",
        help=texts.COLUMNS["endings"],
        alt="Of every method: how many runs finished, at which step, and how many of these at a minimum",
    )
    raw = f" “{SOLVED}” reads the raw data: **not private**." if read else ""
    st.caption(f"How and when a run ended follows from what it released.{raw}")


def _row(run: Run, trace: Trace, label: str, found: advice.Finish) -> dict[str, object]:
    lane = trace.lanes[label]
    others = {word: lane.status.count(word) for word in dict.fromkeys(lane.status) if word in WORDS}
    row: dict[str, object] = {
        "Method": label,
        "Finished": f"{found.finished} of {found.runs}",
        "Median step": short(found.median_step, 4) if found.finished else None,
    }
    if found.solved is not None:
        row[SOLVED] = f"{found.solved} of {found.finished}" if found.finished else None
    row["Otherwise"] = ", ".join(f"{count} {WORDS[word]}" for word, count in others.items()) or None
    used = _used(run.plans[label], trace, label)
    if used is not None:
        row["Used"] = f"{short(100 * used, 2)} %"
    return row


def _used(plan: Plan, trace: Trace, label: str) -> float | None:
    """The share of what they could be charged at most that the runs were charged, on average: of what adds up; of
    batches, whose price does not, the iterations. None without privacy."""
    iterations, charged = trace.lanes[label].last("iterations_charged"), trace.spent(label)[1]
    if plan.private and len(iterations):
        return float(iterations.mean()) / plan.iterations
    if plan.currency is None or not len(charged):
        return None
    return float(((charged[-1] / plan.spent(plan.currency)[-1]) ** UNITS[plan.currency].power).mean())


def verdict(run: Run, _: Trace, diagnostics: bool) -> None:
    """How many rows were shortened, where any were: read off the raw rows, for who may see diagnostics."""
    problem = run.experiment.problem
    if not diagnostics or not run.has_data or not isinstance(problem, NonconvexModel):
        return
    facts = problem.facts()
    if facts.n * facts.d > COUNTED:
        return
    if share := _shortened(problem.to_json(), run.tables):
        explain.read_off(f"**Longer than 1**: {short(100 * share, 3)} % of the rows, which are shortened.")
        st.caption("Counted in the raw data. “Divide rows by” a larger number changes fewer rows; all then weigh less.")


@st.cache_data(max_entries=32, scope="session", show_spinner=False)
def _shortened(text: str, _tables: Mapping[str, np.ndarray]) -> float:
    """The share of rows that a problem, given as its JSON text, shortens."""
    return NonconvexModel.from_json(text).build(_tables).shortened_share


def tests(panel: Panel, run: Run, trace: Trace, _: bool) -> Shown:
    """Both tests of one method in every step, against their tolerances, and what its releases cost; what was drawn."""
    labels = [label for label, lane in trace.lanes.items() if len(lane.last(NOISY_GRADIENT.name))]
    if not labels:
        return []
    with st.columns([1, 2])[0]:
        label = panel.named("tests_of", "Tests of", labels, "Whose steps are shown.")
    status, analysis = trace.lanes[label].privacy, live.analysis(run, label)
    released = explain.released(run.experiment, run.experiment.replicates)
    privacy = explain.REFERENCES if status == "not private" else released
    parts = (
        (NOISY_GRADIENT, analysis.gradient_tolerance, True, "Is the gradient small?"),
        (NOISY_CURVATURE, -analysis.curvature_tolerance, False, "Is the curvature not negative?"),
    )
    shown: Shown = []
    for column, (metric, tolerance, log, heading) in zip(st.columns(2, gap="medium"), parts, strict=True):
        first = f" {texts.CERTIFIED}" if metric is NOISY_CURVATURE and "certificate" in run.plans[label].noise else ""
        words = f"{texts.TESTS[metric.name]}{first} {privacy}"
        chart = figures.stopping_test(trace, label, metric.name, tolerance, log_y=log, heading=heading, words=words)
        with column:
            if chart.figure.data:
                shown.append(charts.show(chart, panel.key(f"chart_test_{metric.name}")))
            else:
                st.subheader(heading, anchor=False)
                st.info(_why_not(run, label), icon=":material/block:")
    if status != "not private":
        shown += _spent(panel, run, trace, label, privacy)
    return shown


def _why_not(run: Run, label: str) -> str:
    """Why a method has not asked for the curvature."""
    method = next(arm.algorithm for arm in run.experiment.arms if arm.label == label)
    facts = run.plans[label].facts
    assert isinstance(facts, NonconvexFacts)
    if isinstance(method, PerturbedDescent) or (isinstance(method, Descent) and method.curvature == "never"):
        return texts.NEVER_ASKED
    return texts.NOT_NEEDED if isinstance(method, Descent) and not method.asks(facts) else texts.NOT_YET


def _spent(panel: Panel, run: Run, trace: Trace, label: str, privacy: str) -> Shown:
    """What the releases of a method cost, by purpose."""
    plan = run.plans[label]
    if len(trace.lanes[label].last("iterations_charged")):
        purposes, ceiling, before, title = ITERATIONS, float(plan.iterations), 0.0, "Iterations charged"
        words = "Every iteration pays for gradient and Hessian at once, whether or not both were of use."
    else:
        before, ceiling = plan.spent("rho")[[0, -1]].tolist()
        purposes, title = PURPOSES, "Privacy spent, ρ"
        words = "Mean over the runs; the guarantee is the ceiling, whatever was used."
    words = f"{words} {privacy}"
    chart = figures.spent_by_purpose(trace, label, purposes, ceiling, before=before, title=title, words=words)
    return [charts.show(chart, panel.key("chart_purposes"))] if chart.figure.data else []
