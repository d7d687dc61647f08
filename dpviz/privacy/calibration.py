"""Calibration: from a budget, and the share of it that each step may use, to the events and hence the noise.

A method makes one release per step, T steps in all, each on a batch of m of the n rows (m = n: on all rows). Its
guarantee after amplification by sampling is smaller than that of the noise on the batch.

Plans on random batches that protect by luck alone are refused. Sampling multiplies a guarantee by the probability that
a row is in the batch. In the extreme, a small probability alone would allow releasing whole batches without noise: to
publish one row of 1000 as it is, chosen at random, is (0, 1/1000)-DP. Every accountant is right to accept such a plan,
and yet it should not be run: a row that is drawn is not protected at all.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Literal, NoReturn

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from dpviz.arguments import Between, checked
from dpviz.errors import UserError
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Gaussian, Laplace, Repeat, Sub

Noise = Literal["laplace", "gaussian"]
Sampling = Literal["wor", "poisson"]
Rows = Annotated[int, Between(1, 10**12, ends=True)]

# Numbers of different costs to which a schedule is rounded; the sum of weighted variances is then within 1 % of the
# optimum, and within 1e-4 of it.
LEVELS, MANY_LEVELS = 24, 500
ALMOST_SURELY = 0.9999  # an attack with this advantage (TPR - FPR) tells almost surely whether a row is in a batch
_MIN_DOUBT = 2 * math.exp(-100.0)  # smallest 1 - advantage that budgets in any currency allow, within their ranges
_WASTE = 1e-6  # the share of a budget that may remain unused where no closed form uses it up
_WASTE_BY_LOSSES = 1e-5  # that share where the cost is computed on a grid of losses, whose choice changes it by 1e-6
_ROUGHEST_LEVELS, _ROUGH_LEVELS = 4, 9  # numbers of different costs for first estimates of what a schedule costs
_STEP_LIMIT = 200.0  # a step of ln s in a search beyond which there is no root: s would be e^200 times the guess


def laplace_events(epsilon: Floats, m: int, n: int, sampling: Sampling = "wor") -> tuple[Event, ...]:
    """Return the T Laplace releases on m of n rows of which step t costs epsilon[t], (T,), after amplification.

    The ε of the noise on a batch follows from Kuru et al. 2022, equation (12). With m = n no batch is drawn. Equal
    costs share one event.

    sampling : kind of `Sub`: "wor" holds under replace-one, "poisson" under add/remove-one; both amplify ε alike.
    """
    batch_epsilon = epsilon if m == n else closed_forms.amplified_inverse(epsilon, m, n)
    return _events(batch_epsilon, Laplace, m, n, sampling)


def gaussian_events(rho: Floats, m: int, n: int, sampling: Sampling = "wor") -> tuple[Event, ...]:
    """Return the T Gaussian releases on m of n rows of which step t has ρ = μ²/2 = rho[t], (T,), on its batch.

    rho is the cost before amplification: ρ is not amplified by sampling. Equal costs share one event.
    """
    return _events(np.sqrt(2 * rho), Gaussian, m, n, sampling)


def _events(
    parameters: Floats, kind: type[Laplace] | type[Gaussian], m: int, n: int, sampling: Sampling
) -> tuple[Event, ...]:
    """Return one release per parameter (its ε or μ on the batch).

    Equal parameters share one object, for speed only: `events.of_each` computes a cost once per object.
    """
    by_parameter: dict[float, Event] = {}
    for parameter in parameters.tolist():
        if parameter not in by_parameter:
            by_parameter[parameter] = kind(parameter) if m == n else Sub(sampling, m, n, kind(parameter))
    return tuple(by_parameter[parameter] for parameter in parameters.tolist())


@checked
def calibrate_laplace(
    budget: Budget, weights: Floats, m: Rows, n: Rows, prior: tuple[Event, ...] = (), *, sampling: Sampling = "wor"
) -> Floats:
    """Return the costs ε_t of T Laplace releases, in proportion to `weights`, that use up the budget.

    Parameters
    ----------
    budget : Budget
    weights : (T,) array
        Relative cost of each step; positive.
    m, n : int
        Rows of a batch, and of the table.
    prior : tuple of Event
        Releases that were charged before; the budget covers them, too.
    sampling : "wor" or "poisson"
        Kind of the random batches, if m < n.

    Returns
    -------
    (T,) array
        ε of each step after amplification, for `laplace_events`; infinite if the budget asks for no privacy.

    Raises
    ------
    UserError
        If `prior` leaves nothing of the budget, or if the noise would not hide the rows of a batch.

    >>> import numpy as np
    >>> import dpviz
    >>> dpviz.calibrate_laplace(dpviz.PureDP(epsilon=1.0), np.array([1.0, 3.0]), m=1000, n=1000).tolist()
    [0.25, 0.75]
    """
    shares, m, n = _shares(weights, m, n), int(m), int(n)  # NumPy's whole numbers overflow
    if not budget.private:
        return np.full(len(shares), math.inf)
    target = budget.remaining(prior)
    # The largest cost of a step that still hides the rows of its batch.
    max_cost = math.inf if m == n else float(closed_forms.amplify(max_batch_parameter("laplace", budget), m, n))
    if budget.pure:  # the costs ε_t add up
        if target * shares.max() > max_cost:
            refuse_rare_batches()  # raises UserError
        return shares * target
    return shares * _largest_multiple(
        "laplace", tuple(shares.tolist()), (m, n, sampling), budget, target, max_cost=max_cost
    )


@checked
def calibrate_gaussian(
    budget: Budget, weights: Floats, m: Rows, n: Rows, prior: tuple[Event, ...] = (), *, sampling: Sampling = "wor"
) -> Floats:
    """Return the costs ρ_t of T Gaussian releases, in proportion to `weights`, that use up the budget.

    Parameters
    ----------
    budget : Budget
    weights : (T,) array
        Relative cost of each step; positive.
    m, n : int
        Rows of a batch, and of the table.
    prior : tuple of Event
        Releases that were charged before; the budget covers them, too.
    sampling : "wor" or "poisson"
        Kind of the random batches, if m < n.

    Returns
    -------
    (T,) array
        ρ = μ²/2 of each step on its batch, before amplification, for `gaussian_events`; infinite if the budget asks for
        no privacy.

    Raises
    ------
    UserError
        If the budget is a pure ε, which Gaussian noise never gives; if it is a ρ or μ, which sampling does not shrink,
        and m < n; if `prior` leaves nothing; or if the noise would not hide the rows of a batch.

    >>> import numpy as np
    >>> import dpviz
    >>> budget = dpviz.ApproximateDP(epsilon=1.0, delta=1e-5)
    >>> rho = dpviz.calibrate_gaussian(budget, np.ones(10), m=1000, n=1000)
    >>> round(float(np.sqrt(2 * rho.sum())), 6)  # μ of (1, 1e-5)
    0.268051
    """
    shares, m, n = _shares(weights, m, n), int(m), int(n)  # NumPy's whole numbers overflow
    if not budget.private:
        return np.full(len(shares), math.inf)
    if m == n or not budget.allows_gaussian:  # in the second case `gaussian_rho` raises UserError
        return shares * budget.gaussian_rho(budget.remaining(prior))
    if not budget.amplifies_gaussian:
        raise UserError(
            "Random batches do not shrink the ρ or the μ of Gaussian noise: both promise something for every attack, "
            "also for those that are almost never wrong, and these find a row that is in the batch as if all rows "
            "were used. Use all rows (m = n), or state the budget as (ε, δ), as a Rényi divergence of one order, or "
            "as an attack bound.",
            title="No amplification in this currency",
        )
    max_cost = max_batch_parameter("gaussian", budget) ** 2 / 2  # of a step that still hides the rows of its batch
    return shares * _largest_multiple(
        "gaussian", tuple(shares.tolist()), (m, n, sampling), budget, budget.remaining(prior), max_cost=max_cost
    )


def _shares(weights: Floats, m: int, n: int) -> Floats:
    """Return the weights divided by their sum, (T,).

    Raises UserError unless there is at least one weight, all are positive and finite, and m is at most n.
    """
    is_numeric = weights.dtype.kind in "biuf"  # bool, whole numbers or floats
    numbers = np.asarray(weights, dtype=float) if is_numeric else np.empty(0)
    are_weights = numbers.ndim == 1 and len(numbers) > 0 and ((numbers > 0) & (numbers < math.inf)).all()
    if not are_weights or m > n:
        raise UserError(
            "`weights` is an array (T,) of positive numbers, one for each step, and `m` is at most `n`.",
            title="There are no such steps",
        )
    return np.asarray(numbers / numbers.sum())


def calibrated_events(
    noise: Noise,
    budget: Budget,
    weights: Floats,
    m: int,
    n: int,
    *,
    prior: tuple[Event, ...] = (),
    sampling: Sampling = "wor",
) -> tuple[Event, ...]:
    """Return T releases on m of n rows that use up the budget; step t costs in proportion to weights[t].

    The cost is ε_t for Laplace noise (`calibrate_laplace`) and ρ_t for Gaussian noise (`calibrate_gaussian`).

    If no closed form gives the noise, a long schedule is first rounded to few different weights (`levelled`): to LEVELS
    if the cost of an event is expensive to compute, to MANY_LEVELS if closed forms are added up.
    """
    has_closed_form = budget.pure or not budget.private or (noise == "gaussian" and m == n)
    # With more different events than MAX_EXACT, accountants would round them.
    if not has_closed_form and len(set(weights.tolist())) > accountants.MAX_EXACT:
        is_expensive = not budget.adds_up or noise == "gaussian"
        weights = levelled(weights, LEVELS if is_expensive else MANY_LEVELS)
    if noise == "laplace":
        return laplace_events(calibrate_laplace(budget, weights, m, n, prior, sampling=sampling), m, n, sampling)
    return gaussian_events(calibrate_gaussian(budget, weights, m, n, prior, sampling=sampling), m, n, sampling)


def calibrate_selections(
    budget: Budget, ranges: Floats, times: Floats | int = 1, prior: tuple[Event, ...] = ()
) -> float:
    """Return the largest s with which selections of η = s · ranges[i], times[i] of each, cost at most the budget.

    A selection is a release of the exponential mechanism, and η its bounded range (`ExpMech`). Under (ε, δ) the cost is
    the smallest one of basic composition, zCDP and composition of Rényi divergences. Raises UserError if `prior`, the
    releases that were charged before, leaves nothing, and if the budget is an attack bound.
    """
    if not budget.private:
        return math.inf
    sizes, index_of_size = np.unique(np.asarray(ranges, dtype=float), return_inverse=True)
    counts = np.zeros(len(sizes))
    np.add.at(counts, index_of_size, times)
    counts, sizes = counts[sizes > 0], sizes[sizes > 0]  # a range of 0 costs nothing
    target = budget.remaining(prior)
    if budget.pure:  # the cost is in proportion to s
        return target / budget.selection_cost(sizes, counts)

    def excess(log_multiple: float) -> float:
        """Return ln(cost / target) for the multiple s = e^log_multiple."""
        cost = budget.selection_cost(math.exp(log_multiple) * sizes, counts)
        return math.log(max(cost, 1e-300) / target)  # a cost that underflows to 0 has no logarithm

    guess = math.log(8 * budget.about_rho(target) / float(counts @ sizes**2)) / 2  # a selection has ρ ≤ η²/8
    if budget.total_epsilon is not None:  # basic composition: η adds up to ε
        guess = max(guess, math.log(target / float(counts @ sizes)))
    return math.exp(_largest_feasible(excess, guess, _WASTE))


@lru_cache(128)
def _largest_multiple(
    noise: Noise,
    shares: tuple[float, ...],
    batch: tuple[int, int, Sampling],
    budget: Budget,
    target: float,
    *,
    max_cost: float,
) -> float:
    """Return the largest multiple s such that steps of cost s · shares[t] cost at most `target` together.

    The result is below the largest one by a share of the target of at most _WASTE (_WASTE_BY_LOSSES if costs are
    computed on a grid of losses). The search is for ln s, and the first estimates of it come from cheaper costs: those
    of schedules with few different shares, and of coarse grids.

    shares : (T,) share of each step; they sum to 1.
    batch : m, n and the kind of sampling.
    target : the amount of the budget to be spent, in its own currency.
    max_cost : largest cost of a single step, as `laplace_events` and `gaussian_events` count it: its ε after
        amplification, or its ρ on the batch.

    Raises UserError if no accountant can compute the cost, or if less than `target` is spent at `max_cost`.
    """
    build = laplace_events if noise == "laplace" else gaussian_events
    weights = np.array(shares)

    def excess_function(cost: Callable[[tuple[Event, ...]], float], step_shares: Floats) -> Callable[[float], float]:
        """Return the function of ln s that computes ln(cost / target) of steps with costs s · step_shares[t]."""
        distinct, counts = np.unique(step_shares, return_counts=True)

        def excess(log_multiple: float) -> float:
            releases = build(distinct * math.exp(log_multiple), *batch)
            # Equal steps are put together, as the cost of all does not depend on their order.
            events = tuple(Repeat(e, k) if k > 1 else e for e, k in zip(releases, counts.tolist(), strict=True))
            spent = cost(events)
            if spent == math.inf:
                return 100.0  # far too much; the root finder needs finite numbers
            return math.log(max(spent, 1e-300) / target)

        return excess

    exact_excess = excess_function(budget.cost, weights)
    highest = math.log(max_cost / weights.max())
    m, n, _ = batch
    guess = _first_guess(noise, weights, m / n, budget, target)
    if budget.adds_up:
        return math.exp(_largest_feasible(exact_excess, guess, _WASTE, highest))
    # The numbers of levels and the |excess| that each stage allows are heuristics: only the last stage decides.
    slope = None
    for levels, waste in ((_ROUGHEST_LEVELS, 0.05), (_ROUGH_LEVELS, 0.01)):
        if len(set(shares)) > 2 * levels:
            # The power mean leaves the sum of the ρ as it is: ρ is about ε²/2 for Laplace noise.
            rounded = levelled(weights, levels, 2.0 if noise == "laplace" else 1.0)
            guess, slope = _rough_root(excess_function(budget.rough_cost, rounded), guess, waste, highest, slope)
    guess, slope = _rough_root(excess_function(budget.rough_cost, weights), guess, 4e-3, highest, slope)
    return math.exp(_largest_feasible(exact_excess, guess, _WASTE_BY_LOSSES, highest, slope))


def _rough_root(
    excess: Callable[[float], float], guess: float, waste: float, highest: float, slope: float | None = None
) -> tuple[float, float | None]:
    """Return an estimate of the x <= highest with excess(x) = 0, and of the slope there (None if unknown).

    excess : increasing; a rough version of the function whose root is sought.
    guess, slope : earlier estimates of the root and, if known, of the slope.
    waste : |excess| at which the search stops; one secant step then improves the result.
    """
    values: dict[float, float] = {}

    def recorded_excess(x: float) -> float:
        """Return excess(x), or 0 where the search may end, and note it in `values`."""
        value = excess(x)
        values[x] = value
        # At `highest` a negative value ends the search, too: only the exact cost may decide that the budget is not used
        # up there, which is an error.
        return 0.0 if abs(value) <= waste or (value < 0 and x >= highest) else value

    root = _largest_feasible(recorded_excess, guess, waste, highest, slope)
    if root >= highest:
        return highest, None
    nearest = sorted(values.items(), key=lambda point: abs(point[1]))[:2]  # the two points with the smallest |excess|
    if len(nearest) == 2:
        (x, value), (other_x, other_value) = nearest
        secant = (value - other_value) / (x - other_x)
        slope = secant if secant > 0.1 else slope  # the function is nearly linear, so a flat secant is an accident
    if not slope:
        return root, None
    # To where the excess is -_WASTE_BY_LOSSES / 2, at which the last search aims.
    return root - (values[root] + _WASTE_BY_LOSSES / 2) / slope, slope


def _first_guess(noise: Noise, shares: Floats, fraction: float, budget: Budget, target: float) -> float:
    """Return an estimate of ln s, the multiple of the shares (T,) with which all steps cost `target`.

    fraction : m/n, the share of the rows in a batch.
    """
    rho = budget.about_rho(target)
    if noise == "gaussian":
        # In the limit of many steps, all of them together have μ² = (m/n)² Σ (e^(μ_t²) - 1) (Bu, Dong, Long, Su 2020),
        # and μ_t² = 2 ρ_t = 2 s · shares[t]. A good guess saves time: to compose the losses of far too little noise
        # would take long.
        distinct, counts = np.unique(2 * shares, return_counts=True)

        def excess(log_multiple: float) -> float:
            """Return the logarithm of that μ² divided by the μ² = 2ρ of the budget."""
            powers = np.expm1(np.minimum(math.exp(log_multiple) * distinct, 600.0))
            return math.log(fraction**2 * float(counts @ powers) / (2 * rho))

        # This s is too large: with it, one step of the largest share costs all. But at most T times too large, because
        # e^x - 1 is convex, and T is far below e^20.
        upper = math.log1p(2 * rho / fraction**2) / float(distinct[-1])
        return float(brentq(excess, math.log(upper) - 20, math.log(upper) + 1e-9, xtol=1e-3))
    # A Laplace step that costs ε_t = s · shares[t] has a ρ of about ε_t²/2 while that is small, and of at most ε_t. So
    # Σ ε_t²/2 = ρ for small ε_t. For large ones Σ ε_t = s is ρ, or, of a budget with an ε, that ε.
    if_small = math.log(2 * rho / float(shares @ shares)) / 2
    if_large = math.log(rho if budget.total_epsilon is None else target)
    return max(if_small, if_large)  # ρ is below both ε²/2 and ε, so s is at least as large as either


def _largest_feasible(
    excess: Callable[[float], float], guess: float, waste: float, highest: float = math.inf, slope: float | None = None
) -> float:
    """Return a feasible x, excess(x) <= 0, that is almost the largest one, for an increasing, nearly linear function.

    The result has excess(x) >= -waste; or, where the function jumps from below that to above 0, it is within `waste` of
    the jump. It is always a point at which the function was evaluated, never an estimate. The function is evaluated at
    x <= highest only.

    guess : where the search begins. slope : of the function near `guess`, if known.

    First the root is enclosed by steps from the guess; then regula falsi, aiming at excess = -waste / 2, with the
    Illinois rule. Raises UserError if no point is feasible even far below the guess, or if the function is negative at
    `highest` or far above the guess, so that the budget is not used up.
    """
    guess = min(guess, highest)
    value = excess(guess)
    low, high, low_value, high_value = guess, guess, value, value
    step = abs(value + waste / 2) / slope if slope else max(abs(value), 1e-3)  # without a slope, as if it were 1
    step = min(step, 2.0)  # a poor guess or slope must not lead too far
    while low_value > 0 or high_value <= 0:  # until low is feasible and high is not
        if -waste <= high_value <= 0:
            return high
        if step > _STEP_LIMIT and low_value > 0:
            raise UserError(
                "No accountant can tell what so many steps cost at so small a δ. Raise δ or take fewer steps.",
                title="The budget cannot be planned",
            )
        if low_value > 0:
            high, high_value, low = low, low_value, low - step
            low_value = excess(low)
        elif step > _STEP_LIMIT or high >= highest:
            refuse_rare_batches()  # raises UserError
        else:
            low, low_value, high = high, high_value, min(high + step, highest)
            high_value = excess(high)
        secant = (high_value - low_value) / (high - low)
        nearer = min(low_value, high_value, key=abs)
        step = min(2 * step, abs(nearer + waste / 2) / secant if secant > 0 else math.inf)
    # The secant goes through these values. If the same end moves twice in a row, the value at the other end is halved
    # (the Illinois rule), so that the next point lies nearer to that other end and it moves, too.
    secant_low, secant_high = low_value, high_value
    last_moved = 0  # -1: the lower end, 1: the upper end
    while low_value < -waste and high - low > waste:
        middle = low + (high - low) * (secant_low + waste / 2) / (secant_low - secant_high)
        value = excess(middle)
        if value <= 0:
            low, low_value, secant_low = middle, value, value
            secant_high = secant_high / 2 if last_moved < 0 else secant_high
            last_moved = -1
        else:
            high, secant_high = middle, value
            secant_low = secant_low / 2 if last_moved > 0 else secant_low
            last_moved = 1
    return low


def levelled(weights: Floats, levels: int, order: float = 3.0) -> Floats:
    """Round the weights (T,) of a schedule's steps, all positive, to at most `levels` different ones; return (T,).

    The rounded schedule is almost as good as the exact one and far quicker to account for.

    If a step's cost is its share of a budget, and the shares are optimal, multiplying a share w by a factor f near 1
    loses in proportion to w (f - 1)². So the logarithms of the weights are divided into levels as by a companding
    quantiser (Panter and Dite 1951): the width of a level is in proportion to the density of the shares there to the
    power -1/3. Equal weights stay equal, and of two different weights the larger one stays larger or becomes equal.

    order : of the power mean that replaces the weights of a level. With the cubic mean the largest weights of a wide
        level, which matter most, do not become much smaller.
    """
    distinct, index_of_step, counts = np.unique(
        np.asarray(weights, dtype=float), return_inverse=True, return_counts=True
    )
    if len(distinct) <= levels:
        return distinct[index_of_step]
    # Along the sorted logarithms, position is the integral of the density of shares to the power 1/3, so levels of
    # equal length in it have the widths that the quantiser demands.
    mass = counts * distinct
    gaps = np.diff(np.log(np.maximum(distinct, 1e-300)))
    lengths = ((mass[1:] + mass[:-1]) / 2) ** (1 / 3) * gaps ** (2 / 3)  # (mass / gap)^⅓ · gap
    position = np.concatenate([[0.0], np.cumsum(lengths)])
    level = np.minimum((levels * (position / position[-1])).astype(int), levels - 1)
    steps_of_level = np.maximum(np.bincount(level, weights=counts), 1)  # 1, to divide by, for a level without steps
    power_mean = (np.bincount(level, weights=counts * distinct**order) / steps_of_level) ** (1 / order)
    return power_mean[level][index_of_step]


def max_batch_parameter(noise: Noise, budget: Budget) -> float:
    """Return the largest ε of Laplace, or μ of Gaussian noise, with which a release still hides the rows of its batch.

    Above it, an attacker who knows which rows are in the batch has an advantage (TPR - FPR) from one release that
    exceeds ALMOST_SURELY. If the budget itself allows an attacker a larger advantage than that, this one is the limit.
    """
    doubt = max(min(1 - ALMOST_SURELY, budget.doubt()), _MIN_DOUBT)  # 1 - advantage
    # The advantage is 1 - e^(-ε/2) for Laplace noise and 2 Φ(μ/2) - 1 for Gaussian noise.
    return -2 * math.log(doubt) if noise == "laplace" else -2 * float(ndtri(doubt / 2))


def refuse_rare_batches() -> NoReturn:
    """Raise the UserError for a budget that would be used up only with too little noise to hide a batch's rows."""
    raise UserError(
        "This guarantee would hold only because the batch is rare: a given row is drawn so seldom that the budget "
        "allows releasing whole batches without any noise, or with so little that a row in the batch shows almost "
        "surely. Choose a larger m/n or a smaller budget: a smaller δ, far below 1/n, a smaller ε, ρ or μ, or a "
        "stricter attack bound.",
        title="This budget does not protect those who are drawn",
    )
