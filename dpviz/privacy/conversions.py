"""Conversions: the numbers that a guarantee implies in the other currencies if nothing is known but the guarantee.

So they hold for every algorithm that has the guarantee. If the mechanisms are known, their events give smaller numbers.
"""

from dataclasses import dataclass
from types import MappingProxyType

from dpviz.arguments import Delta, checked
from dpviz.privacy.budgets import Budget


@dataclass(frozen=True)
class Implied:
    """The number that a bare guarantee implies in another currency, for every algorithm that has it.

    value : the number, an upper bound; None if no number follows.
    exact : True if the number of the guarantee can be computed back from this one.
    why : a sentence for the screen that gives the reason if no number follows; else empty.
    """

    value: float | None
    exact: bool = False
    why: str = ""


READINGS = ("epsilon", "epsilon_at_delta", "rho", "mu", "renyi")
_NOTHING = MappingProxyType(
    {
        "epsilon": "Pure ε does not follow from this guarantee: algorithms that have it may exceed every ε.",
        "epsilon_at_delta": "No ε follows at this δ from this guarantee alone.",
        "rho": "ρ does not follow from this guarantee: for every ρ there are algorithms that have it and exceed ρ.",
        "mu": "No μ is computed here from this guarantee alone.",
        "renyi": "No Rényi divergence of this order follows from this guarantee.",
    }
)


def implied(budget: Budget, delta: float, order: float = 8.0) -> dict[str, Implied]:
    """Return the numbers that a bare budget implies, by the names in READINGS (THEORY.md, section 3).

    delta : the δ of "epsilon_at_delta", the smallest ε such that the guarantee implies (ε, δ).
    order : the order of the Rényi divergence "renyi".
    """
    values = convert(budget, delta)
    values["renyi"] = budget.to_renyi(order)
    exact_names = budget.equivalent_readings(delta, order)
    return {
        name: Implied(None, why=_NOTHING[name]) if value is None else Implied(value, exact=name in exact_names)
        for name, value in values.items()
    }


@checked
def convert(budget: Budget, delta: Delta) -> dict[str, float | None]:
    """Return the numbers that a bare budget implies in the other currencies, for any algorithm that meets it.

    Parameters
    ----------
    budget : Budget
    delta : float
        The δ at which the ε of (ε, δ) is computed, in (0, 1).

    Returns
    -------
    dict of str to float or None
        epsilon (pure), epsilon_at_delta, rho and mu: upper bounds, and None where no formula gives one. If the releases
        of a plan are known, their events usually give smaller numbers.

    Raises
    ------
    UserError
        If δ is not between 0 and 1.

    Source
    ------
    `dpviz/privacy/THEORY.md`, section 3.

    >>> import dpviz
    >>> conversions = dpviz.convert(dpviz.PureDP(epsilon=1.0), delta=1e-6)
    >>> {name: value and round(value, 4) for name, value in conversions.items()}
    {'epsilon': 1.0, 'epsilon_at_delta': 1.0, 'rho': 0.4621, 'mu': 1.232}
    """
    return {
        "epsilon": budget.to_epsilon(),
        "epsilon_at_delta": budget.to_epsilon_at(delta),
        "rho": budget.to_rho(),
        "mu": budget.to_mu(),
    }
