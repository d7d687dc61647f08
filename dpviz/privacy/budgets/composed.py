"""Budgets whose costs do not add up over releases: (ε, δ), and a point of the trade-off curve.

The cost of several releases is computed for all of them together. `Budget` documents the methods. In short: an amount
is an ε at the budget's δ, or the true positive rate at its false positive rate; `spent_when_stopped` is what the first
releases of a plan cost if the decision to stop depends on them, `_prior_cost` the amount that releases before a run
use up; `additive` is a budget in ρ or μ that implies this one; `gaussian_rho` is the ρ of the Gaussian noise that costs
an amount; `total_epsilon` and `total_rho` are a Σ ε and a Σ ε²/2 of Laplace releases that surely meet the budget;
`tradeoff` is f(α) of the best test, `smallest_limit` the smallest limit that allows an event's probabilities on
neighbouring data, `doubt` 1 - advantage without cancellation; `equivalent_readings` names the numbers in other
currencies from which `limit` follows, `own_delta` is the δ at which a run's ε is computed, `limit_at` the ε that it may
spend at δ.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from dpviz.arguments import Delta, checked
from dpviz.errors import UserError
from dpviz.later import lazy_functions
from dpviz.numbers import short_up
from dpviz.privacy import audit, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.currencies import Noise
from dpviz.privacy.budgets.additive import GaussianDP, ZeroConcentratedDP, budget_field
from dpviz.privacy.budgets.base import Budget
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, StatedApproximateDP
from dpviz.specification import number

_SMALLEST_DELTA = 1e-100  # of one row, to plan with
(brentq,) = lazy_functions("scipy.optimize", "brentq")
(ndtri,) = lazy_functions("scipy.special", "ndtri")


class ApproximateDP(Budget):
    """Approximate (ε, δ)-differential privacy.

    >>> import dpviz
    >>> dpviz.ApproximateDP(epsilon=1, delta=1e-6).describe()
    'ε = 1, δ = 10⁻⁶'
    """

    kind: ClassVar[str] = "privacy.budgets.approximate"
    name: ClassVar[str] = "(ε, δ)"
    direction: ClassVar[str] = "Smaller ε or δ = more privacy, more noise."
    adds_up: ClassVar[bool] = False
    amplifies_gaussian: ClassVar[bool] = True
    epsilon: float = budget_field(2.0, 0.01, 50.0, "ε", 500.0)
    delta: float = number(
        1e-6,
        1e-10,
        1e-3,
        label="Excess",
        symbol="δ",
        scale="log",
        help="Keep it far below 1/n. Smaller = more privacy, more noise.",
        limits=(1e-100, 0.999),
    )

    @property
    def symbol(self) -> str:
        return f"ε at δ = {short_up(self.delta, 4)}"

    def cost(self, events: tuple[Event, ...]) -> float:
        """Return ε at the budget's δ: the exact one of Gaussian noise, otherwise the smallest one of basic composition,
        of loss distributions, of Rényi divergences if these do not apply or there are disjoint sets, and of Gaussian DP
        for these."""
        if all(isinstance(event, Gaussian) for event in events):
            return accountants.epsilon(events, self.delta, "gdp")
        by_losses = accountants.pld_epsilon(events, self.delta)
        bounds = [accountants.total(events, "epsilon"), by_losses]
        # Of several releases on one of disjoint sets, the loss distribution is that of a release which is far worse.
        if by_losses == math.inf or any(isinstance(event, Parallel) for event in events):
            bounds.append(accountants.epsilon(events, self.delta, "rdp"))
        if {type(event) for event in events} <= {Gaussian, Parallel}:
            bounds.append(accountants.epsilon(events, self.delta, "gdp"))  # exact for Gaussian noise on disjoint sets
        return min(bounds)

    def rough_cost(self, events: tuple[Event, ...]) -> float:
        """Return the smaller ε of basic composition and of rough loss distributions, both of which are upper bounds;
        `cost` if there are none."""
        by_losses = accountants.rough_pld_epsilon(events, self.delta)
        return min(by_losses, accountants.total(events, "epsilon")) if by_losses < math.inf else self.cost(events)

    def spent(self, events: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        return accountants.tightest(events, self.delta, prior).epsilon

    def spent_when_stopped(self, events: Sequence[Event], whole: Sequence[Event], prior: Sequence[Event] = ()) -> float:
        return accountants.when_stopped(events, whole, self.delta, prior).epsilon

    def _prior_cost(self, prior: tuple[Event, ...]) -> float:
        # Basic composition is the one method that allows a run to depend on the outcome of `prior`.
        return accountants.total(prior, "epsilon")

    def additive(self, prior: tuple[Event, ...] = ()) -> ZeroConcentratedDP:
        remaining = closed_forms.zcdp_rho(self.remaining(prior), self.delta)
        return ZeroConcentratedDP.of_amount(remaining + accountants.total(prior, "rho"))

    def per_row(self, rows_per_person: int) -> "ApproximateDP":
        """Return (ε/k, δ (e^(ε/k) - 1)/(e^ε - 1)). Raises UserError if this δ is too small to plan with."""
        if rows_per_person == 1:
            return self
        epsilon = self.epsilon / rows_per_person
        ratio = math.expm1(-epsilon) / math.expm1(-self.epsilon)  # e^x - 1 is e^x (1 - e^-x)
        delta = self.delta * math.exp(epsilon - self.epsilon) * ratio
        if delta < _SMALLEST_DELTA:
            raise UserError(
                f"Of one row it would have to be {short_up(delta)}. Lower ε, keep fewer rows of a person, or state the "
                "guarantee in ρ or μ.",
                title="The δ of a person is too small for so many rows",
            )
        return ApproximateDP.model_construct(epsilon=epsilon, delta=delta)

    @property
    def total_epsilon(self) -> float:
        return self.epsilon

    @property
    def total_rho(self) -> float:
        return self.about_rho(self.epsilon)  # Laplace noise of ε has a ρ of at most ε²/2

    def gaussian_rho(self, amount: float) -> float:
        return closed_forms.gdp_mu(amount, self.delta) ** 2 / 2

    def about_rho(self, amount: float) -> float:
        return closed_forms.zcdp_rho(amount, self.delta)

    def release(self, noise: Noise) -> Event:
        """Return the single release with this kind of noise that uses up the budget."""
        if noise == "any":
            return StatedApproximateDP(self.epsilon, self.delta)
        if noise == "laplace":
            return Laplace(self.epsilon - 2 * math.log1p(-self.delta))  # solves δ = 1 - e^((ε - ε₀)/2) for ε₀
        if noise == "gaussian":
            return Gaussian(closed_forms.gdp_mu(self.epsilon, self.delta))

        # A selection: the range η at which its δ, at the budget's ε, is the budget's δ.
        def excess(eta: float) -> float:
            return float(closed_forms.exponential_delta(eta, self.epsilon)) - self.delta

        high = self.epsilon  # where η = ε, δ is 0; it grows with η
        while excess(high) <= 0:
            high += 0.1
        return ExpMech(brentq(excess, self.epsilon, high))

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        """Return the smallest ε of basic composition, zCDP and Rényi divergences."""
        # Every order α gives a valid ε (`closed_forms.rdp_epsilon`). The best one is near that of zCDP, for which
        # (α-1)² ρ = ln(1/δ) roughly, so the orders tried have α - 1 within a factor of 3 of that.
        rho = float(counts @ closed_forms.exponential_rho(ranges))
        zcdp_order_less_1 = math.sqrt(math.log(1 / self.delta) / max(rho, 1e-12))
        orders = 1 + zcdp_order_less_1 * np.geomspace(0.3, 3.0, 24)
        # Accountants try no orders beyond these, and would count a larger ε than was planned.
        orders = np.clip(orders, closed_forms.ORDERS[0], closed_forms.ORDERS[-1])
        representatives, weights = closed_forms.few_ranges(ranges, counts)
        divergence = weights @ closed_forms.exponential_rdp(representatives[:, None], orders)
        log_delta = math.log(self.delta)
        epsilons = divergence + np.log1p(-1 / orders) - (log_delta + np.log(orders)) / (orders - 1)
        by_divergences = min(closed_forms.zcdp_epsilon(rho, self.delta), max(float(epsilons.min()), 0.0))
        return min(float(counts @ ranges), by_divergences)

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        """Return the smallest ε, at this δ, under which an outcome can have these probabilities on D and on D'."""
        return audit.least_epsilon(rate, false_rate, self.delta)

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        """Return max(0, 1 - δ - e^ε α, e^-ε (1 - δ - α))."""
        alpha = np.asarray(false_positive_rates, dtype=float)
        steep_line = 1 - self.delta - math.exp(self.epsilon) * alpha
        flat_line = math.exp(-self.epsilon) * (1 - self.delta - alpha)
        return np.maximum(0.0, np.maximum(steep_line, flat_line))

    def advantage(self) -> float:  # at worst all is revealed with probability δ, and the rest is ε-DP
        return self.delta + (1 - self.delta) * float(closed_forms.pure_delta(self.epsilon, 0.0))

    def doubt(self) -> float:
        return (1 - self.delta) * 2 / (1 + math.exp(self.epsilon))  # 2/(1 + e^ε) for pure ε

    @checked
    def to_epsilon_at(self, delta: Delta) -> float | None:
        """Return the smallest ε for which every algorithm with this guarantee is (ε, delta)-DP; None if there is none.

        The worst algorithm reveals everything with probability `self.delta`, and is `self.epsilon`-DP otherwise
        (Kairouz, Oh, Viswanath 2015).
        """
        if delta < self.delta:
            return None
        return closed_forms.pure_epsilon(self.epsilon, (delta - self.delta) / (1 - self.delta))

    def equivalent_readings(self, delta: float, order: float) -> frozenset[str]:
        return frozenset({"epsilon_at_delta"} if delta == self.delta else ())

    def own_delta(self, delta: float) -> float:
        return self.delta

    def limit_at(self, delta: float) -> float | None:
        return self.epsilon if delta == self.delta else None


class TradeOff(Budget):
    """One point of the trade-off function (f-DP; Dong, Roth, Su 2019): no test whose false positive rate is at most
    `false_positive_rate` has a true positive rate above `true_positive_rate`, between any two neighbouring data sets.

    >>> import dpviz
    >>> dpviz.TradeOff(true_positive_rate=0.05, false_positive_rate=0.01).describe()
    'TPR = 0.05, FPR = 0.01'
    """

    kind: ClassVar[str] = "privacy.budgets.trade_off"
    name: ClassVar[str] = "Attack bound"
    direction: ClassVar[str] = "Smaller TPR or larger FPR = more privacy, more noise."
    adds_up: ClassVar[bool] = False
    amplifies_gaussian: ClassVar[bool] = True
    larger_is_more: ClassVar[tuple[str, ...]] = ("false_positive_rate",)
    true_positive_rate: float = number(
        0.05,
        0.0002,
        0.999,
        label="Detection",
        symbol="TPR",
        scale="log",
        help="The largest rate at which any attacker may notice a row, at these false alarms. Smaller = more privacy, "
        "more noise.",
    )
    false_positive_rate: float = number(
        0.01,
        0.0001,
        0.5,
        label="False alarms",
        symbol="FPR",
        scale="log",
        help="The rate of false alarms that the attacker accepts; guessing alone detects as often. Larger, at the "
        "same detection = more privacy, more noise.",
    )

    @model_validator(mode="after")
    def _above_guessing(self) -> "TradeOff":
        if self.true_positive_rate <= self.false_positive_rate:
            raise ValueError("the detection rate must be larger than the rate of false alarms, which guessing reaches")
        return self

    @property
    def gaussian_mu(self) -> float:
        """The μ of the Gaussian mechanism whose trade-off curve goes through the point: Φ⁻¹(TPR) - Φ⁻¹(FPR)."""
        return float(ndtri(self.true_positive_rate) - ndtri(self.false_positive_rate))

    def cost(self, events: tuple[Event, ...]) -> float:
        return 1 - float(tradeoffs.tradeoff(events, self.false_positive_rate))

    def rough_cost(self, events: tuple[Event, ...]) -> float:
        return 1 - float(tradeoffs.tradeoff(events, self.false_positive_rate, pld.ROUGH_CELLS))

    def _prior_cost(self, prior: tuple[Event, ...]) -> float:
        return math.inf if prior else 0.0  # rates do not add up, so no release may come before the run

    def additive(self, prior: tuple[Event, ...] = ()) -> GaussianDP:
        return GaussianDP.model_construct(mu=self.gaussian_mu)

    def gaussian_rho(self, amount: float) -> float:
        return float(ndtri(amount) - ndtri(self.false_positive_rate)) ** 2 / 2

    def selection_cost(self, ranges: Floats, counts: Floats) -> float:
        raise UserError(
            "Selections cannot be planned for an attack bound here. State the guarantee in another currency.",
            title="Not available in this currency",
        )

    def smallest_limit(self, rate: ArrayLike, false_rate: ArrayLike) -> Floats:
        return audit.least_detection(rate, false_rate, self.false_positive_rate)

    def tradeoff(self, false_positive_rates: ArrayLike) -> Floats:
        """Return the lowest trade-off curve f with f(α₀) ≥ β₀, α₀ the budget's false positive rate and β₀ = 1 - its
        true positive rate.

        A trade-off curve is convex, f(0) ≤ 1 and f(1) = 0. So left of α₀ it is above the extended line from (1, 0)
        through (α₀, β₀), and right of α₀ above the extended line from (0, 1) through that point. As both data sets play
        the same role, the same holds for the point (β₀, α₀).
        """
        alpha = np.asarray(false_positive_rates, dtype=float)
        rate, missed = self.false_positive_rate, 1 - self.true_positive_rate

        def lines_through(a: float, b: float) -> Floats:
            """Return the lower bound that follows from a point (a, b) of the curve."""
            return np.maximum(0.0, np.where(alpha <= a, b * (1 - alpha) / (1 - a), 1 - alpha * (1 - b) / a))

        return np.maximum(lines_through(rate, missed), lines_through(missed, rate))

    @checked
    def to_epsilon_at(self, delta: Delta) -> float | None:
        """Return the smallest ε ≥ 0 with 1 - delta - e^ε α ≤ f(α) at all α > 0, f the curve of `tradeoff`; None if f(0)
        is below 1 - delta."""
        if float(self.tradeoff(0.0)) < 1 - delta:
            return None
        rate, missed = self.false_positive_rate, 1 - self.true_positive_rate
        points = [(rate, missed), (missed, rate)]
        # f consists of straight lines, height - slope α, so (1 - delta - f(α))/α is largest where two of them meet.
        lines = [(0.0, 0.0)]  # (height, slope)
        for a, b in points:
            lines += [(b / (1 - a), b / (1 - a)), (1.0, (1 - b) / a)]  # from (a, b) through (1, 0), and through (0, 1)
        meetings = [(h - g) / (s - t) for (h, s), (g, t) in combinations(lines, 2) if s != t]
        alpha = np.array([1.0, *(a for a, _ in points), *(a for a in meetings if 0 < a < 1)])
        return math.log(max(1.0, float(((1 - delta - self.tradeoff(alpha)) / alpha).max())))
