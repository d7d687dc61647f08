"""Budgets in currencies whose costs add up over releases: ε, ρ, μ (as squares), and Rényi divergences of one order.

`Budget` documents the methods. In short: an amount is a cost in the unit that adds up; `gaussian_rho` is the ρ of the
Gaussian noise that costs an amount, `about_rho` an estimate for other noise;
`total_epsilon` and `total_rho` are a Σ ε and a Σ ε²/2 of Laplace releases that surely meet the budget; `tradeoff` is
f(α) of the best test, `smallest_limit` the smallest limit that allows an event's probabilities on neighbouring data,
`doubt` 1 - advantage without cancellation; `to_…` is what every algorithm with the guarantee has in another currency,
`equivalent_readings` the names of those of these numbers from which `limit` follows, `limit_at` the ε that a run may
spend at δ; `per_row` is the budget that, met for one row, meets this one for all k rows of a person.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from dpviz.arguments import Delta, checked
from dpviz.errors import UserError
from dpviz.later import lazy_functions
from dpviz.privacy import audit
from dpviz.privacy.accounting import accountants, closed_forms, per_event, rdp_tradeoffs
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.budgets.base import Budget, Order
from dpviz.privacy.events import Event, distinct_objects
from dpviz.specification import number

(ndtr,) = lazy_functions("scipy.special", "ndtr")


def budget_field(default: float, low: float, high: float, symbol: str, largest: float) -> Any:
    """Declare the field of a budget that says how much privacy it gives, with a slider from `low` to `high`. Numbers
    above `largest` are refused: nothing is private with them, and their exponentials overflow."""
    help = "Smaller = more privacy, more noise."
    limits = (1e-9, largest)
    return number(default, low, high, label="Privacy budget", symbol=symbol, scale="log", help=help, limits=limits)


class AdditiveBudget(Budget):
    """A budget in ε, ρ or μ, with one field of the currency's name; an amount is an ε, ρ or μ² (`currencies.UNITS`)."""

    currency: ClassVar[Currency]

    @property
    def amount(self) -> float:
        return self.limit ** UNITS[self.currency].power

    def in_unit_of_limit(self, amount: float) -> float:
        return UNITS[self.currency].root(amount)

    @classmethod
    def of_amount(cls, amount: float) -> Self:
        fields: dict[str, Any] = {cls.currency: UNITS[cls.currency].root(amount)}
        return cast(Self, cls.model_construct(**fields))  # without pydantic's check of the field's range

    def per_row(self, rows_per_person: int) -> Self:
        return self.of_amount(self.amount / rows_per_person ** (1 if self.pure else 2))  # k rows have k ε, k² ρ, (k μ)²

    # The base class computes `spent` from `cost`; here it is the reverse, as accountants return ε, ρ or μ.
    def cost(self, events: tuple[Event, ...]) -> float:
        return self.spent(events) ** UNITS[self.currency].power

    def spent(self, events: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        return accountants.total((*prior, *events), self.currency)


class PureDP(AdditiveBudget):
    """Pure ε-differential privacy (Dwork, McSherry, Nissim, Smith 2006).

    >>> import dpviz
    >>> dpviz.PureDP(epsilon=2).to_rho()
    1.5231883119115297
    """

    kind: ClassVar[str] = "privacy.budgets.pure"
    name: ClassVar[str] = "Pure ε"
    direction: ClassVar[str] = "Smaller ε = more privacy, more noise."
    currency: ClassVar[Currency] = "epsilon"
    remark: ClassVar[str] = "Costs of the steps add up (basic composition)."
    pure: ClassVar[bool] = True
    allows_gaussian: ClassVar[bool] = False
    epsilon: float = budget_field(2.0, 0.01, 50.0, "ε", 500.0)

    @property
    def total_epsilon(self) -> float:
        return self.epsilon

    def gaussian_rho(self, amount: float) -> float:
        raise UserError(
            "Gaussian noise never gives pure ε-DP. State the budget as (ε, δ), ρ or μ, or choose another noise.",
            title="This budget does not exist for Gaussian noise",
        )

    def about_rho(self, amount: float) -> float:
        return amount**2 / 8  # the ρ of a single selection with η = ε; many of the same total ε have a smaller ρ

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        return float(counts @ ranges)

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        return closed_forms.pure_tradeoff(self.epsilon, false_positive_rates)

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        return audit.least_epsilon(rate, false_rate)

    def advantage(self) -> float:
        return float(closed_forms.pure_delta(self.epsilon, 0.0))

    def doubt(self) -> float:
        return 2 / (1 + math.exp(self.epsilon))  # the advantage is tanh(ε/2)

    def to_epsilon(self) -> float:
        return self.epsilon

    @checked
    def to_epsilon_at(self, delta: Delta) -> float:
        return closed_forms.pure_epsilon(self.epsilon, delta)

    def to_rho(self) -> float:
        return closed_forms.pure_to_rho(self.epsilon)

    def to_mu(self) -> float:
        return closed_forms.pure_to_mu(self.epsilon)

    @checked
    def to_renyi(self, order: Order) -> float:
        return closed_forms.pure_rdp(self.epsilon, np.array([order])).item()

    def equivalent_readings(self, delta: float, order: float) -> frozenset[str]:
        return frozenset({"epsilon"})

    def limit_at(self, delta: float) -> float:
        return self.epsilon


class ZeroConcentratedDP(AdditiveBudget):
    """ρ-zero-concentrated differential privacy (Bun and Steinke 2016).

    >>> import dpviz
    >>> round(dpviz.ZeroConcentratedDP(rho=0.5).to_epsilon_at(1e-6), 3)
    5.222
    """

    kind: ClassVar[str] = "privacy.budgets.zero_concentrated"
    name: ClassVar[str] = "ρ-zCDP"
    direction: ClassVar[str] = "Smaller ρ = more privacy, more noise."
    currency: ClassVar[Currency] = "rho"
    remark: ClassVar[str] = "Costs of the steps add up (zCDP)."
    rho: float = budget_field(0.1, 1e-5, 100.0, "ρ", 500.0)

    @property
    def total_rho(self) -> float:
        return self.rho

    def gaussian_rho(self, amount: float) -> float:
        return amount

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        return float(counts @ closed_forms.exponential_rho(ranges))

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        return rdp_tradeoffs.zcdp_tradeoff(self.rho, false_positive_rates)

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        return audit.least_rho(rate, false_rate)

    def advantage(self) -> float:
        return rdp_tradeoffs.zcdp_advantage(self.rho)

    def doubt(self) -> float:
        # 1 - tanh(ε/2) with ρ = ε tanh(ε/2); if ρ is large, ε is nearly ρ, and the result nearly 2 e^-ρ.
        return 2 * math.exp(-self.rho) if self.rho > 10 else 1 - self.advantage()

    @checked
    def to_epsilon_at(self, delta: Delta) -> float:
        return closed_forms.zcdp_epsilon(self.rho, delta)

    def to_rho(self) -> float:
        return self.rho

    @checked
    def to_renyi(self, order: Order) -> float:
        return order * self.rho

    def equivalent_readings(self, delta: float, order: float) -> frozenset[str]:
        return frozenset({"rho", "renyi"})  # the bound on divergences is ρ times the order, so one order gives ρ


class GaussianDP(AdditiveBudget):
    """μ-Gaussian differential privacy (Dong, Roth, Su 2019).

    >>> import dpviz
    >>> dpviz.GaussianDP(mu=1).to_rho()
    0.5
    """

    kind: ClassVar[str] = "privacy.budgets.gaussian"
    name: ClassVar[str] = "μ-GDP"
    direction: ClassVar[str] = "Smaller μ = more privacy, more noise."
    currency: ClassVar[Currency] = "mu"
    remark: ClassVar[str] = "The squares of the costs add up (Gaussian DP)."
    mu: float = budget_field(0.5, 0.01, 20.0, "μ", 50.0)

    @property
    def total_rho(self) -> float:
        return self.mu**2 / math.pi  # Laplace noise of ε has a μ² of at most π ε²/2

    def gaussian_rho(self, amount: float) -> float:
        return amount / 2  # the amount is μ²

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        mu_each = np.array([closed_forms.exponential_mu(value) for value in ranges.tolist()])
        return float(counts @ mu_each**2)

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        return closed_forms.gdp_tradeoff(self.mu, false_positive_rates)

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        return audit.least_mu(rate, false_rate)

    def advantage(self) -> float:
        return float(closed_forms.gdp_delta(self.mu, 0.0))

    def doubt(self) -> float:
        return 2 * float(ndtr(-self.mu / 2))  # the advantage is Φ(μ/2) - Φ(-μ/2)

    @checked
    def to_epsilon_at(self, delta: Delta) -> float:
        return closed_forms.gdp_epsilon(self.mu, delta)

    def to_rho(self) -> float:
        return self.mu**2 / 2

    def to_mu(self) -> float:
        return self.mu

    @checked
    def to_renyi(self, order: Order) -> float:
        return order * self.mu**2 / 2

    def equivalent_readings(self, delta: float, order: float) -> frozenset[str]:
        return frozenset({"mu", "epsilon_at_delta"})  # one point of the curve δ(ε) of Gaussian noise gives μ


class RenyiDP(Budget):
    """(α, ε)-Rényi differential privacy (Mironov 2017): the Rényi divergence of one order is at most ε.

    >>> import dpviz
    >>> round(dpviz.RenyiDP(epsilon=1, order=8).to_epsilon_at(1e-6), 3)
    2.543
    """

    kind: ClassVar[str] = "privacy.budgets.renyi"
    name: ClassVar[str] = "Rényi (α, ε)"
    direction: ClassVar[str] = "Smaller ε or larger α = more privacy, more noise."
    amplifies_gaussian: ClassVar[bool] = True
    larger_is_more: ClassVar[tuple[str, ...]] = ("order",)
    epsilon: float = budget_field(1.0, 1e-4, 100.0, "ε", 500.0)
    order: float = number(
        8.0,
        1.01,
        1000.0,
        label="Order",
        symbol="α",
        scale="log",
        help="Larger = more privacy, more noise: larger orders come closer to pure ε.",
        limits=(1.0001, 1e6),
    )

    def cost(self, events: tuple[Event, ...]) -> float:
        """Return the sum of the events' divergences; they add up even if the events are chosen adaptively."""
        orders = np.array([self.order])
        times = Counter(map(id, events))  # by object, as a plan of equal steps repeats one
        return math.fsum(times[id(event)] * per_event.rdp(event, orders).item() for event in distinct_objects(events))

    def additive(self, prior: tuple[Event, ...] = ()) -> ZeroConcentratedDP:
        return ZeroConcentratedDP.of_amount(self.epsilon / self.order)  # ρ-zCDP has a divergence of at most α ρ

    def gaussian_rho(self, amount: float) -> float:
        return amount / self.order  # the divergence of Gaussian noise is α ρ

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        return float(counts @ closed_forms.exponential_rdp(ranges, np.full(len(ranges), self.order)))

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        return rdp_tradeoffs.rdp_tradeoff([self.epsilon], [self.order], false_positive_rates)

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        return audit.least_renyi(rate, false_rate, self.order)

    @checked
    def to_epsilon_at(self, delta: Delta) -> float:
        a = self.order  # the conversion is that of `closed_forms.rdp_epsilon` at this order
        return max(0.0, self.epsilon + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1))

    @checked
    def to_renyi(self, order: Order) -> float | None:
        # Divergences grow with the order, so one of a larger order bounds those of smaller ones.
        return self.epsilon if order <= self.order else None

    def equivalent_readings(self, delta: float, order: float) -> frozenset[str]:
        return frozenset({"renyi"} if order == self.order else ())

    def own_order(self, order: float) -> float:
        return self.order
