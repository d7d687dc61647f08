"""What a run must keep, checked on given cases: of every algorithm, and of those that are wrong on purpose."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dpviz.experiments.plan import Plan
from dpviz.privacy.events import Event, Parallel, Seq, Sub, inner_events
from dpviz.privacy.ledger import Filter
from dpviz.privacy.mechanisms import Purpose, streams
from dpviz.privacy.releases import Query
from tests.families.recording import Record, Recorded, recorded, recorded_on, shown
from tests.families.registry import SEED, Case, R, check_booked, finished, kept, moments, same
from tests.families.spying import Release, Replay, released_events


def arrays(plan: Plan) -> dict[str, np.ndarray]:
    """All series (T,) of a plan by name; noise scales are called noise_scale_<name>."""
    found = {**plan.schedule, **{f"noise_scale_{name}": scale for name, scale in plan.noise.items()}}
    return found if plan.batch_size is None else {**found, "batch_size": plan.batch_size}


# ------------------------------------------------------------------------------------------------- what is released


def check_noise(cases: Sequence[Case], record: Record = recorded) -> None:
    """Every release is its value plus the planned scale times the next standard draws of the replicate's stream, or a
    choice that the planned event and these draws decide; and all that was paid for was released."""
    for case in cases:
        run = record(case)
        seen = run.seen
        replay = Replay(streams(SEED, Purpose.NOISE, R))
        drawn: dict[str, list[tuple[int, float]]] = {"noise_scale": [], "range": [], "batch_size": []}
        for release in seen:
            scales = replay.check(release)
            if release.kind == "selection":
                drawn["range"] += [(release.iteration, scale) for scale in scales]
            elif release.kind != "threshold":
                drawn["noise_scale"] += [(release.iteration, scale) for scale in scales]
            if release.kind != "selection":
                size = case.plan.facts.n if release.batch is None else release.batch.divisor(case.plan.facts.n)
                drawn["batch_size"].append((release.iteration, float(size)))
        check_order(case, seen)
        check_paid(case, run)
        for prefix, values in drawn.items():
            check_shown(case, prefix, values)


def check_order(case: Case, seen: list[Release]) -> None:
    """Under a fixed plan the events are released in their order, each in its iteration; a run that stops ends early,
    and need not use all that it paid for with a batch."""
    if isinstance(case.plan.terms, Filter):
        return
    done = []
    for release in seen:
        if release.kind != "sum" or release.step == 0:
            singles = inner_events(release.event) if release.kind == "selection" else (release.event,)
            done += [(release.iteration, single) for single in singles]
    due = moments(case.plan)
    if case.plan.stops:
        due = [one for one, used in zip(due, usable(case.plan, done), strict=True) if used]
    assert done == due[: len(done)], f"{case.name}: something else was released"
    assert len(done) == len(due) or case.plan.stops, f"{case.name}: some of the plan was not released"


def usable(plan: Plan, done: list[tuple[int, Event]]) -> list[bool]:
    """Of each release of a plan that stops, whether it was due: what follows the first release on a batch is only if it
    was asked for."""
    found, asked = [], Counter(iteration for iteration, _ in done)
    for charged, event in zip(plan.charged_at.tolist(), plan.events, strict=True):
        singles = inner_events(event)
        count = min(len(singles), max(1, asked[charged])) if together(event) else len(singles)
        found += [place < count for place in range(len(singles))]
    return found


def together(event: Event) -> bool:
    """Whether several releases on one batch are paid for at once."""
    return isinstance(event.inner if isinstance(event, Sub) else event, Seq)


def check_paid(case: Case, run: Recorded) -> None:
    """Whatever a replicate paid for was released to it. What is paid for in advance, blocks and running sums, may be
    left by a replicate that has ended, and by no other; under a plan that stops, so may be what follows the first
    release on a batch."""
    seen, final = run.seen, run.snapshots[-1].status
    for r, booked in enumerate(run.charged[-1].booked):
        paid: Counter[Any] = Counter(single for event in booked for single in inner_events(event))
        missing = paid - released_events(seen, r)
        ended = final is not None and final[r] != "running"
        ahead = Counter(s for event in booked if isinstance(event, Parallel) for s in inner_events(event))
        unused = Counter(s for event in booked if case.plan.stops and together(event) for s in inner_events(event)[1:])
        spare = (ahead if ended else Counter()) + unused
        assert not missing - spare, f"{case.name}: replicate {r} paid for {missing}"
    last = {(release.sums.number, r): release for release in seen if release.sums for r in release.replicates}
    words = {snapshot.iteration: snapshot.status or () for snapshot in run.snapshots}
    for (number, r), release in last.items():
        assert release.sums is not None
        whole = release.step + 1 == release.sums.factorisation.length
        assert whole or words[release.iteration][r] != "running", f"{case.name}: replicate {r} left sum {number}"


def check_shown(case: Case, prefix: str, drawn: list[tuple[int, float]]) -> None:
    """The plan's series of this name show what was drawn in every iteration, player by player, and nothing else; under
    a filter, which need not use all, nothing else was drawn. Sizes that vary are shown by their mean."""
    if prefix == "batch_size" and case.plan.sizes_vary:
        return
    series = [values for name, values in arrays(case.plan).items() if name.startswith(prefix)]
    for t in range(1, case.plan.iterations + 1):
        used = {round(value, 12) if prefix == "batch_size" else value for iteration, value in drawn if iteration == t}
        if not series or (not used and prefix == "batch_size"):  # what reads no data at random has a batch, too
            continue
        shown = {float(values[t - 1]) for values in series} - {0.0}
        where = f"{case.name}: {prefix} of iteration {t}"
        for value in used:
            if case.plan.noise_varies and prefix == "noise_scale":
                assert value <= max(shown) * (1 + 1e-12), where
                continue
            assert any(value == pytest.approx(planned, rel=1e-12) for planned in shown | {0.0}), where
        some_unused = isinstance(case.plan.terms, Filter) or any(together(event) for event in set(case.plan.events))
        if not (some_unused and case.plan.stops) and (used or not case.plan.stops):
            assert all(any(planned == pytest.approx(value, rel=1e-12) for value in used) for planned in shown), where


# ---------------------------------------------------------------------------------------------- what is told, and moves


def check_released_only(cases: Sequence[Case], record: Record = recorded) -> None:
    """If the mechanisms released the same on two tables, nothing that a run shows may tell them apart, nor the
    sensitivities of its queries, who is asked, and the probabilities of draws that cost nothing."""
    for case in cases:
        first: tuple[Any, ...] = ()
        for world in case.worlds:
            run = record(case, world, canned=True)
            seen, views = run.seen, [kept(snapshot) for snapshot in run.snapshots]
            asked = [(release.kind, release.replicates, release.iteration) for release in seen]
            free = [*run.public, *(np.asarray(value) for release in seen for value in told(case, release))]
            first = first or (views, asked, free)
            assert asked == first[1], f"{case.name}: the data decide what is asked"
            assert len(views) == len(first[0]), f"{case.name}: the data decide when it stops"
            pairs = list(zip(first[0], views, strict=True))
            assert all(same(one, two) and one["status"] == two["status"] for one, two in pairs), case.name
            assert all(np.array_equal(one, two) for one, two in zip(first[2], free, strict=True)), case.name


def told(case: Case, release: Release) -> Iterator[Any]:
    """What a release tells about itself beside its value: the sensitivities, which decide the noise, and the sizes."""
    yield release.query.sensitivity
    yield release.query.value.shape
    if release.sums is not None:
        yield release.sums.sensitivities
    if release.batch is not None:
        yield release.batch.divisor(case.plan.facts.n)


def moved(one: Query, two: Query) -> np.ndarray:
    """(R',) how far two queries are apart, in their norm, over the sensitivity; 0 where nothing moved."""
    change = (two.value - one.value).reshape(len(one.value), math.prod(one.value.shape[1:]))
    if one.norm == "range":
        by_selection = change.reshape(len(one.value), -1, one.value.shape[-1])
        size = np.ptp(by_selection, axis=-1).max(axis=-1)
    else:
        size = np.linalg.norm(change, {"l1": 1, "l2": 2, "linf": np.inf}[one.norm], axis=1)
    sensitivity = np.broadcast_to(np.asarray(one.sensitivity, dtype=float), size.shape)
    return np.divide(size, sensitivity, out=np.where(size > 0, np.inf, 0.0), where=sensitivity > 0)


def check_sensitivity(cases: Sequence[Case], record: Record = recorded) -> None:
    """With the same releases on two tables that differ in one row, replaced by anything, every query moves by at most
    its sensitivity in its norm, whatever was released before, and only if the row is in its batch; of a running sum one
    leaf moves. Nor are all of them far below: a bound that nothing comes near hides one that is wrong."""
    for case in cases:
        before = record(case, canned=True).seen
        largest: dict[tuple[str, tuple[int, ...]], float] = {}
        for some in case.neighbours:
            for other, row in some:
                compare(case, before, recorded_on(other, case, canned=True).seen, row, largest)
            if all(ratio > 0.02 for ratio in largest.values()):
                break
        assert all(ratio > 0.02 for ratio in largest.values()), f"{case.name}: no neighbour moves a query: {largest}"


def compare(
    case: Case, before: list[Release], after: list[Release], row: int, largest: dict[tuple[str, tuple[int, ...]], float]
) -> None:
    """Two runs on tables that differ in one row; notes how far each kind of query moved."""
    assert len(before) == len(after), f"{case.name}: another row, another number of releases"
    changed: Counter[tuple[int, int]] = Counter()
    read: set[tuple[int, int]] = set()  # replicate, and iteration: each has a block of its own
    for one, two in zip(before, after, strict=True):
        assert one.replicates == two.replicates, f"{case.name}: the data decide who is asked"
        if not one.replicates:
            continue
        ratio = moved(one.query, two.query)
        most = float(ratio.max())
        assert most <= 1 + 1e-9, f"{case.name}: a query moves by {most} times its sensitivity"
        if one.reads(row).any():
            read |= {(r, one.iteration) for r in np.array(one.replicates)[one.reads(row)].tolist()}
            key = (one.kind, one.query.value.shape[1:])
            largest[key] = max(largest.get(key, 0.0), most)
        if most:
            assert not ratio[~one.reads(row)].any(), f"{case.name}: a query reads a row that is not in its batch"
            if one.sums is not None:
                changed.update((one.sums.number, r) for r in np.array(one.replicates)[ratio > 0].tolist())
    assert max(changed.values(), default=1) == 1, f"{case.name}: a row is in two leaves of a running sum"
    if all(isinstance(event, Parallel) for event in case.plan.events):
        most = max(Counter(r for r, _ in read).values(), default=0)
        assert most <= len(case.plan.events), f"{case.name}: a row is in two parallel blocks"


# ------------------------------------------------------------------------------------------------- replicates and stops


def check_stops(cases: Sequence[Case], record: Record = recorded) -> None:
    """What is booked is the plan; who has stopped is charged nothing more, stays as it was, and does not come back."""
    for case in cases:
        for world in case.worlds:
            check_stopped(case, record(case, world))


def check_stopped(case: Case, run: Recorded) -> None:
    before, going, last, seen = [0] * R, np.ones(R, dtype=bool), None, []
    for snapshot, charged in zip(run.snapshots, run.charged, strict=True):
        seen.append(snapshot.iteration)
        check_booked(case, charged, snapshot.iteration)
        booked = [len(events) for events in charged.booked]
        assert all(going[r] or booked[r] == before[r] for r in range(R)), f"{case.name}: who stopped still pays"
        now = snapshot.output
        if last is not None:
            assert all(np.array_equal(now[name][~going], last[name][~going]) for name in now), case.name
        if snapshot.active is not None:
            assert not (snapshot.active & ~going).any(), f"{case.name}: who has stopped does not come back"
            going = snapshot.active
        if case.plan.stops:
            assert snapshot.active is not None and snapshot.status is not None, case.name
            assert [word == "running" for word in snapshot.status] == snapshot.active.tolist()
        before, last = booked, now
    assert seen == list(range(len(seen))), case.name
    assert case.plan.stops or seen[-1] == case.plan.iterations, case.name
    assert 1 <= seen[-1] <= case.plan.iterations, case.name


def check_replicates(cases: Sequence[Case], record: Record = recorded) -> None:
    """A replicate is the same whatever their number; cases that take turns are run with one other number."""
    for case in cases:
        usual, numbers = shown(case, record), (2, 1, 7)
        for number in numbers if case.turn is None else numbers[case.turn % 3 :][:1]:
            other = finished(case, replicates=number)
            narrow, wide = (other, usual) if number < R else (usual, other)
            check_fewer(case, narrow, wide, min(number, R))


def check_fewer(case: Case, narrow: list[dict[str, Any]], wide: list[dict[str, Any]], replicates: int) -> None:
    rows = slice(0, replicates)
    assert all(same(one, two, 1e-9, rows) for one, two in zip(narrow, wide, strict=False)), case.name
    words = [(one["status"] or ())[:replicates] for one in wide[: len(narrow)]]
    assert [one["status"] or () for one in narrow] == words or None in {one["status"] for one in wide}
    if len(narrow) < len(wide):  # others go on; these have ended
        assert case.plan.stops, case.name
        ended = {name: value for name, value in narrow[-1].items() if name not in ("active", "status")}
        for later in wide[len(narrow) :]:
            assert not later["active"][rows].any()
            assert same(ended, {name: later[name] for name in ended}, 1e-9, rows), case.name
