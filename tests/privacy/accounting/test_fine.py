"""The finer grid of losses: at least 20 times closer to the limit, never below it, in bounded memory, or refused."""

import math
import tracemalloc

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from dpviz.privacy.accounting import accountants, closed_forms, fine, pld
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, StatedApproximateDP, StatedPureDP, Sub
from dpviz.privacy.statistics import noisy_means
from dpviz.privacy.statistics.noisy_means import NoisyMeans


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize(("mu", "steps"), [(0.1, 100), (0.03, 1000), (0.01, 10_000), (0.5, 10), (1.0, 3)])
def test_gaussian_losses_come_twenty_times_closer_to_the_closed_form(mu: float, steps: int, delta: float) -> None:
    exact = closed_forms.gdp_epsilon(mu * math.sqrt(steps), delta)
    normal = pld.epsilon_at({Gaussian(mu): steps}, delta)
    found = fine.epsilon({Gaussian(mu): steps}, delta, normal)
    assert found is not None and exact <= found and found - exact <= (normal - exact) / 20
    assert found == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-20, 1e-50, 1e-100])
def test_very_small_deltas_are_no_limit(delta: float) -> None:
    """The normal grid ends at δ = 1e-11, where the FFT's round-off is as large as δ."""
    exact = closed_forms.gdp_epsilon(1.0, delta)
    found = fine.epsilon({Gaussian(0.1): 100}, delta, 1.05 * exact)
    assert found is not None and exact <= found <= exact * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [Gaussian(0.5), Laplace(0.7)], ids=str)
def test_poisson_batches_agree_with_an_independent_library_at_its_finest(inner: Event) -> None:
    steps, delta, share = 50, 1e-6, 0.1
    single: dp_accounting.DpEvent = (
        dp_accounting.GaussianDpEvent(1 / inner.mu)
        if isinstance(inner, Gaussian)
        else dp_accounting.LaplaceDpEvent(1 / inner.eps)  # type: ignore[union-attr]
    )
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=2e-5)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(share, single), steps)
    theirs = accountant.get_epsilon(delta)
    events = (Sub("poisson", 10, 100, inner),) * steps
    normal = accountants.tightest(events, delta)
    found = accountants.tightest(events, delta, precision="fine")
    assert (normal.precision, found.precision) == ("normal", "fine")
    assert found.epsilon == pytest.approx(theirs, rel=1e-6)  # both are upper bounds
    assert abs(found.epsilon - theirs) < (normal.epsilon - theirs) / 20


MIXED = (Gaussian(0.3),) * 10 + (Laplace(0.2),) * 20 + (ExpMech(0.1),) * 50 + (StatedPureDP(0.5),)
CASES: dict[str, tuple[Event, ...]] = {
    "batches without replacement": (Sub("wor", 100, 10_000, Gaussian(1.0)),) * 1000,
    "laplace batches": (Sub("wor", 100, 1000, Laplace(1.0)),) * 100,
    "poisson": (Sub("poisson", 100, 1000, Laplace(1.0)),) * 100,
    "laplace": (Laplace(0.1),) * 100,
    "mixed": MIXED,
    "failing": (StatedApproximateDP(0.1, 1e-10),) * 30 + (Gaussian(0.2),) * 30,
    "rare batches": (Sub("wor", 10, 10_000, Gaussian(2.0)),) * 300,
    "a schedule": tuple(Sub("wor", 100, 10_000, Gaussian(float(mu))) for mu in np.geomspace(0.3, 1.5, 60)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_finer_grid_is_below_the_normal_one_and_near_a_still_finer_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left, the difference to half or a quarter of its cells, is a twentieth of what was won, at most."""
    events, delta = CASES[name], 1e-6
    normal, found = (accountants.tightest(events, delta, precision=which) for which in ("normal", "fine"))  # type: ignore[arg-type]
    assert found.precision == "fine" and found.method == "pld" and found.epsilon < normal.epsilon
    counts = pld.count_releases(accountants.runs_of(events, accountants.MAX_FINE)[0])
    monkeypatch.setattr(fine, "LARGEST_WINDOW", 2**23)
    monkeypatch.setattr(fine, "MAX_CELLS", 2**23)
    monkeypatch.setattr(fine, "MAX_WORK", 2**29)
    monkeypatch.setattr(fine, "FINENESS", (64, 16))
    limit = fine.epsilon(counts, delta, normal.epsilon)
    assert limit is not None and limit <= found.epsilon * (1 + 1e-9)
    assert found.epsilon - limit <= (normal.epsilon - limit) / 20


@pytest.mark.slow
def test_the_window_goes_down_from_a_guess_that_is_far_too_large() -> None:
    """Where the normal grid says nothing, another accountant's ε may be many times what losses prove."""
    for event, steps, delta, guess in (
        (Sub("poisson", 8, 10_000, Gaussian(0.0526)), 9, 4.7e-12, 0.0033),
        (Sub("wor", 110, 10_000, ExpMech(0.0558)), 28, 1.6e-12, 0.0172),
        (Sub("poisson", 112, 10_000, Gaussian(0.0175)), 63, 5.9e-4, 6.4e-5),
        (Gaussian(0.1), 100, 1e-12, 60.0),
    ):
        far, near = (fine.epsilon({event: steps}, delta, start) for start in (guess, 3 * guess))
        assert far is not None and near is not None and 0 < near == pytest.approx(far, rel=1e-5)
        assert near >= 0.9 * closed_forms.gdp_epsilon(1.0, delta) or not isinstance(event, Gaussian)


def test_a_method_keeps_its_own_number() -> None:
    """Selections read tighter by Rényi DP than by their losses, on any grid."""
    found = accountants.tightest((ExpMech(0.1),) * 100, 1e-6, precision="fine")
    assert found.method == "rdp" and found.by_method["pld"] == pytest.approx(2.6118, abs=1e-4)


def test_what_is_too_much_falls_back_to_the_normal_grid_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = tuple(Sub("wor", 100, 10_000, Gaussian(float(mu))) for mu in np.geomspace(0.3, 1.5, 300))
    normal, found = (accountants.tightest(schedule, 1e-6, precision=which) for which in ("normal", "fine"))  # type: ignore[arg-type]
    assert found.precision == "normal" and (found.epsilon, found.method) == (normal.epsilon, normal.method)
    monkeypatch.setattr(fine, "LARGEST_WINDOW", 100)
    few = (Laplace(0.123),) * 50
    found = accountants.tightest(few, 1e-6, precision="fine")
    assert found.precision == "normal" and found.epsilon == accountants.tightest(few, 1e-6).epsilon


def test_exact_and_impossible_readings_stay_what_they_are() -> None:
    exact = accountants.tightest((Gaussian(0.3),) * 9, 1e-6, precision="fine")
    assert exact.precision == "fine" and exact.epsilon == closed_forms.gdp_epsilon(0.3 * 3, 1e-6)
    assert accountants.tightest((Laplace(1.0),), 1e-6, precision="fine").epsilon == pytest.approx(
        1 + 2 * math.log1p(-1e-6), rel=1e-12
    )
    assert accountants.tightest((), 1e-6, precision="fine").epsilon == 0.0
    never = accountants.tightest((StatedApproximateDP(0.1, 0.5),), 1e-6, precision="fine")
    assert never.epsilon == math.inf and never.precision == "normal"
    before, events = (Laplace(0.5),), (Sub("wor", 10, 100, Laplace(1.0)),) * 30
    added = accountants.tightest(events, 1e-6, before, "fine")
    assert added.epsilon == pytest.approx(0.5 + accountants.tightest(events, 1e-6, precision="fine").epsilon, rel=1e-12)


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    rare = (Sub("wor", 10, 100_000, Gaussian(2.0)),) * 1000
    for events in (rare, CASES["a schedule"], (Sub("poisson", 4, 10_000, Gaussian(4.0)),) * 2000):
        tracemalloc.start()
        accountants.tightest(events, 1e-7, precision="fine")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 200 * 2**20


def test_savings_are_read_on_the_finer_grid_on_request() -> None:
    means = NoisyMeans(rows=1000, batch_fraction=0.1, iterations=100, noise="gaussian")
    scale = means.noise_scale(ApproximateDP(epsilon=1.0, delta=1e-6))
    normal, found = noisy_means.savings(means, scale, 1e-6), noisy_means.savings(means, scale, 1e-6, precision="fine")
    assert list(normal) == list(found)
    assert normal["pld"] * (1 - 2e-3) < found["pld"] < normal["pld"] and found["rdp"] == normal["rdp"]
