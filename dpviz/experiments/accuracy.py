"""The smallest budget whose error bound is small enough, and what else would reduce the error.

A family that can bound its error from public numbers alone declares an `ErrorBound`; the questions are asked here, for
all of them alike.
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
_ACCURACY = 2e-4  # of a factor, relative: three digits
B = TypeVar("B", bound=Budget)


@dataclass(frozen=True)
class Best:
    """The smallest error that a bound proves, and after how many steps; 0 steps: nothing better than the start."""

    bound: float
    iterations: int


def no_bound_in(budget: Budget) -> UserError:
    """What an error bound says to a currency that it does not know."""
    return UserError(
        f"The error is known for a budget in pure ε, (ε, δ), ρ or μ, not for {budget.name}. State the guarantee in one "
        "of these.",
        title="No error bound in this currency",
    )


class ErrorBound(Specification, ABC):
    """What a method's theory guarantees before any data are seen: its error as a function of public numbers."""

    title: ClassVar[str] = ""
    error_title: ClassVar[str] = ""  # what is bounded, in words and symbols
    advice: ClassVar[str] = ""  # what to change where the error without privacy is the limit, in a sentence
    # The controls whose change reduces the error, and in which direction.
    levers: ClassVar[Mapping[str, Literal["more", "less"]]] = MappingProxyType({"rows": "more"})

    @abstractmethod
    def best(self, budget: Budget) -> Best:
        """The smallest proven error, over the number of steps, when the whole budget is spent.

        Raises UserError where the method does not exist in this currency, or the numbers contradict each other.
        """

    @abstractmethod
    def without_privacy(self) -> float:
        """What remains of the error under an infinite budget: too few steps, drawn vertices, and the like."""


@dataclass(frozen=True)
class Required:
    """The smallest budget, in three digits, whose bound reaches a target. at_least : a smaller one, below the declared
    range of its currency, may do, too."""

    budget: Budget
    best: Best
    at_least: bool


@dataclass(frozen=True)
class Levers:
    """By which factor one number alone must change for the bound to fall to `target`; None where no change does it.

    budget : in the unit of its currency, within the declared range. controls : of the bound, by name; numbers of rows
    up to MOST_ROWS times as many, others within their declared range.
    """

    target: float
    budget: float | None
    controls: Mapping[str, float | None]


@lru_cache(64)
def required_budget(bound: ErrorBound, target: float, currency: type[B], delta: float = 1e-6) -> Required:
    """The smallest budget of a currency that guarantees an error of at most `target`; never one that is too small.

    delta : of (ε, δ), unused in other currencies. Raises UserError, with what the limit is, if even the largest budget
    of the declared range does not reach it.
    """
    name, low, high = _amount(currency)
    fixed = {control.name: delta for control in currency.controls() if control.name == "delta"}

    def stated(value: float) -> B:
        return currency(**{name: min(max(value, low), high)}, **fixed)

    smallest, largest = stated(low), stated(high)
    _check_reached(bound, target, largest)
    first = bound.best(smallest)
    if first.bound <= target:
        return Required(smallest, first, at_least=True)
    growth = _growth(lambda growth: bound.best(stated(low * growth)).bound, target, high / low, bound)
    value = rounded_up(low * (growth or 1.0))
    while (found := bound.best(stated(value))).bound > target and value < high:
        value = rounded_up(value * (1 + _ACCURACY))
    return Required(stated(value), found, at_least=False)


def _check_reached(bound: ErrorBound, target: float, largest: Budget) -> None:
    """Raises UserError unless the largest budget reaches the target."""
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
    """What alone would multiply the present bound by `factor`, between 0 and 1: a larger budget, more rows, and so on.

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
    found = {name: _lever(bound, controls[name], budget, target) for name in bound.levers}
    return Levers(target, larger, MappingProxyType(found))


@lru_cache(64)
def rows_needed(bound: ErrorBound, target: float, budget: Budget) -> int | None:
    """The fewest rows with which the bound is at most `target`, up to MOST_NEEDED; None if these are too few.

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
    """The factor for one control alone."""
    now, whole = getattr(bound, control.name), control.type is int
    more = bound.levers[control.name] == "more"
    assert control.low is not None

    def changed(growth: float) -> float:
        value = now * growth if more else max(now / growth, control.low)
        return (math.ceil if more else math.floor)(round(value, 9)) if whole else value

    # The answer is a factor, which may lead beyond the range of the slider, so the value is not validated.
    def error(value: float) -> float:
        return bound.model_copy(update={control.name: value}).best(budget).bound

    most = MOST_ROWS if more else now / control.low
    growth = _growth(lambda growth: error(changed(growth)), target, most, bound if more else None)
    if growth is None:
        return None
    value = changed(growth)
    nearer = value - 1 if more else value + 1  # the growth is a little too large, which may have cost a whole one
    return (nearer if whole and error(nearer) <= target else value) / now


def _growth(error: Callable[[float], float], target: float, most: float, bound: ErrorBound | None) -> float | None:
    """The least growth ≥ 1, up to `most`, with error(growth) <= target, of an error that falls; None if there is none.

    A feasible one, too large by _ACCURACY at most. What is above the error without privacy of `bound` falls nearly like
    a power of the growth: on logarithmic scales a root is found in few evaluations.
    """
    if target <= 0 or most <= 1 or error(most) > target:
        return None
    floor = bound.without_privacy() if bound is not None else 0.0
    floor = floor if floor < target * (1 - 1e-9) else 0.0

    def excess(log_growth: float) -> float:
        above = max(error(min(math.exp(log_growth), most)) - floor, 1e-12 * target)
        return math.log(above / (target - floor))

    if excess(0.0) <= 0:
        return 1.0
    root = brentq(excess, 0.0, math.log(most), xtol=_ACCURACY / 2, rtol=1e-9)
    return float(min(math.exp(root + _ACCURACY / 2), most))


def _amount(currency: type[Budget]) -> tuple[str, float, float]:
    """Name and range of the number that a currency is measured in."""
    control = currency.controls()[0]
    assert control.low is not None and control.high is not None
    return control.name, control.low, control.high
