"""Non-convex risks: no data set, however hostile, moves a query by more than its sensitivity, and some pair does."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpviz.datasets import UploadedTable
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Gaussian, Seq, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, NonconvexModel, RobustComponent, SigmoidTukey
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexRisk, logistic_diameter
from dpviz.problems.nonconvex.symmetric import Shape, packed, unpacked
from tests.problems.test_linear_models import hostile_row

KINDS = (LogisticTukey, SigmoidTukey, RobustComponent)
KEY = "e" * 32
N, D = 20, 3
SLACK = 1 + 1e-11  # rows have norm 1 up to 1e-12


def built(kind: type[NonconvexModel], table: np.ndarray, **settings) -> NonconvexRisk:
    """The risk on a table (n, d+1), labels last, through the same door as an upload."""
    n, d = len(table), table.shape[1] - 1
    data = UploadedTable(identity=KEY, n=n, bounds=((-1.0, 1.0),) * d, names=tuple(f"c{j}" for j in range(d)))
    return kind(data=data, **settings).build({KEY: table})


def tables(rows: np.ndarray, labels: np.ndarray | float = 1.0) -> np.ndarray:
    return np.column_stack([rows, np.broadcast_to(labels, len(rows))])


def opened(replicates: int, m: int, n: int = N) -> Batch:
    event = Sub("wor", m, n, Seq((Gaussian(1.0), Gaussian(1.0)))) if m < n else Seq((Gaussian(1.0), Gaussian(1.0)))
    return Mechanisms(Ledger(FixedEvents((event,)), replicates), 3).batch(event)


def points(generator: np.random.Generator, count: int, d: int = D) -> np.ndarray:
    x = generator.standard_normal((count, d)) * 10.0 ** generator.uniform(-2, 2, (count, 1))
    x[0], x[-1] = 0.0, generator.choice([1e100, -1e250, 1e308, np.nan, np.inf], d)  # the start; a diverged replicate
    return x


def queries(risk: NonconvexRisk, x: np.ndarray, batch: Batch | None = None) -> dict[str, Query]:
    steps = np.tile([1e-3, 1.0, 60.0], (len(x), 1))
    found = {
        "gradient": risk.mean_gradient(x, batch),
        "gradient at x": risk.mean_gradient(x, batch, at_state=True),
        "goe": risk.hessian(x, batch, "goe"),
        "upper": risk.hessian(x, batch, "upper"),
    }
    if batch is None:
        direction = np.where(np.isfinite(x), x, 1.0) + 1.0
        others = {"value": risk.mean_value(x), "fall": risk.decrease(x, direction, steps)}
        found |= others | {"eigenvalue": risk.smallest_eigenvalue(x)}
    return found


def moved(one: Query, two: Query) -> np.ndarray:
    """(R,) how far two values are apart, in units of the sensitivity; 0 where nothing may move and nothing does."""
    assert np.isfinite(one.value).all() and np.array_equal(one.sensitivity, two.sensitivity)
    distance = np.linalg.norm(one.value - two.value, np.inf if one.norm == "linf" else 2, axis=1)
    sensitivity = np.broadcast_to(one.sensitivity, len(distance))
    rounding = 1e-13 * (1 + np.abs(one.value).max(axis=1)) / N
    return np.maximum(distance - rounding, 0.0) / np.maximum(sensitivity, 1e-300)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("m", [N, 6, 1], ids=["all", "marked", "gathered"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_neighbour_moves_a_query_by_more_than_declared(kind: type[NonconvexModel], m: int) -> None:
    generator = np.random.default_rng(m)
    largest: dict[str, float] = {}
    for _ in range(40):
        table = np.stack([hostile_row(generator, D) for _ in range(N)])
        table[: N // 2, :D] = generator.standard_normal((N // 2, D))
        other, row = table.copy(), int(generator.integers(N))
        other[row] = hostile_row(generator, D)
        other[row, :D] *= generator.choice([1.0, 1e-300])
        here, there = built(kind, table), built(kind, other)
        assert here.facts == there.facts, "the facts must not depend on the data"
        x = points(generator, 6)
        batch = opened(len(x), m) if m < N else None
        found, moving = queries(here, x, batch), queries(there, x, batch)
        for name, query in found.items():
            change = moved(query, moving[name])
            assert change.max() <= SLACK, name
            largest[name] = max(largest.get(name, 0.0), float(change.max()))
            if m < N:
                untouched = ~(batch.indices == row).any(axis=1)
                assert (change[untouched] == 0).all(), "a row outside of the batch has no influence"
    assert len(largest) == (7 if m == N else 4) and min(largest.values()) > 0.1, "too tame to test anything"


def pair(kind: type[NonconvexModel], one: list[float], two: list[float], labels: tuple[float, float]) -> list:
    """The risks of two tables that differ in their first row."""
    first = np.zeros((N, D))
    second = first.copy()
    first[0, : len(one)], second[0, : len(two)] = one, two
    marks = np.ones(N), np.ones(N)
    marks[0][0], marks[1][0] = labels
    return [built(kind, tables(rows, mark)) for rows, mark in zip((first, second), marks, strict=True)]


E1, E2 = [1.0, 0.0], [0.0, 1.0]
AT_ZERO = np.zeros((1, D))
STEEP = np.array([[1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("kind", "rows", "labels", "x", "largest"),
    [
        (LogisticTukey, (E1, E2), (1, 1), AT_ZERO, math.sqrt(2) / 4),
        (RobustComponent, (E1, E2), (1, 1), AT_ZERO, math.sqrt(2)),
        (SigmoidTukey, (E1, E1), (1, -1), math.log(2 + math.sqrt(3)) * STEEP, 0.192450),
    ],
)
def test_a_pair_attains_the_hessians_sensitivity(
    kind: type[NonconvexModel], rows: tuple, labels: tuple, x: np.ndarray, largest: float
) -> None:
    """families/second_order/THEORY.md, section 9: else the noise would be more than is needed."""
    here, there = pair(kind, rows[0], rows[1], labels)
    for shape in ("goe", "upper"):
        one, two = here.hessian(x, shape=shape), there.hessian(x, shape=shape)
        assert one.sensitivity == pytest.approx(largest / N, rel=1e-6)
        assert moved(one, two) == pytest.approx(1.0, rel=1e-9)  # both matrices are diagonal


def test_pairs_attain_the_other_sensitivities() -> None:
    far, knee = 50 * STEEP, STEEP / math.sqrt(3)
    here, there = pair(SigmoidTukey, E1, E1, (1, -1))
    assert moved(here.mean_gradient(AT_ZERO), there.mean_gradient(AT_ZERO)) == pytest.approx(1.0)
    here, there = pair(LogisticTukey, [-0.03, 0.99955], [-0.03, -0.99955], (1, 1))
    assert moved(here.mean_gradient(1e3 * STEEP), there.mean_gradient(1e3 * STEEP)) > 0.99
    here, there = pair(RobustComponent, [1 / 50 / math.sqrt(3), 0.99993], [1 / 50 / math.sqrt(3), -0.99993], (1, 1))
    assert moved(here.mean_gradient(far), there.mean_gradient(far)) > 0.999
    for kind, x in ((LogisticTukey, -far), (SigmoidTukey, AT_ZERO), (RobustComponent, knee)):
        here, there = pair(kind, E1, [0.0, 0.0], (1, 1))
        fall = [risk.decrease(x, STEEP * 3, np.array([[1e-4]])) for risk in (here, there)]
        assert moved(*fall) == pytest.approx(0.5, rel=1e-3), "half of it by each of the two rows"
    for kind, length in ((LogisticTukey, 2.0), (SigmoidTukey, 2.0)):
        here, there = pair(kind, E1, E1, (1, -1))
        assert moved(here.mean_value(length * STEEP), there.mean_value(length * STEEP)) == pytest.approx(1.0)
    # All rows but one bend up along e₁, and the one that is replaced bends down as much as it can.
    here, there = (
        built(RobustComponent, tables(rows)) for rows in (np.tile([1.0, 0.0], (N, 1)), np.eye(2)[[1] + [0] * 19])
    )
    assert here.facts.curvature_sensitivity == 1.25 and moved(
        here.smallest_eigenvalue(np.array([[1.0, 0.0]])), there.smallest_eigenvalue(np.array([[1.0, 0.0]]))
    ) == pytest.approx(0.8)
    one = built(LogisticTukey, tables(np.tile(np.eye(2), (10, 1))))
    rows = np.tile(np.eye(2), (10, 1))
    rows[0] = 0.0
    two, x = built(LogisticTukey, tables(rows)), np.zeros((1, 2))
    assert moved(one.smallest_eigenvalue(x), two.smallest_eigenvalue(x)) == pytest.approx(1.0)


def test_upper_triangles_move_by_less_than_the_frobenius_norm_of_the_matrix() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 2, 6))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    change = np.einsum("rki,rkj,k->rij", rows, rows, [1.0, -1.0])
    upper = np.linalg.norm(packed(change, "upper"), axis=1)
    assert (upper <= np.linalg.norm(change, axis=(1, 2))).all()
    diagonal = np.diagonal(change, axis1=1, axis2=2)
    assert upper**2 == pytest.approx((np.linalg.norm(change, axis=(1, 2)) ** 2 + (diagonal**2).sum(axis=1)) / 2)


# ------------------------------------------------------------------------------------- the sensitivity that follows x


def test_the_diameter_of_logistic_gradients_has_the_values_of_the_table() -> None:
    """families/second_order/THEORY.md, section 2.1."""
    found = logistic_diameter(np.array([0.0, 1.0, 2.0, 5.0, 10.0, 1e6, 1e100, np.inf, np.nan]))
    assert found[:5] == pytest.approx([1.0, 1.09910, 1.26984, 1.61728, 1.82085], abs=6e-6)
    assert (found[5:] <= 2).all() and (found[5:] > 1.9999).all() and (found[6:] == 2).all()
    lengths = np.linspace(0, 60, 3001)
    assert (np.diff(logistic_diameter(lengths)) >= 0).all()
    assert (logistic_diameter(lengths) <= 2 / (1 + np.exp(-lengths)) * SLACK).all(), "the simple bound 2σ(ϱ)"


@pytest.mark.parametrize("length", [0.0, 0.3, 1.0, 2.0, 5.0, 10.0, 40.0])
def test_no_two_rows_are_farther_apart_than_the_diameter(length: float) -> None:
    """All pairs of a grid of angles and radii: the proof in the docstring is for rows anywhere in the ball."""
    angles, radii = np.meshgrid(np.linspace(0, np.pi, 241), [0.1, 0.4, 0.7, 0.9, 1.0])
    rows = (radii * np.array([np.cos(angles), np.sin(angles)])).reshape(2, -1)
    ends = rows / (1 + np.exp(-length * rows[0]))
    gaps = [np.hypot(ends[0][:, None] - ends[0], ends[1][:, None] + sign * ends[1]).max() for sign in (1, -1)]
    (bound,) = logistic_diameter(np.array([length]))
    assert max(gaps) <= bound <= max(gaps) + 1e-3
    robust = rows * length * rows[0] / (1 + (length * rows[0]) ** 2) ** 2
    gaps = [np.hypot(robust[0][:, None] - robust[0], robust[1][:, None] + sign * robust[1]).max() for sign in (1, -1)]
    (bound,) = RobustComponent().facts().gradient_sensitivity_at(np.array([length]))
    assert max(gaps) <= bound * SLACK


def test_at_the_start_a_gradient_needs_half_the_noise_and_at_a_saddle_none() -> None:
    at_zero = np.zeros(1)
    assert LogisticTukey().facts().gradient_sensitivity_at(at_zero) == pytest.approx(1.0)
    assert SigmoidTukey().facts().gradient_sensitivity_at(at_zero) == 0.5
    assert RobustComponent().facts().gradient_sensitivity_at(np.array([0.0, 0.1, 9.0])) == pytest.approx(
        [0.0, 0.1, 0.649519], abs=1e-6
    )


@pytest.mark.parametrize("shape", ["goe", "upper"])
def test_a_batch_is_one_sample_for_gradient_and_hessian(shape: Shape) -> None:
    generator = np.random.default_rng(0)
    table = tables(generator.standard_normal((N, D)), generator.choice([-1.0, 1.0], N))
    risk, x = built(LogisticTukey, table), generator.standard_normal((4, D))
    for m in (1, 6):
        batch = opened(4, m)
        gradient, hessian = risk.mean_gradient(x, batch), risk.hessian(x, batch, shape)
        for r, chosen in enumerate(batch.indices):
            rows = risk._rows[chosen]
            s = 1 / (1 + np.exp(-rows @ x[r]))
            assert gradient.value[r] == pytest.approx(-((1 - s) @ rows) / m)
            assert unpacked(hessian.value, shape)[r] == pytest.approx((rows.T * (s * (1 - s))) @ rows / m)
        assert gradient.sensitivity == 2 / m and hessian.sensitivity == pytest.approx(math.sqrt(2) / 4 / m)
        assert np.isfinite(batch.gaussian(gradient)).all() and np.isfinite(batch.gaussian(hessian)).all()


# ------------------------------------------------------------------------------------------------------------- attacks


def test_an_attack_gets_what_the_guarantee_of_a_hessian_allows_and_no_more() -> None:
    """families/second_order/THEORY.md, section 9: n = 1, e₁ against e₂, μ = 1. At 5 % false positives the best test is
    right in Φ(Φ⁻¹(0.05) + 1) = 0.2595 of the cases. 40,000 draws: a standard deviation of 0.0022."""
    draws, x = 40_000, np.zeros((1, 2))
    facts = replace(LogisticTukey().facts(), n=1, d=2)
    found = {}
    for world, row in enumerate(np.eye(2)):
        risk = LogisticTukey.risk(facts, LogisticTukey().penalty, row[None])
        query = risk.hessian(x)
        many = query._replace(value=np.tile(query.value, (1, draws, 1)).reshape(1, draws, -1))
        noisy = Mechanisms(Ledger(FixedEvents((Gaussian(1.0),)), 1), world).gaussian(many, Gaussian(1.0))
        matrices = unpacked(noisy[0], "goe")
        found[world] = (matrices[:, 1, 1] - matrices[:, 0, 0]) / math.sqrt(2)
    threshold = np.quantile(found[0], 0.95)
    assert (found[1] > threshold).mean() == pytest.approx(0.2595, abs=0.012)
