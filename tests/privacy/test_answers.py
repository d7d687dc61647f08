"""Analyses carried out: bounded as the plan says whatever the values are, and released as it says."""

import itertools
import math

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Event
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.statistics import analyses
from dpviz.privacy.statistics.analyses import Analyses, Count, Histogram, Mean, Quantile, Statistic, Sum
from tests.privacy.test_analyses import ALL, COMPUTED, ROWS, VALUES

HOSTILE = [-np.inf, -1e308, -9.0, *VALUES, 0.4, 9.0, 1e308, np.inf, np.nan]


@pytest.mark.parametrize("statistic", ALL, ids=lambda statistic: statistic.name)
def test_no_row_moves_an_answer_by_more_than_is_paid_for(statistic: Statistic) -> None:
    """Any row replaced by any other, missing and infinite ones included."""
    norms = ("linf", "range") if isinstance(statistic, Quantile) else ("l1", "l2", "linf")
    for others in itertools.combinations([*VALUES, -np.inf, 0.4, np.nan], ROWS - 1):
        found = [analyses.computed(statistic, np.array([*others, cell])) for cell in HOSTILE]
        for one, other in itertools.combinations(found, 2):
            change = one - other
            sizes = {"l1": np.abs(change).sum(), "l2": np.linalg.norm(change), "linf": np.abs(change).max()}
            sizes["range"] = change.max() - change.min()
            for norm in norms:
                assert sizes[norm] <= statistic.sensitivity(norm, ROWS) * (1 + 1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("statistic", [*ALL[1:3], ALL[4]], ids=lambda statistic: statistic.name)
def test_what_is_computed_is_what_was_asked(statistic: Statistic) -> None:
    for rows in itertools.combinations_with_replacement([-9.0, *VALUES, 9.0], ROWS):
        values = np.array(rows)
        np.testing.assert_allclose(analyses.computed(statistic, values), COMPUTED[statistic.name](values), atol=1e-12)


def test_counts_and_bins_by_hand() -> None:
    assert analyses.computed(Count(), np.array([1.0, 0.0, np.nan, 1.0])).tolist() == [2]
    bins = np.array([0.0, 2.0, 2.0, 3.0, -1.0, np.nan, np.inf])
    assert analyses.computed(Histogram(bins=3), bins).tolist() == [1, 0, 2]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "budget", [PureDP(epsilon=2.0), ApproximateDP(epsilon=1.0), ZeroConcentratedDP(rho=0.1)], ids=lambda b: b.name
)
def test_the_answers_are_as_far_off_as_planned_and_cost_it(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[Event] = []
    charge = Ledger.charge

    def watched(ledger: Ledger, event: Event, *rest: object) -> None:
        charged.append(event)
        charge(ledger, event, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "charge", watched)
    planned = Analyses(rows=400, statistics=ALL).planned(budget)
    generator = np.random.default_rng(4)
    columns = [analyses.made_up(p.statistic, 400, generator) for p in planned]
    runs, within = 300, np.zeros(len(ALL))
    for seed in range(runs):
        found = analyses.released(planned, columns, seed)
        assert charged == [p.event for p in planned]
        charged.clear()
        for i, (p, column, answer) in enumerate(zip(planned, columns, found, strict=True)):
            exact = analyses.computed(p.statistic, column)
            if isinstance(p.statistic, Quantile):
                within[i] += exact[np.abs(VALUES - answer).argmin()] >= -p.error
            elif p.largest_error is None:
                within[i] += abs(answer - exact[0]) <= p.error
            else:
                within[i] += np.abs(answer - exact).max() <= p.largest_error
    assert (within / runs >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / runs)).all()
    assert isinstance(found[0], int) and found[3].dtype.kind == "i" and len(found[3]) == 4 and found[4] in VALUES
    # Nobody knows the seed of another run.
    assert analyses.released(planned, columns)[1] != analyses.released(planned, columns)[1]


def test_a_column_that_does_not_fit_is_a_sentence_that_quotes_nothing_of_it() -> None:
    planned = Analyses(rows=20, statistics=(Mean(name="age"), Sum())).planned(PureDP(epsilon=1.0))
    for column in (np.zeros(19), ["secret"] * 20, np.zeros((20, 2)), None):
        with pytest.raises(UserError, match="age needs 20 numbers") as raised:
            analyses.released(planned, [column, np.zeros(20)])  # type: ignore[list-item]
        assert "secret" not in str(raised.value)


def test_of_each_person_so_many_rows_count_as_the_plan_says() -> None:
    people = np.repeat(["ann", "bob", "cyd"], [1, 14, 9])
    kept = [analyses.rows_kept(people, 8, np.random.default_rng(seed)) for seed in range(200)]
    assert {tuple(np.unique(people[rows], return_counts=True)[1]) for rows in kept} == {(1, 8, 8)}
    chances = np.bincount(np.concatenate(kept), minlength=24) / 200
    assert np.abs(chances - np.repeat([1, 8 / 14, 8 / 9], [1, 14, 9])).max() < 5 * math.sqrt(0.25 / 200)
    planned = Analyses(rows=24, rows_per_person=8, statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    for wrong in (None, people, people[:-1]):
        with pytest.raises(UserError, match=r"rows_kept|`people`"):
            analyses.released(planned, [np.ones(24)], people=wrong)
    kept_plan = Analyses(rows=20, rows_per_person=10, statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    rows = analyses.rows_kept(people, 10, np.random.default_rng(0))
    assert analyses.released(kept_plan, [np.ones(24)[rows]], people=people[rows])
