"""Tuning problems: hyper-parameters of kernel models, tuned on the losses of validation users; and losses that are
functions of θ without any training, where all users are protected."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize

from dpviz.checkpoints import checkpoint
from dpviz.datasets.base import NO_TABLES, DatasetSpecification
from dpviz.datasets.synthetic import DRAWN, FactorDraws, NormalDraws, ProcessDraws, RegressionDraws
from dpviz.problems import base
from dpviz.problems.base import Facts, Memory, Metric, Plane
from dpviz.problems.model import LinearScore, to_target, unscaled
from dpviz.problems.tuning.trainers import LEARNERS, Learner, ProcessLearner, Trainers, training_seconds
from dpviz.problems.tuning.tuning import (
    GradientProblem,
    TuningFacts,
    TuningProblem,
    TuningSpecification,
    UserRows,
    Users,
    load_with_users,
    loss_cap_field,
    rows_of,
    user_count,
)
from dpviz.specification import choice, number, switch

# ---------------------------------------------------------------- losses that need no training: every user is protected

ROUNDS, STEPS = 20, 10  # of the search for a table's minimiser: rounds at most, and steps of a round
# Declared costs of one multiplication and addition in a product of matrices, and of further work on a number of it.
SECONDS_PER_PRODUCT, SECONDS_PER_NUMBER = 0.15e-9, 4e-9


class DirectTuning(TuningSpecification):
    """The settings of a problem whose losses f_i(θ) need no training. The loss of a user with several rows is the mean
    of the losses of these rows."""

    start: float | None = number(
        None, -4.0, 4.0, label="Start", symbol="θ₀", help="Every coordinate. Empty: each run draws its own in the box."
    )
    reach: ClassVar[float] = 4.0  # the box is [-reach, reach]
    spread: ClassVar[float] = 1.0  # declared ranges of features become [-spread, spread]

    @property
    def unit(self) -> str:
        return "one user replaced"

    @property
    def not_protected(self) -> str:
        return ""

    @abstractmethod
    def parameters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the d tuned settings, given the names of the features."""

    def facts(self) -> TuningFacts:
        """Return the public facts, with costs in seconds that follow from the sizes of the data."""
        data = self.data.facts()
        names = self.parameters(tuple(data.names[j] for j in self.used_features))
        n, d = user_count(data), len(names)
        return self._facts(
            n,
            names,
            low=(-self.reach,) * d,
            high=(self.reach,) * d,
            logarithmic=(False,) * d,
            training_seconds=data.n * (d * SECONDS_PER_PRODUCT + SECONDS_PER_NUMBER),
            gradient_seconds=data.n * d * SECONDS_PER_NUMBER / 2,  # an estimate: less work per number
            start=() if self.start is None else (self.start,) * d,
        )

    def rows(self, tables: Mapping[str, np.ndarray]) -> UserRows:
        """Load the users' rows, with features scaled by their declared ranges, unless they come scaled."""
        data, users = load_with_users(self.data, tables)
        features = np.ascontiguousarray(data.features[:, self.used_features])  # such a selection is stored by columns
        if not self.data.scaled:
            low, high = np.array(data.facts.bounds)[self.used_features].T
            features = self.spread * (features - (low + high) / 2) / ((high - low) / 2)
        return rows_of(features, self.targets(data.labels), users, np.arange(user_count(data.facts)))

    def targets(self, labels: np.ndarray) -> np.ndarray:
        """Return the labels (n,) in the unit of the model: two classes stay ±1, and a declared range becomes [-2, 2],
        unless the data come scaled."""
        target_range = self.data.facts().target_range
        if self.data.scaled or target_range is None:
            return labels
        low, high = target_range
        return np.asarray(4 * (labels - low) / (high - low) - 2)


# ------------------------------------------------------------------------------------------------------------- location


class NormalLocation(DirectTuning):
    """The settings of the losses f_i(θ) = ½‖x_i - θ‖² for users with rows x_i. The minimiser is the mean of the x_i,
    and a polynomial of degree 2 fits each loss exactly."""

    kind: ClassVar[str] = "problems.direct_tuning.normal_location"
    title: ClassVar[str] = "Normal location"
    reach: ClassVar[float] = 6.0
    spread: ClassVar[float] = 3.0
    data: DatasetSpecification = NormalDraws()
    loss_cap: float = loss_cap_field(40.0)
    start: float | None = number(
        -3.0, -6.0, 6.0, label="Start", symbol="θ₀", help="Every coordinate. Empty: each run draws its own in the box."
    )

    def parameters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Location":
        return Location(self.facts(), self.rows(tables), self.observation_seed)


class Location(GradientProblem):
    """The losses of a normal location with their data, see `NormalLocation`: half of the mean squared distance of a
    user's rows from θ."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        *GradientProblem.metrics,
        Metric("distance", "Distance to the mean of the users", scale="log", headline=3),
    )

    def __init__(self, facts: TuningFacts, rows: UserRows, observation_seed: int) -> None:
        super().__init__(facts, observation_seed)
        # `means` takes values at several points, in its first axis; these are the same at every point.
        self._means = rows.users.means(rows.features[None])[0]
        self._squares = rows.users.means((rows.features**2).sum(axis=1)[None])[0]

    def _losses(self, points: np.ndarray) -> np.ndarray:
        """Compute the losses (P, n) from ½ ‖x - θ‖² = ½ ‖θ‖² - ⟨x, θ⟩ + ½ ‖x‖², with means over each user's rows."""
        return np.asarray((points**2).sum(axis=1)[:, None] / 2 - points @ self._means.T + self._squares / 2)

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        return points[:, None] - self._means

    def _reference_diagnostics(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the distances (P,) of points (P, d) from the minimiser."""
        return {"distance": np.linalg.norm(points - self._means.mean(axis=0), axis=1)}


# ----------------------------------------------------------------------------------------------------------- regression


class HuberRegression(DirectTuning):
    """The settings of the losses f_i(β) = w_i ρ(y_i - ⟨x_i, β⟩) of a regression, for rows x_i = (1, z_i) with features
    z_i and targets y_i.

    ρ is Huber's loss, which is linear beyond the corner c. With Mallows weights w_i = min(1, 2/‖x_i‖²) no row's
    gradient is longer than c√2; without them, w_i = 1, only clipping bounds it.
    """

    kind: ClassVar[str] = "problems.direct_tuning.huber_regression"
    title: ClassVar[str] = "Robust regression (Huber)"
    spread: ClassVar[float] = math.sqrt(3)
    data: DatasetSpecification = RegressionDraws()
    corner: float = number(
        1.345, 0.1, 10.0, label="Corner", symbol="c", scale="log", help="Residuals beyond it count linearly."
    )
    weighted: bool = switch(True, label="Mallows weights", help="Long rows count less, so that gradients are bounded.")
    start: float | None = number(
        0.0, -4.0, 4.0, label="Start", symbol="β₀", help="Every coordinate. Empty: each run draws its own in the box."
    )

    def parameters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the coefficients: the intercept, and one for each feature."""
        return ("intercept", *names)

    def linear_score(self, x: np.ndarray) -> LinearScore:
        """Return the prediction in the table's own units, from the coefficients x (d,) of the scaled features."""
        facts, target = self.data.facts(), self.data.facts().target_range
        weights, centres, widths = np.zeros(facts.d), np.zeros(facts.d), np.ones(facts.d)
        weights[self.used_features] = x[1:]  # x[0] is the intercept
        if not self.data.scaled:
            low, high = np.array(facts.bounds).T
            centres, widths = (low + high) / 2, (high - low) / 2 / self.spread
        coefficients, constant = unscaled(weights, centres, widths)
        constant += float(x[0])
        if self.data.scaled or target is None:
            return LinearScore(coefficients, constant)
        return to_target(LinearScore(coefficients / 2, constant / 2), target)  # from [-2, 2], see `targets`, to [-1, 1]

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Huber":
        rows = self.rows(tables)
        coefficients = None
        if isinstance(self.data, RegressionDraws):
            coefficients = self.data.coefficients[np.append(0, 1 + self.used_features)]  # the first: the intercept
        return Huber(self, rows, coefficients)


class Huber(GradientProblem):
    """The losses of a Huber regression with their data; see `HuberRegression`.

    coefficients : (d,) the true β of drawn data; None for other data, which are compared with the minimiser instead.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        *GradientProblem.metrics,
        Metric("distance", "Distance to the true coefficients; of a table, to the minimiser", scale="log", headline=3),
    )

    def __init__(self, settings: HuberRegression, rows: UserRows, coefficients: np.ndarray | None) -> None:
        super().__init__(settings.facts(), settings.observation_seed)
        self._rows = np.column_stack([np.ones(len(rows.features)), rows.features])
        self._targets, self._users, self._corner = rows.targets, rows.users, settings.corner
        self._reference = coefficients
        squares = (self._rows**2).sum(axis=1)
        self._weights = np.minimum(1.0, 2.0 / squares) if settings.weighted else np.ones(len(squares))

    def _losses(self, points: np.ndarray) -> np.ndarray:
        residuals = np.abs(self._targets - points @ self._rows.T)
        capped = np.minimum(residuals, self._corner)  # ρ(r) = m(r - m/2) with m = min(r, c), for r ≥ 0
        return self._users.means(self._weights * capped * (residuals - capped / 2))

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        slopes = self._weights * np.clip(points @ self._rows.T - self._targets, -self._corner, self._corner)
        return self._users.means(slopes[:, :, None] * self._rows)

    def _reference_diagnostics(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the distances (P,) of points (P, d) from the true coefficients, or from the minimiser of F."""
        self.prepare()
        assert self._reference is not None
        return {"distance": np.linalg.norm(points - self._reference, axis=1)}

    def prepare(self) -> None:
        """Compute the minimiser of F in the box, unless it is known, or the true coefficients are.

        It is computed by L-BFGS, in rounds of a few steps with checkpoints.
        """
        if self._reference is not None:
            return

        def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
            """Return F and ∇F (d,) at x (d,)."""
            return float(self._losses(x[None]).mean()), self._gradients(x[None])[0].mean(axis=0)

        x, box = np.zeros(self.facts.d), np.array(self.facts.box).T
        for _ in range(ROUNDS):
            result = minimize(
                value_and_gradient, x, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": STEPS}
            )
            x = np.asarray(result.x)
            if result.success:  # False if it stopped after STEPS
                break
            checkpoint()
        self._reference = x


# ----------------------------------------------------------------------- kernel models: training rows are not protected

MODELS = {
    "svr": "Support vector regression",
    "ridge": "Kernel ridge regression (faster; ε does nothing)",
    "svc": "Support vector classification",
}
ROWS_OF_A_USER = 20  # as many rows of a user of the validation data count, at most
FURTHEST = 5.0  # standard deviations from the mean of the training rows, at which features are clipped


def _training_rows_field(default: int) -> Any:
    """Declare the field m, the number of rows that a model is trained on."""
    return number(
        default,
        20,
        2000,
        label="Training rows",
        symbol="m",
        scale="log",
        help="Not protected. At most half of the users are used for training; a training's time grows with the cube.",
    )


def _validation_users_field(default: int) -> Any:
    """Declare the field n, the number of users whose losses are minimised."""
    return number(
        default,
        20,
        20_000,
        label="Validation users",
        symbol="n",
        scale="log",
        help="Protected. At most what training leaves. More users need less noise each.",
    )


class ModelTuning(TuningSpecification):
    """The settings of a problem that tunes a model, which is trained on some users of a table and evaluated on others.

    The training users are chosen by a public seed, or are the first ones if the data are drawn. Nothing is fitted to
    the validation users: features and targets are scaled by the mean and the standard deviation of the training rows,
    unless they come scaled, and the box of hyper-parameters is declared.
    """

    training_rows: int = _training_rows_field(300)
    validation_users: int = _validation_users_field(1000)
    declared_seconds: float | None = number(
        None,
        1e-5,
        60.0,
        label="Seconds per training",
        scale="log",
        help="For the axis in seconds. Empty, or too little: what the sizes suggest.",
    )

    @property
    @abstractmethod
    def learner(self) -> str:
        """Name of the kind of model to train, a key of `LEARNERS`."""

    @abstractmethod
    def box(self, names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        """Return the name, the lower and the upper end of every hyper-parameter, for features of these names.

        The ends are those of the parameter itself, not of its logarithm.
        """

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "ModelProblem":
        """Load and scale the rows, and return the problem."""

    def settings(self, deviation: float) -> dict[str, float]:
        """Return the settings of the learner that are not tuned, by name; none by default.

        deviation : standard deviation of the training targets, which are divided by it.
        """
        return {}

    @property
    def has_classes(self) -> bool:
        """True if the target is one of two classes."""
        return self.data.facts().target_range is None

    @property
    def split(self) -> tuple[int, int]:
        """Number of users for training, and number of users for validation."""
        users = user_count(self.data.facts())
        training = max(1, min(self.training_rows, users // 2))
        return training, min(self.validation_users, users - training)

    @property
    def user_order(self) -> np.ndarray:
        """Indices of all users: first those for training, then those for validation, then the others."""
        users = user_count(self.data.facts())
        return np.arange(users) if isinstance(self.data, DRAWN) else np.random.default_rng(0).permutation(users)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Largest possible numbers of training rows m and of validation rows v, and the number of features p."""
        data, (training_users, validation_users) = self.data.facts(), self.split
        if user_count(data) == data.n:  # each user has one row
            return training_users, validation_users, len(self.used_features)
        return self.training_rows, min(data.n, validation_users * ROWS_OF_A_USER), len(self.used_features)

    def facts(self) -> TuningFacts:
        """Return the public facts, with the declared or the estimated cost of a training, the larger one."""
        data = self.data.facts()
        names, low, high = zip(*self.box(tuple(data.names[j] for j in self.used_features)), strict=True)
        _, validation_users = self.split
        estimate = training_seconds(self.learner, *self.sizes)
        # Slices and limits depend on these seconds, which are never below the estimate.
        seconds = estimate if self.declared_seconds is None else max(estimate, self.declared_seconds)
        return self._facts(
            validation_users,
            names,
            low=tuple(map(math.log, low)),
            high=tuple(map(math.log, high)),
            logarithmic=(True,) * len(names),
            training_seconds=seconds,
            gradient_seconds=self.gradient_seconds(seconds),
        )

    def gradient_seconds(self, training: float) -> float:
        """Return the seconds that the users' gradients at a point take in addition to a training, which takes
        `training` seconds; 0, as here, if gradients are unknown."""
        return 0.0

    def memory(self, facts: Facts) -> Memory:
        """Estimate the memory: the table, the rows of the learner, and the matrices of a training or of drawn data."""
        data, memory, (m, v, p) = self.data.facts(), super().memory(facts), self.sizes
        # The factors are measured. `kernels` is for one training at a time, with gradients.
        table = 16.0 * data.n * data.d + 32.0 * (m + v) * p
        kernels = 12.0 * m * (m + v) + 24.0 * v * p
        n_drawn = data.n if isinstance(self.data, ProcessDraws) else 0  # rows and columns of its covariance
        return replace(memory, table=memory.table + table + max(kernels, 24.0 * n_drawn**2))

    def load_learner(self, tables: Mapping[str, np.ndarray]) -> tuple[Learner, Users]:
        """Return the learner, with the rows to train it on and to evaluate it on, and the users of the latter."""
        data, users = load_with_users(self.data, tables)
        n_training, n_validation = self.split
        features, order = data.features[:, self.used_features], self.user_order
        training = rows_of(features, data.labels, users, order[:n_training])
        validation_users = order[n_training : n_training + n_validation]
        validation = rows_of(features, data.labels, users, validation_users, max_rows=ROWS_OF_A_USER)
        # The users may have more rows than the model is to be trained on: then evenly spaced ones are used.
        available = len(training.targets)
        indices = np.linspace(0, available - 1, min(available, self.training_rows)).round().astype(int)
        x, y = training.features[indices], training.targets[indices]
        arrays, deviation = self._scale(x, y, validation.features, validation.targets)
        return LEARNERS[self.learner](arrays, **self.settings(deviation)), validation.users

    def _scale(self, x: np.ndarray, y: np.ndarray, v: np.ndarray, z: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """Return the arrays of a `Learner`, scaled by mean and standard deviation of the training rows; and the
        standard deviation by which targets were divided.

        x, y : training rows and their targets. v, z : validation rows and their targets.
        Features that come scaled, and classes, are unchanged.
        """
        if not self.data.scaled:
            mean, spread = x.mean(axis=0), x.std(axis=0)
            # A feature that is constant up to rounding becomes 0: it is divided by inf.
            spread = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, np.inf)
            x, v = (np.clip((part - mean) / spread, -FURTHEST, FURTHEST) for part in (x, v))
        deviation = 1.0
        if not self.has_classes:
            centre, deviation = y.mean(), float(y.std()) or 1.0  # of equal targets the deviation is 0
            y, z = (y - centre) / deviation, (z - centre) / deviation
        arrays = {"x": x, "y": y, "v": v, "z": z}
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, deviation


class LengthScales(ModelTuning):
    """The settings of a problem that tunes the length-scales of Gaussian-process regression, one for each feature. The
    loss of a row is the squared residual.

    >>> import dpviz
    >>> dpviz.LengthScales(training_rows=20).facts().n
    500
    """

    kind: ClassVar[str] = "problems.model_tuning.length_scales"
    title: ClassVar[str] = "Length-scales of a Gaussian process"
    data: DatasetSpecification = ProcessDraws()
    training_rows: int = _training_rows_field(200)
    validation_users: int = _validation_users_field(500)
    noise: float | None = number(
        None,
        1e-3,
        100.0,
        label="Noise given to the model",
        scale="log",
        help="Standard deviation of the target's noise, in its unit. Empty: that of drawn data, or a tenth of the "
        "standard deviation of the training targets.",
    )

    @property
    def learner(self) -> str:
        return "process"

    def box(self, names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        return [(f"length-scale of {name}", 0.5, 20.0) for name in names]

    def settings(self, deviation: float) -> dict[str, float]:
        """Return the variance of the noise, in units of the scaled targets."""
        noise = self.noise
        if noise is None:
            noise = self.data.noise if isinstance(self.data, ProcessDraws) else deviation / 10
        return {"noise": (noise / deviation) ** 2}

    def gradient_seconds(self, training: float) -> float:
        return 1.2 * training  # measured

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "ProcessProblem":
        learner, users = self.load_learner(tables)
        assert isinstance(learner, ProcessLearner)
        return ProcessProblem(self.facts(), learner, users, self.observation_seed)


class KernelMachine(ModelTuning):
    """The settings of a problem that tunes a kernel machine: a length-scale ℓ_j for each feature, the tolerance ε, the
    cost C and the kernel's width γ.

    The kernel is k(x, z) = exp(-γ ‖(x - z)/ℓ‖²). The loss of a row is the squared error, or for a classifier the hinge
    loss.
    """

    kind: ClassVar[str] = "problems.model_tuning.kernel_machine"
    title: ClassVar[str] = "Kernel machine"
    data: DatasetSpecification = FactorDraws()
    model: Literal["svr", "ridge", "svc"] = choice(
        "svr",
        MODELS,
        label="Model",
        help="Of a number, or of two classes. To classify a number, its training mean decides.",
    )

    @property
    def learner(self) -> str:
        return self.model

    def box(self, names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        p = len(names)
        scales = [(f"length-scale of {name}", math.exp(-1), math.exp(2)) for name in names]
        tolerance = [] if self.model == "svc" else [("tolerance ε", 0.01, 1.0)]
        width = ("kernel width γ", 0.1 / p, 2 / p)  # squared distances of rows grow with the number of features p
        return [*scales, *tolerance, ("cost C", 0.1, 100.0), width]

    def _plane(self) -> Plane:
        """Return the plane of the last two settings, cost and width, which all kernel machines have. They have more
        influence than one of many length-scales."""
        facts = self.facts()
        *_, cost, width = facts.axes
        return base.coordinate_plane(facts.d - 2, facts.d - 1, (cost, width))

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "ModelProblem":
        learner, users = self.load_learner(tables)
        return ModelProblem(self.facts(), learner, users, self.observation_seed)

    def _scale(self, x: np.ndarray, y: np.ndarray, v: np.ndarray, z: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """Return the same as `ModelTuning._scale`, with targets ±1 if the model is a classifier."""
        arrays, deviation = super()._scale(x, y, v, z)
        if self.model == "svc":  # a number is classified by being above the training mean, which is now 0
            arrays |= {name: np.where(arrays[name] > 0, 1.0, -1.0) for name in ("y", "z")}
        return arrays, deviation


class ModelProblem(TuningProblem):
    """The losses of models that a learner trains. If a training takes long, further processes train, too.

    users : of the validation rows.
    """

    def __init__(self, facts: TuningFacts, learner: Learner, users: Users, observation_seed: int) -> None:
        super().__init__(facts, observation_seed)
        self._learner, self._users = learner, users
        self._trainers = Trainers(learner, facts.training_seconds)

    @property
    def seconds_elsewhere(self) -> float:
        return self._trainers.seconds_elsewhere

    def _losses(self, points: np.ndarray) -> np.ndarray:
        """Compute the users' losses (P, n) at points (P, d) in this process."""
        return self._users.means(self._learner.losses(points))

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute the users' losses (P, n) at points (P, d), with further processes if trainings take long."""
        if not self._trainers.wanted:  # trainings are too quick for further processes
            return super().losses(points)
        return self._users.means(self._trainers.losses(points))


class ProcessProblem(ModelProblem, GradientProblem):
    """The losses of Gaussian processes, of which the users' gradients are known, too."""

    _learner: ProcessLearner

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        return self._users.means(self._learner.gradients(points))
