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
from dpviz.ui.markdown import plain, show_table

ALL = "all rows"
NAMED = 3  # of the coefficients, in words
GUESS = "Always guessing the majority"
REFERENCES = ("Best on average, without privacy", "Fairest, without privacy", "The game's optimum, without privacy")


# ------------------------------------------------------------------------------------------------------------- released


def released(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the release of the first run of each private method: the model by column, and the weights of the groups."""
    problem = run.experiment.problem
    arm_traces = released_model.of_each(trace)
    if not arm_traces or not isinstance(problem, GroupLoss | LossMatrix):
        return
    weights = pd.DataFrame({label: arm_trace.output["y"][0] for label, arm_trace in arm_traces.items()})
    weights.insert(0, "group", problem.data.facts().groups)
    sentences = {label: _summarise(problem, arm_trace) for label, arm_trace in arm_traces.items()}
    model = released_model.coefficients(problem.data.facts())
    model = model.assign(**{label: _vector(problem, arm_trace) for label, arm_trace in arm_traces.items()})
    released_model.show(panel, run, sentences, model, _meaning(problem), weights)


def _vector(problem: GroupLoss | LossMatrix, arm_trace: ArmTrace) -> np.ndarray:
    """Return the first run's model (d,): a coefficient for each feature, or a share for each strategy."""
    x = arm_trace.output["x"][0]
    return to_ball(x, problem.radius) if isinstance(problem, GroupLoss) else x


def _summarise(problem: GroupLoss | LossMatrix, arm_trace: ArmTrace) -> str:
    """Describe the released model in one sentence."""
    facts, values, y = problem.data.facts(), _vector(problem, arm_trace), arm_trace.output["y"][0]
    largest = np.argsort(-np.abs(values), kind="stable")[:NAMED]
    sign = "+" if isinstance(problem, GroupLoss) else ""
    coefficients = ", ".join(f"{plain(facts.names[j])} {values[j]:{sign}.3f}" for j in largest if values[j])
    group = f"the game weights {plain(facts.groups[int(np.argmax(y))])} most ({y.max():.0%})"
    if not isinstance(problem, GroupLoss):
        return f"plays {coefficients}; {group}."
    size = float(np.abs(values).sum())
    distance = f"it has moved ‖w‖₁ = {short(size)} away from the model 0, of at most r = {short_up(problem.radius)}"
    return f"{distance}; largest coefficients: {coefficients or 'none'}; {group}."


def _meaning(problem: GroupLoss | LossMatrix) -> str:
    if isinstance(problem, LossMatrix):
        return f"Columns: how often each strategy is played. {texts.GROUP_WEIGHTS}"
    constant = f", the {CONSTANT} being 1" * (CONSTANT in problem.data.facts().names)
    return (
        "Columns: a row is predicted positive where the sum of coefficient × value is above 0, each value scaled from "
        f"its range to [-1, 1]{constant}. {texts.GROUP_WEIGHTS}"
    )


# ---------------------------------------------------------------------------------------------------------- diagnostics


class Measured(NamedTuple):
    """Measures of the models of one method or reference in all R runs and G groups.

    means : (R, G + 1) mean losses by group and, last, of all rows. weighed : (R, G) losses as the game weighs them.
    rates : error and selection rates; None where the problem has no classes.
    """

    means: np.ndarray
    weighed: np.ndarray
    rates: Rates | None

    @property
    def losses(self) -> texts.Losses:
        """Medians over the runs of the mean loss of all rows and of the worst group."""
        return texts.Losses(
            float(np.median(self.means[:, -1])), float(np.median(np.nanmax(self.means[:, :-1], axis=1)))
        )


def diagnostics(panel: Panel, run: Run, trace: Trace, game: GroupedGame) -> Shown:
    """Draw losses of each method in each group next to those of references without privacy: reads the raw data.

    Returns the charts.
    """
    arm_traces = {label: arm_trace for label, arm_trace in trace.lanes.items() if arm_trace.output}
    measured = _measure_models(panel, run, game, arm_traces)
    label = panel.named("groups_of", "Losses of", arm_traces, "Whose model is compared.")
    names = [plain(name) for name in game.groups]
    selected, (average, fairest, game_optimum) = measured[label], (measured[name] for name in REFERENCES)
    medians = np.median(selected.means[:, :-1], axis=0), np.median(selected.weighed, axis=0)
    warning = texts.shares_differ(names, game.counts, game.declared, CLOSE)
    if warning:
        st.warning(f"{warning} **Not private**: it counts the rows.", title="The game's shares are not the real ones")
    st.info(texts.worst(plain(label), names, *medians, game.counts, game.shares), icon=":material/balance:")
    guess = game.majority()
    if selected.rates is not None and guess is not None:
        sentence = texts.guessing(plain(label), selected.rates, guess, int(game.counts.sum()))
        if sentence:
            st.warning(f"{sentence} **Not private**: it reads the rows.", title="Beside always guessing the majority")
    privacy = explain.diagnostic(run.experiment.replicates, run.experiment.problem.public)
    caption = (
        "Mean loss of each group's rows, and the same times found share / share in the game, which is what it plays "
        f"for; at the {'released ' * arm_traces[label].private}model of {label}. "
        f"{explain.spread(run.experiment.replicates)} {privacy}"
    )
    losses = selected.means[:, :-1], selected.weighed, fairest.means[0, :-1], average.means[0, :-1]
    chart = charts.show(figures.group_losses(game.groups, *losses, caption=caption), panel.key("chart_groups"))
    wrong_shares = None if game.shares_are_right else game_optimum.losses
    st.markdown(texts.prices(plain(label), average.losses, fairest.losses, wrong_shares, selected.losses))
    _tables(game, measured, privacy)
    return [chart]


def _measure_models(
    panel: Panel, run: Run, game: GroupedGame, arm_traces: Mapping[str, ArmTrace]
) -> dict[str, Measured]:
    """Return the measures of every method's and reference's models by name, computed once for a run."""
    key = panel.key("measured_groups")
    cached = st.session_state.get(key)
    if cached is None or cached[0] is not run.job or not set(arm_traces) <= set(cached[1]):
        models = {label: arm_trace.output["x"] for label, arm_trace in arm_traces.items()}
        models |= zip(REFERENCES, (game.best_on_average(), game.fairest(), game.best_in_game()), strict=True)
        cached = (
            run.job,
            {name: Measured(game.mean_losses(x), game.group_losses(x), game.rates(x)) for name, x in models.items()},
        )
        st.session_state[key] = cached
    return cached[1]


def _tables(game: GroupedGame, measured: Mapping[str, Measured], privacy: str) -> None:
    """Draw tables of the rows per group, and of every measure of every model in every group."""
    with explain.heading("What each method does to each group"):
        explain.privacy_badge("not private")
    total = ALL if ALL not in game.groups else f"{ALL} of the table"
    groups = pd.DataFrame(
        {"Group": game.groups, "Rows": game.counts, "Found share": game.found, "Share in the game": game.shares}
    )
    shares = {name: st.column_config.NumberColumn(format="%.4f") for name in ("Found share", "Share in the game")}
    measures = {
        "Mean loss": {name: outcome.means for name, outcome in measured.items()},
        "As the game weighs it": {name: outcome.weighed for name, outcome in measured.items()},
    }
    if all(outcome.rates is not None for outcome in measured.values()):
        rates = {name: outcome.rates for name, outcome in measured.items() if outcome.rates is not None}
        guess = game.majority()
        rates |= {} if guess is None else {GUESS: guess}
        measures |= {
            "Error rate": {name: rate.error for name, rate in rates.items()},
            "Selection rate": {name: rate.selection for name, rate in rates.items()},
            "True-positive rate": {name: rate.true_positive for name, rate in rates.items()},
        }
    for tab, (title, values) in zip(st.tabs(["Rows", *measures]), [("", None), *measures.items()], strict=True):
        if values is None:
            with tab:
                show_table(groups, column_config=shares, alt="Rows and shares of every group")
            continue
        rows = [np.median(samples, axis=0).tolist() for samples in values.values()]
        table = pd.DataFrame(rows, pd.Index(values, name="Model"), [*game.groups, total][: len(rows[0])])
        formats = {name: st.column_config.NumberColumn(format="%.4f") for name in table}
        with tab:
            show_table(table, f"{title} by model and group", column_config=formats, placeholder="–", index=True)
    st.caption(
        "Medians over the runs. Selection rate: share of rows predicted positive; true-positive rate: the same among "
        f"the rows that are positive. {privacy}"
    )
