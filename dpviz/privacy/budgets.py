"""Budgets: the privacy guarantee that is asked for, in the currency in which it is asked."""

from typing import ClassVar, TypeVar

from dpviz.errors import UserError
from dpviz.specification import Specification, number


class Budget(Specification):
    """A privacy guarantee to be met by the whole run, under replace-one neighbours."""

    name: ClassVar[str] = ""

    def describe(self) -> str:
        """The guarantee in symbols, for instance "ε = 1, δ = 1e-06"."""
        return ", ".join(f"{control.symbol} = {getattr(self, control.name):.4g}" for control in self.controls())


class PureDP(Budget):
    """Pure ε-differential privacy (Dwork, McSherry, Nissim, Smith 2006)."""

    kind: ClassVar[str] = "privacy.budgets.pure"
    name: ClassVar[str] = "Pure ε"
    epsilon: float = number(
        2.0, 0.01, 50.0, label="Privacy budget", symbol="ε", scale="log", help="Smaller = more privacy, more noise."
    )


class ApproximateDP(Budget):
    """Approximate (ε, δ)-differential privacy."""

    kind: ClassVar[str] = "privacy.budgets.approximate"
    name: ClassVar[str] = "(ε, δ)"
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
        help="ε may be exceeded with total excess probability δ. Keep it far below 1/n.",
    )


class ZeroConcentratedDP(Budget):
    """ρ-zero-concentrated differential privacy (Bun and Steinke 2016)."""

    kind: ClassVar[str] = "privacy.budgets.zero_concentrated"
    name: ClassVar[str] = "ρ-zCDP"
    rho: float = number(
        0.1, 1e-5, 100.0, label="Privacy budget", symbol="ρ", scale="log", help="Smaller = more privacy, more noise."
    )


class GaussianDP(Budget):
    """μ-Gaussian differential privacy (Dong, Roth, Su 2019)."""

    kind: ClassVar[str] = "privacy.budgets.gaussian"
    name: ClassVar[str] = "μ-GDP"
    mu: float = number(
        0.5, 0.01, 20.0, label="Privacy budget", symbol="μ", scale="log", help="Smaller = more privacy, more noise."
    )


class NoPrivacy(Budget):
    """No guarantee: the reference run. Its events cost infinity and draw nothing."""

    kind: ClassVar[str] = "privacy.budgets.none"
    name: ClassVar[str] = "No privacy"

    def describe(self) -> str:
        return "no privacy"


B = TypeVar("B", bound=Budget)


def require(budget: Budget, kind: type[B]) -> B:
    """The budget itself, if it is stated in the currency `kind`; raises UserError otherwise."""
    if not isinstance(budget, kind):
        raise UserError(
            f"This method needs its budget as {kind.name}, but it was given as {budget.name}. Choose another currency.",
            title="This budget does not fit the method",
        )
    return budget
