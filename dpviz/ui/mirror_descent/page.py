"""The page of the private games."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st

from dpviz.datasets import Upload
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families import mirror_descent
from dpviz.families.mirror_descent import (
    AnytimeSampling,
    BiasReduced,
    VertexSampling,
    advice,
    bounds,
    figures,
    planning,
    presets,
    texts,
)
from dpviz.families.mirror_descent.methods.algorithms import CERTIFIED_GAP
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameSpecification, Player
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.grouped import GroupedGame
from dpviz.problems.games.marginals import MarginalGame, MarginalQueries
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee, hero
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.controls import Offer
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView, Shown
from dpviz.ui.experiment.results import Options
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import show_table
from dpviz.ui.mirror_descent import closer_looks, group_results, synthetic_table
from dpviz.ui.mirror_descent.closer_looks import facts_of, sampling
from dpviz.ui.mirror_descent.problem import MENU
from dpviz.ui.uploads.file import missing_rule

# Declarations of the data of a problem, by the names of `texts.DECLARED`; of all other problems, the ranges.
DECLARED: Mapping[type[ProblemSpecification], tuple[str, ...]] = {
    GroupLoss: ("ranges", "groups", "shares"),
    LossMatrix: ("range", "groups", "shares"),
    MarginalQueries: ("categories",),
}
LEARNING = (SparseRegression, Portfolio, PolytopeRegression)  # problems with one player, who learns
PLAYERS: dict[Player, str] = {"x": "x, minimises", "y": "y, maximises"}
HEAVIEST = 20  # vertices that are named in numbers


class GamesPage(FamilyPage):
    """Mirror descent for games, in which two players choose strategies."""

    prefix = "mirror"
    package = mirror_descent
    by_name = presets.BY_NAME
    words = texts.WORDS
    default_methods = presets.offered(QuadraticGame)[1]
    references = "The best play that is found without privacy, tuned on the data: the floor of the picture."
    data_heading = "Game"
    currency = "approximate"
    at_first: Mapping[str, float] = {"epsilon": 1.0}
    problems = MENU

    def offer(self, kind: type[ProblemSpecification]) -> Offer:
        """Return the methods for games, for learning over a simplex, or for synthetic data."""
        if issubclass(kind, MarginalQueries):
            name = "methods_synthetic"
        else:
            name = "methods_learning" if issubclass(kind, LEARNING) else "methods_game"
        return Offer(*presets.offered(kind), name)

    def applicable(
        self, names: Sequence[str], kind: type[ProblemSpecification], currency: type[Budget]
    ) -> Sequence[str]:
        """Leave out settings about a second player where one pays or plays alone, and those of the paper's (ε, δ)."""
        excluded: set[str] = set()
        if issubclass(kind, (MarginalQueries, *LEARNING)):
            excluded |= {"share_x", "split"}  # one player pays for everything
        if issubclass(kind, LEARNING):
            excluded.add("draws_y")  # and is alone
        if not issubclass(currency, ApproximateDP):
            excluded |= {"accounting", "theorem"}  # what the paper states for (ε, δ) only
        return [name for name in names if name not in excluded]

    # ---------------------------------------------------------------------------------------------------- before a run

    def predict(self, experiment: Experiment, plans: Mapping[str, Plan]) -> Mapping[str, np.ndarray]:
        """Return the bound (T+1,) on the duality gap of each arm that has one, by label."""
        gap_bounds = {}
        for arm in experiment.arms:
            if isinstance(arm.algorithm, VertexSampling) and plans[arm.label].private:
                bound = bounds.gap_bound(arm.algorithm, plans[arm.label])
                if bound is not None:
                    gap_bounds[arm.label] = bound
        return gap_bounds

    def size_note(self, view: PlanView) -> str:
        """Describe rows and vertices in one line, and say for which methods the slider sets T."""
        facts = facts_of(view)
        players = f"{facts.d_x:,}" + (f" × {facts.d_y:,}" if facts.d_y > 1 else "")
        return f"n = {facts.n:,}, d = {players}. {_whose_steps(view)}"

    def plan_charts(self, view: PlanView) -> Iterator[Chart]:
        """Yield charts of the noise of every round, privacy spent, the bound on the gap, and the bound by rounds."""
        yield figures.noise_of_rounds(view.plans, view.styles)
        yield page_plan.privacy_spent(view, after="round")
        yield figures.gap_bounds(view.experiment.arms, view.plans, view.styles)
        method = next((arm.algorithm for arm in view.experiment.arms if arm.label in view.theory), None)
        if isinstance(method, VertexSampling):
            settings = planning.Sampling(method.each_draws, method.own_share, method.batching)
            yield figures.bound_by_rounds(facts_of(view), view.experiment.budget, settings)

    def noise_card(self, label: str, plan: Plan) -> guarantee.Card:
        """Return the card with range or noise of a release, in the first and the last round that costs anything."""
        for series, what in (
            (planning.ranges(plan), "bounded range η of one draw"),
            (plan.noise, "noise per coordinate"),
        ):
            for name, values in series.items():
                positive = values[values > 0]
                if positive.size:
                    ends = guarantee.first_to_last(positive)
                    of = f" of the player {name}" if name in "xy" else f" on the {name}"
                    help = f"{what[0].upper()}{what[1:]}{of}, first → last round that costs anything."
                    return (f"Per round, {what.split(' of')[0]}", ends, f"{label}, T = {plan.iterations:,}", help)
        return ("Steps", f"{plan.iterations:,}", label, "Rounds of the game.")

    def draw_advice(self, view: PlanView) -> None:
        """Recommend one of the page's methods for this size, among those that have a plan for this budget."""
        experiment = view.experiment
        expectation = advice.expectation(experiment.problem, experiment.budget, sampling(view).iterations)
        if expectation is not None:
            expectation = expectation.without(view.refused)
        sentence = texts.recommend(expectation, experiment.budget, view.plans)
        if sentence:
            st.info(sentence, icon=":material/lightbulb:")

    def closer_looks(self, panel: Panel, view: PlanView, delta: float) -> Mapping[str, Callable[[], None]]:
        return closer_looks.tabs(panel, view, delta)

    def draw_assumptions(self, view: PlanView) -> None:
        plan = next(iter(guarantee.private(view.plans).values()))
        batch, n = int(plan.rows[0]), plan.facts.n
        methods = [arm.algorithm for arm in view.experiment.arms]
        as_in_paper = all(isinstance(method, planning.GameAlgorithm) and method.as_in_the_paper for method in methods)
        problem = view.experiment.problem
        released = (
            ("shares",) if isinstance(problem, GroupLoss | LossMatrix) and problem.data.facts().shares_costs else ()
        )
        declarations = DECLARED.get(type(problem), ("ranges",))
        kinds_from_rows = (
            {kind for kind, _ in problem.dataset.from_data} if isinstance(problem.dataset, Upload) else set()
        )
        from_rows = [
            name for name in declarations if ("bounds" if name in ("ranges", "range") else name) in kinds_from_rows
        ]
        explain.assumptions(
            explain.protects(problem.unit),
            texts.batches(batch < n, batch, n),
            texts.composition("paper" if as_in_paper else "tight"),
            texts.constants(declarations, missing_rule(problem.dataset), released, from_rows),
            texts.SCREEN,
            problem.from_data,
        )

    # ---------------------------------------------------------------------------------------------------- during a run

    def more_faces(self, _view: PlanView | None) -> Mapping[str, hero.Drawn]:
        """Return the strategies that the players play in the end as a further face."""
        return {"Strategies": _mixtures}

    # ----------------------------------------------------------------------------------------------------- after a run

    def curve_options(self, view: PlanView) -> Options:
        """Return options that draw the gap between the players' own losses second, with bounds that say something."""
        useful = {label: bounds.where_useful(bound, facts_of(view)) for label, bound in view.theory.items()}
        useful = {label: bound for label, bound in useful.items() if np.isfinite(bound).any()}
        bound = {"bound": useful} if useful else {}
        remarks = {"bound": "The bound is on the mean."}
        return replace(
            super().curve_options(view),
            second="internal_duality_gap",
            overlays=bound,
            remarks=remarks,
            compared="duality_gap",
        )

    def draw_release(self, panel: Panel, run: Run, trace: Trace) -> None:
        """Draw the first results of a user's file: the release, before anything that reads the raw data."""
        if not run.experiment.problem.public:
            group_results.released(panel, run, trace)

    def draw_results(self, panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
        """Draw the results of this kind of problem that may be shown; return the charts."""
        _certified(run, trace)
        drawings = _strategies(panel, run, trace)
        problem = run.experiment.problem
        if problem.public:
            group_results.released(panel, run, trace)
        game = None
        # A run that was cut off may have sent no output.
        has_output = any(arm_trace.output for arm_trace in trace.lanes.values())
        if (
            diagnostics
            and has_output
            and run.has_data
            and isinstance(problem, GroupLoss | LossMatrix | MarginalQueries)
        ):
            game = run.problem
        if isinstance(game, GroupedGame):
            drawings += group_results.diagnostics(panel, run, trace, game)
        if isinstance(game, MarginalGame):
            drawings += _marginals(panel, run, trace, game)
        if isinstance(problem, MarginalQueries):
            synthetic_table.show(panel, run, trace, game if isinstance(game, MarginalGame) else None)
        return drawings

    def draw_verdict(self, run: Run, trace: Trace, diagnostics: bool) -> None:
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


# ---------------------------------------------------------------------------------------- the plan and the live picture


def _whose_steps(view: PlanView) -> str:
    """Say which methods take the T that is set, and how many steps each of the others takes."""
    with_set_steps, others = [], []
    for arm in view.experiment.arms:
        plan = view.plans[arm.label]
        if not plan.private:
            continue
        if getattr(arm.algorithm, "iterations", None) == plan.iterations:
            with_set_steps.append(arm.label)
        else:
            others.append(f"{arm.label} {'at most ' * plan.stops}{plan.iterations:,}")
    return " ".join(
        f"{title}: {', '.join(labels)}."
        for title, labels in (("Steps T", with_set_steps), ("Other steps", others))
        if labels
    )


def _mixtures(run: Run, diagnostics: bool) -> Chart | None:
    """Return the chart of the mixed strategies that the methods released last; None before there are any."""
    if run.job.trace is None:
        return None
    trace, experiment = run.job.trace.visible(diagnostics), run.experiment
    privacy = explain.released(experiment, experiment.replicates)
    if any(not arm_trace.private for arm_trace in trace.lanes.values()):
        privacy = f"{privacy} {explain.REFERENCES}"
    return figures.mixtures(trace, arm_styles(experiment.arms), hero.HEIGHT, privacy)


# ---------------------------------------------------------------------------------------------------------- the results


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


PAGE = GamesPage()
