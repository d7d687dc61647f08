"""Tuning on private validation data: every user has a loss at every setting, which takes one training of a model.

The protected persons are the users of the validation data. The evaluated points are public; the losses there are kept
by `Evaluations`, which a problem creates for a run and which release nothing but Queries.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.checkpoints import LONGEST, checkpoint, slices
from dpviz.datasets.base import NO_TABLES, Dataset, DatasetFacts, DatasetSpecification
from dpviz.datasets.users import UserDataset, UserFacts
from dpviz.privacy.releases import Query
from dpviz.problems import base
from dpviz.problems.base import Facts, Memory, Metric, Plane, Problem, ProblemSpecification
from dpviz.specification import choice, number

# -------------------------------------------------------------------------------------------- rows that belong to users


def user_count(facts: DatasetFacts) -> int:
    """Return the number of users of a table; without declared users every row is one."""
    return facts.users if isinstance(facts, UserFacts) else facts.n


def chosen_features(p: int, max_features: int) -> np.ndarray:
    """Return the indices of the features in use: all p, or `max_features` of them, the same at every call."""
    if p <= max_features:
        return np.arange(p)
    return np.sort(np.random.default_rng(0).permutation(p)[:max_features])


@dataclass(frozen=True, eq=False)
class Users:
    """n users and their rows.

    n : number of users. places : (rows,) the user of each row, by index; None: row i is user i's.
    """

    n: int
    places: np.ndarray | None = None

    def means(self, values: np.ndarray) -> np.ndarray:
        """Compute (P, n, ...) the means over each user's rows of values (P, rows, ...); 0 for a user without rows."""
        if self.places is None:
            return values
        order, counts = np.argsort(self.places, kind="stable"), np.bincount(self.places, minlength=self.n)
        has_rows = counts > 0
        means = np.zeros((len(values), self.n, *values.shape[2:]))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.add.reduceat(values[:, order], (np.cumsum(counts) - counts)[has_rows], axis=1)
            means[:, has_rows] = sums / counts[has_rows].reshape(-1, *[1] * (values.ndim - 2))
        return means


@dataclass(frozen=True, eq=False)
class Rows:
    """Features (rows, p), targets (rows,), and the users of the rows."""

    features: np.ndarray
    targets: np.ndarray
    users: Users


def loaded(data: DatasetSpecification, tables: Mapping[str, np.ndarray]) -> tuple[Dataset, np.ndarray]:
    """Load a data set; return it with the user of each of its rows (n,)."""
    data_set = data.load(tables)
    return data_set, data_set.users if isinstance(data_set, UserDataset) else np.arange(data_set.facts.n)


def rows_of(
    features: np.ndarray, targets: np.ndarray, users: np.ndarray, chosen: np.ndarray, max_rows: int | None = None
) -> Rows:
    """Return the rows of the chosen users, who are numbered in the order of `chosen`.

    features (rows, p), targets (rows,), users (rows,) the user of each row, chosen (k,) different users. max_rows :
    largest number of a user's rows that count, evenly spaced; None: all.
    """
    numbers = np.full(max(int(users.max(initial=0)), int(chosen.max(initial=0))) + 1, -1)
    numbers[chosen] = np.arange(len(chosen))
    new_users = numbers[users]
    order = np.argsort(new_users, kind="stable")[np.count_nonzero(new_users < 0) :]
    if max_rows is not None:
        counts = np.bincount(new_users[order], minlength=len(chosen))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        counts_by_row = np.repeat(counts, counts)
        step = np.minimum(max_rows, counts_by_row)  # row j is kept where ⌊j k/c⌋ takes a new value, k of c times
        order = order[(rank == 0) | (rank * step // counts_by_row > (rank - 1) * step // counts_by_row)]
    has_one_each = np.array_equal(new_users[order], np.arange(len(chosen)))
    return Rows(features[order], targets[order], Users(len(chosen), None if has_one_each else new_users[order]))


# ---------------------------------------------------------------------------------------------------------- the problem

OBSERVATIONS = {
    "own": "Independent for every user, as published",
    "shared": "One draw for all users, as of one noisy model",
}
BLOCK = 400_000  # numbers of users' gradients that are processed together
LOSSES = 4_000_000  # largest number of losses in memory where only their means are needed
PARTS, TOGETHER = 20, 8  # number of parts of many points, for progress; points that are evaluated together at least


@dataclass(frozen=True)
class TuningFacts(Facts):
    """Facts of a mean of n users' losses over a box.

    n : users who are protected; d : number of tuned settings, in the coordinates of the box (logarithms of scales).
    low, high : (d,) the box Θ. names : (d,) of the settings. logarithmic : (d,) whether a coordinate is the natural
        logarithm of its setting.
    loss_cap : M; methods that release losses count a user's loss as one in [0, M].
    training_seconds : declared, of one training with the losses of all users.
    gradient_seconds : in addition, of the users' gradients; 0 where gradients are unknown.
    start : (d,) the start of every run; () for a point that each replicate draws from the box.
    observation_sd : standard deviation σ of the noise in every evaluation; shared : whether all users share one draw.
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    logarithmic: tuple[bool, ...] = ()
    loss_cap: float = 4.0
    training_seconds: float = 0.0
    gradient_seconds: float = 0.0
    start: tuple[float, ...] = ()
    observation_sd: float = 0.0
    shared: bool = False

    @property
    def has_gradients(self) -> bool:
        """True if the users' gradients are known, for methods that may use them."""
        return self.gradient_seconds > 0

    @property
    def axes(self) -> tuple[str, ...]:
        """(d,) titles of the coordinates."""
        return tuple(f"ln({name})" if log else name for name, log in zip(self.names, self.logarithmic, strict=True))

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) lower and upper ends."""
        return np.array(self.low), np.array(self.high)

    def starting_points(self, generators: Sequence[np.random.Generator]) -> np.ndarray:
        """Return (R, d) the replicates' starting points: the declared one, or draws from the box."""
        low, high = self.box
        if self.start:
            return np.tile(np.array(self.start), (len(generators), 1))
        return np.array([generator.uniform(low, high) for generator in generators])

    def natural(self, points: np.ndarray) -> np.ndarray:
        """Return (..., d) the settings at points of the box."""
        with np.errstate(over="ignore"):
            return np.where(self.logarithmic, np.exp(points), points)

    def gradient_sensitivity(self, clip: float) -> float:
        """Return 2B/n, of the mean of the users' gradients, each clipped to length B."""
        return 2 * clip / self.n

    @property
    def loss_sensitivity(self) -> float:
        """M/n, of the mean of the users' losses."""
        return self.loss_cap / self.n


def loss_cap(default: float) -> Any:
    """Declare the field M."""
    return number(
        default,
        0.1,
        1000.0,
        label="Loss cap",
        symbol="M",
        scale="log",
        help="For methods that release losses: a user's loss counts as M at most. Declare it without looking.",
    )


class TuningSpecification(ProblemSpecification):
    """F(θ) = (1/n) Σ fᵢ(θ), fᵢ the loss of user i of the validation data for the model that was trained with θ."""

    loss_cap: float = loss_cap(4.0)
    observation_sd: float = number(
        0.0,
        0.0,
        10.0,
        label="Observation noise",
        symbol="σ",
        help="Standard deviation of the noise in every evaluation, such as that of a training that is itself private. "
        "It buys no privacy for the validation users.",
    )
    observation: Literal["own", "shared"] = choice(
        "own", OBSERVATIONS, label="Observation noise is", help="What all users share does not average out over them."
    )
    observation_seed: int = number(0, 0, 2**31 - 1, label="Seed of it", help="Another seed, other observation noise.")
    data: DatasetSpecification
    most_features: int = number(
        100,
        1,
        117,
        label="Most features",
        help="Of a table with more, so many are drawn at random: the number of parameters is what tuning pays for.",
    )

    @property
    def public(self) -> bool:
        return self.data.public

    @property
    def chosen(self) -> np.ndarray:
        """Indices of the features in use."""
        return chosen_features(self.data.facts().d, self.most_features)

    @property
    def unit(self) -> str:
        return "one user of the validation data replaced"

    @property
    def not_protected(self) -> str:
        """A sentence on the persons who are not protected; "" if there are none."""
        return (
            "The training data are not protected: the models depend on them, and so does what is released. "
            "Nor is a user who is in both."
        )

    def _plane(self) -> Plane | None:
        return base.first_two(self.facts().axes)

    @abstractmethod
    def facts(self) -> TuningFacts:
        """Return the public facts, from settings alone; loads nothing."""

    def _facts(self, n: int, names: tuple[str, ...], **further: Any) -> TuningFacts:
        """Return the facts of n users and the settings of these names, with the fields common to all tuning
        problems."""
        return TuningFacts(
            n=n,
            d=len(names),
            from_data=self.from_data,
            names=names,
            loss_cap=self.loss_cap,
            observation_sd=self.observation_sd,
            shared=self.observation == "shared",
            **further,
        )

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "TuningProblem":
        """Load the data; trainings are done when losses are needed."""

    def memory(self, facts: Facts) -> Memory:
        gradients = 16.0 * facts.n * facts.d if TuningFacts.of(facts).has_gradients else 0.0  # of one point
        return Memory(table=14.0 * facts.n * facts.d + gradients, replicate=16.0 * facts.n)


class TuningProblem(Problem):
    """Users' losses at settings of a box; a setting takes one training."""

    # Metrics of the gradient of the last step, at the iterate before the step.
    internal_metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("gradient_norm", "Norm of the mean clipped gradient", scale="log", better=""),
        Metric("clipped_share", "Share of the users' gradients that are clipped", headline=2),
    )
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("objective", "Validation loss F(θ_t)", headline=1),)
    facts: TuningFacts

    def __init__(self, facts: TuningFacts, observation_seed: int = 0) -> None:
        self.facts, self._observation_seed = facts, observation_seed

    @abstractmethod
    def _losses(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, n) the users' losses, not capped, at points (P, d) of the box: one training each."""

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, n, d) the gradients of the users' losses, not clipped, at points (P, d), where they are known."""
        raise TypeError("the gradients of this problem are not known")

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, n) the users' losses, not capped, in slices of points; not private."""
        losses = np.empty((len(points), self.facts.n))
        for part in slices(len(points), self.facts.training_seconds):
            losses[part] = self._losses(points[part])
        return losses

    def evaluations(self, replicates: int, window: int | None = None) -> "Evaluations":
        """Return the evaluations of a run with R replicates. window : the most recent points that each keeps; None:
        all."""
        return Evaluations(self, replicates, window)

    # ------------------------------------------------------------------------------------------------------ diagnostics

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute diagnostics: of an output {"x": (R, d)} the objective, of an internal output those of the gradient.

        An internal output has also "gradient" (R, d), the mean clipped gradient at x before noise, and "clipped" (R,),
        the share of users whose gradient was clipped.
        """
        if "gradient" not in output:
            return {"objective": self._mean_losses(output["x"]), **self._compared(output["x"])}
        diagnostics = {
            "gradient_norm": np.linalg.norm(output["gradient"], axis=1),
            "clipped_share": np.array(output["clipped"], dtype=float),
        }
        if expensive and self.facts.has_gradients:
            exact = self._mean_gradients(output["x"])
            diagnostics["gradient_error"] = np.linalg.norm(output["gradient"] - exact, axis=1)
            diagnostics["exact_gradient_norm"] = np.linalg.norm(exact, axis=1)
        return diagnostics

    def _compared(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Compute further diagnostics (P,) of points (P, d), where there is a reference to compare with."""
        return {}

    def _mean_losses(self, points: np.ndarray) -> np.ndarray:
        """Compute (P,) F, in slices of points, which may be many, as those of a map over two settings.

        A loss that is not finite counts as the cap; the others are not capped.
        """
        objective, size = np.empty(len(points)), max(1, LOSSES // self.facts.n)
        for start in range(0, len(points), size):
            losses = self.losses(points[start : start + size])
            objective[start : start + size] = finite(losses, self.facts.loss_cap).mean(axis=1)
        return objective

    def _mean_gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, d) ∇F, without clipping."""
        gradients = np.empty(points.shape)
        for part in gradient_slices(len(points), self.facts):
            gradients[part] = finite(self._gradients(points[part]), 0.0).mean(axis=1)
        return gradients


class GradientProblem(TuningProblem):
    """A problem whose users' gradients are known."""

    internal_metrics: ClassVar[tuple[Metric, ...]] = (
        *TuningProblem.internal_metrics,
        Metric("gradient_error", "Error of the mean clipped gradient", scale="log", cost="expensive"),
        Metric("exact_gradient_norm", "Norm of the exact mean gradient", scale="log", cost="expensive", better=""),
    )

    @abstractmethod
    def _gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, n, d) the gradients of the users' losses, not clipped, at points (P, d)."""


class Evaluations:
    """The points that the R replicates of a run have evaluated, which are public, and the losses there, which are not.

    facts : of the problem. count : (R,) trainings so far; public. points : for each replicate the (N_r, d) points that
        are kept, the oldest first.
    clipped_share : (R,) share of the users whose gradient was clipped in the latest query; a diagnostic.
    """

    def __init__(self, problem: TuningProblem, replicates: int, window: int | None = None) -> None:
        facts = problem.facts
        self._problem, self.facts, self._window = problem, facts, window
        self.count = np.zeros(replicates, dtype=np.int64)
        self.points = [np.empty((0, facts.d))] * replicates
        self._losses = [np.empty((0, facts.n))] * replicates
        self.clipped_share = np.zeros(replicates)
        seeds = ((problem._observation_seed, r) for r in range(replicates))
        self._noise = [np.random.default_rng(seed) for seed in seeds]

    # --------------------------------------------------------------------------------------------------------- requests

    def add(self, points: Sequence[np.ndarray]) -> None:
        """Evaluate (b_r, d) further points for each replicate; b_r may be 0."""
        observed = self._observed(points)
        for r, (new, losses) in enumerate(zip(points, observed, strict=True)):
            if len(new):
                self.points[r] = self._latest(np.concatenate([self.points[r], new]))
                self._losses[r] = self._latest(np.concatenate([self._losses[r], losses]))

    def gradient(self, weights: Sequence[np.ndarray], clip: float) -> Query:
        """Return the mean of the users' gradients Yᵀ W, each clipped to length `clip`; (R, d), "l2". W must not depend
        on losses.

        weights : for each replicate (N_r, d), one row per kept point; further rows, such as the padding of an array (R,
            N, d), do not count.
        """
        value = np.zeros((len(self.count), self.facts.d))
        for r, (losses, padded_weights) in enumerate(zip(self._losses, weights, strict=True)):
            w, n_clipped = np.ascontiguousarray(padded_weights[: len(losses)]), 0
            for users in self._blocks():
                checkpoint()
                with np.errstate(over="ignore", invalid="ignore"):
                    rows = losses[:, users].T @ w
                total, count = clipped_sum(rows, clip)
                value[r] += total
                n_clipped += count
            self.clipped_share[r] = n_clipped / self.facts.n
        return self._gradient_query(value, clip)

    def exact_gradient(self, x: np.ndarray, clip: float) -> Query:
        """Return the mean of the users' true gradients at x (R, d), each clipped to length `clip`, for methods that may
        use them.

        It takes a training; nothing is kept.
        """
        value = np.zeros((len(x), self.facts.d))
        for part in gradient_slices(len(x), self.facts):
            for r, rows in enumerate(self._problem._gradients(x[part]), part.start):
                value[r], n_clipped = clipped_sum(rows, clip)
                self.clipped_share[r] = n_clipped / self.facts.n
        self.count += 1
        return self._gradient_query(value, clip)

    def utilities(self, points: np.ndarray) -> Query:
        """Return minus the users' mean losses, each in [0, M], at points (R, k, d); (R, k), "range". Nothing is
        kept."""
        return Query(-self._means(points), 2 * self.facts.loss_sensitivity, "range")

    def mean_loss(self, points: np.ndarray) -> Query:
        """Return the users' mean loss, each in [0, M], at one point (R, d) per replicate; (R, 1), "l2". Nothing is
        kept."""
        return Query(self._means(points[:, None]), self.facts.loss_sensitivity, "l2")

    # ----------------------------------------------------------------------------------------------------- computation

    def _gradient_query(self, total: np.ndarray, clip: float) -> Query:
        return Query(total / self.facts.n, self.facts.gradient_sensitivity(clip), "l2")

    def _means(self, points: np.ndarray) -> np.ndarray:
        """Compute (R, k) means over the users at points (R, k, d), in parts of the k points: `count` shows the
        progress."""
        means, n_points = np.empty(points.shape[:2]), points.shape[1]
        size = at_a_time(len(points), n_points, self.facts.n)
        for start in range(0, n_points, size):
            checkpoint()
            part = slice(start, min(start + size, n_points))
            observed = self._observed(list(points[:, part]))
            means[:, part] = [np.clip(losses, 0.0, self.facts.loss_cap).mean(axis=1) for losses in observed]
        return means

    def _observed(self, points: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return for each replicate (b_r, n) losses with observation noise; those that are not finite are at the
        cap."""
        sizes = [len(new) for new in points]
        losses = np.split(self._problem.losses(np.concatenate(points)), np.cumsum(sizes)[:-1])
        self.count += sizes
        sigma, users = self.facts.observation_sd, 1 if self.facts.shared else self.facts.n
        if sigma > 0:
            pairs = zip(losses, self._noise, strict=True)
            losses = [part + sigma * noise.standard_normal((len(part), users)) for part, noise in pairs]
        return [finite(part, self.facts.loss_cap) for part in losses]

    def _latest(self, rows: np.ndarray) -> np.ndarray:
        return rows if self._window is None else rows[-self._window :]

    def _blocks(self) -> Iterator[slice]:
        size = max(1, BLOCK // self.facts.d)
        return (slice(start, min(start + size, self.facts.n)) for start in range(0, self.facts.n, size))


def at_a_time(replicates: int, n_points: int, n: int) -> int:
    """Return the number of points that are evaluated together, out of `n_points`, for all replicates."""
    return max(1, min(LOSSES // (replicates * n), max(TOGETHER, math.ceil(n_points / PARTS)), n_points))


def gradient_slices(count: int, facts: TuningFacts) -> Iterator[slice]:
    """Yield 0..count in slices of points whose users' gradients (P, n, d) are computed together, bounded in time and
    memory."""
    seconds = facts.training_seconds + facts.gradient_seconds
    return slices(count, max(seconds, LONGEST * facts.n * facts.d / LOSSES))


def finite(values: np.ndarray, instead: float) -> np.ndarray:
    """Return the values, with `instead` in place of those that are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if np.isfinite(total):  # the usual case: no value is NaN or infinite
        return values
    return np.where(np.isfinite(values), values, instead)


def clipped_sum(rows: np.ndarray, clip: float) -> tuple[np.ndarray, int]:
    """Compute (d,) the sum of rows (n, d), each shortened to length `clip`, and the number of rows that were shortened.

    Rows with an entry that is not finite are left out.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    odd = np.flatnonzero(~np.isfinite(lengths))
    if odd.size:
        # The square overflows, or an entry is not finite. The other rows add the same as ever, to the last bit.
        rows = rows.copy()
        rows[odd] = np.where(np.isfinite(rows[odd]).all(axis=1)[:, None], rows[odd], 0.0)
        largest = np.maximum(np.abs(rows[odd]).max(axis=1), 1e-300)
        with np.errstate(over="ignore"):
            lengths[odd] = largest * np.linalg.norm(rows[odd] / largest[:, None], axis=1)
    is_long = lengths > clip
    factors = np.ones(len(rows))
    factors[is_long] = clip / lengths[is_long]
    return np.asarray(factors @ rows), int(np.count_nonzero(is_long))
