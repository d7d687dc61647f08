"""The base class of budgets, with all that is known of a currency, and the budget that promises nothing."""

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
FALSE_ALARMS = 0.01  # that an attacker may raise, where the guarantee is put into words
_NOTHING_LEFT = 1e-9  # share of a budget; a smaller rest is a rounding error


class Budget(Displayed, Specification):
    """A privacy guarantee to be met by the whole run, under replace-one neighbours: one class per currency.

    All that is known of a currency is an attribute or a method here, so no caller asks for the class of a budget.
    An *amount* is counted in the unit in which releases add up: ε, ρ, μ², or a Rényi divergence of one order. (ε, δ)
    and attack bounds add up in none; their amounts are the ε at δ, and the true positive rate.

    name : of the currency. direction : a sentence on the way in which its numbers lead to more privacy.
    currency : the one in which costs add up and this guarantee is stated; None where it is stated in none.
    remark : a sentence on the way in which the costs of steps add up.
    private : False if nothing is promised. pure : True for pure ε, in which Laplace noise and selections cost their own
        parameter. adds_up : True if equal releases cost equal amounts.
    larger_is_more : its fields of which more means more privacy.
    allows_gaussian : True if Gaussian noise can meet it. amplifies_gaussian : True if random batches shrink its cost.
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
        numbers = ((control.symbol, control.name, getattr(self, control.name)) for control in self.controls())
        return ", ".join(
            f"{symbol} = {(short_down if name in self.larger_is_more else short_up)(value, 4)}"
            for symbol, name, value in numbers
        )

    @property
    def symbol(self) -> str:
        """Symbol of the number that `spent` is compared with: "ρ", "ε at δ = 10⁻⁶"."""
        return self.controls()[0].symbol

    # ---------------------------------------------------------------------------------------------- costs and amounts

    @property
    def limit(self) -> float:
        """The whole budget as the number that is stated, its first one: ε, ρ, μ, a divergence, a rate."""
        number: float = getattr(self, next(iter(type(self).model_fields)))
        return number

    @property
    def amount(self) -> float:
        """The whole budget as an amount."""
        return self.limit

    def stated(self, amount: float) -> float:
        """Return an amount as the number that is stated: only μ is the root of its amount."""
        return amount

    @classmethod
    def of(cls, amount: float) -> "Budget":
        """Return a budget of this amount, however small or large; raise TypeError where `currency` is None."""
        raise TypeError(f"{cls.name} is counted in none of ε, ρ and μ, so there is no amount {amount} of it")

    @abstractmethod
    def cost(self, events: tuple[Event, ...]) -> float:
        """Return the amount that events cost together; infinite where this currency has no number for them."""

    def rough_cost(self, events: tuple[Event, ...]) -> float:
        """Return about `cost`, sooner: for the search of the noise that a budget buys, which `cost` then confirms."""
        return self.cost(events)

    def spent(self, events: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        """Return the cost of releases together, as the number that is stated.

        prior : releases on whose outcome the choice of `events` depends.
        """
        return self.stated(self.cost((*prior, *events)))

    def spent_when_stopped(self, events: Sequence[Event], whole: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        """Return the cost of a plan that was stopped, or may be, by an observer of its releases so far.

        events : the releases so far, the first of `whole`, the plan. Costs that add up are charged one by one, against
        a total that was fixed beforehand. Of others, the whole plan counts.
        """
        return self.spent(events if self.adds_up else whole, prior)

    def left(self, prior: tuple[Event, ...]) -> float:
        """Return the amount that prior events leave. The run may depend on their outcome.

        Raises UserError if nothing is left.
        """
        total, used = self.amount, self._paid(prior)
        if not total - used > _NOTHING_LEFT * total:
            raise UserError(
                "What was released before the run has used up the whole budget. Raise the budget, or go back to "
                "constants that cost nothing.",
                title="Nothing is left for the run",
            )
        return total - used

    def _paid(self, prior: tuple[Event, ...]) -> float:
        return self.cost(prior)

    def additive(self, prior: tuple[Event, ...] = ()) -> "Budget":
        """Return the budget itself if it is ε, ρ or μ; else the largest ρ or μ that implies it.

        prior : releases before the run. Their pure ε comes off an (ε, δ) before the conversion, because the guarantee
            is read in this way (`accountants.tightest`); so the result less the ρ of `prior` remains for the run.
        """
        return self

    @checked
    def share(self, fraction: Annotated[float, Between(0, 1, ends=True)], prior: tuple[Event, ...] = ()) -> "Budget":
        """Return a budget of this fraction of what `prior` leaves, in a currency that adds up: of the ε, ρ, or μ²."""
        total = self.additive(prior)
        return total.of(total.left(prior) * fraction)

    # -------------------------------------------------------------------------------------------- releases it pays for

    @property
    def total_epsilon(self) -> float | None:
        """The sum of ε of pure releases that it pays for by basic composition; None where that is not allowed."""
        return None

    @property
    def total_rho(self) -> float | None:
        """The Σ ε²/2 of Laplace releases, or Σ η²/8 of selections, that it surely pays for; None under pure ε.

        Such a release has a ρ of at most ε²/2 (η²/8), and a μ² of at most π times as much: the slopes of
        -2 Φ⁻¹(e^(-ε/2)/2) and -2 Φ⁻¹(1/(1 + e^(η/2))) at 0 are √(π/2) and √(π/8).
        """
        return None

    @abstractmethod
    def gaussian_rho(self, amount: float) -> float:
        """Return the ρ = μ²/2 of Gaussian noise on all rows that costs this amount. Raise UserError if none does."""

    def about_rho(self, amount: float) -> float:
        """Return about the ρ that an amount pays for if releases are many and small; events are calibrated exactly."""
        return self.gaussian_rho(amount)

    def release(self, noise: Noise) -> Event:
        """Return the worst release of one kind that has exactly this guarantee; "any": of which only that is known.

        Raises TypeError where that cannot be told from the guarantee alone, ValueError for Gaussian noise in pure ε.
        """
        if self.currency is None:
            raise TypeError(f"{self.name} is counted in none of ε, ρ and μ")
        return release(noise, self.currency, self.amount)

    @abstractmethod
    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        """Return the amount that counts[i] selections of bounded range ranges[i] cost together.

        Raises UserError where that cannot be told.
        """

    # ---------------------------------------------------------------------------------------- what an attacker can do

    @abstractmethod
    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        """Return the smallest false negative rate left to an attacker at each false positive rate, for any algorithm.

        Exact worst case for pure ε, (ε, δ), μ and attack bounds; for ρ and Rényi divergences a lower bound.
        """

    @abstractmethod
    def least(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        """Return the smallest number that may be stated where an event has these probabilities on two neighbouring data
        sets: an audit that has seen them refutes all smaller ones. Other numbers of the budget stay as they are."""

    def advantage(self) -> float:
        """Return the largest TPR - FPR of any test between two neighbouring data sets: the worst δ(0)."""
        return _advantage(self)

    @checked
    def consequences(self, relation: Relation = "replace-one") -> tuple[str, ...]:
        """Return the chances of the best attacker, in sentences that mark numbers as **bold**; see `tradeoff`."""
        detected = 1 - float(self.tradeoff([FALSE_ALARMS])[0])
        exchanged = relation == "replace-one"
        question = "which of two rows was used" if exchanged else "whether the row was in the data"
        noticed = "a replaced row" if exchanged else "the row"
        return (
            f"An attacker who knows everybody else's row and must decide {question} is right in **at most "
            f"{short_up(50 * (1 + self.advantage()))} of 100** fair coin-toss cases. 50 is pure guessing.",
            f"If false alarms are allowed in 1 % of cases, the attacker notices {noticed} **at most "
            f"{short_up(100 * detected)} %** of the time.",
            f"A suspicion of 50 % before such an alarm becomes **at most "
            f"{short_up(100 * detected / (detected + FALSE_ALARMS))} %** after it.",
        )

    def doubt(self) -> float:
        """Return 1 - advantage, where possible without the rounding of advantages near 1."""
        return 1 - self.advantage()

    # ----------------------------------------------------------------- implications for every algorithm that has it

    def to_epsilon(self) -> float | None:
        """Return the pure ε of every algorithm that has the guarantee; None where nothing follows."""
        return None

    @checked
    def to_epsilon_at(self, delta: Delta) -> float | None:
        """Return ε at δ, a bound for every algorithm that has the guarantee; None where nothing follows."""
        return None

    def to_rho(self) -> float | None:
        """Return the ρ of zCDP of every algorithm that has the guarantee; None where nothing follows."""
        return None

    def to_mu(self) -> float | None:
        """Return the μ of Gaussian DP of every algorithm that has the guarantee; None where nothing follows."""
        return None

    @checked
    def to_renyi(self, order: Order) -> float | None:
        """Return the Rényi divergence of one order of every algorithm that has the guarantee; None if unbounded."""
        return None

    def tells(self, delta: float, order: float) -> frozenset[str]:
        """Return the keys of `conversions.READINGS` that, at this δ and order, say as much as the guarantee itself."""
        return frozenset()

    def own_delta(self, delta: float) -> float:
        """Return the δ at which a run with this budget is read: the budget's; the given one where it has none."""
        return delta

    def own_order(self, order: float) -> float:
        """Return the order at which a Rényi divergence is read: the budget's; the given one where it has none."""
        return order

    def limit_at(self, delta: float) -> float | None:
        """Return the ε that curves of ε at this δ must stay below; None where the budget is no such ε."""
        return None


@lru_cache(64)
def _advantage(budget: Budget) -> float:
    """Return the advantage from the trade-off curve f. It falls, so between two grid points a < b the advantage is at
    most that at b plus b - a."""
    alpha = np.concatenate([[0.0], np.geomspace(1e-9, 1e-3, 400), np.linspace(1e-3, 1.0, 4000)[1:]])
    heights = 1 - alpha - budget.tradeoff(alpha)
    return float(np.clip((heights[1:] + np.diff(alpha)).max(), 0.0, 1.0))


class NoPrivacy(Budget):
    """No guarantee: the reference run. Its events cost infinity and draw nothing."""

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

    def left(self, prior: tuple[Event, ...]) -> float:
        return math.inf

    def gaussian_rho(self, amount: float) -> float:
        return math.inf

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        return math.inf

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        return np.zeros_like(np.asarray(false_positive_rates, dtype=float))

    def least(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
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
