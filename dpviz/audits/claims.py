"""What an audit tests: the tightest claim of a plan that has a number."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.privacy import audit, tradeoffs
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import GaussianDP
from dpviz.privacy.events import ExpMech, Gaussian, draws_batch, inner_events
from dpviz.privacy.ledger import Filter

# Of all ranges of a plan, the shares that are tried: those that are refuted are too small. 1 is one of them.
_SHARES = np.array([*np.linspace(0.02, 1.0, 50), 1 + 1e-6, *np.linspace(1.02, 2.0, 50), *np.geomspace(2.1, 20, 15)])
_LOSSES = np.linspace(-1.0, 1.0, 161)  # of the largest loss


@dataclass(frozen=True)
class Claim:
    """What is tested: no two neighbouring data sets can be told apart better than this.

    symbol : of the number, such as "ε", "ε at δ = 10⁻⁵", "μ", "η". value : the number.
    least : the smallest number that allows an event these probabilities on D and D'; arrays of them.
    tradeoff : the smallest false negative rates at these false positive rates, under the claim.
    """

    symbol: str
    value: float
    least: Callable[[Floats, Floats], Floats]
    tradeoff: Callable[[Floats], Floats]

    @classmethod
    def of(cls, plan: Plan) -> "Claim":
        """Of selections alone, what their ranges allow together; μ if all noise is Gaussian and no batch random; else
        the budget. The number of several selections is the largest range, with which the others rise and fall."""
        fixed = not isinstance(plan.terms, Filter) and not any(draws_batch(event) for event in set(plan.events))
        releases = [release for event in plan.events for release in inner_events(event)] if fixed else []
        ranges = tuple(release.eta for release in releases if isinstance(release, ExpMech))
        if ranges and len(ranges) == len(releases):
            largest = max(ranges)
            if len(ranges) == 1:
                return cls("η", largest, audit.least_eta, partial(closed_forms.exponential_tradeoff, largest))
            if largest < np.inf:
                least = partial(_least_range, ranges)
                return cls("largest η", largest, least, partial(tradeoffs.tradeoff, tuple(map(ExpMech, ranges))))
        if releases and all(isinstance(release, Gaussian) for release in releases):
            whole = GaussianDP.of(float(plan.spent("mu")[-1]) ** 2)
            return cls(whole.symbol, whole.limit, whole.least, whole.tradeoff)
        budget = plan.budget
        return cls(budget.symbol, budget.limit, budget.least, budget.tradeoff)


@lru_cache(8)
def _profiles(ranges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Losses (k,), and δ at each of them (shares, k), of selections of so many shares of these ranges."""
    losses = _LOSSES * sum(ranges) * 1.01
    events = [tuple(ExpMech(share * one) for one in ranges) for share in _SHARES]
    return losses, np.array([tradeoffs.profile(each, losses) for each in events])


def _least_range(ranges: tuple[float, ...], rate: Floats, false_rate: Floats) -> Floats:
    """The smallest largest range, of selections that keep their proportions, under which an event can have these
    probabilities: all ranges are refuted for which p > e^ε q + δ(ε) at some ε."""
    losses, deltas = _profiles(ranges)
    p, q = (np.asarray(value, dtype=float)[..., None] for value in np.broadcast_arrays(rate, false_rate))
    above = p - np.exp(losses) * q
    refuted = np.sum([(above > delta).any(axis=-1) for delta in deltas], axis=0)  # the smaller a share, the sooner
    return np.concatenate([[0.0], _SHARES])[refuted] * max(ranges)
