"""The contract of a problem: public facts, Queries for mechanisms, diagnostics for figures."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_type_hints

import numpy as np

from dpviz.checkpoints import slices
from dpviz.datasets.base import NO_TABLES, DataSpecification
from dpviz.errors import UserError
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.model import Score
from dpviz.specification import Specification


@dataclass(frozen=True)
class Metric:
    """A recorded series: `name` is the quantity in words, `label` the axis text.

    released : True if it is a function of the mechanisms' releases; False for a diagnostic, which reads raw data.
    headline : its rank among the numbers of the final table, 1 first; 0 is not in the table.
    cost : "expensive" if a diagnostic is recorded on a grid of its own, with fewer points than the other metrics.
    axis : whether others can be drawn over it: a released series that only grows, such as function evaluations.
    better : whether lower or higher values are better; "" if neither.
    beside : the metric that this one accompanies on every page: the value of a constant guess in it. It is no series of
        a method, and never changes.
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
    beside: str = ""

    @property
    def gap(self) -> bool:
        """True if 0 is the best possible value, as of an excess or a norm, so that ratios of two values are meaningful.

        They are not for a loss, whose smallest value is unknown. Gaps are drawn on logarithmic scales.
        """
        return self.scale == "log"


@dataclass(frozen=True)
class Condition:
    """Everything that a guarantee rests on; its text follows the guarantee. False and empty if it rests on nothing.

    read : the facts that were read from the data, in words. seeded : whether the noise on data that are not public
        follows from a seed that was set, with which the noise can be subtracted.

    >>> str(Condition(("the smoothness L",), seeded=True))
    ' if nobody learns the seed and if these were known beforehand: the smoothness L'
    """

    read: tuple[str, ...] = ()
    seeded: bool = False

    @classmethod
    def joined(cls, conditions: "Iterable[Condition]") -> "Condition":
        """Return the condition that several guarantees together rest on."""
        listed = tuple(conditions)
        read = dict.fromkeys(fact for condition in listed for fact in condition.read)
        return cls(tuple(read), any(condition.seeded for condition in listed))

    def __bool__(self) -> bool:
        return self.seeded or bool(self.read)

    def __str__(self) -> str:
        facts = [f" if these were known beforehand: {'; '.join(self.read)}"] if self.read else []
        return " and".join([" if nobody learns the seed"] * self.seeded + facts)


@dataclass(frozen=True)
class Facts:
    """The public facts of a problem, known without its data.

    n : rows, d : parameters of the model.
    released : events that were charged before the run, to learn one of these facts; a plan pays for them first.
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
        """Narrow the facts of a plan or a problem to this class, which they are known to have."""
        assert isinstance(facts, cls)
        return facts

    @property
    def condition(self) -> Condition:
        """Condition that every guarantee of a plan from these facts rests on."""
        return Condition(self.from_data)


@dataclass(frozen=True)
class SmoothFacts(Facts):
    """Facts of an L-smooth, μ-strongly convex mean of n functions.

    gradient_bound : largest norm of one row's gradient, per norm ("l1", "l2"); enforced by clipping.
    start : the common value of the starting point's coordinates.
    initial_gap : bound on E₀ = F(x₀) - F*; lyapunov : bound on V₀ = E₀ + μ/2 ‖x₀ - x*‖² (V₀ ≤ 2E₀).
    eigenvalues : (d,) the Hessian's spectrum where it is constant and public, else ().
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
        """Return (R, d) the data-independent x₀ of every replicate."""
        return np.full((replicates, self.d), self.start)

    def gradient_sensitivity(self, norm: Norm, batch_size: int, relation: Relation = "replace-one") -> float:
        """Return the sensitivity of the mean gradient of m rows, for a bound C on one row's gradient.

        It is 2C/m, as one row may change from one end of the ball to the other; C/m if a row is added or removed, where
        the sum is still divided by the declared m.
        """
        return (1.0 if relation == "add/remove-one" else 2.0) * self.gradient_bound(norm) / batch_size


@dataclass(frozen=True)
class Memory:
    """Bytes that a problem needs, from declared sizes alone.

    table : of the problem itself. replicate : of each replicate of a method, in addition.
    """

    table: float
    replicate: float


@dataclass(frozen=True)
class Plane:
    """The plane in which the replicates of a run are drawn as dots. It follows from settings alone: no axis reads the
    data.

    titles : of the two axes. project : from the outputs of R replicates to points (R, 2).
    corners : name and coordinates of each corner of a triangle of mixed strategies; () in a plane without bounds.
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
        """The facts that were read from the problem's data, in words; `facts` has them, too."""
        declared = self.dataset.read_from_rows if isinstance(self.dataset, DataSpecification) else ()
        return (*declared, *self.read_by_itself)

    @property
    def read_by_itself(self) -> tuple[str, ...]:
        """The facts read from data that are settings of the problem itself, not declarations of its data."""
        return ()

    @property
    def unit(self) -> str:
        """Unit of protection, in words: the difference of two data sets that must be indistinguishable."""
        return "one row replaced"

    def memory(self, facts: Facts) -> Memory:
        """Return the memory that the problem needs, from its facts.

        This default is for a table of n rows and d columns, with the copies that its scaling makes.
        """
        return Memory(table=24.0 * facts.n * facts.d, replicate=64.0 * facts.d)

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Problem":
        """Load and clip the data. Raises UserError if an uploaded table is missing or does not fit the facts."""

    @classmethod
    def problem_type(cls) -> "type[Problem]":
        """Return the class of the problem that `build` declares to return."""
        problem_class: type[Problem] = get_type_hints(cls.build)["return"]
        return problem_class

    @property
    def dataset(self) -> Specification | None:
        """Settings of its data, from its field `data`; None for a problem without data."""
        data: Specification | None = getattr(self, "data", None)
        return data

    @property
    def carried(self) -> Mapping[str, Any]:
        """The tables that its data bring along, as `build` needs them; see `dpviz.table`."""
        return self.dataset.carried if isinstance(self.dataset, DataSpecification) else NO_TABLES

    @property
    def public(self) -> bool:
        """True if raw-data curves may be shown by default (synthetic or published data)."""
        return True

    @property
    def plane(self) -> Plane | None:
        """Plane in which the outputs of all replicates are drawn.

        None where there is no such plane, and for data that are not public: R dots would be R releases.
        """
        return self._plane() if self.public else None

    def _plane(self) -> Plane | None:
        """Return `plane` for public data."""
        return None

    def linear_score(self, _x: np.ndarray) -> Score | None:
        """Return the linear function that a released x (d,) predicts by, in the units of the table.

        None for a problem whose release is no linear model of a table.
        """
        return None


class Problem(ABC):
    """A function to minimise, with its data. Immutable; shared by all arms of an experiment."""

    metrics: ClassVar[tuple[Metric, ...]] = ()
    # Metrics of an algorithm's internal outputs, if it has any; None: the same as `metrics`.
    internal_metrics: ClassVar[tuple[Metric, ...] | None] = None
    facts: Facts

    @abstractmethod
    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute diagnostics (R,) at the outputs {"x": (R, d)}: they read raw data and are not private.

        expensive : include the metrics that are declared expensive, if there are any.
        """

    def prepare(self) -> None:  # noqa: B027 (most problems have nothing to prepare)
        """Compute the reference values of diagnostics, such as a minimum, before the first diagnostic does."""

    def correct(self, x: np.ndarray) -> np.ndarray | None:
        """Compute the share of the rows (R,) whose class the models x (R, d) predict, a tie counting half; None without
        classes.

        It reads raw data and is not private.
        """
        return None

    @property
    def elsewhere(self) -> float:
        """Seconds of computing time that other processes have taken for it so far."""
        return 0.0


Diagnostics = dict[str, np.ndarray]


def evaluated_in_slices(
    evaluate: Callable[[Mapping[str, np.ndarray]], Diagnostics], output: Mapping[str, np.ndarray], seconds: float
) -> Diagnostics:
    """Evaluate the outputs in slices of replicates, of which one takes `seconds`."""
    parts = [
        evaluate({name: values[part] for name, values in output.items()})
        for part in slices(len(next(iter(output.values()))), seconds)
    ]
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class SmoothProblem(Problem):
    """An L-smooth, strongly convex F: a data part, read by Queries, plus a regulariser that needs no noise."""

    facts: SmoothFacts

    @abstractmethod
    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        """Return the mean of the batch's clipped per-row gradients at x (R', d), without the regulariser; (R', d)."""

    @abstractmethod
    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient of the data-independent part at x; (R', d)."""


def check_facts(problem: Problem, facts: Facts) -> None:
    """Raise UserError unless the built problem has the facts that the plan was made for."""
    if problem.facts != facts:
        raise UserError(
            "The data do not have the size or bounds that the plan was made for. Load the data again.",
            title="Data and plan differ",
        )


# -------------------------------------------------------------------- planes in which the replicates of a run are drawn
# They are functions of releases and of settings.

_TINY = float(np.finfo(float).tiny)
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])


def coordinates(one: int, other: int, titles: tuple[str, str]) -> Plane:
    """Return the plane of two coordinates of the output x, by their indices."""
    return Plane(titles, lambda output: output["x"][:, [one, other]])


def first_two(titles: Sequence[str]) -> Plane | None:
    """Return the plane of the first two coordinates, given all titles; None if there is only one."""
    return coordinates(0, 1, (titles[0], titles[1])) if len(titles) > 1 else None


def ball(radius: float, d: int, titles: Sequence[str]) -> Plane | None:
    """Return the plane of the first two of the d coordinates of w = r (u₊ - u₋) in the ℓ1 ball; the output is u =
    (u₊, u₋)."""
    plane = first_two(titles)
    if plane is None:
        return None

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        u = output["x"]
        return np.asarray(radius * (u[:, :2] - u[:, d : d + 2]))

    return Plane(plane.titles, project)


def triangle(names: tuple[str, str, str], whose: str) -> Plane:
    """Return the triangle of mixed strategies of three: weights are barycentric coordinates. whose : owner of the
    weights."""
    titles = f"At a corner, one has all of {whose} weight", "In the middle, all three have the same"
    corners = tuple((name, x, y) for name, (x, y) in zip(names, _CORNERS.tolist(), strict=True))
    return Plane(titles, lambda output: output["x"] @ _CORNERS, corners)


def both(names: tuple[str, str]) -> Plane:
    """Return the plane of two players with two strategies each: the weights of their first strategies, of these
    names."""
    x, y = names
    titles = f"Player x: weight on {x}", f"Player y: weight on {y}"
    return Plane(titles, lambda output: np.column_stack([output["x"][:, 0], output["y"][:, 0]]))


def concentration(good: slice | None, words: str, whose: str) -> Plane:
    """Return the plane of the weight on the good strategies, and of the entropy of all weights.

    good : the good strategies, if they are known without data; None: the strategy with the largest weight. words : name
        of those strategies. whose : owner of the weights.
    """

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        x = output["x"]
        weight = x.max(axis=1) if good is None else x[:, good].sum(axis=1)
        spread = -np.einsum("rj,rj->r", x, np.log(np.maximum(x, _TINY)))  # where x is 0, so is the product
        return np.column_stack([weight, spread])

    return Plane((f"Weight on {words}", f"Entropy of {whose} weights (0: all on one)"), project)


def shares(one: np.ndarray, other: np.ndarray, titles: tuple[str, str]) -> Plane:
    """Return the plane of a histogram x over |Z| cells: its mass on two sets of cells, (|Z|,) bool each."""
    sets = np.column_stack([one, other]).astype(float)
    return Plane(titles, lambda output: output["x"] @ sets)
