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
from dpviz.privacy.budgets import Budget, NoPrivacy
from dpviz.specification import Control, Specification

MAX_GROWTH = 10_000.0  # the largest factor by which a number of the bound, such as rows, is multiplied
MAX_NEEDED = 1e9  # rows; a search for a number of rows ends here
_ACCURACY = 2e-4  # relative accuracy of a factor: three digits
B = TypeVar("B", bound=Budget)


@dataclass(frozen=True)
class BestBound:
    """The smallest error that a theory proves over all numbers of steps, and the number of steps that has it.

    iterations : 0 if every number of steps has a larger bound than the starting point.
    """

    bound: float
    iterations: int


def no_bound_error(budget: Budget) -> UserError:
    """Return the error to raise where a method has no error bound for budgets of this currency."""
    return UserError(
        f"The error is known for a budget in pure ε, (ε, δ), ρ or μ, not for {budget.name}. State the guarantee in one "
        "of these.",
        title="No error bound in this currency",
    )


class ErrorBound(Specification, ABC):
    """Upper bound on a method's error, which its theory proves from public numbers alone, before any data are seen.

    The fields of a subclass are these numbers, `rows` among them.
    """

    title: ClassVar[str] = ""
    error_title: ClassVar[str] = ""  # name and symbol of the bounded error
    advice: ClassVar[str] = ""  # a sentence: the change that helps where even the error without privacy is too large
    # By name of a control (a field that the user sets): the direction of the change that reduces the error.
    levers: ClassVar[Mapping[str, Literal["more", "less"]]] = MappingProxyType({"rows": "more"})

    @abstractmethod
    def best(self, budget: Budget) -> BestBound:
        """Return the smallest proven error, over the number of steps, when the whole budget is spent.

        Raises UserError where the method does not exist in this currency, or the numbers contradict each other.
        """

    def without_privacy(self) -> float:
        """Return the error that the bound still allows without any privacy noise, for example from too few steps."""
        return self.best(NoPrivacy()).bound


@dataclass(frozen=True)
class Required:
    """The smallest budget, in three digits, whose bound meets a target.

    best : the error that this budget guarantees, and its number of steps.
    at_least : True if this budget is the lower end of its currency's declared range, so that a smaller one may meet
        the target, too.
    """

    budget: Budget
    best: BestBound
    at_least: bool


@dataclass(frozen=True)
class Levers:
    """Factors by which one number alone must change for the bound to fall to `target`; None where no change does it.

    budget : factor by which the budget's number (ε, ρ or μ) must grow, within the declared range.
    controls : for each control in the bound's `levers`, new value / present value. A value that must grow may grow
        MAX_GROWTH times, past the end of its slider; one that must fall stays within its declared range.
    """

    target: float
    budget: float | None
    controls: Mapping[str, float | None]


@lru_cache(64)
def required_budget(bound: ErrorBound, target: float, currency: type[B], delta: float = 1e-6) -> Required:
    """Return the smallest budget, rounded up to three digits, that guarantees an error of at most `target`.

    currency : class of the budget. delta : δ of an (ε, δ) budget, unused in other currencies.
    Raises UserError, which says whether the noise is the limit, if even the largest budget of the declared range does
    not meet the target.
    """
    name, low, high = _size_field(currency)
    delta_field = {"delta": delta} if "delta" in currency.model_fields else {}

    def budget_of(value: float) -> B:
        """Return the budget of this size, moved into the declared range."""
        return currency(**{name: min(max(value, low), high)}, **delta_field)

    def error(growth: float) -> float:
        """Return the bound for a budget `growth` times the smallest one."""
        return bound.best(budget_of(low * growth)).bound

    smallest, largest = budget_of(low), budget_of(high)
    _check_reached(bound, target, largest)
    best_at_smallest = bound.best(smallest)
    if best_at_smallest.bound <= target:
        return Required(smallest, best_at_smallest, at_least=True)
    # The largest budget meets the target. If a rounding error hides this from the search, it is the required one.
    growth = _smallest_growth(error, target, high / low, bound) or high / low
    value = rounded_up(low * growth)
    best = bound.best(budget_of(value))
    while best.bound > target and value < high:  # a safeguard: the growth is accurate to _ACCURACY only
        value = rounded_up(value * (1 + _ACCURACY))
        best = bound.best(budget_of(value))
    return Required(budget_of(value), best, at_least=False)


def _check_reached(bound: ErrorBound, target: float, largest: Budget) -> None:
    """Raise UserError unless the largest budget guarantees the target; the sentence says whether noise is the limit."""
    smallest_error = bound.best(largest).bound
    if smallest_error <= target:
        return
    error_without_privacy = bound.without_privacy()
    if error_without_privacy > target:
        raise UserError(
            f"Even without privacy only an error of {short_up(error_without_privacy)} is guaranteed, so none of "
            f"{short(target)} can be. {bound.advice}",
            title="Target out of reach",
        )
    raise UserError(
        f"The largest budget that can be set, {largest.describe()}, guarantees an error of {short_up(smallest_error)} "
        f"only. Without privacy it would be {short_up(error_without_privacy)}: the noise is the limit. Use more rows "
        "or a larger target.",
        title="Target out of reach",
    )


@lru_cache(64)
def levers(bound: ErrorBound, budget: Budget, factor: float = 0.5) -> Levers:
    """Return the changes of the budget and of public numbers, each of which alone multiplies the present bound by
    `factor`, a number between 0 and 1.

    Raises UserError where the method does not exist in the budget's currency.
    """
    if not 0 < factor < 1:
        raise ValueError(f"factor must lie between 0 and 1, got {factor}")
    target = factor * bound.best(budget).bound
    budget_growth = None
    if budget.controls():  # `NoPrivacy` has no number that could grow
        name, _, high = _size_field(type(budget))
        value = getattr(budget, name)

        def error(growth: float) -> float:
            return bound.best(budget.replaced(**{name: min(value * growth, high)})).bound

        budget_growth = _smallest_growth(error, target, high / value, bound)
    controls = {control.name: control for control in type(bound).controls()}
    factors = {name: _lever(bound, controls[name], budget, target) for name in bound.levers}
    return Levers(target, budget_growth, MappingProxyType(factors))


@lru_cache(64)
def rows_needed(bound: ErrorBound, target: float, budget: Budget) -> int | None:
    """Return the smallest number of rows whose bound under a budget is at most `target`; None beyond MAX_NEEDED.

    Raises UserError where the method does not exist in the budget's currency.
    """

    def error(rows: float) -> float:
        return bound.model_copy(update={"rows": math.ceil(rows)}).best(budget).bound

    growth = _smallest_growth(error, target, MAX_NEEDED, bound)  # growth of a single row: the number of rows
    if growth is None:
        return None
    # `growth` is enough, but may be too large by its accuracy: find the first whole number up to it that is enough.
    enough = math.ceil(growth)
    low = max(1, math.floor(growth * (1 - 2 * _ACCURACY)))  # twice the accuracy, to be on the safe side
    return low + bisect_left(range(low, enough), True, key=lambda rows: error(rows) <= target)


def _lever(bound: ErrorBound, control: Control, budget: Budget, target: float) -> float | None:
    """Return the factor by which this control alone must change for the bound to fall to `target`; None if none does.

    The factor is above 1 for a control that must grow ("more" in `bound.levers`), below 1 for one that must fall.
    """
    present, is_whole = getattr(bound, control.name), control.type is int
    must_grow = bound.levers[control.name] == "more"
    assert control.low is not None

    def value_after(growth: float) -> float:
        """Return the value multiplied by `growth`, or divided by it if the value must fall; whole where it must be."""
        value = present * growth if must_grow else max(present / growth, control.low)
        if not is_whole:
            return value
        # Rounded to nine decimals first, so that a rounding error above 100 does not make it 101.
        return math.ceil(round(value, 9)) if must_grow else math.floor(round(value, 9))

    # `model_copy` does not validate the value: the factor may lead beyond the range of the slider.
    def error(value: float) -> float:
        return bound.model_copy(update={control.name: value}).best(budget).bound

    max_growth = MAX_GROWTH if must_grow else present / control.low
    # The search may subtract the error without privacy only if the growth does not change that error: more rows do not,
    # but a value that falls may reduce it.
    floor_of = bound if must_grow else None
    growth = _smallest_growth(lambda growth: error(value_after(growth)), target, max_growth, floor_of)
    if growth is None:
        return None
    value = value_after(growth)
    if is_whole:  # the growth is too large by its accuracy, so that rounding may have gone one too far
        nearer = value - 1 if must_grow else value + 1
        if error(nearer) <= target:
            value = nearer
    return value / present


def _smallest_growth(
    error: Callable[[float], float], target: float, max_growth: float, bound: ErrorBound | None
) -> float | None:
    """Return the smallest growth in [1, max_growth] with error(growth) <= target, or None if there is none or
    max_growth leaves no room.

    error : falls as the growth rises. The result satisfies the inequality and is too large by a relative _ACCURACY at
        most.
    bound : if given, its error without privacy, the floor, is subtracted before the search. What is above the floor
        falls nearly like a power of the growth, so that on logarithmic scales a root takes few evaluations.
    """
    if target <= 0 or max_growth <= 1 or error(max_growth) > target:
        return None
    floor = bound.without_privacy() if bound is not None else 0.0
    floor = floor if floor < target * (1 - 1e-9) else 0.0  # the logarithm below needs a target above the floor

    def excess(log_growth: float) -> float:
        """Return log((error - floor) / (target - floor)), which is 0 where the error is the target."""
        error_here = error(min(math.exp(log_growth), max_growth))
        above_floor = max(error_here - floor, 1e-12 * target)  # positive, though the error may round to the floor
        return math.log(above_floor / (target - floor))

    if excess(0.0) <= 0:
        return 1.0
    # An absolute accuracy of the logarithm is a relative one of the growth; with this small `rtol` it alone counts.
    root = brentq(excess, 0.0, math.log(max_growth), xtol=_ACCURACY / 2, rtol=1e-9)
    return float(min(math.exp(root + _ACCURACY / 2), max_growth))  # rounded up: the target must be met


def _size_field(currency: type[Budget]) -> tuple[str, float, float]:
    """Return the name of the field that is a budget's size (ε, ρ or μ), and the ends of its declared range."""
    control = currency.controls()[0]  # budgets declare their size first
    assert control.low is not None and control.high is not None
    return control.name, control.low, control.high
