"""Base classes of problems.

A problem states public facts, from which runs are planned; computes Queries, to which mechanisms add noise; and
computes diagnostics, which read raw data and are for figures only. In the shapes, R is the number of replicates
(simulated runs), and R' the number of those that a query is for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_type_hints

import numpy as np

from dpviz.checkpoints import checkpointed_slices
from dpviz.datasets.base import NO_TABLES, RowsSpecification
from dpviz.datasets.uploads.upload import Upload, check_same_people
from dpviz.errors import UserError
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, Laplace, Relation
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.model import LinearScore
from dpviz.specification import Specification


@dataclass(frozen=True)
class Metric:
    """A quantity that is recorded along a run, as a series with one number per replicate and recorded step.

    name : the key of the series in results. label : the text of its axis. scale : of that axis.
    released : True if it is a function of the mechanisms' releases; False for a diagnostic, which reads raw data.
    headline : its rank among the numbers of the final table, 1 first; 0 if it is not in the table.
    cost : "expensive" if a diagnostic takes so long that it is recorded at fewer steps than the other metrics.
    axis : True if it can be the horizontal axis of other metrics: a released series that only grows, such as the number
        of function evaluations.
    better : tells if lower or higher values are better; "" if neither.
    guess_for : name of another metric, if this one is only the value that a constant guess reaches in that metric; else
        "". Such a reference is the same at all steps and is displayed together with the other metric.
    """

    name: str
    label: str
    unit: str = ""
    released: bool = False
    scale: Literal["linear", "log"] = "linear"
    headline: int = 0
    cost: Literal["cheap", "expensive"] = "cheap"
    axis: bool = False
    better: Literal["lower", "higher", ""] = "lower"
    guess_for: str = ""

    @property
    def gap(self) -> bool:
        """True if 0 is the best possible value, as it is of an excess loss or a norm; False for a loss, whose smallest
        value is unknown.

        Ratios of two values are meaningful for gaps only. These are the metrics with a logarithmic scale.
        """
        return self.scale == "log"


@dataclass(frozen=True)
class Condition:
    """The assumptions under which a privacy guarantee holds. Its text is appended to the sentence of the guarantee.

    A guarantee without assumptions has a condition that is false, with an empty text.
    read : the facts that were read from the data without paying for them, in words.
    seeded : True if the data are not public and the noise follows from a seed that was set: who learns the seed can
        subtract the noise.

    >>> str(Condition(("the smoothness L",), seeded=True))
    ' if nobody learns the seed and if these were known beforehand: the smoothness L'
    """

    read: tuple[str, ...] = ()
    seeded: bool = False

    @classmethod
    def joined(cls, conditions: "Iterable[Condition]") -> "Condition":
        """Return the condition under which several guarantees hold together; a fact that many name is listed once."""
        conditions = tuple(conditions)  # they are read twice
        different_facts = dict.fromkeys(fact for condition in conditions for fact in condition.read)
        return cls(tuple(different_facts), any(condition.seeded for condition in conditions))

    def __bool__(self) -> bool:
        return self.seeded or bool(self.read)

    def __str__(self) -> str:
        clauses = []
        if self.seeded:
            clauses.append("if nobody learns the seed")
        if self.read:
            clauses.append(f"if these were known beforehand: {'; '.join(self.read)}")
        return f" {' and '.join(clauses)}" if clauses else ""


@dataclass(frozen=True)
class Facts:
    """The public facts of a problem: all that a run is planned from, without loading the data.

    n : number of rows of the data. d : number of parameters of the model.
    relation : the pairs of data sets that are neighbours; always those that differ in one row.
    released : privacy events by which some of these facts were released before the run; a plan pays for them first.
    from_data : the facts, in words, that were read from the data without paying for them. All others are declared, or
        were released.
    """

    n: int
    d: int
    relation: Literal["replace-one"] = "replace-one"
    released: tuple[Event, ...] = ()
    from_data: tuple[str, ...] = ()

    @classmethod
    def of(cls, facts: "Facts") -> Self:
        """Return the same facts, typed as this subclass; it is a bug if they are of another class."""
        assert isinstance(facts, cls)
        return facts

    @property
    def condition(self) -> Condition:
        """Condition under which every guarantee of a plan from these facts holds."""
        return Condition(self.from_data)


@dataclass(frozen=True)
class SmoothFacts(Facts):
    """Facts of a function F, the mean of one function per row, that is L-smooth and μ-strongly convex.

    x* is the minimiser of F, F* = F(x*), and x₀ the starting point.
    gradient_bound_l1, gradient_bound_l2 : largest ℓ1 and ℓ2 norm of one row's gradient; enforced by clipping.
    smoothness : L. strong_convexity : μ.
    start : the value that all coordinates of x₀ have.
    initial_gap : bound on E₀ = F(x₀) - F*.
    lyapunov : bound on V₀ = E₀ + (μ/2) ‖x₀ - x*‖², from which accelerated methods' errors are bounded (V₀ ≤ 2E₀).
    eigenvalues : (d,) of the Hessian, ascending, where it is constant and public; else ().
    """

    gradient_bound_l1: float = 1.0
    gradient_bound_l2: float = 1.0
    smoothness: float = 1.0
    strong_convexity: float = 1.0
    start: float = 0.0
    initial_gap: float = 1.0
    lyapunov: float = 1.0
    eigenvalues: tuple[float, ...] = ()

    def gradient_bound(self, norm: Norm) -> float:
        """Return the largest norm of one row's clipped gradient."""
        return {"l1": self.gradient_bound_l1, "l2": self.gradient_bound_l2}[norm]

    def starting_point(self, replicates: int) -> np.ndarray:
        """Return x₀ (R, d), the same for all R replicates; it does not depend on data."""
        return np.full((replicates, self.d), self.start)

    def gradient_sensitivity(self, norm: Norm, batch_size: int, relation: Relation = "replace-one") -> float:
        """Return the sensitivity of the sum of clipped gradients over a batch, divided by m = `batch_size`.

        With one row's gradient bounded by C it is 2C/m: a replaced row's gradient may move from one end of the ball of
        radius C to the other. If a row is added or removed it is C/m, as the sum is still divided by the declared m.
        """
        radii_moved = 1.0 if relation == "add/remove-one" else 2.0
        return radii_moved * self.gradient_bound(norm) / batch_size


@dataclass(frozen=True)
class Memory:
    """Estimate of the memory that a problem needs, in bytes, from declared sizes alone.

    table : bytes of the problem itself. replicate : bytes that each replicate of a method takes in addition.
    """

    table: float
    replicate: float


@dataclass(frozen=True)
class Plane:
    """A plane in which the outputs of a run's replicates are drawn, one dot each.

    It follows from the settings alone: which plane is drawn tells nothing about the data.
    titles : of the two axes. project : maps the outputs {name: (R, ...)} of R replicates to points (R, 2).
    corners : name, horizontal and vertical coordinate of each corner, if all points are in a triangle; else ().
    """

    titles: tuple[str, str]
    project: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    corners: tuple[tuple[str, float, float], ...] = ()


class ProblemSpecification(Specification, ABC):
    """The settings of a problem; knows its facts without loading data, and builds the problem."""

    title: ClassVar[str] = ""

    @abstractmethod
    def facts(self) -> Facts:
        """Return the public facts, from settings alone; loads nothing."""

    @property
    def from_data(self) -> tuple[str, ...]:
        """The facts, in words, that were read from the problem's data without paying for them (`Facts.from_data`)."""
        facts_of_data = self.dataset.read_from_rows if isinstance(self.dataset, RowsSpecification) else ()
        return (*facts_of_data, *self.settings_from_data)

    @property
    def settings_from_data(self) -> tuple[str, ...]:
        """The part of `from_data` that are settings of the problem itself; the others are settings of its data set."""
        return ()

    @property
    def released(self) -> tuple[Event, ...]:
        """Events by which some of the facts were released before the run (`Facts.released`).

        Ranges of the data set are bought with Laplace noise. Their cost is that of a person's k rows together; a plan,
        whose budget is that of one row, counts a k-th of it.
        """
        costs_of_data = self.dataset.costs if isinstance(self.dataset, RowsSpecification) else ()
        return (*(Laplace(cost / self.rows_per_person) for cost in costs_of_data), *self.releases_of_settings)

    @property
    def releases_of_settings(self) -> tuple[Event, ...]:
        """The part of `released` by which settings of the problem itself are known; the others are of its data set."""
        return ()

    def replaced(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed.

        Raises UserError if the releases by which facts were bought do not protect the people of the new data.
        """
        copy = super().replaced(**changes)
        if self.releases_of_settings and copy.releases_of_settings:
            check_same_people(self.person, copy.person)
        return copy

    @property
    def unit(self) -> str:
        """Unit of protection, in words: the difference between two data sets that must not be distinguishable."""
        if self.person is None:
            return "one row replaced"
        if self.rows_per_person == 1:
            return "one person replaced"
        return f"one person with up to {self.rows_per_person:,} rows replaced"

    @property
    def person(self) -> str | None:
        """The column that names the person of each row, all of whose rows are protected; None if single rows are."""
        return self.dataset.person if isinstance(self.dataset, Upload) else None

    @property
    def rows_per_person(self) -> int:
        """k, the largest number of rows of one person, all of which are protected; 1 if single rows are."""
        return self.dataset.rows_per_person if isinstance(self.dataset, Upload) else 1

    def memory(self, facts: Facts) -> Memory:
        """Estimate the memory that the problem needs, from its facts.

        This default is for a table of n rows and d columns of 8 bytes each, of which scaling makes two copies, and
        for methods that hold 8 vectors of d parameters.
        """
        return Memory(table=24.0 * facts.n * facts.d, replicate=64.0 * facts.d)

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Problem":
        """Load the data, clip them, and return the problem.

        tables : maps the identity of an uploaded table to its array. Raises UserError if one is missing or does not fit
            the facts.
        """

    @classmethod
    def problem_type(cls) -> "type[Problem]":
        """Return the class of the problems that `build` returns, from its annotation. Raises UserError without one."""
        problem_class: type[Problem] | None = get_type_hints(cls.build).get("return")
        if problem_class is None:  # a user's problem
            raise UserError("Name its class: def build(…) -> …:", title=f"{cls.__name__} does not say what it builds")
        return problem_class

    @property
    def dataset(self) -> Specification | None:
        """Settings of the problem's data set; None for a problem without data."""
        data: Specification | None = getattr(self, "data", None)
        return data

    @property
    def carried(self) -> Mapping[str, Any]:
        """The tables, by identity, that the data set itself holds for `build`, as that of `dpviz.table` does."""
        return self.dataset.carried if isinstance(self.dataset, RowsSpecification) else NO_TABLES

    @property
    def public(self) -> bool:
        """True if the data are synthetic or published, so that diagnostics may be shown by default."""
        return bool(getattr(self.dataset, "public", True))

    @property
    def plane(self) -> Plane | None:
        """Plane in which the outputs of all R replicates are drawn; None if the problem has none.

        It is also None for data that are not public, because R dots would be R releases and only one is paid for.
        """
        return self._plane() if self.public else None

    def _plane(self) -> Plane | None:
        """Return the plane of this problem, as if its data were public; None by default."""
        return None

    def linear_score(self, _x: np.ndarray) -> LinearScore | None:
        """Return the linear function that a released x (d,) predicts by, in the units of the table.

        None for a problem whose release is no linear model of a table.
        """
        return None


class Problem(ABC):
    """A function to minimise, with its data. Immutable; shared by all arms of an experiment."""

    metrics: ClassVar[tuple[Metric, ...]] = ()
    # Metrics of the outputs that an algorithm keeps internal, if it has any; None if they are the same as `metrics`.
    internal_metrics: ClassVar[tuple[Metric, ...] | None] = None
    facts: Facts

    @abstractmethod
    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the value (R,) of each metric at the outputs {"x": (R, d)} of R replicates, by the metric's name.

        These diagnostics read raw data and are not private.
        expensive : include the metrics whose `cost` is "expensive".
        """

    def prepare(self) -> None:  # noqa: B027 (most problems have nothing to prepare)
        """Compute and keep the reference values of diagnostics, such as the minimum F*.

        The first diagnostic would do so otherwise, and would take longer than the others.
        """

    def correct_share(self, x: np.ndarray) -> np.ndarray | None:
        """Compute for each of the models x (R, d) the share of the rows whose class is predicted right; (R,).

        A row on the boundary between the classes counts half. Return None if rows have no classes. This reads raw data
        and is not private.
        """
        return None

    @property
    def seconds_elsewhere(self) -> float:
        """Seconds of computing time that other processes have spent for this problem so far: they count towards the
        limit of a run. A problem that starts processes overrides it."""
        return 0.0


Diagnostics = dict[str, np.ndarray]


def evaluate_in_slices(
    evaluate: Callable[[Mapping[str, np.ndarray]], Diagnostics], output: Mapping[str, np.ndarray], seconds: float
) -> Diagnostics:
    """Return `evaluate(output)`, computed in slices of the replicates, so that there are checkpoints in between.

    output : arrays (R, ...) by name. seconds : declared cost of evaluating one replicate; slices follow from it.
    """
    replicates = len(next(iter(output.values())))
    parts = (
        {name: values[part] for name, values in output.items()} for part in checkpointed_slices(replicates, seconds)
    )
    results = [evaluate(part) for part in parts]
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


class SmoothProblem(Problem):
    """An L-smooth, strongly convex function F: a mean over rows, which only Queries read, plus a regulariser, which
    does not depend on data, so that its gradient needs no noise."""

    facts: SmoothFacts

    @abstractmethod
    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        """Return the query of the mean (R', d) of the clipped gradients of a batch's rows, at x (R', d).

        The regulariser is not included. norm : the one in which the query's sensitivity is stated.
        """

    @abstractmethod
    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient (R', d) of the regulariser at x (R', d)."""


def check_facts(problem: Problem, facts: Facts) -> None:
    """Raise UserError unless the built problem has the facts that the plan was made for."""
    if problem.facts != facts:
        raise UserError(
            "The data do not have the size or bounds that the plan was made for. Load the data again.",
            title="Data and plan differ",
        )


# -------------------------------------------------------------------- planes in which the replicates of a run are drawn
# A dot is computed from released outputs and from settings, never from data.


def coordinate_plane(horizontal: int, vertical: int, titles: tuple[str, str]) -> Plane:
    """Return the plane of two coordinates of the output x (R, d), given their indices and the titles of the axes."""
    return Plane(titles, lambda output: output["x"][:, [horizontal, vertical]])


def first_two_plane(titles: Sequence[str]) -> Plane | None:
    """Return the plane of the first two coordinates of the output x; None if x has only one.

    titles : of the coordinates, in their order; those after the second are ignored.
    """
    return coordinate_plane(0, 1, (titles[0], titles[1])) if len(titles) > 1 else None


def ball_plane(radius: float, d: int, titles: Sequence[str]) -> Plane | None:
    """Return the plane of the first two coordinates of the point w in the ℓ1 ball of the given radius; None if d = 1.

    The output x of a run is u = (u₊, u₋) (R, 2d), weights on the 2d vertices of the ball, with w = radius (u₊ - u₋).
    titles : of the coordinates of w, in their order; those after the second are ignored.
    """
    plane = first_two_plane(titles)
    if plane is None:
        return None

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        u = output["x"]
        return np.asarray(radius * (u[:, :2] - u[:, d : d + 2]))

    return Plane(plane.titles, project)
