"""Counts, sums, means, histograms, quantiles: sensitivities over all neighbours, errors against what is drawn."""

import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.privacy.accounting import per_event
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace, Relation, Repeat
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import (
    Analyses,
    Count,
    Histogram,
    Mean,
    PlannedStatistic,
    Quantile,
    Statistic,
    Sum,
    smallest_budget,
)

BUDGETS: list[Budget] = [
    PureDP(epsilon=1.0),
    ApproximateDP(epsilon=0.5),
    ZeroConcentratedDP(rho=0.05),
    GaussianDP(mu=0.3),
]
ALL: tuple[Statistic, ...] = (
    Count(name="count"),
    Sum(name="sum", lowest=-1.0, highest=2.0),
    Mean(name="mean", lowest=-1.0, highest=2.0, weight=2.0),
    Histogram(name="histogram", bins=4),
    Quantile(name="quantile", lowest=-1.0, highest=2.0, candidates=4, level=0.3),
)
VALUES = np.array([-1.0, 0.0, 1.0, 2.0])  # of the small world below, and the values that a quantile can have
ROWS = 5
DRAWS = 40_000


def utilities(rows: np.ndarray, level: float = 0.3, values: np.ndarray = VALUES) -> np.ndarray:
    """Minus the rows between each value and the rank q n."""
    rank = level * len(rows)
    below = (rows[:, None] < values).sum(0)
    up_to = (rows[:, None] <= values).sum(0)
    return -np.maximum(np.maximum(below - rank, rank - up_to), 0.0)


# What each of ALL computes, from rows that may be anything: clipped to the declared range, bins or values.
COMPUTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "count": lambda rows: np.array([(rows > 0.5).sum()]),
    "sum": lambda rows: np.array([np.clip(rows, -1, 2).sum()]),
    "mean": lambda rows: np.array([np.clip(rows, -1, 2).mean()]),
    "histogram": lambda rows: (rows[:, None] == VALUES).sum(0),
    "quantile": lambda rows: utilities(np.clip(rows, -1, 2)),
}
# Where the number of rows is secret, a mean is made of two numbers: in [-1, 2] the middle is 0.5, half the width 1.5.
SECRET = COMPUTED | {"mean": lambda rows: np.array([(np.clip(rows, -1, 2) - 0.5).sum(), 1.5 * len(rows)])}
RELATIONS: tuple[Relation, ...] = ("replace-one", "add/remove-one")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", ALL, ids=lambda statistic: statistic.name)
def test_sensitivities_are_the_largest_changes_over_all_neighbours(statistic: Statistic, relation: Relation) -> None:
    """Over all tables of 5 rows with values in and beyond the declared range: never more, and attained; also where a
    person has two of the rows, and all of them are replaced, or added or removed."""
    cells = [-9.0, *VALUES, 9.0]
    for rows_per_person in (1, 2):
        most = {"l1": 0.0, "l2": 0.0, "linf": 0.0, "range": 0.0}
        persons = [*itertools.combinations_with_replacement(cells, rows_per_person)]
        for others in itertools.combinations_with_replacement(cells, ROWS - rows_per_person):
            compute = (COMPUTED if relation == "replace-one" else SECRET)[statistic.name]
            found = [compute(np.array([*others, *person])).astype(float) for person in persons]
            pairs: Iterable[tuple[np.ndarray, np.ndarray]] = itertools.combinations(found, 2)
            if relation == "add/remove-one":  # neighbours of the table without the person
                pairs = itertools.product(found, [compute(np.array(others)).astype(float)])
            for one, other in pairs:
                change = one - other
                sizes = (np.abs(change).sum(), np.linalg.norm(change), np.abs(change).max(), np.ptp(change))
                most = {norm: max(most[norm], float(size)) for norm, size in zip(most, sizes, strict=True)}
        norms = ("linf", "range") if isinstance(statistic, Quantile) else ("l1", "l2", "linf")
        for norm in norms:
            sensitivity = rows_per_person * statistic.sensitivity(norm, ROWS, relation)  # type: ignore[arg-type]
            # Two rows move the scores of this small table by a range of 3.5 (2.3), as no rank is farther from q n.
            is_cut = rows_per_person > 1 and norm == "range"
            largest = {"replace-one": 3.5, "add/remove-one": 2.3}[relation] if is_cut else sensitivity
            assert most[norm] == pytest.approx(largest)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_error_of_a_mean_of_secretly_many_rows_is_a_bound_that_is_attained(noise: str) -> None:
    """At a mean of (1 - e)/2 of the range below its end, 5 % of the releases are off by more, a half of them at each
    side, and nowhere more of them; at all sizes of the noise, up to that which hides everything."""
    random, draws = np.random.default_rng(11), 200_000
    budget = PureDP(epsilon=1.0) if noise == "laplace" else GaussianDP(mu=1.0)
    for rows in (1, 4, 8, 20, 1000):
        plan = Analyses(rows=rows, noise=noise, relation="add/remove-one", statistics=(Mean(lowest=-1.0, highest=1.0),))
        (p,) = plan.planned(budget)
        assert p.scale == pytest.approx(2.0 if noise == "laplace" else math.sqrt(2)) and p.standard_deviation is None
        x, y = (getattr(random, "normal" if noise == "gaussian" else noise)(0, p.scale, draws) for _ in range(2))
        worst = max(0.0, 1 - 1.001 * p.error)
        for mean in (1.0, worst, 0.5, 0.0, -worst):
            count = np.where(rows + y > 0, rows + y, np.nan)
            ratio = np.nan_to_num(np.clip((mean * rows + x) / count, -1, 1))
            share = (np.abs(ratio - mean) > p.error).mean()
            assert share <= 0.05 + 5 * math.sqrt(0.05 / draws)
            if rows == 1000 and abs(mean) == worst:
                assert share == pytest.approx(0.05, abs=5 * math.sqrt(0.05 / draws))
        assert p.is_drowned == (p.error == 2) == (rows < (5 if noise == "laplace" else 2))
        needed = p.rows_needed(0.01)
        errors = [plan.replaced(rows=n).planned(budget)[0].error for n in (needed, needed - 1)]
        assert errors[0] <= 0.02 < errors[1]


def test_a_person_with_k_rows_gets_k_times_the_noise() -> None:
    for budget in BUDGETS:
        one, three = (Analyses(rows_per_person=k, statistics=ALL).planned(budget) for k in (1, 3))
        assert [p.event for p in one] == [p.event for p in three]
        assert [p.scale for p in three] == pytest.approx([3 * p.scale for p in one])
    with pytest.raises(UserError, match="cannot have 30 of 20 rows"):
        Analyses(rows=20, rows_per_person=30, statistics=ALL)


def drawn(planned: PlannedStatistic, values: int = 1) -> np.ndarray:
    """(DRAWS, values) what the mechanism adds to a statistic, as it is released."""
    mechanisms = Mechanisms(Ledger(FixedEvents((planned.event,)), 1), 5)
    norm = "l1" if planned.noise == "laplace" else "l2"
    query = Query(np.zeros((1, DRAWS, values)), planned.sensitivity, norm)  # type: ignore[arg-type]
    noise = getattr(mechanisms, planned.noise)(query, planned.event)[0]
    return np.round(noise) if planned.statistic.is_rounded else noise


@pytest.mark.parametrize("budget", [PureDP(epsilon=1.0), ZeroConcentratedDP(rho=0.05)], ids=lambda b: b.name)
@pytest.mark.parametrize("statistic", ALL[:4], ids=lambda statistic: statistic.name)
def test_the_errors_are_those_of_the_noise_that_is_drawn(statistic: Statistic, budget: Budget) -> None:
    """5 % of the releases are off by more: within 5 standard errors of that share; of whole numbers, at most."""
    (planned,) = Analyses(rows=1000, statistics=(statistic,)).planned(budget)
    off = np.abs(drawn(planned, statistic.value_count))
    tolerance = 5 * math.sqrt(0.05 * 0.95 / DRAWS)
    errors = {planned.error: off[:, 0]}
    if planned.largest_error is not None:
        errors[planned.largest_error] = off.max(axis=1)
    assert len(errors) == 1 + (statistic.value_count > 1)
    for error, found in errors.items():
        assert (found > error).mean() <= 0.05 + tolerance
        smaller = error - 1 if statistic.is_rounded else error * (1 - 1e-9)
        assert (found > smaller).mean() >= 0.05 - tolerance, "no smaller error would do"
    deviation = planned.standard_deviation
    assert deviation is not None
    rounding = 1 / 12 if statistic.is_rounded else 0.0
    assert off.std() ** 2 + off.mean() ** 2 == pytest.approx(deviation**2 + rounding, rel=0.06)


def test_rounding_a_noisy_count_costs_no_privacy_and_discrete_noise_would() -> None:
    """THEORY.md, section 11: δ(ε) of two neighbouring counts, summed over all whole numbers, for ε₀ = 1/b = 1."""
    k = np.arange(-40, 41)
    tails = np.exp(-(np.abs(k[k != 0]) - 0.5))  # P(|rounded| ≥ j)
    rounded = np.full(len(k), -math.expm1(-0.5))
    rounded[k != 0] = tails * -math.expm1(-1) / 2
    discrete = np.exp(-np.abs(k)) * math.tanh(0.5)
    for noise in (rounded, discrete):
        assert noise.sum() == pytest.approx(1) and np.abs(np.diff(np.log(noise))).max() <= 1 + 1e-9, "pure ε"
    for epsilon in (0.0, 0.3, 0.9):
        spent = [np.maximum(noise[1:] - math.exp(epsilon) * noise[:-1], 0).sum() for noise in (rounded, discrete)]
        continuous = float(per_event.profile(Laplace(1.0))(epsilon))
        assert spent[0] <= continuous * (1 + 1e-9) < spent[1]
        assert spent[1] == pytest.approx((math.e - math.exp(epsilon)) / (1 + math.e))  # randomised response
    assert rounded[k >= 3].sum() == pytest.approx(math.cosh(0.5) * discrete[k >= 3].sum()), "and 1.128 is all it gains"
    (planned,) = Analyses(statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    beyond = [rounded[np.abs(k) > error].sum() for error in (planned.error, planned.error - 1)]
    assert beyond[0] <= 0.05 < beyond[1]


def test_the_ranks_of_a_quantile_are_a_bound_that_is_attained() -> None:
    """Of 2 k rows at one value and the others at both ends, every other value is exactly k rows off."""
    n, candidates = 1000, 30
    statistic = Quantile(level=0.3, highest=29.0, candidates=candidates)
    (planned,) = Analyses(rows=n, statistics=(statistic,)).planned(ZeroConcentratedDP(rho=0.05))
    k, rank, middle = math.ceil(planned.error), 300, 12
    rows = np.repeat([0.0, middle, 29.0], [rank - k, 2 * k, n - rank - k])
    scores = utilities(rows, 0.3, np.arange(candidates))
    assert scores[middle] == 0 and set(np.delete(scores, middle)) == {-k}
    repeated = Repeat(planned.event, DRAWS)
    mechanisms = Mechanisms(Ledger(FixedEvents((repeated,)), 1), 3)
    chosen = mechanisms.exponential(Query(scores[None], planned.sensitivity, "range"), repeated)
    worst = (candidates - 1) * math.exp(-k / planned.scale)
    exact = worst / (1 + worst)
    assert exact <= 0.05 < exact * math.exp(1 / planned.scale)
    assert (chosen != middle).mean() == pytest.approx(exact, abs=5 * math.sqrt(0.05 / DRAWS))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
@pytest.mark.parametrize("noise", ["smaller", "laplace", "gaussian"])
def test_all_together_use_up_the_budget_in_shares_like_the_weights(budget: Budget, noise: str) -> None:
    plan = Analyses(rows=200, noise=noise, statistics=ALL)
    if noise == "gaussian" and isinstance(budget, PureDP):
        with pytest.raises(UserError, match="Gaussian noise never gives pure"):
            plan.planned(budget)
        return
    planned = plan.planned(budget)
    spent = budget.spent(allocation.joint_events([(p.share.analysis, p.event) for p in planned]))
    # Where shares of ε are added up under (ε, δ), a δ remains unused.
    assert spent == pytest.approx(budget.limit, rel=1e-2) and spent <= budget.limit * (1 + 1e-9)
    fractions = {p.statistic.name: p.share.fraction for p in planned}
    assert fractions["mean"] == pytest.approx(2 * fractions["sum"], rel=1e-9)  # type: ignore[operator]
    assert planned[-1].noise == "selection"


def test_by_hand_and_the_smaller_noise() -> None:
    """ε = 1 and 5 parts: Laplace of 0.2 each; ρ of 0.1 over the same parts: Gaussian."""
    statistics = (Count(), Mean(highest=80.0), Histogram(bins=10, weight=3.0))
    count, mean, histogram = Analyses(rows=100, statistics=statistics).planned(PureDP(epsilon=1.0))
    assert (count.scale, mean.scale) == pytest.approx((5.0, 4.0)) and histogram.scale == pytest.approx(10 / 3)
    assert mean.error == pytest.approx(4 * math.log(20)) and count.error == math.ceil(5 * math.log(20) - 0.5) == 15
    gaussian = Analyses(rows=100, statistics=statistics).planned(ZeroConcentratedDP(rho=0.1))
    assert {p.noise for p in gaussian} == {"gaussian"} and per_event.rho(gaussian[2].event) == pytest.approx(0.06)
    assert gaussian[2].scale == pytest.approx(math.sqrt(2) / math.sqrt(2 * 0.06))
    # One answer at a small δ is better with Laplace noise, many are not.
    few = Analyses(statistics=(Count(),)).planned(ApproximateDP(epsilon=1.0, delta=1e-6))
    many = Analyses(statistics=(Count(),) * 20).planned(ApproximateDP(epsilon=1.0, delta=1e-6))
    assert {p.noise for p in few} == {"laplace"} and {p.noise for p in many} == {"gaussian"}


def test_the_rows_needed_are_just_enough() -> None:
    plan = Analyses(rows=500, statistics=(Sum(highest=9.0), Mean(lowest=-4.0, highest=5.0), Quantile()))
    for index, of in enumerate((lambda n: 9 * n, lambda n: 9, lambda n: n)):
        needed = plan.planned(PureDP(epsilon=1.0))[index].rows_needed(0.02)

        def relative(n: int, index: int = index, of: Callable[[int], float] = of) -> float:
            return plan.replaced(rows=n).planned(PureDP(epsilon=1.0))[index].error / of(n)

        assert relative(needed) <= 0.02 * (1 + 1e-9) < relative(needed - 1)
    (count,) = Analyses(statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    assert count.error == 3 and count.rows_needed(0.01) == 300


def test_a_plan_is_its_json_and_its_python() -> None:
    plan = Analyses(rows=30, noise="laplace", statistics=ALL)
    assert Analyses.from_json(plan.to_json()) == plan
    made = eval(plan.to_python(), {cls.__name__: cls for cls in (Analyses, Count, Sum, Mean, Histogram, Quantile)})
    assert made == plan and eval(Analyses(statistics=ALL[:1]).to_python(), {"Analyses": Analyses, "Count": Count})


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
@pytest.mark.parametrize(("rows_per_person", "relation"), [(1, "replace-one"), (3, "replace-one"), (2, RELATIONS[1])])
def test_the_smallest_budget_meets_all_errors_and_no_smaller_one_does(
    budget: Budget, rows_per_person: int, relation: Relation
) -> None:
    plan = Analyses(rows=2000, rows_per_person=rows_per_person, relation=relation, statistics=ALL)
    for errors in ((40.0, 300.0, 0.06, 50.0, 90.0), (7.0, 900.0, 0.5, 400.0, 150.0)):
        smallest = smallest_budget(plan, errors, budget)
        assert type(smallest.budget) is type(budget)
        found = [p.error for p in smallest.plan.planned(smallest.budget)]
        assert all(error <= wanted * (1 + 1e-9) for error, wanted in zip(found, errors, strict=True))
        (control, *_) = budget.controls()
        less = smallest.budget.replaced(**{control.name: 0.97 * smallest.budget.limit})
        assert any(p.error > wanted for p, wanted in zip(smallest.plan.planned(less), errors, strict=True))
        spent = budget.spent(tuple(p.event for p in smallest.plan.planned(smallest.budget)))
        assert 0.97 * smallest.budget.limit <= spent <= smallest.budget.limit * (1 + 1e-9)
    with pytest.raises(UserError, match="Accept larger ones"):
        smallest_budget(plan, (0.0, 1e-9, 1e-9, 0.0, 1e-9), budget)


def test_by_hand_what_errors_need() -> None:
    """ε = 1 for a count of error 3 (b = 1), as 3.5/ln 20 = 1.168 ≥ 1; for a mean of error 0.3 in 100 rows ln 20/30."""
    plan = Analyses(rows=100, statistics=(Count(), Mean(highest=1.0)))
    assert smallest_budget(plan, (3.0, 0.3), PureDP()).budget.limit == pytest.approx(
        math.log(20) / 3.5 + math.log(20) / 30, rel=2e-3
    )


def test_the_smallest_budget_may_be_one_that_no_slider_offers() -> None:
    """A sum over [0, 1] with error e needs ε = ln 20 / e."""
    plan = Analyses(rows=100, statistics=(Sum(highest=1.0),))
    for error, epsilon in ((0.03, 99.9), (3000.0, 9.99e-4)):
        assert smallest_budget(plan, (error,), PureDP()).budget.limit == pytest.approx(epsilon, rel=2e-3)
    assert smallest_budget(plan, (3000.0,), PureDP(), on_page=True).budget.limit == 0.01
    with pytest.raises(UserError, match="the largest is 50"):
        smallest_budget(plan, (0.03,), PureDP(), on_page=True)


def test_errors_without_noise_are_those_of_samples() -> None:
    random = np.random.default_rng(8)
    mean = Mean(lowest=-1.0, highest=2.0, typical=1.5, spread=1.2)
    values = random.normal(1.5, 1.2, (4000, 400))
    clipped = np.clip(values, -1, 2)
    bias = mean.clipping_bias(400)
    assert bias == pytest.approx((clipped - values).mean(), abs=5 * 1.2 / math.sqrt(1.6e6))
    assert Sum(lowest=-1.0, highest=2.0, typical=1.5, spread=1.2).clipping_bias(400) == pytest.approx(400 * bias)
    off = np.quantile(np.abs(clipped.mean(1) - clipped.mean()), 0.95)
    assert 0.6 * mean.sampling_error(400) < off <= mean.sampling_error(400), "clipped values spread less"
    assert Mean(spread=9.0).sampling_error(400) == Mean().sampling_error(400) == pytest.approx(1.96 / 40, rel=1e-4)
    counts = random.binomial(400, 0.5, 20_000)
    assert (np.abs(counts - 200) > Count().sampling_error(400)).mean() == pytest.approx(0.05, abs=0.01)
    ranks = random.binomial(400, 0.3, 20_000)  # of the rows that are below the quantile of level 0.3
    assert (np.abs(ranks - 120) > Quantile(level=0.3).sampling_error(400)).mean() == pytest.approx(0.05, abs=0.01)
    assert Mean().clipping_bias(400) is None and Count().clipping_bias(400) == 0


def test_declared_parts_are_in_json_python_and_words() -> None:
    statistics = (
        Count(column="age", comparison="is one of", operands=(3, 4.5)),
        Count(column="a\"'\n", comparison="≠", operands=("3",)),
        Histogram(column="region", keys=(" north ", "so'uth")),
        Histogram(cut_points=(0, 18, 1_234_567.8), bins=9),
    )
    plan = Analyses(statistics=statistics)
    names = {cls.__name__: cls for cls in (Analyses, Count, Histogram)}
    assert Analyses.from_json(plan.to_json()) == plan == eval(plan.to_python(), names)
    _, _, keys, cuts = statistics
    assert keys.keys == ("north", "so'uth") and keys.value_count == 2
    assert keys.replaced(keys=("a", "b", "c")).value_count == 3
    assert cuts.value_count == 2 and cuts.labels == ("[0, 18)", "[18, 1234567.8]") and "1234567.8" in cuts.description
    assert "“age” is one of 3, 4.5" in statistics[0].description and "“north”, “so'uth”" in keys.description


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (Count, {"comparison": "="}),
        (Count, {"operands": (3,)}),
        (Count, {"comparison": "=", "operands": (3, 4)}),
        (Count, {"comparison": "<", "operands": ("a",)}),
        (Count, {"comparison": "is one of", "operands": (3, "a")}),
        (Count, {"comparison": "is one of", "operands": ("a", " a")}),
        (Count, {"comparison": "=", "operands": (" ",)}),
        (Count, {"comparison": "=", "operands": (math.inf,)}),
        (Count, {"comparison": "=", "operands": ("a" * 61,)}),
        (Count, {"column": "a" * 201}),
        (Histogram, {"keys": ("a",)}),
        (Histogram, {"keys": ("a", "a ")}),
        (Histogram, {"keys": ("a", "")}),
        (Histogram, {"keys": tuple(map(str, range(1001)))}),
        (Histogram, {"cut_points": (0, 1)}),
        (Histogram, {"cut_points": (0, 1, 1)}),
        (Histogram, {"cut_points": (0, 1, math.nan)}),
        (Histogram, {"keys": ("a", "b"), "cut_points": (0, 1, 2)}),
    ],
    ids=str,
)
def test_what_is_declared_wrongly_is_a_sentence(cls: type[Statistic], fields: dict[str, object]) -> None:
    with pytest.raises(UserError):
        cls(**fields)


def test_an_error_that_says_nothing_is_known_as_such() -> None:
    """No rank is farther from the median than n/2, none from the lowest tenth than 0.9 n."""
    (count,) = Analyses(rows=20, statistics=(Count(),)).planned(PureDP(epsilon=0.1))
    assert count.error == 30 and count.is_drowned
    for level, rows in ((0.5, 54), (0.1, 30), (0.9, 30)):
        plan = Analyses(statistics=(Quantile(level=level, candidates=2),))  # off by (2/η) ln 19 ranks
        for n in (rows - 1, rows):
            (planned,) = plan.replaced(rows=n).planned(PureDP(epsilon=2 * math.log(19) / 26.9))
            assert planned.error == pytest.approx(26.9) and planned.is_drowned == (n < rows)


def test_what_cannot_be_planned_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="the lowest value must be below the highest"):
        Mean(lowest=1.0, highest=1.0)
    with pytest.raises(UserError, match="not as Rényi"):
        Analyses(statistics=ALL).planned(RenyiDP())
