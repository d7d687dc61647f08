"""The page of the second-order methods: the choice of a data set with a non-convex loss on it; and the picture, plan
and results."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import streamlit as st

from dpviz import datasets
from dpviz.datasets import Saddle
from dpviz.datasets.bundled import CovertypeLike, CovertypeUpload, prepare_covertype
from dpviz.datasets.uploads.upload import CONSTANT
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families import second_order
from dpviz.families.second_order import PerturbedDescent, advice, figures, presets, texts
from dpviz.families.second_order.advice import Forecast
from dpviz.families.second_order.methods.algorithms import Descent, NonconvexMethod
from dpviz.families.second_order.methods.releases import NOISY_CURVATURE, NOISY_GRADIENT
from dpviz.families.second_order.theory import Analysis
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots import clouds
from dpviz.plots.clouds import Ground
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.lines import Limit
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.nonconvex.nonconvex import (
    DIRECTIONS,
    LogisticTukey,
    MarginModel,
    NonconvexModel,
    RobustComponent,
    SigmoidTukey,
)
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment import guarantee, hero, problem_menu, results
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import Charts, PlanView
from dpviz.ui.experiment.private_fact import PrivateFact, note_typed, say_typed
from dpviz.ui.experiment.results import CurveOptions
from dpviz.ui.experiment.run import Run, problem_key
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.second_order import closer_looks
from dpviz.ui.uploads import file, table
from dpviz.ui.uploads.file import missing_rule

# The short names are part of the address.
SADDLE = "saddle"
GENERATORS: Mapping[str, type[datasets.DatasetSpecification]] = {
    SADDLE: datasets.Saddle,
    "covertype": CovertypeLike,
    "uniform": datasets.UniformLogistic,
    "correlated": datasets.CorrelatedLogistic,
    "heavy": datasets.HeavyTailed,
    "bundled": datasets.BundledTable,
}
LOSSES: Mapping[str, type[NonconvexModel]] = {
    "robust": RobustComponent,
    "logistic": LogisticTukey,
    "sigmoid": SigmoidTukey,
}
LOSS_TITLES = {"robust": "Robust component", "logistic": "Logistic", "sigmoid": "Sigmoid"}
MODEL = ("scaling", "divisor", "start", "smoothness", "hessian_lipschitz", "hessian_bound")
EXPANDER = "Loss and constants"


def _loss_menu(selection: problem_menu.Selection) -> problem_menu.Menu:
    """Return the menu of losses for the selected data.

    There are three: for a target that is a number, which only an upload can have, for the demonstration with a saddle,
    and for all other data. The last two have different names and defaults, so that each remembers its own choice.
    """
    upload = selection.upload
    if isinstance(upload, datasets.DatasetSpecification) and upload.facts().target_range is not None:
        help = "The target is a number, so only the robust component can be learned: it looks at no target."
        return problem_menu.Menu("loss", "Loss", {"robust": LOSS_TITLES["robust"]}, default="robust", help=help)
    if selection.source == SADDLE:
        return problem_menu.Menu("saddle_loss", "Loss", LOSS_TITLES, default="robust", help=texts.LOSS_HELP)
    return problem_menu.Menu("loss", "Loss", LOSS_TITLES, default="logistic", help=texts.LOSS_HELP)


def _covertype_file(page: str) -> tuple[datasets.DatasetSpecification | None, Mapping[str, np.ndarray]]:
    """Draw the controls for the visitor's copy of the forest cover types; return its data set and its arrays.

    Nothing has to be declared, as the columns of this file are known.
    """
    st.caption("The UCI file covtype.data, or covtype.data.gz: 54 columns and the class, without a header.")
    return file.choose_upload(page, kind=file.File, make=_prepare_covertype)


def _prepare_covertype(upload: file.File) -> datasets.Prepared[CovertypeUpload]:
    """Prepare an uploaded file of the forest cover types, once for each file, and say what is in it."""
    prepared = upload.make_once("covertype", lambda identity: prepare_covertype(upload.frame, identity, upload.reading))
    contents = f"{prepared.specification.facts().d} features"
    file.show_ready(upload, rows=len(prepared.table), dropped=prepared.dropped, contents=contents)
    return prepared


def _draw_gap(panel: Panel, cls: type[ProblemSpecification], values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the controls for the gap Γ, by how much the objective can fall, and for a random start; return the values of
    the fields that they set."""
    controls = {control.name: control for control in cls.controls()}
    # That a gap was typed is noted, as it then counts as declared, and costs nothing.
    fields = {"gap": panel.number(controls["gap"], "gap", on_change=partial(note_typed, panel, "gap"))}
    if values["start"] == "random":
        fields |= panel.draw_controls(cls, ["start_seed", "gap_cost"])
    return fields


def _with_gap(draft: problem_menu.Draft) -> Mapping[str, Any]:
    """Draw the button that computes the gap Γ of a random start by a private release, and what it costs or has cost.

    Returns the values of the problem's fields, with the cost of the gap in use; the cost is None if that was typed.
    """
    panel, values, budget = draft.panel, draft.values, draft.budget.build()
    value, cost = values["gap"], values.get("gap_cost")
    problem = Settings(draft.cls, {**values, "gap": None, "gap_cost": None}).build()  # for which Γ is to be computed
    assert isinstance(problem, NonconvexModel)
    file_key = None if problem.public else file.known_as(panel.page)
    fact = PrivateFact(panel, "gap", symbol="ε_Γ", what="the gap", problem_json=problem.to_json(), file=file_key)
    if cost is not None:
        fact.note_origin(value, cost)  # notes a value from a link as a release
    # At the start 0 a release says nothing; and under pure ε there is no run, as these methods need Gaussian noise.
    if values["start"] == "random" and budget.private and not budget.pure:
        spend = advice.suggested_cost(budget) if cost is None else cost
        fact.offer_release(value, spend, partial(advice.release_gap, problem, spend, draft.seed, draft.tables))
    fact.say_error()
    paid = fact.cost_of(value)  # on a file, of all releases of Γ together; None if this value was not released
    released_value = None if paid is None else value
    # `warn` also says if the value was released for another problem.
    fact.warn(paid is not None, where="with the gap that was released, and its cost", value=released_value)
    if value is not None and paid is None:
        fact.note_as_typed(value)
        if cost is not None:  # that of a release, which a typed value does not need
            say_typed("Γ")
    return {**values, "gap_cost": paid}


MENU = problem_menu.ProblemMenu(
    problems={
        name: problem_menu.ProblemEntry(
            cls,
            prefix=f"{name}_",
            shared=problem_menu.setting_names(cls, ["regularisation"]),  # all but that of the regularisation
            groups={EXPANDER: ("regularisation", *MODEL)},
        )
        for name, cls in LOSSES.items()
    },
    menu=_loss_menu,
    sources={
        problem_menu.ANY: {
            **problem_menu.generators(GENERATORS),
            problem_menu.UPLOAD: problem_menu.Source(
                "Your own file", upload=partial(table.choose_upload, constant=True)
            ),
            "covertype_file": problem_menu.Source("Your copy of covtype.data", upload=_covertype_file),
        }
    },
    help="What the algorithms learn from. Your own file stays on this server.",
    expanders=(EXPANDER,),
    draw_more=_draw_gap,
    complete=_with_gap,
)


Theory = Mapping[str, tuple[Forecast, ...]]  # the phases of every private method, by label
Color = Literal["green", "orange", "red", "gray"]
# Colour and icon of a forecast's badge, by its traffic light; and those of a method that never looks at the curvature.
BADGES: Mapping[str, tuple[Color, str]] = {
    "green": ("green", ":material/check_circle:"),
    "amber": ("orange", ":material/schedule:"),
    "red": ("red", ":material/block:"),
}
BLIND: tuple[Color, str] = ("gray", ":material/visibility_off:")
# The map of the demonstration reaches from -REACH to REACH along both directions; its minima lie at ±2.1 of the first.
REACH = (2.7, 1.5)
EVALUATIONS = 3e7  # upper limit of the map's points times the rows of the data: about a third of a second
MIN_POINTS, MAX_POINTS = 11, 41  # points of the map along each direction
OTHERS = 2  # number of further methods in the sentence of the headline
# Metrics of the cost of a run by its purpose, with names for a chart; and that of methods charged by iterations.
PURPOSES = {"gradient_charged": "gradients", "hessian_charged": "Hessians", "search_charged": "line search"}
ITERATIONS = {"iterations_charged": "iterations, gradient and Hessian together"}
SOLVED = "At a minimum"  # title of a column
COUNTED = 10_000_000  # the largest table, in numbers, that is loaded once more to count rows in it
# Names of the states in which a run ends without having stopped by itself.
ENDINGS = {"budget": "out of budget", "exhausted": "used all steps", "diverged": "diverged", "running": "running"}


class SecondOrderPage(FamilyPage):
    """Second-order methods, which stop by themselves where gradient and curvature say that they are at a minimum."""

    prefix = "second"
    package = second_order
    by_name = presets.BY_NAME
    full_names = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    references = "OPT once more, without noise: no privacy."
    currency = "approximate"
    at_first: Mapping[str, float] = {"epsilon": 0.2, "delta": 1e-5}
    problems = MENU

    # ---------------------------------------------------------------------------------------------------- before a run

    def predict(self, experiment: Experiment, plans: Mapping[str, Plan]) -> Theory:
        """Return forecasts of whether the runs of each private method can stop."""
        return advice.forecasts(experiment, plans)

    def size_note(self, view: PlanView) -> str:
        """Return a line with rows, features and constants, with a remark on those that do not follow from the loss."""
        first_plan, *_ = view.plans.values()
        facts = first_plan.facts
        assert isinstance(facts, NonconvexFacts)
        released = " (released)" if view.experiment.problem.releases_of_settings else ""
        return (
            f"n = {facts.n:,} rows, d = {facts.d:,}; G = {short(facts.smoothness)}{_remark(facts, 'G')}, "
            f"M = {short(facts.hessian_lipschitz)}{_remark(facts, 'M')}, f can fall by at most Γ = "
            f"{short_up(facts.gap)}{released}{_remark(facts, 'Γ')}."
        )

    def plan_charts(self, view: PlanView) -> Iterator[Chart]:
        """Yield charts of the noise in each step, of the privacy spent, of the noise of both stopping tests over their
        tolerances, and of the waiting times at a flat point by the number of rows."""
        yield figures.noise_and_targets(view.experiment.arms, view.plans, view.styles)
        yield page_plan.privacy_spent(view, step_name="step at most")
        theory: Theory = view.theory
        ratios: dict[str, tuple[float, float]] = {}  # noise over tolerance, by method and phase
        for phases in theory.values():
            for forecast in phases:
                ratios[forecast.name] = forecast.stopping.gradient_ratio, forecast.stopping.hessian_ratio
        yield figures.noise_against_tolerances(ratios)
        waiting: dict[str, figures.Waiting] = {}
        for label, phases in theory.items():
            last = phases[-1]
            # Only where noise falls with 1/n, so with all rows in each step, and where a run tests for a flat point.
            if last.all_rows and not last.blind:
                rows, steps = advice.waiting_by_rows(last)
                present = last.rows, last.stopping.waiting_time
                longest_wait = last.stopping.iterations / 2  # with which a run may be expected to stop
                waiting[label] = figures.Waiting(rows, steps, here=present, patience=longest_wait)
        yield figures.waiting_times(waiting, view.styles)

    def noise_card(self, label: str, plan: Plan) -> guarantee.Card:
        """Return the usual card, with the number of iterations T next to the label."""
        return guarantee.noise_card(label, plan)._replace(below=f"{label}, T = {plan.iterations:,}")

    def draw_advice(self, view: PlanView) -> None:
        """Say of each method whether its runs can stop under this noise, and of one how they could otherwise; then draw
        the numbers behind that."""
        theory: Theory = view.theory
        if not theory:
            return
        st.header("Can your budget tell?", anchor=False)
        forecasts = {label: advice.stopping_phase(phases) for label, phases in theory.items()}
        with st.container(horizontal=True, gap="small"):
            for label, forecast in forecasts.items():
                color, icon = BLIND if forecast.blind else BADGES[forecast.light]
                _, _, reason = texts.light(forecast).partition(": ")  # the icon has the light
                st.badge(f"{label}: {reason}", icon=icon, color=color)
        forecasts_with_test = [forecast for forecast in forecasts.values() if not forecast.blind]
        if forecasts_with_test:
            forecast = forecasts_with_test[0]
            draw_message = {"green": st.success, "amber": st.warning, "red": st.error}[forecast.light]
            draw_message(texts.can_tell(forecast, view.plans[forecast.label]), icon=BADGES[forecast.light][1])
        with st.expander("Every method, in numbers", icon=":material/traffic:"):
            show_table(
                [_row(forecast) for phases in theory.values() for forecast in phases],
                help=texts.COLUMNS["forecasts"],
                style=explain.format_numbers,
                alt="Of every method and phase: whether it can stop, waiting time, steps, noise over tolerance, rows "
                "needed",
            )
            st.caption(f"{texts.FORECASTS} {SETTINGS_ONLY}")

    def closer_looks(self, panel: Panel, view: PlanView, delta: float) -> Mapping[str, Callable[[], None]]:
        return closer_looks.tabs(panel, view, delta)

    def draw_assumptions(self, view: PlanView) -> None:
        private = list(guarantee.only_private(view.plans).values())
        batch, n = min(int(plan.rows[0]) for plan in private), private[0].facts.n  # of a first step, and of the data
        problem = view.experiment.problem
        assert isinstance(problem, NonconvexModel)
        missing = "classes" if isinstance(problem.dataset, CovertypeUpload) else missing_rule(problem.dataset)
        explain.assumptions(
            explain.protects(problem),
            texts.batches(batch, n),
            texts.COMPOSITION,
            texts.constants(problem, missing),
            texts.SCREEN,
            read=problem.from_data,
        )

    # ---------------------------------------------------------------------------------------------------- during a run

    def has_map(self, planned: PlanView | Run) -> bool:
        """Return true for the demonstration: a saddle whose first direction leads down."""
        problem = planned.experiment.problem
        return isinstance(problem, RobustComponent) and isinstance(problem.data, Saddle)

    def landscape(self, run: Run, trace: Trace) -> Chart | None:
        """Return contours of the objective, with a dot for every run of every method."""
        return clouds.landscape(
            trace,
            partial(_ground, run),
            arm_styles(run.experiment.arms),
            DIRECTIONS,
            objective_name="objective",
            heading="The objective below the runs",
            caption=f"{texts.LANDSCAPE} **Not private**: it reads the raw data, which are generated.",
        )

    def curves(self, run: Run, diagnostics: bool) -> Chart | None:
        """Return the curves of the length of the noisy gradient, with its tolerance if all methods have the same."""
        tolerances = {analysis_of(run, label).gradient_tolerance for label in run.plans}
        limits = [Limit(value, f"tolerance {short(value)}") for value in tolerances] if len(tolerances) == 1 else []
        return hero.curves(run, diagnostics, name=NOISY_GRADIENT.name, limits=limits)

    def headline(self, run: Run, trace: Trace) -> hero.Headline | None:
        """Return the number of runs of the first private method that stopped; its sentence says how many of them meet
        the targets, when they stopped, and how those of further methods ended."""
        private = {
            arm.label: arm
            for arm in run.experiment.arms
            if arm.label in trace.arm_traces and trace.arm_traces[arm.label].private
        }
        endings_by_label: dict[str, advice.RunEndings] = {}
        for label, arm in private.items():
            endings = advice.run_endings(trace, arm, run.plans[label])
            if endings is not None:  # None before a record
                endings_by_label[label] = endings
        if not endings_by_label:
            return None
        first_label, *others = endings_by_label
        first_endings = endings_by_label[first_label]
        within_targets = advice.within_targets(trace, private[first_label], run.plans[first_label])
        sentences = [] if within_targets is None else [texts.targets(*within_targets)]
        if first_endings.finished:
            sentences.append(texts.when(first_endings))
        else:
            stopping = advice.stopping_phase(advice.forecasts(run.experiment, run.plans)[first_label]).stopping
            # The steps are too few if the noise allows a stop at a flat point, or if they are fewer than the tests.
            is_too_soon = stopping.recognised or stopping.too_short
            sentences.append(texts.TOO_SOON if is_too_soon else texts.NOISY)
        sentences += [f"{label}: {texts.ended(endings_by_label[label])}" for label in others[:OTHERS]]
        help = "By themselves, by what they released."
        if any(endings.solved is not None for endings in endings_by_label.values()):
            targets = "Whether exact gradient and curvature meet the targets α and ε_H"
            help += f" {targets} reads the raw data: **not private**."
        return hero.Headline(
            f"Runs stopped: {first_label}",
            value=f"{first_endings.finished} of {first_endings.runs}",
            help=help,
            sentence=" ".join(sentences),
        )

    def ground(self, run: Run, *_axes: FixedAxis) -> Ground | None:
        """Return the objective below the runs; None where it cannot be drawn.

        It is drawn over a fixed part of the plane (`REACH`), so the axes of the runs, the further arguments, do not
        matter.
        """
        return _ground(run) if self.has_map(run) else None

    # ----------------------------------------------------------------------------------------------------- after a run

    def curve_options(self, view: PlanView) -> CurveOptions:
        """Return options that draw the exact gradient norm second; on a user's file, which it would read, the cost."""
        public = view.experiment.problem.public
        return CurveOptions(second="gradient_norm" if public else "gradient_charged")

    def draw_release(self, panel: Panel, run: Run, trace: Trace) -> None:
        """Draw a table of the ends of the runs of every method: for these methods, to finish is the result. Draw also
        the models released from a user's file."""
        rows = []
        for arm in run.experiment.arms:
            endings = advice.run_endings(trace, arm, run.plans[arm.label]) if arm.label in trace.arm_traces else None
            if endings is not None:
                rows.append(_ending_row(run, trace, arm.label, endings))
        if not rows:
            return
        reads_data = any(SOLVED in row for row in rows)
        with explain.heading("Did they stop, and where?"):
            if reads_data:
                explain.privacy_badge("not private")
        show_table(
            rows,
            help=texts.COLUMNS["endings"],
            alt="Of every method: how many runs finished, at which step, and how many of these at a minimum",
        )
        warning = f" “{SOLVED}” reads the raw data: **not private**." if reads_data else ""
        st.caption(f"How and when a run ended follows from what it released.{warning}")
        problem, arm_traces = run.experiment.problem, results.private_traces(trace)
        if problem.public or not arm_traces or not isinstance(problem, MarginModel):
            return
        facts = problem.data.facts()
        model, sentences = results.coefficients(facts, constant=True), {}
        for label, arm_trace in arm_traces.items():
            score = problem.linear_score(arm_trace.output["x"][0])
            model[label] = [*score.coefficients, score.constant]
            stop = next(iter(arm_trace.stopped_at), -1)  # -1 if it ran to the end
            sentences[label] = f"number of steps: {stop if stop >= 0 else arm_trace.iterations[-1]:,}."
        category = ", a category being 1 in its rows and 0 elsewhere" if facts.blocks else ""
        constant = f", {CONSTANT} being 1" if getattr(problem.data, "constant", False) else ""
        meaning = (
            f"A row is predicted positive where {results.CONSTANT} + the sum of coefficient × value is above 0, in the "
            f"columns' own units{category}{constant}."
        )
        results.show_model(panel, run, sentences, model, meaning, digits="%.4g")

    def draw_results(self, panel: Panel, run: Run, trace: Trace, _diagnostics: bool) -> Charts:
        """Draw the two stopping tests of one method, step by step against their tolerances, and what its releases cost.

        Returns the charts.
        """
        labels = [label for label, arm_trace in trace.arm_traces.items() if len(arm_trace.last(NOISY_GRADIENT.name))]
        if not labels:
            return []
        with st.columns([1, 2])[0]:
            label = panel.one_of("tests_of", "Tests of", labels, help="Whose steps are shown.")
        method_privacy, analysis = trace.arm_traces[label].privacy, analysis_of(run, label)
        released = explain.release_sentence(run.experiment, run.experiment.replicates)
        privacy = explain.REFERENCES if method_privacy == "not private" else released
        certified = f" {texts.CERTIFIED}" if "certificate" in run.plans[label].noise else ""
        tests = (
            (NOISY_GRADIENT, analysis.gradient_tolerance, "Is the gradient small?", ""),
            (NOISY_CURVATURE, -analysis.curvature_tolerance, "Is the curvature not negative?", certified),
        )
        drawings: Charts = []
        for column, (metric, tolerance, heading, note) in zip(st.columns(2, gap="medium"), tests, strict=True):
            log_y = metric is NOISY_GRADIENT  # curvature may be negative
            caption = f"{texts.TESTS[metric.name]}{note} {privacy}"
            chart = figures.stopping_test(
                trace, label, metric.name, tolerance, log_y=log_y, heading=heading, caption=caption
            )
            with column:
                if chart.figure.data:
                    drawings.append(charts.show(chart, panel.key(f"chart_test_{metric.name}")))
                else:  # no curvature was released; `labels` are of methods that release gradients
                    st.subheader(heading, anchor=False)
                    st.info(_why_not(run, label), icon=":material/block:")
        if method_privacy != "not private":
            drawings += _spent(panel, run, trace, label, privacy)
        return drawings

    def draw_verdict(self, run: Run, _trace: Trace, diagnostics: bool) -> None:
        """Say which share of the rows was shortened to length 1, if any was.

        It reads the raw rows, so it is drawn with diagnostics only; not for data that take long to load.
        """
        problem = run.experiment.problem
        if not diagnostics or not run.has_data or not isinstance(problem, NonconvexModel):
            return
        facts = problem.facts()
        if facts.n * facts.d > COUNTED:
            return
        share = _shortened_share(problem.to_json(), run.tables)
        if share:
            explain.show_not_private(f"**Longer than 1**: {short(100 * share, 3)} % of the rows, which are shortened.")
            st.caption(
                "Counted in the raw data. “Divide rows by” a larger number changes fewer rows; all then weigh less."
            )


# ------------------------------------------------------------------------------------------------------------- the plan


def _row(forecast: Forecast) -> dict[str, object]:
    """Return the numbers of one forecast by the titles of their columns; None where there is none."""
    stopping = forecast.stopping
    # The decrease of a step rests on G and M, the Lipschitz constants of gradient and Hessian.
    rests_on_assumption = any(constant.symbol in "GM" for constant in forecast.assumed)
    return {
        "Method": forecast.name,
        "Can it stop?": texts.light(forecast),
        "W": stopping.waiting_time,
        "T": stopping.iterations,
        "Gradient": stopping.gradient_ratio,
        "Curvature": stopping.hessian_ratio,
        "Least decrease": None if rests_on_assumption else forecast.decrease,
        "Rows, practical": _rounded_up(forecast.rows_practical),
        "Rows, proven": _rounded_up(forecast.rows_needed),
        "Rows, published": _rounded_up(forecast.rows_published),
    }


def _rounded_up(rows: float | None) -> float | None:
    return None if rows is None else rounded_up(rows)


def _remark(facts: NonconvexFacts, symbol: str) -> str:
    """Return a remark to follow a constant that is assumed; "" for one that follows from the loss, or was released."""
    return " (assumed)" if any(constant.symbol == symbol for constant in facts.assumed) else ""


# ----------------------------------------------------------------------------------------------------- the live picture


def analysis_of(run: Run, label: str) -> Analysis:
    """Return the targets and tolerances of the method with this label."""
    method = next(arm.algorithm for arm in run.experiment.arms if arm.label == label)
    facts = run.plans[label].facts
    assert isinstance(method, NonconvexMethod) and isinstance(facts, NonconvexFacts)
    return method.analysis(facts)


@st.cache_resource(max_entries=8, scope="session", show_spinner=False, hash_funcs={Run: problem_key})
def _ground(run: Run) -> Ground:
    """Compute the objective of a run on a grid in the plane of the first two coordinates.

    The more rows the data have, the fewer points has the grid, so that it takes about the same time.
    """
    points = int(np.clip(np.sqrt(EVALUATIONS / run.problem.facts.n), MIN_POINTS, MAX_POINTS))
    return clouds.objective_ground(run.problem, *(np.linspace(-reach, reach, points) for reach in REACH))


# ---------------------------------------------------------------------------------------------------------- the results


def _ending_row(run: Run, trace: Trace, label: str, endings: advice.RunEndings) -> dict[str, object]:
    """Return the endings of a method's runs by the titles of their columns; None where there is nothing to say.

    The column SOLVED, which reads raw data, is there only if it may be shown.
    """
    row: dict[str, object] = {
        "Method": label,
        "Finished": f"{endings.finished} of {endings.runs}",
        "Median step": short(endings.median_step, 4) if endings.finished else None,
    }
    if endings.solved is not None:
        row[SOLVED] = f"{endings.solved} of {endings.finished}" if endings.finished else None
    statuses = trace.arm_traces[label].status  # one for each run
    # Each once, in the order in which they come first.
    other_statuses = [status for status in dict.fromkeys(statuses) if status in ENDINGS]
    row["Otherwise"] = ", ".join(f"{statuses.count(status)} {ENDINGS[status]}" for status in other_statuses) or None
    used_share = _used_share(run.plans[label], trace, label)
    if used_share is not None:
        row["Used"] = f"{short(100 * used_share, 2)} %"
    return row


def _used_share(plan: Plan, trace: Trace, label: str) -> float | None:
    """Return the mean share of the budget that the runs of a method were charged; None without privacy.

    The share is counted in a unit in which costs add up. The cost of batches does not add up: for them, it is the share
    of the iterations.
    """
    iterations = trace.arm_traces[label].last("iterations_charged")  # (R,), recorded with batches only
    if plan.private and len(iterations):
        return float(iterations.mean()) / plan.iterations
    _, charged = trace.spent(label)  # (k, R)
    currency = trace.arm_traces[label].currency
    if currency is None or not len(charged):
        return None
    share = charged[-1] / plan.statement.spent(currency)[-1]  # (R,), of what the guarantee allows until the last step
    # Costs in μ add up as squares, so its power is 2; it is 1 for currencies whose costs add up themselves.
    return float((share ** UNITS[currency].power).mean())


@st.cache_data(max_entries=32, scope="session", show_spinner=False)
def _shortened_share(problem_json: str, _tables: Mapping[str, np.ndarray]) -> float:
    """Return the share of rows that are longer than 1, and so shortened, in the problem with this JSON text.

    `_tables` are no part of the cache's key, as the problem names them.
    """
    return NonconvexModel.from_json(problem_json).build(_tables).shortened_share


def _why_not(run: Run, label: str) -> str:
    """Return a sentence that says why the method with this label has not released the curvature."""
    method = next(arm.algorithm for arm in run.experiment.arms if arm.label == label)
    facts = run.plans[label].facts
    assert isinstance(facts, NonconvexFacts)
    if isinstance(method, PerturbedDescent) or (isinstance(method, Descent) and method.curvature == "never"):
        return texts.NEVER_ASKED
    if isinstance(method, Descent) and not method.releases_hessians(facts):  # the constants do not demand it
        return texts.NOT_NEEDED
    return texts.NOT_YET


def _spent(panel: Panel, run: Run, trace: Trace, label: str, privacy: str) -> Charts:
    """Draw what a method's releases have cost, by purpose, against the ceiling in the guarantee; return the charts.

    privacy : the sentence for the caption on the privacy of the chart.
    """
    plan = run.plans[label]
    if len(trace.arm_traces[label].last("iterations_charged")):
        purposes, ceiling, start, title = ITERATIONS, float(plan.iterations), 0.0, "Iterations charged"
        caption = "Every iteration pays for gradient and Hessian at once, whether or not both were of use."
    else:
        start, ceiling = plan.spent("rho")[[0, -1]].tolist()  # ρ that is spent before the first step, and after all
        purposes, title = PURPOSES, "Privacy spent, ρ" if plan.person is None else "Privacy spent, ρ of one row"
        caption = "Mean over the runs; the ceiling is what is guaranteed, whatever was used."
    caption = f"{caption} {privacy}"
    chart = figures.spent_by_purpose(
        trace, label, purposes, ceiling, charged_before=start, title=title, caption=caption
    )
    return [charts.show(chart, panel.key("chart_purposes"))] if chart.figure.data else []


PAGE = SecondOrderPage()
