"""What every currency knows about itself, and the budget that is none."""

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
_NOTHING_LEFT = 1e-9  # of a budget: the rest would be a rounding error


class Budget(Displayed, Specification):
    """A privacy guarantee to be met by the whole run, under replace-one neighbours: one class per currency.

    All that is known of a currency is an attribute or a method here, so nobody has to ask of which class a budget is.
    An *amount* is counted in the unit in which releases add up: ε, ρ, μ², or a Rényi divergence of one order. (ε, δ)
    and attack bounds add up in none; their amounts are the ε at δ, and the true positive rate.

    name : what the currency is called. direction : in a sentence, which way its numbers lead to more privacy.
    currency : the one in which costs add up and this guarantee is stated; None where it is stated in none.
    remark : in a sentence, how the costs of steps add up.
    private : whether anything is promised. pure : whether it is pure ε, in which Laplace noise and selections cost
        their own parameter. adds_up : whether equal releases cost equal amounts.
    larger_is_more : its fields of which more means more privacy.
    allows_gaussian : whether Gaussian noise can meet it. amplifies_gaussian : whether random batches shrink its cost.
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
        """The guarantee in symbols, for instance "ε = 1, δ = 10⁻⁶"."""
        numbers = ((control.symbol, control.name, getattr(self, control.name)) for control in self.controls())
        return ", ".join(
            f"{symbol} = {(short_down if name in self.larger_is_more else short_up)(value, 4)}"
            for symbol, name, value in numbers
        )

    @property
    def symbol(self) -> str:
        """Of the number that `spent` is compared with: "ρ", "ε at δ = 10⁻⁶"."""
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
        """An amount as the number that is stated: only μ is the root of its amount."""
        return amount

    @classmethod
    def of(cls, amount: float) -> "Budget":
        """A budget of so much, however small or large; raises TypeError where `currency` is None."""
        raise TypeError(f"{cls.name} is counted in none of ε, ρ and μ, so there is no amount {amount} of it")

    @abstractmethod
    def cost(self, events: tuple[Event, ...]) -> float:
        """The amount that events cost together; infinite where this currency has no number for them."""

    def rough_cost(self, events: tuple[Event, ...]) -> float:
        """About `cost`, and sooner: to look for the noise that a budget buys, which `cost` then confirms."""
        return self.cost(events)

    def spent(self, events: Sequence[Event], before: Sequence[Event] = ()) -> float:
        """What releases cost together, as the number that is stated.

        before : releases on whose outcome the choice of `events` depends.
        """
        return self.stated(self.cost((*before, *events)))

    def spent_when_stopped(
        self, events: Sequence[Event], whole: Sequence[Event], before: Sequence[Event] = ()
    ) -> float:
        """What a plan has cost that was stopped, or may be, by whoever has seen its releases so far.

        events : what was released, the first of `whole`, the plan. Costs that add up are charged one by one, against a
        total that was fixed beforehand. Of others, the whole plan counts.
        """
        return self.spent(events if self.adds_up else whole, before)

    def left(self, prior: tuple[Event, ...]) -> float:
        """The amount that prior events leave. The run may depend on what they released.

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
        """The budget itself if it is ε, ρ or μ; else the largest ρ or μ that implies it.

        prior : what was released before the run. Its pure ε comes off an (ε, δ) before the conversion, because that is
            how the guarantee is read (`accountants.tightest`); so the result less the ρ of `prior` is what is left.
        """
        return self

    @checked
    def share(self, fraction: Annotated[float, Between(0, 1, ends=True)], prior: tuple[Event, ...] = ()) -> "Budget":
        """So much of what `prior` leaves, in a currency that adds up: of the ε, the ρ, or the μ²."""
        total = self.additive(prior)
        return total.of(total.left(prior) * fraction)

    # ----------------------------------------------------------------------------------------------- what it pays for

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
        """The ρ = μ²/2 of Gaussian noise on all rows that costs this amount. Raises UserError where there is none."""

    def about_rho(self, amount: float) -> float:
        """About the ρ that an amount pays for, where releases are many and small; events are calibrated exactly."""
        return self.gaussian_rho(amount)

    def release(self, noise: Noise) -> Event:
        """The worst release of one kind that has exactly this guarantee; "any": of which only that is known.

        Raises TypeError where that cannot be told from the guarantee alone, ValueError for Gaussian noise in pure ε.
        """
        if self.currency is None:
            raise TypeError(f"{self.name} is counted in none of ε, ρ and μ")
        return release(noise, self.currency, self.amount)

    @abstractmethod
    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        """The amount that counts[i] selections of bounded range ranges[i] cost together.

        Raises UserError where that cannot be told.
        """

    # ------------------------------------------------------------------------------------- what it says to an attacker

    @abstractmethod
    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        """Smallest false negative rate that it leaves an attacker at each false positive rate, for any algorithm.

        Exact worst case for pure ε, (ε, δ), μ and attack bounds; for ρ and Rényi divergences a lower bound.
        """

    @abstractmethod
    def least(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        """The smallest number that may be stated where an event has these probabilities on two neighbouring data sets:
        what an audit that has seen them refutes all smaller ones with. Other numbers of the budget stay as they are."""

    def advantage(self) -> float:
        """The largest TPR - FPR that it leaves any test between two neighbouring data sets: the worst δ(0)."""
        return _advantage(self)

    @checked
    def consequences(self, relation: Relation = "replace-one") -> tuple[str, ...]:
        """What it leaves the best attacker, in sentences that mark numbers as **bold**; see `tradeoff`."""
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
        """1 - advantage, where possible without the rounding of advantages near 1."""
        return 1 - self.advantage()

    # --------------------------------------------------------------- what it implies, for every algorithm that has it

    def to_epsilon(self) -> float | None:
        """Pure ε; None where nothing follows."""
        return None

    @checked
    def to_epsilon_at(self, delta: Delta) -> float | None:
        """ε at δ, a bound for every algorithm that has the guarantee; None where nothing follows."""
        return None

    def to_rho(self) -> float | None:
        """ρ of zCDP; None where nothing follows."""
        return None

    def to_mu(self) -> float | None:
        """μ of Gaussian DP; None where nothing follows."""
        return None

    @checked
    def to_renyi(self, order: Order) -> float | None:
        """Rényi divergence of one order; None where it may be infinite."""
        return None

    def tells(self, delta: float, order: float) -> frozenset[str]:
        """The readings of `conversions.READINGS`, at this δ and order, that say as much as the guarantee itself."""
        return frozenset()

    def own_delta(self, delta: float) -> float:
        """The δ at which a run with this budget is read: its own; the given one where it has none."""
        return delta

    def own_order(self, order: float) -> float:
        """The order of a Rényi divergence at which it is read: its own; the given one where it has none."""
        return order

    def limit_at(self, delta: float) -> float | None:
        """The ε that curves of ε at this δ must stay below; None where the budget is no such ε."""
        return None


@lru_cache(64)
def _advantage(budget: Budget) -> float:
    """From the trade-off curve f. It falls, so between two grid points a < b the advantage is at most that at b plus
    b - a."""
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
    """The budget itself, if it is stated in the currency `kind`; raises UserError otherwise."""
    if not isinstance(budget, kind):
        raise UserError(
            f"This method needs its budget as {kind.name}, but it was given as {budget.name}. Choose another currency.",
            title="This budget does not fit the method",
        )
    return budget
