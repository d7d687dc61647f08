"""What each group really loses, beside what the game plays for, on an unbalanced table whose answers are known."""

import numpy as np
import pytest

from dpviz.datasets.groups import GroupedLosses, GroupedSigns, GroupedUpload
from dpviz.problems.games.group_loss import GroupLoss, GroupLossGame, LossMatrix, LossMatrixGame

ID = "e" * 32
GROUPS = ("many", "few", "other")


def upload(shares: tuple[float, ...] = (0.45, 0.45, 0.1), names: tuple[str, ...] = ("a",)) -> GroupedUpload:
    return GroupedUpload(
        identity=ID, n=100, bounds=((-1.0, 1.0),) * len(names), names=names, groups=GROUPS, shares=shares
    )


def unbalanced(shares: tuple[float, ...] = (0.45, 0.45, 0.1)) -> GroupLossGame:
    """90 rows with label 0.8 in one group, 10 with label -1 in another, none in the third; one feature, always 1.

    So mean losses are ½ (w - 0.8)² and ½ (w + 1)²: equal at w = -0.1, smallest on average at w = 0.62.
    """
    rows = np.array([[1.0, 0.8, 0.0]] * 90 + [[1.0, -1.0, 1.0]] * 10)
    return GroupLoss(data=upload(shares)).build({ID: rows})


def at(w: float) -> np.ndarray:
    """(1, 2) weights of the two vertices ±1 whose mixture is the model w."""
    return np.array([[(1 + w) / 2, (1 - w) / 2]])


def test_the_worst_group_is_the_one_with_the_highest_mean_whatever_its_size() -> None:
    game = unbalanced()
    start = at(0.0)
    assert game.mean_losses(start)[0, [0, 1, 3]] == pytest.approx([0.32, 0.5, 0.9 * 0.32 + 0.1 * 0.5])
    assert np.isnan(game.mean_losses(start)[0, 2])  # nobody is there
    # What the game plays for: times found share / declared share. The largest group dominates.
    assert game.group_losses(start)[0] == pytest.approx([0.32 * 0.9 / 0.45, 0.5 * 0.1 / 0.45, 0.0])
    assert np.argmax(game.group_losses(start)) == 0 and np.nanargmax(game.mean_losses(start)[0, :3]) == 1
    assert game.evaluate({"x": start, "y": np.full((1, 3), 1 / 3)})["worst_group_loss"] == pytest.approx(0.5)
    assert game.counts.tolist() == [90, 10, 0] and game.actual_shares == pytest.approx([0.9, 0.1, 0.0])


def test_right_shares_make_the_game_play_for_the_means() -> None:
    assert unbalanced((0.9, 0.095, 0.005)).shares_are_right and not unbalanced().shares_are_right
    assert unbalanced((0.45, 0.05, 0.5)).shares_are_right  # half is kept for others, of whom there are none
    game = unbalanced((0.9, 0.1 - 1e-3, 1e-3))
    x = np.vstack([at(w) for w in (-0.5, 0.0, 0.7)])
    assert game.group_losses(x)[:, 0] == pytest.approx(game.mean_losses(x)[:, 0])
    assert game.group_losses(x)[:, 1] == pytest.approx(game.mean_losses(x)[:, 1], rel=0.011)


@pytest.mark.parametrize("shares", [(0.45, 0.45, 0.1), (0.9, 0.09, 0.01), (0.1, 0.1, 0.8)])
def test_the_models_to_compare_with_do_not_depend_on_the_declared_shares(shares: tuple[float, ...]) -> None:
    game = unbalanced(shares)
    assert game.weights(game.fairest) == pytest.approx(-0.1, abs=1e-3)
    assert game.highest_mean_loss(game.fairest) == pytest.approx(0.405, abs=1e-3)
    assert game.weights(game.best_on_average) == pytest.approx(0.62, abs=2e-3)
    assert game.mean_losses(game.best_on_average)[0, -1] == pytest.approx(0.9 * 0.0162 + 0.1 * 1.3122, abs=1e-5)


def test_equal_shares_send_the_game_to_the_largest_group() -> None:
    """At its own optimum, 0.9 (w - 0.8)² = 0.1 (w + 1)², that is w = 0.35; the smaller group pays."""
    game = unbalanced()
    found = game.weights(game.best_in_game)[0]
    w = (3 * 0.8 - 1) / 4
    assert found == pytest.approx(w, abs=2e-3)
    means = game.mean_losses(at(float(found[0])))[0]
    assert means[1] == pytest.approx((w + 1) ** 2 / 2, abs=5e-3) and means[1] > 2 * 0.405


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_means_are_those_of_the_rows(loss: str) -> None:
    game = GroupLoss(data=GroupedSigns(rows=600, dimension=5), loss=loss).build()
    x = np.random.default_rng(0).dirichlet(np.ones(10), 3)
    loaded = GroupedSigns(rows=600, dimension=5).load()
    predictions = game.weights(x) @ loaded.features.T
    each = 0.5 * (predictions - loaded.labels) ** 2
    if loss == "logistic":
        each = np.log1p(np.exp(-loaded.labels * predictions))
    expected = [each[:, loaded.groups == group].mean(axis=1) for group in range(3)]
    np.testing.assert_allclose(game.mean_losses(x), np.column_stack([*expected, each.mean(axis=1)]), atol=1e-12)


def test_rates_count_rows() -> None:
    rows = np.array(
        [[1.0, 1.0, 0.0]] * 30 + [[-1.0, 1.0, 0.0]] * 10 + [[1.0, -1.0, 1.0]] * 20 + [[-1.0, -1.0, 1.0]] * 40
    )
    game = GroupLoss(data=upload()).build({ID: rows})
    rates = game.rates(np.vstack([at(0.5), at(-0.5), at(0.0)]))
    assert rates is not None
    nan = np.nan
    np.testing.assert_allclose(rates.error[:2], [[1 / 4, 1 / 3, nan, 0.3], [3 / 4, 2 / 3, nan, 0.7]])
    np.testing.assert_allclose(rates.selection[:2], [[3 / 4, 1 / 3, nan, 0.5], [1 / 4, 2 / 3, nan, 0.5]])
    np.testing.assert_allclose(rates.true_positive[:2], [[3 / 4, nan, nan, 3 / 4], [1 / 4, nan, nan, 1 / 4]])
    assert (rates.selection[2, :2] == 0).all()  # a prediction of 0 is not positive
    assert unbalanced().rates(at(0.5)) is None  # its labels are no classes


def test_strategies_against_groups_know_their_means_too() -> None:
    generator = np.random.default_rng(1)
    rows = np.column_stack([generator.uniform(-1, 1, (100, 2)), np.zeros(100), [0.0] * 90 + [1.0] * 10])
    game = LossMatrix(data=upload(names=("a", "b"))).build({ID: rows})
    losses = (1 + rows[:, :2]) / 2
    x = np.array([[1.0, 0.0], [0.3, 0.7]])
    expected = np.column_stack([(losses[rows[:, -1] == group] @ x.T).mean(axis=0) for group in (0, 1)])
    np.testing.assert_allclose(game.mean_losses(x)[:, :2], expected, atol=1e-12)
    np.testing.assert_allclose(game.mean_losses(x)[:, 3], (losses @ x.T).mean(axis=0), atol=1e-12)
    assert game.evaluate({"x": x, "y": np.full((2, 3), 1 / 3)})["worst_group_loss"] == pytest.approx(
        expected.max(axis=1)
    )
    assert game.best_on_average.argmax() == losses.mean(axis=0).argmin()


def test_the_fairest_mixture_of_specialists_mixes_them_equally() -> None:
    game = LossMatrix(data=GroupedLosses(rows=3000, dimension=6)).build()
    assert isinstance(game, LossMatrixGame)
    grid = np.random.default_rng(2).dirichlet(np.full(6, 0.5), 2000)
    assert game.highest_mean_loss(game.fairest)[0] <= game.highest_mean_loss(grid).min() + 1e-12
    assert game.highest_mean_loss(game.fairest) == pytest.approx(13 / 30, abs=0.03)
