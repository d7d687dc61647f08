"""Experiments: a problem, the algorithms to compare on it, a budget; plans and runs them."""

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
        """Whether it goes without privacy whatever the budget of its experiment."""
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


Heartbeat = Callable[[Step], None]  # told of the latest step again while the next one goes on; may raise to stop


@dataclass(frozen=True)
class Planned:
    """What of an experiment can be run.

    experiment : with the arms that have a plan; None if none has. plans : of these, by label.
    refused : why there is no plan, by the label of each of the others.
    """

    experiment: "Experiment | None"
    plans: Mapping[str, Plan]
    refused: Mapping[str, UserError]

    def ready(self) -> "Experiment":
        """The experiment with the arms that have a plan. Raises a reason if only references are left."""
        private = any(plan.private for plan in self.plans.values())
        if self.experiment is None or (self.refused and not private):
            raise next(iter(self.refused.values()))
        return self.experiment


_BUDGETS: Mapping[frozenset[str], type[Budget]] = {
    frozenset(cls.model_fields): cls for cls in (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP)
}


def _labelled(arms: Any) -> Any:
    """One algorithm, several, or algorithms by label, as arms; anything else as it is."""
    if isinstance(arms, Algorithm):
        arms = [arms]
    if isinstance(arms, Mapping) and "kind" not in arms:
        return tuple(Arm(label=label, algorithm=algorithm) for label, algorithm in arms.items())
    if not isinstance(arms, list | tuple):
        return arms
    return tuple(Arm(label=arm.title, algorithm=arm) if isinstance(arm, Algorithm) else arm for arm in arms)


class Experiment(Displayed, Specification):
    """A problem × arms × budget × replicates × seed: the unit of caching, sharing and exporting.

    problem, arms : also by place. arms : Arms, an algorithm, several, or algorithms by label; by itself, an algorithm
    is labelled by its title. In place of a budget: epsilon (pure), epsilon and delta, rho (zCDP), or mu (Gaussian DP).

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
        by_place = {"problem": problem, "arms": arms}
        super().__init__(**{name: value for name, value in by_place.items() if value is not None}, **values)

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
        """Whether its data are: only then may what was found be kept for others, and repeated."""
        return self.problem.public

    @property
    def seeded(self) -> bool:
        """Whether the noise on data that are not public follows from a seed that was set."""
        return not self.public and self.seed is not None

    @property
    def condition(self) -> Condition:
        """What the guarantee rests on."""
        return replace(self.problem.facts().condition, seeded=self.seeded)

    @property
    def privacy(self) -> Privacy:
        """What may be said of what its private methods release."""
        return privacy_of(True, self.condition)

    @property
    def guarantee(self) -> str:
        """That of one run of each method, as its plan says it."""
        return f"{self.budget.describe()}{self.condition}"

    @property
    def promise(self) -> str:
        """The guarantee with the unit of protection."""
        return f"{self.guarantee}{';' if self.problem.from_data else ','} {self.problem.unit}"

    @checked
    def plan(self, arm: Arm) -> Plan:
        """The plan of one arm, from public facts alone. Raises UserError if its settings do not go together."""
        facts = self.problem.facts()
        if not isinstance(facts, arm.algorithm.facts_type()):
            raise UserError(
                f"{arm.label} does not work on the problem '{self.problem.title}'. Choose another problem.",
                title="Algorithm and problem do not fit",
            )
        with one_thread:  # to the last digit what a run will plan
            found = arm.algorithm.plan(facts, arm.budget or self.budget)
        return replace(found, seeded=True) if self.seeded else found

    def plans(self) -> dict[str, Plan]:
        """{label: plan} of all arms. Raises UserError if one of them has none."""
        return {arm.label: self.plan(arm) for arm in self.arms}

    def planned(self) -> "Planned":
        """The plans of the arms that have one, and why the others have none."""
        plans: dict[str, Plan] = {}
        refused: dict[str, UserError] = {}
        for arm in self.arms:
            try:
                plans[arm.label] = self.plan(arm)
            except UserError as error:
                refused[arm.label] = error
        kept = tuple(arm for arm in self.arms if arm.label in plans)
        return Planned(self.replaced(arms=kept) if kept else None, plans, refused)

    def release(self, arm: Arm) -> str:
        """What an arm releases, as text: its algorithm, its effective budget and the problem; not label nor repeats."""
        parts = (part.to_json() for part in (arm.budget or self.budget, self.problem))
        return "\n".join((arm.algorithm.released_settings(), *parts))

    def estimated_bytes(self, plans: Mapping[str, Plan]) -> float:
        """About how much memory the run will need: the table, and what every method keeps beside it."""
        memory = self.problem.memory(self.problem.facts())
        arms = ((arm.algorithm, plans[arm.label]) for arm in self.arms if arm.label in plans)
        return memory.table + sum(method.memory(plan, self.replicates, memory) for method, plan in arms)

    def metrics(self) -> dict[str, Metric]:
        """What a run will record, by name, without running anything: what every arm records first, then the others."""
        facts, problem = self.problem.facts(), self.problem.problem_type()
        each = [recorded_metrics(problem, facts, arm.algorithm) for arm in self.arms]
        found = [metric for metrics in each for metric in metrics]
        return {metric.name: metric for metric in sorted(found, key=lambda metric: -found.count(metric))}

    @checked
    def run(self, tables: Mapping[str, Any] = NO_TABLES, *, progress: bool = False) -> Trace:
        """Run all arms to their end and return what was recorded.

        Parameters
        ----------
        tables : mapping of str to (n, d) array
            The user's own tables, by their identity; data that are generated or bundled need none.
        progress : bool
            Show a bar, by tqdm. Then Ctrl-C, or the button that interrupts a notebook, ends the run and keeps what was
            recorded until then.

        Raises
        ------
        UserError
            If the settings do not go together, a table is one that they do not read, or tqdm is missing.
        """
        check_tables(self.problem, tables)
        with bar("dpviz", progress) as tell:
            for step in self.stream(tables):  # an experiment has at least one arm, and an arm one step
                tell(step.progress)
        return step.trace

    @steps_on_one_thread
    def stream(
        self, tables: Mapping[str, np.ndarray] = NO_TABLES, heartbeat: Heartbeat = lambda _: None
    ) -> Iterator[Step]:
        """Run all arms, yielding after every iteration. The arm that has used the least time goes next.

        heartbeat : is given the latest step, with the progress of now, every `EVERY` seconds or so while the data are
            loaded, and inside a step or a record that takes long. What it raises ends the run, as closing the stream
            does: the last states are recorded.

        Results do not depend on that order: every arm has its own ledger and random streams of its own, which follow
        from the seed and from what it releases. Public choices that a whole run hangs on, such as its start, follow
        from the seed and the problem, and are the same for all arms. Without a seed all of it follows from the
        operating system's randomness.
        """
        plans, loading = self.plans(), Step("", BEFORE, Trace({}), 0.0)
        with at_checkpoints(lambda: heartbeat(loading), EVERY):
            problem = self.problem.build(tables)
            check_facts(problem, self.problem.facts())
            problem.prepare()  # once, and in no arm's time
        references = {label for label, plan in plans.items() if not plan.budget.private}
        metrics = {arm.label: recorded_metrics(type(problem), problem.facts, arm.algorithm) for arm in self.arms}
        trace = Trace(metrics, references, self.problem.public, self.arms)
        for label, lane in trace.lanes.items():
            lane.currency, lane.condition = plans[label].currency, plans[label].condition
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
    """Raise UserError for a table that a problem would not read: it would train on other data than those given."""
    own = getattr(getattr(problem, "data", None), "identity", None)
    if set(tables) - {own}:
        raise UserError(
            "Tables are given by the identity that the settings declare, {problem.data.identity: array}, and the "
            f'problem "{problem.title}" declares none of this identity. Leave the table out, or declare it as the '
            "problem's data.",
            title="This table would not be read",
        )


def recorded(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The iterations of a run that are recorded, ascending, and those of them with expensive diagnostics; from the plan
    alone, so that the same are recorded everywhere. A record reads all rows: there are about as many as the steps do
    that together, and always some."""
    asked = np.empty(0, dtype=int) if plan.record_at is None else plan.record_at
    passes = min(RECORDS, 1 + int(plan.rows.sum() / plan.facts.n))
    grid = np.union1d(recording_grid(plan.iterations, max(passes - len(asked), LEAST_RECORDS)), asked)
    if not plan.stops:
        return grid, grid[np.unique(np.linspace(0, len(grid) - 1, EXPENSIVE).round().astype(int))]
    first = np.geomspace(1, max(1, plan.iterations), EXPENSIVE - 1)  # it may end after a few of its steps
    return grid, grid[np.unique([0, *np.searchsorted(grid, np.minimum(first.round(), plan.iterations))])]


def recorded_metrics(problem: type[Problem], facts: Facts, algorithm: AnyAlgorithm) -> tuple[Metric, ...]:
    """What a run records: the problem's diagnostics, those of secret iterates if there are any, and released series."""
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
    found = (replace(metric, name=INTERNAL + metric.name) for metric in hidden if algorithm.has_internal(facts))
    return (*diagnostics, *found, *algorithm.metrics)


def _progress(runs: Sequence["_Run"]) -> float:
    """Share of the time of all arms that has gone, in [0, 1], if each goes on as it has; one without a step so far will
    take as long as the others on average."""
    shares = [(run.seconds, run.progress) for run in runs]
    wholes = [seconds / share for seconds, share in shares if share > 0]
    whole = sum(wholes) * len(runs) / len(wholes) if wholes else 0.0
    return min(1.0, sum(seconds for seconds, _ in shares) / whole) if whole > 0 else 0.0


BEFORE = Snapshot(-1, {})  # while the data are loaded


class _Run:
    """One arm on its way: its generator, its clock, and what is to be recorded."""

    def __init__(
        self, arm: Arm, problem: Problem, plan: Plan, experiment: Experiment, seed: int, lane: ArmTrace
    ) -> None:
        self.label, self.seconds, self.iteration, self.finished = arm.label, 0.0, -1, False
        self.plan, self._problem, self._lane = plan, problem, lane
        grid, dear = recorded(plan)
        costly = any(metric.cost == "expensive" for metric in lane.metrics)
        self._grid, self._expensive = set(grid.tolist()), set((dear if costly else grid).tolist())
        ledger = Ledger(plan.terms, experiment.replicates)
        release, compared = experiment.release(arm), experiment.problem.to_json()
        self._mechanisms = Mechanisms(ledger, seed, release=release, compared=compared)
        self._snapshots = arm.algorithm.run(problem, plan, self._mechanisms)
        self.latest: Snapshot | None = None
        self._recorded = False
        self._took, self._patience = {False: 0.0, True: 0.0}, LAST_RECORD / len(experiment.arms)
        kept = 2 * experiment.replicates * len(grid) <= CLOUD
        self._plane = experiment.problem.plane if kept else None

    def advance(self) -> None:
        """Go to the next snapshot, which is recorded if it is on the grid, or to the end of the arm."""
        began = self._clock()
        snapshot = next(self._snapshots, None)
        begun_record = self._clock()
        self.seconds += begun_record - began
        if snapshot is None:
            self._record_last(expensive=True)
            self._lane.finish()
            self.finished = True
            return
        self.latest = snapshot
        if snapshot.iteration > self.iteration:  # a method may yield the same one again inside a step
            self.iteration, self._recorded = snapshot.iteration, False
            self._lane.follow(snapshot)
            if snapshot.iteration in self._grid:
                self._record(snapshot, snapshot.iteration in self._expensive)
        self.seconds += self._clock() - begun_record

    def _clock(self) -> float:
        """Seconds of computing time, here and elsewhere: a busy machine makes nobody slower than the others."""
        return time.thread_time() + self._problem.elsewhere

    def _record(self, snapshot: Snapshot, expensive: bool) -> None:
        began = self._clock()
        diagnostics = self._problem.evaluate(snapshot.output, expensive)
        if snapshot.internal:
            found = self._problem.evaluate(snapshot.internal, expensive)
            diagnostics |= {INTERNAL + name: value for name, value in found.items()}
        places = None if self._plane is None else self._plane.project(snapshot.output)
        self._lane.append(snapshot, diagnostics, self.seconds, self._spent(snapshot.iteration), places)
        self._recorded, self._took[expensive] = True, self._clock() - began

    def _record_last(self, expensive: bool) -> None:
        """Record the latest state, unless it was with everything."""
        if self.latest is not None and not (self._recorded and self.iteration in self._expensive):
            self._record(self.latest, expensive)

    def _spent(self, iteration: int) -> np.ndarray | None:
        """(R,) what each replicate has been charged so far, before the run included, in the lane's currency."""
        currency = self._lane.currency
        if currency is None:
            return None
        if not self.plan.stops:
            return np.full(self._mechanisms.replicates, self._planned[iteration])
        power = UNITS[currency].power
        before = accountants.total(self.plan.facts.released, currency) ** power
        return np.asarray((before + self._mechanisms.spent(currency) ** power) ** (1 / power))

    @cached_property
    def _planned(self) -> np.ndarray:
        """(T+1,) what the plan has charged after each iteration."""
        assert self._lane.currency is not None
        return self.plan.spent(self._lane.currency)

    @property
    def progress(self) -> float:
        """How much of the arm is done, in [0, 1]: iterations of the most that there are, or replicates that ended."""
        if self.finished:
            return 1.0
        stopped = self._lane.stopped_at
        ended = float((stopped >= 0).mean()) if len(stopped) else 0.0
        begin = int(self.plan.iterations > 1)  # what comes before the steps, beside a single long one, is nothing
        within = self.latest.within if self.latest is not None else 0.0
        return max((self.iteration + begin + within) / (self.plan.iterations + begin), ended)

    def close(self) -> None:
        """Record the last state, also of a run that was stopped in between; but nobody who stops a run waits for
        diagnostics that take long."""
        if not self.finished and self._took[False] <= self._patience:
            self._record_last(self._took[True] <= self._patience)
        self.finished = True
        self._snapshots.close()  # type: ignore[attr-defined]  # algorithms are generators
