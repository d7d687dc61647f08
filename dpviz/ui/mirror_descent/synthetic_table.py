"""The synthetic table of a run: any number of rows from a method's released histogram, and bounds on their error."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets.categories import CategoricalFacts
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.trace import Trace
from dpviz.exports.spreadsheets import as_csv
from dpviz.families.mirror_descent import SyntheticData, bounds, texts
from dpviz.numbers import rounded_up, short_up
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.marginals import (
    MAX_ROWS,
    MarginalGame,
    MarginalQueries,
    SyntheticTable,
    other_mask,
    synthetic_table,
    table_errors,
)
from dpviz.specification import Control
from dpviz.ui import explain
from dpviz.ui.controls import Panel, draw_errors, input_error
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import show_table
from dpviz.ui.uploads.file import NOTICE

ROWS = Control("table_rows", "Rows of the table", texts.TABLE_ROWS_HELP, None, int, 1, MAX_ROWS, optional=True)
WORST_TABLES = 8  # number of columns, or pairs of columns, in the table of the largest errors


@dataclass(frozen=True)
class Candidate:
    """The synthetic table that can be drawn from what one method's first run released.

    shares : (|Z|,) the released histogram over all combinations of categories. expected_error : upper bound on the
    expected largest error of its cells, infinite where none is known. other_share : its share of rows with "other" in
    some column.
    """

    arm: Arm
    shares: np.ndarray
    table: SyntheticTable
    expected_error: float
    other_share: float

    @property
    def error_bound(self) -> float:
        """Upper bound on the expected largest error of the table: that of the histogram plus that of drawing rows."""
        return self.expected_error + self.table.added


@st.cache_resource(max_entries=32, scope="session", show_spinner=False)
def _build_table(problem_json: str, shares: np.ndarray, rows: int, without_other: bool) -> SyntheticTable:
    """Draw a table of `rows` rows from the histogram `shares` (|Z|,), for the problem with this JSON text.

    without_other : true to leave out rows with "other" in any column.
    """
    problem = ProblemSpecification.from_json(problem_json)
    assert isinstance(problem, MarginalQueries)
    return synthetic_table(problem.marginals(), shares, rows, without_other)


def show(panel: Panel, run: Run, trace: Trace, game: MarginalGame | None) -> None:
    """Draw a comparison of the tables of all methods, and one table to download.

    game : the game with its rows, for diagnostics; None where these are off.
    """
    problem = run.experiment.problem
    assert isinstance(problem, MarginalQueries)
    domain = problem.data.facts()
    labels = {label for label, arm_trace in trace.arm_traces.items() if arm_trace.private and "x" in arm_trace.output}
    arms = [arm for arm in run.experiment.arms if arm.label in labels]
    if not arms:
        return
    st.subheader("Synthetic table", anchor=False)
    left, middle, right = st.columns([2, 3, 2], vertical_alignment="bottom", gap="medium")
    with middle:
        rows = panel.number(ROWS, ROWS.name, empty=f"{domain.n:,}")
    has_other = other_mask(domain)  # (|Z|,) true for combinations with "other" in some column
    without_other = False
    if has_other.any():
        help = (
            "Rows with “other” in any column are left out, and their share goes to the rest. For data that have none."
        )
        with right:
            without_other = panel.switch("without_other", "Leave out “other”", False, help)
    if input_error(ROWS, rows):
        return
    candidates = []
    for arm in arms:
        with draw_errors():
            candidates.append(_build_candidate(run, trace, arm, has_other, int(rows or domain.n), without_other))
    if not candidates:
        return
    best = min(candidates, key=lambda candidate: candidate.error_bound)
    by_label = {candidate.arm.label: candidate for candidate in candidates}
    with left:
        help = "Whose histogram rows are drawn from."
        candidate = by_label[panel.one_of("table_of", "Table of", by_label, help, best.arm.label)]
    _compare(run.experiment, candidates, game)
    _download(panel, run, candidate, domain)
    _remarks(run, candidate, best, without_other)
    if game is not None:
        _worst_tables(run.experiment, candidate, game)


def _build_candidate(
    run: Run, trace: Trace, arm: Arm, has_other: np.ndarray, rows: int, without_other: bool
) -> Candidate:
    """Draw the table of an arm's first run, and bound its error. Raises UserError if no table can be drawn.

    has_other : (|Z|,) true for combinations with "other" in some column. without_other : true to leave these out.
    """
    problem, arm_trace = run.experiment.problem, trace.arm_traces[arm.label]
    assert isinstance(problem, MarginalQueries)
    shares = arm_trace.output["x"][0]
    fit_errors = arm_trace.last("fit_error")  # (R,); empty for a method that releases none, whose bound needs none
    expected_error = bounds.histogram_error(
        arm.algorithm,
        run.plans[arm.label],
        problem.marginals(),
        rounds=arm_trace.iterations[-1],
        fit_error=float(fit_errors[0]) if len(fit_errors) else math.inf,
    )
    table = _build_table(problem.to_json(), shares, rows, without_other)
    return Candidate(arm, shares, table, expected_error, float(shares[has_other].sum()))


def _compare(experiment: Experiment, candidates: list[Candidate], game: MarginalGame | None) -> None:
    """Draw a row for each method: the bound on the error of its synthetic table and, as a diagnostic, the error.

    game : the game with its rows, for the diagnostic; None for no diagnostic.
    """
    columns = {
        "Method": [candidate.arm.label for candidate in candidates],
        "Worst error, at most about": [
            rounded_up(candidate.error_bound, digits=2) if math.isfinite(candidate.error_bound) else None
            for candidate in candidates
        ],
        "of which: rows": [candidate.table.added for candidate in candidates],
    }
    if any(candidate.other_share for candidate in candidates):
        columns["Rows with “other”"] = [100 * candidate.other_share for candidate in candidates]
    if game is not None:
        truth = game.true_answers()  # (q,)
        columns["Worst error (not private)"] = [
            float(np.abs(_cells(game, candidate) - truth).max()) for candidate in candidates
        ]
    help = {
        "Worst error, at most about": "Of any cell's share of rows: a bound on its mean for the released histogram, "
        "from public and released numbers, plus what the rows add. Empty: nothing useful is known without the data.",
        "of which: rows": "Largest difference between a cell's share in the table and in the released histogram. "
        "Computed from these very rows; the more rows, the smaller.",
        "Rows with “other”": "Share of the released histogram in which some column is “other”. All methods start from "
        "equal shares, “other” included; the less budget or the fewer rounds, the more of that start is left.",
        "Worst error (not private)": "Of this very table, against the raw data.",
    }
    show_table(
        pd.DataFrame(columns),
        column_config={  # the rows with "other" are in percent
            name: st.column_config.NumberColumn(
                help=help.get(name), format="%.1f %%" if name.startswith("Rows") else "%.2g"
            )
            for name in columns
            if name != "Method"
        },
        alt="What may be expected of the synthetic table of each method",
    )
    if game is not None:
        st.caption(f"Last column: {explain.diagnostic_sentence(1, experiment.problem.public)}")


def _cells(game: MarginalGame, candidate: Candidate) -> np.ndarray:
    """Return the shares (q,) of the table's rows in the cells of its marginals."""
    histogram = candidate.table.counts / candidate.table.rows  # (|Z|,)
    return game.answers(histogram[None])[0]  # `answers` takes histograms (R, |Z|): here one


def _download(panel: Panel, run: Run, candidate: Candidate, domain: CategoricalFacts) -> None:
    """Draw the button that saves a synthetic table, with its error and with what protects it."""
    error = "No useful bound on its error is known"
    if math.isfinite(candidate.error_bound):
        error = f"Worst error at most about {short_up(candidate.error_bound)}"
    experiment, trace = run.experiment, run.job.trace
    note = "" if trace is None else trace.time_note  # on a run that was stopped
    rests_on_condition = not experiment.public and (experiment.condition or note)
    comments = [f"Guarantee: {experiment.promise}. {note}".rstrip()] if rests_on_condition else []
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Synthetic table (CSV)",
            lambda: as_csv(candidate.table.frame(domain), comments).encode(),
            file_name="dpviz_synthetic_table.csv",
            mime="text/csv",
            key=panel.key("synthetic_csv"),
            icon=":material/download:",
            on_click="ignore",
            help="Rows drawn from what one run of the method released.",
        )
        explain.privacy_badge(run.plans[candidate.arm.label].privacy)
        privacy = f"{explain.release_sentence(run.experiment, 1)} {_may_leave(run)}"
        st.caption(f"{candidate.table.rows:,} rows of {candidate.arm.label}. {error}. {privacy}")


def _may_leave(run: Run) -> str:
    """Return sentences that say if the table may be published, and on which conditions.

    They follow `explain.release_sentence`, which names the facts that were read from the data.
    """
    experiment, trace = run.experiment, run.job.trace
    if experiment.problem.public:
        return "It may leave this page: the data are public."
    if experiment.seed is not None:
        return (
            "**It must not leave this page**: who knows the fixed seed can subtract the noise. Switch “Fixed seed” off "
            f"and run again. {NOTICE}"
        )
    if experiment.problem.from_data:
        return f"**It must not leave this page** unless these were known beforehand. {NOTICE}"
    if trace is not None and trace.time_note:  # stopped at a time that depends on the data
        return f"**It must not leave this page**. {trace.time_note} {NOTICE}"
    return f"As far as the guarantee goes it may leave this page: nobody knows the seed of its noise. {NOTICE}"


def _remarks(run: Run, candidate: Candidate, best: Candidate, without_other: bool) -> None:
    """Draw remarks on the weaknesses of a method's table, and on the method with the smallest bound, if much smaller.

    best : the table of that method. without_other : true if rows with "other" are left out.
    """
    remarks = []
    method, plan = candidate.arm.algorithm, run.plans[candidate.arm.label]
    if isinstance(method, SyntheticData) and method.release == "rows":
        draws = round(plan.resolved["draws"] * plan.iterations)
        if draws < candidate.table.rows:
            remarks.append(
                f"{candidate.arm.label} released {draws:,} drawn rows, the first of them drawn at random from all "
                "combinations; a longer table repeats them."
            )
    if best.error_bound < 0.5 * candidate.error_bound:
        remarks.append(f"The table of {best.arm.label} promises less: {short_up(best.error_bound)} at most.")
    if without_other:
        remarks.append(f"Rows with “{OTHER}” are left out: right if the data have none, which you declare here.")
    if remarks:
        st.info(" ".join(remarks), icon=":material/lightbulb:")


def _worst_tables(experiment: Experiment, candidate: Candidate, game: MarginalGame) -> None:
    """Draw the columns, or pairs of columns, in which a synthetic table has the largest errors: a diagnostic."""
    errors = table_errors(game.marginals, game.true_answers(), _cells(game, candidate))[:WORST_TABLES]
    heading = st.container(horizontal=True, vertical_alignment="center", gap="small")
    heading.markdown(f"**Where the table of {candidate.arm.label} is worst**", width="stretch")
    with heading:
        explain.privacy_badge("not private")
    names = ("Columns", "Worst cell", "True share", "Share in the table", "Error", "Mean error of its cells")
    show_table(
        pd.DataFrame(errors, columns=names),
        column_config={name: st.column_config.NumberColumn(format="%.4f") for name in names[2:]},
        alt="The columns whose marginal table has the largest error, with the worst cell",
    )
    st.caption(explain.diagnostic_sentence(1, experiment.problem.public))
