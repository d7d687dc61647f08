"""A split of the budget between gradients and Hessians beside the even and the best ones, without a run."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice
from dpviz.families.second_order.methods.algorithms import EVEN, HESSIAN_LIMITS, Descent, NonconvexMethod
from dpviz.families.second_order.methods.trust_region import TrustRegion
from dpviz.families.second_order.theory import Guarantee, Stopping
from dpviz.problems.nonconvex.nonconvex_risk import Assumed, NonconvexFacts

YOURS, EVENLY, SOONEST, PROVEN = "Yours", "Even", "Soonest W ≤ 2", "Soonest proven"
CURVE = np.linspace(*HESSIAN_LIMITS, 46)


class Split(NamedTuple):
    """What a share of the Hessians is worth, in the phase in which a run is most likely to stop.

    stopping : of that phase. needed : n_min/n, how many times as many rows the theorem needs; None where it promises
    nothing.
    """

    share: float
    stopping: Stopping
    needed: float | None


class Compared(NamedTuple):
    """Splits by name, the present one first; and (k,) shares with how many times less noise turns each green, and
    n_min/n where the theorem promises anything.

    phase : the name of the phase that they are about. rows : n, if noise falls with 1/n. assumed : constants that do
    not follow from the loss.
    """

    splits: Mapping[str, Split]
    phase: str
    rows: int | None
    assumed: tuple[Assumed, ...]
    curve: np.ndarray
    green: np.ndarray
    proven: np.ndarray | None


def compare(label: str, method: NonconvexMethod, plan: Plan) -> Compared | None:
    """What the split of this plan is worth; None where no Hessian is released, or without privacy."""
    facts = plan.facts
    assert isinstance(facts, NonconvexFacts)
    if not (plan.private and isinstance(method, Descent | TrustRegion) and "hessian" in plan.noise):
        return None
    forecast, analysis, now = advice.best(advice.phases(label, method, plan)), method.analysis(facts), share_of(plan)

    def needed(share: float) -> float | None:
        if forecast.needed is None:
            return None
        return advice.guarantee(analysis, at(forecast.stopping, now, share), method, plan).factor

    shares = {YOURS: now, EVENLY: EVEN, SOONEST: soonest_green(forecast.stopping, now)}
    if forecast.needed is not None:
        shares[PROVEN] = soonest_proven(advice.guarantee(analysis, forecast.stopping, method, plan), now)
    return Compared(
        {name: Split(share, at(forecast.stopping, now, share), needed(share)) for name, share in shares.items()},
        forecast.name,
        facts.n if forecast.all_rows else None,
        facts.assumed,
        CURVE,
        np.array([at(forecast.stopping, now, share).recognised_at for share in CURVE.tolist()]),
        None if forecast.needed is None else np.array([needed(share) for share in CURVE.tolist()], dtype=float),
    )


def share_of(plan: Plan) -> float:
    """φ: which part of what an iteration spends on its gradient and its test is for the test; as μ² adds up."""
    facts = plan.facts
    assert isinstance(facts, NonconvexFacts)
    changes = {
        "gradient": facts.gradient_sensitivity,
        "hessian": facts.hessian_sensitivity,
        "certificate": facts.curvature_sensitivity,
    }
    squares = {name: (changes[name] / plan.noise[name][0]) ** 2 for name in changes if name in plan.noise}
    return float(1 - squares["gradient"] / sum(squares.values()))


def at(stopping: Stopping, now: float, share: float) -> Stopping:
    """The same with another share of the Hessians than it has now."""
    return replace(
        stopping,
        gradient_noise=stopping.gradient_noise * math.sqrt((1 - now) / (1 - share)),
        hessian_noise=stopping.hessian_noise * math.sqrt(now / share),
    )


def soonest_green(stopping: Stopping, now: float) -> float:
    """The share with which the most noise still lets a run stop at once."""

    def noise(share: float) -> float:
        return at(stopping, now, share).recognised_at

    return float(minimize_scalar(noise, bounds=HESSIAN_LIMITS, method="bounded", options={"xatol": 1e-3}).x)


def soonest_proven(found: Guarantee, now: float) -> float:
    """The share with which the theorem needs fewest rows, in closed form, given what it asks for with the share that
    there is now (THEORY.md, 5.6); what it asks of a line search does not depend on it."""
    gradient = (found.gradient_error / found.allowed_gradient_error) ** 2 * (1 - now)
    hessian = (found.hessian_error / found.allowed_hessian_error) ** 2 * now
    low, high = HESSIAN_LIMITS
    return min(high, max(low, hessian / (gradient + hessian)))
