"""What a run on a game shows beyond curves: strategies, losses per group, marginals, and the synthetic table."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import streamlit as st

from dpviz.experiments.trace import Trace
from dpviz.families.mirror_descent import AnytimeSampling, BiasReduced, VertexSampling, advice, figures, texts
from dpviz.families.mirror_descent.methods.algorithms import CERTIFIED_GAP
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.games.games import GameSpecification, Player
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.grouped import GroupedGame
from dpviz.problems.games.marginals import MarginalGame, MarginalQueries
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import hero
from dpviz.ui.experiment.plan import PlanView, Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import show_table
from dpviz.ui.mirror_descent import group_results, synthetic_table

PLAYERS: dict[Player, str] = {"x": "x, minimises", "y": "y, maximises"}
HEAVIEST = 20  # vertices that are named in numbers


def more_faces(_: PlanView | None) -> Mapping[str, hero.Drawn]:
    """Return the strategies that the players play in the end as a further face."""
    return {"Strategies": mixtures}


def mixtures(run: Run, diagnostics: bool) -> Chart | None:
    """The mixed strategies that the methods release in the end, or now."""
    if run.job.trace is None:
        return None
    trace, experiment = run.job.trace.visible(diagnostics), run.experiment
    privacy = explain.released(experiment, experiment.replicates)
    if any(not lane.private for lane in trace.lanes.values()):
        privacy = f"{privacy} {explain.REFERENCES}"
    return figures.mixtures(trace, arm_styles(experiment.arms), hero.HEIGHT, privacy)


def summary(panel: Panel, run: Run, trace: Trace) -> None:
    """What comes first in the results of a user's file: what was released, before anything that reads the raw data."""
    if not run.experiment.problem.public:
        group_results.released(panel, run, trace)


def show(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """The pictures that this kind of problem has, of what may be shown of the run; what was drawn."""
    _certified(run, trace)
    shown = _strategies(panel, run, trace)
    problem = run.experiment.problem
    if problem.public:
        group_results.released(panel, run, trace)
    game = None
    released = any(lane.output for lane in trace.lanes.values())  # a run that was cut off may have sent none
    if diagnostics and released and run.has_data and isinstance(problem, GroupLoss | LossMatrix | MarginalQueries):
        game = run.problem
    if isinstance(game, GroupedGame):
        shown += group_results.diagnostics(panel, run, trace, game)
    if isinstance(game, MarginalGame):
        shown += _marginals(panel, run, trace, game)
    if isinstance(problem, MarginalQueries):
        synthetic_table.show(panel, run, trace, game if isinstance(game, MarginalGame) else None)
    return shown


def _certified(run: Run, trace: Trace) -> None:
    """What the certificates of the first run say, which may be published."""
    for label, lane in trace.lanes.items():
        found = lane.last(CERTIFIED_GAP.name) if lane.private else np.empty(0)
        if len(found) and np.isfinite(found[0]):
            added = run.plans[label].resolved["certificate_width"]
            rests_on = f" {explain.released(run.experiment, 1)}" if run.experiment.condition else ""
            st.success(f"{texts.certified(label, float(found[0]), added)}{rests_on}", icon=":material/verified:")


def _strategies(panel: Panel, run: Run, trace: Trace) -> Shown:
    """How the released strategies of the first run moved."""
    lanes = {label: lane for label, lane in trace.lanes.items() if len(lane.path.get("x", ())) > 1}
    if not lanes:
        return []
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with row:
        label = panel.named("strategies_of", "Strategies of", lanes, "Whose run is shown.")
    lane = lanes[label]
    problem = run.experiment.problem
    assert isinstance(problem, GameSpecification)
    shown: Shown = []
    columns = st.columns(2, gap="medium")
    for column, (name, title) in zip(columns, PLAYERS.items(), strict=True):
        path = np.array(lane.path.get(name, ()))
        if len(path) < 2 or path.shape[1] < 2:
            continue
        privacy = explain.released(run.experiment, 1) if lane.private else explain.REFERENCES
        figure = figures.strategies(path, np.array(lane.iterations[: len(path)]), partial(problem.vertex, name))
        chart = Chart(
            figure,
            f"Strategy of {title}",
            f"Stacked shares of the vertices of player {name} over the rounds",
            f"Share of every vertex in the average of one run; the heaviest are named. {label}. {privacy}",
            lane.privacy,
        )
        with column:
            shown.append(charts.show(chart, panel.key(f"chart_strategy_{name}")))
            _heaviest(problem, name, path[-1])
    return shown


def _heaviest(problem: GameSpecification, player: Player, weights: np.ndarray) -> None:
    """The heaviest vertices with their names in full, which a legend has no room for; weights (d,), released."""
    order = np.argsort(-weights, kind="stable")[:HEAVIEST]
    with st.expander("The heaviest in the end, in numbers"):
        show_table(
            {"Vertex": [problem.vertex(player, j) for j in order.tolist()], "Weight": weights[order].astype(float)},
            column_config={"Weight": st.column_config.NumberColumn(format="%.4f")},
            alt=f"The heaviest vertices of player {player} in the released average, with their weights",
        )


def _marginals(panel: Panel, run: Run, trace: Trace, game: MarginalGame) -> Shown:
    """True against synthetic marginals of one method."""
    lanes = {label: lane for label, lane in trace.lanes.items() if lane.output}
    label = panel.named("marginals_of", "Marginals of", lanes, "Whose output is compared.")
    answers = game.answers(lanes[label].output["x"][:1])[0]
    truth = game.true_answers()
    every = {name: game.answers(lane.output["x"]) for name, lane in lanes.items()}
    privacy = explain.diagnostic(run.experiment.replicates, run.experiment.problem.public)
    words = f"Share of rows in every cell: one run of {label} against the data; right on the diagonal. {privacy}"
    cells = figures.marginals(game.marginals.cells, truth, answers, words=words)
    errors = figures.error_histogram(truth, every, arm_styles(run.experiment.arms), privacy=privacy)
    return charts.beside((cells, panel.key("chart_marginals_0")), (errors, panel.key("chart_marginals_1")))


def verdict(run: Run, trace: Trace, diagnostics: bool) -> None:
    """Which method won, and that a simpler one did where that is so; for who may see the diagnostics."""
    if not diagnostics:
        return
    metric = next(name for name in ("worst_query_error", "duality_gap") if name in trace.metrics)
    private = [arm for arm in run.experiment.arms if run.plans[arm.label].private]
    found = {arm.label: trace.last(arm.label, metric) for arm in private}
    found = {label: samples for label, samples in found.items() if len(samples) and np.isfinite(samples).all()}
    if not found:
        return
    # Rounding may leave a gap of -1e-16 where a method has solved the game.
    gaps = {label: max(float(np.median(samples)), 0.0) for label, samples in found.items()}
    # Every method starts from uniform play, so the first record of any is that of not playing.
    uniform = float(np.median(trace.series(next(iter(found)), metric)[1][0]))
    useless = [label for label in gaps if advice.no_better(found[label], uniform)]
    if len(gaps) > 1 or useless:
        drawing = VertexSampling | BiasReduced | AnytimeSampling
        sampling = [arm.label for arm in private if isinstance(arm.algorithm, drawing)]
        st.info(texts.verdict(gaps, sampling, uniform, useless), icon=":material/balance:")
