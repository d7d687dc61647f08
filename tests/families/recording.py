"""Runs from their start to their end, with all that can be seen of them: what most checks look at, walked once."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpviz.experiments.algorithm import Snapshot
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Problem
from tests.families.registry import SEED, Case, Charged, R, built, charged, finished, kept
from tests.families.spying import Release, Spy


class Recorded(NamedTuple):
    """Copies of a run's snapshots, what had been charged at each, its releases, and the log weights of free draws."""

    snapshots: list[Snapshot]
    charged: list[Charged]
    seen: list[Release]
    public: list[np.ndarray]


Record = Callable[..., Recorded]


def recorded(case: Case, world: str = "", canned: bool = False) -> Recorded:
    """A run on one of the problem's worlds, the first unless it is named."""
    return recorded_on(built(case.problem, world or next(iter(case.worlds))), case, canned)


def recorded_on(problem: Problem, case: Case, canned: bool = False) -> Recorded:
    """canned : its releases are the same numbers whatever the data."""
    ledger = Ledger(case.plan.terms, R)
    snapshots, booked = [], []
    with pytest.MonkeyPatch.context() as patch:
        spy = Spy(patch, canned)
        for snapshot in case.algorithm.run(problem, case.plan, Mechanisms(ledger, SEED)):
            snapshots.append(copied(snapshot))
            booked.append(charged(case, ledger))
            spy.iteration = snapshot.iteration + 1
    return Recorded(snapshots, booked, spy.seen, spy.public)


def copied(snapshot: Snapshot) -> Snapshot:
    """Its arrays are valid until the next step only."""

    def copies(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in values.items()}

    return dataclasses.replace(
        snapshot,
        output=copies(snapshot.output),
        released=copies(snapshot.released),
        internal=copies(snapshot.internal),
        active=None if snapshot.active is None else snapshot.active.copy(),
    )


_known: dict[tuple[Any, ...], Recorded] = {}


def remembered(case: Case, world: str = "", canned: bool = False) -> Recorded:
    """The same, run once per process: for methods as they are, and no mutants."""
    key = (case.algorithm, case.problem, case.budget, world or next(iter(case.worlds)), canned)
    if key not in _known:
        _known[key] = recorded(case, world, canned)
    return _known[key]


def shown(case: Case, record: Record = remembered) -> list[dict[str, Any]]:
    """What it shows to its visitors. Whoever looks at the products of a noisy matrix asks for more of them, and all may
    then round differently."""
    if "hessian_products" in case.plan.resolved:
        return finished(case)
    return [kept(snapshot) for snapshot in record(case).snapshots]
