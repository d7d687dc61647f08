"""Results of a run on groups: the released model and, as diagnostics, its losses and rates in each group."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets.uploads.upload import CONSTANT
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.mirror_descent import figures, texts
from dpviz.numbers import short, short_up
from dpviz.problems.games.games import to_ball
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.grouped import CLOSE, GroupedGame, Rates
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import released_model
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import escape_name, show_table

ALL = "all rows"  # title of the column behind those of the groups
NAMED = 3  # number of coefficients that the sentence about a model names
GUESS = "Always guessing the majority"
# Models without privacy: with the smallest mean loss, with the smallest loss of the worst group, and that of the game.
REFERENCES = ("Best on average, without privacy", "Fairest, without privacy", "The game's optimum, without privacy")


# ------------------------------------------------------------------------------------------------------------- released


def show_released(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the release of the first run of each private method: the model, and the game's weights of the groups."""
    problem = run.experiment.problem
    arm_traces = released_model.private_traces(trace)
    if not arm_traces or not isinstance(problem, GroupLoss | LossMatrix):
        return
    weights = pd.DataFrame({label: arm_trace.output["y"][0] for label, arm_trace in arm_traces.items()})
    weights.insert(0, "group", problem.data.facts().groups)
    sentences = {label: _summarise(problem, arm_trace) for label, arm_trace in arm_traces.items()}
    model = released_model.coefficients(problem.data.facts())
    model = model.assign(**{label: _vector(problem, arm_trace) for label, arm_trace in arm_traces.items()})
    released_model.show(panel, run, sentences, model, meaning=_meaning(problem), weights=weights)


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
    largest = np.argsort(-np.abs(values), kind="stable")[:NAMED]
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


def diagnostics(panel: Panel, run: Run, trace: Trace, game: GroupedGame) -> Shown:
    """Draw losses in each group: of one method a chart, next to references without privacy, and of all methods tables.

    They read the raw data. Returns the charts.
    """
    arm_traces = {label: arm_trace for label, arm_trace in trace.arm_traces.items() if arm_trace.output}
    measured = _measure_models(panel, run, game, arm_traces)
    label = panel.named("groups_of", "Losses of", arm_traces, "Whose model is compared.")
    names = [escape_name(name) for name in game.groups]
    selected = measured[label]
    average, fairest, game_optimum = (measured[name] for name in REFERENCES)
    means = selected.means[:, :-1]  # (R, G), without that of all rows
    median_means, median_weighed = np.median(means, axis=0), np.median(selected.weighed, axis=0)
    warning = texts.shares_differ(names, game.counts, game.declared, tolerance=CLOSE)
    if warning:
        st.warning(f"{warning} **Not private**: it counts the rows.", title="The game's shares are not the real ones")
    worst = texts.worst(escape_name(label), names, median_means, median_weighed, game.counts, game.shares)
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
    if job is not run.job or not set(arm_traces) <= set(measured):  # another run, or a method that had no output yet
        models = {label: arm_trace.output["x"] for label, arm_trace in arm_traces.items()}
        models |= zip(REFERENCES, (game.best_on_average(), game.fairest(), game.best_in_game()), strict=True)
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
            show_table(table, alt=f"{title} by model and group", column_config=formats, placeholder="–", index=True)
    st.caption(
        "Medians over the runs. Selection rate: share of rows predicted positive; true-positive rate: the same among "
        f"the rows that are positive. {privacy}"
    )
