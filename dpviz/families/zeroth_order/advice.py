"""Advice before a run on the oracle, its directions and its running sums, with reasons; and bounds of an experiment's
methods.

A run has K epochs of T steps. The advice recommends the way to estimate gradients, with T and K, whose runs on
generated data ended at the lowest objective; their medians are in a table, measured.json. For a kind of problem that
was not measured it recommends the one with the smallest bound on stationarity. The two often disagree, and then the
advice says so.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import planning, texts, theory
from dpviz.families.zeroth_order.algorithms import Naive, VarianceReduced
from dpviz.families.zeroth_order.conversion import MAX_STEPS, Conversion
from dpviz.families.zeroth_order.theory import Best, Bound, Setting, Sums
from dpviz.numbers import short, short_up
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import WANTED, BentValley, BlackBox, PhaseRetrieval, TableModel, Votes
from dpviz.problems.values.value_problem import Kind, ValueFacts

TABLE = Path(__file__).with_name("measured.json")
EPOCHS = (10, 20, 40)  # numbers of epochs K of the measured runs
REPLICATES, SEED, PRESET_RUNS = 6, 101, 16  # of the measured runs
EQUAL = 1.25  # medians within this factor count as equally good: the error of a median and of interpolation
_NEAR = 1.5  # factor beyond the measured range up to which a number is not called an extrapolation; a choice
_MIN_ROWS = 0.1  # of the measured rows: with fewer, at the same n μ, sampling errors decide (THEORY.md, 5: measured)


class Lowest(NamedTuple):
    """The lowest median objective at the end of runs, with T and K of these runs."""

    median: float
    length: int
    epochs: int


@dataclass(frozen=True)
class Expectation:
    """Median objectives that are expected at the end of runs on a problem of some size, with some budget.

    medians : by name of the way to estimate gradients, (len(lengths), len(EPOCHS)) for every T and K that was measured.
    lengths : the measured T. start : objective at the starting point x₀.
    inside : True if size, settings and kind of data are within the measured range; else the medians are the nearest
        that were measured.
    """

    medians: Mapping[str, np.ndarray]
    lengths: tuple[int, ...]
    start: float
    inside: bool

    def at(self, name: str, length: float, epochs: float) -> float | None:
        """Return the median of the way `name` for epochs of this length and number, interpolated; None if one of them
        is far from the measured range."""
        if not (_is_near(length, self.lengths) and _is_near(epochs, EPOCHS)):
            return None
        return float(interpolate(epochs, EPOCHS, interpolate(length, self.lengths, self.medians[name])))

    def lowest(self, name: str, max_steps: Callable[[int], float]) -> Lowest | None:
        """Return the lowest median of the way `name`, with the T and K of its runs; None if all have too many steps.

        max_steps : function from the length of epochs T to the largest number of steps K T that is allowed.
        """
        candidates = []
        for length, medians_of_length in zip(self.lengths, self.medians[name], strict=True):
            for epochs, median in zip(EPOCHS, medians_of_length, strict=True):
                if length * epochs <= max_steps(length):
                    candidates.append(Lowest(float(median), length, epochs))
        return min(candidates, default=None)  # compared by their medians first


def expectation(problem: ProblemSpecification, mu: float) -> Expectation | None:
    """Return the expected medians of every way to estimate gradients on a problem, from its public facts only; None for
    a kind of problem that was not measured, and without privacy.

    They are interpolated between the measured problems of the kind in three numbers: the size d, the radius r, and the
    signal n μ, as the noise falls with both n and μ.

    mu : μ of the budget.
    """
    facts, cells = problem.facts(), measured_runs()["advice"].get(table_key(problem), [])
    if not cells or not isinstance(facts, ValueFacts) or not isinstance(problem, BlackBox) or not math.isfinite(mu):
        return None
    # Each cell of the table has one size and one radius, and medians for every signal, T and K, which are the same in
    # all cells of a kind.
    sizes = sorted({cell["size"] for cell in cells})
    radii = sorted({cell["radius"] for cell in cells})
    axes = [sizes, radii, cells[0]["signals"]]
    point = (facts.d, facts.radius, facts.n * mu)
    medians = {}
    for name in cells[0]["medians"]:
        by_cell = {(cell["size"], cell["radius"]): np.array(cell["medians"][name]) for cell in cells}
        grid = np.array([[by_cell[size, radius] for radius in radii] for size in sizes])  # (size, radius, signal, T, K)
        for x, axis in zip(point, axes, strict=True):
            grid = interpolate(x, axis, grid)  # which removes the first axis of the grid
        medians[name] = grid
    nearest = min(cells, key=lambda cell: abs(math.log(cell["size"] / facts.d)))
    measured = BlackBox.from_json(json.dumps(nearest["problem"]))
    is_near = all(_is_near(x, axis) for x, axis in zip(point, axes, strict=True))
    is_near &= facts.n >= _MIN_ROWS * measured.facts().n  # with fewer rows sampling errors decide, not the noise
    is_inside = is_near and _is_like_measured(problem, measured)
    return Expectation(medians, tuple(nearest["lengths"]), nearest["start"], is_inside)


def interpolate(x: float, xs: Sequence[float], values: np.ndarray) -> np.ndarray:
    """Interpolate along the first axis of `values` (k, …), which belong to the k ascending points xs; return (…) the
    value at x. It is linear in the logarithms of x and of the values; beyond the points it is the value at the
    nearest one."""
    index = np.interp(math.log(x), np.log(xs), np.arange(len(xs)))
    low = min(int(index), max(len(xs) - 2, 0))  # at the last point the interval before it; 0 if there is one point
    high = min(low + 1, len(xs) - 1)
    logs = np.log(values)
    return np.asarray(np.exp(logs[low] + (index - low) * (logs[high] - logs[low])))


def _is_near(x: float, xs: Sequence[float]) -> bool:
    """Return True if x is in the range of the ascending points xs, or outside it by a factor of at most `_NEAR`."""
    return xs[0] / _NEAR <= x <= _NEAR * xs[-1]


def table_key(problem: ProblemSpecification) -> str:
    """Return the problem's name in the table of measured runs: the last word of its kind, and the values of those
    settings that make it another function, joined by "_"."""
    choices = (getattr(problem, name, "") for name in ("form", "answer"))  # fields of `PhaseRetrieval` and of `Votes`
    return "_".join(filter(None, (problem.kind.rpartition(".")[2], *choices)))


# Settings in which a problem may differ from the measured one: `expectation` takes account of them by size, radius and
# signal, or they have no effect on a run. The settings inside "data" are compared one by one in `_is_like_measured`.
_VARIED = {"rows", "dimension", "seed", "radius", "gap", "data"}


def _is_like_measured(problem: BlackBox, measured: BlackBox) -> bool:
    """Return True if all settings of the problem, and of its data, except those in `_VARIED` are those of the problem
    that was measured."""
    pairs: list[tuple[Any, Any]] = [(problem, measured)]
    if isinstance(problem, TableModel) and isinstance(measured, TableModel):
        pairs.append((problem.data, measured.data))
    for mine, theirs in pairs:
        if type(mine) is not type(theirs):
            return False
        compared = [name for name in type(mine).model_fields if name not in _VARIED]
        if any(getattr(mine, name) != getattr(theirs, name) for name in compared):
            return False
    return True


def measured_runs() -> dict[str, Any]:
    """Return the table of measured runs: "presets" has medians by name of a preset, "advice" the measured problems by
    `table_key`. Both are empty if there is no file."""
    return resources.data(__package__, TABLE.name) if TABLE.exists() else {"presets": {}, "advice": {}}


NO_BOUND = "No bound holds: values jump, or move faster than L."


@dataclass(frozen=True)
class GradientEstimator:
    """Way to estimate gradients from values.

    name : on the page. kind : of the directions, independent or orthonormal.
    sums : kind of running sums of the variance-reduced oracle, which adds up changes of the gradient; None for the
        naive one, which estimates it afresh in each step.
    follows : True if batches are larger where two points are farther apart. full : True for d directions per row, False
        for one.
    """

    name: str
    kind: Kind
    sums: Sums | None
    follows: bool = False
    full: bool = True

    def method(self, **settings: Any) -> Conversion:
        """Return the method that estimates gradients in this way, with these settings, such as `epoch_length`.

        All others have their defaults.
        """
        if self.sums is not None:
            return VarianceReduced(directions=self.kind, sums=self.sums, follow_moves=self.follows, **settings)
        return Naive(directions=self.kind, directions_per_row=None if self.full else 1, **settings)


WAYS: tuple[GradientEstimator, ...] = (
    GradientEstimator("Published", "iid", "tree"),
    GradientEstimator("Published, square-root sums", "iid", "square_root"),
    GradientEstimator("Improved", "orthonormal", "optimal"),
    GradientEstimator("Improved, batches follow the moves", "orthonormal", "optimal", follows=True),
    GradientEstimator("Naive", "iid", sums=None, full=False),
    GradientEstimator("Naive, orthonormal", "orthonormal", sums=None),
)


@dataclass(frozen=True)
class Option:
    """Way to estimate gradients, with what bound and measured runs say about it.

    mu : μ of the budget. best : the division into epochs with the smallest bound.
    lowest : the lowest median of measured runs, with their T and K; None if the kind of problem was not measured, or
        with too many steps only.
    median_at_best : the median of measured runs with T and K of `best`; None if such runs were not measured.
    """

    way: GradientEstimator
    facts: ValueFacts
    mu: float
    best: Best
    lowest: Lowest | None = None
    median_at_best: float | None = None

    @property
    def length_and_epochs(self) -> tuple[int, int]:
        """T and K that are recommended: those of the lowest runs, or of the smallest bound if no runs were measured."""
        division = self.best if self.lowest is None else self.lowest
        return division.length, division.epochs

    @property
    def method(self) -> Conversion:
        """The method with the recommended T and K."""
        length, epochs = self.length_and_epochs
        return self.way.method(epoch_length=length, iterations=length * epochs)

    @cached_property
    def bound(self) -> float:
        """Bound on stationarity with the recommended T and K; infinite where none is known."""
        result = bound(self.method, self.facts, self.mu)
        return math.inf if result is None else result.total

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviations of the noise per coordinate with the recommended T and K: in the gradient of a step, and
        in the mean of the gradients of an epoch."""
        step, epoch = self.method.epoch_noise(self.facts, self.method.layout(self.facts))
        return step / self.mu, epoch / self.mu


def noise_over_fresh(method: VarianceReduced, facts: ValueFacts) -> tuple[float, float]:
    """Return the noise of a method's running sums over that of fresh estimates from the same rows: in the estimate of a
    step, root mean square over the steps, and in the mean of an epoch's estimates."""
    naive = method.as_naive()
    step, epoch = method.epoch_noise(facts, method.layout(facts))
    fresh_step, fresh_epoch = naive.epoch_noise(facts, naive.layout(facts))
    return step / fresh_step, epoch / fresh_epoch


@dataclass(frozen=True)
class Advice:
    """Advice for one problem and budget.

    options : all ways to estimate gradients, the one with the smallest bound first. lipschitz : L, from which on a
    bound says nothing. exact : True if bounds hold, as every row's function has the Lipschitz constant L.
    expected : medians of measured runs; None if the kind of problem was not measured.
    """

    options: tuple[Option, ...]
    lipschitz: float
    exact: bool
    expected: Expectation | None = None

    @property
    def smallest(self) -> Option:
        """Option with the smallest bound; where values have no Lipschitz constant, so that no bound holds, that among
        the options with the naive oracle, whose errors do not add up over an epoch."""
        return next(option for option in self.options if self.exact or option.way.sums is None)

    @property
    def choice(self) -> Option:
        """The recommended option: that with the lowest median of runs, or with the smallest bound if the kind of
        problem was not measured."""
        with_runs = [option for option in self.options if option.lowest is not None]
        return min(with_runs, key=attrgetter("lowest"), default=self.smallest)

    @property
    def disagree(self) -> bool:
        """True if runs with the smallest bound end higher than those of `choice`, by more than their error."""
        lowest, median_at_bound = self.choice.lowest, self.smallest.median_at_best
        return lowest is not None and median_at_bound is not None and median_at_bound > EQUAL * lowest.median

    @property
    def why(self) -> str:
        """Reasons for the recommended option, in sentences: results of runs, the bound, the noise."""
        if math.isinf(self.smallest.best.bound):
            return "There are too few rows for an epoch of two steps."
        about_bound = self._about_bound() if self.exact else NO_BOUND
        guess = texts.GUESS if self.exact and self.facts.guessed else ""  # a bound holds only if the guessed gap does
        return " ".join(filter(None, [self._about_runs(), about_bound, self._about_noise(), guess]))

    def _about_runs(self) -> str:
        """Return a sentence on how the measured runs of the recommended option ended, or that there were none."""
        if self.expected is None or self.choice.lowest is None:
            start = "No function of the kind was measured"
            return f"{start}: this is what the bound says, and runs may end otherwise." if self.exact else f"{start}."
        where = "like this one" if self.expected.inside else "of the kind, but of another size or with other settings,"
        return (
            f"Runs on generated data {where} ended lowest with it: at about {short(self.choice.lowest.median, 2)} "
            f"(median), from {short(self.expected.start, 2)} at the start."
        )

    def _about_bound(self) -> str:
        """Return sentences on the smallest bound, and on how runs with its T and K ended."""
        smallest, best = self.smallest, self.smallest.best
        useless = " The smallest bound is L or more: it promises nothing here." if best.bound >= self.lipschitz else ""
        if self.choice.lowest is None:
            return useless.strip()  # then the option with the smallest bound is the recommended one itself
        division = f"“{smallest.way.name}” with T = {best.length:,}, K = {best.epochs:,}"
        smallest_has = f"The smallest bound, {short_up(best.bound, 2)}, has {division}"
        if smallest.median_at_best is None:
            return f"{smallest_has}, of which no runs were measured.{useless}"
        end = short(smallest.median_at_best, 2)
        if self.disagree:
            return f"{smallest_has}; its runs ended at about {end}: **bound and runs disagree**.{useless}"
        return f"{smallest_has}; its runs ended at about {end}.{useless}"

    def _about_noise(self) -> str:
        """Return sentences that compare the noise of the recommended option, if it has running sums, with that of
        estimates made afresh from the same rows; and, where a bound holds, what the bound makes of it. "" otherwise."""
        choice, method = self.choice, self.choice.method
        if not isinstance(method, VarianceReduced) or math.isinf(choice.mu):
            return ""
        step_ratio, epoch_ratio = noise_over_fresh(method, self.facts)
        sentence = (
            f"The noise of the advised sums is {short(step_ratio, 2)} times that of fresh estimates on the same rows "
            f"in a step, and {short(epoch_ratio, 2)} times in the mean of an epoch."
        )
        if not self.exact:
            return sentence
        length, _ = choice.length_and_epochs
        ratio_in_bound = 2 * step_ratio * math.sqrt(length)  # 2e with running sums to e/√T with fresh estimates
        return (
            f"{sentence} The bound makes {short(ratio_in_bound, 2)} of that: it counts errors of running sums twice in "
            "every step, and lets those of fresh estimates average out."
        )

    @property
    def facts(self) -> ValueFacts:
        """Facts of the problem, the same for all options."""
        return self.options[0].facts


def advice(
    facts: ValueFacts, budget: Budget, max_steps: int | None = None, expected: Expectation | None = None
) -> Advice:
    """Return the advice for a problem with these facts, and this budget.

    max_steps : largest number of steps K T, None for any. expected : medians of measured runs, None if there are none.
    Raises UserError under pure ε, which Gaussian noise never gives.
    """
    mu = planning.total_mu(budget, facts)
    options = []
    for way in WAYS:
        directions = facts.d if way.full else 1
        setting = replace(bound_constants(facts, mu), kind=way.kind, count=directions, follows=way.follows)
        if way.sums is None:
            best = theory.best_naive(setting, max_steps=max_steps)
        else:
            best = theory.best_reduced(setting, way.sums, max_steps=max_steps)
        lowest = median_at_best = None
        if expected is not None and math.isfinite(best.bound):  # it is inf where there are too few rows
            lowest = expected.lowest(way.name, _max_steps_by_length(facts, way, max_steps))
            median_at_best = expected.at(way.name, best.length, best.epochs)
        options.append(Option(way, facts, mu, best, lowest, median_at_best))
    options.sort(key=lambda option: option.best.bound)
    return Advice(tuple(options), facts.lipschitz, facts.exact, expected)


def _max_steps_by_length(facts: ValueFacts, way: GradientEstimator, max_steps: int | None) -> Callable[[int], float]:
    """Return the function from the length T of epochs to the largest number of steps, at most `max_steps`, for which
    the n rows suffice."""
    # Half an epoch's rows are for its first step, as in measured runs and bounds; without running sums all steps share.
    share = None if way.sums is None else 0.5
    limit = math.inf if max_steps is None else max_steps
    return lambda length: min(planning.max_steps(facts.n, length, share, way.follows), limit)


def bound_constants(facts: ValueFacts, mu: float) -> Setting:
    """Return the constants on which bounds depend, for a problem with these facts and d orthonormal directions per
    row."""
    return Setting(
        n=facts.n,
        d=facts.d,
        lipschitz=facts.lipschitz,
        radius=facts.radius,
        gap=facts.gap,
        mu=mu,
        kind="orthonormal",
        count=facts.d,
        value_range=facts.value_range,
    )


def bound(method: Conversion, facts: ValueFacts, mu: float) -> Bound | None:
    """Return the bound on the stationarity of a method's output (THEORY.md, 5), for a budget of μ; None where none is
    known.

    None is known if the values have no Lipschitz constant, if their differences are clipped at the range of values or
    below what the Lipschitz constant allows, or if the learner keeps its last move between epochs.
    """
    if not facts.exact or method.clipping == "range" or not method.fresh_start:
        return None
    tau = method.concentration if isinstance(method, VarianceReduced) else None
    if tau is not None and tau < math.sqrt(facts.d):  # differences are clipped at τ/√d of what L allows
        return None
    layout = method.layout(facts)
    setting = replace(
        bound_constants(facts, mu), kind=method.directions, count=layout.directions, follows=layout.follows
    )
    length, epochs, move = layout.length, layout.epochs, layout.move
    if not isinstance(method, VarianceReduced):
        return theory.naive_bound(setting, length, epochs, layout.batch, move)
    largest_sensitivity = float(method.sensitivities(facts, layout).max())
    step_noise, _ = method.epoch_noise(facts, layout)  # that of the plan, where each leaf has its own sensitivity
    variance = (step_noise / largest_sensitivity) ** 2  # in the units of `reduced_bound`: at sensitivity 1 and μ = 1
    return theory.reduced_bound(setting, length, epochs, layout.first, layout.batch, move, variance)


@dataclass(frozen=True)
class Forecast:
    """Bounds and advice for an experiment, before it runs.

    facts : of the problem. mu : μ of the experiment's budget. advice : for it. Both are None where the budget allows no
        Gaussian noise.
    bounds : by label of the private methods that have one. labels_without_bound : of the others.
    mu_of_first_steps : by label of the private methods with epochs, (T,) the μ of the releases of the first 1, …, T
        steps of an epoch.
    reach : largest distance that a run with epochs may get from its start; 0 if no method has epochs.
    distance_to_minimum : from the start to the nearest minimum; None if that is unknown. No run with a shorter reach
        gets there.
    """

    facts: ValueFacts
    mu: float | None
    bounds: Mapping[str, Bound]
    labels_without_bound: tuple[str, ...]
    mu_of_first_steps: Mapping[str, np.ndarray]
    reach: float
    distance_to_minimum: float | None
    advice: Advice | None


def forecast(experiment: Experiment, plans: Mapping[str, Plan]) -> Forecast:
    """Return the bounds of an experiment's private methods, and the advice for its problem and budget.

    plans : by label of the methods, at least one.
    """
    facts = ValueFacts.of(next(iter(plans.values())).facts)  # the same in all plans
    try:
        mu = planning.total_mu(experiment.row_budget, facts)
        expected = expectation(experiment.problem, mu)
        recommendation = advice(facts, experiment.row_budget, max_steps=MAX_STEPS, expected=expected)
    except UserError:  # under pure ε there is no Gaussian noise
        recommendation, mu = None, None
    # A reference is a method without privacy; an arm that cannot be planned is not in `plans`.
    private = [arm for arm in experiment.arms if not arm.reference and arm.label in plans]
    methods = {arm.label: arm.algorithm for arm in private if isinstance(arm.algorithm, Conversion)}
    bounds = {}
    for label, method in methods.items():
        result = bound(method, facts, planning.total_mu(plans[label].budget, facts))
        if result is not None:
            bounds[label] = result
    first_steps = {}
    if mu is not None:
        first_steps = {label: mu_of_first_steps(method, facts, mu) for label, method in methods.items()}
    return Forecast(
        facts=facts,
        mu=mu,
        bounds=bounds,
        labels_without_bound=tuple(arm.label for arm in private if arm.label not in bounds),
        mu_of_first_steps=first_steps,
        reach=max_distance(plans),
        distance_to_minimum=distance_to_minimum(experiment.problem),
        advice=recommendation,
    )


def max_distance(plans: Mapping[str, Plan]) -> float:
    """Return the largest distance from its start that a run of any of these plans may get; 0 if none has epochs, as
    only for such plans the distance is bounded."""
    return max((plan.resolved.get("reach", 0.0) for plan in plans.values()), default=0.0)


def mu_of_first_steps(method: Conversion, facts: ValueFacts, mu: float) -> np.ndarray:
    """Return (T,) the μ of the row in the worst place against an observer who watches only the first t = 1..T steps of
    an epoch (THEORY.md, 4); that of the whole run is `mu`.

    With running sums a row of leaf i, which has the sensitivity s_i, moves release j by up to C_ji s_i, where C is the
    encoder of the sums. So its μ after t releases is √(Σ_{j≤t} (C_ji s_i)²)/σ. The naive oracle releases all of a row
    at once, and the worst row is in the first step.
    """
    layout = method.layout(facts)
    if not isinstance(method, VarianceReduced):
        return np.full(layout.length, mu)
    sums, sensitivities = method.epoch_sums(facts, layout), method.sensitivities(facts, layout)[: layout.length]
    squared_moves = np.cumsum((sums.encoder() * sensitivities) ** 2, axis=0)  # (releases t, leaves i)
    largest_move = np.sqrt(squared_moves.max(axis=1))
    sensitivity = theory.noise_sensitivity(method.sums, sums, sensitivities)  # σ is this over μ, which may be inf
    return np.asarray(mu * largest_move / sensitivity)


def running_sums_method(experiment: Experiment) -> VarianceReduced:
    """Return a method with running sums, for figures about these: the experiment's first one, or if it has none, one
    with default running sums and otherwise the settings of the experiment's first method with epochs."""
    methods = [arm.algorithm for arm in experiment.arms if isinstance(arm.algorithm, Conversion)]
    first = next((method for method in methods if isinstance(method, VarianceReduced)), None)
    if first is not None:
        return first
    shared_settings = {name: getattr(methods[0], name) for name in Conversion.model_fields} if methods else {}
    return VarianceReduced().adopting(shared_settings)


def has_sums(experiment: Experiment) -> bool:
    """Return True if a private method of the experiment has running sums: then `running_sums_method` returns it."""
    return any(isinstance(arm.algorithm, VarianceReduced) and not arm.reference for arm in experiment.arms)


def distance_to_minimum(problem: ProblemSpecification) -> float | None:
    """Return the distance from the start to the nearest minimum of a simulated function; None for a function whose
    minima are not known."""
    if isinstance(problem, PhaseRetrieval):  # the point x* whose signs were lost, 1/√d in every coordinate, and -x*
        minima = np.full(problem.dimension, problem.dimension**-0.5) * np.array([[1], [-1]])
    elif isinstance(problem, Votes):  # the point x* by which the votes are cast
        minima = np.array([WANTED])
    elif isinstance(problem, BentValley):  # (1, 1): the minimum that its class states
        minima = np.ones((1, 2))
    else:
        return None
    return float(np.linalg.norm(minima - problem.function().start, axis=1).min())
