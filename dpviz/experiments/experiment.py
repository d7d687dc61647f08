"""Experiments: a problem, the algorithms to compare on it, a budget; their plans and their runs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from dpviz.arguments import checked
from dpviz.checkpoints import EVERY, at_checkpoints
from dpviz.datasets.base import NO_TABLES
from dpviz.displays import Displayed, bar
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, AnyAlgorithm, Snapshot
from dpviz.experiments.plan import Plan, Privacy, privacy_of
from dpviz.experiments.trace import CLOUD, LEAST_RECORDS, RECORDS, ArmTrace, Trace, recording_grid
from dpviz.one_thread import one_thread, steps_on_one_thread
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms, drawn_seed
from dpviz.problems.base import Condition, Facts, Metric, Problem, ProblemSpecification, check_facts
from dpviz.specification import Specification, number

LAST_RECORD = 0.5  # seconds that all methods together may take to record their last state when a run is stopped
EXPENSIVE = 20  # records of a run with diagnostics that are declared expensive, the two ends included
INTERNAL = "internal_"  # prefix of the diagnostics of iterates that are not released


class Arm(Specification):
    """One algorithm of a comparison, with its label and, where it differs, its own budget."""

    kind: ClassVar[str] = "experiments.experiment.arm"
    label: str = Field(min_length=1, max_length=60)
    algorithm: AnyAlgorithm
    budget: Budget | None = None

    @property
    def reference(self) -> bool:
        """True if it goes without privacy, for any budget of its experiment."""
        return self.budget is not None and not self.budget.private


@dataclass(frozen=True)
class Step:
    """One advance of one arm: its snapshot, the trace so far, and the progress of the whole run in [0, 1].

    elsewhere : seconds of computing time that other processes have taken for the run so far.
    """

    label: str
    snapshot: Snapshot
    trace: Trace
    progress: float
    elsewhere: float = 0.0


Heartbeat = Callable[[Step], None]  # called with the latest step again while the next one goes on; may raise to stop


@dataclass(frozen=True)
class Planned:
    """The part of an experiment that can be run.

    experiment : with the arms that have a plan; None if none has.
    plans : their plans, by label.
    refused : the error that refuses a plan, by the label of each of the other arms.
    """

    experiment: "Experiment | None"
    plans: Mapping[str, Plan]
    refused: Mapping[str, UserError]

    def ready(self) -> "Experiment":
        """Return the experiment with the arms that have a plan.

        Raises the first refusal if no arm has a plan, or if arms were refused and only references are left.
        """
        private = any(plan.private for plan in self.plans.values())
        if self.experiment is None or (self.refused and not private):
            raise next(iter(self.refused.values()))
        return self.experiment


_BUDGETS: Mapping[frozenset[str], type[Budget]] = {
    frozenset(cls.model_fields): cls for cls in (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP)
}


def _labelled(arms: Any) -> Any:
    """Return one algorithm, several, or algorithms by label as arms; return any other value unchanged."""
    if isinstance(arms, Algorithm):
        arms = [arms]
    if isinstance(arms, Mapping) and "kind" not in arms:
        return tuple(Arm(label=label, algorithm=algorithm) for label, algorithm in arms.items())
    if not isinstance(arms, list | tuple):
        return arms
    return tuple(Arm(label=arm.title, algorithm=arm) if isinstance(arm, Algorithm) else arm for arm in arms)


class Experiment(Displayed, Specification):
    """A problem × arms × budget × replicates × seed: the unit of caching, sharing and exporting.

    problem, arms : also as positional arguments. arms : Arms, an algorithm, several, or algorithms by label; without a
        label, an algorithm's title is its label. In place of a budget: epsilon (pure), epsilon and delta, rho (zCDP),
        or mu (Gaussian DP).

    >>> from dpviz.problems.linear.linear_models import LogisticRegression
    >>> from dpviz.families.accelerated import Nesterov
    >>> Experiment(LogisticRegression(), Nesterov(iterations=30), epsilon=2).budget
    PureDP(epsilon=2.0)
    >>> from dpviz.families.accelerated import GradientDescent, Nesterov
    >>> from dpviz.problems.linear.quadratic import Quadratic
    >>> arms = tuple(Arm(label=c.title, algorithm=c(iterations=5)) for c in (GradientDescent, Nesterov))
    >>> experiment = Experiment(problem=Quadratic(), arms=arms, budget=PureDP(epsilon=1.0), replicates=2)
    >>> Experiment.from_json(experiment.to_json()) == experiment
    True
    >>> trace = experiment.run()
    >>> trace.last("DP-NAG", "objective_gap").shape  # one number per replicate
    (2,)
    """

    kind: ClassVar[str] = "experiments.experiment.experiment"
    problem: ProblemSpecification
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=16)
    budget: Budget = PureDP()
    # On data that are not public 1 by itself: every run is a release of its own.
    replicates: int = number(
        20, 1, 200, label="Repeats", symbol="R", scale="log", help="Independent hypothetical runs, for the bands."
    )
    # None: drawn afresh for every run and kept nowhere. The default for a table that is not public; 0 for others.
    seed: int | None = number(
        0, 0, 2**31 - 1, label="Seed", help="Same seed, same settings, same noise: makes the run reproducible."
    )

    def __init__(self, problem: ProblemSpecification | None = None, arms: Any = None, **values: Any) -> None:
        positional = {"problem": problem, "arms": arms}
        super().__init__(**{name: value for name, value in positional.items() if value is not None}, **values)

    @model_validator(mode="before")
    @classmethod
    def _from_short_forms(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        numbers = frozenset(values) - set(cls.model_fields) - {"kind"}
        if numbers in _BUDGETS and "budget" not in values:
            budget = _BUDGETS[numbers](**{name: values[name] for name in numbers})
            values = {name: value for name, value in values.items() if name not in numbers} | {"budget": budget}
        return values | {"arms": _labelled(values["arms"])} if "arms" in values else values

    @model_validator(mode="after")
    def _only_public_runs_repeat_unasked(self) -> "Experiment":
        public, stated = self.problem.public, self.model_fields_set
        if (self.seed is None) if public else "seed" not in stated:
            object.__setattr__(self, "seed", 0 if public else None)  # frozen, but not finished before its validators
        if not public and "replicates" not in stated:
            object.__setattr__(self, "replicates", 1)
        return self

    @model_validator(mode="after")
    def _labels_differ(self) -> "Experiment":
        if len({arm.label for arm in self.arms}) < len(self.arms):
            raise ValueError("every algorithm of a comparison needs a label of its own")
        return self

    @property
    def public(self) -> bool:
        """True if its data are public: only then may results be stored for other users, and repeated."""
        return self.problem.public

    @property
    def seeded(self) -> bool:
        """True if the noise on data that are not public follows from a seed that was set."""
        return not self.public and self.seed is not None

    @property
    def condition(self) -> Condition:
        """Condition that the guarantee rests on."""
        return replace(self.problem.facts().condition, seeded=self.seeded)

    @property
    def privacy(self) -> Privacy:
        """Privacy of the releases of its private methods."""
        return privacy_of(True, self.condition)

    @property
    def guarantee(self) -> str:
        """Guarantee of one run of each method, as its plan states it."""
        return f"{self.budget.describe()}{self.condition}"

    @property
    def promise(self) -> str:
        """The guarantee with the unit of protection."""
        return f"{self.guarantee}{';' if self.problem.from_data else ','} {self.problem.unit}"

    @checked
    def plan(self, arm: Arm) -> Plan:
        """Compute the plan of one arm, from public facts alone. Raises UserError if its settings do not go together."""
        facts = self.problem.facts()
        if not isinstance(facts, arm.algorithm.facts_type()):
            raise UserError(
                f"{arm.label} does not work on the problem '{self.problem.title}'. Choose another problem.",
                title="Algorithm and problem do not fit",
            )
        with one_thread:  # so that a run plans the same numbers, to the last digit
            plan = arm.algorithm.plan(facts, arm.budget or self.budget)
        return replace(plan, seeded=True) if self.seeded else plan

    def plans(self) -> dict[str, Plan]:
        """Compute {label: plan} of all arms. Raises UserError if one of them has none."""
        return {arm.label: self.plan(arm) for arm in self.arms}

    def planned(self) -> "Planned":
        """Compute the plans of the arms that have one, and collect the errors that refuse the others."""
        plans: dict[str, Plan] = {}
        refused: dict[str, UserError] = {}
        for arm in self.arms:
            try:
                plans[arm.label] = self.plan(arm)
            except UserError as error:
                refused[arm.label] = error
        arms = tuple(arm for arm in self.arms if arm.label in plans)
        return Planned(self.replaced(arms=arms) if arms else None, plans, refused)

    def release(self, arm: Arm) -> str:
        """Return the text that an arm's releases depend on: its algorithm, its effective budget and the problem, but
        neither label nor repeats."""
        parts = (part.to_json() for part in (arm.budget or self.budget, self.problem))
        return "\n".join((arm.algorithm.released_settings(), *parts))

    def estimated_bytes(self, plans: Mapping[str, Plan]) -> float:
        """Estimate the bytes of memory that the run will need: the table, and the memory of every method."""
        memory = self.problem.memory(self.problem.facts())
        arms = ((arm.algorithm, plans[arm.label]) for arm in self.arms if arm.label in plans)
        return memory.table + sum(method.memory(plan, self.replicates, memory) for method, plan in arms)

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics that a run will record, by name: first those that most arms record. Runs nothing."""
        facts, problem = self.problem.facts(), self.problem.problem_type()
        metrics = [metric for arm in self.arms for metric in recorded_metrics(problem, facts, arm.algorithm)]
        return {metric.name: metric for metric in sorted(metrics, key=lambda metric: -metrics.count(metric))}

    @checked
    def run(self, tables: Mapping[str, Any] = NO_TABLES, *, progress: bool = False) -> Trace:
        """Run all arms to their end and return the trace of their records.

        Parameters
        ----------
        tables : mapping of str to (n, d) array
            The user's tables, by the identity that the problem's data declare. Generated and bundled data, and those
            of `dpviz.table`, need none.
        progress : bool
            Show a bar, by tqdm. Then Ctrl-C, or the button that interrupts a notebook, ends the run and returns the
            trace so far.

        Raises
        ------
        UserError
            If the settings do not go together, the problem reads no table of a given identity, or tqdm is missing.
        """
        check_tables(self.problem, tables)
        with bar("dpviz", progress) as set_progress:
            for step in self.stream({**self.problem.carried, **tables}):  # at least one arm, and an arm one step
                set_progress(step.progress)
        return step.trace

    @steps_on_one_thread
    def stream(
        self, tables: Mapping[str, np.ndarray] = NO_TABLES, heartbeat: Heartbeat = lambda _: None
    ) -> Iterator[Step]:
        """Run all arms, yielding after every iteration. The arm that has used the least time goes next.

        heartbeat : called with the latest step and the present progress about every `EVERY` seconds, while the data are
            loaded and inside a step or a record that takes long. An exception that it raises ends the run, as closing
            the stream does: the last states are recorded.

        Results do not depend on the order of the arms: each has a ledger and random streams to itself, which follow
        from the seed and from the text of its releases. Public choices for a whole run, such as its start, follow from
        the seed and the problem, and are the same for all arms. Without a seed all of it follows from the operating
        system's randomness.
        """
        plans, loading = self.plans(), Step("", BEFORE, Trace({}), 0.0)
        with at_checkpoints(lambda: heartbeat(loading), EVERY):
            problem = self.problem.build(tables)
            check_facts(problem, self.problem.facts())
            problem.prepare()  # once, and not counted as any arm's time
        references = {label for label, plan in plans.items() if not plan.budget.private}
        metrics = {arm.label: recorded_metrics(type(problem), problem.facts, arm.algorithm) for arm in self.arms}
        trace = Trace(metrics, references, self.problem.public, self.arms, self.problem, self.promise)
        for label, arm_trace in trace.lanes.items():
            arm_trace.currency, arm_trace.condition = plans[label].currency, plans[label].condition
        seed = drawn_seed(self.seed)
        runs = [_Run(arm, problem, plans[arm.label], self, seed, trace.lanes[arm.label]) for arm in self.arms]
        run, progress = runs[0], 0.0

        def step() -> Step:
            nonlocal progress
            progress = max(progress, _progress(runs))
            return Step(run.label, run.latest or BEFORE, trace, progress, problem.elsewhere)

        alive = at_checkpoints(lambda: heartbeat(step()), EVERY)
        try:
            while waiting := [run for run in runs if not run.finished]:
                run = min(waiting, key=lambda candidate: candidate.seconds)
                with alive:
                    run.advance()
                if not run.finished:
                    yield step()
        finally:
            for run in runs:
                run.close()


def check_tables(problem: ProblemSpecification, tables: Mapping[str, Any]) -> None:
    """Raise UserError for a table that the problem would not read: it would train on other data than those given."""
    identity = getattr(getattr(problem, "data", None), "identity", None)
    if set(tables) - {identity}:
        raise UserError(
            "Tables are given by the identity that the settings declare, {problem.data.identity: array}, and the "
            f'problem "{problem.title}" declares none of this identity. Leave the table out, or declare it as the '
            "problem's data.",
            title="This table would not be read",
        )


def recorded(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterations of a run that are recorded, ascending, and those of them with expensive diagnostics.

    They follow from the plan alone, so that every run records the same ones. A record reads all rows: the number of
    records is about that of the passes over the data by all steps together, between LEAST_RECORDS and RECORDS.
    """
    requested = np.empty(0, dtype=int) if plan.record_at is None else plan.record_at
    records = min(RECORDS, 1 + int(plan.rows.sum() / plan.facts.n))
    grid = np.union1d(recording_grid(plan.iterations, max(records - len(requested), LEAST_RECORDS)), requested)
    if not plan.stops:
        return grid, grid[np.unique(np.linspace(0, len(grid) - 1, EXPENSIVE).round().astype(int))]
    first = np.geomspace(1, max(1, plan.iterations), EXPENSIVE - 1)  # it may end after a few of its steps
    return grid, grid[np.unique([0, *np.searchsorted(grid, np.minimum(first.round(), plan.iterations))])]


def recorded_metrics(problem: type[Problem], facts: Facts, algorithm: AnyAlgorithm) -> tuple[Metric, ...]:
    """Return the metrics that a run records: the problem's diagnostics, those of secret iterates if there are any,
    and the algorithm's released series."""
    diagnostics = problem.metrics
    hidden = problem.internal_metrics
    if hidden is None:
        first = min((metric.headline for metric in diagnostics if metric.headline), default=0)
        hidden = tuple(
            replace(
                metric,
                label=f"{metric.label}, internal iterate",
                headline=metric.headline if metric.headline == first else 0,
            )
            for metric in diagnostics
            if not metric.beside
        )
    internal = (replace(metric, name=INTERNAL + metric.name) for metric in hidden if algorithm.has_internal(facts))
    return (*diagnostics, *internal, *algorithm.metrics)


def _progress(runs: Sequence["_Run"]) -> float:
    """Return the share in [0, 1] of the estimated time of all arms that has passed, if each arm goes on at its present
    speed.

    An arm without progress so far is taken to need as long as the others on average.
    """
    shares = [(run.seconds, run.progress) for run in runs]
    totals = [seconds / share for seconds, share in shares if share > 0]
    total = sum(totals) * len(runs) / len(totals) if totals else 0.0
    return min(1.0, sum(seconds for seconds, _ in shares) / total) if total > 0 else 0.0


BEFORE = Snapshot(-1, {})  # the snapshot of a step while the data are loaded


class _Run:
    """One arm during a run: its generator of snapshots, its clock, and the iterations to record."""

    def __init__(
        self, arm: Arm, problem: Problem, plan: Plan, experiment: Experiment, seed: int, arm_trace: ArmTrace
    ) -> None:
        self.label, self.seconds, self.iteration, self.finished = arm.label, 0.0, -1, False
        self.plan, self._problem, self._arm_trace = plan, problem, arm_trace
        grid, sparse_grid = recorded(plan)
        is_expensive = any(metric.cost == "expensive" for metric in arm_trace.metrics)
        self._grid, self._expensive = set(grid.tolist()), set((sparse_grid if is_expensive else grid).tolist())
        ledger = Ledger(plan.terms, experiment.replicates)
        release, compared = experiment.release(arm), experiment.problem.to_json()
        self._mechanisms = Mechanisms(ledger, seed, release=release, compared=compared)
        self._snapshots = arm.algorithm.run(problem, plan, self._mechanisms)
        self.latest: Snapshot | None = None
        self._recorded = False
        self._took, self._patience = {False: 0.0, True: 0.0}, LAST_RECORD / len(experiment.arms)
        is_kept = 2 * experiment.replicates * len(grid) <= CLOUD
        self._plane = experiment.problem.plane if is_kept else None

    def advance(self) -> None:
        """Go to the next snapshot, which is recorded if it is on the grid, or to the end of the arm."""
        start = self._clock()
        snapshot = next(self._snapshots, None)
        record_start = self._clock()
        self.seconds += record_start - start
        if snapshot is None:
            self._record_last(expensive=True)
            self._arm_trace.finish()
            self.finished = True
            return
        self.latest = snapshot
        if snapshot.iteration > self.iteration:  # a method may yield the same one again inside a step
            self.iteration, self._recorded = snapshot.iteration, False
            self._arm_trace.follow(snapshot)
            if snapshot.iteration in self._grid:
                self._record(snapshot, snapshot.iteration in self._expensive)
        self.seconds += self._clock() - record_start

    def _clock(self) -> float:
        """Return seconds of computing time, of this thread and of other processes: a busy machine slows no arm more
        than the others."""
        return time.thread_time() + self._problem.elsewhere

    def _record(self, snapshot: Snapshot, expensive: bool) -> None:
        start = self._clock()
        diagnostics = self._problem.evaluate(snapshot.output, expensive)
        if snapshot.internal:
            internal = self._problem.evaluate(snapshot.internal, expensive)
            diagnostics |= {INTERNAL + name: value for name, value in internal.items()}
        points = None if self._plane is None else self._plane.project(snapshot.output)
        self._arm_trace.append(snapshot, diagnostics, self.seconds, self._spent(snapshot.iteration), points)
        self._recorded, self._took[expensive] = True, self._clock() - start

    def _record_last(self, expensive: bool) -> None:
        """Record the latest state, unless it is on the grid of expensive diagnostics and was recorded there."""
        if self.latest is not None and not (self._recorded and self.iteration in self._expensive):
            self._record(self.latest, expensive)

    def _spent(self, iteration: int) -> np.ndarray | None:
        """Return (R,) the charges of each replicate so far, including before the run, in the currency of the arm's
        trace."""
        currency = self._arm_trace.currency
        if currency is None:
            return None
        if not self.plan.stops:
            return np.full(self._mechanisms.replicates, self._planned[iteration])
        power = UNITS[currency].power
        earlier = accountants.total(self.plan.facts.released, currency) ** power
        return np.asarray((earlier + self._mechanisms.spent(currency) ** power) ** (1 / power))

    @cached_property
    def _planned(self) -> np.ndarray:
        """(T+1,) the plan's charges after each iteration."""
        assert self._arm_trace.currency is not None
        return self.plan.spent(self._arm_trace.currency)

    @property
    def progress(self) -> float:
        """Share of the arm that is done, in [0, 1]: of its maximum of iterations, or of the replicates, those that
        stopped."""
        if self.finished:
            return 1.0
        stopped = self._arm_trace.stopped_at
        share_stopped = float((stopped >= 0).mean()) if len(stopped) else 0.0
        setup = int(self.plan.iterations > 1)  # counts as one iteration; next to a single long one it takes no time
        within = self.latest.within if self.latest is not None else 0.0
        return max((self.iteration + setup + within) / (self.plan.iterations + setup), share_stopped)

    def close(self) -> None:
        """Record the last state, also of a run that was stopped, but without diagnostics that would delay the stop."""
        if not self.finished and self._took[False] <= self._patience:
            self._record_last(self._took[True] <= self._patience)
        self.finished = True
        self._snapshots.close()  # type: ignore[attr-defined]  # algorithms are generators
