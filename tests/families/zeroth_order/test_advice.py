"""Which oracle, directions and sums are advised, and why."""

from dataclasses import replace

import pytest

from dpviz.families.zeroth_order.advice import advice
from dpviz.privacy.budgets import GaussianDP, NoPrivacy
from dpviz.problems.black_box import PhaseRetrieval, Votes

FACTS = PhaseRetrieval(gap=0.3).facts()


def test_at_dashboard_sizes_fresh_estimates_with_orthonormal_directions_have_the_smallest_bound() -> None:
    found = advice(FACTS, GaussianDP(mu=1.0))
    assert [one.best.bound for one in found.options] == sorted(one.best.bound for one in found.options)
    assert found.choice is found.options[0] and found.choice.sums is None and found.choice.kind == "orthonormal"
    assert found.choice.best.bound == pytest.approx(0.32871, abs=1e-4)
    assert "64 steps are too short" in found.why and "promise nothing" not in found.why


def test_where_values_jump_nobody_is_advised_to_add_up_changes() -> None:
    found = advice(Votes(rows=100_000).facts(), GaussianDP(mu=0.01))
    assert found.choice.sums is None and "Values jump" in found.why and "promise nothing" in found.why


def test_without_privacy_noise_has_no_say() -> None:
    assert advice(FACTS, NoPrivacy()).choice.best.bound < advice(FACTS, GaussianDP(mu=1.0)).choice.best.bound


def test_with_many_rows_and_a_small_budget_running_sums_pay() -> None:
    """Ten million rows, μ = 0.1: 0.1048 in epochs of 1,024 steps against 0.118."""
    found = advice(replace(FACTS, n=10**7), GaussianDP(mu=0.1))
    assert found.choice.sums == "normalised" and found.choice.best.bound == pytest.approx(0.1048, abs=1e-4)
    assert "1024 steps are long enough" in found.why
