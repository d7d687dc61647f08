"""Calibration: budgets to events, by the share of the budget that each step gets and the noise that follows.

Plans on random batches that protect by luck alone are refused. Sampling multiplies a guarantee by the chance that a row
is in the batch. Taken to its end, a small chance pays for releasing whole batches without noise: one row of 1000 in the
clear is (0, 1/1000)-DP. Every accountant is right to accept such a plan, and yet it should not be run: a row that is
drawn is not protected at all.
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

LEVELS = 24  # different costs in a schedule; the sum of weighted variances is within 1 % of the optimum
MANY_LEVELS = 500  # it is within 1e-4 of the optimum
ALMOST_SURELY = 0.9999  # the advantage (TPR - FPR) from which a release tells a row of its batch almost surely
_MIN_DOUBT = 2 * math.exp(-100.0)  # no currency leaves less within its declared range
_WASTE = 1e-6  # the share of a budget that may remain where no closed form uses it up
_WASTE_BY_LOSSES = 1e-5  # and where the cost is computed on a grid, whose choice moves it by 1e-6
_ROUGHEST_LEVELS, _ROUGH_LEVELS = 4, 9  # of a schedule, for first estimates of its cost


def laplace_events(epsilon: Floats, m: int, n: int, sampling: Sampling = "wor") -> tuple[Event, ...]:
    """Return one Laplace release per step on m of n rows, (T,): step t costs epsilon[t] after amplification.

    Kuru et al. 2022, equation (12); m = n draws no batch. Equal costs share one event.
    sampling : "wor" holds under replace-one, "poisson" under add/remove-one; ε is amplified alike.
    """
    inner = epsilon if m == n else closed_forms.amplified_inverse(epsilon, m, n)
    return _events(inner, Laplace, m, n, sampling)


def gaussian_events(rho: Floats, m: int, n: int, sampling: Sampling = "wor") -> tuple[Event, ...]:
    """Return one Gaussian release per step on m of n rows, (T,): step t has ρ = μ²/2 = rho[t] before any sampling."""
    return _events(np.sqrt(2 * rho), Gaussian, m, n, sampling)


def _events(
    parameters: Floats, kind: type[Laplace] | type[Gaussian], m: int, n: int, sampling: Sampling
) -> tuple[Event, ...]:
    """Return one release per parameter; equal parameters share one object."""
    by_parameter: dict[float, Event] = {}
    for value in parameters.tolist():
        if value not in by_parameter:
            by_parameter[value] = kind(value) if m == n else Sub(sampling, m, n, kind(value))
    return tuple(by_parameter[value] for value in parameters.tolist())


@checked
def calibrate_laplace(
    budget: Budget, weights: Floats, m: Rows, n: Rows, prior: tuple[Event, ...] = (), *, sampling: Sampling = "wor"
) -> Floats:
    """Return (T,) costs ε_t, in proportion to `weights`, that use up the budget in its own currency.

    Parameters
    ----------
    budget : Budget
    weights : (T,) array
        Of the steps.
    m, n : int
        Rows of a batch, and of the table.
    prior : tuple of Event
        Charged before; the budget covers them, too.
    sampling : "wor" or "poisson"

    Returns
    -------
    (T,) array

    Raises
    ------
    UserError
        If `prior` leaves nothing, and where noise on rare batches would not hide the rows in them.

    >>> from dpviz.privacy.budgets import PureDP
    >>> calibrate_laplace(PureDP(epsilon=1.0), np.array([1.0, 3.0]), m=1000, n=1000).tolist()
    [0.25, 0.75]
    """
    shares = _shares(weights, m, n)
    if not budget.private:
        return np.full(len(shares), math.inf)
    target = budget.left(prior)
    max_cost = math.inf if m == n else float(closed_forms.amplify(max_inner("laplace", budget), m, n))
    if budget.pure:
        if target * shares.max() > max_cost:
            refuse_rare_batches()
        return shares * target
    return shares * _largest_multiple(
        "laplace", tuple(shares.tolist()), (m, n, sampling), budget, target, max_cost=max_cost
    )


@checked
def calibrate_gaussian(
    budget: Budget, weights: Floats, m: Rows, n: Rows, prior: tuple[Event, ...] = (), *, sampling: Sampling = "wor"
) -> Floats:
    """Return (T,) costs ρ_t, before any sampling and in proportion to `weights`, that use up the budget.

    Parameters
    ----------
    budget : Budget
    weights : (T,) array
        Of the steps.
    m, n : int
        Rows of a batch, and of the table.
    prior : tuple of Event
        Charged before; the budget covers them, too.
    sampling : "wor" or "poisson"

    Returns
    -------
    (T,) array

    Raises
    ------
    UserError
        Under pure ε, which Gaussian noise never gives; for batches under ρ or μ, which sampling does not shrink; and
        where noise on rare batches would not hide the rows in them.

    >>> from dpviz.privacy.budgets import ApproximateDP
    >>> budget = ApproximateDP(epsilon=1.0, delta=1e-5)
    >>> rho = calibrate_gaussian(budget, np.ones(10), m=1000, n=1000)
    >>> round(float(np.sqrt(2 * rho.sum())), 6)  # μ of (1, 1e-5)
    0.268051
    """
    shares = _shares(weights, m, n)
    if not budget.private:
        return np.full(len(shares), math.inf)
    if m == n or not budget.allows_gaussian:
        return shares * budget.gaussian_rho(budget.left(prior))
    if not budget.amplifies_gaussian:
        raise UserError(
            "Random batches do not shrink the ρ or the μ of Gaussian noise: both promise something for every attack, "
            "also for those that are almost never wrong, and these find a row that is in the batch as if all rows "
            "were used. Use all rows (m = n), or state the budget as (ε, δ), as a Rényi divergence of one order, or "
            "as an attack bound.",
            title="No amplification in this currency",
        )
    max_cost = max_inner("gaussian", budget) ** 2 / 2
    return shares * _largest_multiple(
        "gaussian", tuple(shares.tolist()), (m, n, sampling), budget, budget.left(prior), max_cost=max_cost
    )


def _shares(weights: Floats, m: int, n: int) -> Floats:
    """Return the weights of steps on m of n rows as shares of 1. Raise UserError if there are no such steps."""
    steps = np.asarray(weights, dtype=float)
    if steps.ndim != 1 or not len(steps) or not (steps > 0).all() or m > n:
        raise UserError(
            "Steps need a positive weight each, in one row, and a batch has no more rows than there are.",
            title="There are no such steps",
        )
    return np.asarray(steps / steps.sum())


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
    """Return (T,) releases on m of n rows that use up the budget, step t in proportion to weights[t] of ε_t or ρ_t.

    Where the noise has no closed form, long schedules are first rounded to few levels (`levelled`): to LEVELS where the
    cost of an event is expensive to compute, to MANY_LEVELS where closed forms add up.
    """
    closed_form = budget.pure or not budget.private or (noise == "gaussian" and m == n)
    if not closed_form and len(set(weights.tolist())) > accountants.MOST_EXACT:
        expensive = not budget.adds_up or noise == "gaussian"
        weights = levelled(weights, LEVELS if expensive else MANY_LEVELS)
    if noise == "laplace":
        return laplace_events(calibrate_laplace(budget, weights, m, n, prior, sampling=sampling), m, n, sampling)
    return gaussian_events(calibrate_gaussian(budget, weights, m, n, prior, sampling=sampling), m, n, sampling)


def calibrate_selections(
    budget: Budget, ranges: Floats, times: Floats | int = 1, prior: tuple[Event, ...] = ()
) -> float:
    """Return the largest s for which selections of bounded range s · ranges[i], `times` each, cost at most the budget.

    Under (ε, δ) the cost is the smaller of basic composition and Rényi divergences. Raises UserError if `prior` leaves
    nothing, and for attack bounds.
    """
    if not budget.private:
        return math.inf
    sizes, inverse = np.unique(np.asarray(ranges, dtype=float), return_inverse=True)
    counts = np.zeros(len(sizes))
    np.add.at(counts, inverse, times)
    counts, sizes = counts[sizes > 0], sizes[sizes > 0]
    target = budget.left(prior)
    if budget.pure:
        return target / budget.selection_cost(sizes, counts)

    def excess(log_multiple: float) -> float:
        cost = budget.selection_cost(math.exp(log_multiple) * sizes, counts)
        return math.log(max(cost, 1e-300) / target)

    guess = math.log(8 * budget.about_rho(target) / float(counts @ sizes**2)) / 2
    if budget.total_epsilon is not None:
        guess = max(guess, math.log(target / float(counts @ sizes)))
    return math.exp(_largest_feasible(excess, guess, _WASTE))


@lru_cache(128)
def _largest_multiple(
    noise: Noise,
    shares: tuple[float, ...],
    batches: tuple[int, int, Sampling],
    budget: Budget,
    target: float,
    *,
    max_cost: float,
) -> float:
    """Return a multiple of the shares (which sum to 1) whose events cost at most `target`, and next to nothing less.

    batches : m, n and the sampling. max_cost : of a single step, as `build` counts it: its ε after amplification, or
        its ρ. Raises UserError if no accountant can tell the cost, or if less than `target` is spent at `max_cost`.
    """
    build = laplace_events if noise == "laplace" else gaussian_events
    weights = np.array(shares)

    def excess(cost: Callable[[tuple[Event, ...]], float], weights: Floats) -> Callable[[float], float]:
        distinct, counts = np.unique(weights, return_counts=True)

        def at(log_multiple: float) -> float:
            steps = build(distinct * math.exp(log_multiple), *batches)
            # The cost of all together does not depend on their order.
            events = tuple(Repeat(e, k) if k > 1 else e for e, k in zip(steps, counts.tolist(), strict=True))
            spent = cost(events)
            return math.log(max(spent, 1e-300) / target) if spent < math.inf else 100.0

        return at

    exact, highest = excess(budget.cost, weights), math.log(max_cost / weights.max())
    guess, slope = _first_guess(noise, weights, batches[0] / batches[1], budget, target), None
    if budget.adds_up:
        return math.exp(_largest_feasible(exact, guess, _WASTE, highest))
    for levels, waste in ((_ROUGHEST_LEVELS, 0.05), (_ROUGH_LEVELS, 0.01)):  # cheap, with fewer different shares
        if len(set(shares)) > 2 * levels:
            rounded = levelled(weights, levels, 2.0 if noise == "laplace" else 1.0)
            guess, slope = _rough_root(excess(budget.rough_cost, rounded), guess, waste, highest, slope)
    guess, slope = _rough_root(excess(budget.rough_cost, weights), guess, 4e-3, highest, slope)
    return math.exp(_largest_feasible(exact, guess, _WASTE_BY_LOSSES, highest, slope))


def _rough_root(
    excess: Callable[[float], float], guess: float, waste: float, highest: float, slope: float | None = None
) -> tuple[float, float | None]:
    """Return about the x <= highest with excess(x) = 0, and the slope there if known; `slope` : an estimate of it."""
    values: dict[float, float] = {}

    def recorded(x: float) -> float:
        values[x] = value = excess(x)
        # A rough cost does not decide if something remains even at `highest`.
        return 0.0 if abs(value) <= waste or (value < 0 and x >= highest) else value

    root = _largest_feasible(recorded, guess, waste, highest, slope)
    if root >= highest:
        return highest, None
    points = sorted(values.items(), key=lambda point: abs(point[1]))[:2]
    rise = [(y - z) / (x - w) for (x, y), (w, z) in [points] if x != w] if len(points) == 2 else []
    slope = rise[0] if rise and rise[0] > 0.1 else slope
    return (root - (values[root] + _WASTE_BY_LOSSES / 2) / slope, slope) if slope else (root, None)


def _first_guess(noise: Noise, shares: Floats, fraction: float, budget: Budget, target: float) -> float:
    """Return about the logarithm of the multiple of the shares that uses up the budget; fraction = m/n."""
    rho = budget.about_rho(target)
    if noise == "gaussian":
        # All have μ² = (m/n)² Σ (e^μ_t² - 1) together, in the limit (Bu, Dong, Long, Su 2020). The losses of noise far
        # too small would take long to compose.
        distinct, counts = np.unique(2 * shares, return_counts=True)

        def excess(log_multiple: float) -> float:
            powers = np.expm1(np.minimum(math.exp(log_multiple) * distinct, 600.0))
            return math.log(fraction**2 * float(counts @ powers) / (2 * rho))

        largest = math.log1p(2 * rho / fraction**2) / float(distinct[-1])  # all of it in the largest share
        return float(brentq(excess, math.log(largest) - 20, math.log(largest) + 1e-9, xtol=1e-3))
    # Laplace noise has a ρ of about ε²/2, and at most ε. Without amplification.
    return max(
        math.log(2 * rho / float(shares @ shares)) / 2, math.log(rho if budget.total_epsilon is None else target)
    )


def _largest_feasible(
    excess: Callable[[float], float], guess: float, waste: float, highest: float = math.inf, slope: float | None = None
) -> float:
    """Return about the largest x with excess(x) <= 0, for an increasing and nearly linear function.

    Either -waste <= excess(x), or the function jumps and x is known to `waste`. The function is called for x <= highest
    only; raises UserError if the budget is not used up even there. slope : of the function near `guess`, if known.
    Regula falsi. It returns a point that was tried and is feasible, never an estimate.
    """
    guess = min(guess, highest)
    low, high, value = guess, guess, excess(guess)
    low_value = high_value = value
    step = abs(value + waste / 2) / slope if slope else max(abs(value), 1e-3)
    step = min(step, 2.0)
    while low_value > 0 or high_value <= 0:
        if -waste <= high_value <= 0:
            return high
        if step > 200 and low_value > 0:
            raise UserError(
                "No accountant can tell what so many steps cost at so small a δ. Raise δ or take fewer steps.",
                title="The budget cannot be planned",
            )
        if low_value > 0:
            high, high_value, low = low, low_value, low - step
            low_value = excess(low)
        elif step > 200 or high >= highest:
            refuse_rare_batches()
        else:
            low, low_value, high = high, high_value, min(high + step, highest)
            high_value = excess(high)
        rise = (high_value - low_value) / (high - low)
        nearer = min(low_value, high_value, key=abs)
        step = min(2 * step, abs(nearer + waste / 2) / rise if rise > 0 else math.inf)
    left, right, last = low_value, high_value, 0  # a side that stays is counted half: the Illinois rule
    while low_value < -waste and high - low > waste:
        value = excess(middle := low + (high - low) * (left + waste / 2) / (left - right))
        if value <= 0:
            low, low_value, left = middle, value, value
            right, last = (right / 2 if last < 0 else right), -1
        else:
            high, right = middle, value
            left, last = (left / 2 if last > 0 else left), 1
    return low


def levelled(weights: Floats, levels: int, order: float = 3.0) -> Floats:
    """Return (T,) weights > 0 of the steps of a schedule, rounded to at most `levels` different ones: as good as a
    schedule in which all differ, and far quicker to account for.

    Where a step's cost is its share of a budget, and shares are optimal, moving a share w by a small factor f loses
    w (f - 1)² for any w. So the logarithms are cut as a companding quantiser cuts (Panter and Dite 1951): the
    width of a level is in proportion to the density of the shares there to the power -1/3. Equal weights stay equal,
    and larger ones larger or equal.

    order : of the mean that replaces the weights of a level. The cubic mean keeps the largest of a wide level, which
    matter, from getting too little.
    """
    distinct, back, counts = np.unique(np.asarray(weights, dtype=float), return_inverse=True, return_counts=True)
    if len(distinct) <= levels:
        return distinct[back]
    mass = counts * distinct
    gaps = np.diff(np.log(np.maximum(distinct, 1e-300)))
    lengths = ((mass[1:] + mass[:-1]) / 2) ** (1 / 3) * gaps ** (2 / 3)
    position = np.concatenate([[0.0], np.cumsum(lengths)])
    group = np.minimum((levels * (position / position[-1])).astype(int), levels - 1)
    means = (np.bincount(group, counts * distinct**order) / np.maximum(np.bincount(group, counts), 1)) ** (1 / order)
    return means[group][back]


def max_inner(noise: Noise, budget: Budget) -> float:
    """Return the largest ε of Laplace or μ of Gaussian noise on a batch that still hides a row of the batch.

    Beyond it, one release gives an attacker who knows the batch an advantage above ALMOST_SURELY, and above the one
    that the budget itself grants any attacker: a budget that promises nothing needs no guard.
    """
    doubt = max(min(1 - ALMOST_SURELY, budget.doubt()), _MIN_DOUBT)
    # The advantage is 1 - e^(-ε/2) for Laplace noise and 2 Φ(μ/2) - 1 for Gaussian noise.
    return -2 * math.log(doubt) if noise == "laplace" else -2 * float(ndtri(doubt / 2))


def refuse_rare_batches() -> NoReturn:
    """Raise the UserError for a budget that only batches with too little noise would use up."""
    raise UserError(
        "This guarantee would hold only because the batch is rare: a given row is drawn so seldom that the budget "
        "allows releasing whole batches without any noise, or with so little that a row in the batch shows almost "
        "surely. Choose a larger m/n or a smaller budget: a smaller δ, far below 1/n, a smaller ε, ρ or μ, or a "
        "stricter attack bound.",
        title="This budget does not protect those who are drawn",
    )
