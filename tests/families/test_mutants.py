"""Algorithms that are wrong on purpose: the suite over the registry must see each of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.events import Event, inner_events
from dpviz.privacy.ledger import LedgerError, times_of
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.queries import Query
from dpviz.privacy.running_sums import Leaves, PrefixSums
from dpviz.problems.base import SmoothFacts, SmoothProblem
from dpviz.specification import number
from tests.families.checks import check_noise, check_released_only, check_replicates, check_sensitivity, check_stops
from tests.families.registry import ALGORITHMS, Case, runs
from tests.families.toys import TOYS, Saddle, Search, Sums


class Descent(Algorithm[SmoothProblem, SmoothFacts]):
    """Gradient descent with Laplace noise under pure epsilon, and one mistake."""

    title = "Descent"
    mistake: ClassVar[str] = "none"
    iterations: int = number(6, 1, 1000, label="Steps", help="Noisy gradients released.")

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        if not isinstance(budget, PureDP):
            raise UserError(
                "It exists for pure epsilon only; state the budget so.", title="Not defined for this currency"
            )
        each = np.full(self.iterations, budget.left(facts.released) / self.iterations)
        events = calibration.laplace_events(each, facts.n, facts.n)
        scales = [noise_scale(event, facts.gradient_sensitivity("l1", facts.n)) for event in events]
        return Plan.fixed(
            facts,
            budget,
            events,
            step_size=np.full(self.iterations, 1 / facts.smoothness),
            batch_size=np.full(self.iterations, float(facts.n)),
            noise={"gradient": np.array(scales)},
        )

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        active, status = np.ones(len(x), dtype=bool), ("running",) * len(x)
        yield Snapshot(0, {"x": x}, active=active, status=status)
        for t, (event, step) in enumerate(zip(plan.events, plan.schedule["step_size"], strict=True), 1):
            batch = mechanisms.batch(event)
            query = problem.mean_gradient(x, batch, "l1")
            if self.mistake == "sensitivity":
                query = query._replace(sensitivity=np.asarray(query.sensitivity) / 100)
            noisy = query.value if self.mistake == "no noise" else batch.laplace(query)
            if self.mistake == "unpaid value":
                noisy = noisy + 0.1 * query.value.std(axis=1, keepdims=True)
            x = x - step * (noisy + problem.regulariser_gradient(x))
            steep = np.abs(query.value).sum(axis=1) > 1e-3
            if self.mistake == "raw stop":
                active = steep
            if self.mistake == "raw status":
                status = tuple("running" if on else "converged" for on in steep)
            yield Snapshot(t, {"x": x}, active=active, status=status)


def with_mistake(cls: type[Algorithm], mistake: str) -> list[Case]:
    """The cases of a method of these tests, with a mistake made."""
    cases = runs(cls)
    mutant = type("Mutant", (cls,), {"mistake": mistake, "__module__": __name__})
    settings = [{name: getattr(case.algorithm, name) for name in cls.model_fields} for case in cases]
    return [case._replace(algorithm=mutant(**own)) for case, own in zip(cases, settings, strict=True)]


# ----------------------------------------------------------------------------------------------------------- the checks

CHECKS: dict[str, Callable[[Sequence[Case]], None]] = {
    "noise": check_noise,
    "released only": check_released_only,
    "sensitivity": check_sensitivity,
    "stops": check_stops,
    "replicates": check_replicates,
}


def fails(cases: Sequence[Case], check: str) -> bool:
    """Whether a check sees something in these cases, or the mechanisms refuse what they do."""
    assert cases
    try:
        CHECKS[check](cases)
    except (AssertionError, LedgerError):
        return True
    return False


# --------------------------------------------------------------------------------------------- methods of these tests


@pytest.mark.parametrize("check", CHECKS)
def test_the_method_without_a_mistake_passes(check: str) -> None:
    assert not fails(with_mistake(Descent, "none"), check)


@pytest.mark.parametrize(
    ("cls", "mistake", "check"),
    [
        (Descent, "no noise", "noise"),
        (Descent, "no noise", "released only"),
        (Descent, "unpaid value", "released only"),
        (Descent, "sensitivity", "sensitivity"),
        (Descent, "raw stop", "released only"),
        (Descent, "raw status", "released only"),
        (Saddle, "gradient sensitivity", "sensitivity"),
        (Saddle, "gradient sensitivity", "noise"),
        (Saddle, "hessian sensitivity", "sensitivity"),
        (Saddle, "hessian sensitivity", "noise"),
        (Saddle, "raw hessian", "released only"),
        (Saddle, "raw stop", "released only"),
        (Saddle, "raw status", "released only"),
        (Saddle, "raw branch", "released only"),
        (Saddle, "stops together", "replicates"),
        (Saddle, "unasked hessian", "noise"),
        (Saddle, "comes back", "stops"),
        (Sums, "raw sums", "released only"),
        (Sums, "rows of another leaf", "sensitivity"),
        (Sums, "leaves share a row", "sensitivity"),
        (Sums, "sensitivity", "sensitivity"),
        (Sums, "leaf added twice", "noise"),
        (Sums, "sums not used", "noise"),
        (Sums, "secret shared", "replicates"),
        (Sums, "raw sensitivities", "released only"),
        (Sums, "raw sensitivities", "noise"),
        (Sums, "raw sizes", "released only"),
        (Search, "threshold sensitivity", "sensitivity"),
        (Search, "all rows for a batch", "sensitivity"),
        (Search, "raw choice", "released only"),
        (Search, "not released", "noise"),
    ],
)
def test_a_mutant_is_caught(cls: type[Algorithm], mistake: str, check: str) -> None:
    assert fails(with_mistake(cls, mistake), check)


# ------------------------------------------------------------------------------------------------ registered algorithms


class Spoiled:
    """An algorithm whose mechanisms, or snapshots, do something wrong; all else is its own."""

    def __init__(self, algorithm: Algorithm, mistake: str) -> None:
        self._algorithm, self._mistake = algorithm, mistake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._algorithm, name)

    def run(self, problem: Any, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        spoiled: Any = SpoiledMechanisms(mechanisms, self._mistake)
        for snapshot in self._algorithm.run(problem, plan, spoiled):
            if self._mistake in ("raw status", "raw series"):
                raw = next(iter(problem.evaluate(snapshot.output).values()))
                if self._mistake == "raw series":
                    yield replace(snapshot, released={**snapshot.released, "raw": raw})
                else:
                    words = tuple("running" if odd else "converged" for odd in np.floor(raw * 1e6) % 2)
                    yield replace(snapshot, status=words)
            elif self._mistake == "one stream":
                size = len(next(iter(snapshot.output.values())))
                moved = mechanisms.public[0].standard_normal(size)
                yield replace(snapshot, released={**snapshot.released, "noise": moved})
            else:
                yield snapshot


class SpoiledMechanisms:
    """Mechanisms that, by mistake, hand out raw values, promise too small a sensitivity, or release nothing."""

    def __init__(self, of: Mechanisms | Batch | Leaves | PrefixSums, mistake: str) -> None:
        self._of, self._mistake = of, mistake

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name in ("laplace", "gaussian", "exponential"):
            return lambda query, *rest, **more: self._released(found, name, query, rest, more)
        if name in ("batch", "leaves", "next"):
            return lambda *rest, **more: SpoiledMechanisms(found(*rest, **more), self._mistake)
        if name == "parallel":
            return lambda event, leaves: found(event, leaves._of)
        if name == "prefix_sums":
            return lambda event, how, leaves, *rest: SpoiledMechanisms(
                found(event, how, leaves._of, *rest), self._mistake
            )
        if name == "add":
            return lambda query: self._released(found, name, query._replace(batch=query.batch._of), (), {})
        if name == "part":
            return lambda places: SpoiledMechanisms(found(places), self._mistake)
        if name == "split":
            return lambda parts: ((part, SpoiledMechanisms(own, self._mistake)) for part, own in found(parts))
        if name == "blocks":
            return lambda *rest: [SpoiledMechanisms(block, self._mistake) for block in found(*rest)]
        return found

    def _released(self, release: Any, name: str, query: Query, rest: tuple[Any, ...], more: dict[str, Any]) -> Any:
        if query.batch is self:
            query = query._replace(batch=self._of)  # type: ignore[arg-type]
        if self._mistake == "sensitivity":
            query = query._replace(sensitivity=np.asarray(query.sensitivity) / 100)
        if self._mistake == "not released":
            return self._kept(name, query, *rest, **more)
        found = release(query, *rest, **more)
        if self._mistake == "raw" and name == "exponential":
            best = np.broadcast_to(query.value.argmax(axis=-1).reshape(len(found), -1), found.shape)
            return np.where(found < 0, found, best)
        return query.value if self._mistake == "raw" else found

    def _kept(
        self, name: str, query: Query, event: Event | None = None, draws: Any = 1, rows: Any = None
    ) -> np.ndarray:
        """What was paid for is kept back: everybody gets zeros."""
        if isinstance(self._of, Batch | PrefixSums) or event is None:
            return np.zeros_like(query.value)
        rows, draws = (rows, draws) if name == "exponential" else (None if np.ndim(draws) == 0 else draws, 1)
        self._of._ledger.charge(event, times_of(rows, self._of.replicates, draws))
        if name != "exponential":
            return np.zeros_like(query.value)
        counts = np.broadcast_to(draws, len(query.value)) * len(inner_events(event))
        return np.where(np.arange(counts.max(initial=1)) < counts[:, None], 0, -1)


def telling(cls: type[Algorithm]) -> Case:
    """A case of which a mistake must show: one row of an upload can be replaced, or other data taken."""
    return min(runs(cls), key=lambda case: (not any(case.neighbours), len(case.worlds) < 2))


@cache
def passes(cls: type[Algorithm], check: str) -> bool:
    """Whether a check sees nothing in this case without a mistake."""
    return not fails([telling(cls)], check)


REGISTERED = [cls for cls in ALGORITHMS if cls not in TOYS]


@pytest.mark.parametrize("cls", REGISTERED, ids=lambda cls: cls.kind)
@pytest.mark.parametrize(
    ("mistake", "check"),
    [
        ("raw", "released only"),
        ("raw status", "released only"),
        ("raw series", "released only"),
        ("one stream", "replicates"),
        ("not released", "noise"),
        ("sensitivity", "sensitivity"),
    ],
)
def test_a_mistake_in_any_algorithm_is_caught(cls: type[Algorithm], mistake: str, check: str) -> None:
    case = telling(cls)
    spoiled: Any = Spoiled(case.algorithm, mistake)
    assert fails([case._replace(algorithm=spoiled)], check)
    assert passes(cls, check)
