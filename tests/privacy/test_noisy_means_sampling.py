"""Sampling schemes, the guarantee of a given noise, and what accounting saves; numbers of THEORY.md."""

import math

import numpy as np
import pytest
from scipy import stats

from dpviz.errors import UserError
from dpviz.privacy.accounting import accountants, per_event
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian, Laplace, Parallel, StatedApproximateDP, Sub, relation
from dpviz.privacy.statistics.noisy_means import SAVINGS, SCHEMES, STEPS_LIMIT, NoisyMeans, guarantee, savings
from tests.pairs import all_pairs

DELTA = 1e-6
SMALL = NoisyMeans(rows=1000, batch_fraction=0.1, iterations=100)
BUDGETS = [PureDP(epsilon=1.0), ApproximateDP(epsilon=1.0), ZeroConcentratedDP(), GaussianDP()]
SAMPLED = ["wor", "poisson"]


def spent(means: NoisyMeans, budget: Budget) -> float:
    """What a plan uses of its budget, in the budget's own unit, over the whole."""
    events = means.events(budget)
    if isinstance(budget, ApproximateDP):
        return accountants.tightest(events, budget.delta).epsilon / budget.epsilon
    currency = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}[type(budget)]
    (control,) = budget.controls()
    return accountants.total(events, currency) / getattr(budget, control.name)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------- sampling schemes


@all_pairs
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sampling", list(SCHEMES))
def test_every_scheme_uses_up_its_budget_or_says_why_not(sampling: str, noise: str, budget: Budget) -> None:
    means = SMALL.replaced(sampling=sampling, noise=noise, iterations=40)
    impossible = noise == "gaussian" and (
        isinstance(budget, PureDP) or (sampling in SAMPLED and not isinstance(budget, ApproximateDP))
    )
    if impossible:
        with pytest.raises(UserError):
            means.events(budget)
        return
    assert 1 - 2e-4 <= spent(means, budget) <= 1 + 1e-9
    scale = means.noise_scale(budget)
    assert per_event.rho(means.events_of_noise(scale)[0]) == pytest.approx(per_event.rho(means.events(budget)[0]))
    assert means.affordable_steps(budget, scale * (1 + 1e-4)) == 40
    assert means.affordable_steps(budget, scale * 0.97) < 40


def test_sensitivity_follows_the_relation() -> None:
    """dpviz/privacy/THEORY.md, section 1: 2C/m if a row is exchanged, C/m if it is added or removed."""
    for sampling in SCHEMES:
        means = SMALL.replaced(sampling=sampling, clip=3.0)
        m = 1000 if sampling == "all" else 100
        assert means.batch_size == m and means.protects
        assert means.relation == ("add/remove-one" if sampling == "poisson" else "replace-one")
        assert means.sensitivity == pytest.approx((1 if sampling == "poisson" else 2) * 3.0 / m)
        assert relation(means.events_of_noise(0.1)) in (None, means.relation)


def test_events_of_each_scheme() -> None:
    """Noise of scale 0.02 on batches of 100, C = 1: ε₀ = 1 under replace-one, ½ if rows are added or removed."""
    assert SMALL.events_of_noise(0.02) == (Sub("wor", 100, 1000, Laplace(1.0)),) * 100
    poisson = SMALL.replaced(sampling="poisson", noise="gaussian")
    assert poisson.events_of_noise(0.02) == (Sub("poisson", 100, 1000, Gaussian(0.5)),) * 100
    assert SMALL.replaced(sampling="all").events_of_noise(0.002) == (Laplace(1.0),) * 100
    assert SMALL.replaced(sampling="poisson", batch_fraction=1.0).events_of_noise(0.001) == (Laplace(1.0),) * 100
    blocks = SMALL.replaced(sampling="blocks")
    assert blocks.events_of_noise(0.02) == (Parallel((Laplace(1.0),)),) * 10
    assert len(blocks.replaced(iterations=10).events_of_noise(0.02)) == 1
    assert len(blocks.replaced(iterations=11).events_of_noise(0.02)) == 2


def test_one_pass_over_blocks_costs_one_mean_and_epochs_add_up() -> None:
    """THEORY.md, section 8: 10 epochs of Gaussian steps with μ₀ = 1 are μ = √10, ε(1e-6) = 19.4237; claiming
    batches without replacement would say 2.51."""
    shuffled = NoisyMeans(rows=100_000, batch_fraction=0.01, iterations=1000, noise="gaussian", sampling="blocks")
    found = guarantee(shuffled.events_of_noise(shuffled.sensitivity), DELTA)
    assert found.values["mu"] == pytest.approx(math.sqrt(10), rel=1e-12)
    assert found.values["epsilon_at_delta"] == pytest.approx(19.4237, abs=1e-3)
    sampled = shuffled.replaced(sampling="wor")
    assert guarantee(sampled.events_of_noise(sampled.sensitivity), DELTA).reading.epsilon == pytest.approx(
        2.51287, rel=2e-3
    )


@pytest.mark.parametrize(("sampling", "reference"), [("poisson", 2.12452252595), ("wor", 2.51286821488)])
def test_given_noise_reads_as_the_specification_says(sampling: str, reference: float) -> None:
    """TV51 and TV55: μ₀ = 1 on the batch, m/n = 0.01, T = 1000, each under its own relation."""
    means = NoisyMeans(rows=100_000, batch_fraction=0.01, iterations=1000, noise="gaussian", sampling=sampling)
    found = guarantee(means.events_of_noise(means.sensitivity), DELTA)
    assert -1e-4 <= found.reading.epsilon / reference - 1 <= 2e-3
    assert found.values["epsilon"] is None and found.values["rho"] is None and found.values["mu"] is None
    assert set(found.missing) == {"epsilon", "rho", "mu"}


def test_calibrated_poisson_noise_is_what_a_search_by_hand_finds() -> None:
    means = NoisyMeans(rows=1000, batch_fraction=0.05, iterations=200, noise="gaussian", sampling="poisson")
    scale = means.noise_scale(ApproximateDP(epsilon=1.5))
    just_less = guarantee(means.events_of_noise(scale * 0.999), DELTA).reading.epsilon
    assert guarantee(means.events_of_noise(scale), DELTA).reading.epsilon <= 1.5 * (1 + 1e-9) < just_less


# ----------------------------------------------------------------------------------------------------------- guarantees


def test_a_guarantee_has_a_number_or_a_reason_in_every_currency() -> None:
    for events in ((Laplace(0.1),) * 5, (Gaussian(0.3), Laplace(1.0)), (StatedApproximateDP(0.5, 1e-7),), ()):
        found = guarantee(events, DELTA)
        assert set(found.values) == {"epsilon", "epsilon_at_delta", "rho", "mu"}
        assert {name for name, value in found.values.items() if value is None} == set(found.missing)
        assert all(len(reason) > 20 for reason in found.missing.values())
    assert "Raise δ" in guarantee((StatedApproximateDP(0.5, 1e-5),), DELTA).missing["epsilon_at_delta"]


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_noise_needs_a_scale(scale: float) -> None:
    with pytest.raises(UserError, match="`scale` must be a finite number above 0"):
        SMALL.events_of_noise(scale)


# ----------------------------------------------------------------------------------------------------- affordable steps


@pytest.mark.parametrize("sampling", list(SCHEMES))
@pytest.mark.parametrize(
    "budget", [PureDP(epsilon=1.0), ApproximateDP(epsilon=1.0), GaussianDP()], ids=lambda b: b.name
)
def test_affordable_steps_are_the_most_that_the_budget_covers(budget: Budget, sampling: str) -> None:
    means = SMALL.replaced(sampling=sampling, iterations=7)
    scale = means.noise_scale(budget)
    for factor in (0.3, 1.7, 12.0):
        steps = means.affordable_steps(budget, factor * scale)
        assert 0 <= steps < STEPS_LIMIT
        for count, covered in ((steps, True), (steps + 1, False)):
            if 1 <= count <= 10_000:
                longer = means.replaced(iterations=count)
                assert (longer.noise_scale(budget) <= factor * scale * (1 + 2e-5)) == covered


# -------------------------------------------------------------------------------------------------------------- savings


def test_savings_at_the_theorys_worked_example() -> None:
    """THEORY.md, section 11: b = 0.02, m/n = 0.1, T = 100: basic 15.8565, zCDP 8.8646, optimal 8.1234, PLD 5.2352."""
    found = savings(SMALL, 0.02, DELTA)
    assert list(found) == [name for name in SAVINGS if name in found]
    assert found["basic"] == pytest.approx(15.8565, abs=1e-4)
    assert found["zcdp"] == pytest.approx(8.8646, abs=1e-4)
    assert found["optimal"] == pytest.approx(8.1234, abs=1e-4)
    assert found["pld"] == pytest.approx(5.2352, rel=2e-3)
    # Without the credit for sampling, 100 Laplace releases at ε₀ = 1: nothing beats the privacy loss distribution.
    plain = accountants.tightest((Laplace(1.0),) * 100, DELTA).epsilon
    assert found["unsampled"] == pytest.approx(plain) and plain > 3 * found["basic"]


@pytest.mark.parametrize("sampling", list(SCHEMES))
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_better_accounting_never_costs_more(noise: str, sampling: str) -> None:
    means = SMALL.replaced(sampling=sampling, noise=noise)
    for scale in np.geomspace(0.3, 100, 5) * means.sensitivity:
        found = savings(means, float(scale), DELTA)
        assert {"basic", "pld"} <= set(found) <= set(SAVINGS)
        assert ("unsampled" in found) == (sampling != "all")
        assert found["pld"] <= 1.003 * min(found.values())
        assert (
            found["optimal"]
            <= min(found["basic"], found.get("advanced", math.inf)) * (1.2 if noise == "gaussian" else 1.0) + 1e-9
        )
        assert all(math.isfinite(value) and value >= 0 for value in found.values())


def test_tiny_noise_has_no_advanced_composition_but_no_overflow_either() -> None:
    found = savings(NoisyMeans(iterations=3), 1e-9, DELTA)
    assert "advanced" not in found and found["basic"] == pytest.approx(3 * 2e-4 / 1e-9)


def test_sampling_schemes_have_names_and_sentences() -> None:
    for scheme in SCHEMES:
        for rows in (1, 3):
            text = SMALL.replaced(sampling=scheme, rows_per_person=rows).protects
            assert ("exchanged for" in text) != (scheme == "poisson") and ("person" in text) == (rows > 1)


# ------------------------------------------------------------------------------------------- a person with several rows

GRID = np.linspace(-12.0, 12.0, 24_001)


def stick(one: np.ndarray, other: np.ndarray, epsilon: float, cell: float) -> float:
    """The larger of both hockey-stick divergences of two densities on a grid."""
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell) for p, q in ((one, other), (other, one)))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sampling", ["wor", "poisson"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_no_person_shows_in_a_batch_by_more_than_is_charged(rows: int, sampling: str, noise: str) -> None:
    """20 rows of norm 1 in batches of 5, the k rows of a person among them: all of the densities of one mean."""
    n, m, scale = 20, 5, 0.9
    means = NoisyMeans(rows=n, batch_fraction=m / n, sampling=sampling, noise=noise, rows_per_person=rows, iterations=1)
    profile = per_event.profile(means.events_of_noise(scale)[0])
    density = stats.laplace(scale=scale).pdf if noise == "laplace" else stats.norm(scale=scale).pdf

    def of_mean(person: float, others: float, has_person: bool = True) -> np.ndarray:
        """The density of the noisy mean, if the person's rows are all `person`, and all others `others`."""
        if sampling == "wor":
            law = stats.hypergeom(n, rows, m).pmf(np.arange(rows + 1))
            return sum(p * density(GRID - ((m - j) * others + j * person) / m) for j, p in enumerate(law))
        taking_part = stats.binom(n - rows, m / n).pmf(np.arange(n - rows + 1))
        law = stats.binom(rows, m / n).pmf(np.arange(rows + 1)) if has_person else [1.0]
        return sum(
            p * q * density(GRID - (i * others + j * person) / m)
            for j, p in enumerate(law)
            for i, q in enumerate(taking_part)
        )

    pairs = [(of_mean(1, others), of_mean(-1, others, sampling == "wor")) for others in (-1.0, 0.0, 1.0)]
    shares = []
    for epsilon in (0.0, 0.2, 0.6):
        largest, charged = max(stick(*pair, epsilon, GRID[1] - GRID[0]) for pair in pairs), float(profile(epsilon))
        assert largest <= charged * (1 + 1e-6) + 1e-9
        shares.append(largest / max(charged, 1e-3))
    assert max(shares) > (0.95 if rows == 1 else 0.4), "and not much more than is needed"


def test_rows_of_a_person_in_several_blocks_cost_no_more_than_in_one() -> None:
    """Two rows, each in a block of its own: the two means shift by 2C/m each; charged is one that shifts by 4C/m."""
    means = NoisyMeans(rows=20, batch_fraction=0.25, sampling="blocks", rows_per_person=2, iterations=4)
    (event,) = means.events_of_noise(1.0)
    axis = np.linspace(-14, 14, 1401)
    one, other = (stats.laplace(loc=shift).pdf(axis) for shift in (0.0, 2 / 5))
    for epsilon in (0.0, 0.3, 0.7):
        both = stick(np.outer(one, one), np.outer(other, other), epsilon, (axis[1] - axis[0]) ** 2)
        assert both <= float(per_event.profile(event)(epsilon)) * (1 + 1e-3)
