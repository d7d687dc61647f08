"""The page of the accelerated methods: the choice of a data set with a loss on it, or of the quadratic test bench; and
the picture, plan and results."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dpviz.datasets import DatasetSpecification, UniformLogistic
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families import accelerated
from dpviz.families.accelerated import figures, planning, presets, texts, theory
from dpviz.families.accelerated.algorithms import GradientMethod, ScheduleComparison, compare
from dpviz.families.accelerated.planning import assumed_constants
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures
from dpviz.plots.clouds import Ground
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.problems.base import ProblemSpecification, SmoothFacts
from dpviz.problems.linear.linear_base import LinearModel, LinearProblem, evaluation_seconds
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import address_text
from dpviz.ui import explain
from dpviz.ui.accelerated import closer_looks
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment import guarantee, problem_menu, results
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.private_fact import PrivateFact, say_typed
from dpviz.ui.experiment.results import CurveOptions
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import escape_name
from dpviz.ui.uploads import file as upload_file
from dpviz.ui.uploads import table
from dpviz.ui.uploads.file import missing_rule

QUADRATIC = "quadratic"
# The losses, by the names that are part of the address.
LOSSES: Mapping[str, type[LinearModel]] = {
    "logistic": LogisticRegression,
    "squared": LeastSquares,
    "huber": HuberRegression,
}
LOSS_TITLES = {"logistic": "Logistic", "squared": "Squared", "huber": "Huber"}
# Settings with another default on a visitor's own file: the usual default, and that one. An upload gets an intercept,
# since a model without one must say ½ where all features are at their lowest. It gets a smaller λ, since a coefficient
# of 5 costs 0.25 at λ = 0.01, a third of what guessing costs (ln 2), and 0.025 at 0.001.
UPLOADS: Mapping[str, tuple[Any, Any]] = {"intercept": ("no", "yes"), "regularisation": (0.01, 0.001)}
MODEL = ("regularisation", "scaling", "intercept", "clip", "clip_norm", "clipping", "start", "initial_gap")
SMOOTHNESS = ("smoothness_source", "smoothness", "smoothness_cost")
EXPANDER = "Model and clipping"


def _loss_menu(selection: problem_menu.Selection) -> problem_menu.Menu:
    """Return the menu of losses for the selected data.

    A target with two classes allows all losses; a target that is a number, all but the logistic one. The two menus have
    different names, so that each remembers its own choice.
    """
    # Without data, as before an upload, the menu is that of two classes.
    data = selection.upload or table.GENERATORS.get(selection.source, UniformLogistic)()
    assert isinstance(data, DatasetSpecification)
    if data.facts().target_range is None:
        both = f"{texts.LOSS_HELP} The squared and the Huber loss learn the classes as the numbers -1 and +1."
        return problem_menu.Menu("loss", "Loss", LOSS_TITLES, default="logistic", help=both)
    losses = {name: title for name, title in LOSS_TITLES.items() if name != "logistic"}
    return problem_menu.Menu("number_loss", "Loss", losses, default="squared", help=texts.LOSS_HELP)


def _draw_smoothness(panel: Panel, cls: type[ProblemSpecification], _values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the controls for the smoothness L of a linear model; return the values of the fields that they set.

    The source of L decides which are drawn: only the source if L follows from the declared ranges, L itself if it is
    declared or estimated, and the cost of its release if it is released.
    """
    if cls is Quadratic:
        st.caption("The quadratic is set under “Data settings”.")
        return {}
    declared = {control.name: control for control in LinearModel.controls()}
    source = panel.control(declared["smoothness_source"], "smoothness_source")
    if source == "bounds":
        return {}
    value = panel.number(declared["smoothness"], "smoothness", disabled=source != "declared")
    fields: dict[str, Any] = {"smoothness_source": source, "smoothness": value}
    if source == "released":
        fields["smoothness_cost"] = panel.number(declared["smoothness_cost"], "smoothness_cost")
    return fields


def _with_smoothness(draft: problem_menu.Draft) -> Mapping[str, Any]:
    """Draw the button that computes L from the data, by an estimate or a release, and what it costs or has cost.

    Returns the values of the problem's fields; without those of L as long as there is no value of L.
    """
    if draft.cls is Quadratic:
        return draft.values
    panel, seed, tables = draft.panel, draft.seed, draft.tables
    fields = {name: draft.values[name] for name in SMOOTHNESS if name in draft.values}
    other_fields = {name: value for name, value in draft.values.items() if name not in fields}
    problem = Settings(draft.cls, other_fields).build()  # without L, to compute it for
    assert isinstance(problem, LinearModel)
    source, value, budget = fields.get("smoothness_source"), fields.get("smoothness"), draft.budget.build()
    file = None if problem.public else upload_file.known_as(panel.page)
    fact = PrivateFact(panel, "smoothness", symbol="ε_L", what="L", problem_json=problem.to_json(), file=file)
    if source == "estimated":
        fact.note_origin(value, cost=None)  # notes a value from a link as an estimate
        st.badge("estimated from the data: not private", icon=":material/visibility:", color="orange")
        compute = partial(planning.estimated_smoothness, problem, tables)
        st.button("Estimate L", key=panel.key("estimate"), on_click=fact.write, args=(None, compute))  # at no cost
    elif source == "released":
        cost = fields["smoothness_cost"]
        if cost is not None:
            fact.note_origin(value, cost)  # notes a value from a link as a release
        spend = planning.suggested_cost(budget) if cost is None else cost
        fact.offer_release(value, spend, partial(planning.release_smoothness, problem, spend, seed, tables))
    if source in ("declared", "released") and value is not None:
        fields = _by_origin(panel, fact, fields, value)
        source = fields["smoothness_source"]
    fact.say_error()
    is_counted = source == "released" and value is not None
    computed_value = value if source in ("estimated", "released") else None
    # `warn` also says if the value was computed for another problem.
    fact.warn(is_counted, where="with L “Released privately”", value=computed_value)
    if fields and value is None:  # without fields, L follows from the ranges anyway
        st.caption("Until there is a value, the plan uses L from the ranges.")
        return other_fields
    return other_fields | fields


def _by_origin(panel: Panel, fact: PrivateFact, fields: dict[str, Any], value: float) -> dict[str, Any]:
    """Return the fields of L (its source, value and cost) by where the value came from, whatever source is selected.

    An estimate stays an estimate, although the visitor now calls it declared or released; a released value stays paid
    for; and a typed value is declared and costs nothing. The origin is drawn as a caption where it differs from the
    selected source.
    """
    cost, source = fact.cost_of(value), fields["smoothness_source"]
    if fact.is_estimate(value):
        explain.mark_taken("this L", panel.key("knew_smoothness"), on_known=fact.forget_origin, args=(value,))
        return {**fields, "smoothness_source": "estimated", "smoothness_cost": None}
    if cost is not None:
        if source == "declared":
            st.caption(f"This L was released: it stays paid for, with ε_L = {short_up(cost)}.")
        return {**fields, "smoothness_source": "released", "smoothness_cost": cost}
    if source == "declared":
        fact.note_as_typed(value)
    elif fact.is_typed(value):
        say_typed("L")
        return {**fields, "smoothness_source": "declared", "smoothness_cost": None}
    return fields


MENU = problem_menu.ProblemMenu(
    problems={
        name: problem_menu.ProblemEntry(
            cls, groups={EXPANDER: ("threshold", *MODEL) if cls is HuberRegression else MODEL}
        )
        for name, cls in LOSSES.items()
    }
    | {QUADRATIC: problem_menu.ProblemEntry(Quadratic, f"{QUADRATIC}_", first=problem_menu.setting_names(Quadratic))},
    menu=_loss_menu,
    sources={
        problem_menu.ANY: {
            **problem_menu.generators(table.GENERATORS),
            problem_menu.UPLOAD: problem_menu.Source("Your own file", upload=table.choose_upload),
            QUADRATIC: problem_menu.Source(Quadratic.title),
        }
    },
    help="What the algorithms learn from. Your own file stays on this server.",
    expanders=(EXPANDER,),
    upload_defaults=UPLOADS,
    draw_more=_draw_smoothness,
    complete=_with_smoothness,
)


FARTHEST = 10_000  # largest T in the chart of the error bound against the number of steps T
GROUND_POINTS = 61  # points of the map of the objective, along each axis
GROUND_SECONDS = 0.2  # the longest that the evaluation of that map may take; loading the data takes no longer


@dataclass(frozen=True)
class Theory:
    """Predictions of theory about the error of each arm, by label of the arm.

    bounds : (T+1,) error bound after t = 0..T steps, of the private arms that have one.
    exact : (T+1,) expected error after t = 0..T steps, where the problem is a quadratic.
    by_horizon : k numbers of steps (k,), and the error bound (k,) at the end of a run of each number, whose steps spend
    the whole budget together. without_bound : labels of the private arms without a bound along the steps.
    without_quick_bound : labels of those that have one, but none against T that is quick to compute.
    start : upper bound on the excess loss before the first step; an error bound above it says nothing.
    comparisons : predicted error under the schedule that the user draws, next to other schedules; only of private arms
    with such a schedule, None where nothing is known before a run.
    """

    bounds: Mapping[str, np.ndarray]
    exact: Mapping[str, np.ndarray]
    by_horizon: Mapping[str, tuple[np.ndarray, np.ndarray]]
    without_bound: tuple[str, ...]
    without_quick_bound: tuple[str, ...]
    start: float
    comparisons: Mapping[str, ScheduleComparison | None]


class AcceleratedPage(FamilyPage):
    """Accelerated methods on smooth losses, with bounds on the error and a noise schedule that the user can draw."""

    prefix = "accel"
    package = accelerated
    by_name = ("schedule", "horizon")
    full_names = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    problems = MENU

    # ---------------------------------------------------------------------------------------------------- before a run

    def predict(self, experiment: Experiment, plans: Mapping[str, Plan]) -> Theory:
        """Return what theory says about the error of each arm."""
        bounds, exact, by_horizon, comparisons = {}, {}, {}, {}
        without_bound, without_quick_bound = list[str](), list[str]()
        start = 0.0
        for arm in experiment.arms:
            label, method, plan = arm.label, arm.algorithm, plans[arm.label]
            assert isinstance(method, GradientMethod) and isinstance(plan.facts, SmoothFacts)
            start = plan.facts.initial_gap  # the same for all arms
            if plan.facts.eigenvalues:
                exact[label] = method.expected_on_quadratic(plan)
            if not plan.private:
                continue
            if method.is_drawn:
                comparisons[label] = compare(method, plan)
            bound = method.error_bound(plan)
            if bound is None:
                without_bound.append(label)
                continue
            bounds[label] = bound
            # The chart goes on to twice the number of steps that is set, and to 200 at least.
            longer = method.replaced(iterations=min(FARTHEST, max(2 * method.iterations, 200)))
            try:
                horizons, end_bounds, _best = planning.bound_by_horizon(longer, plan.facts, plan.budget)
                by_horizon[label] = horizons, end_bounds
            except UserError:  # no bound is quick to compute
                without_quick_bound.append(label)
        return Theory(
            bounds,
            exact,
            by_horizon,
            without_bound=tuple(without_bound),
            without_quick_bound=tuple(without_quick_bound),
            start=start,
            comparisons=comparisons,
        )

    def size_note(self, view: PlanView) -> str:
        """Return the size of a batch, and the epochs (passes over the data) of the longest private plan."""
        plan = max(guarantee.only_private(view.plans).values(), key=lambda plan: plan.iterations)
        m, n = int(plan.rows[0]), plan.facts.n  # every step reads as many rows as the first
        rows = f"All n = {n:,} rows" if m == n else f"m = {m:,} of n = {n:,} rows"
        epochs = short(plan.iterations * m / n)
        steps = f"{plan.iterations:,} step{'s' * (plan.iterations > 1)}"
        return f"{rows} in each step: {epochs} epoch{'s' * (epochs != '1')} in {steps}."

    def plan_charts(self, view: PlanView) -> Iterator[Chart]:
        """Yield charts of the noise in each step, of the privacy spent, of the error bounds along the steps, and of the
        error bound at the end against the number of steps T."""
        caption = "Noise added to each coordinate of the mean gradient."
        chart = plan_figures.noise_schedule(view.plans, view.styles, caption)
        yield replace(chart, handles=_handles(view))
        yield page_plan.privacy_spent(view)
        predictions: Theory = view.theory
        condition = _condition(view)
        no_bound = no_quick_bound = ""
        if predictions.without_bound:
            no_bound = f" No bound is known for {', '.join(predictions.without_bound)}."
        if predictions.without_quick_bound:
            no_quick_bound = f" Without a quick one: {', '.join(predictions.without_quick_bound)}."
        caption_by_step = f"{_bound_caption(view)} Above the error of the start it says nothing.{no_bound}"
        caption_by_horizon = (
            f"Error bound{condition}, where the whole budget is spread over T steps. T*: the best that is drawn; -opt "
            f"and -T* take the best up to your T.{no_bound}{no_quick_bound}"
        )
        start = predictions.start
        yield plan_figures.error_bounds(
            predictions.bounds, view.styles, caption_by_step, start=start, condition=condition
        )
        yield plan_figures.bound_by_horizon(
            predictions.by_horizon, view.styles, caption_by_horizon, start=start, condition=condition
        )

    def chart_note(self, view: PlanView) -> str:
        """Return a sentence on the predicted error under the schedule that the user draws, of the first method that
        has one; "" if none has."""
        sentences = _schedule_sentences(view)
        return sentences[0] if sentences else ""

    def draw_advice(self, view: PlanView) -> None:
        """Draw buttons with shapes for the user's own schedule of noise, and the errors that it is predicted to have.

        Nothing is drawn unless a method has such a schedule.
        """
        if not _drawn_methods(view):
            return
        st.markdown(f"**Your own schedule.** {texts.SHAPE}")
        with st.container(horizontal=True, gap="small"):
            for name, knots in theory.SHAPES.items():
                st.button(name, key=f"{self.prefix}_shape_{name}", on_click=self._take_shape, args=(knots,))
        sentences = _schedule_sentences(view)
        if sentences:
            st.markdown(" ".join(sentences))
            # What follows is the same for all methods, which share problem, budget, noise and batches.
            comparison = next(comparison for comparison in view.theory.comparisons.values() if comparison is not None)
            source = "Exact for this quadratic." if comparison.exact else _bound_caption(view)
            # The sentences call the third schedule "optimal" if that is proven, else "recommended".
            remark = "No schedule is known to be optimal with this noise and budget; the recommended one is a good one."
            if comparison.proven:
                remark = "Optimal means: after the last step. On the way it may be far worse."
            st.caption(f"{source} {remark}")
        unknown = [label for label, comparison in view.theory.comparisons.items() if comparison is None]
        if unknown:
            st.caption(f"Nothing is known of {', '.join(unknown)} before a run.")

    def _take_shape(self, knots: theory.Knots) -> None:
        """Set the user's schedule to a shape, given by its heights; for callbacks."""
        st.session_state[f"{self.prefix}_knots"] = address_text(knots)

    def closer_looks(self, panel: Panel, view: PlanView, delta: float) -> Mapping[str, Callable[[], None]]:
        return closer_looks.tabs(panel, view, delta)

    def draw_assumptions(self, view: PlanView) -> None:
        plan = next(iter(guarantee.only_private(view.plans).values()))
        m, n = int(plan.rows[0]), plan.facts.n
        problem = view.experiment.problem
        method = view.experiment.arms[0].algorithm  # all methods share the kind of noise
        assert isinstance(method, GradientMethod)
        model = problem if isinstance(problem, LinearModel) else None
        explain.assumptions(
            explain.protects(problem),
            texts.batches(m, n),
            texts.composition(method.noise, sampled=m < n),
            texts.constants(
                None if model is None else model.smoothness_source,
                missing=missing_rule(problem.dataset),
                curvature=1.0 if model is None else model.curvature,
                assumed=assumed_constants(problem),
            ),
            texts.SCREEN,
            read=problem.from_data,
        )

    # ---------------------------------------------------------------------------------------------------- during a run

    def ground(self, run: Run, x: FixedAxis, y: FixedAxis) -> Ground | None:
        """Return the map of the objective below the runs, on a grid over both axes: of a quadratic, or of a model that
        is quick to evaluate; None for others."""
        grid = [np.linspace(axis.low, axis.high, GROUND_POINTS) for axis in (x, y)]
        facts = run.experiment.problem.facts()
        assert isinstance(facts, SmoothFacts)
        if facts.eigenvalues:
            return figures.quadratic_ground(facts, *grid)
        # `model_ground` evaluates the objective at KNOTS points along each axis, and interpolates between them.
        seconds = figures.KNOTS**2 * evaluation_seconds(facts.n, facts.d)
        if not isinstance(run.experiment.problem, LinearModel) or seconds > GROUND_SECONDS:
            return None
        assert isinstance(run.problem, LinearProblem)
        return figures.model_ground(run.problem, *grid)

    def region(self, run: Run, arm: Arm) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the ellipses that hold about 90 % of an arm's runs, on a quadratic; None elsewhere."""
        assert isinstance(arm.algorithm, GradientMethod)
        return figures.ellipse(arm.algorithm, run.plans[arm.label])

    # ----------------------------------------------------------------------------------------------------- after a run

    def curve_options(self, view: PlanView) -> CurveOptions:
        """Return options that draw the gradient norm next to the error, and over the error its bounds and, on a
        quadratic, its exact expectations."""
        condition, predictions = _condition(view), view.theory
        exact = {"exact expectation": predictions.exact} if predictions.exact else {}
        return CurveOptions(
            second="gradient_norm",
            overlays={"bound": predictions.bounds} | exact,
            remarks={
                "bound": f"The bound is on the mean{condition}.",
                "exact expectation": "The expectation is a mean; of so skewed a quantity the median lies below it.",
            },
            conditions={"bound": condition},
        )

    def draw_release(self, panel: Panel, run: Run, trace: Trace) -> None:
        """Draw the coefficients of the models released from a user's file; nothing for public data."""
        problem = run.experiment.problem
        arm_traces = results.private_traces(trace)
        if problem.public or not arm_traces or not isinstance(problem, LinearModel):
            return
        table = results.coefficients(problem.data.facts(), constant=problem.intercept == "yes")
        names = list(table["column"])
        table = table.assign(**{label: arm_trace.output["x"][0] for label, arm_trace in arm_traces.items()})
        sentences = {}
        for label, arm_trace in arm_traces.items():
            distance = arm_trace.last("distance")
            beginning = f"it has travelled {short(float(distance[0]))} from the start; " if len(distance) else ""
            heaviest = results.heaviest(arm_trace.output["x"][0], names)
            sentences[label] = f"{beginning}largest coefficients: {heaviest}."
        results.show_model(panel, run, sentences, table, _explain_prediction(problem))

    def draw_verdict(self, run: Run, trace: Trace, diagnostics: bool) -> None:
        """Draw a warning of models that are no better than a guess, and the share of rows that the clip changes.

        Both read the raw rows, so they are drawn with diagnostics only.
        """
        problem = run.experiment.problem
        if not diagnostics or not isinstance(problem, LinearModel):
            return
        warn_of_guesses(trace, problem)
        if not run.has_data or problem.clip is None:
            return
        share = _clipped_share(problem.to_json(), run.tables)
        effect = {
            "rows": "these are scaled down to it",
            "gradients": "their gradients can be longer, and are cut to it then",
        }[problem.clipping]
        reaches = f"reaches {short(100 * share)} % of the rows: {effect}" if share else "reaches no row"
        explain.show_not_private(f"**The clip** C = {short(problem.clip)} {reaches}.")
        st.caption("Counted in the raw data. A smaller C needs less noise, but changes more rows.")


# ------------------------------------------------------------------------------------------------------------- the plan


def _condition(view: PlanView) -> str:
    """Return the condition on which the error bounds rest, for the inside of a sentence; "" for none."""
    return texts.condition(assumed_constants(view.experiment.problem))


def _bound_caption(view: PlanView) -> str:
    """Describe the error bound and the condition on which it holds."""
    problem = view.experiment.problem
    is_released = isinstance(problem, LinearModel) and problem.smoothness_source == "released"
    return texts.bound(assumed_constants(problem), released=is_released)


def _drawn_methods(view: PlanView) -> dict[str, GradientMethod]:
    """Return the private methods with a noise schedule that the user draws, by label."""
    private = {arm.label: arm.algorithm for arm in view.experiment.arms if view.plans[arm.label].private}
    return {
        label: method for label, method in private.items() if isinstance(method, GradientMethod) and method.is_drawn
    }


def _handles(view: PlanView) -> dict[str, Any]:
    """Return the handles by which the user draws a schedule in the chart of the noise, for the browser's program.

    Empty if no method has such a schedule. Else it has the keys knots : the heights of the schedule. limit : upper
    limit of their size. power : 1 if the cost of a step is proportional to 1 / noise, 2 if to its square. lines : of
    each method, the number of steps and log10 of the noise of an even schedule; the first, with most steps, bears the
    handles.
    """
    methods = _drawn_methods(view)
    if not methods:
        return {}
    first_method, *_ = methods.values()
    knots = first_method.knots  # a setting that all methods share
    power = 1 if view.experiment.budget.pure else 2
    lines = {}
    for label in sorted(methods, key=lambda label: -view.plans[label].iterations):
        noise = view.plans[label].noise["gradient"]
        lines[label] = [len(noise), theory.even_level(knots, noise, power)]
    return {"knots": knots, "limit": theory.LIMIT, "power": power, "lines": lines}


def _schedule_sentences(view: PlanView) -> list[str]:
    """Return a sentence for each method with a schedule that the user draws and with a prediction: its error under this
    schedule, under an even one, and under the optimal or recommended one."""
    comparisons = {label: comparison for label, comparison in view.theory.comparisons.items() if comparison is not None}
    sentences = []
    for label, comparison in comparisons.items():
        quantity = "expected end" if comparison.exact else f"error bound{_condition(view)}"
        rounded = short if comparison.exact else short_up  # a bound is rounded up
        subject = f"{label}, {quantity}" if len(comparisons) > 1 else quantity[0].upper() + quantity[1:]
        best = "optimal" if comparison.proven else "recommended"
        sentences.append(
            f"{subject}: yours **{rounded(comparison.yours)}**, even {rounded(comparison.even)}, "
            f"{best} {rounded(comparison.optimal)}."
        )
    return sentences


# ---------------------------------------------------------------------------------------------------------- the results


def _explain_prediction(problem: LinearModel) -> str:
    """Explain how to predict with the coefficients of a model, given how the problem scales features and target."""
    facts = problem.data.facts()
    interval = "[0, 1]" if problem.scaling == "unit" else "[-½, ½]"
    constant = {"unit": "1", "centred": "½"}[problem.scaling]
    predicted = "A row is predicted positive where the sum of coefficient × value is above 0"
    if facts.target_range is not None:
        low, high = facts.target_range
        middle, half = short((low + high) / 2, 6), short((high - low) / 2, 6)
        predicted = f"The prediction for a row is {middle} + {half} × the sum of coefficient × value"
    scaling = f"each value scaled from its range to {interval}"
    if facts.blocks:
        scaling += ", a category being 1 in its rows and 0 elsewhere"
    if problem.intercept == "yes":
        scaling += f", the constant being {constant}"
    return f"{predicted}, {scaling}."


def warn_of_guesses(trace: Trace, problem: LinearModel) -> None:
    """Warn of models that are no better than a constant guess for every row: the majority's class, or the median.

    A model counts as better if its median over the runs exceeds the guess by more than a margin.
    """
    guesses = {name: trace.guess(name) for name in trace.metrics}
    recorded = [(name, *guess) for name, guess in guesses.items() if guess is not None]
    if not recorded:
        return
    name, guess_metric, guess_value = recorded[0]  # a problem has one metric with a guess at most
    is_share = guess_metric.better == "higher"
    sign = 1 if is_share else -1
    # The standard error of a share of n rows; for errors, which have no such law, a hundredth.
    margin = math.sqrt(guess_value * (1 - guess_value) / problem.facts().n) if is_share else guess_value / 100
    samples = {label: trace.last(label, name) for label in trace.arm_traces}
    medians = {label: float(np.median(values)) for label, values in samples.items() if len(values)}
    # `not … >`, so that a model that is NaN counts as no better.
    no_better = [
        f"{escape_name(label)} {short(median, 4)}"
        for label, median in medians.items()
        if not sign * (median - guess_value) > margin
    ]
    if no_better:
        st.warning(
            f"{guess_metric.label} reaches {short(guess_value, 4)} in “{trace.metrics[name].label}”, and these no more "
            f"than {short_up(margin, 2)} better: {', '.join(no_better)}. Medians over the runs, at their ends. A "
            "smaller loss can still mean better probabilities. **Not private**: read off the raw data.",
            title="No better than a constant guess",
            icon=":material/rule:",
        )


@st.cache_data(max_entries=32, scope="session", show_spinner=False)
def _clipped_share(problem_json: str, _tables: Mapping[str, np.ndarray]) -> float:
    """Return the share of rows that clipping changes, in the problem with this JSON text.

    With clipping of rows, these are the rows longer than the clip; with clipping of gradients, the rows whose gradient
    can become longer. The tables are no part of the cache's key: the problem names them.
    """
    problem = LinearModel.from_json(problem_json)
    built = problem.build(_tables)
    return built.shortened_share if problem.clipping == "rows" else built.clipped_share


PAGE = AcceleratedPage()
