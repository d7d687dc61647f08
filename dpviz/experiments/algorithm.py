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


# State of a replicate after an iteration; `Snapshot` explains the words.
Status = Literal["running", "converged", "budget", "exhausted", "diverged"]


@dataclass(slots=True)
class Snapshot:
    """State that a method yields after an iteration, for all of its R replicates (independent runs) at once.

    The arrays are valid until the next step of the generator, which may overwrite them.

    iteration : 0 is the starting point, which is yielded first. A method whose step takes long may yield the snapshot
        of an iteration again, to report progress: it is recorded and counted once. Such a step should also call
        `dpviz.checkpoints.checkpoint` inside, so that the caller may stop the method there.
    output : (R, ...) arrays by name, {"x": (R, d)} for a minimiser.
    released : by name of each metric that the algorithm declares, its values (R,); they are computed from releases.
    internal : (R, ...) arrays with the names of `output` that are *not* released, such as an average of secret
        iterates. They serve diagnostics only, which are recorded under "internal_<metric>".
    active : (R,) bool, True for replicates that go on after this snapshot; None means all. The others no longer change.
    status : one word per replicate, decided from released values only; None means that all are running.
        running : goes on; converged : met its goal; budget : cannot afford its next release; exhausted : has used up
        its iterations or its rows; diverged : a number exceeds `DIVERGED`; such a replicate is only counted from then
        on.
    within : share of the next iteration that is done, in [0, 1), for the display of progress only.
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
        """R, the number of replicates: the length of every output."""
        first_output, *_ = self.output.values()
        return len(first_output)


DIVERGED = 1e100  # a number beyond this marks a replicate; decided from public values only


def divergence_status(diverged: np.ndarray) -> tuple[Status, ...] | None:
    """Return the `status` of a snapshot from `diverged` (R,) bool; None while no replicate has diverged."""
    if not diverged.any():
        return None
    return tuple("diverged" if is_diverged else "running" for is_diverged in diverged)


class Algorithm(Specification, ABC, Generic[P, F]):
    """A method: its hyper-parameters, which are the fields of a subclass, and its update rule.

    P is the class of problems that it can run on, F the class of public facts that it plans from.
    """

    title: ClassVar[str] = ""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    if_diverged: ClassVar[str] = "Choose a smaller step size."  # advice to the user where replicates diverged
    # Hue (0 to 3, or 4 for grey) and dash pattern (0 to 3) of the method's lines: the same in every figure.
    hue: ClassVar[int] = 0
    dash: ClassVar[int] = 0

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of the method's lines. A subclass overrides it if some of its settings make it another method
        of the catalogue, which has a style of its own."""
        return self.hue, self.dash

    def released_settings(self) -> str:
        """Return the settings that the method's releases depend on, as JSON.

        Together with the seed this text determines the noise: two methods with equal texts draw equal noise.
        """
        return self.to_json()

    def settings_without(self, names: Collection[str]) -> str:
        """Return the settings as `to_json` writes them, without those in `names`.

        A method's `released_settings` leaves out settings that have no influence on its releases, and a setting that
        was added later where it has the value that changes nothing: so equal releases keep equal noise.
        """
        settings = {name: value for name, value in json.loads(self.to_json()).items() if name not in names}
        return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @abstractmethod
    def plan(self, facts: F, budget: Budget) -> Plan:
        """Compute the plan that the budget buys, from public facts only, in less than 20 ms, as pages ask for it often.

        Raises UserError where the budget, the facts and the hyper-parameters do not go together.
        """

    @abstractmethod
    def run(self, problem: P, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Execute the plan for all replicates at once, yielding a snapshot after each iteration.

        It is a generator, so that the caller can record each snapshot, stop the method, or let methods take turns.
        """

    def has_internal(self, facts: Any) -> bool:
        """Return whether the method's snapshots have `internal` outputs on a problem with these facts."""
        return False

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Estimate the bytes that a run needs in addition to the problem's table, from declared sizes alone.

        Each replicate needs `problem.replicate` bytes, and the batch that it draws: as row numbers of 8 bytes, or as a
        mark of one byte on each of the n rows, whichever is less.
        """
        n = plan.facts.n
        largest_batch = float(plan.rows[plan.rows < n].max(initial=0))  # an iteration that reads all rows draws none
        # NumPy may draw a batch of more than 1/50 of the rows by shuffling all row numbers, of 8 bytes each, for one
        # replicate after the other.
        shuffled = 8 * n if largest_batch > n / 50 else 0
        return replicates * (problem.replicate + min(8 * largest_batch, n)) + shuffled

    @classmethod
    def facts_type(cls) -> type[Facts]:
        """Return the class of facts that the algorithm plans from: the F in its declaration, `Algorithm[P, F]`."""
        for base in cls.__mro__:  # pydantic keeps the arguments of `Algorithm[P, F]` on one of the base classes
            for argument in getattr(base, "__pydantic_generic_metadata__", {}).get("args", ()):
                if isinstance(argument, type) and issubclass(argument, Facts):
                    return argument
        return Facts


if TYPE_CHECKING:
    AnyAlgorithm = Algorithm[Any, Any]
else:
    AnyAlgorithm = Algorithm  # pydantic would take `Algorithm[Any, Any]` for a class of its own, without our methods
