"""Losses that need no training: the location of normal rows, and robust regression. Every user is protected."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from dpviz.checkpoints import checkpoint
from dpviz.datasets.base import NO_TABLES, DatasetSpecification
from dpviz.datasets.synthetic import NormalDraws, RegressionDraws
from dpviz.problems.base import Metric
from dpviz.problems.tuning.tuning import (
    CONTROLS,
    GradientProblem,
    Rows,
    TuningFacts,
    TuningSpecification,
    loaded,
    loss_cap,
    rows_of,
    user_count,
)
from dpviz.specification import number, switch

ROUNDS, STEPS = 20, 10  # of the search for the minimiser of a table, with a checkpoint after each round
# One multiplication and addition of a product of matrices, and what else happens to a number of it.
SECONDS_PER_PRODUCT, SECONDS_PER_NUMBER = 0.15e-9, 4e-9


class DirectTuning(TuningSpecification):
    """f_i(θ) follows from the user's rows at once; of a user with several rows, the mean over them."""

    start: float | None = number(None, -4.0, 4.0, **CONTROLS["DirectTuning.start"])
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
        """(d,) what is tuned, by the names of the features."""

    def facts(self) -> TuningFacts:
        known = self.data.facts()
        names = self.parameters(tuple(known.names[j] for j in self.chosen))
        n, d = user_count(known), len(names)
        return self._facts(
            n,
            names,
            low=(-self.reach,) * d,
            high=(self.reach,) * d,
            logarithmic=(False,) * d,
            training_seconds=known.n * (d * SECONDS_PER_PRODUCT + SECONDS_PER_NUMBER),
            gradient_seconds=known.n * d * SECONDS_PER_NUMBER / 2,
            start=() if self.start is None else (self.start,) * d,
        )

    def rows(self, tables: Mapping[str, np.ndarray]) -> Rows:
        """The users' rows, features scaled by their declared ranges."""
        data, places = loaded(self.data, tables)
        features, chosen = np.array(data.features[:, self.chosen], order="C"), self.chosen
        if not self.data.scaled:
            low, high = np.array(data.facts.bounds)[chosen].T
            features = self.spread * (features - (low + high) / 2) / ((high - low) / 2)
        return rows_of(features, self.targets(data.labels), places, np.arange(user_count(data.facts)))

    def targets(self, labels: np.ndarray) -> np.ndarray:
        """The targets, in units of the model; two classes are ±1, a declared range becomes [-2, 2]."""
        target = self.data.facts().target
        if self.data.scaled or target is None:
            return labels
        return np.asarray(4 * (labels - target[0]) / (target[1] - target[0]) - 2)


# ------------------------------------------------------------------------------------------------------------- location


class NormalLocation(DirectTuning):
    """f_i(θ) = ½‖x_i - θ‖²: the mean of the users' rows is the minimiser. A polynomial of degree 2 fits it exactly."""

    kind: ClassVar[str] = "problems.direct_tuning.normal_location"
    title: ClassVar[str] = "Normal location"
    reach: ClassVar[float] = 6.0
    spread: ClassVar[float] = 3.0
    data: DatasetSpecification = NormalDraws()
    loss_cap: float = loss_cap(40.0)
    start: float | None = number(-3.0, -6.0, 6.0, **CONTROLS["NormalLocation.start"])

    def parameters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Location":
        return Location(self.facts(), self.rows(tables), self.observation_seed)


class Location(GradientProblem):
    """Half the mean squared distance of a user's rows from θ."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        *GradientProblem.metrics,
        Metric("distance", "Distance to the mean of the users", scale="log", headline=3),
    )

    def __init__(self, facts: TuningFacts, rows: Rows, observation_seed: int) -> None:
        super().__init__(facts, observation_seed)
        self._means = rows.users.means(rows.features[None])[0]
        self._squares = rows.users.means((rows.features**2).sum(axis=1)[None])[0]

    def _losses(self, points: np.ndarray) -> np.ndarray:
        return np.asarray((points**2).sum(axis=1)[:, None] / 2 - points @ self._means.T + self._squares / 2)

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        return points[:, None] - self._means

    def _compared(self, points: np.ndarray) -> dict[str, np.ndarray]:
        return {"distance": np.linalg.norm(points - self._means.mean(axis=0), axis=1)}


# ----------------------------------------------------------------------------------------------------------- regression


class HuberRegression(DirectTuning):
    """f_i(β) = w_i ρ(y_i - ⟨x_i, β⟩), ρ Huber's loss, x_i = (1, z_i), Mallows weights w_i = min(1, 2/‖x_i‖²).

    With these weights no gradient is longer than c√2, whatever the row; without them nothing but clipping bounds it.
    """

    kind: ClassVar[str] = "problems.direct_tuning.huber_regression"
    title: ClassVar[str] = "Robust regression (Huber)"
    spread: ClassVar[float] = math.sqrt(3)
    data: DatasetSpecification = RegressionDraws()
    corner: float = number(1.345, 0.1, 10.0, **CONTROLS["corner"])
    weighted: bool = switch(True, label="Mallows weights", help="Long rows count less, so that gradients are bounded.")
    start: float | None = number(0.0, -4.0, 4.0, **CONTROLS["HuberRegression.start"])

    def parameters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return ("intercept", *names)

    @property
    def longest_gradient(self) -> float:
        """c√2, which no user's gradient exceeds; inf without Mallows weights."""
        return self.corner * math.sqrt(2) if self.weighted else math.inf

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "Huber":
        rows = self.rows(tables)
        known = None
        if isinstance(self.data, RegressionDraws):  # without the features that are left out
            known = self.data.coefficients[[0, *1 + self.chosen]]
        return Huber(self, rows, known)


class Huber(GradientProblem):
    """Huber's loss of the users' residuals. known : (d,) the true coefficients, where there are any."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        *GradientProblem.metrics,
        Metric("distance", "Distance to the true coefficients; of a table, to the minimiser", scale="log", headline=3),
    )

    def __init__(self, settings: HuberRegression, rows: Rows, known: np.ndarray | None) -> None:
        super().__init__(settings.facts(), settings.observation_seed)
        self._rows = np.column_stack([np.ones(len(rows.features)), rows.features])
        self._targets, self._users, self._corner, self._known = rows.targets, rows.users, settings.corner, known
        squares = (self._rows**2).sum(axis=1)
        self._weights = np.minimum(1.0, 2.0 / squares) if settings.weighted else np.ones(len(squares))

    def _losses(self, points: np.ndarray) -> np.ndarray:
        residuals = np.abs(self._targets - points @ self._rows.T)
        inner = np.minimum(residuals, self._corner)  # ρ(r) = m(r - m/2) with m = min(r, c)
        return self._users.means(self._weights * inner * (residuals - inner / 2))

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        pull = self._weights * np.clip(points @ self._rows.T - self._targets, -self._corner, self._corner)
        return self._users.means(pull[:, :, None] * self._rows)

    def _compared(self, points: np.ndarray) -> dict[str, np.ndarray]:
        self.prepare()
        assert self._known is not None
        return {"distance": np.linalg.norm(points - self._known, axis=1)}

    def prepare(self) -> None:
        if self._known is None:
            self._known = self._minimised()

    def _minimised(self) -> np.ndarray:
        """(d,) the minimiser in the box, by L-BFGS, a few steps at a time."""

        def value(x: np.ndarray) -> tuple[float, np.ndarray]:
            return float(self._losses(x[None]).mean()), self._gradients(x[None])[0].mean(axis=0)

        x, box = np.zeros(self.facts.d), np.array(self.facts.box).T
        for _ in range(ROUNDS):
            found = minimize(value, x, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": STEPS})
            x = np.asarray(found.x)
            if found.success:
                break
            checkpoint()
        return x
