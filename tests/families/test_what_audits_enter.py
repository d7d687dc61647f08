"""Audits run the code that pages run: wherever a preset draws noise, rows or a choice, an audit case does, too, and
sees a fault that is planted there."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dpviz import families, privacy
from dpviz.audits.audit import Audit
from dpviz.privacy import batches, mechanisms
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, Parallel
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.matrix_factorisation import BinaryTree, DenseFactorisation, RestartedFactorisation
from dpviz.privacy.matrix_products import MatrixProducts
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.running_sums import Leaves, PrefixSums
from tests.families.test_implementation import CASES, UNNOTED, exact_sums

STEPS, REPEATS = 12, 2  # of each method of each preset
PRIVACY = str(Path(privacy.__file__).parent)


@dataclass
class Recorded:
    """A generator that notes which functions of `dpviz/privacy` a draw is made for, and on which line."""

    generator: np.random.Generator
    sites: set[tuple[str, int]]

    def __getattr__(self, draw: str) -> Any:
        frame: Any = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(PRIVACY) and "verification" not in code.co_filename:
                self.sites.add((code.co_qualname.partition(".<locals>")[0], frame.f_lineno))
            frame = frame.f_back
        return getattr(self.generator, draw)


@pytest.mark.slow
def test_wherever_a_preset_draws_an_audit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the presets' own plans, of which batch sizes and factorisations follow; only their first steps are run."""
    sites, streams = set[tuple[str, int]](), mechanisms.streams

    def recorded(*arguments: Any) -> Sequence[Any]:
        return [Recorded(generator, sites) for generator in streams(*arguments)]

    monkeypatch.setattr(mechanisms, "streams", recorded)
    for preset in (preset for presets in families.presets().values() for preset in presets):
        problem = preset.experiment.problem.build()
        for arm in preset.experiment.arms:
            if (plan := preset.experiment.plan(arm)).private:
                steps = arm.algorithm.run(problem, plan, Mechanisms(Ledger(plan.terms, REPEATS), 0))
                assert list(islice(steps, STEPS + 1))
    drawn = sites.copy()
    sites.clear()
    for case in (case for cases in families.audits().values() for case in cases):
        for budget in case.budgets:
            Audit(case, budget, runs=40, looks=1, seed=1).run()
    assert ("without_replacement" in {function for function, _ in drawn}) and drawn - sites == set()
    functions = {function for function, _ in sites}
    # What `sample` draws from is public, or was released.
    assert functions - {"Mechanisms.sample"} - {fault.function for fault in FAULTS.values()} == set()


# ------------------------------------------------------------------------------------------------------ planted faults


@dataclass(frozen=True)
class Fault:
    """A function of `dpviz/privacy` in whose place is what `wrong` makes of it; a case that runs it, so many times."""

    owner: Any
    name: str
    wrong: Callable[[Any], Any]
    case: str
    runs: int = 500
    budget: int = 0

    @property
    def function(self) -> str:
        return getattr(self.owner, self.name).__qualname__.partition(".<locals>")[0]


def first_rows(_: Any) -> Any:
    return lambda generators, m, n: np.tile(np.arange(m), (len(generators), 1))


def rows_of_one_replicate(sound: Any) -> Any:
    return lambda generators, m, n: np.repeat(sound(generators[:1], m, n), len(generators), axis=0)


def a_row_twice(sound: Any) -> Any:
    def wrong(*arguments: Any) -> np.ndarray:
        indices: np.ndarray = sound(*arguments)
        indices[:, -1] = indices[:, 0]
        return indices

    return wrong


def leaves_share_a_row(sound: Any) -> Any:
    def wrong(self: Mechanisms, sizes: Sequence[int], n: int, replicates: Any = None) -> Leaves:
        dealt = sound(self, sizes, n, replicates)
        indices = dealt._indices.copy()
        indices[:, -1] = indices[:, 0]
        return Leaves(indices, sizes, dealt.replicates, self, self._ledger.relation)

    return wrong


def one_batch(sound: Any) -> Any:
    """The rows of the first batch in all steps."""

    def wrong(self: Any, event: Event, rows: Any = None, table: int | None = None) -> Batch:
        opened: Batch = sound(self, event, rows, table)
        if opened._indices is not None:
            self.once = getattr(self, "once", opened._indices)
            opened._indices = self.once
        return opened

    return wrong


def times(factor: float) -> Callable[[Any], Any]:
    """What it returns, times a factor."""
    return lambda sound: lambda *arguments: factor * sound(*arguments)


def streamed_times(factor: float) -> Callable[[Any], Any]:
    return lambda sound: lambda self, draw: (factor * noise for noise in sound(self, draw))


def same_noise_again(_: Any) -> Any:
    """In every running sum that of the first one."""

    def wrong(self: RestartedFactorisation, draw: Any) -> Iterator[np.ndarray]:
        normals = [draw() for _ in range(self._single.length)]
        for _ in range(self._times):
            yield from self._single.stream(partial(next, iter(normals)))

    return wrong


def paid_more(factor: float) -> Callable[[Any], Any]:
    """A release with the noise of a larger parameter."""
    return lambda sound: lambda self, query, event, parameter, law: sound(self, query, event, factor * parameter, law)


def one_noise(sound: Any) -> Any:
    """The noise of a sparse vector's first value for all its values."""

    def wrong(self: Batch, query: Any, event: Any) -> np.ndarray:
        source, drawn = self._source, self._source._drawn
        self._source = cast(Any, SimpleNamespace(_passed=source._passed, _drawn=lambda *law: repeated(drawn(*law))))
        accepted: np.ndarray = sound(self, query, event)
        self._source = source
        return accepted

    def repeated(noise: np.ndarray) -> np.ndarray:
        return np.concatenate([noise[:, :1], np.repeat(noise[:, 1:2], noise.shape[1] - 1, axis=1)], axis=1)

    return wrong


def doubled_slope(sound: Any) -> Any:
    def wrong(generators: Any, utilities: np.ndarray, slope: np.ndarray, *rest: Any, **more: Any) -> np.ndarray:
        indices: np.ndarray = sound(generators, utilities, 2 * slope, *rest, **more)
        return indices

    return staticmethod(wrong)


def leaves_for_free(sound: Any) -> Any:
    """Releases on leaves that no event pays for."""

    def wrong(self: Ledger, event: Event, times: Any = None) -> None:
        if not isinstance(event, Parallel):
            sound(self, event, times)

    return wrong


def instead(wrong: Any) -> Callable[[Any], Any]:
    return lambda sound: wrong


SMALL, OPTIMAL, TREE = "accelerated.small", "zeroth_order.optimal_sums", "zeroth_order.variance_reduced"
FAULTS: dict[str, Fault] = {
    "always the first rows": Fault(batches, "without_replacement", first_rows, SMALL),
    "always the first rows, Gaussian": Fault(batches, "without_replacement", first_rows, "second_order.small"),
    "the rows of one replicate": Fault(batches, "without_replacement", rows_of_one_replicate, SMALL),
    "a row twice": Fault(batches, "without_replacement", a_row_twice, SMALL),
    "marks of the first replicate": Fault(batches, "draw_marks", rows_of_one_replicate, "accelerated.batches"),
    "a row in two leaves": Fault(batches, "permuted", a_row_twice, "zeroth_order.naive"),
    "leaves that share a row": Fault(Mechanisms, "leaves", leaves_share_a_row, OPTIMAL),
    "leaves that nobody pays for": Fault(Ledger, "charge", leaves_for_free, "zeroth_order.naive", 50),
    "one batch in all steps": Fault(Mechanisms, "batch", one_batch, SMALL),
    "less noise": Fault(Mechanisms, "_drawn", times(0.3), SMALL),
    "less noise on a batch": Fault(Batch, "_released", paid_more(2.0), "second_order.small"),
    "one noise for all values": Fault(Batch, "_first_above", one_noise, "second_order.line_search_curvature", 2000),
    "choices with twice the slope": Fault(Mechanisms, "_selected", doubled_slope, "mirror_descent.frank_wolfe", 2000),
    "many choices with twice the slope": Fault(
        Mechanisms, "_selected", doubled_slope, "mirror_descent.vertex_sampling", 2000
    ),
    "less noise of optimal sums": Fault(DenseFactorisation, "stream", streamed_times(0.3), OPTIMAL),
    "a tenth less noise of optimal sums": Fault(DenseFactorisation, "stream", streamed_times(0.9), OPTIMAL, 2000),
    "less noise of a tree": Fault(BinaryTree, "stream", streamed_times(0.3), TREE),
    "one noise in two sums": Fault(RestartedFactorisation, "stream", same_noise_again, OPTIMAL),
    "less noise of running sums": Fault(PrefixSums, "_drawn", times(0.3), TREE),
    "exact sums": Fault(PrefixSums, "add", instead(exact_sums(0)), OPTIMAL),
    "less noise of products": Fault(MatrixProducts, "_fresh_part", times(0.3), "second_order.products"),
    "exact products": Fault(MatrixProducts, "_noisy", instead(MatrixProducts._exact), "second_order.products"),
    "what leaves is exact": Fault(Mechanisms, "_passed", instead(lambda self, release: release.value), SMALL),
}
FAULTS |= {
    f"{what}, without a release": Fault(owner, name, instead(wrong), case, 50, budget)
    for what, (owner, name, wrong, case, budget) in UNNOTED.items()
}


def caught(fault: Fault, monkeypatch: pytest.MonkeyPatch, seeds: int) -> int:
    """In how many audits."""
    monkeypatch.setattr(fault.owner, fault.name, fault.wrong(getattr(fault.owner, fault.name)))
    case = CASES[fault.case]
    audits = (Audit(case, case.budgets[fault.budget], fault.runs, looks=1, seed=seed) for seed in range(seeds))
    return sum(verdict.violation or verdict.faulty for verdict in (audit.run() for audit in audits))


@pytest.mark.parametrize(
    "fault",
    ["always the first rows", "less noise of optimal sums", "one batch in all steps", "leaves that nobody pays for"],
)
def test_a_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert caught(FAULTS[fault], monkeypatch, 1) == 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught_in_twelve_of_twelve_audits(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FAULTS[fault].runs <= CASES[FAULTS[fault].case].runs  # those that the page plays
    assert caught(FAULTS[fault], monkeypatch, 12) == 12
