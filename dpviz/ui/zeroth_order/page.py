"""The page of the zeroth-order methods: the choice of a function of which only values can be computed, simulated or a
model on a table; and the picture, plan and results."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import BundledTable, DatasetSpecification, SphereLinear, UniformLinear, UniformLogistic
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.summary import headline_result
from dpviz.experiments.trace import Trace
from dpviz.families import zeroth_order
from dpviz.families.zeroth_order import figures, presets, texts
from dpviz.families.zeroth_order.advice import Forecast, Option, forecast, has_sums, max_distance, running_sums_method
from dpviz.families.zeroth_order.conversion import EVALUATIONS
from dpviz.numbers import short, short_up
from dpviz.plots import clouds
from dpviz.plots.clouds import Ground
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.values import black_box
from dpviz.problems.values.black_box import BentValley, BlackBox, PhaseRetrieval, ReluNetwork, TableModel
from dpviz.problems.values.value_problem import ValueFacts
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee, hero, results
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.controls import BY_NAME
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.plan import Charts, PlanView, show_advice
from dpviz.ui.experiment.problem_menu import (
    ANY,
    UPLOAD,
    Menu,
    ProblemEntry,
    ProblemMenu,
    Source,
    generators,
    setting_names,
)
from dpviz.ui.experiment.results import CurveOptions
from dpviz.ui.experiment.run import Run
from dpviz.ui.uploads import table
from dpviz.ui.uploads.file import missing_rule
from dpviz.ui.zeroth_order import closer_looks

# The short names are part of the address.
SIMULATED: Mapping[str, type[black_box.BlackBox]] = {
    "phase": black_box.PhaseRetrieval,
    "valley": black_box.BentValley,
    "votes": black_box.Votes,
}
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    "sphere": SphereLinear,
    "linear": UniformLinear,
    "uniform": UniformLogistic,
    "bundled": BundledTable,
}
MODELS: Mapping[str, type[black_box.TableModel]] = {
    "capped": black_box.CappedRegression,
    "network": black_box.ReluNetwork,
}
MODEL_TITLES = {"capped": "Robust regression", "network": "Neural network"}
CONSTANTS = tuple(setting_names(black_box.BlackBox))  # settings that all functions share
ROW_SETTINGS = tuple(setting_names(black_box.TableModel, CONSTANTS))  # further settings that all models on tables share
EXPANDER = "Function and constants"


MENU = ProblemMenu(
    problems={
        name: ProblemEntry(
            cls,
            prefix=f"{name}_",
            shared=CONSTANTS,
            first=setting_names(cls, CONSTANTS),  # without the shared ones
            groups={EXPANDER: CONSTANTS},
        )
        for name, cls in SIMULATED.items()
    }
    | {
        name: ProblemEntry(
            cls, groups={EXPANDER: (*setting_names(cls, (*CONSTANTS, *ROW_SETTINGS)), *ROW_SETTINGS, *CONSTANTS)}
        )
        for name, cls in MODELS.items()
    },
    menu=Menu("model", "Model", MODEL_TITLES, default="capped", help=texts.MODEL_HELP),
    sources={
        ANY: {name: Source(cls.title) for name, cls in SIMULATED.items()}
        | generators(GENERATORS)
        | {UPLOAD: Source("Your own file", upload=table.choose_upload)}
    },
    label="Function",
    help="Whose values are asked for. Your own file stays on this server.",
    expanders=(EXPANDER,),
)


LINES = 4  # number of private methods whose curves are in the live picture
DIRECTIONS = ("Parameter x₁", "Parameter x₂")
# The map of a function, below the runs, is computed from ROWS rows at POINTS points along each direction.
ROWS, POINTS = 2000, 71
BALL = 64  # points of the disc over which the map is averaged
# The part of each function that is drawn: lowest and highest value of both parameters.
REACH = {BentValley: ((-1.4, 1.6), (-1.6, 1.6)), PhaseRetrieval: ((-1.4, 1.4), (-1.4, 1.4))}
MUCH = 0.05  # share of the sum of all differences that clipping takes away, above which there is a warning


class ZerothOrderPage(FamilyPage):
    """Zeroth-order methods, which learn from values of the loss alone."""

    prefix = "zeroth"
    package = zeroth_order
    by_name = presets.BY_NAME
    full_names = texts.WORDS
    default_methods = presets.DEFAULT_METHODS
    references = "The published algorithm once more, without noise: no privacy."
    data_heading = "Function"
    currency = "gaussian"
    at_first: Mapping[str, float] = {"mu": 0.3, "replicates": presets.REPLICATES}
    problems = MENU

    # ---------------------------------------------------------------------------------------------------- before a run

    def predict(self, experiment: Experiment, plans: Mapping[str, Plan]) -> Forecast:
        """Return bounds on the error, and advice."""
        return forecast(experiment, plans)

    def size_note(self, view: PlanView) -> str:
        """Return a line with rows, parameters, the Lipschitz constant L, and the largest distance that a run can get
        from its start."""
        first_plan, *_ = view.plans.values()
        facts, farthest = ValueFacts.of(first_plan.facts), max_distance(view.plans)
        note = f" Epochs move at most {short_up(farthest)} in all." if farthest else ""
        return f"n = {facts.n:,} rows, d = {facts.d:,} parameters, L = {short(facts.lipschitz)}.{note}"

    def plan_charts(self, view: PlanView) -> Iterator[Chart]:
        """Yield charts of the noise in an epoch, against the dimension, and in running sums; of the parts of the bound;
        of the μ of what the first steps of an epoch release; and of the privacy spent."""
        yield figures.noise_of_an_epoch(view.plans, view.styles)
        yield figures.noise_by_dimension(view.experiment.arms, view.plans, view.styles)
        forecast: Forecast = view.theory
        experiment = view.experiment
        yield figures.running_sums(
            running_sums_method(experiment), forecast.facts, experiment.row_budget, own=has_sums(experiment)
        )
        yield figures.bound_parts(forecast.bounds, forecast.facts, without=forecast.labels_without_bound)
        k = view.experiment.problem.rows_per_person  # a person with k rows has k times the μ of a row
        curves = {label: k * mu for label, mu in forecast.mu_of_first_steps.items()}
        # There are no curves if `mu` is None.
        yield figures.privacy_of_first_steps(curves, view.styles, k * (forecast.mu or 0.0))
        yield page_plan.privacy_spent(view)

    def noise_card(self, label: str, plan: Plan) -> guarantee.Card:
        """Return the card with the noise on each coordinate, as root mean square over the steps."""
        noise, *_ = plan.noise.values()  # (T,)
        value = short(float(np.sqrt((noise**2).mean())))
        help = (
            "Scale of the noise on each coordinate of the gradient estimate (of DP-ZO: on the one slope), root mean "
            "square over the steps."
        )
        return guarantee.Card("Noise of a step", value, f"{label}, {plan.iterations:,} steps", help)

    def draw_advice(self, view: PlanView) -> None:
        """Warn where steps are too few to reach the minimum; draw the advised method, with a button that applies it."""
        forecast: Forecast = view.theory
        # `reach` is the largest distance that a run with epochs may get; 0 if no method has epochs.
        far, reach = forecast.distance_to_minimum, forecast.reach
        if far is not None and 0 < reach < far:
            st.warning(texts.NO_REACH.format(far=short(far), reach=short_up(reach)), title="Too few steps to get there")
        if forecast.advice is None:
            return
        option = forecast.advice.choice
        length, epochs = option.length_and_epochs
        reason = "Advised at your size"  # by measured runs, or without a bound that holds
        if option.lowest is None and forecast.facts.exact:  # no run was measured, and bounds hold
            reason = "Smallest bound at your size"
            if forecast.facts.guessed:
                reason += ", if F* holds"
        show_advice(
            f"**{reason}: “{option.way.name}”, T = {length:,}, K = {epochs:,}.** Why: “Advice” below.",
            f"{self.prefix}_advised",
            "Use these settings",
            on_click=self._use,
            args=(option,),
            help="Chooses this method beside the published one, and its epochs. Epochs apply to both.",
        )

    def _use(self, option: Option) -> None:
        """Set the controls to an option: its method, next to the published one, and its epochs; for callbacks."""
        way, label = option.way, presets.label_of(option.way)
        length, epochs = option.length_and_epochs
        settings = {
            "methods": list(dict.fromkeys([presets.PUBLISHED, label])),  # one, if they are the same
            "directions": BY_NAME,
            "directions_per_row": None,
            # Two ways have the published method's label, and differ in their sums only.
            "sums": way.sums if label == presets.PUBLISHED and way.sums else BY_NAME,
            "epoch_length": length,
            "iterations": length * epochs,
            "travel": 1.0,  # this and the others have the values for which the option is advised
            "first_share": 0.5,
            "follow_moves": way.follows,
            "clipping": "lipschitz",
            "concentration": None,
            "fresh_start": True,
        }
        Panel(self.prefix).set_values(settings)

    def closer_looks(self, panel: Panel, view: PlanView, delta: float) -> Mapping[str, Callable[[], None]]:
        return closer_looks.tabs(panel, view, delta)

    def draw_assumptions(self, view: PlanView) -> None:
        forecast: Forecast = view.theory
        facts = forecast.facts
        problem = view.experiment.problem
        explain.assumptions(
            explain.protects(problem),
            texts.BATCHES,
            texts.COMPOSITION,
            texts.constants(facts.exact, missing=missing_rule(problem.dataset), guessed=facts.guessed),
            texts.SCREEN,
            read=problem.from_data,
        )

    # ---------------------------------------------------------------------------------------------------- during a run

    def has_map(self, planned: PlanView | Run) -> bool:
        """Return true if a map of the objective can be drawn: for simulated functions of two parameters."""
        problem = planned.experiment.problem
        return type(problem) in REACH and problem.facts().d == len(DIRECTIONS)

    def landscape(self, run: Run, trace: Trace, smoothed: bool = False) -> Chart | None:
        """Return contours of the objective, with a dot at what each run would release.

        smoothed : true for the smoothed objective, on which the methods descend.
        """
        what = "smoothed objective" if smoothed else "objective"
        return clouds.landscape(
            trace,
            partial(ground, run, smoothed),
            arm_styles(run.experiment.arms),
            DIRECTIONS,
            objective_name=what,
            heading=f"Smoothed over r = {short(radius(run))}" if smoothed else "The function itself",
            caption=f"{texts.LANDSCAPE.format(what=what)} **Not private**: it reads the raw data, which are generated.",
        )

    def curves(self, run: Run, diagnostics: bool) -> Chart | None:
        """Return the curves of at most LINES private methods."""
        return hero.curves(run, diagnostics, max_private=LINES)

    def headline(self, run: Run, trace: Trace) -> hero.Headline | None:
        """Return the end of the best method; its sentence compares it with its start and with the end of the reference
        without privacy."""
        headline, result = hero.lowest_headline(run, trace), headline_result(trace)
        if headline is None or result is None:
            return headline
        start = short(result.start)
        sentence = f"Down from {start}" if result.end < result.start else f"**No lower than where it started**, {start}"
        if result.floor is not None:
            sentence += f"; without privacy {short(result.floor)}"
            if short(result.floor) != headline.value and result.may_be_chance(result.best, result.reference):
                sentence += ", a difference that may be chance"
        return headline._replace(sentence=f"{sentence}.")

    def ground(self, run: Run, *_axes: FixedAxis) -> Ground | None:
        """Return the objective below the runs; None where it cannot be drawn.

        It is drawn over a fixed part of the plane (`REACH`), so the axes of the runs, the further arguments, do not
        matter.
        """
        return ground(run, smoothed=False) if self.has_map(run) else None

    # ----------------------------------------------------------------------------------------------------- after a run

    def curve_options(self, view: PlanView) -> CurveOptions:
        """Return options that draw stationarity next to the objective; for a user's file, the number of evaluations.

        Where values jump there is no gradient, so it is the stationarity of the smoothed function.
        """
        problem = view.experiment.problem
        is_discontinuous = isinstance(problem, BlackBox) and not problem.loss().continuous
        second = "smoothed_gradient_norm" if is_discontinuous else "stationarity_bound"
        if not problem.public:
            second = EVALUATIONS.name
        return CurveOptions(second=second)

    def draw_release(self, panel: Panel, run: Run, trace: Trace) -> None:
        """Draw the coefficients of the models released from a user's file; nothing for public data."""
        problem = run.experiment.problem
        arm_traces = results.private_traces(trace)
        if problem.public or not arm_traces or not isinstance(problem, TableModel):
            return
        # A row for each parameter: its column of the data with the declared range and, for a network, its unit.
        model = results.coefficients(problem.data.facts(), problem.intercept)
        names = list(model["column"])
        if isinstance(problem, ReluNetwork):
            units = np.repeat(np.arange(1, problem.units + 1), len(model))
            model = pd.concat([model] * problem.units, ignore_index=True).assign(unit=units)
            names = [f"{name} (unit {unit})" for name, unit in zip(model["column"], units, strict=True)]
        # x[0] is the model of a method's first run.
        model = model.assign(**{label: arm_trace.output["x"][0] for label, arm_trace in arm_traces.items()})
        sentences = {
            label: f"{run.plans[label].iterations:,} steps; largest coefficients: "
            f"{results.heaviest(arm_trace.output['x'][0], names)}."
            for label, arm_trace in arm_traces.items()
        }
        results.show_model(panel, run, sentences, model, explain_prediction(problem))

    def draw_results(self, panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Charts:
        """Draw the length of the noisy gradients, the stationarity of the runs and, for a function of two parameters,
        maps of the function and of its smoothed version; return the charts."""
        left, right = st.columns(2, gap="medium")
        with left:
            drawings = _norms(panel, run, trace)
        if not diagnostics:
            return drawings
        # The right column first: the left one has the lengths already.
        for column, metric in zip((right, left), figures.STATIONARITY, strict=True):
            with column:
                drawings += _stationarity(panel, run, trace, metric)
        if self.has_map(run):
            maps = []
            for smoothed in (False, True):
                chart = self.landscape(run, trace, smoothed)
                if chart is not None:
                    maps.append((chart, panel.key(f"chart_ground_{smoothed}")))
            drawings += charts.show_side_by_side(*maps)
        return drawings

    def draw_verdict(self, _run: Run, trace: Trace, diagnostics: bool) -> None:
        """Say how much clipping took away at the end of the run, of the method that it changes most.

        It reads the raw data, so it is drawn with diagnostics only.
        """
        if not diagnostics:
            return
        clipped: dict[str, tuple[float, float]] = {}  # by label: share of the differences, and share of their sum
        for label, arm_trace in trace.arm_traces.items():
            shares, masses = arm_trace.last("clipped_share"), arm_trace.last("clipped_mass")
            if len(shares) and len(masses):
                clipped[label] = float(shares.mean()), float(masses.mean())
        if not clipped:
            return
        label = max(clipped, key=clipped.__getitem__)  # the largest share of the differences, then the mass
        share, mass = clipped[label]
        explain.show_not_private(f"**Clipped**: {texts.clipping(share, mass, label)}")
        if mass > MUCH:
            st.warning(texts.MUCH_CLIPPED, title="Clipping changes the function")


# ------------------------------------------------------------------- the ground: a map of the objective below the runs


def ground(run: Run, smoothed: bool) -> Ground:
    """Compute the objective of a run's function over its two parameters; if `smoothed`, its mean over discs of the
    run's radius r."""
    objective = _evaluate(run.experiment.problem.to_json())
    return average_over_discs(objective, radius(run)) if smoothed else objective


def radius(run: Run) -> float:
    """Return the radius r over which a run's function is smoothed."""
    facts = run.problem.facts
    assert isinstance(facts, ValueFacts)
    return facts.radius


@st.cache_resource(max_entries=8, show_spinner=False)
def _evaluate(problem_json: str) -> Ground:
    """Compute the objective of the simulated function with this JSON text over the part of the plane in REACH.

    The function gets ROWS rows in place of its own number, which takes less time and gives the same picture.
    """
    problem = BlackBox.from_json(problem_json)
    x, y = (np.linspace(low, high, POINTS) for low, high in REACH[type(problem)])
    return clouds.objective_ground(problem.replaced(rows=ROWS).build(), x, y)


def average_over_discs(objective: Ground, radius: float) -> Ground:
    """Compute the mean of the values on a grid over discs of this radius around each of its points.

    The mean is that over BALL points of the disc. Between the points of the grid values are interpolated linearly;
    beyond its edge they are continued by odd reflection, which keeps slopes.
    """
    # The radius in cells of the grid, along x and along y.
    x_cells, y_cells = radius / (objective.x[1] - objective.x[0]), radius / (objective.y[1] - objective.y[0])
    padding = math.ceil(max(x_cells, y_cells)) + 1
    padded = np.pad(objective.values, padding, mode="reflect", reflect_type="odd")
    # Points spread evenly over the unit disc, like the seeds of a sunflower: each is turned by the golden angle from
    # the one before, and the i-th lies in the middle of the i-th of BALL rings of equal area.
    angles = np.arange(BALL) * np.pi * (3 - np.sqrt(5))
    radii = np.sqrt((np.arange(BALL) + 0.5) / BALL)
    total = np.zeros_like(objective.values)
    # `_shift` moves along the last axis, which is x; transposed, it is y.
    for length, angle in zip(radii.tolist(), angles.tolist(), strict=True):
        moved_along_x = _shift(padded, padding, x_cells * length * math.cos(angle))
        total += _shift(moved_along_x.T, padding, y_cells * length * math.sin(angle)).T
    return Ground(objective.x, objective.y, total / BALL)


def _shift(values: np.ndarray, padding: int, cells: float) -> np.ndarray:
    """Return the values (m, k) that are `cells` cells further along the last axis, interpolated between two columns.

    values : (m, k + 2 padding), where `padding` exceeds the size of `cells`; the padding is left out of the result.
    """
    whole_cells = math.floor(cells)
    share = cells - whole_cells
    start, stop = padding + whole_cells, values.shape[1] - padding + whole_cells
    return np.asarray((1 - share) * values[:, start:stop] + share * values[:, start + 1 : stop + 1])


# ---------------------------------------------------------------------------------------------------------- the results


def _norms(panel: Panel, run: Run, trace: Trace) -> Charts:
    """Draw the length of the released gradients next to that of the noise in them; return the chart, or an empty list
    if no method has such gradients."""
    experiment = run.experiment
    private = [arm_trace for arm_trace in trace.arm_traces.values() if arm_trace.private]
    methods = sum(len(arm_trace.last("noisy_gradient_norm")) > 0 for arm_trace in private)
    privacy = explain.release_sentence(experiment, experiment.replicates, methods)
    chart = figures.norms(trace, run.plans, arm_styles(experiment.arms), privacy)
    return [charts.show(chart, panel.key("chart_norms"))] if chart.figure.data else []


def _stationarity(panel: Panel, run: Run, trace: Trace, metric: str) -> Charts:
    """Draw one of the metrics in `figures.STATIONARITY`, with the error from its sample of rows; return the chart, or
    an empty list if it was not recorded."""
    experiment, problem = run.experiment, run.experiment.problem
    privacy = explain.diagnostic_sentence(experiment.replicates, problem.public)
    chart = figures.stationarity(trace, metric, arm_styles(experiment.arms), privacy)
    if chart.figure.data:
        return [charts.show(chart, panel.key(f"chart_{figures.STATIONARITY[metric]}"))]
    # Where values jump, the Goldstein stationarity is not defined.
    if metric == "stationarity_bound" and isinstance(problem, BlackBox) and not problem.loss().continuous:
        st.caption(texts.NO_STATIONARITY)
    return []


def explain_prediction(problem: TableModel) -> str:
    """Explain how to predict with the coefficients of a model, given how the problem scales inputs and target."""
    facts = problem.data.facts()
    divisor = math.sqrt(problem.features) if problem.divisor is None else problem.divisor
    inputs = "A row's inputs are its values, each scaled from its range to [-1, 1]"
    if facts.blocks:
        inputs += ", a category being 1 in its rows and -1 elsewhere"
    if problem.intercept:
        inputs += ", and the constant 1"
    inputs += f", all divided by {short(divisor, 6)}"
    if divisor < math.sqrt(problem.features):  # the largest length of a row of so many numbers in [-1, 1]
        inputs += ", and shortened to length 1 if they are longer"
    symmetric = problem.targets == "symmetric"
    output = "the sum of coefficient × input"
    if isinstance(problem, ReluNetwork):
        half = -(-problem.units // 2)  # rounded up
        added = f"units 1 to {half}" if half > 1 else "unit 1"
        unit_output = f"{output} where that is positive, else 0"
        output = (
            f"the sum over {added} less that over the others, divided by √{problem.units}, each giving {unit_output}"
        )
    if facts.target_range is None:
        return f"{inputs}. Predict the positive class where the output is above {0 if symmetric else '½'}: {output}."
    low, high = facts.target_range
    offset, factor = ((low + high) / 2, (high - low) / 2) if symmetric else (low, high - low)
    return f"{inputs}. The prediction is {short(offset, 6)} + {short(factor, 6)} × the output: {output}."


PAGE = ZerothOrderPage()
