"""What a run on groups shows: the released model and, as diagnostics, what it does to each group."""

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
    """What the first run of each private method releases: the model by column, and the weights of the groups."""
    problem = run.experiment.problem
    lanes = released_model.of_each(trace)
    if not lanes or not isinstance(problem, GroupLoss | LossMatrix):
        return
    weights = pd.DataFrame({label: lane.output["y"][0] for label, lane in lanes.items()})
    weights.insert(0, "group", problem.data.facts().groups)
    words = {label: _words(problem, lane) for label, lane in lanes.items()}
    model = released_model.coefficients(problem.data.facts())
    model = model.assign(**{label: _vector(problem, lane) for label, lane in lanes.items()})
    released_model.show(panel, run, words, model, _meaning(problem), weights)


def _vector(problem: GroupLoss | LossMatrix, lane: ArmTrace) -> np.ndarray:
    """(d,) the first run's model: a coefficient for each feature, or a share for each strategy."""
    x = lane.output["x"][0]
    return to_ball(x, problem.radius) if isinstance(problem, GroupLoss) else x


def _words(problem: GroupLoss | LossMatrix, lane: ArmTrace) -> str:
    """The released model in one sentence."""
    facts, values, y = problem.data.facts(), _vector(problem, lane), lane.output["y"][0]
    heaviest = np.argsort(-np.abs(values), kind="stable")[:NAMED]
    sign = "+" if isinstance(problem, GroupLoss) else ""
    named = ", ".join(f"{plain(facts.names[j])} {values[j]:{sign}.3f}" for j in heaviest if values[j])
    group = f"the game weights {plain(facts.groups[int(np.argmax(y))])} most ({y.max():.0%})"
    if not isinstance(problem, GroupLoss):
        return f"plays {named}; {group}."
    size = float(np.abs(values).sum())
    far = f"it has moved ‖w‖₁ = {short(size)} away from the model 0, of at most r = {short_up(problem.radius)}"
    return f"{far}; largest coefficients: {named or 'none'}; {group}."


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
    """One method's or reference's models, by group and, last, in all rows: (R, G + 1); weighed (R, G)."""

    means: np.ndarray
    weighed: np.ndarray
    rates: Rates | None

    @property
    def losses(self) -> texts.Losses:
        """Medians over the runs."""
        return texts.Losses(
            float(np.median(self.means[:, -1])), float(np.median(np.nanmax(self.means[:, :-1], axis=1)))
        )


def diagnostics(panel: Panel, run: Run, trace: Trace, game: GroupedGame) -> Shown:
    """What each method does to each group, beside what would be possible without privacy: reads the raw data."""
    lanes = {label: lane for label, lane in trace.lanes.items() if lane.output}
    measured = _kept(panel, run, game, lanes)
    label = panel.named("groups_of", "Losses of", lanes, "Whose model is compared.")
    names = [plain(name) for name in game.groups]
    mine, (average, fairest, in_game) = measured[label], (measured[name] for name in REFERENCES)
    medians = np.median(mine.means[:, :-1], axis=0), np.median(mine.weighed, axis=0)
    warning = texts.shares_differ(names, game.counts, game.declared, CLOSE)
    if warning:
        st.warning(f"{warning} **Not private**: it counts the rows.", title="The game's shares are not the real ones")
    st.info(texts.worst(plain(label), names, *medians, game.counts, game.shares), icon=":material/balance:")
    guess = game.majority()
    if mine.rates is not None and guess is not None:
        told = texts.guessing(plain(label), mine.rates, guess, int(game.counts.sum()))
        if told:
            st.warning(f"{told} **Not private**: it reads the rows.", title="Beside always guessing the majority")
    privacy = explain.diagnostic(run.experiment.replicates, run.experiment.problem.public)
    caption = (
        "Mean loss of each group's rows, and the same times found share / share in the game, which is what it plays "
        f"for; at the {'released ' * lanes[label].private}model of {label}. "
        f"{explain.spread(run.experiment.replicates)} {privacy}"
    )
    losses = mine.means[:, :-1], mine.weighed, fairest.means[0, :-1], average.means[0, :-1]
    chart = charts.show(figures.group_losses(game.groups, *losses, caption=caption), panel.key("chart_groups"))
    wrong_shares = None if game.shares_are_right else in_game.losses
    st.markdown(texts.prices(plain(label), average.losses, fairest.losses, wrong_shares, mine.losses))
    _tables(game, measured, privacy)
    return [chart]


def _kept(panel: Panel, run: Run, game: GroupedGame, lanes: Mapping[str, ArmTrace]) -> dict[str, Measured]:
    """All measures by model, computed once for a run."""
    key = panel.key("measured_groups")
    kept = st.session_state.get(key)
    if kept is None or kept[0] is not run.job or not set(lanes) <= set(kept[1]):
        models = {label: lane.output["x"] for label, lane in lanes.items()}
        models |= zip(REFERENCES, (game.best_on_average(), game.fairest(), game.best_in_game()), strict=True)
        kept = (
            run.job,
            {name: Measured(game.mean_losses(x), game.group_losses(x), game.rates(x)) for name, x in models.items()},
        )
        st.session_state[key] = kept
    return kept[1]


def _tables(game: GroupedGame, measured: Mapping[str, Measured], privacy: str) -> None:
    """Rows per group, and every measure of every model in every group."""
    with explain.heading("What each method does to each group"):
        explain.privacy_badge("not private")
    everyone = ALL if ALL not in game.groups else f"{ALL} of the table"
    groups = pd.DataFrame(
        {"Group": game.groups, "Rows": game.counts, "Found share": game.found, "Share in the game": game.shares}
    )
    shares = {name: st.column_config.NumberColumn(format="%.4f") for name in ("Found share", "Share in the game")}
    wanted = {
        "Mean loss": {name: found.means for name, found in measured.items()},
        "As the game weighs it": {name: found.weighed for name, found in measured.items()},
    }
    if all(found.rates is not None for found in measured.values()):
        rates = {name: found.rates for name, found in measured.items() if found.rates is not None}
        guess = game.majority()
        rates |= {} if guess is None else {GUESS: guess}
        wanted |= {
            "Error rate": {name: found.error for name, found in rates.items()},
            "Selection rate": {name: found.selection for name, found in rates.items()},
            "True-positive rate": {name: found.true_positive for name, found in rates.items()},
        }
    for tab, (title, values) in zip(st.tabs(["Rows", *wanted]), [("", None), *wanted.items()], strict=True):
        if values is None:
            with tab:
                show_table(groups, column_config=shares, alt="Rows and shares of every group")
            continue
        rows = [np.median(found, axis=0).tolist() for found in values.values()]
        table = pd.DataFrame(rows, pd.Index(values, name="Model"), [*game.groups, everyone][: len(rows[0])])
        formats = {name: st.column_config.NumberColumn(format="%.4f") for name in table}
        with tab:
            show_table(table, f"{title} by model and group", column_config=formats, placeholder="–", index=True)
    st.caption(
        "Medians over the runs. Selection rate: share of rows predicted positive; true-positive rate: the same among "
        f"the rows that are positive. {privacy}"
    )
