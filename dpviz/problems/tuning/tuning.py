"""Tuning on private validation data: settings θ of a model are chosen by the losses of users.

A point of the box of settings is evaluated by one training of the model, which gives every user of the validation data
a loss. These users are protected. The evaluated points are public; the losses there are kept by an `Evaluations`
object, which a problem creates for each run, and which hands out nothing but Queries.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import LONGEST, checkpoint, checkpointed_slices
from dpviz.datasets.base import NO_TABLES, Dataset, DatasetFacts, DatasetSpecification
from dpviz.datasets.users import UserDataset, UserFacts
from dpviz.errors import UserError
from dpviz.privacy.releases import Query
from dpviz.problems import base
from dpviz.problems.base import Facts, Memory, Metric, Plane, Problem, ProblemSpecification
from dpviz.specification import choice, number

# -------------------------------------------------------------------------------------------- rows that belong to users


def user_count(facts: DatasetFacts) -> int:
    """Return the number of users of a table; if none are declared, every row is a user."""
    return facts.users if isinstance(facts, UserFacts) else facts.n


@dataclass(frozen=True, eq=False)
class Users:
    """The users of the rows of a table.

    n : number of users. user_of_row : (rows,) the index of each row's user; None if row i belongs to user i.
    """

    n: int
    user_of_row: np.ndarray | None = None

    def means(self, values: np.ndarray) -> np.ndarray:
        """Compute from values (P, rows, ...) their means over the rows of each user, (P, n, ...); 0 for a user without
        rows."""
        if self.user_of_row is None:
            return values
        order = np.argsort(self.user_of_row, kind="stable")  # the rows, user by user
        counts = np.bincount(self.user_of_row, minlength=self.n)
        has_rows, first_rows = counts > 0, np.cumsum(counts) - counts
        means = np.zeros((len(values), self.n, *values.shape[2:]))
        with np.errstate(over="ignore", invalid="ignore"):  # losses may be infinite or NaN
            sums = np.add.reduceat(values[:, order], first_rows[has_rows], axis=1)  # of each user's rows
            row_counts = counts[has_rows].reshape(-1, *[1] * (values.ndim - 2))  # along the users' axis
            means[:, has_rows] = sums / row_counts
        return means


@dataclass(frozen=True, eq=False)
class UserRows:
    """Features (rows, p), targets (rows,), and the users of the rows."""

    features: np.ndarray
    targets: np.ndarray
    users: Users


def load_with_users(data: DatasetSpecification, tables: Mapping[str, np.ndarray]) -> tuple[Dataset, np.ndarray]:
    """Load a data set, and return it with the index of the user of each row, (n,)."""
    data_set = data.load(tables)
    users = data_set.users if isinstance(data_set, UserDataset) else np.arange(data_set.facts.n)
    return data_set, users


def rows_of(
    features: np.ndarray, targets: np.ndarray, users: np.ndarray, selected: np.ndarray, max_rows: int | None = None
) -> UserRows:
    """Return the rows of some users, ordered by user; the users get new numbers, in the order of `selected`.

    features : (rows, p). targets : (rows,). users : (rows,) the user of each row. selected : (k,) different users.
    max_rows : largest number of rows of a user that are returned, evenly spaced among the user's rows; None for all.
    """
    last_user = max(int(users.max(initial=0)), int(selected.max(initial=0)))  # a selected user may have no rows
    new_numbers = np.full(last_user + 1, -1)  # -1: is not selected
    new_numbers[selected] = np.arange(len(selected))
    new_users = new_numbers[users]
    n_omitted = np.count_nonzero(new_users < 0)
    order = np.argsort(new_users, kind="stable")[n_omitted:]  # the rows of selected users, user by user
    if max_rows is not None:
        # Of the rows j = 0 to c - 1 of a user, k = min(max_rows, c) are kept: those where ⌊j k/c⌋ has a new value.
        counts = np.bincount(new_users[order], minlength=len(selected))
        j = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        c = np.repeat(counts, counts)
        k = np.minimum(max_rows, c)
        order = order[j * k // c > (j - 1) * k // c]  # always with j = 0, where the second number is -1
    has_one_each = np.array_equal(new_users[order], np.arange(len(selected)))
    return UserRows(features[order], targets[order], Users(len(selected), None if has_one_each else new_users[order]))


# ---------------------------------------------------------------------------------------------------------- the problem

OBSERVATIONS = {
    "own": "Independent for every user, as published",
    "shared": "One draw for all users, as of one noisy model",
}
BLOCK = 400_000  # numbers of users' gradients that are processed together
LOSSES = 4_000_000  # largest number of losses in memory where only their means are needed
PARTS = 20  # number of parts in which many points are evaluated, so that progress can be shown
TOGETHER = 8  # points in a part at least, if memory allows: few points are in fewer parts


@dataclass(frozen=True)
class TuningFacts(Facts):
    """Facts of a function F(θ), the mean of the losses of n users, over a box of points θ.

    n : number of users who are protected. d : number of tuned settings, which are the coordinates of a point θ.
    low, high : (d,) the lower and upper ends of the box Θ, in coordinates. names : (d,) of the settings.
    logarithmic : (d,) True for a coordinate that is the natural logarithm of its setting.
    loss_cap : M; methods that release losses clip every user's loss to [0, M].
    training_seconds : declared cost of one training with the losses of all users.
    gradient_seconds : declared cost of the users' gradients in addition; 0 if gradients are unknown.
    start : (d,) the start of every run; () if each replicate draws a point from the box.
    observation_sd : standard deviation σ of the noise in every evaluation. shared : True if all users share one draw of
        it, False if each user has its own.
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
        """Titles of the d coordinates, for axes of figures."""
        return tuple(f"ln({name})" if log else name for name, log in zip(self.names, self.logarithmic, strict=True))

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the box, (d,) each."""
        return np.array(self.low), np.array(self.high)

    def starting_points(self, generators: Sequence[np.random.Generator]) -> np.ndarray:
        """Return the starting points (R, d) of R replicates: the declared one for all, or a draw from the box by each
        replicate's generator."""
        low, high = self.box
        if self.start:
            return np.tile(np.array(self.start), (len(generators), 1))
        return np.array([generator.uniform(low, high) for generator in generators])

    def settings_at(self, points: np.ndarray) -> np.ndarray:
        """Return the settings (..., d) at points (..., d) of the box, with logarithms undone."""
        with np.errstate(over="ignore"):
            return np.where(self.logarithmic, np.exp(points), points)

    def gradient_sensitivity(self, clip: float) -> float:
        """Return the sensitivity 2B/n, in ℓ2, of the mean of the users' gradients, each clipped to length B =
        `clip`."""
        return 2 * clip / self.n

    @property
    def loss_sensitivity(self) -> float:
        """Sensitivity M/n of the mean of the users' losses, each clipped to [0, M]."""
        return self.loss_cap / self.n


def loss_cap_field(default: float) -> Any:
    """Declare the field M, the largest loss of a user that counts."""
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
    """The settings of a function F(θ) = (1/n) Σ fᵢ(θ), where fᵢ(θ) is the loss of user i of the validation data for the
    model that was trained with the settings θ."""

    loss_cap: float = loss_cap_field(4.0)
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
        117,  # with the three other settings of a kernel machine at most 120 parameters
        label="Most features",
        help="Of a table with more, so many are drawn at random: the number of parameters is what tuning pays for.",
    )

    @model_validator(mode="after")
    def _protects_users(self) -> Self:
        """Raise UserError for a table that names the person of each row, but no users: here a person must be a user."""
        if self.person is not None:
            raise UserError(
                "It takes the mean over the rows of each, so that all of them are protected: in the library "
                "dpviz.table(…, user=…).",
                title="Tuning needs people as users",
            )
        return self

    @property
    def used_features(self) -> np.ndarray:
        """Indices of the features in use, ascending: all of the data, or `most_features` of them, always the same."""
        d = self.data.facts().d
        if d <= self.most_features:
            return np.arange(d)
        return np.sort(np.random.default_rng(0).permutation(d)[: self.most_features])

    @property
    def unit(self) -> str:
        return "one user of the validation data replaced"

    @property
    def not_protected(self) -> str:
        """Sentences for the page on the persons who are not protected; "" if all are."""
        return (
            "The training data are not protected: the models depend on them, and so does what is released. "
            "Nor is a user who is in both."
        )

    def _plane(self) -> Plane | None:
        return base.first_two_plane(self.facts().axes)

    @abstractmethod
    def facts(self) -> TuningFacts:
        """Return the public facts, from settings alone; loads nothing."""

    def _facts(self, n: int, names: tuple[str, ...], **further: Any) -> TuningFacts:
        """Return the facts for n users and tuned settings of these names: those that all tuning problems have in
        common, and the `further` ones."""
        return TuningFacts(
            n=n,
            d=len(names),
            released=self.released,
            from_data=self.from_data,
            names=names,
            loss_cap=self.loss_cap,
            observation_sd=self.observation_sd,
            shared=self.observation == "shared",
            **further,
        )

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "TuningProblem":
        """Load the data, and return the problem; it trains models when losses are needed."""

    def memory(self, facts: Facts) -> Memory:
        # The gradients of all users at one point. All factors are measured.
        gradients = 16.0 * facts.n * facts.d if TuningFacts.of(facts).has_gradients else 0.0
        return Memory(table=14.0 * facts.n * facts.d + gradients, replicate=16.0 * facts.n)


class TuningProblem(Problem):
    """The losses of users at points θ of a box of settings; the losses at one point take one training."""

    # Metrics of the gradient that the last step used, at the iterate before the step.
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
        """Compute the users' losses (P, n), not capped, at points (P, d) of the box: one training for each point."""

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute the gradients of the users' losses (P, n, d), not clipped, at points (P, d), if they are known."""
        raise TypeError("the gradients of this problem are not known")

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute the users' losses (P, n), not capped, at points (P, d), in slices of points; not private."""
        losses = np.empty((len(points), self.facts.n))
        for part in checkpointed_slices(len(points), self.facts.training_seconds):
            losses[part] = self._losses(points[part])
        return losses

    def evaluations(self, replicates: int, window: int | None = None) -> "Evaluations":
        """Return an object that evaluates points for a run with R replicates, and keeps the losses there.

        window : number of the most recent points that are kept for each replicate; None for all.
        """
        return Evaluations(self, replicates, window)

    # ------------------------------------------------------------------------------------------------------ diagnostics

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute diagnostics (R,): the objective of an output {"x": (R, d)}, or those of the gradient of an internal
        output.

        An internal output also has "gradient" (R, d), the mean clipped gradient at x before noise, and "clipped" (R,),
        the share of users whose gradient was clipped.
        """
        if "gradient" not in output:
            return {"objective": self._mean_losses(output["x"]), **self._reference_diagnostics(output["x"])}
        diagnostics = {
            "gradient_norm": np.linalg.norm(output["gradient"], axis=1),
            "clipped_share": np.array(output["clipped"], dtype=float),
        }
        if expensive and self.facts.has_gradients:
            exact_gradient = self._mean_gradients(output["x"])
            diagnostics["gradient_error"] = np.linalg.norm(output["gradient"] - exact_gradient, axis=1)
            diagnostics["exact_gradient_norm"] = np.linalg.norm(exact_gradient, axis=1)
        return diagnostics

    def _reference_diagnostics(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Compute further diagnostics (P,) of points (P, d), if the problem has a reference to compare them with."""
        return {}

    def _mean_losses(self, points: np.ndarray) -> np.ndarray:
        """Compute F (P,) at points (P, d), which may be many, such as those of a map over two settings.

        A loss that is not finite counts as the cap; the others are not capped. Points are evaluated in blocks, so that
        memory holds at most LOSSES losses.
        """
        objective, size = np.empty(len(points)), max(1, LOSSES // self.facts.n)
        for start in range(0, len(points), size):
            losses = self.losses(points[start : start + size])
            objective[start : start + size] = replace_nonfinite(losses, self.facts.loss_cap).mean(axis=1)
        return objective

    def _mean_gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute ∇F (P, d) at points (P, d), without clipping; entries that are not finite count as 0."""
        gradients = np.empty(points.shape)
        for part in gradient_slices(len(points), self.facts):
            gradients[part] = replace_nonfinite(self._gradients(points[part]), 0.0).mean(axis=1)
        return gradients


class GradientProblem(TuningProblem):
    """A tuning problem in which the gradients of the users' losses are known, too."""

    internal_metrics: ClassVar[tuple[Metric, ...]] = (
        *TuningProblem.internal_metrics,
        Metric("gradient_error", "Error of the mean clipped gradient", scale="log", cost="expensive"),
        Metric("exact_gradient_norm", "Norm of the exact mean gradient", scale="log", cost="expensive", better=""),
    )

    @abstractmethod
    def _gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute the gradients of the users' losses (P, n, d), not clipped, at points (P, d)."""


class Evaluations:
    """The points that the R replicates of a run have evaluated, which are public, and the losses there, which are not.

    facts : of the problem. count : (R,) number of trainings so far; public.
    points : for each replicate r the points (N_r, d) that are kept, the oldest first.
    clipped_share : (R,) share of the users whose gradient was clipped in the latest query; a diagnostic.
    """

    def __init__(self, problem: TuningProblem, replicates: int, window: int | None = None) -> None:
        facts = problem.facts
        self._problem, self.facts, self._window = problem, facts, window
        self.count = np.zeros(replicates, dtype=np.int64)
        # All replicates begin with the same objects, which are replaced and never changed.
        self.points = [np.empty((0, facts.d))] * replicates
        self._losses = [np.empty((0, facts.n))] * replicates
        self.clipped_share = np.zeros(replicates)
        seeds = ((problem._observation_seed, r) for r in range(replicates))
        self._noise_generators = [np.random.default_rng(seed) for seed in seeds]

    # --------------------------------------------------------------------------------------------------------- requests

    def add(self, points: Sequence[np.ndarray]) -> None:
        """Evaluate further points (b_r, d) for each replicate r, and keep them and their losses; b_r may be 0."""
        observed = self._observe(points)
        for r, (new, losses) in enumerate(zip(points, observed, strict=True)):
            if len(new):
                self.points[r] = self._latest(np.concatenate([self.points[r], new]))
                self._losses[r] = self._latest(np.concatenate([self._losses[r], losses]))

    def gradient(self, weights: Sequence[np.ndarray], clip: float) -> Query:
        """Return the query of the mean (R, d) of estimated gradients of the users' losses, each clipped to length
        `clip`, in ℓ2.

        A user's estimate is the weighted sum of the user's losses at the N_r kept points.
        weights : for each replicate r its weights (N_r, d), one row for each kept point. They must not depend on
            losses. Further rows, such as the padding of an array (R, N, d), do not count.
        """
        totals = np.zeros((len(self.count), self.facts.d))
        for r, (losses, padded_weights) in enumerate(zip(self._losses, weights, strict=True)):
            # Contiguous, so that the product below cannot depend on the padding, not in its last bit.
            point_weights, n_clipped = np.ascontiguousarray(padded_weights[: len(losses)]), 0
            for users in self._blocks():
                checkpoint()
                with np.errstate(over="ignore", invalid="ignore"):
                    user_gradients = losses[:, users].T @ point_weights
                total, n_long = clipped_sum(user_gradients, clip)
                totals[r] += total
                n_clipped += n_long
            self.clipped_share[r] = n_clipped / self.facts.n
        return self._gradient_query(totals, clip)

    def exact_gradient(self, x: np.ndarray, clip: float) -> Query:
        """Return the query of the mean (R, d) of the users' true gradients at x (R, d), each clipped to length `clip`,
        in ℓ2, for methods that may use them.

        It takes one training for each replicate. No losses are kept.
        """
        totals = np.zeros((len(x), self.facts.d))
        for part in gradient_slices(len(x), self.facts):
            for r, user_gradients in enumerate(self._problem._gradients(x[part]), start=part.start):
                totals[r], n_clipped = clipped_sum(user_gradients, clip)
                self.clipped_share[r] = n_clipped / self.facts.n
        self.count += 1
        return self._gradient_query(totals, clip)

    def utilities(self, points: np.ndarray) -> Query:
        """Return the query of minus the mean loss (R, k) at points (R, k, d), to choose one of the k points by the
        exponential mechanism; each user's loss is clipped to [0, M]. No losses are kept.

        A replaced user moves each mean by at most M/n up or down, so the largest change exceeds the smallest by 2M/n.
        """
        return Query(-self._means(points), 2 * self.facts.loss_sensitivity, "range")

    def mean_loss(self, points: np.ndarray) -> Query:
        """Return the query of the mean loss (R, 1) at one point per replicate, (R, d), in ℓ2; each user's loss is
        clipped to [0, M]. No losses are kept."""
        return Query(self._means(points[:, None]), self.facts.loss_sensitivity, "l2")

    # ----------------------------------------------------------------------------------------------------- computation

    def _gradient_query(self, totals: np.ndarray, clip: float) -> Query:
        """Return the query of the mean gradients, from the sums (R, d) of the users' clipped gradients."""
        return Query(totals / self.facts.n, self.facts.gradient_sensitivity(clip), "l2")

    def _means(self, points: np.ndarray) -> np.ndarray:
        """Compute the means (R, k) of the users' losses, each clipped to [0, M], at points (R, k, d).

        They are computed in parts of the k points. After each the run may be stopped, and `count` has grown.
        """
        means, n_points = np.empty(points.shape[:2]), points.shape[1]
        size = points_at_once(len(points), n_points, self.facts.n)
        for start in range(0, n_points, size):
            checkpoint()
            part = slice(start, min(start + size, n_points))
            observed = self._observe(list(points[:, part]))
            means[:, part] = [np.clip(losses, 0.0, self.facts.loss_cap).mean(axis=1) for losses in observed]
        return means

    def _observe(self, points: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Evaluate the points (b_r, d) of each replicate r, and return for each the users' losses (b_r, n) with
        observation noise. A loss that is not finite is replaced by the cap.
        """
        sizes = [len(new) for new in points]
        losses = np.split(self._problem.losses(np.concatenate(points)), np.cumsum(sizes)[:-1])
        self.count += sizes
        sigma = self.facts.observation_sd
        if sigma > 0:
            n_draws = 1 if self.facts.shared else self.facts.n
            pairs = zip(losses, self._noise_generators, strict=True)
            losses = [part + sigma * generator.standard_normal((len(part), n_draws)) for part, generator in pairs]
        return [replace_nonfinite(part, self.facts.loss_cap) for part in losses]

    def _latest(self, rows: np.ndarray) -> np.ndarray:
        """Return the last rows, as many as points are kept."""
        return rows if self._window is None else rows[-self._window :]

    def _blocks(self) -> Iterator[slice]:
        """Yield the n users in slices for which the gradients have about BLOCK numbers."""
        size = max(1, BLOCK // self.facts.d)
        return (slice(start, min(start + size, self.facts.n)) for start in range(0, self.facts.n, size))


def points_at_once(replicates: int, n_points: int, n: int) -> int:
    """Return the number of points of each replicate that are evaluated together, out of `n_points`: a part of them, so
    that progress can be shown, with at most LOSSES losses of n users for all replicates."""
    for_memory, for_progress = LOSSES // (replicates * n), max(TOGETHER, math.ceil(n_points / PARTS))
    return max(1, min(for_memory, for_progress, n_points))


def gradient_slices(count: int, facts: TuningFacts) -> Iterator[slice]:
    """Yield 0..count in slices of points for which the users' gradients (P, n, d) are computed together: as many as
    take at most LONGEST seconds, and have at most LOSSES numbers."""
    # `checkpointed_slices` puts LONGEST seconds into a slice: at this cost of a point, LOSSES numbers.
    seconds_for_memory = LONGEST * facts.n * facts.d / LOSSES
    return checkpointed_slices(count, max(facts.training_seconds + facts.gradient_seconds, seconds_for_memory))


def replace_nonfinite(values: np.ndarray, instead: float) -> np.ndarray:
    """Return the values, with those that are NaN or infinite replaced by `instead`."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if np.isfinite(total):  # the usual case: then all values are finite
        return values
    return np.where(np.isfinite(values), values, instead)


def clipped_sum(rows: np.ndarray, clip: float) -> tuple[np.ndarray, int]:
    """Compute the sum (d,) of rows (n, d), of which those longer than `clip` are shortened to that length, and the
    number of shortened rows.

    Rows with an entry that is not finite are left out.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    unusual = np.flatnonzero(~np.isfinite(lengths))
    if unusual.size:
        # An entry of these rows is not finite, or its square is not. Only their lengths are computed in another way, so
        # that the other rows add the same, to the last bit.
        rows = rows.copy()
        rows[unusual] = np.where(np.isfinite(rows[unusual]).all(axis=1)[:, None], rows[unusual], 0.0)
        largest = np.maximum(np.abs(rows[unusual]).max(axis=1), 1e-300)  # a row that is left out is 0 now
        with np.errstate(over="ignore"):
            lengths[unusual] = largest * np.linalg.norm(rows[unusual] / largest[:, None], axis=1)
    is_long = lengths > clip
    factors = np.ones(len(rows))
    factors[is_long] = clip / lengths[is_long]
    return np.asarray(factors @ rows), int(np.count_nonzero(is_long))
