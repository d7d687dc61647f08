"""Results of a run on a game beyond curves: strategies, losses per group, marginals, and the synthetic table."""

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
    """Return the chart of the mixed strategies that the methods released last; None before there are any."""
    if run.job.trace is None:
        return None
    trace, experiment = run.job.trace.visible(diagnostics), run.experiment
    privacy = explain.released(experiment, experiment.replicates)
    if any(not arm_trace.private for arm_trace in trace.lanes.values()):
        privacy = f"{privacy} {explain.REFERENCES}"
    return figures.mixtures(trace, arm_styles(experiment.arms), hero.HEIGHT, privacy)


def summary(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the first results of a user's file: the release, before anything that reads the raw data."""
    if not run.experiment.problem.public:
        group_results.released(panel, run, trace)


def show(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """Draw the results of this kind of problem that may be shown; return the charts."""
    _certified(run, trace)
    drawings = _strategies(panel, run, trace)
    problem = run.experiment.problem
    if problem.public:
        group_results.released(panel, run, trace)
    game = None
    # A run that was cut off may have sent no output.
    has_output = any(arm_trace.output for arm_trace in trace.lanes.values())
    if diagnostics and has_output and run.has_data and isinstance(problem, GroupLoss | LossMatrix | MarginalQueries):
        game = run.problem
    if isinstance(game, GroupedGame):
        drawings += group_results.diagnostics(panel, run, trace, game)
    if isinstance(game, MarginalGame):
        drawings += _marginals(panel, run, trace, game)
    if isinstance(problem, MarginalQueries):
        synthetic_table.show(panel, run, trace, game if isinstance(game, MarginalGame) else None)
    return drawings


def _certified(run: Run, trace: Trace) -> None:
    """Draw the certified gaps of the first run, which may be published."""
    for label, arm_trace in trace.lanes.items():
        gaps = arm_trace.last(CERTIFIED_GAP.name) if arm_trace.private else np.empty(0)
        if len(gaps) and np.isfinite(gaps[0]):
            width = run.plans[label].resolved["certificate_width"]
            condition = f" {explain.released(run.experiment, 1)}" if run.experiment.condition else ""
            st.success(f"{texts.certified(label, float(gaps[0]), width)}{condition}", icon=":material/verified:")


def _strategies(panel: Panel, run: Run, trace: Trace) -> Shown:
    """Draw the released strategies of the first run over the rounds; return the charts."""
    arm_traces = {label: arm_trace for label, arm_trace in trace.lanes.items() if len(arm_trace.path.get("x", ())) > 1}
    if not arm_traces:
        return []
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with row:
        label = panel.named("strategies_of", "Strategies of", arm_traces, "Whose run is shown.")
    arm_trace = arm_traces[label]
    problem = run.experiment.problem
    assert isinstance(problem, GameSpecification)
    drawings: Shown = []
    columns = st.columns(2, gap="medium")
    for column, (name, title) in zip(columns, PLAYERS.items(), strict=True):
        path = np.array(arm_trace.path.get(name, ()))
        if len(path) < 2 or path.shape[1] < 2:
            continue
        privacy = explain.released(run.experiment, 1) if arm_trace.private else explain.REFERENCES
        figure = figures.strategies(path, np.array(arm_trace.iterations[: len(path)]), partial(problem.vertex, name))
        chart = Chart(
            figure,
            f"Strategy of {title}",
            f"Stacked shares of the vertices of player {name} over the rounds",
            f"Share of every vertex in the average of one run; the heaviest are named. {label}. {privacy}",
            arm_trace.privacy,
        )
        with column:
            drawings.append(charts.show(chart, panel.key(f"chart_strategy_{name}")))
            _heaviest(problem, name, path[-1])
    return drawings


def _heaviest(problem: GameSpecification, player: Player, weights: np.ndarray) -> None:
    """Draw a table of the heaviest vertices, with full names, which do not fit a legend.

    weights : (d,) released.
    """
    order = np.argsort(-weights, kind="stable")[:HEAVIEST]
    with st.expander("The heaviest in the end, in numbers"):
        show_table(
            {"Vertex": [problem.vertex(player, j) for j in order.tolist()], "Weight": weights[order].astype(float)},
            column_config={"Weight": st.column_config.NumberColumn(format="%.4f")},
            alt=f"The heaviest vertices of player {player} in the released average, with their weights",
        )


def _marginals(panel: Panel, run: Run, trace: Trace, game: MarginalGame) -> Shown:
    """Draw true against synthetic marginals of one method, and the errors of all; return the charts."""
    arm_traces = {label: arm_trace for label, arm_trace in trace.lanes.items() if arm_trace.output}
    label = panel.named("marginals_of", "Marginals of", arm_traces, "Whose output is compared.")
    answers = game.answers(arm_traces[label].output["x"][:1])[0]
    truth = game.true_answers()
    all_answers = {name: game.answers(arm_trace.output["x"]) for name, arm_trace in arm_traces.items()}
    privacy = explain.diagnostic(run.experiment.replicates, run.experiment.problem.public)
    caption = f"Share of rows in every cell: one run of {label} against the data; right on the diagonal. {privacy}"
    cells = figures.marginals(game.marginals.cells, truth, answers, caption=caption)
    errors = figures.error_histogram(truth, all_answers, arm_styles(run.experiment.arms), privacy=privacy)
    return charts.beside((cells, panel.key("chart_marginals_0")), (errors, panel.key("chart_marginals_1")))


def verdict(run: Run, trace: Trace, diagnostics: bool) -> None:
    """Say which method has the smallest gap, and which are no better than uniform play; only with diagnostics."""
    if not diagnostics:
        return
    metric = next(name for name in ("worst_query_error", "duality_gap") if name in trace.metrics)
    private = [arm for arm in run.experiment.arms if run.plans[arm.label].private]
    gap_samples = {arm.label: trace.last(arm.label, metric) for arm in private}
    gap_samples = {
        label: samples for label, samples in gap_samples.items() if len(samples) and np.isfinite(samples).all()
    }
    if not gap_samples:
        return
    # Rounding may leave a gap of -1e-16 where a method has solved the game.
    gaps = {label: max(float(np.median(samples)), 0.0) for label, samples in gap_samples.items()}
    # Every method starts from uniform play, so the first record of any method is that of uniform play.
    uniform = float(np.median(trace.series(next(iter(gap_samples)), metric)[1][0]))
    no_better = [label for label in gaps if advice.no_better(gap_samples[label], uniform)]
    if len(gaps) > 1 or no_better:
        sampling_methods = VertexSampling | BiasReduced | AnytimeSampling
        sampling = [arm.label for arm in private if isinstance(arm.algorithm, sampling_methods)]
        st.info(texts.verdict(gaps, sampling, uniform, no_better), icon=":material/balance:")
