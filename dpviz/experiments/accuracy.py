"""The smallest budget whose error bound meets a target, and the changes that would reduce the bound.

A family whose theory bounds the error from public numbers alone declares an `ErrorBound`; the searches here work for
every such bound.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Literal, TypeVar

from scipy.optimize import brentq

from dpviz.errors import UserError
from dpviz.numbers import rounded_up, short, short_up
from dpviz.privacy.budgets import Budget
from dpviz.specification import Control, Specification

MOST_ROWS = 10_000.0  # the largest factor by which rows are multiplied in search of a smaller error
MOST_NEEDED = 1e9  # rows
_ACCURACY = 2e-4  # relative accuracy of a factor: three digits
B = TypeVar("B", bound=Budget)


@dataclass(frozen=True)
class Best:
    """The smallest error that a bound proves, and the number of steps that reach it; 0 steps: no step improves on
    the start."""

    bound: float
    iterations: int


def no_bound_in(budget: Budget) -> UserError:
    """Return the error to raise for a currency in which an error bound is not defined."""
    return UserError(
        f"The error is known for a budget in pure ε, (ε, δ), ρ or μ, not for {budget.name}. State the guarantee in one "
        "of these.",
        title="No error bound in this currency",
    )


class ErrorBound(Specification, ABC):
    """Error that a method's theory guarantees before any data are seen, as a function of public numbers."""

    title: ClassVar[str] = ""
    error_title: ClassVar[str] = ""  # name and symbol of the bounded error
    advice: ClassVar[str] = ""  # a sentence: the change that helps where the error without privacy is the limit
    # The controls whose change reduces the error, and the direction of that change.
    levers: ClassVar[Mapping[str, Literal["more", "less"]]] = MappingProxyType({"rows": "more"})

    @abstractmethod
    def best(self, budget: Budget) -> Best:
        """Return the smallest proven error, over the number of steps, when the whole budget is spent.

        Raises UserError where the method does not exist in this currency, or the numbers contradict each other.
        """

    @abstractmethod
    def without_privacy(self) -> float:
        """Return the error that remains under an infinite budget: from too few steps, drawn vertices, and the like."""


@dataclass(frozen=True)
class Required:
    """The smallest budget, in three digits, whose bound meets a target.

    at_least : this budget is the lower end of its currency's declared range; a smaller one may meet the target, too.
    """

    budget: Budget
    best: Best
    at_least: bool


@dataclass(frozen=True)
class Levers:
    """Factors by which one number alone must change for the bound to fall to `target`; None where no change does it.

    budget : factor of the budget in the unit of its currency, within the declared range.
    controls : factors of the bound's controls, by name; numbers of rows grow up to MOST_ROWS times, others stay within
        their declared range.
    """

    target: float
    budget: float | None
    controls: Mapping[str, float | None]


@lru_cache(64)
def required_budget(bound: ErrorBound, target: float, currency: type[B], delta: float = 1e-6) -> Required:
    """Return the smallest budget of a currency that guarantees an error of at most `target`, rounded up to three
    digits.

    delta : δ of an (ε, δ) budget, unused in other currencies. Raises UserError, which names the limit, if even the
        largest budget of the declared range does not meet the target.
    """
    name, low, high = _amount(currency)
    fixed = {control.name: delta for control in currency.controls() if control.name == "delta"}

    def budget_of(value: float) -> B:
        return currency(**{name: min(max(value, low), high)}, **fixed)

    smallest, largest = budget_of(low), budget_of(high)
    _check_reached(bound, target, largest)
    first = bound.best(smallest)
    if first.bound <= target:
        return Required(smallest, first, at_least=True)
    growth = _growth(lambda growth: bound.best(budget_of(low * growth)).bound, target, high / low, bound)
    value = rounded_up(low * (growth or 1.0))
    while (result := bound.best(budget_of(value))).bound > target and value < high:
        value = rounded_up(value * (1 + _ACCURACY))
    return Required(budget_of(value), result, at_least=False)


def _check_reached(bound: ErrorBound, target: float, largest: Budget) -> None:
    """Raise UserError unless the largest budget reaches the target."""
    reached, floor = bound.best(largest).bound, bound.without_privacy()
    if reached <= target:
        return
    if floor > target:
        raise UserError(
            f"Even without privacy only an error of {short_up(floor)} is guaranteed, so none of {short(target)} can "
            f"be. {bound.advice}",
            title="Target out of reach",
        )
    raise UserError(
        f"The largest budget that can be set, {largest.describe()}, guarantees an error of {short_up(reached)} only. "
        f"Without privacy it would be {short_up(floor)}: the noise is the limit. Use more rows or a larger target.",
        title="Target out of reach",
    )


@lru_cache(64)
def levers(bound: ErrorBound, budget: Budget, factor: float = 0.5) -> Levers:
    """Return the changes that, each alone, multiply the present bound by `factor`, between 0 and 1.

    Raises UserError as `ErrorBound.best`.
    """
    if not 0 < factor < 1:
        raise ValueError(f"factor must lie between 0 and 1, got {factor}")
    target = factor * bound.best(budget).bound
    larger = None
    if budget.controls():
        name, _, high = _amount(type(budget))
        value = getattr(budget, name)

        def error(growth: float) -> float:
            return bound.best(budget.replaced(**{name: min(value * growth, high)})).bound

        larger = _growth(error, target, high / value, bound)
    controls = {control.name: control for control in type(bound).controls()}
    factors = {name: _lever(bound, controls[name], budget, target) for name in bound.levers}
    return Levers(target, larger, MappingProxyType(factors))


@lru_cache(64)
def rows_needed(bound: ErrorBound, target: float, budget: Budget) -> int | None:
    """Return the fewest rows with which the bound is at most `target`; None if MOST_NEEDED rows are too few.

    Raises UserError as `ErrorBound.best`.
    """

    def error(rows: float) -> float:
        return bound.model_copy(update={"rows": math.ceil(rows)}).best(budget).bound

    growth = _growth(error, target, MOST_NEEDED, bound)
    if growth is None:
        return None
    enough = math.ceil(growth)
    low = max(1, math.floor(growth * (1 - 2 * _ACCURACY)))
    return low + bisect_left(range(low, enough), True, key=lambda rows: error(rows) <= target)


def _lever(bound: ErrorBound, control: Control, budget: Budget, target: float) -> float | None:
    """Return the factor by which this control alone must change for the bound to fall to `target`; None if none
    does."""
    present, is_whole = getattr(bound, control.name), control.type is int
    is_larger = bound.levers[control.name] == "more"
    assert control.low is not None

    def changed(growth: float) -> float:
        value = present * growth if is_larger else max(present / growth, control.low)
        return (math.ceil if is_larger else math.floor)(round(value, 9)) if is_whole else value

    # The answer is a factor, which may lead beyond the range of the slider, so the value is not validated.
    def error(value: float) -> float:
        return bound.model_copy(update={control.name: value}).best(budget).bound

    max_growth = MOST_ROWS if is_larger else present / control.low
    growth = _growth(lambda growth: error(changed(growth)), target, max_growth, bound if is_larger else None)
    if growth is None:
        return None
    value = changed(growth)
    nearer = value - 1 if is_larger else value + 1  # the growth is a little too large: rounding may have added one
    return (nearer if is_whole and error(nearer) <= target else value) / present


def _growth(
    error: Callable[[float], float], target: float, max_growth: float, bound: ErrorBound | None
) -> float | None:
    """Return the smallest growth in [1, max_growth] with error(growth) <= target, or None if there is none.

    error : falls as the growth rises. The result satisfies the inequality and is too large by a relative _ACCURACY at
        most.
    bound : its error without privacy is subtracted first, if given: the rest falls nearly like a power of the growth,
        so that on logarithmic scales a root takes few evaluations.
    """
    if target <= 0 or max_growth <= 1 or error(max_growth) > target:
        return None
    floor = bound.without_privacy() if bound is not None else 0.0
    floor = floor if floor < target * (1 - 1e-9) else 0.0

    def excess(log_growth: float) -> float:
        above = max(error(min(math.exp(log_growth), max_growth)) - floor, 1e-12 * target)
        return math.log(above / (target - floor))

    if excess(0.0) <= 0:
        return 1.0
    root = brentq(excess, 0.0, math.log(max_growth), xtol=_ACCURACY / 2, rtol=1e-9)
    return float(min(math.exp(root + _ACCURACY / 2), max_growth))


def _amount(currency: type[Budget]) -> tuple[str, float, float]:
    """Return name, lower and upper end of the number that a currency is measured in."""
    control = currency.controls()[0]
    assert control.low is not None and control.high is not None
    return control.name, control.low, control.high
