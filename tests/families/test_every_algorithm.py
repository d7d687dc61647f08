"""What every algorithm must keep, whichever family it belongs to: a new one joins by registering.

An algorithm that needs a new kind of problem adds a tiny one to PROBLEMS. Runs are 6 steps of 3 replicates.
"""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dpviz import specification
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.bayesian_optimization.algorithms import Descent, Gibo
from dpviz.families.mirror_descent import SyntheticData
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech, Gaussian
from dpviz.privacy.ledger import Filter
from dpviz.specification import Specification, registered
from tests import refusals
from tests.families.checks import (
    arrays,
    check_noise,
    check_released_only,
    check_replicates,
    check_sensitivity,
    check_stops,
)
from tests.families.recording import remembered, shown
from tests.families.registry import (
    ALGORITHMS,
    ALL,
    ALLOWED,
    QUICK,
    Case,
    R,
    built,
    cases,
    charged,
    check_booked,
    finished,
    kept,
    length,
    moments,
    only_selects,
    planned,
    releases,
    runs,
    same,
    started,
)
from tests.families.spying import stub_noise
from tests.families.toys import TOYS, Cosine
from tests.refusals import is_refusal

EVERY = pytest.mark.parametrize(
    ("cls", "pairs"),
    [
        pytest.param(cls, pairs, id=cls.kind + words, marks=[pytest.mark.slow] if pairs == ALL or cls is Gibo else [])
        for pairs, words in ((QUICK, ""), (ALL, ", all pairs"))
        for cls in ALGORITHMS
    ],
)


@pytest.fixture(autouse=True)
def _toys_are_found_by_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Cosine, *TOYS):
        monkeypatch.setitem(specification._kinds, cls.kind, cls)  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.one_in(2)
@EVERY
def test_arms_draw_from_one_stream_only_if_they_release_the_same(cls: type[Algorithm], pairs: int) -> None:
    """Compared arms have one seed, so a setting that their streams did not follow from would share noise."""
    streams: dict[tuple[str, int, Budget], Case] = {}
    for case in cases(cls, pairs):
        first = streams.setdefault((case.algorithm.released_settings(), case.problem, case.budget), case)
        if first.algorithm != case.algorithm:
            assert all(map(same, finished(first), finished(case))), case.name


@EVERY
def test_settings_survive_json_alone_and_inside_an_experiment(cls: type[Algorithm], pairs: int) -> None:
    assert cls.title and all(metric.released for metric in cls.metrics)
    assert runs(cls, pairs)[0].name.startswith("default"), "no budget or problem here fits the defaults"
    for case in runs(cls, pairs):
        assert Algorithm.from_json(case.algorithm.to_json()) == case.algorithm
        arm = Arm(label="A", algorithm=case.algorithm, budget=case.budget)
        experiment = Experiment(problem=case.specification, arms=(arm,))
        again = Experiment.from_json(experiment.to_json())
        assert again == experiment and again.content_hash() == experiment.content_hash()
        assert again.plans()["A"].events == case.plan.events


# ----------------------------------------------------------------------------------------------------------------- plan


@pytest.mark.one_in(2)
@EVERY
def test_a_plan_touches_no_data_draws_nothing_and_is_deterministic(
    cls: type[Algorithm], pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cases(cls, pairs)

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a plan must not touch data or draw")

    for name in ("default_rng", "Generator"):
        monkeypatch.setattr(np.random, name, refuse)
    for owner in registered(Specification):
        for name in ("load", "build"):
            if hasattr(owner, name):
                monkeypatch.setattr(owner, name, refuse)
    state = np.random.get_state()[1].copy()
    for case in reversed(expected):  # in another order: no plan may depend on those before
        again = case.algorithm.plan(case.specification.facts(), case.budget)
        assert again.events == case.plan.events and again.terms == case.plan.terms, case.name
        assert again.iterations == case.plan.iterations and dict(again.resolved) == dict(case.plan.resolved)
        assert again.notes == case.plan.notes
        planned_arrays = arrays(case.plan)
        assert arrays(again).keys() == planned_arrays.keys()
        for series, values in arrays(again).items():
            assert np.array_equal(values, planned_arrays[series]), f"{case.name}: {series}"
    assert np.array_equal(state, np.random.get_state()[1])


@pytest.mark.one_in(2)
@EVERY
def test_a_plan_is_complete_finite_and_read_only(cls: type[Algorithm], pairs: int) -> None:
    for case in cases(cls, pairs):
        plan = case.plan
        assert plan.facts == case.specification.facts() and plan.budget == case.budget
        assert plan.iterations >= 1 and len(plan.charged_at) == len(plan.events) > 0, case.name
        assert (np.diff(plan.charged_at, prepend=1, append=plan.iterations) >= 0).all(), case.name
        chosen = getattr(case.algorithm, length(cls) or "", None)
        assert chosen is None or plan.iterations <= chosen, case.name
        for name, values in arrays(plan).items():
            assert values.shape == (plan.iterations,), f"{case.name}: {name}"
            assert np.isfinite(values).all() and (values >= 0).all(), f"{case.name}: {name}"
            assert (values > 0).all() or not name.startswith("step_size"), f"{case.name}: {name}"
            with pytest.raises(ValueError):
                values[0] = values[0]
        scales = list(plan.noise.values())
        assert bool(scales) != only_selects(plan), f"{case.name}: who adds no noise selects"
        filtered = isinstance(plan.terms, Filter)
        noisy = plan.charged_at if filtered else [t for t, event in moments(plan) if not isinstance(event, ExpMech)]
        assert not scales or (sum(scales) > 0)[np.array(noisy) - 1].all(), case.name  # who reads no data needs no noise
        assert (plan.rows <= plan.facts.n).all() and (plan.rows[plan.charged_at - 1] > 0).all(), case.name
        if isinstance(plan.terms, Filter):  # what a filter allows is one event, charged as soon as it begins
            (ceiling,) = plan.events
            currency = plan.terms.currency
            assert accountants.total((ceiling,), currency) == pytest.approx(plan.terms.cap, rel=1e-12)
            assert plan.charged_at.tolist() == [1] and plan.terms.allowed


def may_leave_some(case: Case) -> bool:
    """Whether an algorithm says that it does not use the budget up: by its accounting, or by the steps it takes."""
    settings, plan = case.algorithm, case.plan
    if getattr(settings, "accounting", "tight") == "paper" or getattr(settings, "relative_step", 1.0) < 1:
        return True
    if getattr(settings, "sums", "") == "published":  # with the paper's noise, more than they need
        return True
    if isinstance(settings, Descent) and settings.share < 1:
        return True
    if isinstance(case.budget, ApproximateDP) and {type(release) for release in releases(plan)} == {ExpMech, Gaussian}:
        return True  # noise and selections together are planned by their ρ, of which ε is an upper bound
    if isinstance(settings, SyntheticData):  # longer steps than its limit would be worse, whatever they cost
        return plan.resolved["step_size_y"] == settings.step_size(plan.facts, plan.iterations, 1, np.inf)  # type: ignore[arg-type]
    return False


@pytest.mark.one_in(2)
@EVERY
def test_a_plan_spends_at_most_the_budget_in_its_own_currency(cls: type[Algorithm], pairs: int) -> None:
    for case in cases(cls, pairs):
        plan, budget, before = case.plan, case.budget, case.plan.facts.released
        if isinstance(budget, ApproximateDP):  # δ is the run's alone: what was released before was pure
            cap = budget.epsilon
            used = accountants.total(before, "epsilon") + accountants.tightest(plan.events, budget.delta).epsilon
        else:
            currency: Any = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}[type(budget)]
            cap, used = getattr(budget, currency), accountants.total((*before, *plan.events), currency)
            series = plan.spent(currency)
            assert series.shape == (plan.iterations + 1,) and (np.diff(series) >= 0).all()
            assert series[0] == pytest.approx(accountants.total(before, currency), rel=1e-12)
            assert series[-1] == pytest.approx(used, rel=1e-12)
        assert used <= cap * (1 + 1e-12), f"{case.name} spends {used} of {cap}"
        assert used >= 0.97 * cap or may_leave_some(case), f"{case.name} spends only {used} of {cap}"


@pytest.mark.one_in(2)
@EVERY
def test_a_plan_for_people_spends_at_most_the_budget_on_all_rows_of_one(cls: type[Algorithm], pairs: int) -> None:
    """And what it says of them is what the rows are known to lose: k times their ε, and k times the μ of Gaussians."""
    for case in (case for case in cases(cls, pairs) if case.name.startswith("default") or case in runs(cls, pairs)):
        budget, facts = case.budget, case.specification.facts()
        for k in (2, 7):
            try:
                plan = case.algorithm.plan(facts, budget.per_row(k)).for_people(budget, k)
            except UserError as error:
                assert is_refusal(error, *ALLOWED, refusals.UNPROTECTED), f"{case.name}: {error.title}: {error}"
                continue
            statement = plan.statement
            spent, before = budget.spent(statement.events, statement.facts.released), statement.facts.released
            assert spent <= budget.limit * (1 + 1e-9), f"{case.name}: {k} rows spend {spent} of {budget.limit}"
            assert accountants.total(before, "epsilon") == pytest.approx(
                k * accountants.total(facts.released, "epsilon")
            )
            if isinstance(plan.terms, Filter) and budget.adds_up:
                assert spent >= 0.97 * budget.limit or may_leave_some(case), f"{case.name}: {k} rows spend {spent}"
            lost = k * accountants.total(plan.events, "epsilon")
            assert accountants.total(statement.events, "epsilon") >= lost * (1 - 1e-12), case.name
            if statement.currency is not None:
                series = statement.spent(statement.currency)
                assert series.shape == (plan.iterations + 1,) and (np.diff(series) >= 0).all()
            if all(isinstance(release, Gaussian) for release in releases(plan)):
                lost = k * accountants.total(plan.events, "mu")
                assert lost == np.inf or accountants.total(statement.events, "mu") >= lost * (1 - 1e-12), case.name


# ------------------------------------------------------------------------------------------------------- run and ledger


@pytest.mark.one_in(4)
@EVERY
def test_the_ledger_of_a_run_is_the_plan_on_any_data(cls: type[Algorithm], pairs: int) -> None:
    check_stops(runs(cls, pairs), remembered)


@pytest.mark.one_in(2)
@EVERY
def test_the_noise_drawn_is_the_noise_shown(cls: type[Algorithm], pairs: int) -> None:
    check_noise(runs(cls, pairs), remembered)


@pytest.mark.one_in(2)
@EVERY
def test_a_stopped_run_is_a_prefix(cls: type[Algorithm], pairs: int) -> None:
    for case in runs(cls, pairs):
        whole = remembered(case)
        usual = shown(case)
        stops = (len(whole.snapshots) - 2, 1, 0)
        for stop in set(stops if case.turn is None else stops[case.turn % 3 :][:1]):
            snapshots, _, ledger = started(case)
            part = [kept(next(snapshots)) for _ in range(stop + 1)]
            snapshots.close()  # type: ignore[attr-defined]
            assert all(same(one, two) for one, two in zip(part, usual, strict=False)), case.name
            assert charged(case, ledger).booked == whole.charged[stop].booked, case.name
            check_booked(case, charged(case, ledger), stop)


@pytest.mark.one_in(4)
@EVERY
def test_everything_in_a_snapshot_is_a_function_of_the_releases(cls: type[Algorithm], pairs: int) -> None:
    check_released_only(runs(cls, pairs), remembered)


@pytest.mark.one_in(4)
@EVERY
def test_no_query_moves_by_more_than_its_sensitivity(cls: type[Algorithm], pairs: int) -> None:
    check_sensitivity(runs(cls, pairs), remembered)


@pytest.mark.one_in(2)
@EVERY
def test_snapshots_have_the_promised_shape_and_hostile_data_cannot_break_them(cls: type[Algorithm], pairs: int) -> None:
    for case in runs(cls, pairs):
        names, has_internal = {metric.name for metric in cls.metrics}, case.algorithm.has_internal(case.plan.facts)
        starts = set()
        for world in case.worlds:
            problem, shapes = built(case.problem, world), None
            for snapshot in remembered(case, world).snapshots:
                assert {name: value.shape for name, value in snapshot.released.items()} == dict.fromkeys(names, (R,))
                shapes = shapes or {name: value.shape for name, value in snapshot.output.items()}
                assert {name: value.shape for name, value in snapshot.output.items()} == shapes
                hidden = {name: value.shape for name, value in snapshot.internal.items()}
                own = problem.internal_metrics is not None  # then it records something else of what is internal
                assert bool(hidden) == has_internal and (own or hidden in ({}, shapes))
                for value in (*snapshot.output.values(), *snapshot.internal.values()):
                    assert value.dtype == np.float64 and len(value) == R and np.isfinite(value).all(), case.name
                assert snapshot.active is None or (snapshot.active.shape, snapshot.active.dtype) == ((R,), bool)
                assert snapshot.status is None or len(snapshot.status) == R
                if snapshot.iteration == 0:
                    starts.add(tuple(np.concatenate([value.ravel() for value in snapshot.output.values()])))
            secret = problem.metrics if problem.internal_metrics is None else problem.internal_metrics
            both = ((snapshot.output, problem.metrics), (snapshot.internal, secret))
            for values, metrics in both[: 1 + has_internal]:
                diagnostics = problem.evaluate(values)
                assert set(diagnostics) == {metric.name for metric in metrics}
                assert all(np.isfinite(v).all() and v.shape == (R,) for v in diagnostics.values()), case.name
        assert len(starts) == 1, "the starting point must not depend on the data"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.kind)
def test_a_run_ends_with_progress_one_and_no_replicate_running(cls: type[Algorithm]) -> None:
    for case in runs(cls)[:3]:
        arm = Arm(label="it", algorithm=case.algorithm, budget=case.budget)
        experiment = Experiment(problem=case.specification, arms=(arm,), replicates=R)
        steps = list(experiment.stream(next(iter(case.worlds.values())).tables))
        progress = [step.progress for step in steps]
        assert progress == sorted(progress) and progress[-1] == 1.0, case.name
        lane = steps[-1].trace.arm_traces["it"]
        assert len(lane.status) == R and "running" not in lane.status, case.name
        assert len(lane.statuses) == len(lane.iterations) and lane.iterations[-1] == steps[-1].snapshot.iteration


@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.kind)
def test_nobody_is_charged_more_than_the_worst_case_after_any_iteration(cls: type[Algorithm]) -> None:
    for case in runs(cls):
        terms: Any = case.plan.terms
        if not isinstance(terms, Filter):
            continue
        worst = case.plan.spent(terms.currency)
        snapshots, source, _ = started(case)
        for snapshot in snapshots:
            assert (source.spent(terms.currency) <= worst[snapshot.iteration] * (1 + 1e-9)).all(), case.name


# ------------------------------------------------------------------------------------- without noise, and with too much


@pytest.mark.one_in(4)
@EVERY
def test_without_privacy_nothing_is_drawn_and_the_method_is_the_noise_free_one(
    cls: type[Algorithm], pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same releases at the same times, with the same schedule, are the private run without its noise. A method that
    exists with privacy only refuses; one that then releases more (weights instead of draws) is another method."""
    plans, compared = 0, 0
    private = {(case.algorithm, case.problem): case for case in runs(cls, pairs)}
    elsewhere = {case.algorithm for case in runs(cls, pairs)} if pairs != ALL else set()
    for case in planned(cls, (NoPrivacy(),), pairs):
        if case.algorithm in elsewhere and (case.algorithm, case.problem) not in private:
            continue  # it is not this problem's turn
        plans += 1
        assert case.plan.spent("epsilon")[-1] == case.plan.spent("rho")[-1] == np.inf
        assert all((v == 0).all() for name, v in arrays(case.plan).items() if name.startswith(("noise_", "range_")))
        snapshots, source, ledger = started(case)
        before = [generator.bit_generator.state for generator in source._noise]
        plain = [kept(snapshot) for snapshot in snapshots]
        assert [generator.bit_generator.state for generator in source._noise] == before
        booked = ledger.booked(0)
        due = case.plan.events[: len(booked)] if case.plan.stops else case.plan.events
        assert booked and (isinstance(case.plan.terms, Filter) or booked == due)
        noisy = private.get((case.algorithm, case.problem))
        if noisy is None or noisy.plan.iterations != case.plan.iterations:
            continue  # the budget chose another number of steps
        if not np.array_equal(noisy.plan.charged_at, case.plan.charged_at):
            continue
        with monkeypatch.context() as patched:
            stub_noise(patched, (0.0,) * R)
            silent = finished(noisy)
        if any("budget" in (one["status"] or ()) for one in silent):
            continue  # it ended where the other goes on
        for one in (*plain, *silent):  # what is charged has no number without privacy, and the scale of noise is 0
            for name in [name for name in one if name.endswith(("_charged", "_noise"))]:
                del one[name]
        schedule, steps = case.plan.schedule, noisy.plan.schedule
        unchanged = dict(case.plan.resolved) == dict(noisy.plan.resolved) and schedule.keys() == steps.keys()
        unchanged = unchanged and all(np.array_equal(schedule[name], steps[name]) for name in steps)
        same_steps = dataclasses.replace(case.plan, schedule=noisy.plan.schedule, resolved=noisy.plan.resolved)
        redone = plain if unchanged else finished(case._replace(plan=same_steps))
        redone = [{name: one[name] for name in two} for one, two in zip(redone, silent, strict=True)]
        # Of products with a noisy matrix, what noise there is decides how they are put together. A certificate keeps
        # its distance from that noise: one run stops at the eigenvalue that LAPACK computes alone, the other asks for
        # the matrix, too, and shows the one computed with its vectors. These two differ in the last bits.
        products, certified = "hessian_products" in case.plan.resolved, "certificate" in noisy.plan.noise
        rounding = 1e-9 if products else 1e-14 if certified else 0.0
        assert all(same(one, two, rounding) for one, two in zip(redone, silent, strict=True)), case.name
        # A certificate keeps its distance from the noise that there is, and a process is told how much that is. Only
        # what is private needs a clip.
        told = ("step_size", "certificate", "assumed_noise", "clip")
        if all(np.array_equal(schedule[name], steps[name]) for name in schedule if name.startswith(told)):
            assert all(same(one, two, rounding) for one, two in zip(plain, silent, strict=True)), case.name
        compared += 1
    assert compared or not plans or only_selects(runs(cls, pairs)[0].plan)


@pytest.mark.one_in(2)
@EVERY
def test_a_diverged_replicate_is_marked_not_dropped_and_disturbs_no_other(
    cls: type[Algorithm], pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Selections have no noise that could grow without bound: there the extreme draws only must not disturb others."""
    for case in runs(cls, pairs):
        clean = shown(case)
        with monkeypatch.context() as patched, np.errstate(all="ignore"):
            stub_noise(patched, (1e200, np.nan, -np.inf))
            snapshots, _, ledger = started(case)
            broken = [kept(snapshot) for snapshot in snapshots]
        if len(broken) < len(clean):  # the other has ended
            assert case.plan.stops and not broken[-1]["active"].any()
        # Products without the replicates that have left are those of another shape, which may round differently.
        for one, two in zip(broken, clean, strict=len(broken) == len(clean)):
            assert same(one, two, 1e-9, slice(1, 2)), case.name
            assert all(np.isfinite(value).all() for name, value in one.items() if name.startswith("output"))
        check_booked(case, charged(case, ledger), case.plan.iterations)
        if not only_selects(case.plan):
            status = broken[-1]["status"]
            assert status is not None, f"{case.name}: noise beyond all bounds went unnoticed"
            assert status[0] == status[2] == "diverged" != status[1], f"{case.name}: {status}"


# ------------------------------------------------------------------------------------------------- replicates and seeds


@pytest.mark.one_in(4)
@EVERY
def test_a_replicate_is_the_same_whatever_their_number(cls: type[Algorithm], pairs: int) -> None:
    check_replicates(runs(cls, pairs), remembered)


@pytest.mark.one_in(4)
@EVERY
def test_an_arm_is_the_same_whatever_the_other_arms_and_the_worker_and_another_seed_differs(
    cls: type[Algorithm], pairs: int
) -> None:
    case = runs(cls, pairs)[0]
    arm = Arm(label="it", algorithm=case.algorithm, budget=case.budget)
    alike = [other for other in runs(cls, pairs) if other.problem == case.problem][1:9:2]
    others = tuple(Arm(label=f"{i}", algorithm=c.algorithm, budget=c.budget) for i, c in enumerate(alike))

    def traced(text: str) -> np.ndarray:
        trace = Experiment.from_json(text).run(next(iter(case.worlds.values())).tables)
        return trace.series("it", next(iter(trace.metrics)))[1]

    texts = [
        Experiment(problem=case.specification, arms=arms, replicates=R, seed=seed).to_json()
        for arms, seed in (((arm,), 0), ((*others, arm), 0), ((arm,), 1))
    ]
    traces = [traced(text) for text in texts]
    with ThreadPoolExecutor(2) as pool:  # two workers at once know the text only
        assert all(np.array_equal(traces[0], found) for found in pool.map(traced, texts[:2]))
    assert np.array_equal(traces[0], traces[1])
    if length(cls) is None and only_selects(case.plan):
        return  # one or two selections from a few vertices may well coincide
    assert not np.array_equal(traces[0][1:], traces[2][1:])
    assert len({tuple(path) for path in traces[0].T}) == R, "replicates must not share noise"
