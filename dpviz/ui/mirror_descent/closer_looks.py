"""Closer looks at a game: at its plan, each in a tab that is computed only while it is open; and, after a run on
groups, at the released model and, as diagnostics, at its losses and rates in each group."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets.uploads.upload import CONSTANT
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.mirror_descent import (
    CertifiedSampling,
    bounds,
    choice_figures,
    figures,
    planning,
    presets,
    rates,
    sampling_bias,
    texts,
)
from dpviz.families.mirror_descent.methods.algorithms import VertexSampling
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures, sweep_figures
from dpviz.plots.elements.chart import Chart
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameFacts, to_ball
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.grouped import CLOSE, GroupedGame, Rates
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.specification import Control
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts, explain, splits
from dpviz.ui.controls import Panel, draw_errors, input_error
from dpviz.ui.experiment import guarantee, results
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.plan import Charts, PlanView
from dpviz.ui.experiment.run import Run
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import escape_name, show_table

# ---------------------------------------------------------------------------------------------------- results on groups

ALL = "all rows"  # title of the column behind those of the groups
MAX_NAMED = 3  # largest number of coefficients that the sentence about a model names
GUESS = "Always guessing the majority"
# Models without privacy: with the smallest mean loss, with the smallest loss of the worst group, and that of the game.
REFERENCES = ("Best on average, without privacy", "Fairest, without privacy", "The game's optimum, without privacy")


# ------------------------------------------------------------------------------------------------------------- released


def show_released(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the release of the first run of each private method: the model, and the game's weights of the groups."""
    problem = run.experiment.problem
    arm_traces = results.private_traces(trace)
    if not arm_traces or not isinstance(problem, GroupLoss | LossMatrix):
        return
    weights = pd.DataFrame({label: arm_trace.output["y"][0] for label, arm_trace in arm_traces.items()})
    weights.insert(0, "group", problem.data.facts().groups)
    sentences = {label: _summarise(problem, arm_trace) for label, arm_trace in arm_traces.items()}
    model = results.coefficients(problem.data.facts())
    model = model.assign(**{label: _vector(problem, arm_trace) for label, arm_trace in arm_traces.items()})
    results.show_model(panel, run, sentences, model, meaning=_meaning(problem), weights=weights)


def _vector(problem: GroupLoss | LossMatrix, arm_trace: ArmTrace) -> np.ndarray:
    """Return the model (d,) of an arm's first run: a coefficient for each feature, or a share for each strategy.

    In the game of groups, x is a point of a simplex that stands for a vector in a ball of the ℓ1 norm.
    """
    x = arm_trace.output["x"][0]
    return to_ball(x, problem.radius) if isinstance(problem, GroupLoss) else x


def _summarise(problem: GroupLoss | LossMatrix, arm_trace: ArmTrace) -> str:
    """Return a sentence on the model that an arm's first run released: its largest coefficients, and the group that the
    game weights most."""
    facts, values, y = problem.data.facts(), _vector(problem, arm_trace), arm_trace.output["y"][0]
    largest = np.argsort(-np.abs(values), kind="stable")[:MAX_NAMED]
    sign = "+" if isinstance(problem, GroupLoss) else ""
    coefficients = ", ".join(f"{escape_name(facts.names[j])} {values[j]:{sign}.3f}" for j in largest if values[j])
    heaviest_group = f"the game weights {escape_name(facts.groups[int(np.argmax(y))])} most ({y.max():.0%})"
    if not isinstance(problem, GroupLoss):
        return f"plays {coefficients}; {heaviest_group}."
    size = float(np.abs(values).sum())
    distance = f"it has moved ‖w‖₁ = {short(size)} away from the model 0, of at most r = {short_up(problem.radius)}"
    return f"{distance}; largest coefficients: {coefficients or 'none'}; {heaviest_group}."


def _meaning(problem: GroupLoss | LossMatrix) -> str:
    """Explain how to read the columns of the table of released models."""
    if isinstance(problem, LossMatrix):
        return f"Columns: how often each strategy is played. {texts.GROUP_WEIGHTS}"
    constant = f", the {CONSTANT} being 1" if CONSTANT in problem.data.facts().names else ""
    return (
        "Columns: a row is predicted positive where the sum of coefficient × value is above 0, each value scaled from "
        f"its range to [-1, 1]{constant}. {texts.GROUP_WEIGHTS}"
    )


# ---------------------------------------------------------------------------------------------------------- diagnostics


class Measured(NamedTuple):
    """Losses and rates of the models of one method, or of one reference, in all R runs and G groups.

    means : (R, G + 1) mean losses by group (NaN for one without rows) and, last, of all rows. weighed : (R, G) losses
    as the game weighs them, the mean loss times the group's actual share of the rows / its share in the game. rates :
    error and selection rates; None where the problem has no classes.
    """

    means: np.ndarray
    weighed: np.ndarray
    rates: Rates | None

    @property
    def losses(self) -> texts.Losses:
        """The mean loss of all rows, and that of the worst group: medians over the runs."""
        of_worst_group = np.nanmax(self.means[:, :-1], axis=1)  # (R,)
        return texts.Losses(float(np.median(self.means[:, -1])), float(np.median(of_worst_group)))


def diagnostics(panel: Panel, run: Run, trace: Trace, game: GroupedGame) -> Charts:
    """Draw losses in each group: of one method a chart, next to references without privacy, and of all methods tables.

    They read the raw data. Returns the charts.
    """
    arm_traces = {label: arm_trace for label, arm_trace in trace.arm_traces.items() if arm_trace.output}
    measured = _measure_models(panel, run, game, arm_traces)
    label = panel.one_of("groups_of", "Losses of", arm_traces, "Whose model is compared.")
    group_names = [escape_name(name) for name in game.groups]
    selected = measured[label]
    average, fairest, game_optimum = (measured[name] for name in REFERENCES)
    means = selected.means[:, :-1]  # (R, G), without that of all rows
    median_means, median_weighed = np.median(means, axis=0), np.median(selected.weighed, axis=0)
    warning = texts.shares_differ(group_names, game.counts, game.declared_shares, tolerance=CLOSE)
    if warning:
        st.warning(f"{warning} **Not private**: it counts the rows.", title="The game's shares are not the real ones")
    worst = texts.worst(escape_name(label), group_names, median_means, median_weighed, game.counts, game.shares)
    st.info(worst, icon=":material/balance:")
    guess = game.majority()
    if selected.rates is not None and guess is not None:
        sentence = texts.guessing(escape_name(label), selected.rates, guess, int(game.counts.sum()))
        if sentence:
            st.warning(f"{sentence} **Not private**: it reads the rows.", title="Beside always guessing the majority")
    privacy = explain.diagnostic_sentence(run.experiment.replicates, run.experiment.problem.public)
    model = "released model" if arm_traces[label].private else "model"
    caption = (
        "Mean loss of each group's rows, and the same times found share / share in the game, which is what it plays "
        f"for; at the {model} of {label}. "
        f"{explain.spread_sentence(run.experiment.replicates)} {privacy}"
    )
    fair_losses, average_losses = fairest.means[0, :-1], average.means[0, :-1]  # (G,) each, of a single model
    figure = figures.group_losses(game.groups, means, selected.weighed, fair_losses, average_losses, caption=caption)
    chart = charts.show(figure, panel.key("chart_groups"))
    # With the right shares the game's optimum is the fairest model, so it is not named again.
    in_game = None if game.shares_are_right else game_optimum.losses
    st.markdown(texts.prices(escape_name(label), average.losses, fairest.losses, in_game, selected.losses))
    _tables(game, measured, privacy)
    return [chart]


def _measure_models(
    panel: Panel, run: Run, game: GroupedGame, arm_traces: Mapping[str, ArmTrace]
) -> dict[str, Measured]:
    """Return the losses and rates of the models of every method and reference, by its name.

    They are computed once for a run and kept in the session, as the references take long.
    """
    key = panel.key("measured_groups")
    job, measured = st.session_state.get(key, (None, {}))
    if job is not run.job or not set(arm_traces) <= set(measured):  # another run, or more methods
        models = {label: arm_trace.output["x"] for label, arm_trace in arm_traces.items()}
        models |= zip(REFERENCES, (game.best_on_average, game.fairest, game.best_in_game), strict=True)
        measured = {
            name: Measured(game.mean_losses(x), game.group_losses(x), game.rates(x)) for name, x in models.items()
        }
        st.session_state[key] = run.job, measured
    return measured


def _tables(game: GroupedGame, measured: Mapping[str, Measured], privacy: str) -> None:
    """Draw tabs: a table of the rows of every group, and one for each kind of loss or rate, by model and group.

    privacy : the sentence on what of it may be published.
    """
    with explain.heading("What each method does to each group"):
        explain.privacy_badge("not private")
    total = ALL if ALL not in game.groups else f"{ALL} of the table"  # no second column may have the same title
    groups = pd.DataFrame(
        {"Group": game.groups, "Rows": game.counts, "Found share": game.actual_shares, "Share in the game": game.shares}
    )
    shares = {name: st.column_config.NumberColumn(format="%.4f") for name in ("Found share", "Share in the game")}
    # By title of the tab and by model, (R, G) or (R, G + 1).
    values_by_title = {
        "Mean loss": {name: outcome.means for name, outcome in measured.items()},
        "As the game weighs it": {name: outcome.weighed for name, outcome in measured.items()},
    }
    rates = {name: outcome.rates for name, outcome in measured.items() if outcome.rates is not None}
    if rates:  # all models predict classes, or none does
        guess = game.majority()
        if guess is not None:
            rates[GUESS] = guess
        values_by_title |= {
            "Error rate": {name: rate.error for name, rate in rates.items()},
            "Selection rate": {name: rate.selection for name, rate in rates.items()},
            "True-positive rate": {name: rate.true_positive for name, rate in rates.items()},
        }
    rows_tab, *tabs = st.tabs(["Rows", *values_by_title])
    with rows_tab:
        show_table(groups, column_config=shares, alt="Rows and shares of every group")
    for tab, (title, values) in zip(tabs, values_by_title.items(), strict=True):
        rows = [np.median(samples, axis=0).tolist() for samples in values.values()]
        columns = [*game.groups, total][: len(rows[0])]  # values (R, G) have no column of all rows
        table = pd.DataFrame(rows, pd.Index(values, name="Model"), columns)
        formats = {name: st.column_config.NumberColumn(format="%.4f") for name in table}
        with tab:
            show_table(table, alt=f"{title} by model and group", column_config=formats, index=True)
    st.caption(
        "Medians over the runs. Selection rate: share of rows predicted positive; true-positive rate: the same among "
        f"the rows that are positive. {privacy}"
    )


# ---------------------------------------------------------------------------------------------------- looks at the plan

VERTICES = Control(
    "maurey_d", "Vertices", "Vertices of the strategy that is sampled.", 100, int, 2, 3000, symbol="d", scale="log"
)
SUBJECTS = {
    "value": "A curved value",
    "gradient": "This game's gradients",
    "spread": "Their spread",
    "tail": "Rare events",
}
DRAWS = (1, 2, 4, 8, 16, 32, 64)  # numbers K of vertices drawn, at which the bias is measured
ROWS, REPETITIONS = 500, 1000  # rows of the game that a measurement reads, and simulated draws at each K
MAX_VERTICES = 2000  # with more, a measurement would take more than a few seconds


def sampling_bias_tab(panel: Panel, view: PlanView) -> None:
    """Draw the error from playing the average of a few drawn vertices in place of a strategy.

    The visitor chooses where it is seen: in a curved value, or in the mean or spread of this game's gradients, or in
    rare events.
    """
    st.markdown(texts.SAMPLING_BIAS)
    subject = panel.choice("maurey_of", "Look at", SUBJECTS, "value", "What is seen through drawn vertices.")
    if subject == "value":
        with st.columns([1, 2])[0]:
            vertices = int(panel.number(VERTICES, "maurey_d") or VERTICES.default)
        vertices = min(max(vertices, 2), 3000)  # an address may have a number beyond the range of the control
        charts.show(figures.value_bias(_measure(vertices)), panel.key("chart_maurey"))
    elif subject == "tail":
        charts.show(choice_figures.tails(draws=(1, 4, 16, 64)), panel.key("chart_tail"))
    else:
        _gradients(panel, view, subject)


def _gradients(panel: Panel, view: PlanView, subject: str) -> None:
    """Draw the bias or the spread of the gradients of the user's game, on its first rows.

    No budget pays for reading them, so it is drawn for public data only. subject : "gradient" (bias) or "spread".
    """
    facts, problem = facts_of(view), view.experiment.problem
    if not problem.public:
        st.info("This look reads the rows, and no budget pays for it. It is there for generated and bundled data.")
        return
    if max(facts.d_x, facts.d_y) > MAX_VERTICES:
        st.info(f"Choose at most {MAX_VERTICES:,} strategies of each player: the look would take too long.")
        return
    bias = _measure_game(problem.to_json(), subject)
    caption = (
        f"At uniform strategies, {REPETITIONS:,} simulated draws, the first {min(ROWS, facts.n):,} rows. "
        f"{explain.diagnostic_sentence(1, problem.public)}"
    )
    if subject == "gradient":
        chart = choice_figures.gradient_bias(bias, facts, caption)
    else:
        chart = choice_figures.gradient_spread(bias, caption)
    charts.show(chart, panel.key(f"chart_{subject}"))


@st.cache_data(max_entries=32, show_spinner=False)
def _measure(vertices: int) -> sampling_bias.SamplingBias:
    """Measure the bias of ½ ‖·‖² at the uniform strategy on `vertices`, their number. It reads no data."""
    return sampling_bias.measure_value_bias(DRAWS, vertices, repetitions=2000, seed=0)


@st.cache_data(max_entries=32, show_spinner="Drawing vertices…")
def _measure_game(problem_json: str, subject: str) -> sampling_bias.SamplingBias:
    """Measure the bias ("gradient") or the spread ("spread") of gradients at uniform strategies.

    problem_json : JSON text of the game.
    """
    game = ProblemSpecification.from_json(problem_json).build()
    x, y = game.facts.uniform(1)  # type: ignore[attr-defined]  # (1, d_x) and (1, d_y)
    rows, seed = slice(0, min(ROWS, game.facts.n)), 0
    measure = sampling_bias.measure_gradient_bias if subject == "gradient" else sampling_bias.measure_gradient_spread
    strategies = x[0], y[0]
    return measure(game, strategies, DRAWS, repetitions=REPETITIONS, seed=seed, rows=rows)  # type: ignore[arg-type]


TARGET = Control(
    "target_gap", "Target gap", "The gap that you could live with.", 0.1, float, 0.001, 2.0, symbol="α", scale="log"
)
REALS = ("Rate", "of which privacy", "Known before", "τ")  # columns of the paper's table that are no whole numbers


def budget_split(panel: Panel, view: PlanView) -> None:
    """Draw the parts of the budget as far as the game has them: the split between the players, the part of a
    certificate, and the part that a release of the groups' shares costs."""
    facts, budget, problem = facts_of(view), view.experiment.row_budget, view.experiment.problem
    if not budget.private:
        st.info("Without privacy there is no budget to split.")
        return
    both_pay = planning.both_pay(facts)
    if both_pay:
        players_split(panel, view)
    draw_parts: list[Callable[[], None]] = []
    if facts.gap_change:  # 0 where no gap is computed exactly, so that none can be released
        draw_parts.append(lambda: _certificate(panel, view))
    if isinstance(problem, GroupLoss | LossMatrix):
        draw_parts.append(lambda: _group_shares(panel, view))
    if draw_parts:
        for column, draw_part in zip(st.columns(2, gap="medium"), draw_parts, strict=False):  # one fills half a row
            with column:
                draw_part()
    elif not both_pay:
        st.info("One player pays for everything here, and there is nothing else to buy.")


def _certificate(panel: Panel, view: PlanView) -> None:
    """Draw the width of a certificate of the gap against its part of the budget, with the part that is set, if any."""
    facts, budget = facts_of(view), view.experiment.row_budget
    methods = (arm.algorithm for arm in view.experiment.arms)
    certificate_share = next(
        (method.certificate_share for method in methods if isinstance(method, CertifiedSampling)), None
    )
    charts.show(choice_figures.certificate(facts, budget, chosen=certificate_share), panel.key("chart_certificate"))


def _group_shares(panel: Panel, view: PlanView) -> None:
    """Draw what a release of the groups' shares of the rows costs, and how exact it is."""
    problem = view.experiment.problem
    assert isinstance(problem, GroupLoss | LossMatrix)
    data, budget = problem.data.facts(), view.experiment.budget  # both costs and budget are those of a person
    chart = choice_figures.group_shares(
        data.n, data.smallest_share, budget, costs_paid=data.shares_costs, rows_per_person=problem.rows_per_person
    )
    charts.show(chart, panel.key("chart_shares"))


def rows_for_gap(panel: Panel, view: PlanView) -> None:
    """Draw how many rows a gap that the visitor sets needs, by the bound and by measured runs."""
    st.markdown(texts.ROWS_NEEDED)
    if not view.experiment.budget.private:
        st.info("Without privacy the bound does not depend on the number of rows.")
        return
    with st.columns([1, 2])[0]:
        target = panel.number(TARGET, TARGET.name)
    if input_error(TARGET, target) or target is None:
        return
    facts, method = facts_of(view), sampling(view)
    chart, _ = choice_figures.gap_by_rows(  # the numbers of rows are in the chart, too
        view.experiment.problem,
        facts,
        view.experiment.row_budget,
        float(target),
        method.iterations,
        view.styles,
        draws=method.draws_per_player,
    )
    charts.show(chart, panel.key("chart_rows"))


def paper_bound(panel: Panel, view: PlanView) -> None:
    """Draw the paper's error bound next to the one that this page uses, which is computed from the plan."""
    st.markdown(texts.TWO_ANALYSES)
    budget, facts, method = view.experiment.row_budget, facts_of(view), sampling(view)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its bound for (ε, δ)-DP. State the guarantee as (ε, δ) to compare.")
        return
    if not facts.oscillation_x:
        st.info("The paper's bound is about players who both read data.")
        return
    chart = choice_figures.paper_and_direct_bounds(facts, budget, draws=method.draws, share_x=method.own_share)
    charts.show(chart, panel.key("chart_paper_bound"))


def paper_table(view: PlanView) -> None:
    """Draw the paper's Table 1, evaluated at the user's size, with the best rates known before the paper.

    For synthetic data it is Theorem G.1 alone.
    """
    st.markdown("Rates and parameters of the paper's theorems at your size, and what was known before it.")
    budget, facts = view.experiment.row_budget, facts_of(view)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its rates for (ε, δ)-DP. State the guarantee as (ε, δ) to see the table.")
        return
    rows: list[tuple[rates.TheoremParameters, rates.PreviousRate | None]]
    if isinstance(view.experiment.problem, MarginalQueries):
        queries = facts.d_y // 2  # that player has every query with both signs
        sizes_of_queries = facts.n, facts.d_x, queries, budget.epsilon, budget.delta
        rows = [(rates.synthetic_setting(*sizes_of_queries), rates.previous_query_rate(*sizes_of_queries))]
    else:
        sizes = planning.sizes(facts, budget)
        rows = [(row, rates.previous_rate(sizes, row.result)) for row in rates.table_rows(sizes)]
    help = texts.COLUMNS["theorems"]
    column_config: dict[str, Any] = {
        name: st.column_config.NumberColumn(help=help[name], format="%.3g" if name in REALS else "localized")
        for name in help
    }
    column_config["By"] = st.column_config.TextColumn(help=help["By"])
    show_table(
        [
            {
                "Result": row.theorem,
                "Rate": row.rate,
                "of which privacy": row.private_rate,
                "Known before": previous.rate if previous else None,
                "By": previous.source if previous else None,
                "T": row.rounds,
                "K": row.draws,
                "B": row.batch,
                "τ": row.step_size,
                "U": row.stop or row.refresh,  # a theorem has one of them, or neither
            }
            for row, previous in rows
        ],
        column_config=column_config,
        alt="The paper's theorems with rate, best rate known before, rounds, draws, batch and step size",
    )
    st.caption(f"{texts.RATES} {SETTINGS_ONLY}")


DATA_SETS = replace(sweep_panel.DATA_SETS, name="sweep_data_sets", default=5)
MAX_DIMENSIONS = {"100": "up to 100", "300": "up to 300", "1000": "up to 1,000", "3000": "up to 3,000"}
DIMENSIONS = (10, 30, 100, 300, 1000, 3000)


def tabs(panel: Panel, view: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """Return the functions that draw the tabs, by title."""
    return {
        "Gap against dimension": lambda: _dimension(panel, view),
        "Accounting": lambda: _accounting(panel, view, delta),
        "Where the budget goes": lambda: budget_split(panel, view),
        "Rows for a target": lambda: rows_for_gap(panel, view),
        "Bias of few draws": lambda: sampling_bias_tab(panel, view),
        "The paper's bound": lambda: paper_bound(panel, view),
        "The paper's table": lambda: paper_table(view),
    }


def facts_of(view: PlanView) -> GameFacts:
    """Return the public facts of the game of a view."""
    facts = next(iter(view.plans.values())).facts
    assert isinstance(facts, GameFacts)
    return facts


def sampling(view: PlanView) -> VertexSampling:
    """Return the page's vertex sampling, for figures about it, with the rounds and draws of its plan: the first one, or
    else one with default settings."""
    arms = view.experiment.arms
    methods = {arm.label: arm.algorithm for arm in arms if isinstance(arm.algorithm, VertexSampling)}
    label, method = next(iter(methods.items()), ("", VertexSampling()))
    if method.parameters == "own" or label not in view.plans:
        return method
    planned = {name: int(view.plans[label].resolved[name]) for name in ("rounds", "draws", "draws_y")}
    return method.replaced(iterations=planned.pop("rounds"), parameters="own", **planned)


def _dimension(panel: Panel, view: PlanView) -> None:
    """Draw a sweep of every selected method over the number d of strategies, with a control of the largest d."""
    st.markdown(texts.DIMENSIONS)
    experiment = view.experiment
    if not isinstance(experiment.problem, MatrixGame | QuadraticGame):
        st.info("Choose the matrix game or the quadratic game: their number of strategies can be varied.")
        return
    left, right, _ = st.columns(3, vertical_alignment="bottom")
    with left:
        max_dimension = int(
            panel.choice("sweep_longest", "Strategies", MAX_DIMENSIONS, "1000", "The largest number of strategies.")
        )
    with right:
        data_sets = panel.number(DATA_SETS, DATA_SETS.name)
    sweep: Sweep | None = None
    if not input_error(DATA_SETS, data_sets):
        dimensions = [d for d in DIMENSIONS if d <= max_dimension]
        sweep = presets.dimension_sweep(experiment, dimensions, data_sets=int(data_sets or 1))
    sweep_panel.show_sweep(
        panel.key("sweep"), "Gap against dimension", sweep, lambda result: _draw_sweep(panel, result)
    )


def _draw_sweep(panel: Panel, result: SweepResult) -> None:
    """Draw the results of the sweep so far: the gap against d, and the power laws by which it grows."""
    figure = sweep_figures.metric_by_setting(result, "Strategies of each player", symbol="d")
    chart = Chart(
        figure,
        "Duality gap against the number of strategies",
        "Duality gap against the number of strategies, one line per method; crossovers are marked",
        "n, budget and rounds as set. Median and 10-90 % band of all runs on all data sets. Slopes are those of log "
        "gap against log d, with 95 % intervals over data sets and runs; marks show where curves cross, bars from the "
        "least to the largest value over the data sets. **Not private**: the gap reads the data, which are public.",
        "not private",
    )
    charts.show(chart, panel.key("chart_sweep"))
    sweep_panel.show_laws(result, symbol="d")


def _accounting(panel: Panel, view: PlanView, delta: float) -> None:
    """Draw ε at δ of one method's releases by every accountant, and what the paper's step size costs in truth.

    The first method that draws vertices is selected at first; without one, nothing is drawn.
    """
    st.markdown(texts.ACCOUNTING)
    private = guarantee.only_private(view.plans)
    # `ranges` is empty for a method that draws no vertices.
    default = next((label for label, plan in private.items() if planning.ranges(plan)), None)
    if default is None:
        st.info("Choose a method that draws vertices.")
        return
    labels = [label for label, plan in private.items() if len(plan.events) > 0]  # else there is nothing to account for
    with st.columns([1, 2])[0]:
        label = panel.one_of("accounting_of", "Method", labels, "Whose plan is looked at.", default)
    left, right = st.columns(2, gap="medium")
    with left:
        caption = "The same draws, read by different accountants; the lowest one holds."
        chart = plan_figures.accountant_curves(view.plans[label], delta, "round of one method", caption)
        charts.show(chart, panel.key("chart_accountants"))
    with right:
        _paper_step(panel, view)
    _positions(panel, view)


def _positions(panel: Panel, view: PlanView) -> None:
    """Draw the cost of a row by its position in a single pass over the data, of the first method that makes one.

    Rows that are read early enter more draws, so they cost more.
    """
    for arm in view.experiment.arms:
        method, plan = arm.algorithm, view.plans[arm.label]
        if isinstance(method, VertexSampling) and method.batching == "single" and plan.private:
            charts.show(figures.rho_by_position(plan, arm.label), panel.key("chart_positions"))
            return


def _paper_step(panel: Panel, view: PlanView) -> None:
    """Draw the ε that the draws cost with the step size of the paper's rule, by four ways to account for it."""
    budget = view.experiment.row_budget
    facts = facts_of(view)
    if not isinstance(budget, ApproximateDP) or not (facts.oscillation_x and facts.oscillation_y):
        st.info("The paper states its composition for (ε, δ) and two players who need data.")
        return
    paper_method = sampling(view).replaced(accounting="paper", batching="single", parameters="own", relative_step=1.0)
    with draw_errors():
        plan = paper_method.plan(facts, budget)
        of_row = " of one row" if view.experiment.problem.rows_per_person > 1 else ""
        caption = (
            f"Single pass, T = {plan.iterations:,}, the paper's step τ = {short(plan.resolved['step_size_x'])} at δ = "
            f"{short_up(budget.delta)}{of_row}."
        )
        charts.show(figures.accounting_gain(bounds.paper_costs(plan), caption), panel.key("chart_gain"))


(SHARE_X,) = (control for control in VertexSampling.controls() if control.name == "share_x")
# Settings of the buttons for the split between the players, by the label of the button.
SPLITS: Mapping[str, Mapping[str, Any]] = {
    "Even": {"split": "own", SHARE_X.name: planning.EVEN},
    "Best by the bound": {"split": "bound"},
}
NAMES = ("x, who minimises", "y, who maximises")


def players_split(panel: Panel, view: PlanView) -> None:
    """Draw the split of the budget between the players with its controls, and its bound next to those of the even and
    of the best split."""
    arms = view.experiment.arms
    comparisons: dict[str, bounds.SplitComparison] = {}  # of the methods that have a split
    user_share = None  # the share of x as the user sets it for all methods; None if no method takes it
    for arm in arms:
        comparison = bounds.compare_splits(arm.algorithm, view.plans[arm.label])
        if comparison is not None:
            comparisons[arm.label] = comparison
            if user_share is None and isinstance(arm.algorithm, bounds.SplitMethod) and arm.algorithm.split == "own":
                user_share = comparison.share
    left, right = st.columns([7, 5], gap="medium")
    with right:
        st.caption(texts.PLAYERS if comparisons else f"{texts.PLAYERS} None of the methods chosen has a split.")
        if comparisons:
            splits.buttons(panel, SPLITS)
        if user_share is not None:
            panel.second_slider(SHARE_X, user_share)  # the first one is among the settings of the methods
            with st.expander("As a table"):
                splits.inputs(panel, SHARE_X, user_share, NAMES)
        elif comparisons:
            st.markdown(texts.SPLIT_TAKEN)
    with left:
        _players_chart(panel, view)
    _players_table(comparisons)


def _players_table(comparisons: Mapping[str, bounds.SplitComparison]) -> None:
    """Draw a table with a row for each method: its bound under three splits, the best split, and what players have."""
    if not comparisons:
        return
    rows = []
    for label, comparison in comparisons.items():
        symbol = "σ" if comparison.noisy else "τ"  # noise on a player's gradients, or the player's step size
        x, y = comparison.amounts
        rows.append(
            {
                "Method": label,
                "Yours": short(comparison.yours),
                "Even": short(comparison.even),
                "Best": short(comparison.best),
                "Best share of x": short(comparison.best_share, 2),
                "Player x": f"{symbol} = {short(x)}",
                "Player y": f"{symbol} = {short(y)}",
            }
        )
    show_table(
        rows,
        help=texts.COLUMNS["players"],
        alt="Of every method: the bound with your split, with the even one and with the best one; what each player has",
    )
    st.caption(f"{texts.BOUNDS_ARE_LOOSE} {SETTINGS_ONLY}")


def _players_chart(panel: Panel, view: PlanView) -> None:
    """Draw the bound of vertex sampling against the share of player x, with the share in use marked."""
    facts, budget, method = facts_of(view), view.experiment.row_budget, sampling(view)
    draws = method.draws_per_player
    rounds = min(method.iterations, facts.n)  # a single pass has at most a round for each row
    settings = planning.Sampling(draws, batching=method.batching)
    share_x, _ = method.shares(facts, draws, pure=budget.pure)
    chart = choice_figures.split(facts, budget, rounds, sampling=settings, chosen=share_x)
    charts.show(chart, panel.key("chart_split"))
