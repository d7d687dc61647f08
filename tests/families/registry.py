"""Tiny problems for every kind of algorithm, every way to set one, and runs of them that can be looked into."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpviz import families
from dpviz.datasets import UploadedTable
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.categories import CategoricalUpload
from dpviz.datasets.groups import GroupedUpload
from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import TunedReference
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Event, ExpMech, Parallel, inner_events
from dpviz.privacy.ledger import SLACK, Filter, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Problem, ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame, MatrixGameProblem, Payoffs
from dpviz.problems.games.simplex_learning import LearningGame, SparseRegression
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, RobustComponent
from dpviz.problems.tuning.model_tuning import NormalLocation
from dpviz.problems.values.black_box import CappedRegression
from dpviz.specification import Specification, registered
from tests import refusals
from tests.families.toys import TOYS, Cosine
from tests.refusals import is_refusal

# The family of one method from which CONTRIBUTING.md takes its example.
families.__path__.append(str(Path(__file__).parents[1] / "sixth_family" / "families"))
families.load_all()
# What exists without privacy only is no subject of these tests; it has its own.
ALGORITHMS = [*(cls for cls in registered(Algorithm) if not issubclass(cls, TunedReference)), *TOYS]

N, D, R, T = 24, 3, 3, 6
# Of the pairs of two controls, one in so many: the slow tests take all. There whatever sets one control sees all
# problems, worlds and neighbours, and pairs take turns; in the quick tests, of which the mutants die already and which
# meet every line (test_branches.py), all but the defaults do.
QUICK, ALL, THIRD = 12, 1, 3
ALLOWED = (  # what a method may refuse a problem or a budget for
    *(refusals.MISFIT, refusals.OTHER_CURRENCY, refusals.FEW_ROWS, refusals.UNDEFINED, refusals.NO_GAUSSIAN),
    *(refusals.NO_AMPLIFICATION, refusals.NO_BOUND, refusals.NO_HORIZON, refusals.NO_REFERENCE),
)
SEED = 5
PRIVATE: tuple[Budget, ...] = (
    PureDP(epsilon=1.0),
    ApproximateDP(epsilon=1.0, delta=1e-5),
    ZeroConcentratedDP(rho=0.05),
    GaussianDP(mu=0.3),
)


# ------------------------------------------------------------------------------------------------------------- problems


class World(NamedTuple):
    """A specification and the uploaded tables that go with it. The worlds of one problem have equal facts."""

    specification: ProblemSpecification
    tables: Mapping[str, np.ndarray]


Worlds = dict[str, World]


def _changed(game: Any, features: np.ndarray, labels: np.ndarray) -> LearningGame:
    """A game with other data and nothing remembered of its own."""
    return LearningGame(game.facts, features, labels, game._curvature, game._constant, game._body)


class Opposite(SparseRegression):
    """The same features with opposite labels."""

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> Any:
        game = super().build(tables)
        return _changed(game, game._features, -game._labels)


def _uploads(specification: ProblemSpecification, sha: str, tables: Mapping[str, np.ndarray]) -> Worlds:
    return {name: World(specification, {sha: table}) for name, table in tables.items()}


def _labelled() -> dict[str, np.ndarray]:
    """Ordinary rows of D features and a label, and what an attacker or an accident might send."""
    generator = np.random.default_rng(0)
    labels = generator.choice([-1.0, 1.0], N)
    box = generator.uniform(0, 1, (N, D))
    wild = generator.standard_cauchy((N, D)) * 1e200
    wild[::5] = [np.nan, np.inf, -np.inf]
    return {
        "ordinary": np.column_stack([box, labels]),
        "zeros": np.zeros((N, D + 1)) + np.eye(D + 1)[-1],  # a dry run; all labels are equal
        "constant": np.column_stack([np.ones((N, D)), labels]),
        "corners": np.column_stack([np.rint(box), -np.ones(N)]),
        "wild": np.column_stack([wild, labels]),
    }


def _grouped() -> dict[str, np.ndarray]:
    """The same rows, each in one of two groups; in the wild table, in none or in one that was not declared."""
    places = np.arange(N) % 2.0
    nowhere = np.resize([np.nan, np.inf, -1.0, 0.5, 1e300, 0.0], N)
    labelled = _labelled()
    tables = {name: np.column_stack([table, places]) for name, table in labelled.items()}
    return tables | {
        "wild": np.column_stack([labelled["wild"][:, :D], np.where(places > 0, np.inf, -1e300), nowhere]),
        "one group": np.column_stack([labelled["ordinary"], np.zeros(N)]),
    }


def _codes() -> dict[str, np.ndarray]:
    """Places in lists of two and three categories, also none that exist."""
    rows = np.arange(N, dtype=np.int16)
    wild = np.resize(np.array([-32768, -1, 0, 2, 3, 32767], dtype=np.int16), N)
    return {
        "ordinary": np.column_stack([rows % 2, rows % 3]).astype(np.int16),
        "constant": np.zeros((N, 2), dtype=np.int16),
        "wild": np.column_stack([wild, wild[::-1]]),
    }


SADDLE_ROWS = 400  # so many that a noisy gradient may look short


def _saddles() -> dict[str, np.ndarray]:
    """Rows on both sides of the middle along the first feature, with labels; and hostile ones."""
    generator = np.random.default_rng(1)
    features = generator.uniform(0.35, 0.65, (SADDLE_ROWS, D))
    features[:, 0] = generator.choice([0.05, 0.95], SADDLE_ROWS)
    labels = generator.choice([-1.0, 1.0], SADDLE_ROWS)
    wild = generator.standard_cauchy((SADDLE_ROWS, D)) * 1e200
    wild[::5] = [np.nan, np.inf, -np.inf]
    return {
        "ordinary": np.column_stack([features, labels]),
        "corners": np.column_stack([np.rint(features), -np.ones(SADDLE_ROWS)]),
        "wild": np.column_stack([wild, labels]),
    }


def _problems() -> tuple[Worlds, ...]:
    bounds, names = ((0.0, 1.0),) * D, ("a", "b", "c")
    plain, grouped, coded = "e" * 32, "c" * 32, "a" * 32
    table = UploadedTable(identity=plain, n=N, bounds=bounds, names=names)
    paid: dict[str, Any] = {"smoothness": 0.5, "smoothness_source": "released", "smoothness_cost": 0.005}
    labelled, saddles, rocky = _labelled(), _saddles(), "f" * 32
    larger = UploadedTable(identity=rocky, n=SADDLE_ROWS, bounds=bounds, names=names)
    groups = GroupedUpload(
        identity=grouped, n=N, bounds=bounds, names=names, groups=("one", "other"), shares=(0.6, 0.4)
    )
    survey = CategoricalUpload(
        identity=coded, n=N, columns=(("home", ("rented", "owned")), ("area", ("city", "town", "country")))
    )
    game = LatentGame(rows=N, strategies_x=3, strategies_y=4)
    return (
        _uploads(LogisticRegression(data=table, clip=0.5), plain, labelled),
        _uploads(LogisticRegression(data=table, **paid), plain, {"ordinary": labelled["ordinary"]}),
        {"ordinary": World(Quadratic(rows=N, dimension=D, start=-2.0), {})},
        {
            "ordinary": World(MatrixGame(data=game), {}),
            "another": World(MatrixGame(data=game.replaced(structure="hide_seek", seed=1)), {}),
        },
        _uploads(GroupLoss(data=groups), grouped, _grouped()),
        _uploads(MarginalQueries(data=survey), coded, _codes()),
        {
            "ordinary": World(SparseRegression(rows=200, dimension=D), {}),
            "another": World(SparseRegression(rows=200, dimension=D, seed=1), {}),
            "opposite": World(Opposite(rows=200, dimension=D), {}),
        },
        _uploads(RobustComponent(data=larger, start="random", start_seed=775), rocky, saddles),
        _uploads(LogisticTukey(data=larger, start="random", start_seed=775, regularisation=0.3), rocky, saddles),
        _uploads(CappedRegression(data=table, cap=2.0, radius=0.5, lipschitz=0.3), plain, labelled),
        _uploads(NormalLocation(data=table), plain, labelled),
        _uploads(Cosine(data=table), plain, labelled),
    )


PROBLEMS = _problems()


Neighbour = tuple[Problem, int]


@cache
def neighbours(problem: int) -> tuple[Neighbour, ...]:
    """(The first world of a problem with one row replaced by anything, that row); none if it has no rows."""
    first = next(iter(PROBLEMS[problem].values()))
    if isinstance(first.specification, SparseRegression | MatrixGame):
        return _generated(problem)
    if not first.tables:
        return ()
    everywhere = {
        id(table): table for worlds in PROBLEMS for world in worlds.values() for table in world.tables.values()
    }
    ((identity, table),) = first.tables.items()
    changed = []
    for other in everywhere.values():  # each once, though problems share some
        if other is not table and (other.shape, other.dtype) == (table.shape, table.dtype):
            for row in (0, N - 1):
                changed.append((table.copy(), row))
                changed[-1][0][row] = other[row]
    return tuple((first.specification.build({identity: replaced}), row) for replaced, row in changed)


def _generated(problem: int) -> tuple[Neighbour, ...]:
    """The same for data that are no upload: rows of the first world, replaced by their opposite or by another's."""
    base, *others = (built(problem, world) for world in PROBLEMS[problem])
    found: list[Neighbour] = []
    for other, row in product((base, *others), (0, base.facts.n - 1)):
        if isinstance(base, MatrixGameProblem):
            changed = copy(base)
            changed._payoffs = _with_row(base, other, row)
        else:
            features, labels = base._features.copy(), base._labels.copy()  # type: ignore[attr-defined]
            features[row] = other._features[row]  # type: ignore[attr-defined]
            labels[row] = other._labels[row] * (-1 if other is base else 1)  # type: ignore[attr-defined]
            changed = _changed(base, features, labels)  # type: ignore[assignment]
        found.append((changed, row))
    return tuple(found)


def _with_row(base: MatrixGameProblem, other: Any, row: int) -> Payoffs:
    """Payoffs with one record replaced; the opposite of x's signs if it is the same game."""
    records = []
    for player in (0, 1):
        mine, its = (game._payoffs._records[player].columns(slice(None)).copy() for game in (base, other))
        mine[row] = its[row] * (-1 if other is base and player == 0 else 1)
        records.append(Signs.pack(mine.T < 0))
    return Payoffs.of((records[0], records[1]), base._payoffs._population)


# ---------------------------------------------------------------------------------------------------------------- cases


class Case(NamedTuple):
    """One way to set an algorithm, on one problem, under one budget, and what it plans.

    turn : None, or that it need not see everything, and which part it sees.
    """

    name: str
    algorithm: Algorithm
    problem: int
    budget: Budget
    plan: Plan
    turn: int | None = None

    @property
    def worlds(self) -> Worlds:
        """All of its problem, or the first and one other."""
        first, *others = PROBLEMS[self.problem].items()
        if self.turn is not None and others:
            others = [others[self.turn % len(others)]]
        return dict([first, *others])

    @property
    def neighbours(self) -> list[tuple[Neighbour, ...]]:
        """All of its problem; or a third of them, and the others for where these show nothing."""
        others = neighbours(self.problem)
        if self.turn is None:
            return [others]
        mine = range(self.turn % THIRD, len(others), THIRD)
        return [others[mine.start :: THIRD], tuple(one for i, one in enumerate(others) if i not in mine)]

    @property
    def specification(self) -> ProblemSpecification:
        return next(iter(self.worlds.values())).specification


def length(cls: type[Algorithm]) -> str | None:
    """The setting that says how long a run is, or may be: the first one of every algorithm that has any."""
    return next((control.name for control in cls.controls()), None)


def variants(cls: type[Algorithm], pairs: int = QUICK) -> Iterator[tuple[str, Algorithm]]:
    """The defaults at T steps; every control at its ends, its options and the middle of its range; of every two at
    their options and in the middle of ranges one in `pairs`; the options of what is set in a part of its own."""
    steps = length(cls)
    if steps is None:
        yield "default", cls()
        return
    ends: list[tuple[str, Any]] = []
    inner: list[tuple[str, Any]] = []
    for control in cls.controls():
        if control.optional:
            ends.append((control.name, None))
        if control.low is None or control.high is None:
            inner += [(control.name, value) for value in control.options or (True, False)]
        elif control.name == steps:
            ends += [(steps, control.type(control.low)), (steps, 5 * T)]
        else:
            ends += [(control.name, control.type(value)) for value in (control.low, control.high)]
            inner.append((control.name, control.type((control.low + control.high) / 2)))
    parts: list[tuple[tuple[str, Any], ...]] = []  # in shorter runs: some take long to choose what they ask for
    for name, part in dict(cls()).items():
        for control in part.controls() if isinstance(part, Specification) else ():
            others = [value for value in control.options or () if value != control.default]
            parts += [((name, part.replaced(**{control.name: value})), (steps, 4)) for value in others]
    both = [two for two in combinations(inner, 2) if two[0][0] != two[1][0]]
    for chosen in [(), *((one,) for one in (*ends, *inner)), *both[::pairs], *parts]:
        with suppress(UserError):  # some values need others
            name = " ".join(f"{name}={value}" for name, value in chosen) or "default"
            yield name, cls(**{steps: T} | dict(chosen))


def planned(cls: type[Algorithm], budgets: tuple[Budget, ...], pairs: int = QUICK) -> Iterator[Case]:
    """All plans that the budgets allow, on every problem; a refusal must be a sentence."""
    facts = [(i, next(iter(worlds.values())).specification.facts()) for i, worlds in enumerate(PROBLEMS)]
    fitting = [(i, known) for i, known in facts if isinstance(known, cls.facts_type())]
    for (name, algorithm), (problem, known), budget in product(variants(cls, pairs), fitting, budgets):
        try:
            plan = algorithm.plan(known, budget)
        except UserError as error:
            assert is_refusal(error, *ALLOWED), f"{name}: {error.title}: {error}"
            continue
        case = Case(name, algorithm, problem, budget, plan)
        yield case._replace(name=f"{name}, {case.specification.kind}, {budget.describe()}")


@cache
def cases(cls: type[Algorithm], pairs: int = QUICK) -> tuple[Case, ...]:
    """All plans that some private budget allows."""
    return tuple(planned(cls, PRIVATE, pairs))


@cache
def runs(cls: type[Algorithm], pairs: int = QUICK) -> tuple[Case, ...]:
    """One plan per variant, problem and kinds of releases: some methods add other noise under another budget.

    Variants that set two controls take turns on the problems, each runs on one of them, and on its worlds and
    neighbours. Unless all pairs are wanted, so does whatever is not the default.
    """
    usual, chosen = next(variants(cls))[1], dict[object, dict[ProblemSpecification, Case]]()
    for case in cases(cls, pairs):
        kinds = frozenset(type(release) for release in releases(case.plan))
        chosen.setdefault((case.algorithm, kinds), {}).setdefault(case.specification, case)
    found: list[Case] = []
    for turn, on_problems in enumerate(chosen.values()):
        alike = list(on_problems.values())
        changed = sum(getattr(alike[0].algorithm, name) != getattr(usual, name) for name in cls.model_fields)
        if changed > 1 or (changed and pairs != ALL):
            alike = [alike[turn % len(alike)]]
        thorough = not changed or (changed == 1 and pairs == ALL)
        found += alike if thorough else [case._replace(turn=turn + i) for i, case in enumerate(alike)]
    return tuple(found)


@cache
def built(problem: int, world: str) -> Problem:
    """One of PROBLEMS with one of its tables, loaded once."""
    specification, tables = PROBLEMS[problem][world]
    return specification.build(tables)


# ------------------------------------------------------------------------------------------------------ plan and ledger


def moments(plan: Plan) -> list[tuple[int, Event]]:
    """(iteration, release) of all single releases of a fixed plan, in order.

    Disjoint blocks are charged together, in the iteration that opens them, and released one per iteration.
    """
    found: list[tuple[int, Event]] = []
    for charged, event in zip(plan.charged_at.tolist(), plan.events, strict=True):
        blocks = event.events if isinstance(event, Parallel) else (event,)
        found += [(charged + i, release) for i, block in enumerate(blocks) for release in inner_events(block)]
    return found


def releases(plan: Plan) -> set[Event]:
    """The kinds of single releases that a plan allows."""
    events = plan.terms.allowed.values() if isinstance(plan.terms, Filter) else plan.events
    return {release for event in events for release in inner_events(event)}


def only_selects(plan: Plan) -> bool:
    """Whether all that it releases are selections: these have no noise that could grow without bound."""
    return all(isinstance(release, ExpMech) for release in releases(plan))


class Charged(NamedTuple):
    """What replicates have been charged: the events (R tuples), and under a filter the sums (R,) in its currency."""

    booked: list[tuple[Event, ...]]
    spent: np.ndarray | None


def charged(case: Case, ledger: Ledger) -> Charged:
    terms = case.plan.terms
    spent = ledger.spent(terms.currency) if isinstance(terms, Filter) else None
    return Charged([ledger.booked(r) for r in range(R)], spent)


def check_booked(case: Case, so_far: Charged, iteration: int) -> None:
    """What every replicate has been charged up to an iteration is what its plan says, or what its filter allows."""
    plan = case.plan
    until = int(np.searchsorted(plan.charged_at, iteration, side="right"))
    for replicate, booked in enumerate(so_far.booked):
        if not isinstance(plan.terms, Filter):
            count = min(len(booked), until) if plan.stops else until  # who has left is charged no more
            assert booked == plan.events[:count], f"{case.name}, replicate {replicate}"
            continue
        assert so_far.spent is not None and set(booked) <= set(plan.terms.allowed.values())
        total = math.fsum(plan.terms.cost(event) for event in booked)
        assert total <= plan.terms.ceiling * (1 + SLACK), f"{case.name}, replicate {replicate}: {total}"
        own = math.sqrt(total) if plan.terms.currency == "mu" else total
        assert so_far.spent[replicate] == pytest.approx(own, rel=1e-12)


# ----------------------------------------------------------------------------------------------------------------- runs


def started(case: Case, world: str = "", replicates: int = R) -> tuple[Iterator[Snapshot], Mechanisms, Ledger]:
    """A run on one of the problem's worlds, the first unless it is named."""
    ledger = Ledger(case.plan.terms, replicates)
    source = Mechanisms(ledger, SEED)
    return case.algorithm.run(built(case.problem, world or next(iter(case.worlds))), case.plan, source), source, ledger


def kept(snapshot: Snapshot) -> dict[str, Any]:
    """A copy of everything in a snapshot that may be shown: its arrays are valid until the next step only."""
    arrays = {**{f"output {name}": value for name, value in snapshot.output.items()}, **snapshot.released}
    arrays["active"] = np.array([]) if snapshot.active is None else snapshot.active
    copies: dict[str, Any] = {name: np.array(value) for name, value in arrays.items()}
    return copies | {"iteration": snapshot.iteration, "status": snapshot.status}


def finished(case: Case, world: str = "", replicates: int = R) -> list[dict[str, Any]]:
    return [kept(snapshot) for snapshot in started(case, world, replicates)[0]]


def same(one: Mapping[str, Any], two: Mapping[str, Any], rtol: float = 0.0, rows: slice = slice(None)) -> bool:
    """Whether two kept snapshots agree, replicate by replicate, to a relative tolerance."""
    assert one.keys() == two.keys()
    return all(
        np.allclose(value[rows], two[name][rows], rtol=rtol, atol=rtol, equal_nan=True)
        for name, value in one.items()
        if isinstance(value, np.ndarray)
    )
