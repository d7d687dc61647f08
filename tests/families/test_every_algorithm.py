"""What every algorithm must keep, whichever family it belongs to: a new one joins by registering.

An algorithm that needs a new kind of problem adds a tiny one to PROBLEMS. Runs are 6 steps of 3 replicates.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import ValidationError

from dpviz import families
from dpviz.datasets import DatasetSpecification, UploadedTable
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.privacy import accounting, mechanisms
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Batch, Mechanisms, Purpose, noise_scale, streams
from dpviz.privacy.queries import Query
from dpviz.problems.base import Problem, ProblemSpecification
from dpviz.problems.linear_models import LogisticRegression
from dpviz.problems.quadratic import Quadratic
from dpviz.specification import registered

families.load_all()
ALGORITHMS = registered(Algorithm)
EVERY = pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.kind)

SHA, N, D, R, T = "e" * 64, 24, 3, 3, 6
PRIVATE: tuple[Budget, ...] = (
    PureDP(epsilon=1.0),
    ApproximateDP(epsilon=1.0, delta=1e-5),
    ZeroConcentratedDP(rho=0.05),
    GaussianDP(mu=0.3),
)


def _tables() -> dict[str, np.ndarray]:
    """Tables of equal facts: ordinary rows, and what an attacker or an accident might send."""
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


TABLES = _tables()
_UPLOAD = UploadedTable(sha256=SHA, n=N, bounds=((0.0, 1.0),) * D, names=("a", "b", "c"))
_PAID: dict[str, Any] = {"smoothness": 0.5, "smoothness_source": "released", "smoothness_cost": 0.005}
PROBLEMS: tuple[tuple[ProblemSpecification, tuple[str, ...]], ...] = (
    (LogisticRegression(data=_UPLOAD, clip=0.5), tuple(TABLES)),
    (LogisticRegression(data=_UPLOAD, **_PAID), ("ordinary",)),
    (Quadratic(rows=N, dimension=D, start=-2.0), ("ordinary",)),
)


class Case(NamedTuple):
    """One way to set an algorithm, on one problem, under one budget, and what it plans."""

    name: str
    algorithm: Algorithm
    specification: ProblemSpecification
    tables: tuple[str, ...]
    budget: Budget
    plan: Plan


def variants(cls: type[Algorithm]) -> Iterator[tuple[str, Algorithm]]:
    """The defaults at T steps; every control at its ends; every two at their options and in the middle of ranges."""
    short = {"iterations": T} if "iterations" in cls.model_fields else {}
    ends: list[tuple[str, Any]] = [("iterations", 1), ("iterations", 3 * T)] if short else []
    inner: list[tuple[str, Any]] = []
    for control in cls.controls():
        if control.low is None or control.high is None:
            inner += [(control.name, value) for value in control.options or (True, False)]
        elif control.name != "iterations":
            ends += [(control.name, control.type(value)) for value in (control.low, control.high)]
            inner.append((control.name, control.type((control.low + control.high) / 2)))
    for chosen in [(), *((one,) for one in (*ends, *inner)), *combinations(inner, 2)]:
        if len(dict(chosen)) == len(chosen):
            with suppress(ValidationError):  # some values need others
                yield " ".join(f"{name}={value}" for name, value in chosen) or "default", cls(**short | dict(chosen))


def planned(cls: type[Algorithm], budgets: tuple[Budget, ...]) -> Iterator[Case]:
    for name, algorithm in variants(cls):
        for specification, tables in PROBLEMS:
            facts = specification.facts()
            if not isinstance(facts, cls.facts_type()):
                continue
            for budget in budgets:
                try:
                    plan = algorithm.plan(facts, budget)
                except UserError as error:
                    assert len(str(error)) > 20 and str(error).rstrip().endswith("."), f"{name}: {error}"
                    continue
                label = f"{name}, {specification.kind}, {budget.describe()}"
                yield Case(label, algorithm, specification, tables, budget, plan)


@cache
def cases(cls: type[Algorithm]) -> tuple[Case, ...]:
    """All plans that some private budget allows."""
    return tuple(planned(cls, PRIVATE))


@cache
def runs(cls: type[Algorithm]) -> tuple[Case, ...]:
    """One plan per variant and problem, enough for what happens while running."""
    chosen: dict[object, Case] = {}
    for case in cases(cls):
        chosen.setdefault((case.algorithm, case.specification), case)
    return tuple(chosen.values())


@cache
def built(specification: ProblemSpecification, table: str) -> Problem:
    return specification.build({SHA: TABLES[table]})


def started(case: Case, table: str = "ordinary", replicates: int = R) -> tuple[Iterator[Snapshot], Mechanisms, Ledger]:
    ledger = Ledger(case.plan.terms, replicates)
    source = Mechanisms(ledger, seed=5)
    return case.algorithm.run(built(case.specification, table), case.plan, source), source, ledger


def kept(snapshot: Snapshot) -> dict[str, Any]:
    """A copy of everything in a snapshot: its arrays are valid until the next step only."""
    arrays = {**{f"output {name}": value for name, value in snapshot.output.items()}, **snapshot.released}
    arrays["active"] = np.array([]) if snapshot.active is None else snapshot.active
    copies: dict[str, Any] = {name: np.array(value) for name, value in arrays.items()}
    return copies | {"iteration": snapshot.iteration, "status": snapshot.status}


def finished(case: Case, table: str = "ordinary", replicates: int = R) -> list[dict[str, Any]]:
    return [kept(snapshot) for snapshot in started(case, table, replicates)[0]]


def same(one: Mapping[str, Any], two: Mapping[str, Any], rtol: float = 0.0, rows: slice = slice(None)) -> bool:
    """Whether two kept snapshots agree, replicate by replicate, to a relative tolerance."""
    assert one.keys() == two.keys()
    return all(
        np.allclose(value[rows], two[name][rows], rtol=rtol, atol=rtol, equal_nan=True)
        for name, value in one.items()
        if isinstance(value, np.ndarray)
    )


class Fixed:
    """A generator that draws one value: 0 silences the noise, 1e200 breaks a replicate."""

    def __init__(self, value: float) -> None:
        self.value = value

    def laplace(self, size: tuple[int, ...]) -> np.ndarray:
        return np.full(size, self.value)

    standard_normal = laplace


def stub_noise(monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...]) -> None:
    """From now on replicate r of a new run draws values[r] instead of noise, where that is not NaN."""
    true = mechanisms.streams

    def replaced(seed: int, purpose: Purpose, replicates: int) -> list:
        drawn: list = true(seed, purpose, replicates)
        if purpose is Purpose.NOISE:
            drawn = [d if np.isnan(v) else Fixed(v) for d, v in zip(drawn, values, strict=True)]
        return drawn

    monkeypatch.setattr(mechanisms, "streams", replaced)


# ------------------------------------------------------------------------------------------------------------- settings


@EVERY
def test_settings_survive_json_alone_and_inside_an_experiment(cls: type[Algorithm]) -> None:
    assert cls.title and all(metric.released for metric in cls.metrics)
    assert runs(cls)[0].name.startswith("default"), "no budget or problem here fits the defaults"
    for case in runs(cls):
        assert Algorithm.from_json(case.algorithm.to_json()) == case.algorithm
        arm = Arm(label="A", algorithm=case.algorithm, budget=case.budget)
        experiment = Experiment(problem=case.specification, arms=(arm,))
        again = Experiment.from_json(experiment.to_json())
        assert again == experiment and again.content_hash() == experiment.content_hash()
        assert again.plans()["A"].events == case.plan.events


# ----------------------------------------------------------------------------------------------------------------- plan


@EVERY
def test_a_plan_touches_no_data_draws_nothing_and_is_deterministic(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cases(cls)

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a plan must not touch data or draw")

    for owner, name in [(DatasetSpecification, "load"), (np.random, "default_rng"), (np.random, "Generator")]:
        monkeypatch.setattr(owner, name, refuse)
    for owner_class in registered(ProblemSpecification):
        monkeypatch.setattr(owner_class, "build", refuse)
    state = np.random.get_state()[1].copy()
    for case in reversed(expected):  # in another order: no plan may depend on those before
        again = case.algorithm.plan(case.specification.facts(), case.budget)
        assert again.events == case.plan.events, case.name
        assert again.iterations == case.plan.iterations and dict(again.resolved) == dict(case.plan.resolved)
        assert again.schedule.keys() == case.plan.schedule.keys() and again.notes == case.plan.notes
        for series, values in again.schedule.items():
            assert np.array_equal(values, case.plan.schedule[series]), f"{case.name}: {series}"
    assert np.array_equal(state, np.random.get_state()[1])


@EVERY
def test_a_plan_is_complete_finite_and_read_only(cls: type[Algorithm]) -> None:
    for case in cases(cls):
        plan = case.plan
        assert plan.facts == case.specification.facts() and plan.budget == case.budget
        assert plan.iterations >= 1 and len(plan.charged_at) == len(plan.events) > 0, case.name
        assert (np.diff(plan.charged_at, prepend=1, append=plan.iterations) >= 0).all(), case.name
        if "iterations" in cls.model_fields:
            assert plan.iterations <= case.algorithm.iterations  # type: ignore[attr-defined]
        for name, values in plan.schedule.items():
            assert values.shape == (plan.iterations,), f"{case.name}: {name}"
            assert np.isfinite(values).all(), f"{case.name}: {name}"
            with pytest.raises(ValueError):
                values[0] = values[0]
        for positive in ("noise_scale", "step_size", "batch_size"):
            assert (plan.schedule.get(positive, np.ones(1)) > 0).all(), f"{case.name}: {positive}"
        if "batch_size" in plan.schedule:
            assert (plan.schedule["batch_size"] <= plan.facts.n).all()


@EVERY
def test_a_plan_spends_at_most_the_budget_in_its_own_currency(cls: type[Algorithm]) -> None:
    for case in cases(cls):
        plan, budget, before = case.plan, case.budget, case.plan.facts.released
        if isinstance(budget, ApproximateDP):  # δ is the run's alone: what was released before was pure
            cap = budget.epsilon
            used = accounting.total(before, "epsilon") + accounting.tightest(plan.events, budget.delta).epsilon
        else:
            currency: Any = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}[type(budget)]
            cap, used = getattr(budget, currency), accounting.total((*before, *plan.events), currency)
            series = plan.spent(currency)
            assert series.shape == (plan.iterations + 1,) and (np.diff(series) >= 0).all()
            assert series[0] == pytest.approx(accounting.total(before, currency), rel=1e-12)
            assert series[-1] == pytest.approx(used, rel=1e-12)
        assert 0.97 * cap <= used <= cap * (1 + 1e-12), f"{case.name} spends {used} of {cap}"


# ------------------------------------------------------------------------------------------------------- run and ledger


@EVERY
def test_the_ledger_of_a_run_is_the_plan_on_any_data(cls: type[Algorithm]) -> None:
    for case in runs(cls):
        for table in case.tables:
            snapshots, _, ledger = started(case, table)
            iterations = []
            for snapshot in snapshots:
                iterations.append(snapshot.iteration)
                charged = int(np.searchsorted(case.plan.charged_at, snapshot.iteration, side="right"))
                assert ledger.booked(0) == case.plan.events[:charged], f"{case.name}, {table}"
            assert iterations == list(range(case.plan.iterations + 1)), case.name
            for r in range(R):
                assert ledger.booked(r) == case.plan.events, f"{case.name}, {table}, replicate {r}"


@EVERY
def test_the_noise_drawn_is_the_noise_shown(cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release is its value plus the planned scale times the next standard draw of the replicate's stream."""
    seen: list[tuple[Query, np.ndarray, str, int]] = []

    def spied(name: str, draw: str) -> None:
        true = getattr(Batch, name)

        def release(self: Batch, query: Query) -> np.ndarray:
            noisy = true(self, query)
            seen.append((query, np.array(noisy), draw, 0 if self.indices is None else self.indices.shape[1]))
            return noisy

        monkeypatch.setattr(Batch, name, release)

    spied("laplace", "laplace")
    spied("gaussian", "standard_normal")
    for case in runs(cls):
        seen.clear()
        finished(case)
        releases = [inner for event in case.plan.events for inner in mechanisms.inner_events(event)]
        generators, scales, sizes = streams(5, Purpose.NOISE, R), [], []
        for (query, noisy, draw, m), release in zip(seen, releases, strict=True):
            scales.append(noise_scale(release, query.sensitivity))  # type: ignore[arg-type]
            sizes.append(m or case.plan.facts.n)
            for r, generator in enumerate(generators):
                unit = getattr(generator, draw)(size=noisy[r].shape)
                assert np.array_equal(noisy[r], query.value[r] + scales[-1] * unit), case.name
        if len(seen) == case.plan.iterations and "noise_scale" in case.plan.schedule:
            assert scales == case.plan.schedule["noise_scale"].tolist(), f"{case.name}: shown and drawn scale differ"
            assert sizes == case.plan.schedule["batch_size"].tolist(), f"{case.name}: shown and drawn batch differ"


@EVERY
def test_a_stopped_run_is_a_prefix(cls: type[Algorithm]) -> None:
    for case in runs(cls):
        whole = finished(case)
        for stop in {0, 1, case.plan.iterations - 1}:
            snapshots, _, ledger = started(case)
            part = [kept(next(snapshots)) for _ in range(stop + 1)]
            snapshots.close()  # type: ignore[attr-defined]
            assert all(same(one, two) for one, two in zip(part, whole, strict=False)), case.name
            charged = int(np.searchsorted(case.plan.charged_at, stop, side="right"))
            assert [ledger.booked(r) for r in range(R)] == [case.plan.events[:charged]] * R, case.name


@EVERY
def test_everything_in_a_snapshot_is_a_function_of_the_releases(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the mechanisms released the same numbers on two tables, nothing that a run shows may tell them apart."""

    released: list[Query] = []

    def canned(self: Batch, query: Query) -> np.ndarray:
        released.append(query)
        return np.sin(np.arange(query.value.size) + len(released)).reshape(query.value.shape) / N

    for name in ("laplace", "gaussian"):
        monkeypatch.setattr(Batch, name, canned)
    for case in runs(cls):
        first: list[dict[str, Any]] = []
        for table in case.tables:
            released.clear()
            found = finished(case, table)
            first = first or found
            assert all(same(one, two) and one["status"] == two["status"] for one, two in zip(first, found, strict=True))


@EVERY
def test_snapshots_have_the_promised_shape_and_hostile_data_cannot_break_them(cls: type[Algorithm]) -> None:
    for case in runs(cls):
        names = {metric.name for metric in cls.metrics}
        starts = set()
        for table in case.tables:
            problem, shapes = built(case.specification, table), None
            for snapshot in started(case, table)[0]:
                assert {name: value.shape for name, value in snapshot.released.items()} == dict.fromkeys(names, (R,))
                shapes = shapes or {name: value.shape for name, value in snapshot.output.items()}
                assert {name: value.shape for name, value in snapshot.output.items()} == shapes
                for value in snapshot.output.values():
                    assert value.dtype == np.float64 and len(value) == R and np.isfinite(value).all(), case.name
                if snapshot.iteration == 0:
                    starts.add(tuple(np.concatenate([value.ravel() for value in snapshot.output.values()])))
            diagnostics = problem.evaluate(snapshot.output)
            assert set(diagnostics) == {metric.name for metric in problem.metrics}
            assert all(np.isfinite(value).all() and value.shape == (R,) for value in diagnostics.values()), case.name
        assert len(starts) == 1, "the starting point must not depend on the data"


# ------------------------------------------------------------------------------------- without noise, and with too much


@EVERY
def test_without_privacy_nothing_is_drawn_and_the_method_is_the_noise_free_one(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, private = 0, {(case.algorithm, case.specification): case for case in runs(cls)}
    for case in planned(cls, (NoPrivacy(),)):
        assert case.plan.spent("epsilon")[-1] == case.plan.spent("rho")[-1] == np.inf
        assert (case.plan.schedule.get("noise_scale", np.zeros(1)) == 0).all()
        snapshots, source, ledger = started(case)
        before = [generator.bit_generator.state for generator in source._noise]
        plain = [kept(snapshot) for snapshot in snapshots]
        assert [generator.bit_generator.state for generator in source._noise] == before
        assert ledger.booked(0) == case.plan.events
        noisy = private.get((case.algorithm, case.specification))
        if noisy is None or noisy.plan.iterations != case.plan.iterations:
            continue  # the budget chose another number of steps
        with monkeypatch.context() as patched:
            stub_noise(patched, (0.0,) * R)
            silent = finished(noisy)
        assert all(same(one, two) for one, two in zip(plain, silent, strict=True)), case.name
        compared += 1
    assert compared


@EVERY
def test_a_diverged_replicate_is_marked_not_dropped_and_disturbs_no_other(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in runs(cls):
        clean = finished(case)
        for loud in (1e200, -np.inf):
            with monkeypatch.context() as patched, np.errstate(all="ignore"):
                stub_noise(patched, (np.nan, loud, np.nan))
                snapshots, _, ledger = started(case)
                broken = [kept(snapshot) for snapshot in snapshots]
            assert len(broken) == len(clean)
            for one, two in zip(broken, clean, strict=True):
                assert same(one, two, rows=slice(0, 1)) and same(one, two, rows=slice(2, 3)), case.name
                assert all(np.isfinite(value).all() for name, value in one.items() if name.startswith("output"))
            assert broken[-1]["status"] is not None, f"{case.name}: noise of {loud} went unnoticed"
            assert broken[-1]["status"][1] == "diverged" and broken[-1]["status"][0] != "diverged"
            assert [ledger.booked(r) for r in range(R)] == [case.plan.events] * R


# ------------------------------------------------------------------------------------------------- replicates and seeds


@EVERY
def test_a_replicate_is_the_same_whatever_their_number(cls: type[Algorithm]) -> None:
    for case in runs(cls):
        wide = finished(case, replicates=7)
        for replicates in (1, 2):
            pairs = zip(finished(case, replicates=replicates), wide, strict=True)
            assert all(same(one, two, 1e-9, slice(0, replicates)) for one, two in pairs), case.name


@EVERY
def test_an_arm_is_the_same_whatever_the_other_arms_and_another_seed_differs(cls: type[Algorithm]) -> None:
    case = runs(cls)[0]
    arm = Arm(label="it", algorithm=case.algorithm, budget=case.budget)
    alike = [other for other in runs(cls) if other.specification == case.specification][1:9:2]
    others = tuple(Arm(label=f"{i}", algorithm=c.algorithm, budget=c.budget) for i, c in enumerate(alike))
    traces = []
    for arms, seed in (((arm,), 0), ((*others, arm), 0), ((arm,), 1)):
        experiment = Experiment(problem=case.specification, arms=arms, replicates=R, seed=seed)
        trace = experiment.run({SHA: TABLES["ordinary"]})
        traces.append(trace.series("it", next(iter(trace.metrics))))
    assert np.array_equal(traces[0][1], traces[1][1])
    assert not np.array_equal(traces[0][1][1:], traces[2][1][1:])
    assert len(set(traces[0][1][-1])) == R, "replicates must not share noise"
