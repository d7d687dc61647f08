"""Slopes that are estimated from values: unbiased, as precise as the lemmas say, and moved by one row as declared."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc

from dpviz.privacy.batches import Batch
from dpviz.problems.values.black_box import CappedRegression, PhaseRetrieval, Votes
from dpviz.problems.values.value_losses import CappedLoss, SquaredPhaseLoss, ValueLoss
from dpviz.problems.values.value_problem import Directions, Kind, ValueProblem, bank

D, RADIUS, OFFSET = 10, 0.5, 0.2
MOMENT = 7.08770  # E ((d/2r) h)² of |⟨a, x⟩ - y| at ⟨a, x⟩ - y = 0.2
NO_CLIP = np.inf


def leaf(indices: np.ndarray) -> Batch:
    """A batch of these rows (R, b), without anything paid for."""
    nobody: Any = None
    return Batch(None, range(len(indices)), nobody, "replace-one", indices=indices, size=indices.shape[1])


def problem_of(loss: ValueLoss, rows: np.ndarray, targets: np.ndarray, radius: float = RADIUS) -> ValueProblem:
    (n, d), model = rows.shape, PhaseRetrieval()
    facts = replace(model.facts(), n=n, d=d, radius=radius, start=(0.0,) * d)
    return ValueProblem(facts, loss, rows, targets)


def kink(offset: float, n: int = 1) -> ValueProblem:
    """n times |⟨e₁, x⟩ - y| with -y = offset."""
    return problem_of(CappedLoss(np.inf), np.tile(np.eye(D)[0], (n, 1)), np.full((n, 1), -offset))


def closed_form(offset: float) -> float:
    """‖∇f̂_r‖ at a distance from the kink."""
    half = (D + 1) / 2
    return float(2 * betainc(half, half, (1 + np.clip(offset / RADIUS, -1, 1)) / 2) - 1)


def drawn(kind: Kind, count: int, replicates: int, generator: np.random.Generator, d: int = D) -> Directions:
    """Directions whose replicates take turns with one stream: as independent as with one each."""
    return Directions(kind, count, d, [generator] * replicates, float(generator.random()))


def estimates(kind: Kind, count: int, offset: float = OFFSET, batch: int = 1, draws: int = 20_000) -> np.ndarray:
    """(draws, d) slopes at 0, of batches of the same row; 400 of them share a place in the bank."""
    problem, generator, each = kink(offset, batch), np.random.default_rng(7), 400
    rows = np.tile(np.arange(batch), (each, 1))
    found = [
        problem.smoothed_gradient(np.zeros((each, D)), leaf(rows), drawn(kind, count, each, generator), NO_CLIP).value
        for _ in range(draws // each)
    ]
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("kind", "count", "variance"),
    [
        ("iid", 1, MOMENT - 0.824348**2),
        ("iid", D, (MOMENT - 0.824348**2) / D),
        ("orthonormal", D, MOMENT / D - 0.824348**2),
    ],
)
def test_a_slope_is_unbiased_and_has_the_variance_of_its_directions(kind: Kind, count: int, variance: float) -> None:
    """20,000 draws: means within 5 standard errors, variances ±6 %, which is 4 to 5 standard errors of these laws."""
    found, truth = estimates(kind, count), np.eye(D)[0] * closed_form(OFFSET)
    errors = found - truth
    assert np.abs(errors.mean(axis=0)).max() < 5 * errors.std(axis=0).max() / np.sqrt(len(found))
    assert (errors**2).sum(axis=1).mean() == pytest.approx(variance, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count", "variance", "lemma"),
    [
        ("iid", 1, MOMENT - 0.824348**2, 100 / 9),
        ("iid", D, (MOMENT - 0.824348**2) / D, 10 / 9 + 0.9),
        ("orthonormal", D, MOMENT / D - 0.824348**2, 10 / 9),
    ],
)
def test_slopes_over_many_draws(kind: Kind, count: int, variance: float, lemma: float) -> None:
    """100,000 draws: means within 4 standard errors, variances ±2 % of the closed form and within the lemma's."""
    errors = estimates(kind, count, draws=100_000) - np.eye(D)[0] * closed_form(OFFSET)
    assert np.abs(errors.mean(axis=0)).max() < 4 * errors.std(axis=0).max() / np.sqrt(len(errors))
    found = (errors**2).sum(axis=1).mean()
    assert found == pytest.approx(variance, rel=0.02 if kind == "iid" else 0.03) and found < lemma


def test_rows_of_a_batch_have_independent_directions() -> None:
    """Of 64 rows the variance is that of one, over 64: 2,000 draws, ±10 %."""
    for kind, one in (("iid", (MOMENT - 0.824348**2) / D), ("orthonormal", MOMENT / D - 0.824348**2)):
        found = estimates(kind, D, batch=64, draws=2000)  # type: ignore[arg-type]
        error = found - np.eye(D)[0] * closed_form(OFFSET)
        assert 64 * (error**2).sum(axis=1).mean() == pytest.approx(one, rel=0.1)


def test_orthonormal_directions_find_the_slope_of_a_linear_function_exactly() -> None:
    found = estimates("orthonormal", D, offset=2 * RADIUS, draws=400)
    assert np.abs(found - np.eye(D)[0]).max() < 1e-12


@pytest.mark.parametrize(
    ("kind", "symmetric", "variance"),
    [("iid", False, 0.33), ("iid", True, 0.112), ("orthonormal", False, 0.242), ("orthonormal", True, 0.015)],
)
def test_a_change_is_unbiased_and_within_the_lemmas_variance(kind: Kind, symmetric: bool, variance: float) -> None:
    """From 0.2 to 0.1 along the row, both directions for each row: the difference of the closed forms. Variances as
    THEORY.md, 8 has them: ±2.5 %, which is 4 standard errors of 10,000 draws, or more."""
    problem, generator, each = kink(OFFSET), np.random.default_rng(8), 400
    x, before = np.tile(-0.1 * np.eye(D)[0], (each, 1)), np.zeros((each, D))
    rows, clips = np.zeros((each, 1), dtype=int), np.full(each, 0.1)
    found = np.concatenate(
        [
            problem.gradient_change(x, before, leaf(rows), drawn(kind, D, each, generator), clips, symmetric).value
            for _ in range(25)
        ]
    )
    truth = np.eye(D)[0] * (closed_form(OFFSET - 0.1) - closed_form(OFFSET))
    errors = found - truth
    assert np.abs(errors.mean(axis=0)).max() < 5 * errors.std(axis=0).max() / np.sqrt(len(found))
    smoothness = 2.5869  # κ₁₀
    bound = {"iid": D + smoothness**2 * (1 - 1 / D), "orthonormal": D}[kind] * (0.1 / RADIUS) ** 2
    assert (errors**2).sum(axis=1).mean() == pytest.approx(variance, rel=0.025) and variance <= bound


def test_directional_slopes_are_clipped_means() -> None:
    problem = kink(OFFSET, 3)
    along = np.array([2.0 * np.eye(D)[0], np.eye(D)[1]])
    query = problem.directional_slope(np.zeros((2, D)), along, leaf(np.tile(np.arange(3), (2, 1))), 1.5, 0.05)
    assert query.value[:, 0] == pytest.approx([1.5, 0.0]) and query.sensitivity == pytest.approx(2 * 1.5 / 3)


# ---------------------------------------------------------------------------------------------------------- sensitivity


def moved(problem: ValueProblem, other: ValueProblem, x: np.ndarray, kind: Kind, count: int) -> Sequence[float]:
    """How far slope and changes move between two tables, in units of their sensitivity; the same directions."""
    (replicates, d), clip = x.shape, 2 * problem.facts.radius
    batch = leaf(np.tile(np.arange(problem.facts.n), (replicates, 1)))
    found = []
    for one in (problem, other):

        def turned() -> Directions:
            return Directions(kind, count, d, [np.random.default_rng((9, r)) for r in range(replicates)])

        step = x + 0.02
        lengths = np.linalg.norm(step - x, axis=1)
        found.append(
            (
                one.smoothed_gradient(x, batch, turned(), clip),
                one.gradient_change(step, x, batch, turned(), lengths),
                one.gradient_change(step, x, batch, turned(), lengths, symmetric=True),
            )
        )
    return [
        float((np.linalg.norm(a.value - b.value, axis=1) / a.sensitivity).max()) for a, b in zip(*found, strict=True)
    ]


@pytest.mark.parametrize(("kind", "count"), [("orthonormal", 6), ("orthonormal", 2), ("iid", 6), ("iid", 1)])
def test_no_row_moves_an_estimate_by_more_than_its_sensitivity(kind: Kind, count: int) -> None:
    """A function far too steep for its declared constant, at points far away: nearly all differences are clipped, and
    with orthonormal directions a row that is replaced by its opposite moves the slope by nearly all that is allowed."""
    generator = np.random.default_rng(10)
    rows = generator.standard_normal((39, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets, worst = np.zeros((39, 1)), np.zeros(3)
    x = 1e2 * generator.standard_normal((30, 6))
    for replaced in (1e7, 1e300, -1e7):
        others = targets.copy()
        others[5] = replaced  # beyond the parabola: the slopes of this row change their sign
        one, other = (problem_of(SquaredPhaseLoss(), rows, values, 0.1) for values in (targets, others))
        worst = np.maximum(worst, moved(one, other, x, kind, count))
    assert (worst <= 1 + 1e-9).all()
    assert kind == "iid" or worst[0] > 0.999
    assert worst[0] > 0.3


def test_the_sensitivity_is_that_of_the_worked_example() -> None:
    """2 √d L / b = 0.125615 for d = 6 orthonormal directions, b = 39, clipped at 2rL."""
    problem = problem_of(SquaredPhaseLoss(), np.tile(np.eye(6)[0], (39, 1)), np.zeros((39, 1)), 0.1)
    batch = leaf(np.arange(39)[None])
    turned = drawn("orthonormal", 6, 1, np.random.default_rng(0), 6)
    (found,) = np.asarray(problem.smoothed_gradient(np.ones((1, 6)), batch, turned, 0.2).sensitivity)
    assert found == pytest.approx(2 * np.sqrt(6) / 39, rel=1e-12)


def test_values_that_are_no_numbers_count_as_no_difference() -> None:
    class Broken(CappedLoss):
        def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
            found = super().values(arguments, targets)
            found[:1], found[1:2] = np.nan, np.inf
            return found

    problem = problem_of(Broken(np.inf), np.tile(np.eye(6)[0], (4, 1)), np.full((4, 1), -9.0))
    directions = drawn("orthonormal", 6, 1, np.random.default_rng(0), 6)
    found = problem.smoothed_gradient(np.zeros((1, 6)), leaf(np.arange(4)[None]), directions, 1.0)
    assert found.value[0] == pytest.approx(np.eye(6)[0] / 2, abs=1e-12)  # two of four rows are left
    assert not problem.smoothed_gradient(np.full((1, 6), np.inf), leaf(np.arange(4)[None]), directions, 1.0).value.any()


def test_a_batch_of_another_table_is_refused() -> None:
    problem = kink(OFFSET, 3)
    with pytest.raises(ValueError, match="indices of this table"):
        problem.smoothed_gradient(
            np.zeros((1, D)), leaf(np.array([[3]])), drawn("iid", 1, 1, np.random.default_rng(0)), 1.0
        )


def test_a_vote_that_is_clipped_at_its_range_is_not_clipped_at_all() -> None:
    """Half the clip, half the estimate: {-1, 0, 1} is rescaled, and its noise with it."""
    problem = Votes(rows=1000).build()
    batch = leaf(np.arange(1000)[None])
    queries = [
        problem.smoothed_gradient(
            np.zeros((1, 5)), batch, drawn("orthonormal", 5, 1, np.random.default_rng(3), 5), clip
        )
        for clip in (1.0, 0.5)
    ]
    assert queries[0].value == pytest.approx(2 * queries[1].value, abs=1e-9)
    assert queries[0].sensitivity == pytest.approx(2 * np.asarray(queries[1].sensitivity))


@pytest.mark.slow
def test_a_large_batch_in_many_dimensions_stays_below_a_gibibyte() -> None:
    """1,000 rows, 100 parameters, 100 directions each, 8 replicates: 800,000 differences with 100 numbers each."""
    model = PhaseRetrieval(rows=1000, dimension=100)
    problem = model.build()
    directions = Directions("orthonormal", 100, 100, [np.random.default_rng(r) for r in range(8)])
    batch = leaf(np.tile(np.arange(1000), (8, 1)))
    tracemalloc.start()
    problem.smoothed_gradient(np.ones((8, 100)), batch, directions, 0.2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256e6


@pytest.mark.slow
def test_diagnostics_of_one_run_in_many_dimensions_hold_few_directions_at_once() -> None:
    """4,000 rows with 100 directions of 100 numbers each would be 320 MB; their bank has 32, of which all rows have
    some."""
    problem = PhaseRetrieval(rows=4000, dimension=100).build()
    bank("orthonormal", 100, 100)
    tracemalloc.start()
    problem.evaluate({"x": np.ones((1, 100))})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_a_capped_loss_has_no_difference_above_its_cap() -> None:
    assert CappedRegression(cap=0.25).facts().value_range == 0.25
