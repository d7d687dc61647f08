"""Statistical audits: what an attacker who knows everything but one row could tell from the releases.

An audit can refute a privacy claim, never prove one (dpviz/privacy/THEORY.md, section 12). Seeds, events and numbers
of runs are fixed in advance, so a failure is no bad luck: each check has a false alarm rate far below 1 %, and each is
run against a mechanism with a classic bug, which it must refute.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpviz.datasets import UniformLogistic, UploadedTable
from dpviz.families.accelerated import GradientDescent, Nesterov, smoothness
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.privacy.events import Event, Gaussian, Laplace, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, streams
from dpviz.privacy.queries import Query
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

N, DRAWS, CLIP = 1000, 200_000, 1.0
KEY = "9" * 32
FAR = np.array([[40.0, 40.0]])  # where both extreme rows are misclassified beyond doubt


def worst_pair() -> tuple[LogisticProblem, LogisticProblem]:
    """Neighbours whose gradients at FAR are (C, 0)/n and (0, C)/n: further apart than any others."""
    table = np.zeros((N, 3))
    table[:, -1] = -1.0
    one, two = table.copy(), table.copy()
    one[0, 0] = two[0, 1] = 1.0
    data = UploadedTable(identity=KEY, n=N, bounds=((0.0, 1.0),) * 2, names=("a", "b"))
    problem = LogisticRegression(data=data, clip=CLIP)
    return problem.build({KEY: one}), problem.build({KEY: two})


def released(problem: LogisticProblem, events: tuple[Event, ...], seed: int, shrink: float = 1.0) -> list[np.ndarray]:
    """(DRAWS, 2) releases of the gradient at FAR, one array per event; `shrink` understates the sensitivity."""
    mechanisms = Mechanisms(Ledger(FixedEvents(events), 1), seed)
    norm = "l1" if isinstance(events[0], Laplace) else "l2"
    found = []
    for event in events:
        batch = mechanisms.batch(event)
        query = problem.mean_gradient(FAR, batch, norm)  # type: ignore[arg-type]
        # One replicate of many entries: independent noise in each, as if as many runs had been made.
        many = query._replace(value=np.tile(query.value, (DRAWS, 1))[None], sensitivity=query.sensitivity * shrink)
        found.append((batch.laplace if norm == "l1" else batch.gaussian)(many)[0])
    return found


def on_its_side(release: np.ndarray) -> np.ndarray:
    """The event that tells the pair apart best: y₁ ≥ C/n and y₂ ≤ 0."""
    return (release[:, 0] >= CLIP / N * (1 - 1e-9)) & (release[:, 1] <= 0)


def log_ratio(events: tuple[Event, ...], shrink: float = 1.0) -> tuple[float, float]:
    """ln of the ratio of the event's probabilities under the two data sets, and its standard error."""
    hits = []
    for seed, problem in enumerate(worst_pair()):  # the two data sets must not share their noise
        outcomes = [on_its_side(release) for release in released(problem, events, seed, shrink)]
        hits.append(int(np.logical_and.reduce(outcomes).sum()))
    return math.log(hits[0] / hits[1]), math.sqrt(sum(1 / count - 1 / DRAWS for count in hits))


def epsilon_lower_bound(hits: int, false: int, runs: int) -> float:
    """95 % lower bound on ε from `hits` of `runs` on one data set and `false` on the other (Clopper and Pearson)."""
    lower = stats.beta.ppf(0.025, hits, runs - hits + 1) if hits else 0.0
    upper = stats.beta.ppf(0.975, false + 1, runs - false) if false < runs else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf


def mu_lower_bound(hits: int, false: int, runs: int) -> float:
    """95 % lower bound on μ from the same counts."""
    lower, upper = stats.beta.ppf(0.025, hits, runs - hits + 1), stats.beta.ppf(0.975, false + 1, runs - false)
    return float(stats.norm.ppf(lower) - stats.norm.ppf(upper))


# -------------------------------------------------------------------------------------------------------- Laplace noise


def test_one_laplace_step_costs_exactly_its_epsilon() -> None:
    """Check 13: P ≈ ¼ on one side, ¼ e^{-ε} on the other; the log-ratio lies within four standard errors of ε = 1."""
    ratio, error = log_ratio((Laplace(1.0),))
    assert error == pytest.approx(0.008, abs=5e-4)
    assert abs(ratio - 1.0) < 4 * error
    hits = on_its_side(released(worst_pair()[0], (Laplace(1.0),), 0)[0]).mean()
    assert abs(hits - 0.25) < 4 * math.sqrt(0.25 * 0.75 / DRAWS)


def test_the_audit_refutes_the_published_bug() -> None:
    """Errata E1: the scale b/√2 spends √2 ε, which this audit must see."""
    ratio, error = log_ratio((Laplace(1.0),), shrink=1 / math.sqrt(2))
    assert ratio - 1.0 > 20 * error
    assert abs(ratio - math.sqrt(2)) < 4 * error


def test_three_steps_cost_the_sum() -> None:
    """Unequal steps at a frozen point: ε = 0.2 + 0.3 + 0.5; with b/√2 it would be 1.41."""
    events = (Laplace(0.2), Laplace(0.3), Laplace(0.5))
    ratio, error = log_ratio(events)
    assert error < 0.035 and abs(ratio - 1.0) < 4 * error
    ratio, error = log_ratio(events, shrink=1 / math.sqrt(2))
    assert ratio - 1.0 > 8 * error


def test_forgetting_the_factor_two_of_replace_one_is_refuted() -> None:
    ratio, error = log_ratio((Laplace(1.0),), shrink=0.5)
    assert abs(ratio - 2.0) < 4 * error and ratio - 1.0 > 20 * error


# ------------------------------------------------------------------------------------------------------- Gaussian noise


@pytest.mark.parametrize(("shrink", "refuted"), [(1.0, False), (1 / math.sqrt(2), True), (0.5, True)])
def test_one_gaussian_step_costs_no_more_than_its_mu(shrink: float, refuted: bool) -> None:
    """Half-plane through the midpoint of the pair: its distance is √2 C/n, 1/√2 of the sensitivity 2C/n."""
    counts = []
    for seed, problem in enumerate(worst_pair()):
        (release,) = released(problem, (Gaussian(1.0),), seed, shrink)
        counts.append(int((release[:, 0] > release[:, 1]).sum()))
    bound = mu_lower_bound(counts[0], counts[1], DRAWS) * math.sqrt(2)  # an extremal pair would show √2 as much
    assert (bound > 1.0) == refuted
    true = 1 / shrink
    assert abs(bound - true) < 0.02 * true


# ----------------------------------------------------------------------------------------- whole runs of the algorithms


def outputs(method: GradientMethod, problem: LogisticProblem, budget: PureDP | GaussianDP, seed: int) -> np.ndarray:
    """(R, d) last iterates of 2 000 runs."""
    plan = method.plan(problem.facts, budget)
    *_, last = method.run(problem, plan, Mechanisms(Ledger(plan.terms, 2_000), seed))
    return last.output["x"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shrink", [1.0, 1 / math.sqrt(2)])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_runs_end_to_end_spend_no_more_than_their_budget(
    shrink: float, fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of gradient descent at ε = 1, gradients ±C/n; the event is "beyond the first one's noise-free iterate".

    The correct run is not flagged; with b/√2 the full-batch one is. On batches the audit has too little power to refute
    √2, so only the absence of a false alarm is checked there.
    """
    table = np.zeros((20, 2))
    table[:, -1] = -1.0
    one, two = table.copy(), table.copy()
    one[0, 0], two[0] = 1.0, [1.0, 1.0]
    data = UploadedTable(identity=KEY, n=20, bounds=((0.0, 1.0),), names=("a",))
    spec = LogisticRegression(data=data, clip=0.25, start=0.0)
    pair = [spec.build({KEY: t}) for t in (one, two)]
    true = Batch.laplace
    monkeypatch.setattr(Batch, "laplace", lambda self, q: true(self, q._replace(sensitivity=q.sensitivity * shrink)))
    counts = []
    for seed, problem in enumerate(pair):
        x = outputs(GradientDescent(iterations=1, batch_fraction=fraction), problem, PureDP(epsilon=1.0), seed)
        counts.append(int((x[:, 0] < -0.25 / 20 / problem.facts.smoothness).sum()))
    bound = epsilon_lower_bound(counts[0], counts[1], 2_000)
    if shrink == 1.0:
        assert bound <= 1.0
        assert fraction < 1 or bound > 0.75, "the audit has lost its power"
    elif fraction == 1.0:
        assert bound > 1.0


@pytest.mark.slow
def test_a_run_of_many_steps_spends_no_more_than_its_budget() -> None:
    """Ten steps of DP-NAG, optimal schedule; the last iterate is a function of what was released."""
    counts = []
    for seed, problem in enumerate(worst_pair()):
        method = Nesterov(iterations=10, schedule="optimal")
        x = outputs(method, problem, PureDP(epsilon=1.0), seed)
        counts.append(int((x[:, 0] < x[:, 1]).sum()))
    assert epsilon_lower_bound(counts[0], counts[1], 2_000) <= 1.0


# ------------------------------------------------------------------------------------------------------ white-box noise


def residuals(noise: str, fraction: float, replicates: int = 40, iterations: int = 50) -> np.ndarray:
    """All noise of a run divided by the scale that its plan shows, 40 x 50 x 5 numbers; the bench's gradients are 0."""
    problem = Quadratic(rows=400, dimension=5)
    method = Nesterov(iterations=iterations, schedule="optimal", noise=noise, batch_fraction=fraction)
    budget = PureDP(epsilon=1.0) if noise == "laplace" else GaussianDP(mu=0.5)
    plan = method.plan(problem.facts(), budget)
    seen: list[np.ndarray] = []
    mechanisms = Mechanisms(Ledger(plan.terms, replicates), 2)
    built = problem.build()
    for event, scale in zip(plan.events, plan.noise["gradient"], strict=True):
        batch = mechanisms.batch(event)
        query: Query = built.mean_gradient(np.zeros((replicates, 5)), batch, method.norm)
        assert noise_scale(event, float(query.sensitivity)) == scale
        seen.append((batch.laplace(query) if noise == "laplace" else batch.gaussian(query)) / scale)
    return np.array(seen)


@pytest.mark.parametrize(("noise", "fraction"), [("laplace", 1.0), ("laplace", 0.1), ("gaussian", 1.0)])
def test_noise_has_the_declared_distribution(noise: str, fraction: float) -> None:
    """2 Σ|z|/b ~ χ²(2N) for Laplace, Σ z²/σ² ~ χ²(N) for Gaussian noise; a scale wrong by 3 % would show."""
    z = residuals(noise, fraction)
    count = z.size
    statistic, freedom = (2 * np.abs(z).sum(), 2 * count) if noise == "laplace" else ((z**2).sum(), count)
    assert 1e-3 < stats.chi2.cdf(statistic, freedom) < 1 - 1e-3
    assert stats.kstest(z.ravel(), "laplace" if noise == "laplace" else "norm").pvalue > 1e-3
    # Steps, replicates and coordinates are independent of each other, and signs are fair.
    assert abs(np.sign(z).mean()) < 4 / np.sqrt(count)
    for one, two in ((z[1:], z[:-1]), (z[:, 1:], z[:, :-1]), (z[:, :, 1:], z[:, :, :-1])):
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 4 / np.sqrt(one.size)


@pytest.mark.parametrize(("noise", "draws"), [("laplace", 200), ("gaussian", 100)])
def test_the_white_box_check_refutes_a_scale_that_is_too_small(noise: str, draws: int) -> None:
    """Power .9996 (Laplace, N = 200) and .9997 (Gaussian, N = 100) against b/√2 at the 5 % level."""
    z = residuals(noise, 1.0).ravel()[:draws]
    for shrink, refuted in ((1.0, False), (1 / math.sqrt(2), True)):
        statistic = 2 * np.abs(z * shrink).sum() if noise == "laplace" else ((z * shrink) ** 2).sum()
        level = stats.chi2.cdf(statistic, 2 * draws if noise == "laplace" else draws)
        assert (level < 0.05) == refuted


def test_the_inner_step_on_a_batch_is_audited_with_its_own_parameter() -> None:
    """Amplification cannot be audited from outcomes; what is drawn on the batch can: Δ = 2C/m and the inner ε."""
    event = Sub("wor", 10, N, Laplace(2.0))
    mechanisms = Mechanisms(Ledger(FixedEvents((event,)), 1), 0)
    batch = mechanisms.batch(event)
    query = worst_pair()[0].mean_gradient(FAR, batch, "l1")
    assert query.sensitivity == 2 * CLIP / 10
    many = query._replace(value=np.zeros((1, DRAWS)))
    size = np.abs(batch.laplace(many)).mean()
    assert size == pytest.approx(0.2 / 2.0, rel=4 / np.sqrt(DRAWS))


# -------------------------------------------------------------------------------------------- noise is never used twice


def test_the_release_of_the_smoothness_shares_no_noise_with_the_run() -> None:
    """If both drew the same standard number, their difference would be a noise-free function of the data."""
    problem = LogisticRegression(data=UniformLogistic(rows=1000, dimension=3))
    exact = problem.build().curvature()
    scale = float(exact.sensitivity) / 1.0
    margin = scale * math.log(1 / (2 * smoothness.UNDERESTIMATE))
    for seed in range(5):
        released_smoothness = smoothness.released(problem, 1.0, seed)
        drawn = (4 * (released_smoothness - 2 * problem.regularisation) - margin - exact.value[0]) / scale
        for purpose in (Purpose.NOISE, Purpose.BATCHES, Purpose.PUBLIC):
            for generator in streams(seed, purpose, 200):
                assert np.abs(generator.laplace(size=50) - drawn).min() > 1e-9


def test_no_two_releases_of_a_run_share_noise() -> None:
    z = residuals("laplace", 1.0)
    assert len(np.unique(z)) == z.size
