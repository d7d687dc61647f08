"""Shares that are bought: noise as planned and charged, shares that can be used whatever the noise was."""

from dataclasses import replace

import numpy as np
import pytest

from dpviz.datasets import GroupedUpload
from dpviz.errors import UserError
from dpviz.experiments.results import budget_spent
from dpviz.families.mirror_descent import BiasReduced, VertexSampling, planning, presets
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.problems.games import grouped
from dpviz.problems.games.group_loss import GroupLoss
from tests.refusals import NO_GAUSSIAN, UNDEFINED, refusing

GROUPS = np.repeat([0, 1], [360, 40])  # of three; nobody is in the last one
EXACT = [360, 40, 0]


def test_counts_carry_laplace_noise_of_scale_two_over_epsilon() -> None:
    noise = np.array([grouped.release_counts(GROUPS, 3, 0.5, seed) - EXACT for seed in range(600)])
    # Scale b = 2/ε = 4: |noise| has mean b and standard deviation b; 1800 draws, four standard errors.
    assert np.abs(noise).mean() == pytest.approx(4.0, abs=4 * 4.0 / np.sqrt(1800))
    assert noise.mean() == pytest.approx(0.0, abs=4 * 4.0 * np.sqrt(2 / 1800))


def test_two_releases_share_no_noise_and_without_a_seed_none_repeats() -> None:
    first, second = (grouped.release_counts(GROUPS, 3, epsilon, 0) - EXACT for epsilon in (0.5, 1.0))
    assert not np.isclose(first, 2 * second, rtol=1e-3).any()
    assert np.array_equal(grouped.release_counts(GROUPS, 3, 0.5, 0), grouped.release_counts(GROUPS, 3, 0.5, 0))
    assert not np.array_equal(grouped.release_counts(GROUPS, 3, 0.5), grouped.release_counts(GROUPS, 3, 0.5))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_a_release_needs_a_budget(epsilon: float) -> None:
    with pytest.raises(UserError, match="positive part"):
        grouped.release_counts(GROUPS, 3, epsilon)


@pytest.mark.parametrize(
    ("counts", "smallest", "expected"),
    [
        ([900, 100, 0], 0.02, [0.882, 0.098, 0.02]),
        ([900, 100, -50], 0.001, [0.8991, 0.0999, 0.001]),
        ([500, 300, 200], 0.02, [0.5, 0.3, 0.2]),
        ([-3, -1, -2], 0.02, [1 / 3, 1 / 3, 1 / 3]),
        ([10, 0, 0], 0.9, [1 / 3, 1 / 3, 1 / 3]),
        ([970, 21, 9], 0.02, [0.9592, 0.02077, 0.02]),
        ([975, 20.2, 4.8], 0.02, [0.96, 0.02, 0.02]),  # the second falls below when the third is lifted
    ],
)
def test_shares_sum_to_one_and_none_is_too_small(counts: list, smallest: float, expected: list) -> None:
    found = grouped.floored_shares(np.array(counts, dtype=float), smallest)
    assert sum(found) == pytest.approx(1.0, abs=1e-12)
    assert found == pytest.approx(expected, abs=1e-4)


# ------------------------------------------------------------------------------------------- what the plan has left


def game(*costs: float) -> GroupLoss:
    upload = GroupedUpload(
        identity="e" * 32,
        n=5000,
        bounds=((-1.0, 1.0),) * 4,
        names=("a", "b", "c", "d"),
        groups=("many", "few", "other"),
        shares=(0.5, 0.3, 0.2),
        shares_costs=costs,
    )
    return GroupLoss(data=upload)


BUDGETS = (
    PureDP(epsilon=1.0),
    ApproximateDP(epsilon=1.0, delta=1e-6),
    ZeroConcentratedDP(rho=0.05),
    GaussianDP(mu=0.4),
)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
@pytest.mark.parametrize("label", presets.offered(GroupLoss)[0])
def test_every_method_pays_for_the_shares_first(label: str, budget: Budget) -> None:
    (arm,) = presets.arms([label], iterations=16)
    with refusing(UNDEFINED, NO_GAUSSIAN):
        alone = arm.algorithm.plan(game().facts(), budget)
        plan = arm.algorithm.plan(game(0.1, 0.15).facts(), budget)
        assert plan.facts.released == (Laplace(0.1), Laplace(0.15))
        spent, _ = budget_spent(plan, plan.iterations)
        limit = next(iter(budget.model_dump().values()))
        assert spent <= limit * (1 + 1e-9)
        left, _ = budget_spent(replace(plan, facts=game().facts()), plan.iterations)
        # The paper's own accounting is far from using up the budget, with and without a release.
        assert left < budget_spent(alone, alone.iterations)[0] or label == "As in the paper"


@pytest.mark.parametrize("costs", [(0.05,), (0.05, 0.3)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_a_filter_keeps_to_the_budget_together_with_the_shares_as_the_page_reads_it(
    epsilon: float, costs: tuple[float, ...]
) -> None:
    plan = BiasReduced().plan(game(*costs).facts(), ApproximateDP(epsilon=epsilon, delta=1e-6))
    spent, _ = budget_spent(plan, plan.iterations)
    assert 0.9 * epsilon < spent <= epsilon * (1 + 1e-9)


def test_the_papers_accounting_gets_what_is_left_of_epsilon() -> None:
    left = planning.remaining_approximate(ApproximateDP(epsilon=1.0, delta=1e-6), "A", game(0.1, 0.15).facts())
    assert left.epsilon == pytest.approx(0.75) and left.delta == 1e-6


def test_a_release_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="used up the whole budget"):
        VertexSampling().plan(game(1.0).facts(), PureDP(epsilon=1.0))
    with pytest.raises(UserError, match="used up the whole budget"):
        VertexSampling(accounting="paper").plan(game(1.0).facts(), ApproximateDP(epsilon=1.0, delta=1e-6))
