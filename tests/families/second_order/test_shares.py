"""The budget between gradients, Hessians and line searches: any split keeps it, and none is better than the best."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpviz.families.second_order import advice, planning, presets
from dpviz.families.second_order.methods.algorithms import EVEN, HESSIAN_LIMITS, NonconvexMethod, ShortStep
from dpviz.families.second_order.methods.trust_region import LineSearch
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import price
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, ZeroConcentratedDP
from dpviz.privacy.ledger import Filter
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, RobustComponent
from tests.strategies import steady

FACTS = RobustComponent().facts()
APPROXIMATE = ApproximateDP(epsilon=1.0, delta=1e-5)
BUDGETS: tuple[Budget, ...] = (APPROXIMATE, ZeroConcentratedDP(rho=0.05), GaussianDP(mu=0.3))
SAMPLED = ("OPT-B", "2OPT-B", "DP-TR-B")
LABELS = ("OPT", "OPT-LS", "2OPT", "2OPT-LS", "DP-TR", "OPT-B")


def made(label: str, **settings: object) -> NonconvexMethod:
    return presets.METHODS[label].replaced(iterations=60, **settings)


@steady
@given(st.floats(0.05, 0.95), st.none() | st.floats(0.05, 0.9), st.sampled_from(LABELS), st.sampled_from(BUDGETS))
def test_whatever_the_split_the_budget_is_kept_and_spent(
    share: float, search: float | None, label: str, budget: Budget
) -> None:
    if label in SAMPLED:
        budget = APPROXIMATE
    also = {"search_share": search} if "LS" in label else {}
    plan = made(label, hessian_share=share, **also).plan(FACTS, budget)
    if isinstance(budget, ApproximateDP):
        spent = accountants.tightest(plan.events, budget.delta).epsilon
        least = 0.97 if "LS" not in label else 0.6  # whose ρ implies ε, and not the other way round
    else:
        spent, least = budget.cost(plan.events), 0.97
    assert least * budget.amount <= spent <= budget.amount * (1 + 1e-9)
    assert advice.share_of(plan) == pytest.approx(share)
    if isinstance(plan.terms, Filter):
        assert dearest(plan.terms, plan.schedule["phase"]) <= plan.terms.ceiling * (1 + 1e-9)


def dearest(terms: Filter, phases: np.ndarray) -> float:
    """What a run may be charged at most that asks for as much as it can, whatever it has asked for in its first phase.

    It asks for gradients always; of the rest, in a first phase with something left over, for any numbers.
    """
    amounts = {name: price(event, terms.currency) for name, event in terms.allowed.items()}
    lengths = np.bincount(phases.astype(int))
    kinds = [kind for kind in ("gradient", "hessian", "search") if kind in amounts]
    first = {kind: amounts[planning.release_name(kind, 0)] for kind in kinds}  # type: ignore[arg-type]
    if len(lengths) == 1:
        return float(lengths[0] * sum(first.values()))
    most = 0.0
    rest = [kind for kind in kinds if kind != "gradient"]
    for counts in product(range(lengths[0] + 1), repeat=len(rest)):
        spent = lengths[0] * first["gradient"] + sum(c * first[kind] for c, kind in zip(counts, rest, strict=True))
        later = sum(amounts[planning.release_name(kind, 1, sum(counts))] for kind in kinds)  # type: ignore[arg-type]
        most = max(most, spent + lengths[1] * later)
    return float(most)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("label", ["OPT", "2OPT", "OPT-LS", "OPT-B", "DP-TR"])
def test_no_split_turns_green_sooner_than_the_soonest(label: str) -> None:
    method = made(label)
    found = advice.compare(label, method, method.plan(FACTS, APPROXIMATE))
    assert found is not None and found.splits[advice.YOURS].share == pytest.approx(EVEN)
    best = found.splits[advice.SOONEST]
    assert 0.5 < best.share < 0.75 and best.stopping.factor_until_recognised <= min(found.factors_until_recognised) * (
        1 + 1e-4
    )
    # What is told of a share is what a plan with that share has.
    other = method.replaced(hessian_share=best.share)
    planned = advice.compare(label, other, other.plan(FACTS, APPROXIMATE))
    assert planned is not None
    for name in ("gradient_noise", "hessian_noise", "waiting_time", "factor_until_recognised"):
        told, is_so = (getattr(split.stopping, name) for split in (best, planned.splits[advice.YOURS]))
        assert told == pytest.approx(is_so, rel=1e-6), name
    assert planned.rows == (None if label in SAMPLED else FACTS.n)


@pytest.mark.parametrize(("curvature", "inside"), [(0.6, True), (0.2, False)])
def test_no_split_is_proven_sooner_than_by_the_closed_form(curvature: float, inside: bool) -> None:
    method = ShortStep(curvature_target=curvature)
    plan = method.plan(FACTS, APPROXIMATE)
    found, (forecast,) = advice.compare("OPT", method, plan), advice.phase_forecasts("OPT", method, plan)
    assert found is not None and found.row_factors is not None and forecast.rows_needed is not None
    assert found.splits[advice.YOURS].row_factor == pytest.approx(forecast.rows_needed / FACTS.n)
    best = found.splits[advice.PROVEN]
    assert best.row_factor is not None and best.row_factor <= min(found.row_factors) * (1 + 1e-9)
    assert (best.share > HESSIAN_LIMITS[0]) == inside == (best.row_factor < 0.99 * found.row_factors[0])


def test_a_search_without_hessians_shares_with_gradients_alone() -> None:
    facts = LogisticTukey().facts()
    assert not LineSearch().releases_hessians(facts)
    for search in (None, 0.25):
        method = LineSearch(search_share=search, hessian_share=0.9)
        terms = method.plan(facts, BUDGETS[1]).terms
        assert isinstance(terms, Filter) and set(terms.allowed) == {"gradient", "search"}
        searched, step = (price(terms.allowed[name], "rho") for name in ("search", "gradient"))
        assert searched / (searched + step) == pytest.approx(search or 0.5)
