"""Analyses carried out: bounded as the plan says whatever the values are, and released as it says."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from dpviz.errors import UserError
from dpviz.people import rows_kept
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.statistics import analyses
from dpviz.privacy.statistics.analyses import Analyses, Count, Histogram, Mean, Quantile, Statistic, Sum
from tests.privacy.test_analyses import ALL, COMPUTED, RELATIONS, ROWS, SECRET, VALUES

HOSTILE = [-np.inf, -1e308, -9.0, *VALUES, 0.4, 9.0, 1e308, np.inf, np.nan]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", ALL, ids=lambda statistic: statistic.name)
def test_no_row_moves_an_answer_by_more_than_is_paid_for(statistic: Statistic, relation: Relation) -> None:
    """Any row replaced by any other, or added or removed, missing and infinite ones included."""
    norms = ("linf", "range") if isinstance(statistic, Quantile) else ("l1", "l2", "linf")
    for others in itertools.combinations([*VALUES, -np.inf, 0.4, np.nan], ROWS - 1):
        found = [analyses.exact_values(statistic, np.array([*others, cell]), relation) for cell in HOSTILE]
        pairs = [*itertools.combinations(found, 2)]
        if relation == "add/remove-one":
            pairs = [(one, analyses.exact_values(statistic, np.array(others), relation)) for one in found]
        for one, other in pairs:
            change = one - other
            sizes = {"l1": np.abs(change).sum(), "l2": np.linalg.norm(change), "linf": np.abs(change).max()}
            sizes["range"] = change.max() - change.min()
            for norm in norms:
                assert sizes[norm] <= statistic.sensitivity(norm, ROWS, relation) * (1 + 1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("statistic", [*ALL[1:3], ALL[4]], ids=lambda statistic: statistic.name)
def test_what_is_computed_is_what_was_asked(statistic: Statistic) -> None:
    for rows in itertools.combinations_with_replacement([-9.0, *VALUES, 9.0], ROWS):
        values = np.array(rows)
        for relation, oracle in zip(RELATIONS, (COMPUTED, SECRET), strict=True):
            exact = analyses.exact_values(statistic, values, relation)
            np.testing.assert_allclose(exact, oracle[statistic.name](values), atol=1e-12)


IN_GROUPS = {"by": "region", "groups": ("north", "south")}
GROUPED: tuple[Statistic, ...] = (
    Count(name="count", **IN_GROUPS),
    Sum(name="sum", lowest=-1.0, highest=2.0, **IN_GROUPS),
    Sum(name="around 0", lowest=-1.0, highest=1.0, **IN_GROUPS),
    Mean(name="mean", lowest=-1.0, highest=2.0, **IN_GROUPS),
)


def of_rows(statistic: Statistic, rows: Sequence[tuple[float, int]]) -> np.ndarray:
    """By hand, from rows of a value and a group: sums, or of a mean sums from its middle and counts times 1.5."""
    values: list[float] = []
    for term in (0, 1)[: 1 + isinstance(statistic, Mean)]:
        for group in (0, 1):
            low, high = (statistic.lowest, statistic.highest) if isinstance(statistic, Sum | Mean) else (0, 1)
            terms = [min(max(value, low), high) - 0.5 * isinstance(statistic, Mean) for value, g in rows if g == group]
            values.append(1.5 * len(terms) if term else float(sum(terms)))
    return np.array(values)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("statistic", GROUPED, ids=lambda statistic: statistic.name)
def test_with_groups_sensitivities_are_the_largest_changes_over_all_neighbours(
    statistic: Statistic, relation: Relation
) -> None:
    """Of 3 rows with any value in any group, or none that is declared, 1 or 2 of a person; of what is computed."""
    cells = [*itertools.product([0.0, 1.0] if isinstance(statistic, Count) else [-9.0, -1.0, 0.5, 2.0], [0, 1, -1])]
    for k in (1, 2):
        most = {"l1": 0.0, "l2": 0.0, "linf": 0.0}
        persons = [*itertools.combinations_with_replacement(cells, k)]
        for others in itertools.combinations_with_replacement(cells, 3 - k):
            tables = [[*others, *person] for person in persons]
            computed = [analyses.exact_values(statistic, np.array(table), relation) for table in tables]
            for table, answer in zip(tables, computed, strict=True):
                np.testing.assert_allclose(answer, of_rows(statistic, table), atol=1e-12)
            pairs = [*itertools.combinations(computed, 2)]
            if relation == "add/remove-one":
                pairs = [(one, analyses.exact_values(statistic, np.array(others), relation)) for one in computed]
            for one, other in pairs:
                change = one - other
                sizes = np.abs(change).sum(), np.linalg.norm(change), np.abs(change).max()
                most = {norm: max(most[norm], float(size)) for norm, size in zip(most, sizes, strict=True)}
        for norm, largest in most.items():
            assert largest == pytest.approx(k * statistic.sensitivity(norm, 3, relation))  # type: ignore[arg-type]


def test_groups_are_read_released_and_refused() -> None:
    table = {"region": ["north", " south", "east", None, "south"], "age": ["70", "3", "80", "90", "x"]}
    mean = Mean(name="age", lowest=0.0, highest=100.0, **IN_GROUPS)
    column = analyses.read(mean, table)
    assert column[:, 1].tolist() == [0, 1, -1, -1, 1]
    assert analyses.exact_values(mean, column).tolist() == [20, -97, 50, 100]
    count = Count(name="old", column="age", comparison="≥", operands=(65,), **IN_GROUPS)
    assert analyses.exact_values(count, analyses.read(count, table)).tolist() == [1, 0]
    statistics = (mean, count, Sum(name="sum", column="age", highest=100.0, **IN_GROUPS))
    for relation in RELATIONS:
        plan = Analyses(rows=4000, relation=relation, statistics=statistics)
        assert Analyses.from_json(plan.to_json()) == plan
        assert "of “region”, declared: “north”, “south”" in mean.description
        for noise in ("laplace", "gaussian"):
            planned = plan.replaced(noise=noise).planned(ZeroConcentratedDP(rho=0.5))
            large = analyses.made_up(statistics, 4000, np.random.default_rng(2))
            columns = [analyses.read(statistic, large) for statistic in statistics]
            for p, c, answer in zip(planned, columns, analyses.release(planned, columns, 3), strict=True):
                exact = of_exact(p.statistic, c)
                assert answer.shape == (2,) and np.abs(answer - exact).max() < 2 * (p.largest_error or 0.0)
    planned = Analyses(rows=5, statistics=(mean,)).planned(PureDP(epsilon=1.0))
    with pytest.raises(UserError, match="with the index of its group"):
        analyses.release(planned, [np.zeros(5)])
    with pytest.raises(UserError, match="no column “region”"):
        analyses.read(mean, {"age": [1]})
    for wrong in (
        {"by": "region"},
        {"groups": ("a", "b")},
        {"by": "r", "groups": ("a",)},
        {"by": "r", "groups": ("a", "a")},
    ):
        with pytest.raises(UserError):
            Count(**wrong)  # type: ignore[arg-type]


def of_exact(statistic: Statistic, column: np.ndarray) -> np.ndarray:
    """The exact count, sum or mean of each of the two groups."""
    values = [column[column[:, 1] == group, 0] for group in (0, 1)]
    if isinstance(statistic, Count):
        return np.array([(value != 0).sum() for value in values])
    return np.array([np.mean(value) if isinstance(statistic, Mean) else np.sum(value) for value in values])


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_errors_of_groups_are_those_of_the_noise_that_is_drawn(noise: str) -> None:
    """Of 4 groups of 100 rows each, whose means are where the bound is attained: one of them, and all at once."""
    random, draws, groups = np.random.default_rng(3), 50_000, ("a", "b", "c", "d")
    mean = Mean(name="mean", lowest=-1.0, highest=1.0, by="r", groups=groups)
    (p,) = Analyses(rows=400, noise=noise, statistics=(mean,)).planned(ZeroConcentratedDP(rho=2.0))
    assert p.scale == pytest.approx(p.sensitivity * (p.share.noise_scale or 0.0)) and p.largest_error is not None
    draw = random.laplace if noise == "laplace" else random.normal
    for error, axis in ((p.error, None), (p.largest_error, 1)):
        sums = (1 - 1.001 * error) * 100 + draw(0, p.scale, (draws, 4))
        off = np.abs(np.clip(sums / (100 + draw(0, p.scale, (draws, 4))), -1, 1) - (1 - 1.001 * error)) > error
        share = off.mean() if axis is None else off.any(axis).mean()
        assert 0.03 < share <= 0.05 + 5 * math.sqrt(0.05 / draws)
    assert p.rows_needed(0.05) == math.ceil(400 * p.error / 0.1)


def test_counts_and_bins_by_hand() -> None:
    assert analyses.exact_values(Count(), np.array([1.0, 0.0, np.nan, 1.0])).tolist() == [2]
    bins = np.array([0.0, 2.0, 2.0, 3.0, -1.0, np.nan, np.inf])
    assert analyses.exact_values(Histogram(bins=3), bins).tolist() == [1, 0, 2]


CELLS = [" north", "south", "1", "1.0", "65", " 65.5 ", "-3", "inf", "nan", "", "Ж", None, "\0", 1j, 10**400]


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        (Count(comparison="≥", operands=(65,)), [4, 5, 7]),
        (Count(comparison="<", operands=(65,)), [2, 3, 6]),
        (Count(comparison="=", operands=(1,)), [2, 3]),
        (Count(comparison="=", operands=("1",)), [2]),
        (Count(comparison="≠", operands=(1,)), [4, 5, 6, 7]),
        (Count(comparison="≠", operands=("1",)), [i for i in range(15) if i not in (2, 9, 11)]),
        (Count(comparison="is one of", operands=("north", "Ж", "no such")), [0, 10]),
        (Count(comparison="is one of", operands=(-3, 65.5)), [5, 6]),
        (Count(), [2, 3, 4, 5, 6, 7]),
        (Histogram(keys=("north", "1", "Ж")), {0: [0], 1: [2], 2: [10]}),
        (Histogram(cut_points=(-3, 1, 65, 65.5)), {0: [6], 1: [2, 3], 2: [4, 5]}),
        (Histogram(bins=2), {1: [2, 3]}),
    ],
    ids=str,
)
def test_what_is_declared_is_what_is_read_of_each_cell(
    statistic: Statistic, expected: list[int] | dict[int, list[int]]
) -> None:
    """By hand; and any cell in place of any other moves the answer by no more than is paid for."""
    statistic = statistic.replaced(column="c")
    bins = expected if isinstance(expected, dict) else {1: expected}
    column = analyses.read(statistic, {"c": CELLS})
    assert {k: np.flatnonzero(column == k).tolist() for k in bins} == bins
    # Each cell alone; the last as an object, since the oldest pandas cannot make a column of it otherwise.
    alone = [*([cell] for cell in CELLS[:-1]), pd.Series(CELLS[-1:], dtype=object)]
    assert [analyses.read(statistic, {"c": cells})[0] for cells in alone] == pytest.approx(column, nan_ok=True)
    answers = [analyses.exact_values(statistic, column[[i, 0, 2]]) for i in range(len(CELLS))]
    for one, other in itertools.combinations(answers, 2):
        assert np.abs(one - other).sum() <= statistic.sensitivity("l1", 3)
    with pytest.raises(UserError, match="no column “c”"):
        analyses.read(statistic, {"d": CELLS})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "budget", [PureDP(epsilon=2.0), ApproximateDP(epsilon=1.0), ZeroConcentratedDP(rho=0.1)], ids=lambda b: b.name
)
def test_the_answers_are_as_far_off_as_planned_and_cost_it(
    budget: Budget, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[Event] = []
    charge = Ledger.charge

    def watched(ledger: Ledger, event: Event, *rest: object) -> None:
        charged.append(event)
        charge(ledger, event, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "charge", watched)
    planned = Analyses(rows=400, relation=relation, statistics=ALL).planned(budget)
    generator = np.random.default_rng(4)
    table = analyses.made_up(ALL, 400, generator)
    columns = [analyses.read(p.statistic, table) for p in planned]
    runs, within = 300, np.zeros(len(ALL))
    for seed in range(runs):
        found = analyses.release(planned, columns, seed)
        assert charged == [p.event for p in planned]
        charged.clear()
        for i, (p, column, answer) in enumerate(zip(planned, columns, found, strict=True)):
            exact = analyses.exact_values(p.statistic, column)
            if isinstance(p.statistic, Quantile):
                within[i] += exact[np.abs(VALUES - answer).argmin()] >= -p.error
            elif p.largest_error is None:
                within[i] += abs(answer - exact[0]) <= p.error
            else:
                within[i] += np.abs(answer - exact).max() <= p.largest_error
    assert (within / runs >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / runs)).all()
    assert isinstance(found[0], int) and found[3].dtype.kind == "i" and len(found[3]) == 4 and found[4] in VALUES
    # Nobody knows the seed of another run.
    assert analyses.release(planned, columns)[1] != analyses.release(planned, columns)[1]


@pytest.mark.parametrize("kind", [Sum, Mean])
def test_the_noise_has_digits_far_from_0(kind: type[Sum | Mean]) -> None:
    """As for the times of one day, in seconds since 1970."""
    statistic = kind(name="time", lowest=1e12 - 1, highest=1e12)
    (planned,) = Analyses(rows=1000, statistics=(statistic,)).planned(PureDP(epsilon=50.0))
    (answer,) = analyses.release([planned], [np.full(1000, 1e12)], 3)
    assert answer == pytest.approx(1e12 * (1000 if kind is Sum else 1), rel=0, abs=1.0)


def test_a_column_that_does_not_fit_is_a_sentence_that_quotes_nothing_of_it() -> None:
    planned = Analyses(rows=20, statistics=(Mean(name="age"), Sum())).planned(PureDP(epsilon=1.0))
    for column in (np.zeros(19), ["secret"] * 20, np.zeros((20, 2)), None):
        with pytest.raises(UserError, match="age needs 20 numbers") as raised:
            analyses.release(planned, [column, np.zeros(20)])  # type: ignore[list-item]
        assert "secret" not in str(raised.value)


def test_a_secret_number_of_rows_is_not_compared_with_the_plan() -> None:
    """A table of any size is taken, even of none; a refusal would tell of its size."""
    statistics = (Count(name="c"), Mean(name="m", highest=9.0), Quantile(name="q"))
    plan = Analyses(rows=100, rows_per_person=2, relation="add/remove-one", statistics=statistics)
    for rows in (0, 1, 7, 400):
        people = np.arange(rows) // 2
        answers = analyses.release(plan.planned(PureDP(epsilon=1.0)), [np.ones(rows)] * 3, 5, people)
        assert 0 <= answers[1] <= 9 and 0 <= answers[2] <= 1
    with pytest.raises(UserError, match="Somebody has more rows"):
        analyses.release(plan.planned(PureDP(epsilon=1.0)), [np.ones(3)] * 3, 5, np.zeros(3))


def test_of_each_person_so_many_rows_count_as_the_plan_says() -> None:
    people = np.repeat(["ann", "bob", "cyd"], [1, 14, 9])
    kept = [rows_kept(people, 8, seed) for seed in range(200)]
    assert {tuple(np.unique(people[rows], return_counts=True)[1]) for rows in kept} == {(1, 8, 8)}
    chances = np.bincount(np.concatenate(kept), minlength=24) / 200
    assert np.abs(chances - np.repeat([1, 8 / 14, 8 / 9], [1, 14, 9])).max() < 5 * math.sqrt(0.25 / 200)
    fewer = np.delete(people, np.arange(15, 20))  # of another person
    assert [row for row in kept[0] if row < 15] == [row for row in rows_kept(fewer, 8) if row < 15]
    planned = Analyses(rows=24, rows_per_person=8, statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    for wrong in (None, people, people[:-1]):
        with pytest.raises(UserError, match=r"rows_kept|`people`"):
            analyses.release(planned, [np.ones(24)], people=wrong)
    assert analyses.release(planned, [np.ones(24)], people=np.array([None, math.nan, *map(str, range(22))], object))
    kept_plan = Analyses(rows=20, rows_per_person=10, statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    rows = rows_kept(people, 10)
    assert analyses.release(kept_plan, [np.ones(24)[rows]], people=people[rows])
