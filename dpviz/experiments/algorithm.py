"""The contract that every method keeps: plan from public facts, run as a generator of snapshots."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Metric, Problem
from dpviz.specification import Specification

P = TypeVar("P", bound=Problem)
F = TypeVar("F", bound=Facts)


@dataclass(slots=True)
class Snapshot:
    """What all R replicates would release after an iteration; arrays are valid until the next step.

    iteration : 0 is the starting point, which is yielded first.
    output : (R, ...) arrays, {"x": (R, d)} for a minimiser.
    released : (R,) functions of releases, one per metric of the algorithm.
    active : (R,) bool, None = all; status : one word per replicate: running, converged, budget, exhausted, diverged.
    """

    iteration: int
    output: Mapping[str, np.ndarray]
    released: Mapping[str, np.ndarray] = field(default_factory=dict)
    active: np.ndarray | None = None
    status: tuple[str, ...] | None = None


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

    @classmethod
    def facts_type(cls) -> type[Facts]:
        """The facts that the algorithm plans from: the F of the class's declaration."""
        for base in cls.__mro__:
            arguments = getattr(base, "__pydantic_generic_metadata__", {}).get("args")
            if arguments:
                return arguments[1]
        return Facts
