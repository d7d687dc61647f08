"""Time and memory are bounded at every input: what is composed stays below stated sizes, and searches are short."""

import itertools
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dpviz.families.accelerated import GradientDescent, MultistageNesterov, Nesterov
from dpviz.privacy import calibration, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, pld, subsampled_rdp
from dpviz.privacy.budgets import ApproximateDP, Budget, TradeOff
from dpviz.privacy.calibration import LEVELS
from dpviz.privacy.events import Event, Gaussian, Laplace, Sub
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.linear.linear_models import LogisticRegression
from tests.oracles.composition import optimal_delta
from tests.pairs import all_pairs

MIB = 2**20
FACTS = LogisticRegression().facts()


class Composed:
    """How large the compositions of a test were: cells of the window, and cells of all events on it."""

    def __init__(self) -> None:
        self.windows: list[int] = []
        self.cells: list[int] = []


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Composed]:
    """Watches every composition."""
    found, compose = Composed(), pld._Composition.composed

    def watched(parts: pld._Composition, half: int, size: int) -> object:
        found.windows.append(size)
        found.cells.append(size * sum(map(len, parts.directions)))
        return compose(parts, half, size)

    monkeypatch.setattr(pld._Composition, "composed", watched)
    for cached in (accountants.epsilon_curve, calibration._largest_multiple, tradeoffs._composed_profiles):
        cached.cache_clear()
    yield found
    assert max(found.windows, default=0) <= pld.LARGEST_WINDOW and max(found.cells, default=0) <= pld.MAX_MEMORY


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many different events there were at each look that a search takes at a cost."""
    looks: list[int] = []
    for kind in (ApproximateDP, TradeOff):

        def watched(budget: Budget, events: tuple[Event, ...], cost: Callable[..., float] = kind.cost) -> float:
            looks.append(len(set(events)))
            return cost(budget, events)

        monkeypatch.setattr(kind, "cost", watched)
    return looks


def peak(work: Callable[[], object]) -> float:
    """MiB that were in use at most, beyond what was before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


@pytest.mark.one_in(4)
@all_pairs
@pytest.mark.parametrize("kind", ["wor", "poisson"])
@pytest.mark.parametrize("iterations", [2, 10, 100, 10_000])
@pytest.mark.parametrize(
    "inner", [Laplace(20.0), Laplace(100.0), Gaussian(5.0), Gaussian(14.0), Gaussian(0.01), Laplace(0.01)], ids=str
)
@pytest.mark.parametrize("m", [1, 4, 1000])
def test_a_given_noise(composed: Composed, kind: str, iterations: int, inner: Event, m: int) -> None:
    """Whatever noise is asked about: a rare large loss once made windows of two million cells."""
    events = (Sub(kind, m, 10_000, inner),) * iterations  # type: ignore[arg-type]
    checkpoints = tuple(sorted({max(1, iterations * i // 10) for i in range(1, 11)}))
    curve = accountants.epsilon_curve(events, 1e-6, "pld", checkpoints)
    whole = accountants.epsilon_curve(events, 1e-6, "basic", checkpoints)
    assert (np.diff(curve[np.isfinite(curve)]) >= -1e-9).all() and (curve <= whole)[np.isfinite(curve)].all()
    assert 0 <= tradeoffs.tradeoff(events, 0.01) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wor", "poisson"])
@pytest.mark.parametrize("m", [1, 100])
def test_a_curve_of_many_different_rare_releases(composed: Composed, kind: str, m: int) -> None:
    events = tuple(Sub(kind, m, 10_000, Gaussian(float(mu))) for mu in np.exp(np.linspace(-4, 1.5, 1000)))  # type: ignore[arg-type]
    checkpoints = tuple(range(40, 1001, 40))
    assert peak(lambda: accountants.epsilon_curve(events, 1e-6, "pld", checkpoints)) < 200


@pytest.mark.parametrize("kind", ["wor", "poisson"])
def test_a_coarser_grid_is_still_an_upper_bound(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less room than the window asks for: not below the fine one, and a few percent above it."""
    events = {Sub(kind, 1, 100, Gaussian(1.0)): 1000, Sub(kind, 1, 100, Laplace(2.0)): 500}  # type: ignore[arg-type]
    fine = pld.epsilon_at(events, 1e-6)
    monkeypatch.setattr(pld, "LARGEST_WINDOW", 2500)
    coarse = pld.epsilon_at(events, 1e-6)
    assert fine * (1 - 1e-9) < coarse < 1.1 * fine
    monkeypatch.setattr(pld, "LARGEST_WINDOW", 50)
    with pytest.raises(pld.AccountingLimit, match="cells"):
        pld.epsilon_at(events, 1e-6)


@pytest.mark.slow
@all_pairs
@pytest.mark.parametrize(
    ("budget", "fraction"),
    [
        (ApproximateDP(epsilon=1.1), 0.001),
        (ApproximateDP(epsilon=1.1), 0.01),
        (ApproximateDP(epsilon=1.1), 0.1),
        (TradeOff(), 0.01),
        (TradeOff(), 0.1),
    ],
    ids=str,
)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("method", [GradientDescent, Nesterov, MultistageNesterov])
def test_an_optimal_schedule_is_calibrated_in_few_looks(
    composed: Composed, monkeypatch: pytest.MonkeyPatch, method, fraction: float, noise: str, budget: Budget
) -> None:
    looks = looked_at(monkeypatch)
    chosen = method(iterations=400, schedule="optimal", noise=noise, batch_fraction=fraction, horizon="fixed")
    assert peak(lambda: chosen.plan(FACTS, budget)) < 100
    assert composed.windows and max(looks) <= LEVELS
    assert len(looks) <= 16 and sum(look > calibration._ROUGH_LEVELS for look in looks) <= 7


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sampling", ["wor", "poisson"])
def test_equal_releases_are_calibrated_in_few_looks(monkeypatch: pytest.MonkeyPatch, noise: str, sampling: str) -> None:
    looks = looked_at(monkeypatch)
    for budget, fraction, steps in itertools.product(
        (ApproximateDP(epsilon=0.013, delta=3e-9), ApproximateDP(epsilon=40.0, delta=1e-5), TradeOff()),
        (1e-3, 0.03, 0.5),
        (300, 10_000),
    ):
        looks.clear()
        calibration._largest_multiple.cache_clear()
        means = NoisyMeans(rows=100_000, batch_fraction=fraction, iterations=steps, noise=noise, sampling=sampling)
        means.events(budget)
        assert len(looks) <= 14, (means, budget)


def test_optimal_composition_of_any_number_of_releases() -> None:
    """T = 4e8 took 5 GB. With ε = 1e-5 it is Gaussian to eight digits: μ = √T ε = 0.2."""
    found: list[float] = []
    assert peak(lambda: found.append(closed_forms.optimal_epsilon(1e-5, 4 * 10**8, 1e-6))) < 100
    assert found[0] == pytest.approx(closed_forms.gdp_epsilon(0.2, 1e-6), rel=1e-6)
    assert peak(lambda: closed_forms.optimal_epsilon(2.0, 4 * 10**8, 1e-6)) < 100
    assert optimal_delta(1e-5, 4 * 10**8, found[0]) == pytest.approx(1e-6, rel=1e-9)


def test_divergences_of_hardly_any_noise_on_a_batch_are_not_integrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """μ = 147 took a second: the range of the integral grows with μ, and a simple bound is as good."""
    fine = subsampled_rdp.gaussian("poisson", 1e-3, 20.0, (1.5, 2.0, 8.0))
    monkeypatch.setattr(subsampled_rdp, "_log_excess", None)
    found, more = (subsampled_rdp.gaussian("poisson", 1e-3, mu, (1.5, 2.0, 8.0)) for mu in (20.0001, 147.0))
    np.testing.assert_allclose(found, fine, rtol=1e-3)
    assert (more > found).all() and (found >= fine).all()
