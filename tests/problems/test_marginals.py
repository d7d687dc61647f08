"""Marginal queries: the sums are those of the matrix A, and no row moves a Query further than it says."""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import linprog

from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.categories import (
    CategoricalFacts,
    CategoricalGenerator,
    CategoricalSpecification,
    prepare_categories,
)
from dpviz.datasets.uploads.parsing import Bins
from dpviz.errors import UserError
from dpviz.privacy.events import Gaussian
from dpviz.privacy.mechanisms import noise_scale
from dpviz.privacy.releases import Query
from dpviz.problems.games.games import Game, GradientSums
from dpviz.problems.games.marginals import MarginalGame, MarginalQueries, Marginals
from dpviz.specification import Specification

SIZES = (2, 3, 2)
Z = math.prod(SIZES)


class Rows(CategoricalSpecification):
    """A tiny table whose rows are given as domain points."""

    title: ClassVar[str] = "Rows"
    points: tuple[int, ...]
    sizes: tuple[int, ...] = SIZES

    def facts(self) -> CategoricalFacts:
        columns = tuple((f"c{i}", tuple("abcdefg"[:size])) for i, size in enumerate(self.sizes))
        return CategoricalFacts(len(self.points), columns)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray]:
        return (np.stack(np.unravel_index(self.points, self.sizes), axis=1),)


def game(points: tuple[int, ...] = (0, 0, 5, 7, 11), ways: int = 2, sizes: tuple[int, ...] = SIZES) -> MarginalGame:
    return MarginalQueries(data=Rows(points=points, sizes=sizes), ways=ways).build()


def matrix(sizes: tuple[int, ...], ways: int) -> np.ndarray:
    """A (q, |Z|), cell by cell."""
    codes = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    rows = []
    for table in combinations(range(len(sizes)), ways):
        for cell in np.ndindex(*(sizes[c] for c in table)):
            rows.append((codes[:, list(table)] == cell).all(axis=1))
    return np.array(rows, dtype=np.float64)


def points_of(game: Game, replicates: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = rng.dirichlet(np.full(game.facts.d_x, 0.3), replicates), rng.dirichlet(np.ones(game.facts.d_y), replicates)
    return x, y


@pytest.mark.parametrize("ways", [1, 2, 3])
@pytest.mark.parametrize("sizes", [SIZES, (2, 3, 1, 4, 2), (5, 4, 3), (7, 2, 2, 2, 2, 2)])
def test_sums_are_those_of_the_matrix(sizes: tuple[int, ...], ways: int) -> None:
    facts = Rows(points=(0,), sizes=sizes).facts()
    marginals, a = Marginals(facts, ways), matrix(sizes, ways)
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(3, a.shape[1])), rng.normal(size=(3, a.shape[0]))
    assert a.shape[0] == marginals.queries == len(marginals.cells) == marginals.slices[-1].stop
    np.testing.assert_allclose(marginals.answers(x), x @ a.T, atol=1e-12)
    np.testing.assert_allclose(marginals.transposed(w), w @ a, atol=1e-12)
    for table, cells in zip(marginals.tables, marginals.slices, strict=True):
        assert cells.stop - cells.start == math.prod(sizes[c] for c in table)
    table = facts.decode(np.arange(a.shape[1]))
    for row, label in zip(a, marginals.cells, strict=True):
        chosen = np.ones(len(table), dtype=bool)
        for part in label.split(", "):
            name, category = part.split("=")
            chosen &= (table[name] == category).to_numpy()
        assert np.array_equal(chosen, row == 1), label


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_gradients_and_evaluation_are_those_of_the_payoff(ways: int) -> None:
    problem, a = game(ways=ways), matrix(SIZES, ways)
    share = np.bincount((0, 0, 5, 7, 11), minlength=Z) / 5
    x, y = points_of(problem)
    q = len(a)
    signed = y[:, :q] - y[:, q:]
    errors = (share - x) @ a.T
    g_x, g_y = problem.gradients(x, y)
    np.testing.assert_allclose(g_x, -signed @ a, atol=1e-13)
    np.testing.assert_allclose(g_y, np.hstack([errors, -errors]), atol=1e-13)
    np.testing.assert_allclose(problem.true_answers(), a @ share, atol=1e-15)
    metrics = problem.evaluate({"x": x, "y": y})
    np.testing.assert_allclose(metrics["worst_query_error"], np.abs(errors).max(axis=1), atol=1e-13)
    np.testing.assert_allclose(metrics["mean_query_error"], np.abs(errors).mean(axis=1), atol=1e-13)
    assert {metric.name for metric in problem.metrics} == set(metrics)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_duality_gap_is_that_of_linear_programs(seed: int) -> None:
    problem, a = game(), matrix(SIZES, 2)
    share = np.bincount((0, 0, 5, 7, 11), minlength=Z) / 5
    x, y = points_of(problem, 3, seed)
    gaps = problem.evaluate({"x": x, "y": y})["duality_gap"]
    payoff = np.vstack([a, -a]) @ (np.outer(share, np.ones(Z)) - np.eye(Z))  # F(x, y) = yᵀ payoff x
    for r in range(3):
        best_y = linprog(-payoff @ x[r], A_eq=np.ones((1, len(payoff))), b_eq=[1])
        best_x = linprog(y[r] @ payoff, A_eq=np.ones((1, Z)), b_eq=[1])
        assert gaps[r] == pytest.approx(-best_y.fun - best_x.fun, abs=1e-8)
    assert (gaps >= -1e-12).all()


def test_outputs_without_a_second_player_get_the_best_one() -> None:
    problem = game()
    x, y = points_of(problem)
    uniform = problem.facts.uniform(4)[1]
    alone, paired = problem.evaluate({"x": x}), problem.evaluate({"x": x, "y": uniform})
    np.testing.assert_allclose(alone["duality_gap"], paired["duality_gap"], atol=1e-14)
    assert (alone["duality_gap"] == alone["worst_query_error"]).all()
    assert (alone["duality_gap"] <= problem.evaluate({"x": x, "y": y})["duality_gap"] + 1e-14).all()
    answers = problem.evaluate({"answers": problem.answers(x)})
    assert all(np.array_equal(answers[name], alone[name]) for name in alone)
    exact = np.bincount((0, 0, 5, 7, 11), minlength=Z)[None] / 5
    assert problem.evaluate({"x": exact, "y": uniform[:1]})["duality_gap"] == pytest.approx(0, abs=1e-12)


def test_the_first_player_never_reads_the_data() -> None:
    """Check 13 of families/mirror_descent/THEORY.md: with the draws fixed, another table changes nothing in x."""
    problems = [MarginalQueries(data=CategoricalGenerator(rows=500, seed=seed)).build() for seed in (0, 1)]
    rng = np.random.default_rng(5)
    draws = rng.integers(0, problems[0].facts.d_y, size=(30, 2))
    iterates = []
    for problem in problems:
        logits, rows = np.zeros((2, problem.facts.d_x)), None
        for t, draw in enumerate(draws):
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            x = weights / weights.sum(axis=1, keepdims=True)
            rows = slice(10 * t, 10 * t + 10) if t % 2 else None
            logits = logits - 0.3 * problem.gradients(x, np.eye(problem.facts.d_y)[draw], rows)[0]
        iterates.append(x)
        assert x.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert np.array_equal(*iterates)
    assert not np.array_equal(*(problem.true_answers() for problem in problems))
    assert problems[0].facts.oscillation_x == problems[0].facts.change_x == 0


def neighbours() -> Iterator[tuple[MarginalGame, MarginalGame]]:
    """A table and its neighbours: every row replaced by every point; and two tables of one repeated row."""
    points = (0, 3, 3, 8)
    for i in range(len(points)):
        for z in range(Z):
            yield game(points), game((*points[:i], z, *points[i + 1 :]))
    yield game((0, 0, 0, 0)), game((0, 0, 0, Z - 1))  # differs in every column: every table changes in two cells


def change(old: Query, new: Query) -> float:
    """The largest change over replicates, in the query's norm, relative to the sensitivity."""
    assert old.sensitivity == new.sensitivity and old.norm == new.norm
    moved = (new.value - old.value).reshape(len(old.value), -1)
    size = {
        "l1": np.abs(moved).sum(axis=1),
        "l2": np.linalg.norm(moved, axis=1),
        "linf": np.abs(moved).max(axis=1),
        "range": np.ptp(moved, axis=1),
    }[old.norm]
    return float(size.max() / old.sensitivity)


def _first_point(problem: MarginalGame) -> np.ndarray:
    return np.eye(Z)[[4, 0, Z - 1]]


def _scores(problem: MarginalGame) -> Query:
    x, y = points_of(problem, 3)
    scores = GradientSums(problem, 3)
    for c in (1.0, 2.0):
        scores.add([(c, x, y)])
    return scores.utilities_y(3 / problem.facts.n)


def _block_scores(problem: MarginalGame) -> Query:
    x, y = points_of(problem, 3)
    scores = GradientSums(problem, 3)
    scores.add([(1.0, x, y)], slice(0, 2))
    scores.add([(1.0, x, y)], slice(2, 4))
    return scores.utilities_y(1 / 2)


def _gradient(problem: MarginalGame) -> Query:
    facts = problem.facts
    return Query(problem.gradients(*points_of(problem))[1], facts.change_y / facts.n, "linf")


QUERIES: dict[str, Callable[[MarginalGame], Query]] = {
    "selection": lambda problem: problem.selection_scores(problem.answers(_first_point(problem))),
    "answer l1": lambda problem: problem.answer(np.arange(problem.marginals.queries), "l1"),
    "answer l2": lambda problem: problem.answer(np.arange(problem.marginals.queries), "l2"),
    "tables": lambda problem: problem.marginal_tables(2),
    "scores": _scores,
    "scores of blocks": _block_scores,
    "gradient's coordinates": _gradient,
}


@pytest.mark.parametrize("name", QUERIES)
def test_no_neighbour_moves_a_query_further_than_declared_and_one_moves_it_so_far(name: str) -> None:
    query = QUERIES[name]
    changes = [change(query(old), query(new)) for old, new in neighbours()]
    assert 0.99 <= max(changes) <= 1 + 1e-12


def test_the_constants_of_the_payoff_hold_and_are_attained() -> None:
    facts = game().facts
    single = [game((z,)) for z in (0, Z - 1)]
    rng = np.random.default_rng(2)
    ranges: list[tuple[float, float]] = []
    for problem in single:
        for scale in (0.02, 1.0):
            x, y = rng.dirichlet(np.full(Z, scale), 50), rng.dirichlet(np.full(facts.d_y, scale), 50)
            x[:2], y[0], y[1] = np.eye(Z)[[0, Z - 1]], np.eye(facts.d_y)[0], np.eye(facts.d_y)[-1]
            g_x, g_y = problem.gradients(x, y)
            assert max(np.abs(g_x).max(), np.abs(g_y).max()) <= facts.lipschitz + 1e-12
            ranges.append((np.ptp(g_x, axis=1).max(), np.ptp(g_y, axis=1).max()))
            moved = np.abs(x[1:] - x[:-1]).sum(axis=1) + np.abs(y[1:] - y[:-1]).sum(axis=1)
            for g in (g_x, g_y):
                assert (np.abs(g[1:] - g[:-1]).max(axis=1) <= facts.smoothness * moved + 1e-12).all()
    attained = np.max(ranges, axis=0)
    assert attained == pytest.approx((facts.range_x, facts.range_y), abs=1e-12)
    x, y = facts.uniform(1)
    shifted = [problem.gradients(x, y)[1] - np.repeat([1, -1], facts.d_y // 2) * 0.5 for problem in single]
    own = [g + np.tile(problem.answers(x), 2) * np.repeat([1, -1], facts.d_y // 2) for g in shifted]
    assert [float(np.ptp(g)) for g in own] == pytest.approx([facts.oscillation_y] * 2, abs=1e-12)
    assert (facts.d_x, facts.d_y, facts.d) == (Z, 2 * 16, Z + 2 * 16)


def test_blocks_average_to_the_whole() -> None:
    problem = game((0, 3, 3, 8, 2, 1))
    x, y = points_of(problem)
    whole = problem.gradients(x, y)
    first, second = (problem.gradients(x, y, rows) for rows in (slice(0, 2), slice(2, 6)))
    for total, a, b in zip(whole, first, second, strict=True):
        np.testing.assert_allclose(total, (2 * a + 4 * b) / 6, atol=1e-13)


def test_noisy_tables_become_distributions_and_come_no_closer_by_chance() -> None:
    problem = MarginalQueries().build()
    n, m, rho = problem.facts.n, len(problem.marginals.tables), 0.02435597
    query = problem.marginal_tables(5)
    sigma = noise_scale(Gaussian(math.sqrt(2 * rho)), float(query.sensitivity))
    assert sigma == pytest.approx(math.sqrt(2 * m) / (n * math.sqrt(2 * rho)), rel=1e-12)
    assert query.value.shape == (5, 127) and m == 10
    noisy = query.value + sigma * np.random.default_rng(0).normal(size=query.value.shape)
    answers = problem.nearest_distributions(noisy)
    for cells in problem.marginals.slices:
        assert answers[:, cells].sum(axis=1) == pytest.approx(1, abs=1e-9) and (answers[:, cells] >= 0).all()
        error = np.linalg.norm((answers - problem.true_answers())[:, cells], axis=1)
        assert (error <= np.linalg.norm((noisy - problem.true_answers())[:, cells], axis=1) + 1e-12).all()
    # The largest of 127 normal errors stays below 5 σ in all five replicates with probability above 1 - 4e-4.
    assert problem.evaluate({"answers": answers})["worst_query_error"].max() < 5 * sigma


def test_settings_know_the_facts_without_data() -> None:
    specification = MarginalQueries()
    facts = specification.facts()
    assert (facts.n, facts.d_x, facts.d_y) == (10_000, 480, 254) and facts == specification.build().facts
    assert MarginalQueries(ways=1).facts().d_y == 36 and MarginalQueries(ways=3).facts().d_y == 2 * 438
    assert specification.public and Specification.from_json(specification.to_json()) == specification
    text = MarginalQueries(ways=3).to_json()
    upload = '{"kind":"datasets.categories.upload","n":40,"identity":"' + "a" * 32 + '","columns":[["x",["0","1"]]]}'
    with pytest.raises(UserError, match="tables of 3 columns need as many"):
        Specification.from_json(text.replace(CategoricalGenerator().to_json(), upload))
    one = Specification.from_json(
        text.replace(CategoricalGenerator().to_json(), upload).replace('"ways":3', '"ways":1')
    )
    assert isinstance(one, MarginalQueries) and not one.public and one.facts().d_x == 2
    with pytest.raises(UserError, match="Upload the file again"):
        one.build(NO_TABLES)


def test_an_upload_is_answered() -> None:
    frame = CategoricalGenerator(rows=400).facts().decode(CategoricalGenerator(rows=400).load().indices).astype(str)
    frame["age"] = [int(text[:2]) for text in frame["age"]]
    prepared = prepare_categories(frame, {"home": ["rented", "owned"], "age": Bins((30, 60))})
    tables = {prepared.specification.identity: prepared.table}
    problem = MarginalQueries(data=prepared.specification).build(tables)
    answers = dict(zip(problem.marginals.cells, problem.true_answers(), strict=True))
    expected = ((frame["home"] == "owned") & (frame["age"] >= 30) & (frame["age"] < 60)).mean()
    assert answers["home=owned, age=30 to below 60"] == pytest.approx(expected, abs=1e-12)
    assert sum(answers.values()) == pytest.approx(1, abs=1e-12) and answers["home=other, age=other"] == 0
