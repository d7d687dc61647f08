"""The base class of budgets, whose methods are all that the library knows of a currency, and the budget `NoPrivacy`."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpviz.arguments import Between, Delta, checked
from dpviz.displays import Displayed
from dpviz.errors import UserError
from dpviz.numbers import short_down, short_up
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.currencies import Currency, Noise, release
from dpviz.privacy.events import Event, Relation
from dpviz.specification import Specification

Order = Annotated[float, Between(1, math.inf)]
FALSE_ALARMS = 0.01  # the rate of false alarms for which sentences say what an attacker can notice
_NOTHING_LEFT = 1e-9  # a remaining share of a budget below this is a rounding error


class Budget(Displayed, Specification):
    """A privacy guarantee that a whole run has to meet, under replace-one neighbours. Each currency is a subclass.

    Everything that differs between currencies is an attribute or a method here, so that callers need not know the class
    of a budget. An *amount* is a cost in the unit in which the costs of releases add up: ε, ρ, μ², or a Rényi
    divergence of one order. For (ε, δ) and attack bounds costs do not add up; their amounts are the ε at the budget's
    δ, and the true positive rate at its false positive rate.

    name : text, the name of the currency.
    direction : sentence for the screen that says in which direction of the numbers there is more privacy.
    currency : "epsilon", "rho" or "mu" if the budget is stated in it; None otherwise.
    remark : sentence for the screen that says how the costs of steps add up.
    private : False if nothing is promised.
    pure : True for pure ε, in which the cost of Laplace noise and of a selection is their own parameter.
    adds_up : True if amounts add up over releases.
    larger_is_more : names of those fields of which a larger number means more privacy.
    allows_gaussian : True if Gaussian noise can meet the budget.
    amplifies_gaussian : True if random batches make the cost of Gaussian noise smaller.
    """

    name: ClassVar[str] = ""
    direction: ClassVar[str] = ""
    currency: ClassVar[Currency | None] = None
    remark: ClassVar[str] = "(ε, δ) does not add up step by step, ρ does; the tab on accounting shows ε at δ."
    private: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    adds_up: ClassVar[bool] = True
    larger_is_more: ClassVar[tuple[str, ...]] = ()
    allows_gaussian: ClassVar[bool] = True
    amplifies_gaussian: ClassVar[bool] = False

    # ------------------------------------------------------------------------------------------------------- in words

    def describe(self) -> str:
        """Return the guarantee in symbols, for instance "ε = 1, δ = 10⁻⁶"."""
        equations = []
        for control in self.controls():  # one for each field
            value = getattr(self, control.name)
            # Rounded towards less privacy; with 5 digits an order close to 1 is not written as 1.
            text = short_down(value, 5) if control.name in self.larger_is_more else short_up(value, 4)
            equations.append(f"{control.symbol} = {text}")
        return ", ".join(equations)

    @property
    def symbol(self) -> str:
        """Symbol of the budget's `limit`, and of what is `spent` of it: for instance "ρ", or "ε at δ = 10⁻⁶"."""
        return self.controls()[0].symbol  # of the first field, as `limit`

    # ---------------------------------------------------------------------------------------------- costs and amounts

    @property
    def limit(self) -> float:
        """The whole budget as the number that the user states (the first field): an ε, ρ, μ, divergence or rate."""
        first_field, *_ = type(self).model_fields
        number: float = getattr(self, first_field)
        return number

    @property
    def amount(self) -> float:
        """The whole budget as an amount."""
        return self.limit

    def in_unit_of_limit(self, amount: float) -> float:
        """Return an amount in the unit of `limit`: only μ is the root of its amount."""
        return amount

    @classmethod
    def of_amount(cls, amount: float) -> "Budget":
        """Return a budget of this amount, also out of its field's range. Raises TypeError if `currency` is None."""
        raise TypeError(f"{cls.name} is counted in none of ε, ρ and μ, so there is no amount {amount} of it")

    @abstractmethod
    def cost(self, events: tuple[Event, ...]) -> float:
        """Return the amount that events cost together; infinite if they have no cost in this currency."""

    def rough_cost(self, events: tuple[Event, ...]) -> float:
        """Return an estimate of `cost` that takes less time, for a search whose result is confirmed by `cost`."""
        return self.cost(events)

    def spent(self, events: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        """Return the cost of all releases together, in the unit in which the budget is stated (see `limit`).

        prior : earlier releases on whose outcome the choice of `events` depends; their cost is included.
        """
        return self.in_unit_of_limit(self.cost((*prior, *events)))

    def spent_when_stopped(self, events: Sequence[Event], whole: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        """Return the cost, as `spent` does, of the first releases of a plan if the decision to stop depends on them.

        If amounts add up, only the releases so far count: they are charged one by one, against a total that was fixed
        beforehand. Otherwise the whole plan counts.

        events : the releases so far. whole : all releases of the plan. prior : as in `spent`.
        """
        return self.spent(events if self.adds_up else whole, prior)

    def remaining(self, prior: tuple[Event, ...]) -> float:
        """Return the amount of the budget that remains for a run after the releases `prior`.

        The run may depend on their outcome. Raises UserError if nothing remains.
        """
        total, used = self.amount, self._prior_cost(prior)
        if not total - used > _NOTHING_LEFT * total:  # also if the difference is not a number
            raise UserError(
                "What was released before the run has used up the whole budget. Raise the budget, or go back to "
                "constants that cost nothing.",
                title="Nothing is left for the run",
            )
        return total - used

    def _prior_cost(self, prior: tuple[Event, ...]) -> float:
        """Return the amount that `left` subtracts for the releases `prior`."""
        return self.cost(prior)

    def additive(self, prior: tuple[Event, ...] = ()) -> "Budget":
        """Return a budget in ε, ρ or μ that implies this one: itself if it is one, else the largest such ρ or μ.

        prior : releases before the run, which the result covers, too. Of an (ε, δ), their pure ε is subtracted before
            the conversion to ρ, as `accountants.tightest` adds it, and their ρ is added afterwards.
        """
        return self

    def per_row(self, rows_per_person: int) -> "Budget":
        """Return a budget that, met for one replaced row, meets this one for all rows of a person, k at most.

        rows_per_person : k. It follows from the guarantee alone, for any algorithm (THEORY.md, section 6). Raises
        UserError for a currency without such a rule.
        """
        if rows_per_person == 1 or not self.private:
            return self
        raise UserError(
            "State the guarantee as pure ε, (ε, δ), ρ or μ, or protect single rows.",
            title=f"{self.name}: no rule is known for people with several rows",
        )

    @checked
    def share(self, fraction: Annotated[float, Between(0, 1, ends=True)], prior: tuple[Event, ...] = ()) -> "Budget":
        """Return a budget in ε, ρ or μ whose amount is this fraction of the amount that the releases `prior` leave."""
        total = self.additive(prior)
        return total.of_amount(total.remaining(prior) * fraction)

    # -------------------------------------------------------------------------------------------- releases it pays for

    @property
    def total_epsilon(self) -> float | None:
        """The largest sum of the ε of pure releases that basic composition allows; None if it proves no such budget."""
        return None

    @property
    def total_rho(self) -> float | None:
        """A value of Σ ε²/2 of Laplace releases, or of Σ η²/8 of selections, with which they never exceed the budget.

        None if there is no such value. A Laplace release (a selection) has a ρ of at most ε²/2 (η²/8), and a μ² of at
        most π times as much, because its μ, -2 Φ⁻¹(e^(-ε/2)/2) or -2 Φ⁻¹(1/(1 + e^(η/2))), is concave with the slope
        √(π/2) or √(π/8) at 0.
        """
        return None

    @abstractmethod
    def gaussian_rho(self, amount: float) -> float:
        """Return the ρ = μ²/2 of the Gaussian noise on all rows that costs this amount.

        Raises UserError if Gaussian noise has no finite cost in this currency.
        """

    def about_rho(self, amount: float) -> float:
        """Return an estimate, for first guesses, of the ρ of many small releases that cost this amount together."""
        return self.gaussian_rho(amount)

    def release(self, noise: Noise) -> Event:
        """Return the single release with this kind of noise that uses up the budget.

        For the noise "any", it is a release of which only the guarantee is known. Raises TypeError unless the
        budget is an ε, ρ, μ or (ε, δ), and ValueError for Gaussian noise in pure ε.
        """
        if self.currency is None:
            raise TypeError(f"{self.name} is counted in none of ε, ρ and μ")
        return release(noise, self.currency, self.amount)

    @abstractmethod
    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        """Return the amount that selections cost together, counts[i] of them of bounded range η = ranges[i].

        Raises UserError if the currency has no formula for it.
        """

    # ---------------------------------------------------------------------------------------- what an attacker can do

    @abstractmethod
    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        """Return the smallest false negative rate that any test against any algorithm with this guarantee can have, at
        each false positive rate.

        It is exact for pure ε, (ε, δ), μ and attack bounds, and a lower bound for ρ and Rényi divergences.
        """

    @abstractmethod
    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        """Return the smallest `limit` with which the guarantee is compatible with the probabilities of an outcome.

        The outcome has the probability `rate` on one data set and `false_rate` on a neighbouring one. So an audit that
        has estimated these refutes any smaller limit. The budget's other fields, such as δ, keep their values.
        """

    def advantage(self) -> float:
        """Return the largest TPR - FPR of any test against any algorithm with this guarantee: the largest δ(0)."""
        return _advantage(self)

    @checked
    def consequences(self, relation: Relation = "replace-one", rows_per_person: int = 1) -> tuple[str, ...]:
        """Return sentences for the screen on the best attacker's chances, computed from `tradeoff`, with **bold**
        numbers. rows_per_person : the largest number of rows of one person, who is protected with all of them."""
        (missed,) = self.tradeoff([FALSE_ALARMS])
        detected = 1 - float(missed)
        rows = "row" if rows_per_person == 1 else "rows"
        change, question = {
            ("replace-one", "row"): ("a replaced row", "which of two rows was used"),
            ("replace-one", "rows"): ("a person's replaced rows", "which rows of a person were used"),
            ("add/remove-one", "row"): ("the row", "whether the row was in the data"),
            ("add/remove-one", "rows"): ("a person's rows", "whether a person's rows were in the data"),
        }[relation, rows]
        # Right with probability (1 + TPR - FPR)/2; of a suspicion of ½, Bayes' rule makes TPR/(TPR + FPR).
        return (
            f"An attacker who knows everybody else's {rows} and must decide {question} is right in **at most "
            f"{short_up(50 * (1 + self.advantage()))} of 100** fair coin-toss cases. 50 is pure guessing.",
            f"If false alarms are allowed in 1 % of cases, the attacker notices {change} **at most "
            f"{short_up(100 * detected)} %** of the time.",
            f"A suspicion of 50 % before an alarm that comes falsely in just 1 % of cases becomes **at most "
            f"{short_up(100 * detected / (detected + FALSE_ALARMS))} %** after it; a rarer alarm may tell more.",
        )

    def doubt(self) -> float:
        """Return 1 - advantage; subclasses compute it without cancellation where the advantage is near 1."""
        return 1 - self.advantage()

    # ----------------------------------------------------------------- implications for every algorithm that has it

    def to_epsilon(self) -> float | None:
        """Return the smallest pure ε that every algorithm with this guarantee has; None if there is none."""
        return None

    @checked
    def to_epsilon_at(self, delta: Delta) -> float | None:
        """Return an ε for which every algorithm with this guarantee is (ε, delta)-DP; None if there is none."""
        return None

    def to_rho(self) -> float | None:
        """Return the smallest ρ of zCDP that every algorithm with this guarantee has; None if there is none."""
        return None

    def to_mu(self) -> float | None:
        """Return the smallest μ of Gaussian DP that follows from this guarantee; None if none is computed."""
        return None

    @checked
    def to_renyi(self, order: Order) -> float | None:
        """Return a bound on the Rényi divergence of this order, of every algorithm with this guarantee, or None."""
        return None

    def equivalent_readings(self, delta: float, order: float) -> frozenset[str]:
        """Return the names in `conversions.READINGS` from whose number, at this δ and order, `limit` follows."""
        return frozenset()

    def own_delta(self, delta: float) -> float:
        """Return the δ at which the ε of a run is computed: the budget's δ, or the given one if it has none."""
        return delta

    def own_order(self, order: float) -> float:
        """Return the order at which Rényi divergences are computed: the budget's, or the given one if it has none."""
        return order

    def limit_at(self, delta: float) -> float | None:
        """Return the ε that a run may spend at this δ, a line in charts; None if the budget does not say it."""
        return None


@lru_cache(64)
def _advantage(budget: Budget) -> float:
    """Return an upper bound of the advantage, the largest 1 - α - f(α), from values of the trade-off curve f on a grid.

    f falls, so between two grid points a < b it is at least f(b), and the advantage is at most that at b plus b - a.
    """
    alpha = np.concatenate([[0.0], np.geomspace(1e-9, 1e-3, 400), np.linspace(1e-3, 1.0, 4000)[1:]])
    advantages = 1 - alpha - budget.tradeoff(alpha)
    return float(np.clip((advantages[1:] + np.diff(alpha)).max(), 0.0, 1.0))


class NoPrivacy(Budget):
    """No guarantee, for a reference run without noise. The events of such a run cost infinity.

    >>> import dpviz
    >>> dpviz.Arm("reference", dpviz.Nesterov(), budget=dpviz.NoPrivacy()).reference
    True
    """

    kind: ClassVar[str] = "privacy.budgets.none"
    name: ClassVar[str] = "No privacy"
    private: ClassVar[bool] = False

    def describe(self) -> str:
        return self.symbol

    @property
    def limit(self) -> float:
        return math.inf

    @property
    def symbol(self) -> str:
        return self.name.lower()

    def cost(self, events: tuple[Event, ...]) -> float:
        return math.inf

    def remaining(self, prior: tuple[Event, ...]) -> float:
        return math.inf

    def gaussian_rho(self, amount: float) -> float:
        return math.inf

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        return math.inf

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        return np.zeros_like(np.asarray(false_positive_rates, dtype=float))

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        return np.full(np.shape(rate), math.inf)

    def advantage(self) -> float:
        return 1.0


B = TypeVar("B", bound=Budget)


def require(budget: Budget, kind: type[B]) -> B:
    """Return the budget itself, if it is stated in the currency `kind`; raises UserError otherwise."""
    if not isinstance(budget, kind):
        raise UserError(
            f"This method needs its budget as {kind.name}, but it was given as {budget.name}. Choose another currency.",
            title="This budget does not fit the method",
        )
    return budget
