"""Formulas known before a run, against worked values, closed forms and simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpviz.families.zeroth_order import VarianceReduced, complexity, theory
from dpviz.families.zeroth_order.complexity import WAYS
from dpviz.families.zeroth_order.theory import Setting, Sums, best_naive, best_reduced
from dpviz.privacy.accounting.closed_forms import gdp_epsilon
from dpviz.privacy.budgets import GaussianDP
from dpviz.privacy.events import Gaussian
from dpviz.privacy.optimal_sums import optimal_mean
from dpviz.problems.values.black_box import PhaseRetrieval
from dpviz.problems.values.value_problem import Kind

FIRST = Setting(n=50_000, d=6, lipschitz=1.0, radius=0.1, gap=0.3, mu=1.0, kind="iid", count=6)
SECOND = Setting(n=1_000_000, d=10, lipschitz=1.0, radius=0.1, gap=1.0, mu=0.5, kind="iid", count=10)


def of(setting: Setting, kind: Kind, count: int | None = None) -> Setting:
    changed = {**vars(setting), "kind": kind, "count": count or setting.d}
    return Setting(**changed)


def test_smoothness_of_the_smoothed_function() -> None:
    """κ_d: 1, 4/π, 3/2, …; at most √d. Attained by |x₁| at 0: the second derivative of E |rv₁| is twice the density of
    r v₁ at 0."""
    known = {1: 1.0, 2: 4 / math.pi, 3: 1.5, 5: 1.875, 10: 2.58690, 100: 7.99882}
    for d, value in known.items():
        assert theory.smoothness_factor(d) == pytest.approx(value, abs=1e-5)
        assert theory.smoothness_factor(d) <= math.sqrt(d) * (1 + 1e-12)
    d, r, h = 5, 0.3, 1e-3
    inside = np.linspace(-1, 1, 400_001)
    density = (1 - inside**2) ** ((d - 1) / 2)
    slopes = [np.sum(np.sign(x + r * inside) * density) / density.sum() for x in (-h, h)]
    assert (slopes[1] - slopes[0]) / (2 * h) == pytest.approx(theory.smoothness_factor(d) / r, rel=1e-3)


def test_variances_are_ordered_and_those_of_the_lemmas() -> None:
    d = 10
    one = theory.gradient_variance("iid", 1, d, 1.0)
    assert one == theory.single_moment(d, 1.0) == pytest.approx(100 / 9)
    many, orthonormal = (theory.gradient_variance(kind, d, d, 1.0) for kind in ("iid", "orthonormal"))  # type: ignore[arg-type]
    assert orthonormal < many < one < 5 * d
    for kind in ("iid", "orthonormal"):
        assert theory.gradient_change_variance(kind, d, d, 1.0, 0.1) < 5 * d / 0.1**2  # type: ignore[arg-type]


def test_how_far_points_of_an_epoch_are_from_their_average() -> None:
    found = [theory.path_radius(length, 1.0, fresh_start=False) for length in (2, 4, 8, 16, 64)]
    assert found == pytest.approx([1.0, 2.25, 4.375, 8.4375, 32.484], abs=1e-3)
    assert theory.reach(16, 40, 0.1 / 16) == pytest.approx(40 * 15 * 0.1 / 16)
    mix = np.random.default_rng(0).random((2, 100_000))
    between = 1 - mix[0] + mix[1]
    assert [between.mean(), (between**2).mean()] == pytest.approx([1, 7 / 6], abs=0.01)


TABLE: dict[int, dict[str, tuple[float, float]]] = {
    16: {
        "independent": (16, 8.5),
        "tree": (20, 10.312),
        "honaker": (12.204, 6.244),
        "square_root": (3.779, 3.229),
        "normalised": (3.180, 2.921),
        "optimal": (3.447, 2.854),
    },
    64: {
        "independent": (64, 32.5),
        "tree": (42, 21.109),
        "honaker": (23.118, 11.607),
        "square_root": (5.707, 4.971),
        "normalised": (4.892, 4.527),
        "optimal": (5.301, 4.409),
    },
}


@pytest.mark.parametrize("length", TABLE)
def test_noise_of_running_sums_is_that_of_the_table(length: int) -> None:
    """Largest and mean variance of a prefix in units of s²/μ²; "published" has the same levels for powers of two."""
    for name, (largest, mean) in TABLE[length].items():
        sums: Sums = name  # type: ignore[assignment]
        assert theory.mean_variance(sums, length) == pytest.approx(mean, abs=2e-3), name
        assert (theory.factorisation(sums, length).rms_error() ** 2).max() == pytest.approx(largest, abs=2e-3), name
    assert theory.mean_variance("published", length) == pytest.approx(theory.mean_variance("tree", length))
    assert theory.mean_variance("published", 63) > theory.mean_variance("tree", 63) == pytest.approx(18.286, abs=1e-3)


def test_optimal_sums_are_no_worse_for_a_first_leaf_that_was_rounded() -> None:
    """Rounded down to 1/√2, one of 0.84 would raise the variance by 40 %, beyond that of the normalised square root."""
    for first in (0.05, 0.4, 0.55, 0.71, 0.84, 0.99, 1.18, 1.7):
        leaves = np.append(first, np.ones(63))
        cost, other = (
            float((theory.factorisation(sums, 64, first).rms_error(leaves) ** 2).mean())
            for sums in ("optimal", "normalised")
        )
        least = float((optimal_mean(64, first).rms_error(leaves) ** 2).mean())
        assert least * (1 - 1e-4) <= cost < 1.03 * least and cost < other


def test_bounds_are_those_of_the_worked_examples() -> None:
    published = theory.reduced_bound(FIRST, 16, 40, 665, 39, 0.1 / 16, theory.mean_variance("published", 16))
    assert (published.travel, published.regret, published.oracle) == pytest.approx(
        (0.096429, 0.330187, 0.641492), abs=1e-5
    )
    assert published.total == pytest.approx(1.068108, abs=1e-5) and published.error == pytest.approx(0.320746, abs=1e-5)
    better = theory.reduced_bound(
        of(FIRST, "orthonormal"), 16, 40, 665, 39, 0.1 / 16, theory.mean_variance("square_root", 16)
    )
    assert (better.regret, better.oracle, better.total) == pytest.approx((0.277202, 0.217613, 0.591243), abs=1e-5)


@pytest.mark.parametrize(
    ("setting", "sums", "kind", "bound", "length", "epochs", "batch"),
    [
        (FIRST, "published", "iid", 0.74806, 128, 13, 15),
        (FIRST, "tree", "iid", 0.70926, 96, 13, None),
        (FIRST, "square_root", "iid", 0.56535, 384, 13, None),
        (FIRST, "square_root", "orthonormal", 0.39973, 1024, 23, 1),
        (SECOND, "published", "iid", 0.59396, 255, 40, None),
        (SECOND, "tree", "iid", 0.56530, 255, 40, None),
        (SECOND, "square_root", "iid", 0.42238, 512, 57, None),
        (SECOND, "square_root", "orthonormal", 0.27602, 1024, 79, None),
    ],
)
def test_the_planner_finds_the_epochs_of_the_table(
    setting: Setting, sums: Sums, kind: Kind, bound: float, length: int, epochs: int, batch: int | None
) -> None:
    found = best_reduced(of(setting, kind), sums)
    assert found.bound == pytest.approx(bound, abs=1e-4)
    assert (found.length, found.epochs) == (length, epochs) and batch in (None, found.batch)
    assert found.first + (length - 1) * found.batch == setting.n // epochs
    own, move = of(setting, kind), setting.radius / length
    first, later = own.sensitivities(found.first, found.batch, move)
    sensitivities = np.append(first, np.full(length - 1, later))
    added = theory.factorisation(sums, length)
    relative = theory.noise_sensitivity(sums, added, sensitivities) / max(first, later)
    variance = relative**2 * float((added.row_norms**2).mean())
    again = theory.reduced_bound(own, length, epochs, found.first, found.batch, move, variance)
    assert again.total == pytest.approx(found.bound, rel=1e-12)


@pytest.mark.parametrize(
    ("setting", "kind", "count", "bound", "length", "epochs", "batch"),
    [
        (FIRST, "iid", 1, 0.46216, 31, 28, 57),
        (FIRST, "orthonormal", 6, 0.32871, 64, 37, 21),
        (SECOND, "iid", 1, 0.37519, 48, 100, 208),
        (SECOND, "orthonormal", 10, 0.25183, 96, 143, 72),
    ],
)
def test_the_planner_of_the_naive_oracle(
    setting: Setting, kind: Kind, count: int, bound: float, length: int, epochs: int, batch: int
) -> None:
    found = best_naive(of(setting, kind, count))
    assert found.bound == pytest.approx(bound, abs=1e-4)
    assert (found.length, found.epochs, found.batch) == (length, epochs, batch)
    again = theory.naive_bound(of(setting, kind, count), length, epochs, batch, setting.radius / length)
    assert again.total == pytest.approx(found.bound, rel=1e-12)


def crossover(sums: theory.Sums, length: int, follows: bool = False) -> float:
    """Ratio of the bounds' private terms, 2e with running sums to e/√T with fresh estimates."""
    return 2 * math.sqrt(length) * theory.noise_ratios(sums, length, follows)[0]


def test_from_which_length_on_the_bound_favours_running_sums() -> None:
    """THEORY.md, 5; in powers of two, and to the step."""
    found = [crossover("published", length) for length in (16, 64, 256, 1024, 4096, 8192)]
    assert found == pytest.approx([6.4, 4.6, 3.0, 1.85, 1.10, 0.84], abs=0.05)
    assert crossover("square_root", 64) == pytest.approx(2.23, abs=0.01)
    assert crossover("square_root", 512) == pytest.approx(1.0, abs=0.05)
    last: tuple[tuple[Sums, int], ...] = (("square_root", 86), ("normalised", 76), ("optimal", 73))
    for sums, length in last:
        above, below = (crossover(sums, steps, follows=True) for steps in (length, length + 1))
        assert below < 1 <= above, sums


@pytest.mark.parametrize("sums", ["published", "tree", "square_root", "normalised", "optimal", "independent"])
def test_ratios_of_noise_are_those_of_what_is_drawn(sums: Sums) -> None:
    """With B₁ = T B₂ rows, all leaves alike: noise of a step and of an epoch's mean, by the covariance of the sums."""
    length = 15
    found = theory.factorisation(sums, length)
    own = Setting(n=0, d=6, lipschitz=1.0, radius=0.1, gap=1.0, mu=1.0, kind="orthonormal", count=6)
    for follows in (False, True):
        setting = replace(own, follows=follows)
        fresh = setting.sensitivities(20.0, 20.0, 0.0)[0]
        later = setting.sensitivities(1e9, 10.0, setting.radius / length)[1]
        covariance = (later * theory.noise_sensitivity(sums, found)) ** 2 * found.decoder() @ found.decoder().T
        step = math.sqrt(np.trace(covariance) / length) / fresh
        epoch = math.sqrt(covariance.sum()) / length / (fresh / math.sqrt(length))
        assert theory.noise_ratios(sums, length, follows) == pytest.approx((step, epoch), rel=1e-12)
        assert epoch < math.sqrt(length) * step * (1 + 1e-12)


def test_the_published_noise_is_that_of_every_level_and_is_booked_as_what_it_costs() -> None:
    """⌈log₂ T⌉ + 1 levels for every row; at T = 16, √5 in place of √4 of equal leaves but the first."""
    for length in (2, 7, 8, 16, 31, 100):
        found = theory.factorisation("published", length)
        assert theory.noise_sensitivity("published", found) == pytest.approx(
            math.sqrt(math.ceil(math.log2(length)) + 1)
        )
        assert theory.noise_sensitivity("published", found) >= theory.noise_sensitivity("tree", found) * (1 - 1e-12)
    facts = PhaseRetrieval().facts()
    for length in (16, 63, 64):
        plans = [
            VarianceReduced(sums=sums, epoch_length=length, iterations=640).plan(facts, GaussianDP(mu=0.3))  # type: ignore[arg-type]
            for sums in ("published", "tree")
        ]
        ratio = plans[0].noise["prefix"] / plans[1].noise["prefix"]
        (paid,), (whole,) = (plan.events for plan in plans)
        assert isinstance(paid, Gaussian) and isinstance(whole, Gaussian)
        assert whole.mu == pytest.approx(0.3) and paid.mu < 0.3
        assert ratio == pytest.approx(np.full(ratio.shape, 0.3 / paid.mu), rel=1e-9)
        assert length != 16 or paid.mu == pytest.approx(0.3 * math.sqrt(4 / 5))


@pytest.mark.parametrize(("length", "mu"), [(4, 1.08), (64, 1.94)])
def test_sums_with_fresh_noise_would_tell_more_than_is_booked(length: int, mu: float) -> None:
    """Erratum E7: the best test of the first leaf, if every sum of a tree had noise of its own."""
    tree = theory.factorisation("tree", length)
    variances = float(tree.sensitivity()) ** 2 * tree.row_norms**2
    assert math.sqrt((1 / variances).sum()) == pytest.approx(mu, abs=0.01)


def test_the_naive_rate_is_that_of_appendix_e() -> None:
    """Without privacy it is the rate of the paper's own oracle; its private term is ε/L of it short."""
    where = (10, 2.0, 1.5, 0.1, 0.3)
    assert theory.naive_rows(*where, math.inf) == pytest.approx(theory.published_rows(*where, math.inf))
    private = [rate(*where, 0.5) - rate(*where, math.inf) for rate in (theory.naive_rows, theory.published_rows)]
    assert private[0] / private[1] == pytest.approx(2.0 / 0.3)


def test_data_complexity_and_when_privacy_is_free() -> None:
    """At μ = √d ε/L both terms of the rate are equal."""
    mu = theory.free_privacy(10, 1.0, 0.3)
    half = theory.published_rows(10, 1.0, 1.0, 0.1, 0.3, math.inf)
    assert theory.published_rows(10, 1.0, 1.0, 0.1, 0.3, mu) == pytest.approx(2 * half)
    assert theory.free_privacy(10, 1.0, 0.3, "orthonormal") == pytest.approx(mu / math.sqrt(10))


def test_the_published_bound_says_nothing_at_fifty_thousand_rows() -> None:
    """E12, at d = 10, F* = L, r = 0.1, μ = 1; of E13, how much less the exact ε is at δ = 10⁻⁵."""
    setting = Setting(n=50_000, d=10, lipschitz=1.0, radius=0.1, gap=1.0, mu=1.0, kind="iid", count=10)
    assert best_reduced(setting, "published").bound == pytest.approx(1.548, abs=1e-3)
    for mu, less in ((3.0, 0.12), (0.3, 0.24)):
        papers = mu**2 / 2 + mu * math.sqrt(2 * math.log(1e5))
        assert 1 - gdp_epsilon(mu, 1e-5) / papers == pytest.approx(less, abs=5e-3)


TEN = Setting(n=1, d=10, lipschitz=1.0, radius=0.1, gap=1.0, mu=0.1, kind="iid", count=10)


@pytest.mark.parametrize("sums", ["published", "tree", "square_root", "independent"])
def test_mean_variances_are_those_of_the_factorisations(sums: complexity.Growing) -> None:
    lengths = (2, 3, 7, 8, 16, 63, 64, 100, 256)
    expected = [theory.mean_variance(sums, length) for length in lengths]
    assert complexity.mean_variances(sums, lengths) == pytest.approx(expected, rel=1e-12)


def test_rows_needed_with_a_small_budget() -> None:
    """μ = 0.1 (section 5); and more than 10¹¹ are said to be too many."""
    found = [complexity.rows_needed(TEN, way, 0.3) for way in WAYS]
    assert found == pytest.approx([2.3e7, 3.3e6, 9.2e6, 2.9e6], rel=0.02)
    assert complexity.rows_needed(TEN, WAYS[0], 1e-3) == math.inf


def test_so_many_rows_are_enough_and_few_less_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the planner at a whole number of rows, whose grid is coarser: within 5 %."""
    monkeypatch.setattr(theory, "LENGTHS", complexity.LENGTHS[:14])
    for way, best in ((WAYS[1], theory.best_reduced), (WAYS[3], theory.best_naive)):
        rows = complexity.rows_needed(TEN, way, 0.3)
        bounds = []
        for factor in (0.9, 1.1):
            setting = replace(TEN, n=int(factor * rows), kind=way.kind)
            more = () if way.sums is None else (way.sums,)
            bounds.append(best(setting, *more).bound)  # type: ignore[operator]
        assert bounds[0] > 0.3 * 0.99 and bounds[1] < 0.3 * 1.01
