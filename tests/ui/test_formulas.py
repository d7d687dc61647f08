"""No formula of the glossary is unchecked: each is computed as it is written, and by the code that its entry names."""

import math
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import binom, kstest, laplace, norm

from dpviz.audits.audit import Neighbours
from dpviz.datasets.synthetic import Saddle
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import quantiles
from dpviz.families.accelerated import GradientDescent, HeavyBall
from dpviz.families.bayesian_optimization.baselines import Surface
from dpviz.families.bayesian_optimization.kernels import Surrogate
from dpviz.families.bayesian_optimization.posterior import Evaluated
from dpviz.families.mirror_descent.audits import SURVEY
from dpviz.families.mirror_descent.methods.algorithms import softmax
from dpviz.families.second_order import ShortStep
from dpviz.families.second_order.advice import solutions
from dpviz.privacy import audit, budgets, calibration, matrix_factorisation, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, pld
from dpviz.privacy.accounting.currencies import price
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, StatedPureDP
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.queries import Query
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.matrix_games import bilinear_gap, equilibrium
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.tuning.tuning import clipped_sum
from dpviz.problems.values.least_norm import least_norm
from dpviz.ui.terms import TERMS

ALARMS = np.array([0.001, 0.01, 0.1, 0.5, 0.9])  # rates of false alarms
DRAWN = np.random.default_rng(0)
Check = Callable[[], object]
CHECKS: dict[str, Check] = {}


def of(slug: str) -> Callable[[Check], Check]:
    def kept(check: Check) -> Check:
        CHECKS[slug] = check
        return check

    return kept


@pytest.mark.one_in(5)
@pytest.mark.parametrize("slug", TERMS)
def test_a_formula_says_what_the_code_computes(slug: str) -> None:
    CHECKS[slug]()


@pytest.mark.parametrize("slug", TERMS)
def test_the_code_of_an_entry_exists(slug: str) -> None:
    *rooms, name = TERMS[slug].code.split(".")
    if rooms[-1][0].isupper():  # a method of a class
        rooms, name = rooms[:-1], f"{rooms[-1]}.{name}"
    found: Any = import_module("dpviz." + ".".join(rooms))
    for part in name.split("."):
        found = getattr(found, part)


def mechanisms(event: Event, replicates: int = 1) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents((event,)), replicates), 7)


def close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    assert found == pytest.approx(expected, rel=tolerance, abs=1e-12)


# ----------------------------------------------------------------------------------------------------------- guarantees


@of("epsilon")
def pure() -> None:
    missed = budgets.PureDP(epsilon=0.7).tradeoff(ALARMS)
    assert (1 - missed <= math.exp(0.7) * ALARMS + 1e-12).all()
    close(1 - missed[:3], math.exp(0.7) * ALARMS[:3])  # attained


@of("delta")
def approximate() -> None:
    missed = budgets.ApproximateDP(epsilon=0.7, delta=1e-3).tradeoff(ALARMS)
    close(1 - missed[:3], math.exp(0.7) * ALARMS[:3] + 1e-3)


@of("rho")
def concentrated() -> None:
    budget = budgets.ZeroConcentratedDP(rho=0.3)
    close([budget.to_renyi(order) for order in (1.5, 2.0, 20.0)], [0.45, 0.6, 6.0])
    assert budget.to_epsilon_at(1e-6) <= 0.3 + 2 * math.sqrt(0.3 * math.log(1e6))


@of("mu")
def gaussian_dp() -> None:
    close(budgets.GaussianDP(mu=1.3).tradeoff(ALARMS), ndtr(ndtri(1 - ALARMS) - 1.3))


@of("renyi")
def renyi() -> None:
    p, q, order = laplace(scale=1 / 0.8), laplace(loc=1, scale=1 / 0.8), 3.0
    moment = quad(lambda x: q.pdf(x) * (p.pdf(x) / q.pdf(x)) ** order, -50, 50, points=[0, 1], limit=400)
    close(closed_forms.laplace_rdp(0.8, np.array([order])), math.log(moment[0]) / (order - 1), 1e-6)


@of("neighbouring")
@of("canary")
def one_row() -> None:
    table, kept = DRAWN.normal(size=(6, 2)), SimpleNamespace(build=lambda tables: tables["a"])
    pair: Any = Neighbours.of(cast(ProblemSpecification, kept), "a", table, (1.0, 1.0), (1.0, -1.0))
    assert pair.one.shape == pair.other.shape == table.shape
    assert np.flatnonzero((pair.one != pair.other).any(axis=1)).tolist() == [pair.row]
    assert (pair.one[1:] == table[1:]).all() and pair.one[0].tolist() == [1.0, 1.0]


@of("profile")
def profile() -> None:
    thresholds = np.linspace(-8, 9, 200_001)  # the best events S are half-lines
    for epsilon in (0.0, 0.5, 2.0):
        found = (ndtr(1.2 - thresholds) - math.exp(epsilon) * ndtr(-thresholds)).max()
        close(closed_forms.gdp_delta(1.2, epsilon), found, 1e-6)


@of("tradeoff")
def tests_by_threshold() -> None:
    p, q = laplace(scale=1 / 0.9), laplace(loc=1, scale=1 / 0.9)
    close(tradeoffs.tradeoff([Laplace(0.9)], ALARMS), q.cdf(p.ppf(1 - ALARMS)))


@of("advantage")
def advantage() -> None:
    alarms = np.linspace(0, 1, 100_001)
    found = tradeoffs.advantage([Gaussian(0.8)])
    close(found, (1 - alarms - closed_forms.gdp_tradeoff(0.8, alarms)).max(), 1e-6)
    close(found, closed_forms.gdp_delta(0.8, 0.0))


# ---------------------------------------------------------------------------------------------------------------- noise


@of("sensitivity")
def farthest() -> None:
    means = NoisyMeans(rows=100, clip=1.5)
    rows = np.zeros((100, 2))
    ends = [clipped_sum(np.vstack([[far, 0.0], rows[1:]]), 1.5)[0] / 100 for far in (-1e9, 1e9)]
    close(means.sensitivity, np.linalg.norm(ends[1] - ends[0]))


@of("clipping")
def clipping() -> None:
    for row in DRAWN.normal(size=(20, 3)) * 2:
        close(clipped_sum(row[None], 1.5)[0], row * min(1, 1.5 / np.linalg.norm(row)))


@of("mechanism")
def noise_is_added() -> None:
    value = np.array([[1.0, -2.0]])
    noisy, noise = (mechanisms(Laplace(1.0)).laplace(Query(at, 0.5, "l1"), Laplace(1.0)) for at in (value, 0 * value))
    close(noisy, value + noise)


@of("laplace")
def laplace_noise() -> None:
    close(noise_scale(Laplace(0.8), 2.0), 2.0 / 0.8)
    drawn = mechanisms(Laplace(0.8)).laplace(Query(np.zeros((1, 5000)), 2.0, "l1"), Laplace(0.8))[0]
    density = laplace(scale=2.0 / 0.8)
    close(density.pdf(1.3), math.exp(-1.3 / 2.5) / (2 * 2.5))
    assert kstest(drawn, density.cdf).pvalue > 1e-3  # fixed seed


@of("gaussian")
def gaussian_noise() -> None:
    close(noise_scale(Gaussian(0.8), 2.0), 2.0 / 0.8)
    close(price(Gaussian(0.8), "rho"), 0.8**2 / 2)
    drawn = mechanisms(Gaussian(0.8)).gaussian(Query(np.zeros((1, 5000)), 2.0, "l2"), Gaussian(0.8))[0]
    assert kstest(drawn, norm(scale=2.0 / 0.8).cdf).pvalue > 1e-3
    assert accountants.total([Gaussian(0.8)], "epsilon") == math.inf


@of("exponential")
def selection() -> None:
    scores, runs = np.array([0.0, 1.0, 3.0]), 4000
    event = ExpMech(0.9)
    drawn = mechanisms(event, runs).exponential(Query(np.tile(scores, (runs, 1)), 2.0, "range"), event)[:, 0]
    weights = np.exp(0.9 * scores / 2.0)
    assert np.bincount(drawn) / runs == pytest.approx(weights / weights.sum(), abs=5 * 0.5 / math.sqrt(runs))


@of("tree")
def nodes_of_a_row() -> None:
    for length in (1, 5, 8, 64, 100):
        tree = matrix_factorisation.binary_tree(length)
        most = 1 + math.ceil(math.log2(length))
        assert np.round(tree.column_norms**2).max() <= most
        assert max(len(matrix_factorisation.tree_nodes(t)) for t in range(1, length + 1)) <= most


@of("leaf")
def leaves_below_nodes() -> None:
    for t in (1, 6, 11, 64):
        nodes = matrix_factorisation.tree_nodes(t)
        assert len(nodes) == t.bit_count()
        assert [leaf for first, last in nodes for leaf in range(first, last + 1)] == list(range(1, t + 1))


@of("sparse_vector")
def first_above() -> None:
    event = StatedPureDP(1e9)  # next to no noise
    above = np.array([[-1.0, -0.5, 0.2, 3.0], [-1.0, -1.0, -1.0, -1.0]])
    assert mechanisms(event, 2).above_threshold(Query(above, 1.0, "linf"), event).tolist() == [2, -1]


# ------------------------------------------------------------------------------------------------------------- counting


@of("composition")
def sums() -> None:
    events = [Gaussian(0.5), Gaussian(1.2), Gaussian(0.3)]
    close(accountants.total([Laplace(0.2), Laplace(0.5)], "epsilon"), 0.7)
    close(accountants.total(events, "rho"), sum(event.mu**2 / 2 for event in events))
    close(accountants.total(events, "mu"), math.hypot(0.5, 1.2, 0.3))


@of("amplification")
def sampling() -> None:
    close(closed_forms.amplify(1.5, 20, 100), math.log(1 + 0.2 * (math.exp(1.5) - 1)))


@of("schedule")
def shares() -> None:
    epsilons = calibration.calibrate_laplace(budgets.PureDP(epsilon=2.0), np.array([1.0, 2.0, 5.0]), 10, 10)
    close(epsilons.sum(), 2.0)
    events = calibration.laplace_events(epsilons, 10, 10)
    close([noise_scale(event, 0.4) for event in events], 0.4 / epsilons)


@of("accountant")
def smallest() -> None:
    events = [Laplace(0.1)] * 50
    found = accountants.tightest(events, 1e-6)
    proven = [accountants.epsilon(events, 1e-6, method) for method in accountants.METHODS]
    close(found.epsilon, min(proven))


@of("loss_distribution")
def losses() -> None:
    mu, epsilon = 1.1, 0.6  # x ~ N(μ, 1) against N(0, 1): L = μ x - μ²/2
    loss = lambda x: mu * x - mu**2 / 2  # noqa: E731
    edge = (epsilon + mu**2 / 2) / mu
    delta = quad(lambda x: norm.pdf(x - mu) * (1 - math.exp(epsilon - loss(x))), edge, 30)[0]
    close(loss(0.3), math.log(norm.pdf(0.3 - mu) / norm.pdf(0.3)))
    close(pld.epsilon_at(pld.counted(((Gaussian(mu), 1),)), delta), epsilon, 1e-4)


# ----------------------------------------------------------------------------------------------------------------- runs

SMALL = Experiment(
    problem=LogisticRegression(), arms=(Arm(label="a", algorithm=GradientDescent(iterations=3)),), replicates=4
)


@of("released")
@of("replicate")
def kinds_of_numbers() -> None:
    *_, last = SMALL.stream()
    shown = last.trace.visible(False)
    assert shown.metrics and all(
        "not private" not in shown.statuses(metric).values() for metric in shown.metrics.values()
    )
    assert set(last.trace.metrics) > set(shown.metrics)
    for name, metric in last.trace.metrics.items():
        assert last.trace.series("a", name)[1].shape[1] == 4
        assert len(set(last.trace.last("a", name))) == (1 if metric.beside else 4), "a constant guess is one number"


@of("band")
def eight_of_ten() -> None:
    runs = np.arange(11.0)[None]
    close(quantiles(runs)[0], [1.0, 5.0, 9.0])


def bench() -> tuple[Any, np.ndarray, np.ndarray]:
    """A quadratic problem, a point (1, d) and its eigenvalues."""
    setting = Quadratic(dimension=3, strong_convexity=0.2, smoothness=2.0)
    return setting.build(), DRAWN.normal(size=(1, 3)), setting.eigenvalues()


@of("excess_loss")
def above_the_best() -> None:
    problem, x, eigenvalues = bench()
    value = lambda at: 0.5 * (eigenvalues * at**2).sum()  # noqa: E731
    close(problem.evaluate({"x": x})["objective_gap"], value(x) - value(0 * x))


@of("smoothness")
def gradient_changes() -> None:
    problem, x, _ = bench()
    far = x + DRAWN.normal(size=(500, 3))
    change = np.linalg.norm(problem.regulariser_gradient(far) - problem.regulariser_gradient(x), axis=1)
    ratios = change / np.linalg.norm(far - x, axis=1)
    assert 0.9 * problem.facts.smoothness < ratios.max() <= problem.facts.smoothness * (1 + 1e-12)


@of("momentum")
def once_more() -> None:
    x, before, gradient = DRAWN.normal(size=(3, 1, 4))
    close(HeavyBall().update(x, before, gradient, 0.3, 0.8), x - 0.3 * gradient + 0.8 * (x - before))


@of("duality_gap")
def gap() -> None:
    payoffs, x, y = DRAWN.normal(size=(3, 4)), DRAWN.dirichlet(np.ones(3)), DRAWN.dirichlet(np.ones(4))
    others, own = np.eye(4), np.eye(3)  # linear functions are extreme at vertices
    expected = max(x @ payoffs @ other for other in others) - min(one @ payoffs @ y for one in own)
    close(bilinear_gap(((payoffs @ y)[None], (x @ payoffs)[None])), expected)
    best = equilibrium(payoffs)
    close(bilinear_gap(((payoffs @ best.y)[None], (best.x @ payoffs)[None])), 0.0)


@of("exponential_weights")
def weights() -> None:
    lost = DRAWN.normal(size=(1, 5))
    close(softmax(-0.7 * lost), np.exp(-0.7 * lost) / np.exp(-0.7 * lost).sum())


@of("marginal")
def cells() -> None:
    marginals = SURVEY.marginals()
    rows = np.array([0, 0, 3, 1])  # of the 2 × 2 cells of two columns
    found = marginals.answers(np.bincount(rows, minlength=4)[None] / 4)[0]
    named = [dict(part.split("=") for part in cell.split(", ")) for cell in marginals.cells]
    levels = ("no", "yes")
    of_rows = [{"a": levels[row // 2], "b": levels[row % 2]} for row in rows]
    close(found, [sum(cell.items() <= row.items() for row in of_rows) / 4 for cell in named])


@of("goldstein")
def shortest_mixture() -> None:
    gradients = np.array([[[1.0, 1.0], [1.0, -1.0]]])  # of |x₂| + x₁ on both sides of its kink
    shares = np.linspace(0, 1, 1001)[:, None]
    mixtures = shares * gradients[0, 0] + (1 - shares) * gradients[0, 1]
    close(least_norm(gradients), np.linalg.norm(mixtures, axis=1).min())


def saddle() -> tuple[Any, np.ndarray]:
    """A problem with a pass at 0, and its Hessian there by differences of gradients."""
    problem = RobustComponent(data=Saddle(rows=1000, dimension=3)).build()
    step = 1e-2

    def value(x: np.ndarray) -> float:
        return float(problem.evaluate({"x": x[None]})["objective"][0])

    moves = step * np.eye(3)
    hessian = [[value(a + b) - value(a - b) - value(b - a) + value(-a - b) for a in moves] for b in moves]
    return problem, np.array(hessian) / (4 * step**2)


@of("negative_curvature")
def a_pass() -> None:
    problem, hessian = saddle()
    found = problem.evaluate({"x": np.zeros((1, 3))})
    values, vectors = np.linalg.eigh(hessian)
    p = vectors[:, 0]
    close(found["gradient_norm"], 0.0)
    assert found["smallest_eigenvalue"] == pytest.approx(p @ hessian @ p, rel=1e-2) == pytest.approx(values[0])
    assert values[0] < 0


@of("second_order")
def both() -> None:
    problem, _ = saddle()
    method = ShortStep()
    arm = Arm(label="a", algorithm=method)
    plan = method.plan(problem.facts, budgets.ApproximateDP(epsilon=1.0, delta=1e-5))
    analysis = method.analysis(problem.facts)
    alpha, beta = analysis.gradient_target, analysis.curvature
    lasts = {
        "gradient_norm": np.array([[0.9, 0.9, 1.1]]) * alpha,
        "smallest_eigenvalue": np.array([[-0.9, -1.1, 1.0]]) * beta,
    }
    trace: Any = SimpleNamespace(series=lambda _, name, gaps: (None, lasts[name]))
    found = solutions(trace, arm, plan)
    assert found is not None and found.tolist() == [True, False, False]


def believed() -> tuple[Any, np.ndarray, np.ndarray]:
    """What is known of a slope at 0 from five points, the inverse K⁻¹, and the kernel's slopes there."""
    surrogate = Surrogate(mean="zero", relative_noise=0.01)
    points = DRAWN.normal(size=(5, 2))
    local, kernel = Evaluated(surrogate, points).at(np.zeros(2)), surrogate.covariance
    inverse = np.linalg.inv(kernel.gram(points, points) + np.diag(local.known.noise(points)))
    return local, inverse, kernel.slopes(np.zeros(2), points)


@of("surrogate")
def slopes() -> None:
    local, inverse, across = believed()
    y = DRAWN.normal(size=5)
    close(local.weights.T @ y, across.T @ inverse @ y, 1e-7)


@of("bias_level")
def unexplained() -> None:
    local, inverse, across = believed()
    left = local.prior - np.trace(across.T @ inverse @ across)
    close(local.unexplained, left / local.prior, 1e-7)


@of("acquisition")
def next_point() -> None:
    points, values = DRAWN.normal(size=(6, 2)), DRAWN.normal(size=6)
    surface, candidates, t = Surface(0.7, 0.1), DRAWN.normal(size=(50, 2)), 3
    surface.learned(points, values)
    kernel, standard = surface._kernel, (values - values.mean()) / values.std()
    gram = kernel.gram(points, points) + (0.1 / values.std()) ** 2 * np.eye(6)
    across = kernel.gram(points, candidates)
    mean = across.T @ np.linalg.solve(gram, standard)
    deviation = np.sqrt(1 - (across * np.linalg.solve(gram, across)).sum(axis=0))
    beta = 0.4 * math.log(50 * t**2 * math.pi**2 / 0.6)
    assert surface.lowest(candidates, t) == np.argmin(mean - math.sqrt(beta) * deviation)


# --------------------------------------------------------------------------------------------------------------- audits


@of("audit")
def from_below() -> None:
    close(audit.least_epsilon(np.array([0.4]), np.array([0.05]), 1e-3), math.log((0.4 - 1e-3) / 0.05))


@of("clopper_pearson")
def ends_of_a_range() -> None:
    low, high = audit.clopper_pearson(7, 50, 0.95)
    close([float(binom.sf(6, 50, low)), float(binom.cdf(7, 50, high))], [0.025, 0.025])
