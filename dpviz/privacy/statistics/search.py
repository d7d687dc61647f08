"""The price of a search: many trainings on the same data, of which only the best one is published.

The score that decides which is best is part of the training, so it is paid with it; or the exponential mechanism
chooses by scores on rows that no training has seen. THEORY.md, section 11.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from scipy.optimize import brentq

from dpviz.arguments import Positive, checked
from dpviz.errors import UserError
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech, Relation
from dpviz.privacy.statistics.analyses import selection_bound

# Ways to search, by name: the shape η of the number of trainings, which is random; None for a fixed number.
SHAPES: Mapping[str, float | None] = MappingProxyType(
    {"logarithmic": 0.0, "geometric": 1.0, "all": None, "selection": None}
)
WAYS: Mapping[str, str] = MappingProxyType(
    {
        "logarithmic": "random, logarithmic law",
        "geometric": "random, geometric law",
        "all": "fixed, all paid for",
        "selection": "fixed, on held-out rows",
    }
)
_ORDERS = 1 + np.geomspace(1e-2, 1e5, 4000)  # orders of Rényi divergences that are tried


@checked
def stopping_rate(mean: Positive, shape: float) -> float:
    """Return the γ with which a number of trainings K of this shape η has the expectation `mean` > 1.

    P(K = k) ∝ (1 - γ)^k/k for η = 0 (logarithmic) and (1 - γ)^k for η = 1 (geometric), k ≥ 1 (Papernot, Steinke 2022,
    Definition 1).
    """
    if shape == 1:
        return 1 / mean

    def excess(log_gamma: float) -> float:
        """Return the expectation (1/γ - 1)/ln(1/γ) of the logarithmic law, less `mean`, at γ = e^log_gamma."""
        return math.expm1(-log_gamma) / -log_gamma - mean

    return math.exp(brentq(excess, -700.0, -1e-9, xtol=1e-12))  # γ from e^-700, near underflow, to almost 1


@checked
def searched_epsilon(rho: Positive, mean: Positive, shape: float, delta: float) -> float:
    """Return ε at `delta` of the best of K trainings with ρ-zCDP each (Papernot, Steinke 2022, Theorem 2).

    mean : expectation of K. shape : η of its distribution. At order λ the Rényi divergence is at most
    λρ + (1 + η)((λ₂ - 1)ρ + ln(1/γ)/λ₂) + ln(mean)/(λ - 1), for every λ₂ ≥ 1, here the best one.
    """
    log_inverse_gamma = math.log(1 / stopping_rate(mean, shape))
    lambda_2 = max(1.0, math.sqrt(log_inverse_gamma / rho))  # the best: the derivative of its terms by λ₂ is 0 there
    second_term = (1 + shape) * ((lambda_2 - 1) * rho + log_inverse_gamma / lambda_2)
    divergences = _ORDERS * rho + second_term + math.log(mean) / (_ORDERS - 1)
    # The ε that each order proves, as in `closed_forms.rdp_epsilon`.
    epsilons = divergences + np.log1p(-1 / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1)
    return max(0.0, float(epsilons.min()))


@checked
def search_budgets(budget: Budget, mean: Positive) -> dict[str, Budget | None]:
    """Return what a single training may cost if publishing the best of about `mean` of them costs `budget`, for each
    way to search, by its name in WAYS.

    Pure ε gives pure ε: ε/(2 + η) for a random number (Liu, Talwar 2019; Papernot, Steinke 2022, Corollary 3), ε/T for
    a fixed one, T = `mean`. (ε, δ) gives a ρ for each training. A budget in ρ or μ gives the same kind for a fixed
    number, and None for a random number, as no ρ or μ is known of its best training. In all ways but "selection", for
    which see `shortfall`, a training pays for its score, too. Raises UserError for other guarantees, and for fewer than
    2 trainings.
    """
    if mean < 2:
        raise UserError("A search has at least 2 trainings.", title="Nothing to search")
    if isinstance(budget, PureDP):
        divisors = {way: mean if shape is None else 2 + shape for way, shape in SHAPES.items()}
        return {way: PureDP.of_amount(budget.epsilon / divisor) for way, divisor in divisors.items()}
    if isinstance(budget, ApproximateDP):
        return {way: ZeroConcentratedDP.of_amount(_largest_rho(budget, mean, shape)) for way, shape in SHAPES.items()}
    if budget.currency is None:  # costs do not add up as an ε, ρ or μ²
        raise _no_price()
    return {
        way: type(budget).of_amount(budget.amount / mean) if shape is None else None for way, shape in SHAPES.items()
    }


def noise_factors(budget: Budget, mean: float) -> dict[str, float]:
    """Return, by the names in WAYS, the noise of each training divided by that of one training with the whole budget.

    Arguments and errors are those of `search_budgets`; ways without a price are left out. Noise is in proportion to
    1/ε, 1/√ρ or 1/μ.
    """
    single_budget = budget  # of one training alone
    if isinstance(budget, ApproximateDP):  # in ρ, as `search_budgets` returns it: that of one Gaussian release
        single_budget = ZeroConcentratedDP.of_amount(budget.gaussian_rho(budget.amount))
    power = 1.0 if budget.pure else 0.5  # amounts are ε, ρ and μ²
    budgets = search_budgets(budget, mean)
    return {way: (single_budget.amount / each.amount) ** power for way, each in budgets.items() if each is not None}


def _no_price() -> UserError:
    """Return the error for a guarantee in whose currency no price of a search is known."""
    return UserError("State the total as ε, (ε, δ), ρ or μ.", title="No price of a search in this currency")


@checked
def shortfall(
    budget: Budget, trainings: int, held_out: int, rows_per_person: int = 1, relation: Relation = "replace-one"
) -> float:
    """Return a 95 % bound on the gap between the best score and that of the training which the exponential mechanism
    chooses.

    The score is the share of `held_out` rows that a training gets right; they are set aside without looking at them, no
    training sees them, and a person with rows among them has all rows there. So no person is in both, and the choice
    may cost the whole `budget`, as the trainings may. Raises UserError as `search_budgets` does, and without a held-out
    row.
    """
    if budget.currency is None and not isinstance(budget, ApproximateDP):
        raise _no_price()
    if trainings < 2 or held_out < 1:
        raise UserError("Choose among at least 2 trainings, on at least 1 held-out row.", title="Nothing to search")
    event = budget.release("selection")  # the selection that costs the whole budget
    assert isinstance(event, ExpMech)
    # A replaced row may raise some shares by 1/n and lower others; one that is added or removed moves the numbers of
    # right rows, by which a training is then chosen, in one direction.
    score_range = (2 if relation == "replace-one" else 1) * rows_per_person / held_out
    return min(1.0, selection_bound(score_range / event.eta, trainings))  # the scale of the choice's Gumbel noise


def _largest_rho(budget: ApproximateDP, mean: float, shape: float | None) -> float:
    """Return the largest ρ of a training with which a search meets the budget; arguments as in `searched_epsilon`."""

    def epsilon(rho: float) -> float:
        if shape is None:  # of a fixed number, ρ adds up
            return closed_forms.zcdp_epsilon(mean * rho, budget.delta)
        return searched_epsilon(rho, mean, shape, budget.delta)

    def excess(log_rho: float) -> float:
        return epsilon(math.exp(log_rho)) - budget.epsilon

    if excess(-60.0) > 0:  # ρ is sought from e^-60 up to e^10, more than any budget allows
        raise UserError("No order proves so small an ε, at this δ, of a search.", title="No price of so small an ε")
    return math.exp(brentq(excess, -60.0, 10.0, xtol=1e-9) - 1e-9)  # the tolerance is subtracted
