"""Results of a run of the second-order methods beyond curves: how it ended, both tests, and their cost."""

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
ENDINGS = {"budget": "out of budget", "exhausted": "used all steps", "diverged": "diverged", "running": "running"}


def summary(_: Panel, run: Run, trace: Trace) -> None:
    """Draw a table of the ends of the runs of every method: for these methods, to finish is the result."""
    rows, reads_data = [], False
    for arm in run.experiment.arms:
        finish = advice.finish(trace, arm, run.plans[arm.label]) if arm.label in trace.lanes else None
        if finish is not None:
            row = _row(run, trace, arm.label, finish)
            reads_data |= SOLVED in row
            rows.append(row)
    if not rows:
        return
    with explain.heading("Did they stop, and where?"):
        if reads_data:
            explain.privacy_badge("not private")
    show_table(
        rows,
        placeholder="–",
        help=texts.COLUMNS["endings"],
        alt="Of every method: how many runs finished, at which step, and how many of these at a minimum",
    )
    warning = f" “{SOLVED}” reads the raw data: **not private**." if reads_data else ""
    st.caption(f"How and when a run ended follows from what it released.{warning}")


def _row(run: Run, trace: Trace, label: str, found: advice.Finish) -> dict[str, object]:
    arm_trace = trace.lanes[label]
    others = {status: arm_trace.status.count(status) for status in dict.fromkeys(arm_trace.status) if status in ENDINGS}
    row: dict[str, object] = {
        "Method": label,
        "Finished": f"{found.finished} of {found.runs}",
        "Median step": short(found.median_step, 4) if found.finished else None,
    }
    if found.solved is not None:
        row[SOLVED] = f"{found.solved} of {found.finished}" if found.finished else None
    row["Otherwise"] = ", ".join(f"{count} {ENDINGS[status]}" for status, count in others.items()) or None
    used_share = _used_share(run.plans[label], trace, label)
    if used_share is not None:
        row["Used"] = f"{short(100 * used_share, 2)} %"
    return row


def _used_share(plan: Plan, trace: Trace, label: str) -> float | None:
    """Return the mean share of the budget that the runs were charged; None without privacy.

    The share is that of a currency in which costs add up. The cost of batches does not add up: for them, it is the
    share of the iterations.
    """
    iterations, charged = trace.lanes[label].last("iterations_charged"), trace.spent(label)[1]
    if plan.private and len(iterations):
        return float(iterations.mean()) / plan.iterations
    if plan.currency is None or not len(charged):
        return None
    return float(((charged[-1] / plan.spent(plan.currency)[-1]) ** UNITS[plan.currency].power).mean())


def verdict(run: Run, _: Trace, diagnostics: bool) -> None:
    """Say which share of the rows was shortened, if any was: read off the raw rows, so only with diagnostics."""
    problem = run.experiment.problem
    if not diagnostics or not run.has_data or not isinstance(problem, NonconvexModel):
        return
    facts = problem.facts()
    if facts.n * facts.d > COUNTED:
        return
    if share := _shortened_share(problem.to_json(), run.tables):
        explain.read_off(f"**Longer than 1**: {short(100 * share, 3)} % of the rows, which are shortened.")
        st.caption("Counted in the raw data. “Divide rows by” a larger number changes fewer rows; all then weigh less.")


@st.cache_data(max_entries=32, scope="session", show_spinner=False)
def _shortened_share(text: str, _tables: Mapping[str, np.ndarray]) -> float:
    """Return the share of rows that the problem with JSON text `text` shortens."""
    return NonconvexModel.from_json(text).build(_tables).shortened_share


def tests(panel: Panel, run: Run, trace: Trace, _: bool) -> Shown:
    """Draw both tests of one method in every step against their tolerances, and the cost of its releases; return the
    charts."""
    labels = [label for label, arm_trace in trace.lanes.items() if len(arm_trace.last(NOISY_GRADIENT.name))]
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
    drawings: Shown = []
    for column, (metric, tolerance, log, heading) in zip(st.columns(2, gap="medium"), parts, strict=True):
        certificate = (
            f" {texts.CERTIFIED}" if metric is NOISY_CURVATURE and "certificate" in run.plans[label].noise else ""
        )
        caption = f"{texts.TESTS[metric.name]}{certificate} {privacy}"
        chart = figures.stopping_test(trace, label, metric.name, tolerance, log_y=log, heading=heading, words=caption)
        with column:
            if chart.figure.data:
                drawings.append(charts.show(chart, panel.key(f"chart_test_{metric.name}")))
            else:
                st.subheader(heading, anchor=False)
                st.info(_why_not(run, label), icon=":material/block:")
    if status != "not private":
        drawings += _spent(panel, run, trace, label, privacy)
    return drawings


def _why_not(run: Run, label: str) -> str:
    """Say why a method has not released the curvature."""
    method = next(arm.algorithm for arm in run.experiment.arms if arm.label == label)
    facts = run.plans[label].facts
    assert isinstance(facts, NonconvexFacts)
    if isinstance(method, PerturbedDescent) or (isinstance(method, Descent) and method.curvature == "never"):
        return texts.NEVER_ASKED
    return texts.NOT_NEEDED if isinstance(method, Descent) and not method.asks(facts) else texts.NOT_YET


def _spent(panel: Panel, run: Run, trace: Trace, label: str, privacy: str) -> Shown:
    """Draw the cost of the releases of a method by purpose; return the charts."""
    plan = run.plans[label]
    if len(trace.lanes[label].last("iterations_charged")):
        purposes, ceiling, start, title = ITERATIONS, float(plan.iterations), 0.0, "Iterations charged"
        caption = "Every iteration pays for gradient and Hessian at once, whether or not both were of use."
    else:
        start, ceiling = plan.spent("rho")[[0, -1]].tolist()
        purposes, title = PURPOSES, "Privacy spent, ρ"
        caption = "Mean over the runs; the guarantee is the ceiling, whatever was used."
    caption = f"{caption} {privacy}"
    chart = figures.spent_by_purpose(trace, label, purposes, ceiling, before=start, title=title, words=caption)
    return [charts.show(chart, panel.key("chart_purposes"))] if chart.figure.data else []
