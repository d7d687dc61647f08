"""The page of the private games: the choice of a game with its data and settings, the picture, plan and results."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import streamlit as st

from dpviz.datasets import Upload
from dpviz.datasets.categories import CategoricalBundled, CategoricalGenerator
from dpviz.datasets.groups import GroupedBundled, GroupedLosses, GroupedSigns
from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families import mirror_descent
from dpviz.families.mirror_descent import (
    AnytimeSampling,
    BiasReduced,
    TwoDraws,
    VertexSampling,
    advice,
    bounds,
    figures,
    planning,
    presets,
    texts,
)
from dpviz.families.mirror_descent.methods.algorithms import CERTIFIED_GAP
from dpviz.families.mirror_descent.methods.noisy_gradients import NoisyGradients
from dpviz.numbers import short
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameSpecification, Player
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.grouped import GroupedGame
from dpviz.problems.games.marginals import MarginalGame, MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee, hero, problem_menu, results
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.controls import Offer
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import Charts, PlanView
from dpviz.ui.experiment.results import CurveOptions
from dpviz.ui.experiment.run import MakeChart, Run
from dpviz.ui.markdown import show_table
from dpviz.ui.mirror_descent import closer_looks, synthetic_table
from dpviz.ui.mirror_descent.closer_looks import facts_of, sampling
from dpviz.ui.uploads import categories as category_upload
from dpviz.ui.uploads import groups as group_upload
from dpviz.ui.uploads.file import missing_rule

# The short names are part of the address.
PROBLEMS: Mapping[str, type[ProblemSpecification]] = {
    "matrix": MatrixGame,
    "quadratic": QuadraticGame,
    "curved": CurvedGame,
    "groups": GroupLoss,
    "losses": LossMatrix,
    "synthetic": MarginalQueries,
    "regression": SparseRegression,
    "portfolio": Portfolio,
    "polytope": PolytopeRegression,
}
TRIANGLE = "0.5 0\n0 0.5\n-0.5 -0.5"  # vertices that the text for a polytope of the visitor's own has at first
# Sources of the rows of a problem; a problem without an entry generates its rows itself.
SOURCES: Mapping[str, Mapping[str, problem_menu.Generator]] = {
    "matrix": {"latent": LatentGame},
    "quadratic": {"latent": LatentGame},
    "curved": {"latent": LatentGame},
    "groups": {"signs": GroupedSigns, "insurance": GroupedBundled},
    "losses": {"specialists": GroupedLosses},
    "synthetic": {"generated": CategoricalGenerator, "insurance": CategoricalBundled},
}
# Panels for the visitor's own file, by problem; the other problems take none.
UPLOADS: Mapping[str, problem_menu.Upload] = {
    "groups": group_upload.choose_upload,
    "losses": partial(group_upload.choose_upload, loss_columns=True),
    "synthetic": category_upload.choose_upload,
}


def _sources(name: str) -> dict[str, problem_menu.Source]:
    """Return the sources of the rows of a problem, by name: its generators and, for some, the visitor's own file."""
    sources = problem_menu.generators(SOURCES.get(name, {}), f"{name}_")
    if name in UPLOADS:
        sources[problem_menu.UPLOAD] = problem_menu.Source("Your own file", upload=UPLOADS[name])
    return sources


def _draw_vertices(panel: Panel, _cls: type[ProblemSpecification], values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw a text area for the vertices of a polytope of the visitor's own; return the text, by the field's name.

    For all other shapes nothing is drawn, and the mapping is empty.
    """
    if values.get("shape") != "own":
        return {}
    help = "Numbers with spaces or commas between."
    return {"vertices": panel.text("vertices", "Vertices, one per line", TRIANGLE, help)}


def _read_vertices(draft: problem_menu.Draft) -> Mapping[str, Any]:
    """Return the values of a draft with the text of the vertices, one per line, read as tuples of numbers.

    Raises UserError for anything but numbers.
    """
    if "vertices" not in draft.values:
        return draft.values
    lines = draft.values["vertices"].splitlines()
    try:
        vertices = tuple(tuple(map(float, line.replace(",", " ").split())) for line in lines if line.strip())
    except ValueError:
        raise UserError(
            "Write one vertex per line, as numbers with spaces or commas between them.",
            title="These vertices cannot be read",
        ) from None
    return {**draft.values, "vertices": vertices}


def _vertices_of(problem: ProblemSpecification) -> dict[str, Any]:
    """Return the text of the vertices of a problem, by the control's name: the inverse of `_read_vertices`."""
    if not isinstance(problem, PolytopeRegression) or problem.shape != "own":
        return {}
    return {"vertices": "\n".join(" ".join(f"{value:g}" for value in vertex) for vertex in problem.vertices)}


MENU = problem_menu.ProblemMenu(
    problems={
        name: problem_menu.ProblemEntry(cls, prefix=f"{name}_", first=problem_menu.setting_names(cls))
        for name, cls in PROBLEMS.items()
    },
    menu=problem_menu.Menu(
        name="problem",
        label="Problem",
        options={name: cls.title for name, cls in PROBLEMS.items()},
        default="quadratic",
        help="What is played, or minimised over a simplex.",
    ),
    sources={name: _sources(name) for name in PROBLEMS},
    source_name="{}_data",
    help="Your own file stays on this server.",
    data_settings="Problem settings",
    expanded=True,
    leading="strategies_x",  # the setting that the page's question is about
    draw_more=_draw_vertices,  # further controls, below the settings
    complete=_read_vertices,  # from their values to those of the problem's fields
    more_values_of=_vertices_of,  # the inverse of `draw_more`
)


# What is declared about the data of a problem, by the names in `texts.DECLARED`; of all other problems, the ranges.
DECLARED: Mapping[type[ProblemSpecification], tuple[str, ...]] = {
    GroupLoss: ("ranges", "groups", "shares"),
    LossMatrix: ("range", "groups", "shares"),
    MarginalQueries: ("categories",),
}
LEARNING = (SparseRegression, Portfolio, PolytopeRegression)  # problems with one player, who learns
PLAYERS: dict[Player, str] = {"x": "x, minimises", "y": "y, maximises"}
HEAVIEST = 20  # number of vertices in the table of the heaviest ones


class GamesPage(FamilyPage):
    """Mirror descent for games, in which two players choose strategies."""

    prefix = "mirror"
    package = mirror_descent
    by_name = presets.BY_NAME
    full_names = texts.WORDS
    default_methods = presets.offered(QuadraticGame)[1]  # those selected at first
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
        methods, default = presets.offered(kind)
        return Offer(methods, default, name)  # name of the control, so that each kind remembers its own choice

    def applicable(
        self, names: Sequence[str], kind: type[ProblemSpecification], currency: type[Budget]
    ) -> Sequence[str]:
        """Return the settings in `names` that have an effect: without those of a second player where one player pays or
        plays alone, and without those that the paper states for (ε, δ) where the budget is another."""
        excluded: set[str] = set()
        if issubclass(kind, (MarginalQueries, *LEARNING)):
            excluded |= {"share_x", "split"}  # one player pays for everything, so there is nothing to split
        if issubclass(kind, LEARNING):
            excluded.add("draws_y")  # and there is no other player
        if not issubclass(currency, ApproximateDP):
            excluded |= {"accounting", "theorem"}
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
        """Return a line with the numbers of rows and of vertices; it names the private methods with the T that is set,
        and the steps that each of the others takes.

        Some methods choose their own number of steps, or may stop before it; of some, T is the largest number.
        """
        facts = facts_of(view)
        vertices = f"{facts.d_x:,}" + (f" × {facts.d_y:,}" if facts.d_y > 1 else "")  # a y with one vertex is no player
        methods: dict[str, list[str]] = {"Steps T": [], "Fewer steps than T": [], "Other steps": []}  # by title
        for arm in view.experiment.arms:
            plan = view.plans[arm.label]
            if not plan.private:
                continue
            set_steps = getattr(arm.algorithm, "iterations", 0)
            if set_steps == plan.iterations:
                methods["Steps T"].append(arm.label)
            else:
                title = "Fewer steps than T" if plan.iterations < set_steps else "Other steps"
                steps = f"at most {plan.iterations:,}" if plan.stops else f"{plan.iterations:,}"
                methods[title].append(f"{arm.label} {steps}")
        listed = " ".join(f"{title}: {', '.join(parts)}." for title, parts in methods.items() if parts)
        return f"n = {facts.n:,}, d = {vertices}. {listed}"

    def plan_charts(self, view: PlanView) -> Iterator[Chart]:
        """Yield charts of the noise of every round, of the privacy spent, of the bound on the gap along the rounds, and
        of the bound at the end against the number of rounds."""
        yield figures.noise_of_rounds(view.plans, view.styles)
        yield page_plan.privacy_spent(view, step_name="round")
        yield figures.gap_bounds(view.experiment.arms, view.plans, view.styles)
        # The last chart is about the settings of the first method that has a bound (in `theory`, from `predict`).
        method = next((arm.algorithm for arm in view.experiment.arms if arm.label in view.theory), None)
        if isinstance(method, VertexSampling):
            settings = planning.Sampling(method.draws_per_player, method.own_share, method.batching)
            yield figures.bound_by_rounds(facts_of(view), view.experiment.row_budget, settings)

    def chart_note(self, view: PlanView) -> str:
        """Return why another budget may have another winner; "" at a preset, whose own text needs the room."""
        is_preset = any(preset.experiment == view.experiment for preset in self.presets)
        return "" if is_preset else _mixing_sentence(view)

    def noise_card(self, label: str, plan: Plan) -> guarantee.Card:
        """Return the card with the size of a release in the first and in the last round that costs anything.

        It is the range η of a draw for methods that draw vertices, else the noise; without either, the number of steps.
        """
        # The first quantity, and its first player, with a round that costs anything.
        for quantity, subject, values_by_name in (
            ("bounded range η", "Bounded range η of one draw", planning.ranges(plan)),
            ("noise per coordinate", "Noise per coordinate", plan.noise),
        ):
            for name, values in values_by_name.items():
                positive = values[values > 0]
                if positive.size:
                    owner = f" of the player {name}" if name in "xy" else f" on the {name}"
                    help = f"{subject}{owner}, first → last round that costs anything."
                    size = guarantee.first_to_last(positive)
                    return guarantee.Card(f"Per round, {quantity}", size, f"{label}, T = {plan.iterations:,}", help)
        return guarantee.Card("Steps", f"{plan.iterations:,}", label, "Rounds of the game.")

    def draw_advice(self, view: PlanView) -> None:
        """Recommend one of the page's methods for this size, among those that have a plan for this budget."""
        experiment = view.experiment
        expectation = advice.expectation(experiment.problem, experiment.row_budget, sampling(view).iterations)
        if expectation is not None:
            expectation = expectation.without(view.refused)  # the methods that have no plan
        sentence = texts.recommend(expectation, experiment.budget, view.plans)
        if sentence:
            st.info(sentence, icon=":material/lightbulb:")

    def closer_looks(self, panel: Panel, view: PlanView, delta: float) -> Mapping[str, Callable[[], None]]:
        return closer_looks.tabs(panel, view, delta)

    def draw_assumptions(self, view: PlanView) -> None:
        """Draw the box of the assumptions on which guarantee and theory rest; some method must be private."""
        private, n = guarantee.only_private(view.plans), facts_of(view).n
        single_pass = [label for label, plan in private.items() if plan.rows[0] < n]  # rounds with rows of their own
        methods = {arm.label: arm.algorithm for arm in view.experiment.arms if arm.label in private}
        as_in_paper = [
            label
            for label, method in methods.items()
            if isinstance(method, planning.GameAlgorithm) and method.as_in_the_paper
        ]
        problem = view.experiment.problem
        released: tuple[str, ...] = ()  # declarations that were released from the data, for a part of the budget
        if isinstance(problem, GroupLoss | LossMatrix) and problem.data.facts().shares_costs:
            released = ("shares",)
        declarations = DECLARED.get(type(problem), ("ranges",))
        # Declarations that the user has filled in from the rows. A file calls its ranges "bounds".
        kinds_from_rows: set[str] = set()
        if isinstance(problem.dataset, Upload):
            kinds_from_rows = {kind for kind, _ in problem.dataset.from_data}
        file_kinds = {"ranges": "bounds", "range": "bounds"}
        from_rows = [name for name in declarations if file_kinds.get(name, name) in kinds_from_rows]
        explain.assumptions(
            protected=explain.protects(problem),
            batches=texts.batches(single_pass, others=len(single_pass) < len(private), n=n),
            composition=texts.composition(as_in_paper, others=len(as_in_paper) < len(private)),
            constants=texts.constants(
                declarations, missing_rule(problem.dataset), released=released, from_rows=from_rows
            ),
            screen=texts.SCREEN,
            read=problem.from_data,
        )

    # ---------------------------------------------------------------------------------------------------- during a run

    def more_faces(self, _view: PlanView | None) -> Mapping[str, MakeChart]:
        """Return the picture of the strategies that the players play in the end."""
        return {"Strategies": _mixtures}

    # ----------------------------------------------------------------------------------------------------- after a run

    def curve_options(self, view: PlanView) -> CurveOptions:
        """Return options that draw the gap of the players' internal strategies second, and bounds where they say
        anything."""
        gap_bounds = {label: bounds.without_vacuous(bound, facts_of(view)) for label, bound in view.theory.items()}
        useful = {label: bound for label, bound in gap_bounds.items() if np.isfinite(bound).any()}
        return CurveOptions(
            second="internal_duality_gap",
            overlays={"bound": useful} if useful else {},
            remarks={"bound": "The bound is on the mean."},
            compared="duality_gap",
        )

    def draw_release(self, panel: Panel, run: Run, trace: Trace) -> None:
        """Draw the release of a run on a user's file, before anything that reads the raw data."""
        if not run.experiment.problem.public:
            closer_looks.show_released(panel, run, trace)

    def draw_results(self, panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Charts:
        """Draw the results of this kind of problem that may be shown; return the charts.

        First those that may be published, then those that need the game with its rows, as they read the raw data.
        """
        _certificates(run, trace)
        drawings = _strategies(panel, run, trace)
        problem = run.experiment.problem
        if problem.public:  # that of a file is drawn by `draw_release`
            closer_looks.show_released(panel, run, trace)
        # A run that was cut off may have sent no output.
        has_output = any(arm_trace.output for arm_trace in trace.arm_traces.values())
        has_diagnostics = isinstance(problem, GroupLoss | LossMatrix | MarginalQueries)
        game = run.problem if diagnostics and has_output and run.has_data and has_diagnostics else None
        if isinstance(game, GroupedGame):
            drawings += closer_looks.diagnostics(panel, run, trace, game)
        if isinstance(game, MarginalGame):
            drawings += _marginals(panel, run, trace, game)
        if isinstance(problem, MarginalQueries):
            synthetic_table.show(panel, run, trace, game if isinstance(game, MarginalGame) else None)
        return drawings

    def draw_verdict(self, run: Run, trace: Trace, diagnostics: bool) -> None:
        """Say which method has the smallest gap, and which are no better than uniform play.

        Gaps read the raw data, so it is drawn with diagnostics only; and not of a run that was stopped, whose methods
        had taken different shares of their steps. For synthetic data the gap is the worst error of a query.
        """
        if not diagnostics or run.job.state != "done":
            return
        metric = "worst_query_error" if "worst_query_error" in trace.metrics else "duality_gap"
        private = [arm for arm in run.experiment.arms if run.plans[arm.label].private]
        last_gaps = {arm.label: trace.last(arm.label, metric) for arm in private}  # (R,) of each method
        gap_samples = {
            label: samples for label, samples in last_gaps.items() if len(samples) and np.isfinite(samples).all()
        }
        if not gap_samples:
            return
        # Rounding may leave a gap of -1e-16 where a method has solved the game.
        gaps = {label: max(float(np.median(samples)), 0.0) for label, samples in gap_samples.items()}
        # Every method starts from uniform play, so the first record of any method is that of uniform play.
        first_label, *_ = gap_samples
        _, records = trace.series(first_label, metric)  # (k, R)
        uniform = float(np.median(records[0]))
        no_better = [label for label in gaps if advice.no_better_than_uniform(gap_samples[label], uniform)]
        if len(gaps) > 1 or no_better:
            variants = VertexSampling | BiasReduced | AnytimeSampling
            vertex_sampling = [arm.label for arm in private if isinstance(arm.algorithm, variants)]
            st.info(texts.verdict(gaps, vertex_sampling, uniform, useless=no_better), icon=":material/balance:")


# ---------------------------------------------------------------------------------------- the plan and the live picture


def _mixing_sentence(view: PlanView) -> str:
    """Return how many strategies a player can mix by each method, and the noise on the mean of its gradients; "" unless
    more strategies come with more noise.

    The sentence says that less budget raises the noise and leaves the numbers of strategies. So methods whose number of
    rounds depends on the budget count only if it does not change the noise of the mean.
    """
    facts = facts_of(view)
    if min(facts.d_x, facts.d_y) < 2:
        return ""
    # By number of strategies, the least noise and the label of its method.
    least_noise: dict[int, tuple[float, str]] = {}
    for arm in view.experiment.arms:
        plan, method = view.plans[arm.label], arm.algorithm
        if not plan.private:
            continue
        noise = planning.draw_noise(plan)  # (T,) by player, 0 in a round that costs nothing
        # With other settings, less budget changes the number of rounds, too, or leaves the noise.
        if type(method) is VertexSampling and (method.parameters, method.accounting) == ("own", "tight"):
            # A strategy is the average of the K vertices drawn in each of T rounds.
            players = zip((facts.d_x, facts.d_y), method.draws_per_player, strict=True)
            count = max(min(d, draws * plan.iterations) for d, draws in players)
        elif isinstance(method, TwoDraws):
            count = 1  # a single vertex
        elif isinstance(method, NoisyGradients) and method.batching == "full":
            count = max(facts.d_x, facts.d_y)  # it draws nothing: all strategies have a weight
            # Averaging over T rounds leaves this noise on the mean.
            noise = {name: values / math.sqrt(plan.iterations) for name, values in plan.noise.items()}
        else:
            continue
        last_noise = [float(values[values > 0][-1]) for values in noise.values() if (values > 0).any()]
        if last_noise:  # of each player; the larger one counts
            candidate = max(last_noise), arm.label
            least_noise[count] = min(candidate, least_noise.get(count, candidate))
    mixing = [(count, noise, label) for count, (noise, label) in sorted(least_noise.items())]
    noises = [noise for _, noise, _ in mixing]
    if len(noises) < 2 or any(noise >= next_noise for noise, next_noise in pairwise(noises)):
        return ""
    numbers = ", ".join(f"{label} {count:,} ({short(noise, 2)})" for count, noise, label in mixing)
    raised = "Less budget raises the noise alone, and may change who wins."
    return f"Strategies that a player can mix (noise): {numbers}. {raised}"


def _mixtures(run: Run, diagnostics: bool) -> Chart | None:
    """Return the chart of the mixed strategies that the methods released last; None before the first record."""
    if run.job.trace is None:
        return None
    trace, experiment = run.job.trace.visible(diagnostics), run.experiment
    privacy = results.releases_sentence([arm_trace.privacy for arm_trace in trace.arm_traces.values()], experiment)
    return figures.mixtures(trace, arm_styles(experiment.arms), hero.HEIGHT, privacy)


# ---------------------------------------------------------------------------------------------------------- the results


def _certificates(run: Run, trace: Trace) -> None:
    """Draw, for each method with a certificate, the upper bound on the gap that its first run has released."""
    for label, arm_trace in trace.arm_traces.items():
        gaps = arm_trace.last(CERTIFIED_GAP.name) if arm_trace.private else np.empty(0)
        if len(gaps) and np.isfinite(gaps[0]):
            width = run.plans[label].resolved["certificate_width"]
            condition = f" {explain.release_sentence(run.experiment, 1)}" if run.experiment.condition else ""
            st.success(f"{texts.certified(label, float(gaps[0]), width)}{condition}", icon=":material/verified:")


def _strategies(panel: Panel, run: Run, trace: Trace) -> Charts:
    """Draw the released strategies of the first run over the rounds; return the charts."""
    arm_traces = {
        label: arm_trace for label, arm_trace in trace.arm_traces.items() if len(arm_trace.path.get("x", ())) > 1
    }
    if not arm_traces:
        return []
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        label = panel.one_of("strategies_of", "Strategies of", arm_traces, "Whose run is shown.")
    arm_trace = arm_traces[label]
    problem = run.experiment.problem
    assert isinstance(problem, GameSpecification)
    drawings: Charts = []
    columns = st.columns(2, gap="medium")
    for column, (name, title) in zip(columns, PLAYERS.items(), strict=True):
        path = np.array(arm_trace.path.get(name, ()))  # (k, d), a strategy for each record
        if len(path) < 2 or path.shape[1] < 2:  # a player with one vertex has no choice
            continue
        privacy = explain.release_sentence(run.experiment, 1) if arm_trace.private else explain.REFERENCES
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
    """Draw a table of a player's heaviest vertices with their full names, which do not fit a legend.

    weights : (d,) the strategy that was released.
    """
    order = np.argsort(-weights, kind="stable")[:HEAVIEST]
    with st.expander("The heaviest in the end, in numbers"):
        show_table(
            {"Vertex": [problem.vertex(player, j) for j in order.tolist()], "Weight": weights[order].astype(float)},
            column_config={"Weight": st.column_config.NumberColumn(format="%.4f")},
            alt=f"The heaviest vertices of player {player} in the released average, with their weights",
        )


def _marginals(panel: Panel, run: Run, trace: Trace, game: MarginalGame) -> Charts:
    """Draw the marginals of one method's histogram against those of the data, and the errors of all; return the charts.

    They read the raw data: a diagnostic.
    """
    arm_traces = {label: arm_trace for label, arm_trace in trace.arm_traces.items() if arm_trace.output}
    label = panel.one_of("marginals_of", "Marginals of", arm_traces, "Whose output is compared.")
    # Shares of the rows in the q cells: (R, q) by a method's R runs; (q,) by the first run of `label`, and in the data.
    all_answers = {name: game.answers(arm_trace.output["x"]) for name, arm_trace in arm_traces.items()}
    answers, truth = all_answers[label][0], game.true_answers()
    privacy = explain.diagnostic_sentence(run.experiment.replicates, run.experiment.problem.public)
    caption = f"Share of rows in every cell: one run of {label} against the data; right on the diagonal. {privacy}"
    cells = figures.marginals(game.marginals.cells, truth, answers, caption=caption)
    errors = figures.error_histogram(truth, all_answers, arm_styles(run.experiment.arms), privacy=privacy)
    return charts.show_side_by_side((cells, panel.key("chart_marginals_0")), (errors, panel.key("chart_marginals_1")))


PAGE = GamesPage()
