"""Budgets: the privacy guarantee that is asked for, in the currency in which it is asked."""

from typing import ClassVar, TypeVar

from pydantic import model_validator
from scipy.special import ndtri

from dpviz.errors import UserError
from dpviz.numbers import short
from dpviz.specification import Specification, number


class Budget(Specification):
    """A privacy guarantee to be met by the whole run, under replace-one neighbours.

    direction : in a sentence, which way its numbers lead to more privacy.
    """

    name: ClassVar[str] = ""
    direction: ClassVar[str] = ""

    def describe(self) -> str:
        """The guarantee in symbols, for instance "ε = 1, δ = 10⁻⁶"."""
        return ", ".join(f"{control.symbol} = {short(getattr(self, control.name), 4)}" for control in self.controls())


class PureDP(Budget):
    """Pure ε-differential privacy (Dwork, McSherry, Nissim, Smith 2006)."""

    kind: ClassVar[str] = "privacy.budgets.pure"
    name: ClassVar[str] = "Pure ε"
    direction: ClassVar[str] = "Smaller ε = more privacy, more noise."
    epsilon: float = number(
        2.0, 0.01, 50.0, label="Privacy budget", symbol="ε", scale="log", help="Smaller = more privacy, more noise."
    )


class ApproximateDP(Budget):
    """Approximate (ε, δ)-differential privacy."""

    kind: ClassVar[str] = "privacy.budgets.approximate"
    name: ClassVar[str] = "(ε, δ)"
    direction: ClassVar[str] = "Smaller ε or δ = more privacy, more noise."
    epsilon: float = number(
        2.0, 0.01, 50.0, label="Privacy budget", symbol="ε", scale="log", help="Smaller = more privacy, more noise."
    )
    delta: float = number(
        1e-6,
        1e-10,
        1e-3,
        label="Excess",
        symbol="δ",
        scale="log",
        help="ε may be exceeded with total excess probability δ. Keep it far below 1/n. Smaller = more privacy, more "
        "noise.",
    )


class ZeroConcentratedDP(Budget):
    """ρ-zero-concentrated differential privacy (Bun and Steinke 2016)."""

    kind: ClassVar[str] = "privacy.budgets.zero_concentrated"
    name: ClassVar[str] = "ρ-zCDP"
    direction: ClassVar[str] = "Smaller ρ = more privacy, more noise."
    rho: float = number(
        0.1, 1e-5, 100.0, label="Privacy budget", symbol="ρ", scale="log", help="Smaller = more privacy, more noise."
    )


class GaussianDP(Budget):
    """μ-Gaussian differential privacy (Dong, Roth, Su 2019)."""

    kind: ClassVar[str] = "privacy.budgets.gaussian"
    name: ClassVar[str] = "μ-GDP"
    direction: ClassVar[str] = "Smaller μ = more privacy, more noise."
    mu: float = number(
        0.5, 0.01, 20.0, label="Privacy budget", symbol="μ", scale="log", help="Smaller = more privacy, more noise."
    )


class RenyiDP(Budget):
    """(α, ε)-Rényi differential privacy (Mironov 2017): the Rényi divergence of one order is at most ε."""

    kind: ClassVar[str] = "privacy.budgets.renyi"
    name: ClassVar[str] = "Rényi (α, ε)"
    direction: ClassVar[str] = "Smaller ε or larger α = more privacy, more noise."
    epsilon: float = number(
        1.0, 1e-4, 100.0, label="Privacy budget", symbol="ε", scale="log", help="Smaller = more privacy, more noise."
    )
    order: float = number(
        8.0,
        1.01,
        1000.0,
        label="Order",
        symbol="α",
        scale="log",
        help="Larger = more privacy, more noise: larger orders come closer to pure ε.",
    )


class TradeOff(Budget):
    """One point of the trade-off function (f-DP; Dong, Roth, Su 2019): no test whose false positive rate is at most
    `false_positive_rate` has a true positive rate above `true_positive_rate`, between any two neighbouring data sets.
    """

    kind: ClassVar[str] = "privacy.budgets.trade_off"
    name: ClassVar[str] = "Attack bound"
    direction: ClassVar[str] = "Smaller TPR or larger FPR = more privacy, more noise."
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
        help="The rate of false alarms that the attacker accepts; guessing alone detects as often. Larger, at the same "
        "detection = more privacy, more noise.",
    )

    @model_validator(mode="after")
    def _above_guessing(self) -> "TradeOff":
        if self.true_positive_rate <= self.false_positive_rate:
            raise ValueError("the detection rate must be larger than the rate of false alarms, which guessing reaches")
        return self

    @property
    def gaussian(self) -> float:
        """The μ of the Gaussian mechanism whose trade-off curve goes through the point: Φ⁻¹(TPR) - Φ⁻¹(FPR)."""
        return float(ndtri(self.true_positive_rate) - ndtri(self.false_positive_rate))


class NoPrivacy(Budget):
    """No guarantee: the reference run. Its events cost infinity and draw nothing."""

    kind: ClassVar[str] = "privacy.budgets.none"
    name: ClassVar[str] = "No privacy"

    def describe(self) -> str:
        return "no privacy"


def delta_of(budget: Budget, delta: float) -> float:
    """The δ at which a run with this budget is read: its own; the given one where it has none."""
    return budget.delta if isinstance(budget, ApproximateDP) else delta


B = TypeVar("B", bound=Budget)


def require(budget: Budget, kind: type[B]) -> B:
    """The budget itself, if it is stated in the currency `kind`; raises UserError otherwise."""
    if not isinstance(budget, kind):
        raise UserError(
            f"This method needs its budget as {kind.name}, but it was given as {budget.name}. Choose another currency.",
            title="This budget does not fit the method",
        )
    return budget
