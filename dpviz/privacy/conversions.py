"""Conversions: what one guarantee, of which nothing else is known, implies in the other currencies."""

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)


@dataclass(frozen=True)
class Implied:
    """What a bare guarantee implies in another currency, for every algorithm that has it.

    value : None where nothing follows. exact : whether the number leads back to the guarantee, if one knows what kind
    it came from; otherwise it is an upper bound that says less. why : the reason, where nothing follows.
    """

    value: float | None
    exact: bool = False
    why: str = ""


CURRENCIES = ("epsilon", "epsilon_at_delta", "rho", "mu", "renyi")
_NOTHING = MappingProxyType(
    {
        "epsilon": "Pure ε does not follow from this guarantee: algorithms that have it may exceed every ε.",
        "epsilon_at_delta": "No ε follows at this δ from this guarantee alone.",
        "rho": "ρ does not follow from this guarantee: for every ρ there are algorithms that have it and exceed ρ.",
        "mu": "No μ follows from this guarantee for every algorithm that has it.",
        "renyi": "No Rényi divergence of this order follows from this guarantee.",
    }
)


def implied(budget: Budget, delta: float, order: float = 8.0) -> dict[str, Implied]:
    """What a bare budget implies in every currency of CURRENCIES (THEORY.md, section 3).

    delta : at which (ε, δ) is read; order : of the Rényi divergence.
    """
    found = convert(budget, delta) | {"renyi": _renyi(budget, order)}
    own = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu", ApproximateDP: "epsilon_at_delta"}
    same = {own.get(type(budget), "")}
    if isinstance(budget, ZeroConcentratedDP):
        same.add("renyi")  # of a divergence that is linear in the order, one order tells all
    if isinstance(budget, GaussianDP):
        same.add("epsilon_at_delta")  # of the curve δ(ε) of a Gaussian, one point tells all
    if isinstance(budget, ApproximateDP) and delta != budget.delta:
        same = set()
    if isinstance(budget, RenyiDP) and order == budget.order:
        same = {"renyi"}
    return {
        name: Implied(None, why=_NOTHING[name]) if value is None else Implied(value, name in same)
        for name, value in found.items()
    }


def _renyi(budget: Budget, order: float) -> float | None:
    """D_order of any algorithm with the guarantee; None where it may be infinite."""
    at = np.array([order])
    if isinstance(budget, PureDP):
        return float(closed_forms.pure_rdp(budget.epsilon, at)[0])
    if isinstance(budget, ZeroConcentratedDP):
        return order * budget.rho
    if isinstance(budget, GaussianDP):
        return order * budget.mu**2 / 2
    # Divergences grow with the order, so one of a larger order bounds those of smaller ones.
    return budget.epsilon if isinstance(budget, RenyiDP) and order <= budget.order else None


def convert(budget: Budget, delta: float) -> dict[str, float | None]:
    """What a bare budget implies in the other currencies, for any algorithm that meets it; None where nothing follows.

    Keys: epsilon (pure), epsilon_at_delta, rho, mu. Upper bounds; a plan's own events usually read tighter.
    """
    nothing: dict[str, float | None] = {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}
    if isinstance(budget, PureDP):
        return {
            "epsilon": budget.epsilon,
            "epsilon_at_delta": closed_forms.pure_epsilon(budget.epsilon, delta),
            "rho": closed_forms.pure_to_rho(budget.epsilon),
            "mu": closed_forms.pure_to_mu(budget.epsilon),
        }
    if isinstance(budget, ZeroConcentratedDP):
        return nothing | {"epsilon_at_delta": closed_forms.zcdp_epsilon(budget.rho, delta), "rho": budget.rho}
    if isinstance(budget, GaussianDP):
        at_delta = closed_forms.gdp_epsilon(budget.mu, delta)
        return nothing | {"epsilon_at_delta": at_delta, "rho": budget.mu**2 / 2, "mu": budget.mu}
    if isinstance(budget, RenyiDP):
        a = budget.order
        at_delta = budget.epsilon + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)
        return nothing | {"epsilon_at_delta": max(0.0, at_delta)}
    if isinstance(budget, ApproximateDP) and delta >= budget.delta:
        # The worst case fails openly with probability budget.delta and is ε-DP otherwise (Kairouz, Oh, Viswanath 2015).
        at_delta = closed_forms.pure_epsilon(budget.epsilon, (delta - budget.delta) / (1 - budget.delta))
        return nothing | {"epsilon_at_delta": at_delta}
    return nothing
