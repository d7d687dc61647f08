"""The contract that every method keeps: plan from public facts, run as a generator of snapshots."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Metric, Problem
from dpviz.specification import Specification

# Rough cost of one pass, per element (row × replicate) and per product (row × replicate × parameter), measured on one
# 2-core machine; only used to say in advance how long a run will take. Rows of a batch are drawn and gathered.
SECONDS_PER_ELEMENT, SECONDS_PER_PRODUCT, SECONDS_PER_STEP, SECONDS_PER_DRAWN = 4e-9, 0.25e-9, 2e-4, 50e-9

P = TypeVar("P", bound=Problem)
F = TypeVar("F", bound=Facts)


@dataclass(slots=True)
class Snapshot:
    """What all R replicates would release after an iteration; arrays are valid until the next step.

    iteration : 0 is the starting point, which is yielded first.
    output : (R, ...) arrays, {"x": (R, d)} for a minimiser.
    released : (R,) functions of releases, one per metric of the algorithm.
    internal : (R, ...) arrays of the same names that are *not* released, such as an average of secret iterates; for
        diagnostics only, which are recorded under "internal_<metric>".
    active : (R,) bool, which replicates go on after this snapshot, None = all. Those that do not stay as they are.
    status : one word per replicate: running, converged, budget, exhausted, diverged.
    """

    iteration: int
    output: Mapping[str, np.ndarray]
    released: Mapping[str, np.ndarray] = field(default_factory=dict)
    internal: Mapping[str, np.ndarray] = field(default_factory=dict)
    active: np.ndarray | None = None
    status: tuple[str, ...] | None = None


DIVERGED = 1e100  # a number beyond this marks a replicate; decided from public values only


def divergence_status(lost: np.ndarray) -> tuple[str, ...] | None:
    """The `status` of a snapshot whose diverged replicates are lost (R,) bool; None while there are none."""
    return tuple("diverged" if broken else "running" for broken in lost) if lost.any() else None


class Algorithm(Specification, ABC, Generic[P, F]):
    """Hyper-parameters and an update rule. P: the problem that it needs, F: the facts that it plans from."""

    title: ClassVar[str] = ""
    metrics: ClassVar[tuple[Metric, ...]] = ()

    @abstractmethod
    def plan(self, facts: F, budget: Budget) -> Plan:
        """What the budget buys, from public facts only, in < 20 ms.

        Raises UserError where the budget, the facts and the hyper-parameters do not go together.
        """

    @abstractmethod
    def run(self, problem: P, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Execute the plan for all replicates at once; a generator, so a caller can stream, stop or interleave it."""

    def has_internal(self, facts: F) -> bool:
        """Whether its snapshots carry internal outputs for this problem."""
        return False

    def estimated_seconds(self, plan: Plan, replicates: int, recorded: int) -> float:
        """About how long a run will take on one core, with diagnostics at `recorded` iterations."""
        sizes, n = plan.rows, plan.facts.n
        rows = float(sizes.sum()) + 1.5 * n * recorded
        drawn = float(sizes[sizes < n].sum()) * replicates * SECONDS_PER_DRAWN
        passes = rows * replicates * (SECONDS_PER_ELEMENT + SECONDS_PER_PRODUCT * plan.facts.d)
        return drawn + passes + plan.iterations * SECONDS_PER_STEP

    @classmethod
    def facts_type(cls) -> type[Facts]:
        """The facts that the algorithm plans from: the F of the class's declaration."""
        for base in cls.__mro__:
            for argument in getattr(base, "__pydantic_generic_metadata__", {}).get("args", ()):
                if isinstance(argument, type) and issubclass(argument, Facts):
                    return argument
        return Facts


if TYPE_CHECKING:
    AnyAlgorithm = Algorithm[Any, Any]
else:
    AnyAlgorithm = Algorithm  # pydantic would take `Algorithm[Any, Any]` for a class of its own, without our methods
