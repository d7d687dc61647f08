"""The contract of a problem: public facts, Queries for mechanisms, diagnostics for teaching pictures."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, get_type_hints

import numpy as np

from dpviz.checkpoints import slices
from dpviz.datasets.base import NO_TABLES, DataSpecification
from dpviz.errors import UserError
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.releases import Norm, Query
from dpviz.specification import Specification


@dataclass(frozen=True)
class Metric:
    """A recorded series: `name` is the quantity in words, `label` the axis text.

    released : True if it is a function of what the mechanisms release; False for a diagnostic, which reads raw data.
    headline : its place among the numbers that the final table shows, 1 first; 0 is not in the table.
    cost : "expensive" if a diagnostic is worth a grid of its own, with fewer points than those beside it.
    axis : whether the others can be drawn over it: a released series that only grows, such as function evaluations.
    better : which values are; "" where it is no merit.
    beside : the metric beside which it stands wherever that is shown: what a constant guess reaches in it. It is no
        series of a method's, and always the same.
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
        """Whether 0 is the best that there is, as of an excess or a norm, so that ratios of two values say something;
        of a loss, whose floor nobody knows, they do not. Gaps are what is drawn on logarithmic scales."""
        return self.scale == "log"


@dataclass(frozen=True)
class Condition:
    """All that a guarantee rests on; as text, to be said behind it. False and empty if it rests on nothing.

    read : the facts that were read from the data, in words. seeded : whether the noise on data that are not public
        follows from a seed that was set, with which it can be subtracted.

    >>> str(Condition(("the smoothness L",), seeded=True))
    ' if nobody learns the seed and if these were known beforehand: the smoothness L'
    """

    read: tuple[str, ...] = ()
    seeded: bool = False

    @classmethod
    def joined(cls, conditions: "Iterable[Condition]") -> "Condition":
        """What several guarantees rest on together."""
        every = tuple(conditions)
        read = dict.fromkeys(words for condition in every for words in condition.read)
        return cls(tuple(read), any(condition.seeded for condition in every))

    def __bool__(self) -> bool:
        return self.seeded or bool(self.read)

    def __str__(self) -> str:
        known = [f" if these were known beforehand: {'; '.join(self.read)}"] if self.read else []
        return " and".join([" if nobody learns the seed"] * self.seeded + known)


@dataclass(frozen=True)
class Facts:
    """What may be known of a problem without its data.

    n : rows, d : parameters of the model.
    released : events that were charged before the run, to learn one of these facts; a plan pays for them first.
    from_data : which of these facts, in words, were read from the data, and paid for by nothing. All others are
        declared, or were released.
    """

    n: int
    d: int
    relation: Literal["replace-one"] = "replace-one"
    released: tuple[Event, ...] = ()
    from_data: tuple[str, ...] = ()

    @classmethod
    def of(cls, facts: "Facts") -> Self:
        """The same facts, of a plan or a problem that is known to have facts of this class."""
        assert isinstance(facts, cls)
        return facts

    @property
    def condition(self) -> Condition:
        """What every guarantee of a plan from these facts rests on."""
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
        """The largest norm of one row's clipped gradient."""
        return {"l1": self.gradient_bound_l1, "l2": self.gradient_bound_l2}[norm]

    def starting_point(self, replicates: int) -> np.ndarray:
        """(R, d) the data-independent x₀ of every replicate."""
        return np.full((replicates, self.d), self.start)

    def gradient_sensitivity(self, norm: Norm, batch_size: int, relation: Relation = "replace-one") -> float:
        """Sensitivity of the mean gradient of m rows: 2C/m, as one row may change from one end of the ball to the
        other; C/m if a row is added or removed and the sum is divided by the declared m all the same."""
        return (1.0 if relation == "add/remove-one" else 2.0) * self.gradient_bound(norm) / batch_size


@dataclass(frozen=True)
class Memory:
    """Bytes that a problem needs, from declared sizes alone.

    table : what the problem holds. replicate : what each replicate of a method needs beside it.
    """

    table: float
    replicate: float


@dataclass(frozen=True)
class Plane:
    """Where the replicates of a run are shown as dots. Known from settings alone: no axis reads the data.

    titles : what the two axes are. project : places (R, 2) of the outputs of R replicates.
    corners : name and place of each corner of a triangle of mixed strategies; () in a plane without bounds.
    """

    titles: tuple[str, str]
    project: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    corners: tuple[tuple[str, float, float], ...] = ()


class ProblemSpecification(Specification, ABC):
    """The settings of a problem; knows its facts without loading data, and builds the problem."""

    title: ClassVar[str] = ""

    @abstractmethod
    def facts(self) -> Facts:
        """The public facts, from settings alone; loads nothing."""

    @property
    def from_data(self) -> tuple[str, ...]:
        """Which of its facts were read from its own data, in words; `facts` says so, too."""
        declared = self.dataset.read_from_rows if isinstance(self.dataset, DataSpecification) else ()
        return (*declared, *self.read_by_itself)

    @property
    def read_by_itself(self) -> tuple[str, ...]:
        """Those of them that are settings of its own, and no declarations of its data."""
        return ()

    @property
    def unit(self) -> str:
        """The unit of protection, in words: what two data sets that must look alike differ in."""
        return "one row replaced"

    def memory(self, facts: Facts) -> Memory:
        """The memory that the problem needs, from its facts. As written here: a table of n rows and d columns, with the
        copies that are made while it is scaled."""
        return Memory(table=24.0 * facts.n * facts.d, replicate=64.0 * facts.d)

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Problem":
        """Load and clip the data. Raises UserError if an uploaded table is missing or does not fit the facts."""

    @classmethod
    def problem_type(cls) -> "type[Problem]":
        """What `build` makes, as it declares."""
        made: type[Problem] = get_type_hints(cls.build)["return"]
        return made

    @property
    def dataset(self) -> Specification | None:
        """The settings of its data, which a problem keeps in its field `data`; None for one that has no data."""
        found: Specification | None = getattr(self, "data", None)
        return found

    @property
    def public(self) -> bool:
        """Whether raw-data curves may be shown without asking (synthetic or published data)."""
        return True

    @property
    def plane(self) -> Plane | None:
        """Where the outputs of all replicates are shown; None where nothing can be seen in a plane, and for data that
        are not public: R dots would be R releases."""
        return self._plane() if self.public else None

    def _plane(self) -> Plane | None:
        """`plane`, if the data are public."""
        return None


class Problem(ABC):
    """Something to minimise, with its data. Immutable; shared by all arms of an experiment."""

    metrics: ClassVar[tuple[Metric, ...]] = ()
    # What is recorded of the internal outputs of an algorithm that has any; None: the same.
    internal_metrics: ClassVar[tuple[Metric, ...] | None] = None
    facts: Facts

    @abstractmethod
    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Diagnostics (R,) at the outputs {"x": (R, d)}: read raw data, not private.

        expensive : with the metrics that are declared expensive, if there are any.
        """

    def prepare(self) -> None:  # noqa: B027 (most problems have nothing to prepare)
        """Compute what diagnostics compare with, such as a minimum; else the first diagnostic does."""

    def correct(self, x: np.ndarray) -> np.ndarray | None:
        """Share of the rows (R,) whose class the models x (R, d) predict, a tie counting half: reads raw data, not
        private. None for a problem that predicts no classes."""
        return None

    @property
    def elsewhere(self) -> float:
        """Seconds of computing time that other processes have taken for it so far."""
        return 0.0


Diagnostics = dict[str, np.ndarray]


def evaluated_in_slices(
    evaluate: Callable[[Mapping[str, np.ndarray]], Diagnostics], output: Mapping[str, np.ndarray], seconds: float
) -> Diagnostics:
    """Evaluate some replicates after the others, where one of them takes `seconds`."""
    found = [
        evaluate({name: values[part] for name, values in output.items()})
        for part in slices(len(next(iter(output.values()))), seconds)
    ]
    return found[0] if len(found) == 1 else {name: np.concatenate([each[name] for each in found]) for name in found[0]}


class SmoothProblem(Problem):
    """An L-smooth, strongly convex F: data part, reached through Queries, plus a regulariser that needs no noise."""

    facts: SmoothFacts

    @abstractmethod
    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        """Mean of the batch's clipped per-row gradients at x (R', d), without the regulariser; (R', d)."""

    @abstractmethod
    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of the data-independent part at x; (R', d)."""


def check_facts(problem: Problem, facts: Facts) -> None:
    """Raise UserError unless the problem that was built is the one that was planned for."""
    if problem.facts != facts:
        raise UserError(
            "The data do not have the size or bounds that the plan was made for. Load the data again.",
            title="Data and plan differ",
        )


# -------------------------------------------------------------------- planes in which the replicates of a run are shown
# They are functions of what methods release, and of settings.

_TINY = float(np.finfo(float).tiny)
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])


def coordinates(one: int, other: int, titles: tuple[str, str]) -> Plane:
    """Two coordinates of the output x."""
    return Plane(titles, lambda output: output["x"][:, [one, other]])


def first_two(titles: Sequence[str]) -> Plane | None:
    """The first two coordinates, given what they are called; None where there is one only."""
    return coordinates(0, 1, (titles[0], titles[1])) if len(titles) > 1 else None


def ball(radius: float, d: int, titles: Sequence[str]) -> Plane | None:
    """The first two of the d coordinates of w = r (u₊ - u₋) in the ℓ1 ball, where the output is u = (u₊, u₋)."""
    plane = first_two(titles)
    if plane is None:
        return None

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        u = output["x"]
        return np.asarray(radius * (u[:, :2] - u[:, d : d + 2]))

    return Plane(plane.titles, project)


def triangle(names: tuple[str, str, str], whose: str) -> Plane:
    """The mixed strategies of three: weights as centres of mass of the corners. whose : weights they are."""
    titles = f"At a corner, one has all of {whose} weight", "In the middle, all three have the same"
    corners = tuple((name, x, y) for name, (x, y) in zip(names, _CORNERS.tolist(), strict=True))
    return Plane(titles, lambda output: output["x"] @ _CORNERS, corners)


def both(names: tuple[str, str]) -> Plane:
    """The mixed strategies of two players with two strategies each: the weights of the first ones, of these names."""
    x, y = names
    titles = f"Player x: weight on {x}", f"Player y: weight on {y}"
    return Plane(titles, lambda output: np.column_stack([output["x"][:, 0], output["y"][:, 0]]))


def concentration(good: slice | None, words: str, whose: str) -> Plane:
    """How much of the weight is on those strategies that are good, and how widely all of it is spread.

    good : which, if that is known without data; None: the strategy that has most. words : what the weight is on; whose
    weights they are.
    """

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        x = output["x"]
        weight = x.max(axis=1) if good is None else x[:, good].sum(axis=1)
        spread = -np.einsum("rj,rj->r", x, np.log(np.maximum(x, _TINY)))  # where x is 0, so is the product
        return np.column_stack([weight, spread])

    return Plane((f"Weight on {words}", f"Entropy of {whose} weights (0: all on one)"), project)


def shares(one: np.ndarray, other: np.ndarray, titles: tuple[str, str]) -> Plane:
    """What a histogram x over |Z| cells says of two sets of them, (|Z|,) bool each."""
    sets = np.column_stack([one, other]).astype(float)
    return Plane(titles, lambda output: output["x"] @ sets)
