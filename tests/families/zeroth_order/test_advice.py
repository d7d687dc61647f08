"""Which oracle, directions and sums are advised, and why."""

import itertools
import math
from dataclasses import replace

import pytest

from dpviz.families.zeroth_order import theory
from dpviz.families.zeroth_order.advice import advice
from dpviz.families.zeroth_order.theory import Setting, Sums
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
    """Ten million rows, μ = 0.1: 0.1048 in epochs of 1,024 steps against 0.118; less if batches follow the moves."""
    found = advice(replace(FACTS, n=10**7), GaussianDP(mu=0.1))
    assert found.choice.sums == "normalised" and "1024 steps are long enough" in found.why
    alike = next(one for one in found.options if one.sums and not one.follows)
    assert alike.best.bound == pytest.approx(0.1048, abs=1e-4)
    assert found.choice.follows and found.choice.best.bound < 0.09 and "follow the moves" in found.why


def test_less_noise_in_running_sums_need_not_make_them_better() -> None:
    """A million rows, μ = 1, T = 384: 0.55 times the noise, and yet the bound of fresh estimates is smaller."""
    found = advice(replace(FACTS, n=10**6), GaussianDP(mu=1.0))
    assert found.choice.sums is None and "average out" in found.why and "too short" not in found.why


def test_of_a_handful_of_rows_nothing_is_promised() -> None:
    assert "too few rows" in advice(replace(FACTS, n=1), GaussianDP(mu=1.0)).why
    assert "promise nothing" in advice(replace(FACTS, n=2), GaussianDP(mu=1.0)).why


def every_bound(setting: Setting) -> dict[tuple[object, ...], float]:
    """The best bound of each oracle with all directions and sums, of batches that follow the moves and others."""
    sums: tuple[Sums, ...] = ("tree", "square_root", "normalised", "honaker", "independent")
    found: dict[tuple[object, ...], float] = {}
    for kind, count in itertools.product(("iid", "orthonormal"), sorted({1, 2, setting.d})):
        one = replace(setting, kind=kind, count=count)  # type: ignore[arg-type]
        found[kind, count, None] = theory.best_naive(one).bound
        for name, follows in itertools.product(sums, (False, True)):
            found[kind, count, name, follows] = theory.best_reduced(replace(one, follows=follows), name).bound
    return found


def test_nothing_that_can_be_chosen_has_a_smaller_bound_than_what_is_advised() -> None:
    """Over all combinations, at few and many rows, in few and many dimensions, with small and large budgets."""
    for n, d, mu in itertools.product((2000, 50_000, 10**7), (2, 30), (0.03, 1.0, 10.0)):
        facts = replace(FACTS, n=n, d=d)
        bounds = every_bound(Setting(n, d, 1.0, facts.radius, facts.gap, mu, "iid", d))
        least = min(bounds.values())
        assert math.isclose(advice(facts, GaussianDP(mu=mu)).choice.best.bound, least, rel_tol=1e-12), (n, d, mu)


def test_one_direction_is_not_told_as_several() -> None:
    assert advice(replace(FACTS, d=1), GaussianDP(mu=1.0)).why.startswith("One direction per row. ")
