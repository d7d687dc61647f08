"""How noise is found where losses are composed: quickly, on the safe side, and with next to nothing left over.

Rough costs only lead to where the cost itself is asked. What it accepts is checked by finer grids and, for Poisson
batches, by an independent library.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpviz.errors import UserError
from dpviz.privacy import calibration, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, pld
from dpviz.privacy.budgets import ApproximateDP, Budget, TradeOff
from dpviz.privacy.events import Event, ExpMech, Gaussian, Sub

STEEP = np.exp(np.linspace(-6, 0, 1000))  # as the optimal schedules of short runs from far away
MILD = np.exp(np.linspace(-1, 0, 300))
RARE = {  # budget, weights, m/n
    "rare, mild": (ApproximateDP(epsilon=1.0, delta=1e-6), MILD, 1e-3),
    "rarest, steep": (ApproximateDP(epsilon=0.05, delta=1e-8), STEEP, 2e-4),
    "rarest, short": (ApproximateDP(epsilon=8.0, delta=4e-10), MILD[::17], 2e-4),
    "often": (ApproximateDP(epsilon=4.0, delta=1e-5), STEEP, 0.02),
    "attack, rarest": (TradeOff(true_positive_rate=0.002, false_positive_rate=2e-4), MILD, 2e-4),
    "attack, often": (TradeOff(), STEEP, 0.3),
}
N = 100_000


def counting(own: Callable[[Budget, tuple[Event, ...]], float], found: Counter[str], name: str):
    """The same method, which counts under `name` how often it is called."""

    def method(self: Budget, events: tuple[Event, ...]) -> float:
        found[name] += 1
        return own(self, events)

    return method


@pytest.fixture
def asked(monkeypatch) -> Iterator[Counter[str]]:
    """How often a cost, and a rough cost, was asked for."""
    found: Counter[str] = Counter()
    for budget in (ApproximateDP, TradeOff):
        for name in ("cost", "rough_cost"):
            monkeypatch.setattr(budget, name, counting(getattr(budget, name), found, name))
    calibration._largest_multiple.cache_clear()
    yield found
    calibration._largest_multiple.cache_clear()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("budget", "weights", "fraction"), RARE.values(), ids=RARE)
def test_few_costs_are_asked_for_and_nothing_is_left(asked, budget: Budget, weights: np.ndarray, fraction: float):
    m = round(fraction * N)
    events = calibration.calibrated_events("gaussian", budget, weights, m, N)
    assert asked["cost"] <= 3 and asked["rough_cost"] <= 12  # there were up to ten costs, of 60 ms each
    # The search stops at 1e-5, and grids differ by as much.
    assert 1 - 3e-5 <= budget.cost(events) / budget.amount <= 1 + 1e-12


def test_a_budget_that_hides_nobody_is_refused_at_once(asked):
    budget = TradeOff(true_positive_rate=0.22, false_positive_rate=1e-4)
    with pytest.raises(UserError, match="only because the batch is rare"):
        calibration.calibrated_events("gaussian", budget, STEEP, 20, N)
    assert asked["cost"] == 1 and asked["rough_cost"] <= 8


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("budget", "weights", "fraction"), RARE.values(), ids=RARE)
def test_on_finer_grids_the_budget_is_kept_and_little_is_lost(budget: Budget, weights: np.ndarray, fraction: float):
    """The ordinary grid lies above the truth by a few parts in a thousand."""
    events = calibration.calibrated_events("gaussian", budget, weights, round(fraction * N), N)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pld, "CELLS_PER_DEVIATION", 2 * pld.CELLS_PER_DEVIATION)
        patch.setattr(pld, "LARGEST_WINDOW", 2**20)
        patch.setattr(pld, "MAX_MEMORY", 2**25)
        if isinstance(budget, ApproximateDP):
            (composed,) = pld.compose([(event, 1) for event in events], budget.delta, 2**18)
            finest = composed.epsilon(budget.delta)
        else:
            assert isinstance(budget, TradeOff)
            finest = 1 - float(tradeoffs.tradeoff(events, budget.false_positive_rate, 2**18))
    assert 0.993 * budget.amount <= finest <= budget.amount


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("weights", "fraction"), [(np.repeat(MILD[::30], 30), 0.002), (STEEP, 0.05)], ids=["rare", "often"]
)
def test_an_independent_library_finds_the_budget_kept_on_poisson_batches(weights: np.ndarray, fraction: float):
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    events = calibration.calibrated_events("gaussian", budget, weights, round(fraction * N), N, sampling="poisson")
    found = {}
    for pessimistic in (False, True):
        whole = None
        for event, count in Counter(events).items():
            assert isinstance(event, Sub) and isinstance(event.inner, Gaussian)
            one = privacy_loss_distribution.from_gaussian_mechanism(
                1 / event.inner.mu,
                sampling_prob=fraction,
                value_discretization_interval=2e-3,
                pessimistic_estimate=pessimistic,
            ).self_compose(count)
            whole = one if whole is None else whole.compose(one)
        assert whole is not None
        found[pessimistic] = whole.get_epsilon_for_delta(budget.delta)
    assert found[False] <= 1.0 <= found[True] * 1.01


@pytest.mark.parametrize("events", [[(Gaussian(3.0), 5)], [(Gaussian(0.1), 300), (Gaussian(4.0), 2)]], ids=str)
@pytest.mark.parametrize("sampling", ["wor", "poisson"])
def test_rough_costs_err_on_the_safe_side_only(sampling, events):
    batches = tuple(Sub(sampling, 20, N, event) for event, count in events for _ in range(count))
    for budget in (ApproximateDP(delta=1e-6), TradeOff(false_positive_rate=1e-4)):
        cost, rough = budget.cost(batches), budget.rough_cost(batches)
        assert cost * (1 - 1e-9) <= rough <= 1.1 * cost
    rough = accountants.rough_pld_epsilon(batches, 1e-6)
    assert rough >= accountants.pld_epsilon(batches, 1e-6) * (1 - 1e-9)


@pytest.mark.parametrize("largest", [1e-3, 0.1, 1.0, 10.0])
def test_few_selections_stand_for_many(largest: float):
    """Never below their divergences, at no order, and hardly above; with as large a sum of ranges."""
    eta = np.concatenate([np.linspace(0, largest, 1500)[1:], np.linspace(0, largest / 9, 1500)[1:]])
    counts = np.repeat([1.0, 64.0], 1499)
    orders = 1 + np.geomspace(0.01, 300, 40)
    few, weights = closed_forms.few_ranges(eta, counts)
    ratio = (weights @ closed_forms.exponential_rdp(few[:, None], orders)) / (
        counts @ closed_forms.exponential_rdp(eta[:, None], orders)
    )
    assert len(few) <= closed_forms.MAX_RANGES
    assert ratio.min() >= 1 - 1e-12 and ratio.max() <= 1 + 2e-4
    assert weights @ few == pytest.approx(counts @ eta, rel=1e-12) and weights.sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-100), (500.0, 0.999)])
def test_selections_cost_no_more_than_planned_where_the_best_order_is_extreme(epsilon: float, delta: float):
    budget, ranges = ApproximateDP(epsilon=epsilon, delta=delta), np.linspace(0.1, 1.0, 400)
    multiple = calibration.calibrate_selections(budget, ranges)
    assert budget.spent(tuple(map(ExpMech, (multiple * ranges).tolist()))) <= epsilon * (1 + 1e-6)


def test_a_selection_is_charged_by_its_own_range():
    """What is drawn is what is counted: few ranges stand for many in the search alone."""
    sizes = np.linspace(0.001, 1.0, 2000)
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    multiple = calibration.calibrate_selections(budget, sizes)
    spent = closed_forms.rdp_epsilon(
        lambda at: closed_forms.exponential_rdp((multiple * sizes)[:, None], at).sum(axis=0), 1e-6
    )
    assert 0.998 <= spent <= 1.0
