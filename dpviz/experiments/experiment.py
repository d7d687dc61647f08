"""Experiments: a problem, the algorithms to compare on it, a budget; their plans and their runs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpviz.arguments import ByName, checked  # UserError for wrong types and unknown names
from dpviz.checkpoints import EVERY, at_checkpoints
from dpviz.datasets.base import NO_TABLES, RowsSpecification
from dpviz.displays import Displayed, show_progress_bar
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, AnyAlgorithm, Snapshot
from dpviz.experiments.plan import Plan, Privacy, privacy_of
from dpviz.experiments.trace import CLOUD, LEAST_RECORDS, RECORDS, ArmTrace, Trace, recording_grid
from dpviz.numbers import short, short_up
from dpviz.one_thread import one_thread, steps_on_one_thread
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import grouped, relation
from dpviz.privacy.ledger import Filter, Ledger
from dpviz.privacy.mechanisms import Mechanisms, seed_or_random
from dpviz.problems.base import Condition, Facts, Metric, Problem, ProblemSpecification, check_facts
from dpviz.specification import Specification, classes_in, is_ours, number

LAST_RECORD = 0.5  # seconds that all methods together may take to record their last state when a run is stopped
EXPENSIVE = 20  # records of a run with diagnostics that are declared expensive, the two ends included
INTERNAL = "internal_"  # prefix of the diagnostics of iterates that are not released


class Arm(Specification):
    """One algorithm of a comparison, with its label.

    budget : the arm's own budget; None for that of the experiment. `NoPrivacy` makes the arm a reference.

    >>> import dpviz
    >>> arms = [dpviz.Arm("fast", dpviz.Nesterov(iterations=5)), dpviz.Arm("slow", dpviz.Nesterov(iterations=10))]
    >>> dpviz.Experiment(dpviz.Quadratic(), arms, epsilon=1).plans()["fast"]
    <Plan of 5 iterations at ε = 1>
    """

    kind: ClassVar[str] = "experiments.experiment.arm"
    label: str = Field(min_length=1, max_length=60)
    algorithm: AnyAlgorithm
    budget: Budget | None = None

    @property
    def reference(self) -> bool:
        """True if the arm runs without privacy, for comparison, whatever the budget of its experiment is."""
        return self.budget is not None and not self.budget.private


@dataclass(frozen=True)
class Step:
    """State of a run after an arm has advanced by one snapshot.

    label : of the arm that advanced; "" while the data are loaded.
    trace : the records of all arms so far, the same growing object in every step.
    progress : of the whole run, in [0, 1].
    seconds_elsewhere : seconds of computing time that other processes have taken for the run so far.
    """

    label: str
    snapshot: Snapshot
    trace: Trace
    progress: float
    seconds_elsewhere: float = 0.0


# A callback that gets the latest step again and again while the next one is computed. It may raise to end the run.
Heartbeat = Callable[[Step], None]


@dataclass(frozen=True)
class Planned:
    """The part of an experiment that can be run: the arms whose settings go together.

    experiment : the experiment with these arms alone; None if there are none.
    plans : the plans of these arms, by label.
    refused : the errors that say why the other arms have no plan, by label.
    """

    experiment: "Experiment | None"
    plans: Mapping[str, Plan]
    refused: Mapping[str, UserError]

    def ready(self) -> "Experiment":
        """Return the experiment with the arms that have a plan.

        Raises the first of the errors in `refused` if no arm has a plan, or if arms were refused and only references
        remain, which have nothing to be compared with.
        """
        has_private_arm = any(plan.private for plan in self.plans.values())
        if self.experiment is None or (self.refused and not has_private_arm):
            first_error, *_ = self.refused.values()
            raise first_error
        return self.experiment


# Classes of budgets by the names of their numbers: {epsilon}, {epsilon, delta}, {rho}, {mu}.
_BUDGETS: Mapping[frozenset[str], type[Budget]] = {
    frozenset(cls.model_fields): cls for cls in (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP)
}


class Experiment(Displayed, Specification):
    """Methods (arms) to compare on one problem under one privacy budget, each run several times (replicates) from a
    seed.

    It is the unit of caching, sharing and exporting. `problem` and `arms` may be given as positional arguments.

    arms : tuple of `Arm`, or shorter: an algorithm, several algorithms, or a mapping {label: algorithm}. An algorithm
        without a label is labelled by its title, or the name of its class.
    budget : a `Budget`, or in its place the numbers of one as keywords: epsilon (pure DP), epsilon and delta, rho
        (zCDP), or mu (Gaussian DP).

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.LogisticRegression(), dpviz.Nesterov(iterations=30), epsilon=2).budget
    PureDP(epsilon=2.0)
    >>> arms = {"slow": dpviz.GradientDescent(iterations=5), "DP-NAG": dpviz.Nesterov(iterations=5)}
    >>> experiment = dpviz.Experiment(dpviz.Quadratic(), arms, budget=dpviz.PureDP(epsilon=1.0), replicates=2)
    >>> dpviz.Experiment.from_json(experiment.to_json()) == experiment
    True
    >>> trace = experiment.run()
    >>> trace.last("DP-NAG", "objective_gap").shape  # one number per replicate
    (2,)
    """

    kind: ClassVar[str] = "experiments.experiment.experiment"
    short_forms: ClassVar[Mapping[str, str]] = dict.fromkeys(("epsilon", "delta", "rho", "mu"), "budget")
    problem: ProblemSpecification
    arms: tuple[Arm, ...] = Field(min_length=1, max_length=16)
    budget: Budget = PureDP()
    # On data that are not public the default is 1: every replicate is a release of its own, which costs privacy.
    replicates: int = number(
        20, 1, 200, label="Repeats", symbol="R", scale="log", help="Independent hypothetical runs, for the bands."
    )
    # None: a seed is drawn afresh for every run and kept nowhere. This is the default on data that are not public, as
    # whoever knows the seed can subtract the noise; on public data the default is 0.
    seed: int | None = number(
        0, 0, 2**31 - 1, label="Seed", help="Same seed, same settings, same noise: makes the run reproducible."
    )

    def __init__(
        self, problem: ProblemSpecification | None = None, arms: Any = None, budget: Budget | None = None, **values: Any
    ) -> None:
        positional = {"problem": problem, "arms": arms, "budget": budget}
        super().__init__(**{name: value for name, value in positional.items() if value is not None}, **values)

    @model_validator(mode="before")
    @classmethod
    def _from_short_forms(cls, values: Any) -> Any:
        """Replace the short forms that the class describes: numbers by a budget, and algorithms by arms."""
        if not isinstance(values, dict):
            return values
        if isinstance(values.get("problem"), Algorithm) or isinstance(values.get("arms"), ProblemSpecification):
            raise UserError("Give the problem first, then its methods: Experiment(problem, methods).")
        numbers = frozenset(values) & frozenset(cls.short_forms)
        if numbers and (numbers not in _BUDGETS or "budget" in values):
            given = " and ".join(sorted(numbers | ({"budget"} & set(values))))
            raise UserError(f"Give one budget: epsilon; epsilon and delta; rho; mu; or budget. Got {given}.")
        if numbers:
            budget = _BUDGETS[numbers](**{name: values[name] for name in numbers})
            values = {name: value for name, value in values.items() if name not in numbers} | {"budget": budget}
        arms = values.get("arms")
        if isinstance(arms, Algorithm):
            arms = [arms]
        if isinstance(arms, Mapping) and "kind" not in arms:  # with "kind" it is the JSON of one specification
            values = values | {"arms": tuple(Arm(label=label, algorithm=method) for label, method in arms.items())}
        elif isinstance(arms, list | tuple):
            labelled = (
                Arm(label=arm.title or type(arm).__name__, algorithm=arm) if isinstance(arm, Algorithm) else arm
                for arm in arms
            )
            values = values | {"arms": tuple(labelled)}
        return values  # any other value of `arms` is for the validation to judge

    @model_validator(mode="after")
    def _set_defaults_by_data(self) -> "Experiment":
        """Set the defaults of seed and replicates that depend on the data: public data get a seed; others get neither
        a seed nor further replicates unless these were stated."""
        public, stated_fields = self.problem.public, self.model_fields_set
        if public and self.seed is None:  # also where None was stated, so that every run on public data is repeatable
            object.__setattr__(self, "seed", 0)  # as a frozen model refuses plain assignments
        if not public and "seed" not in stated_fields:
            object.__setattr__(self, "seed", None)
        if not public and "replicates" not in stated_fields:
            object.__setattr__(self, "replicates", 1)
        return self

    @model_validator(mode="after")
    def _labels_differ(self) -> "Experiment":
        labels = [arm.label for arm in self.arms]
        for label in labels:
            if labels.count(label) > 1:
                raise UserError(f"Several methods are called {label!r}. Give labels, as in {{label: method, …}}.")
        return self

    @model_validator(mode="after")
    def _classes_have_own_names(self) -> "Experiment":
        """Refuse methods of two classes with one name: equal settings of the two would draw equal noise."""
        classes: dict[str, type] = {}
        for arm in self.arms:
            cls = type(arm.algorithm)
            if classes.setdefault(cls.full_name(), cls) is not cls:
                raise UserError(
                    f"Both are {cls.full_name()!r}. Give each class a kind of its own.",
                    title="Methods of two classes would share their noise",
                )
        return self

    def replaced(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed.

        A seed and further replicates that public data have do not pass to data that are not public.
        """
        changed = super().replaced(**changes)
        if self.public and not changed.public:
            return super().replaced(**{"seed": None, "replicates": 1} | changes)
        return changed

    @property
    def public(self) -> bool:
        """True if the data are public: only then may results be stored for other users, and runs be repeated."""
        return self.problem.public

    @property
    def seeded(self) -> bool:
        """True if the noise on data that are not public follows from a seed that was set."""
        return not self.public and self.seed is not None

    @property
    def condition(self) -> Condition:
        """Condition that the guarantee rests on: facts that were read from the data, and a seed that was set."""
        return replace(self.problem.facts().condition, seeded=self.seeded)

    @property
    def privacy(self) -> Privacy:
        """Privacy of the releases of the methods that have a budget."""
        return privacy_of(private=True, condition=self.condition)

    @property
    def _budgets(self) -> dict[str, Budget]:
        """The budget of each method that has one, its own or that of the experiment, by label."""
        budgets = {arm.label: arm.budget or self.budget for arm in self.arms}
        return {label: budget for label, budget in budgets.items() if budget.private}

    @property
    def guarantee(self) -> str:
        """Guarantee of one run of one private method, in words: the budget, and the condition that it rests on.

        Where methods have different budgets, each is named with its method.
        """
        budgets = {label: budget.describe() for label, budget in self._budgets.items()}
        if not budgets:
            return NoPrivacy().describe()
        first_budget, *others = dict.fromkeys(budgets.values())  # each different one once
        if not others:
            return f"{first_budget}{self.condition}"
        return ", ".join(f"{budget} ({label})" for label, budget in budgets.items()) + str(self.condition)

    @property
    def row_budget(self) -> Budget:
        """The budget of one row, which noise and error bounds follow: that of a person, divided among their rows.

        Where every row is a person it is the budget itself.
        """
        return self.budget.per_row(self.problem.rows_per_person)

    @property
    def promise(self) -> str:
        """The guarantee with the unit of protection, and what it includes besides the run."""
        # The releases before the run, each as costly as for all rows of a person together.
        released = [grouped(event, self.problem.rows_per_person) for event in self.problem.facts().released]
        earlier = accountants.total(released, "epsilon") if self._budgets else 0.0
        included = f"; this includes ε = {short_up(earlier)} of releases before the run" if earlier else ""
        separator = ";" if self.problem.from_data else ","  # with facts from the data the guarantee ends in a list
        return f"{self.guarantee}{separator} {self.problem.unit}{included}"

    @checked
    def plan(self, arm: Arm) -> Plan:
        """Compute the plan of one arm, from public facts alone. Raises UserError if its settings do not go together."""
        facts = self.problem.facts()
        if not isinstance(facts, arm.algorithm.facts_type()):
            raise UserError(
                f"{arm.label} does not work on the problem '{self.problem.title}'. Choose another problem.",
                title="Algorithm and problem do not fit",
            )
        if (facts.released, facts.from_data) != (self.problem.released, self.problem.from_data):  # a user's mistake
            raise UserError(
                "Give them released=self.released and from_data=self.from_data, which every plan and guarantee counts.",
                title=f"The facts of the problem '{self.problem.title}' leave out what its data cost",
            )
        for name, part in vars(self.problem).items():
            classes = [*classes_in(part)]
            if name == "data" and isinstance(part, RowsSpecification):
                classes.pop(0)  # the class of the data set itself, the only place where rows may be
            if any(issubclass(cls, RowsSpecification) and cls.public is not True for cls in classes):
                raise UserError(
                    "Declare them by the field `data`, as one data set that holds no other: it alone says whether rows "
                    "are public, whose they are, and what their ranges cost.",
                    title=f"The problem '{self.problem.title}' has rows in the field {name!r}",
                )
        budget, k = arm.budget or self.budget, self.problem.rows_per_person
        row_budget = budget.per_row(k)
        with one_thread:  # as in `stream`: so that a run computes the same plan to the last digit
            plan = arm.algorithm.plan(facts, row_budget)  # `for_people` adds what all k rows of a person pay
        if budget.private and not is_ours(type(arm.algorithm)):  # a user's mistake, too
            cost = row_budget.spent(plan.events, prior=facts.released)
            if cost > row_budget.limit * (1 + 1e-6) or plan.budget != row_budget:  # 1e-6: rounding errors
                raise UserError(
                    f"The budget is {row_budget.describe()}, and what is released costs {row_budget.symbol} = "
                    f"{short_up(cost, 4)}. A plan may spend `budget.remaining(facts.released)`, an ε, ρ or μ².",
                    title=f"The plan of {arm.label} does not keep its budget",
                )
            # Under a filter, the method chooses among the allowed events during the run.
            possible_events = plan.terms.allowed.values() if isinstance(plan.terms, Filter) else plan.events
            if relation(possible_events) not in (None, facts.relation):
                raise UserError(
                    "They hold if a row is added or removed, and this guarantee is for one that is replaced. Draw "
                    "batches without replacement.",
                    title=f"{arm.label} draws Poisson batches",
                )
        if self.seeded:
            plan = replace(plan, seeded=True)
        return plan.for_people(budget, k)

    def settings(self) -> dict[str, Any]:
        """Return the value of every setting by its address in the JSON text, which a sweep takes as well.

        >>> import dpviz
        >>> settings = dpviz.Experiment(dpviz.LogisticRegression(), dpviz.Nesterov(iterations=30), epsilon=2).settings()
        >>> settings["budget.epsilon"], settings["arms.0.algorithm.iterations"], settings["problem.data.rows"]
        (2.0, 30, 10000)
        """
        return ByName(dict(_by_address(self, "")), "setting")

    def plans(self) -> dict[str, Plan]:
        """Compute the plans of all arms, by label. Raises UserError if the settings of one do not go together."""
        return ByName({arm.label: self.plan(arm) for arm in self.arms}, "method")

    def planned(self) -> "Planned":
        """Compute the plans of all arms; an arm whose settings do not go together is left out, and its error kept."""
        plans: dict[str, Plan] = {}
        refused: dict[str, UserError] = {}
        for arm in self.arms:
            try:
                plans[arm.label] = self.plan(arm)
            except UserError as error:
                refused[arm.label] = error
        arms = tuple(arm for arm in self.arms if arm.label in plans)
        return Planned(self.replaced(arms=arms) if arms else None, plans, refused)

    def released_settings(self, arm: Arm) -> str:
        """Return all settings that an arm's releases depend on, as one text: algorithm, budget and problem.

        The text has neither the label nor the number of replicates. Together with the seed it determines the noise.
        """
        budget, problem = (arm.budget or self.budget).to_json(), self.problem.to_json()
        return "\n".join((arm.algorithm.released_settings(), budget, problem))

    def estimated_bytes(self, plans: Mapping[str, Plan]) -> float:
        """Estimate the bytes that the run will need: for the table, and for every method with a plan in `plans`."""
        memory = self.problem.memory(self.problem.facts())
        planned_arms = [arm for arm in self.arms if arm.label in plans]
        return memory.table + sum(
            arm.algorithm.memory(plans[arm.label], self.replicates, memory) for arm in planned_arms
        )

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics that a run would record, by name: first those that most arms record. It runs nothing."""
        facts, problem = self.problem.facts(), self.problem.problem_type()
        metrics = [metric for arm in self.arms for metric in recorded_metrics(problem, facts, arm.algorithm)]
        most_frequent_first = sorted(metrics, key=lambda metric: -metrics.count(metric))
        return {metric.name: metric for metric in most_frequent_first}

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
            If the settings do not go together, the problem reads no table of a given identity, tqdm is missing, or
            there is not enough memory.
        """
        check_tables(self.problem, tables)
        try:
            with show_progress_bar("dpviz", progress) as set_progress:
                # `carried`: tables that the problem's data bring along. There is at least one step, as there is an arm.
                for step in self.stream({**self.problem.carried, **tables}):
                    set_progress(step.progress)
        except MemoryError:
            size = short(self.estimated_bytes(self.plans()) / 1e9, 2)
            message = f"It needs about {size} GB. Choose fewer rows, parameters or repeats."
            raise UserError(message, title="There is not enough memory") from None
        return step.trace

    @steps_on_one_thread
    def stream(
        self, tables: Mapping[str, np.ndarray] = NO_TABLES, heartbeat: Heartbeat = lambda _: None
    ) -> Iterator[Step]:
        """Run all arms in turns and yield after every iteration; the arm with the least computing time so far is next.

        heartbeat : called with the latest step and the present progress about every `EVERY` seconds, while the data are
            loaded and inside a step or a record that takes long. An exception that it raises ends the run, as closing
            the stream does: the last states are recorded.

        Results do not depend on the order of the arms: each has a ledger and random streams to itself, which follow
        from the seed and from its `released_settings`. Public choices for a whole run, such as its starting point,
        follow from the seed and the problem, and are the same for all arms. Without a seed, all randomness comes from
        the operating system.
        """
        plans = self.plans()
        loading = Step(label="", snapshot=BEFORE, trace=Trace({}), progress=0.0)
        with at_checkpoints(lambda: heartbeat(loading), EVERY):
            problem = self.problem.build(tables)
            check_facts(problem, self.problem.facts())
            problem.prepare()  # once, and not counted as any arm's time
        references = {label for label, plan in plans.items() if not plan.budget.private}
        metrics = {arm.label: recorded_metrics(type(problem), problem.facts, arm.algorithm) for arm in self.arms}
        promises = {arm.label: self.replaced(arms=(arm,)).promise for arm in self.arms}
        trace = Trace(metrics, references, self.problem.public, self.arms, self.problem, promises)
        for label, arm_trace in trace.arm_traces.items():
            arm_trace.currency, arm_trace.condition = plans[label].statement.currency, plans[label].condition
        seed = seed_or_random(self.seed)  # a fresh one for None
        runs = [_Run(arm, problem, plans[arm.label], self, seed, trace.arm_traces[arm.label]) for arm in self.arms]
        unfinished, progress = runs, 0.0
        run = runs[0]  # the arm whose turn it is, which the loop below replaces

        def present_step() -> Step:
            nonlocal progress
            progress = max(progress, _progress(runs))  # an estimate, which must not go back on the screen
            return Step(run.label, run.latest or BEFORE, trace, progress, seconds_elsewhere=problem.seconds_elsewhere)

        calling_heartbeat = at_checkpoints(lambda: heartbeat(present_step()), EVERY)
        with ExitStack() as at_end:  # which closes all runs, even if it fails for one
            for started_run in runs:
                at_end.callback(started_run.close)
            while unfinished:
                run = min(unfinished, key=lambda candidate: candidate.seconds)
                with calling_heartbeat:
                    run.advance()
                if not run.finished:
                    yield present_step()
                unfinished = [other for other in runs if not other.finished]


def check_tables(problem: ProblemSpecification, tables: Mapping[str, Any]) -> None:
    """Raise UserError for a table that the problem would not read, as the run would then train on other data than the
    user has given.

    tables : by identity; a problem reads the table with the identity of its field `data` only.
    """
    identity = getattr(getattr(problem, "data", None), "identity", None)
    unread = set(tables) - {identity}
    if unread:
        raise UserError(
            "Tables are given by the identity that the settings declare, {problem.data.identity: array}, and the "
            f'problem "{problem.title}" declares none of this identity. Leave the table out, or declare it as the '
            "problem's data.",
            title=f"The table {min(unread)!r} would not be read",
        )


def recorded_iterations(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return two ascending arrays of iterations: all that are recorded, and those of them whose record includes the
    expensive diagnostics.

    They follow from the plan alone, so that every run records the same ones. A record reads all rows of the data once.
    So that records take no longer than the steps, their number is about that of the passes over the data by all steps
    together, between LEAST_RECORDS and RECORDS. Of requested iterations beyond RECORDS - LEAST_RECORDS, that many are
    recorded, evenly spread.
    """
    requested = np.empty(0, dtype=int) if plan.record_at is None else plan.record_at
    if len(requested) > RECORDS - LEAST_RECORDS:
        requested = requested[np.linspace(0, len(requested) - 1, RECORDS - LEAST_RECORDS).round().astype(int)]
    passes = int(plan.rows.sum() / plan.facts.n)
    n_regular = max(LEAST_RECORDS, min(RECORDS, 1 + passes) - len(requested))  # records besides the requested ones
    grid = np.union1d(recording_grid(plan.iterations, n_regular), requested)
    if not plan.stops:
        indices = np.linspace(0, len(grid) - 1, EXPENSIVE).round().astype(int)
    else:  # a method that may stop after a few of its steps: dense at the start, ever sparser later
        targets = np.geomspace(1, plan.iterations, EXPENSIVE - 1).round()  # and 0: EXPENSIVE in total
        indices = np.array([0, *np.searchsorted(grid, targets)])
    return grid, grid[np.unique(indices)]


def recorded_metrics(problem: type[Problem], facts: Facts, algorithm: AnyAlgorithm) -> tuple[Metric, ...]:
    """Return the metrics that a run of an algorithm records.

    These are the problem's diagnostics of the outputs; the same diagnostics of the internal iterates, which are not
    released, if the algorithm has some; and the released series that the algorithm declares. Raises UserError if one of
    these has the name of one of the problem's metrics.
    """
    diagnostics = problem.metrics
    shared_names = {metric.name for metric in diagnostics} & {metric.name for metric in algorithm.metrics}
    if shared_names:  # a user's mistake: the problem's value, of raw rows, would be recorded as a release
        raise UserError(
            f"Call {min(shared_names)!r} otherwise in one of the two.",
            title="Method and problem have a metric of one name",
        )
    if not algorithm.has_internal(facts):
        return (*diagnostics, *algorithm.metrics)
    internal = problem.internal_metrics
    if internal is None:  # by default all diagnostics, of which only the most telling is in the table of final numbers
        # `headline` is the rank in that table, 0 for a metric that is not in it.
        top_rank = min((metric.headline for metric in diagnostics if metric.headline), default=0)
        internal = tuple(
            replace(
                metric,
                label=f"{metric.label}, internal iterate",
                headline=metric.headline if metric.headline == top_rank else 0,
            )
            for metric in diagnostics
            if not metric.guess_for  # else it is the value of a constant guess, the same for any iterate
        )
    # Not even a function of the outputs, which a problem may declare as released, is released of internal iterates.
    renamed = (replace(metric, name=INTERNAL + metric.name, released=False) for metric in internal)
    return (*diagnostics, *renamed, *algorithm.metrics)


def _progress(runs: Sequence["_Run"]) -> float:
    """Return the progress of all arms together: seconds used so far / estimated seconds in total, in [0, 1].

    An arm is expected to go on at its present speed, so that it needs its seconds / its progress in total. An arm
    without progress so far is expected to need the average of the others.
    """
    used = [(run.seconds, run.progress) for run in runs]
    totals = [seconds / progress for seconds, progress in used if progress > 0]
    total = sum(totals) * len(runs) / len(totals) if totals else 0.0
    return min(1.0, sum(seconds for seconds, _ in used) / total) if total > 0 else 0.0


BEFORE = Snapshot(-1, {})  # the snapshot of a step while the data are loaded


class _Run:
    """One arm during a run: its generator of snapshots, its clock, and the iterations to record.

    seconds : of computing time that the arm has used for its steps and their records.
    iteration : of the latest snapshot; -1 before the first.
    latest : the latest snapshot; None before the first.
    """

    def __init__(
        self, arm: Arm, problem: Problem, plan: Plan, experiment: Experiment, seed: int, arm_trace: ArmTrace
    ) -> None:
        self.label, self.seconds, self.iteration, self.finished = arm.label, 0.0, -1, False
        self.plan, self._problem, self._arm_trace = plan, problem, arm_trace
        self._declared = [metric.name for metric in arm.algorithm.metrics]
        grid, sparse_grid = recorded_iterations(plan)
        has_expensive = any(metric.cost == "expensive" for metric in arm_trace.metrics)
        self._grid = set(grid.tolist())
        # Without expensive diagnostics, every record counts as one with all diagnostics.
        self._expensive_grid = set(sparse_grid.tolist()) if has_expensive else self._grid
        ledger = Ledger(plan.terms, experiment.replicates)
        # Texts that select the random streams: of the arm's noise, and of public choices, which are equal for all arms.
        release, compared = experiment.released_settings(arm), experiment.problem.to_json()
        self._mechanisms = Mechanisms(ledger, seed, release=release, compared=compared)
        # With a copy of its own, a method that changes the problem's queries changes those of no other method.
        self._snapshots = arm.algorithm.run(copy(problem), plan, self._mechanisms)
        self.latest: Snapshot | None = None
        self._is_recorded = False  # true if the latest snapshot has a record
        # Seconds of the last record without (False) and with (True) expensive diagnostics.
        self._record_seconds = {False: 0.0, True: 0.0}
        self._max_last_record = LAST_RECORD / len(experiment.arms)
        fits_cloud = 2 * experiment.replicates * len(grid) <= CLOUD  # two coordinates per replicate and record
        self._plane = experiment.problem.plane if fits_cloud else None  # in which pictures show the replicates
        self._rows_per_person = experiment.problem.rows_per_person

    def advance(self) -> None:
        """Compute the next snapshot, and record it if its iteration is on the grid; or end the arm if there is none.

        The last state is recorded with all diagnostics.
        """
        start = self._clock()
        snapshot = next(self._snapshots, None)
        record_start = self._clock()
        self.seconds += record_start - start
        if snapshot is None:
            self._record_last(expensive=True)
            self._arm_trace.finish()  # replicates that have not stopped are now "exhausted"
            self.finished = True
            return
        self.latest = snapshot
        if snapshot.iteration > self.iteration:  # a method may yield the same iteration again inside a step
            self.iteration, self._is_recorded = snapshot.iteration, False
            self._arm_trace.update_stops(snapshot)  # which replicates have stopped
            if snapshot.iteration in self._grid:
                self._record(snapshot, expensive=snapshot.iteration in self._expensive_grid)
        self.seconds += self._clock() - record_start

    def _clock(self) -> float:
        """Return the seconds of computing time of this thread and of other processes that work for the problem.

        This is not the time of day, so that other work on the machine counts for no arm.
        """
        return time.thread_time() + self._problem.seconds_elsewhere

    def _record(self, snapshot: Snapshot, expensive: bool) -> None:
        """Append a snapshot to the arm's trace, with diagnostics, privacy spent and positions in the plane.

        expensive : include the expensive diagnostics.
        """
        start = self._clock()
        diagnostics = self._problem.evaluate(snapshot.output, expensive)
        if snapshot.internal:
            internal = self._problem.evaluate(snapshot.internal, expensive)
            diagnostics |= {INTERNAL + name: value for name, value in internal.items()}
        for name, value in {**snapshot.released, **diagnostics}.items():
            if name in snapshot.released and name not in self._declared:  # a user's mistake
                self.finished = True  # `close` records nothing more
                raise UserError(
                    f"Declare it in `metrics`, which has {', '.join(map(repr, self._declared)) or 'none'}.",
                    title=f"{self.label} releases {name!r}, which is none of its metrics",
                )
            if np.shape(value) != (snapshot.replicates,):  # a user's mistake, too
                self.finished = True
                raise UserError(
                    f"{name!r} has the shape {np.shape(value)}, not ({snapshot.replicates},).",
                    title="A metric needs one number for each repeat",
                )
        points = None if self._plane is None else self._plane.project(snapshot.output)
        self._arm_trace.append(snapshot, diagnostics, self.seconds, self._spent(snapshot.iteration), points)
        self._is_recorded, self._record_seconds[expensive] = True, self._clock() - start

    def _record_last(self, expensive: bool) -> None:
        """Record the latest snapshot, unless it has a record with all diagnostics. Does nothing before the first.

        expensive : include the expensive diagnostics; a record without them is completed.
        """
        if self.latest is not None and not (self._is_recorded and self.iteration in self._expensive_grid):
            self._record(self.latest, expensive)

    def _spent(self, iteration: int) -> np.ndarray | None:
        """Return (R,) the privacy spent by each replicate up to this iteration, including before the run.

        It is in the currency of the arm's trace; None if the arm has no currency.
        """
        currency = self._arm_trace.currency
        if currency is None:
            return None
        if not self.plan.stops:
            return np.full(self._mechanisms.replicates, self._planned[iteration])
        unit = UNITS[currency]
        power = unit.power  # costs to this power add up: 1 for ε and ρ, 2 for μ
        # `statement`: the plan as a person with all rows sees it.
        earlier = accountants.total(self.plan.statement.facts.released, currency) ** power
        # The ledger books what one row pays; all rows of a person pay `factor` times that, and at most what the plan
        # says.
        unit_release = unit.event_of_cost(1.0)  # costs a row 1
        factor = unit.cost(grouped(unit_release, self._rows_per_person))
        charged = (earlier + (factor * self._mechanisms.spent(currency)) ** power) ** (1 / power)
        return np.minimum(charged, self._planned[-1]) if factor > 1 else np.asarray(charged)

    @cached_property
    def _planned(self) -> np.ndarray:
        """(T+1,) the privacy that the plan spends up to each iteration, in the currency of the arm's trace."""
        assert self._arm_trace.currency is not None
        return self.plan.statement.spent(self._arm_trace.currency)

    @property
    def progress(self) -> float:
        """Share of the arm that is done, in [0, 1].

        It is the share of the plan's iterations, or the share of the replicates that have stopped, if that is larger.
        """
        if self.finished:
            return 1.0
        stopped_at = self._arm_trace.stopped_at
        share_stopped = float((stopped_at >= 0).mean()) if len(stopped_at) else 0.0
        # The set-up counts as one iteration, but not next to a single long one, compared to which it takes no time.
        setup = int(self.plan.iterations > 1)
        within = self.latest.within if self.latest is not None else 0.0
        return max((self.iteration + setup + within) / (self.plan.iterations + setup), share_stopped)

    def close(self) -> None:
        """End the arm; record the last state of an arm that was stopped before its end.

        Diagnostics that would delay the stop are left out, judged by the time that they took in the last record.
        """
        try:
            if not self.finished and self._record_seconds[False] <= self._max_last_record:
                self._record_last(expensive=self._record_seconds[True] <= self._max_last_record)
        finally:
            self.finished = True
            self._snapshots.close()  # type: ignore[attr-defined]  # algorithms are generators


def _by_address(value: Any, address: str) -> Iterator[tuple[str, Any]]:
    """Yield the address and the value of every setting in a specification or in a tuple of them, at this address."""
    if isinstance(value, Specification):
        parts = [(name, getattr(value, name)) for name in type(value).model_fields]
    elif isinstance(value, tuple) and any(isinstance(item, Specification) for item in value):
        parts = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield address, value
        return
    for name, part in parts:
        yield from _by_address(part, f"{address}.{name}".removeprefix("."))
