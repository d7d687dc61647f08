"""The contract of every method: a plan from public facts, a run that yields snapshots."""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Memory, Metric, Problem
from dpviz.specification import Specification

P = TypeVar("P", bound=Problem)
F = TypeVar("F", bound=Facts)


Status = Literal["running", "converged", "budget", "exhausted", "diverged"]


@dataclass(slots=True)
class Snapshot:
    """Releases of all R replicates after an iteration; arrays are valid until the next step.

    iteration : 0 is the starting point, which is yielded first. A snapshot that is yielded again is recorded and
        counted once; a step that takes long should call `dpviz.checkpoints.checkpoint` inside, so that the caller may
        stop the method there.
    output : (R, ...) arrays, {"x": (R, d)} for a minimiser.
    released : (R,) functions of releases, one per metric of the algorithm.
    internal : (R, ...) arrays of the same names that are *not* released, such as an average of secret iterates; for
        diagnostics only, which are recorded under "internal_<metric>".
    active : (R,) bool, True for replicates that go on after this snapshot, None = all. The others stay as they are.
    status : one word per replicate, None = all running; decided from released values only.
        running : goes on; converged : met its goal; budget : cannot afford its next release; exhausted : has used up
        its iterations or its rows; diverged : exceeds `DIVERGED`, which ends it for every purpose but the count.
    within : share of the next iteration that is done, in [0, 1), reported where that takes long; for progress only.
    """

    iteration: int
    output: Mapping[str, np.ndarray]
    released: Mapping[str, np.ndarray] = field(default_factory=dict)
    internal: Mapping[str, np.ndarray] = field(default_factory=dict)
    active: np.ndarray | None = None
    status: tuple[Status, ...] | None = None
    within: float = 0.0

    @property
    def replicates(self) -> int:
        """R, the number of replicates."""
        return len(next(iter(self.output.values())))


DIVERGED = 1e100  # a number beyond this marks a replicate; decided from public values only


def divergence_status(diverged: np.ndarray) -> tuple[Status, ...] | None:
    """Return the `status` of a snapshot from `diverged` (R,) bool; None while no replicate has diverged."""
    return tuple("diverged" if is_diverged else "running" for is_diverged in diverged) if diverged.any() else None


class Algorithm(Specification, ABC, Generic[P, F]):
    """Hyper-parameters and an update rule. P: the problem that it needs, F: the facts that it plans from."""

    title: ClassVar[str] = ""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    if_diverged: ClassVar[str] = "Choose a smaller step size."  # advice to the user, a sentence
    # Numbers of the hue (0-3, 4 is grey) and dash (0-3) of its lines: the same in every figure.
    hue: ClassVar[int] = 0
    dash: ClassVar[int] = 0

    @property
    def look(self) -> tuple[int, int]:
        """Hue and dash of its lines; a subclass whose settings make it another method of the catalogue returns other
        ones."""
        return self.hue, self.dash

    def released_settings(self) -> str:
        """Return the settings that its releases depend on, as JSON; equal texts draw equal noise from one seed."""
        return self.to_json()

    def settings_without(self, names: Collection[str]) -> str:
        """Return the settings as `to_json` writes them, without those named. A method's `released_settings` leaves
        out settings that it does not use, and new settings at the value that keeps the behaviour from before they
        existed."""
        settings = {name: value for name, value in json.loads(self.to_json()).items() if name not in names}
        return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @abstractmethod
    def plan(self, facts: F, budget: Budget) -> Plan:
        """Compute the plan that the budget buys, from public facts only, in < 20 ms.

        Raises UserError where the budget, the facts and the hyper-parameters do not go together.
        """

    @abstractmethod
    def run(self, problem: P, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Execute the plan for all replicates at once; a generator, so a caller can stream, stop or interleave it."""

    def has_internal(self, facts: Any) -> bool:
        """Return whether its snapshots carry internal outputs for a problem with these facts."""
        return False

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Estimate the bytes that a run needs in addition to the problem's table, from declared sizes alone. They
        include batches that are drawn, as row numbers or as a mark on every row."""
        n = plan.facts.n
        largest = float(plan.rows[plan.rows < n].max(initial=0))
        shuffled = 8 * n if largest > n / 50 else 0  # all row numbers, of one replicate after the other
        return replicates * (problem.replicate + min(8 * largest, n)) + shuffled

    @classmethod
    def facts_type(cls) -> type[Facts]:
        """Return the facts that the algorithm plans from: the F of the class's declaration."""
        for base in cls.__mro__:
            for argument in getattr(base, "__pydantic_generic_metadata__", {}).get("args", ()):
                if isinstance(argument, type) and issubclass(argument, Facts):
                    return argument
        return Facts


if TYPE_CHECKING:
    AnyAlgorithm = Algorithm[Any, Any]
else:
    AnyAlgorithm = Algorithm  # pydantic would take `Algorithm[Any, Any]` for a class of its own, without our methods
