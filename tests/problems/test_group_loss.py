"""Worst group loss: gradients, sensitivities under hostile rows, certified gaps, the best model for the worst group."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize

from dpviz.datasets.groups import GroupedBundled, GroupedLosses, GroupedSigns, GroupedUpload
from dpviz.problems.games.games import Game, GradientSums
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix, LossMatrixGame
from dpviz.specification import Specification

KEY = "e" * 32
N, D, SHARES = 20, 3, (0.5, 0.3, 0.2)
SETTINGS = [{"loss": loss, "radius": radius} for loss in ("squared", "logistic") for radius in (0.5, 2.0)]
EVERY = pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s['loss']}-{s['radius']}")


def upload(shares: tuple[float, ...] = SHARES, n: int = N, d: int = D) -> GroupedUpload:
    return GroupedUpload(
        identity=KEY,
        n=n,
        bounds=((-1.0, 1.0),) * d,
        names=tuple(f"c{j}" for j in range(d)),
        groups=tuple(f"g{j}" for j in range(len(shares))),
        shares=shares,
    )


def table(seed: int, n: int = N, d: int = D, groups: int = 3) -> np.ndarray:
    generator = np.random.default_rng(seed)
    labels, members = generator.choice([-1.0, 1.0], n), generator.integers(0, groups, n)
    return np.column_stack([generator.uniform(-1, 1, (n, d)), labels, members])


def points(game: Game, replicates: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return tuple(generator.dirichlet(np.full(d, 0.4), replicates) for d in (game.facts.d_x, game.facts.d_y))  # type: ignore[return-value]


def vertices(game: Game, replicates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return tuple(np.eye(d)[generator.integers(d, size=replicates)] for d in (game.facts.d_x, game.facts.d_y))  # type: ignore[return-value]


@EVERY
def test_gradients_are_those_of_the_weighted_loss(settings: dict) -> None:
    game = GroupLoss(data=upload(), **settings).build({KEY: table(0)})
    x, y = points(game, 5)
    g_x, g_y = game.gradients(x, y)
    assert np.allclose(g_y, game.group_losses(x), rtol=0, atol=1e-15)
    direction = points(game, 5, seed=1)[0] - x
    values = [(game.group_losses(x + step * direction) * y).sum(axis=1) for step in (1e-4, -1e-4)]
    assert np.allclose((g_x * direction).sum(axis=1), (values[0] - values[1]) / 2e-4, rtol=0, atol=1e-7)


def test_a_constant_column_lets_a_model_say_the_same_of_all_rows() -> None:
    data = upload().replaced(constant=True)
    assert GroupedUpload.from_json(data.to_json().replace('"constant":true,', "")) == upload()
    specification, plain = GroupLoss(data=data), GroupLoss(data=upload()).facts()
    facts = specification.facts()
    assert facts.d_x == 2 * (D + 1) and (facts.lipschitz, facts.change_x) == (plain.lipschitz, plain.change_x)
    rows = table(0)
    rows[:, D], rows[:2, :D] = -1.0, np.inf
    rows[:4, D] = 1.0
    game = specification.build({KEY: rows})
    assert np.abs(game._features).max() <= 1 and (game._features[:, -1] == 1).all()
    everyone, nobody = np.zeros((1, 8)), np.zeros((1, 8))
    everyone[0, D], nobody[0, 2 * D + 1] = 1.0, 1.0
    yes, no, guess = game.rates(everyone), game.rates(nobody), game.majority()
    assert yes is not None and no is not None and guess is not None
    assert (yes.selection == 1).all() and (no.selection == 0).all() and no.error[0, -1] == 0.2
    np.testing.assert_array_equal(no, guess)


@EVERY
def test_losses_follow_their_formula_row_by_row(settings: dict) -> None:
    rows = table(1)
    game = GroupLoss(data=upload(), **settings).build({KEY: rows})
    x, _ = points(game, 2)
    expected = np.zeros((2, 3))
    for r, (row, weights) in itertools.product(range(2), [(row, game.weights(x)) for row in rows]):
        prediction, label, group = weights[r] @ row[:D], row[D], int(row[D + 1])
        loss = (
            0.5 * (prediction - label) ** 2 if settings["loss"] == "squared" else np.log1p(np.exp(-label * prediction))
        )
        expected[r, group] += loss / SHARES[group] / N
    assert np.allclose(game.group_losses(x), expected, rtol=0, atol=1e-14)


@EVERY
def test_blocks_of_rows_add_up_to_the_whole_table(settings: dict) -> None:
    game = GroupLoss(data=GroupedSigns(rows=3000, dimension=8), **settings).build()
    x, y = points(game, 7)
    whole = game.gradients(x, y)
    for single, parts in zip(
        whole,
        zip(game.gradients(x, y, slice(0, 900)), game.gradients(x, y, slice(900, 3000)), strict=True),
        strict=True,
    ):
        assert np.allclose(0.3 * parts[0] + 0.7 * parts[1], single, rtol=0, atol=1e-13)
    for single, rows in zip(whole, game.gradients(x, y, slice(0, 3000)), strict=True):
        assert np.allclose(rows, single, rtol=0, atol=1e-13)


def hostile_row(generator: np.random.Generator) -> np.ndarray:
    """Features, label and group such as an attacker might send; groups are positions, or nonsense."""
    row = generator.choice([-1.0, 1.0, 0.3], D + 2)
    wild = generator.random(D + 2) < 0.3
    row[wild] = generator.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e308, 5e-324, -0.0], wild.sum())
    if generator.random() < 0.7:
        row[-1] = generator.integers(3)
    return row


def moves(before: Game, after: Game, seed: int) -> None:
    """Raises unless scores and noisy gradients move as little as their Queries declare."""
    schedule = [(vertices(before, 4, seed + t), slice(5 * t, 5 * t + 5) if seed % 2 else None) for t in range(3)]
    pair = [GradientSums(game, 4) for game in (before, after)]
    if isinstance(before, LossMatrixGame):
        old, new = before.payoffs(1), after.payoffs(1)  # type: ignore[attr-defined]
        assert np.linalg.norm(new.value - old.value) <= old.sensitivity
    for (x, y), rows in schedule:
        for scores in pair:
            scores.add([(0.8, x, y)], rows)
    for old, new in zip(*([s.utilities_x(s.weight), s.utilities_y(s.weight)] for s in pair), strict=True):
        assert np.isfinite(old.value).all() and np.isfinite(new.value).all()
        assert np.ptp(new.value - old.value, axis=1).max() <= old.sensitivity * (1 + 1e-12)
    (x, y), rows = schedule[0]
    for old, new in zip(
        *(game.gradient_queries(x, y, SimpleNamespace(rows=rows)) for game in (before, after)), strict=True
    ):
        assert np.linalg.norm(new.value - old.value, axis=1).max() <= old.sensitivity * (1 + 1e-12)


@pytest.mark.parametrize("problem", [*SETTINGS, None], ids=str)
def test_no_replaced_row_however_hostile_moves_the_sums_further_than_declared(problem: dict | None) -> None:
    generator = np.random.default_rng(5)
    specification = LossMatrix(data=upload()) if problem is None else GroupLoss(data=upload(), **problem)
    for trial in range(60):
        rows = table(trial)
        rows[:3] = [hostile_row(generator) for _ in range(3)]
        other = rows.copy()
        other[generator.integers(15)] = hostile_row(generator)
        moves(specification.build({KEY: rows}), specification.build({KEY: other}), trial)


def spread(before: Game, after: Game, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Range of the change of both players' scores as a share of what is declared."""
    pair = [GradientSums(game, 1) for game in (before, after)]
    for scores in pair:
        scores.add([(1.0, x, y)])
    queries = zip(*([s.utilities_x(s.weight), s.utilities_y(s.weight)] for s in pair), strict=True)
    return [float(np.ptp(new.value - old.value) / old.sensitivity) if old.sensitivity else 0.0 for old, new in queries]


def test_crafted_pairs_attain_the_declared_ranges() -> None:
    rows = np.zeros((N, D + 2))
    rows[0] = [1.0, 1.0, -1.0, -1.0, 0.0]  # at w = r e₁ the squared loss has slope (r + 1) a
    flipped = rows.copy()
    flipped[0, 1:D] *= -1
    one_group = GroupLoss(data=upload((1.0,)), radius=1.5)
    x = np.eye(2 * D)[:1]
    share = spread(one_group.build({KEY: rows}), one_group.build({KEY: flipped}), x, np.ones((1, 1)))
    assert share == [pytest.approx(1.0), 0.0]
    moved = rows.copy()
    moved[0, -1] = 1.0  # the same large loss, in another group of the same share
    for loss in ("squared", "logistic"):
        two_groups = GroupLoss(data=upload((0.5, 0.5)), radius=1.5, loss=loss)
        assert spread(two_groups.build({KEY: rows}), two_groups.build({KEY: moved}), x, np.full((1, 2), 0.5))[
            1
        ] == pytest.approx(1.0)
    matrix = LossMatrix(data=upload((0.5, 0.5)))
    opposite = rows.copy()
    opposite[0, :D] *= -1
    one = np.array([[1.0, 0.0]])
    assert spread(matrix.build({KEY: rows}), matrix.build({KEY: opposite}), x[:, :D], one)[0] == pytest.approx(1.0)
    assert spread(matrix.build({KEY: rows}), matrix.build({KEY: moved}), x[:, :D], one)[1] == pytest.approx(1.0)


@EVERY
def test_smoothness_constants_hold(settings: dict) -> None:
    rows = table(2)
    rows[:, -1] = 2.0  # all in the group of the smallest share, so that nothing hides the constants
    rows[:, :D] = np.sign(rows[:, :D])
    rows[:, D] = 1.0
    game = GroupLoss(data=upload(), **settings).build({KEY: rows})
    facts, x, y = game.facts, *points(game, 400)
    other_x, other_y = (values[::-1] for values in (x, y))
    distance_x, distance_y = (np.abs(a - b).sum(axis=1) for a, b in ((x, other_x), (y, other_y)))

    def change(function) -> np.ndarray:
        first, second = function(x, y), function(other_x, other_y)
        return np.max([np.abs(a - b).max(axis=1) for a, b in zip(first, second, strict=True)], axis=0)

    assert (change(game.gradients) <= facts.smoothness * (distance_x + distance_y) + 1e-12).all()
    within = np.abs(game.gradients(x, y)[0] - game.gradients(other_x, y)[0]).max(axis=1)
    assert (within <= facts.smoothness_x * distance_x + 1e-12).all()
    # The derivative by y_h has the gradient that the x-player sees when y = e_h: curved in x, also for squared loss.
    last = np.repeat(np.eye(3)[2:], 400, axis=0)
    curved = np.abs(game.gradients(x, last)[0] - game.gradients(other_x, last)[0]).max(axis=1)
    assert (curved <= facts.second_smoothness * distance_x + 1e-12).all()
    assert np.abs(game.gradients(x, y)[0]).max() <= facts.lipschitz + 1e-12


def test_the_second_smoothness_of_the_squared_loss_is_attained() -> None:
    rows = np.tile([1.0, -1.0, 0.0, 1.0, 2.0], (N, 1))
    game = GroupLoss(data=upload(), radius=2.0).build({KEY: rows})
    x, y = np.eye(2 * D)[:2], np.repeat(np.eye(3)[2:], 2, axis=0)
    gradient, _ = game.gradients(x, y)
    assert np.abs(gradient[0] - gradient[1]).max() == pytest.approx(2 * game.facts.second_smoothness)
    assert game.facts.second_smoothness == pytest.approx(2.0**2 / 0.2)


def test_the_default_instance_is_the_published_one() -> None:
    specification = GroupLoss()
    facts = specification.facts()
    assert (facts.n, facts.d_x, facts.d_y) == (20_000, 60, 3)
    assert facts.oscillation_x == pytest.approx(4 / 0.3) and facts.oscillation_y == pytest.approx(2 / 0.3)
    assert facts.smoothness_x == pytest.approx(1 / 0.3) and facts.change_y == facts.oscillation_y
    game = specification.build()
    found = game.evaluate(dict(zip("xy", facts.uniform(3), strict=True)))
    assert found["duality_gap"] == pytest.approx([0.167] * 3, abs=0.003)
    assert found["worst_group_loss"] == pytest.approx([0.25] * 3, abs=0.01)
    best = game.best_in_game
    assert game.group_losses(best).max() == pytest.approx(1 / 12, abs=0.003)  # w = (½, ⅙, ⅙, ⅙): ½ (⅓² + 2/6²)
    assert game.weights(best)[0, :4] == pytest.approx([0.5, 1 / 6, 1 / 6, 1 / 6], abs=0.02)


@EVERY
def test_the_gap_is_certified_and_does_not_depend_on_earlier_calls(settings: dict) -> None:
    specification = GroupLoss(data=upload(n=60), **settings)
    game = specification.build({KEY: table(6, n=60)})
    x, y = points(game, 6)
    found = game.evaluate({"x": x, "y": y})
    alone = specification.build({KEY: table(6, n=60)})
    alone.evaluate({"x": y @ np.eye(3, 2 * D), "y": y})
    again = alone.evaluate({"x": x[2:4], "y": y[2:4]})["duality_gap"]
    assert np.allclose(again, found["duality_gap"][2:4], rtol=0, atol=1e-12)
    for r in range(6):
        reference = minimize(
            lambda u, r=r: float(game.group_losses(u[None])[0] @ y[r]),
            np.full(2 * D, 1 / (2 * D)),
            bounds=[(0, 1)] * (2 * D),
            constraints={"type": "eq", "fun": lambda u: u.sum() - 1},
            options={"ftol": 1e-12},
        ).fun
        gap = game.group_losses(x)[r].max() - reference
        assert gap - 1e-8 <= found["duality_gap"][r] <= gap + 1e-4 + 1e-8


@EVERY
@pytest.mark.parametrize("groups", [1, 3, 8])
def test_the_best_model_for_the_worst_group_agrees_with_a_general_solver(settings: dict, groups: int) -> None:
    specification = GroupLoss(data=upload((1 / groups,) * groups, n=200), **settings)
    game = specification.build({KEY: table(7, n=200, groups=groups)})
    worst_loss, weights = game.group_losses(game.best_in_game).max(), game.weights(game.best_in_game)
    assert weights.shape == (1, D) and np.abs(weights).sum() <= settings["radius"] + 1e-9
    # Epigraph form: the smallest t with L_h(u) ≤ t.
    reference = minimize(
        lambda v: v[-1],
        np.append(np.full(2 * D, 1 / (2 * D)), 5.0),
        bounds=[(0, 1)] * (2 * D) + [(None, None)],
        constraints=[
            {"type": "eq", "fun": lambda v: v[:-1].sum() - 1},
            {"type": "ineq", "fun": lambda v: v[-1] - game.group_losses(v[None, :-1])[0]},
        ],
        options={"ftol": 1e-10, "maxiter": 500},
    ).fun
    assert reference - 1e-6 <= worst_loss <= reference + 1e-4 + 1e-6


def test_groups_without_rows_and_games_with_one_group_work() -> None:
    rows = table(8, groups=1)
    game = GroupLoss(data=upload()).build({KEY: rows})
    x, y = points(game, 2)
    assert (game.group_losses(x)[:, 1:] == 0).all() and (game.evaluate({"x": x, "y": y})["duality_gap"] >= 0).all()
    facts = GroupLoss(data=upload((1.0,))).facts()
    assert facts.d_y == 1 and facts.oscillation_y == facts.change_y == 0.0


def test_real_data_with_a_rare_group_run_through() -> None:
    specification = GroupLoss(data=GroupedBundled(), loss="logistic")
    assert specification.facts().oscillation_x == pytest.approx(100.0) and specification.public
    game = specification.build()
    found = game.evaluate(dict(zip("xy", game.facts.uniform(1), strict=True)))
    assert 0.05 < found["duality_gap"][0] < 0.3 and game.groups == ("excellent", "good", "fair", "poor")


def test_the_loss_matrix_is_the_mean_loss_of_strategies_in_groups() -> None:
    data = GroupedLosses(rows=2000, dimension=5)
    game = LossMatrix(data=data).build()
    matrix, sensitivity, norm, *_ = game.payoffs(2)
    assert matrix.shape == (2, 5, 3) and norm == "l2" and sensitivity == pytest.approx(2 * 3 * np.sqrt(15) / 2000)
    loaded, shares = data.load(), data.facts().shares
    for group, share in enumerate(shares):
        losses = (loaded.features[loaded.groups == group] + 1) / 2
        assert np.allclose(matrix[1, :, group], losses.sum(axis=0) / share / 2000, rtol=0, atol=1e-13)
    x, y = points(game, 3)
    g_x, g_y = game.gradients(x, y)
    assert np.allclose(g_x, y @ matrix[0].T) and np.allclose(g_y, x @ matrix[0])
    halves = [game.gradients(x, y, rows) for rows in (slice(0, 1000), slice(1000, 2000))]
    assert np.allclose((halves[0][0] + halves[1][0]) / 2, g_x) and np.allclose((halves[0][1] + halves[1][1]) / 2, g_y)
    assert game.facts.payoff_bound == game.facts.oscillation_x == game.facts.lipschitz == pytest.approx(3.0)


def test_the_loss_matrix_has_no_gap_at_its_equilibrium() -> None:
    game = LossMatrix().build()
    best = game.equilibrium()
    assert game.evaluate({"x": best.x[None], "y": best.y[None]})["duality_gap"][0] == pytest.approx(0.0, abs=1e-8)
    assert best.value == pytest.approx(13 / 30, abs=0.015) and best.x[:3].sum() == pytest.approx(1)
    uniform = game.evaluate(dict(zip("xy", game.facts.uniform(2), strict=True)))["duality_gap"]
    assert uniform == pytest.approx([0.15] * 2, abs=0.015)


def test_facts_need_no_data_and_settings_survive_a_round_trip() -> None:
    for specification in (GroupLoss(data=upload()), LossMatrix(data=upload()), GroupLoss(loss="logistic", radius=3.0)):
        again = Specification.from_json(specification.to_json())
        assert again == specification and again.facts() == specification.facts()
        assert specification.public is specification.data.public
