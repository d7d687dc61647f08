"""Hyper-parameters of kernel models, tuned on the losses of validation users. Training rows are not protected."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.datasets.base import NO_TABLES, Dataset, DatasetSpecification
from dpviz.datasets.synthetic import DRAWN, FactorDraws, ProcessDraws
from dpviz.problems import planes
from dpviz.problems.base import Facts, Memory, Plane
from dpviz.problems.tuning.trainers import LEARNERS, Learner, ProcessLearner, Trainers, training_seconds
from dpviz.problems.tuning.tuning import (
    CONTROLS,
    GradientProblem,
    TuningFacts,
    TuningProblem,
    TuningSpecification,
    Users,
    loaded,
    rows_of,
    user_count,
)
from dpviz.specification import choice, number

MODELS = {
    "svr": "Support vector regression",
    "ridge": "Kernel ridge regression (faster; ε does nothing)",
    "svc": "Support vector classification",
}
ROWS_OF_A_USER = 20  # most that count of one user of the validation data
FURTHEST = 5.0  # standard deviations of the training rows; features beyond are cut there


def _training_rows(default: int) -> Any:
    return number(default, 20, 2000, **CONTROLS["training_rows"])


def _validation_users(default: int) -> Any:
    return number(default, 20, 20_000, **CONTROLS["validation_users"])


class ModelTuning(TuningSpecification):
    """A model that is trained on some users of a table and judged by the others.

    Who trains is chosen by a public seed; of drawn data, the first rows. Nothing is fitted to the validation users:
    features and targets are scaled by what the training rows say, unless they come scaled, and the box is declared.
    """

    training_rows: int = _training_rows(300)
    validation_users: int = _validation_users(1000)
    declared_seconds: float | None = number(None, 1e-5, 60.0, **CONTROLS["declared_seconds"])

    @property
    @abstractmethod
    def learner(self) -> str:
        """Which model is trained, of `LEARNERS`."""

    @abstractmethod
    def box(self, names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        """Name and range of every hyper-parameter, not of its logarithm, for features of these names."""

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "ModelProblem":
        """Load and scale the rows."""

    def settings(self, deviation: float) -> dict[str, float]:
        """What the learner needs beside its rows. deviation : standard deviation of the training targets."""
        return {}

    @property
    def classes(self) -> bool:
        """Whether the target is one of two classes."""
        return self.data.facts().target is None

    @property
    def split(self) -> tuple[int, int]:
        """Numbers of users for training and for validation."""
        users = user_count(self.data.facts())
        training = max(1, min(self.training_rows, users // 2))
        return training, min(self.validation_users, users - training)

    @property
    def order(self) -> np.ndarray:
        """All users: who trains, then who validates, then who is not used."""
        users = user_count(self.data.facts())
        return np.arange(users) if isinstance(self.data, DRAWN) else np.random.default_rng(0).permutation(users)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """At most: training rows, validation rows, features."""
        known, (training, n) = self.data.facts(), self.split
        alone = user_count(known) == known.n
        rows = n if alone else min(known.n, n * ROWS_OF_A_USER)
        return training if alone else self.training_rows, rows, len(self.chosen)

    def facts(self) -> TuningFacts:
        known = self.data.facts()
        names, low, high = zip(*self.box(tuple(known.names[j] for j in self.chosen)), strict=True)
        by_sizes = training_seconds(self.learner, *self.sizes)
        seconds = max(by_sizes, self.declared_seconds or 0.0)  # else no limit would hold
        return self._facts(
            self.split[1],
            names,
            low=tuple(map(math.log, low)),
            high=tuple(map(math.log, high)),
            logarithmic=(True,) * len(names),
            training_seconds=seconds,
            gradient_seconds=self.gradient_seconds(seconds),
        )

    def gradient_seconds(self, training: float) -> float:
        """What the users' gradients take beside a training; 0 where they are not known."""
        return 0.0

    def memory(self, facts: Facts) -> Memory:
        known, memory, (m, v, p) = self.data.facts(), super().memory(facts), self.sizes
        table = 16.0 * known.n * known.d + 32.0 * (m + v) * p
        kernels = 12.0 * m * (m + v) + 24.0 * v * p  # at work, for one training at a time, with gradients
        drawn = known.n if isinstance(self.data, ProcessDraws) else 0  # rows and columns of its covariance
        return replace(memory, table=memory.table + table + max(kernels, 24.0 * drawn**2))

    def trained(self, tables: Mapping[str, np.ndarray]) -> tuple[Learner, Users]:
        """The learner with its rows, and whose the validation rows are."""
        data, places = loaded(self.data, tables)
        training, validation = self.split
        features = data.features[:, self.chosen]
        order = self.order
        own = rows_of(features, data.labels, places, order[:training])
        theirs = rows_of(features, data.labels, places, order[training : training + validation], ROWS_OF_A_USER)
        some = np.linspace(0, len(own.targets) - 1, min(len(own.targets), self.training_rows)).round().astype(int)
        x, y = own.features[some], own.targets[some]
        arrays, deviation = self._scaled(data, x, y, theirs.features, theirs.targets)
        return LEARNERS[self.learner](arrays, **self.settings(deviation)), theirs.users

    def _scaled(
        self, data: Dataset, x: np.ndarray, y: np.ndarray, v: np.ndarray, z: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float]:
        """The rows in units of the training rows, and the standard deviation of their targets; classes stay as they
        are."""
        if not self.data.scaled:
            middle, spread = x.mean(axis=0), x.std(axis=0)
            spread = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(middle)), spread, np.inf)
            x, v = (np.clip((part - middle) / spread, -FURTHEST, FURTHEST) for part in (x, v))
        deviation = 1.0
        if not self.classes:
            deviation = float(y.std()) or 1.0
            y, z = (y - y.mean()) / deviation, (z - y.mean()) / deviation
        arrays = {"x": x, "y": y, "v": v, "z": z}
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, deviation


class LengthScales(ModelTuning):
    """Length-scales of Gaussian-process regression, one for each feature; a user's loss is the squared residual."""

    kind: ClassVar[str] = "problems.model_tuning.length_scales"
    title: ClassVar[str] = "Length-scales of a Gaussian process"
    data: DatasetSpecification = ProcessDraws()
    training_rows: int = _training_rows(200)
    validation_users: int = _validation_users(500)
    noise: float | None = number(None, 1e-3, 100.0, **CONTROLS["noise"])

    @property
    def learner(self) -> str:
        return "process"

    def box(self, names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        return [(f"length-scale of {name}", 0.5, 20.0) for name in names]

    def settings(self, deviation: float) -> dict[str, float]:
        noise = self.noise
        if noise is None:
            noise = self.data.noise if isinstance(self.data, ProcessDraws) else deviation / 10
        return {"noise": (noise / deviation) ** 2}

    def gradient_seconds(self, training: float) -> float:
        return 1.2 * training

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "ProcessProblem":
        learner, users = self.trained(tables)
        assert isinstance(learner, ProcessLearner)
        return ProcessProblem(self.facts(), learner, users, self.observation_seed)


class KernelMachine(ModelTuning):
    """A kernel machine with a length-scale for each feature, its regularisation, its tolerance and its kernel's width.

    k(x, z) = exp(-γ ‖(x - z)/ℓ‖²). A user's loss is the squared error, and of a classifier the hinge loss.
    """

    kind: ClassVar[str] = "problems.model_tuning.kernel_machine"
    title: ClassVar[str] = "Kernel machine"
    data: DatasetSpecification = FactorDraws()
    model: Literal["svr", "ridge", "svc"] = choice("svr", MODELS, **CONTROLS["model"])

    @property
    def learner(self) -> str:
        return self.model

    def box(self, names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        p = len(names)
        scales = [(f"length-scale of {name}", math.exp(-1), math.exp(2)) for name in names]
        tolerance = [] if self.model == "svc" else [("tolerance ε", 0.01, 1.0)]
        return [*scales, *tolerance, ("cost C", 0.1, 100.0), ("kernel width γ", 0.1 / p, 2 / p)]

    def _plane(self) -> Plane:
        """The last two, which every such model has: they weigh more than one length-scale of many."""
        *_, cost, width = self.facts().axes
        d = self.facts().d
        return planes.coordinates(d - 2, d - 1, (cost, width))

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "ModelProblem":
        learner, users = self.trained(tables)
        return ModelProblem(self.facts(), learner, users, self.observation_seed)

    def _scaled(
        self, data: Dataset, x: np.ndarray, y: np.ndarray, v: np.ndarray, z: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float]:
        arrays, deviation = super()._scaled(data, x, y, v, z)
        if self.model == "svc":
            arrays |= {name: np.where(arrays[name] > 0, 1.0, -1.0) for name in "yz"}
        return arrays, deviation


class ModelProblem(TuningProblem):
    """The losses of models that a learner trains. Where a training takes long, other processes train, too."""

    def __init__(self, facts: TuningFacts, learner: Learner, users: Users, observation_seed: int) -> None:
        super().__init__(facts, observation_seed)
        self._learner, self._users = learner, users
        self._trainers = Trainers(learner, facts.training_seconds)

    @property
    def elsewhere(self) -> float:
        return self._trainers.elsewhere

    def _losses(self, points: np.ndarray) -> np.ndarray:
        return self._users.means(self._learner.losses(points))

    def losses(self, points: np.ndarray) -> np.ndarray:
        if not self._trainers.wanted:
            return super().losses(points)
        return self._users.means(self._trainers.losses(points))


class ProcessProblem(ModelProblem, GradientProblem):
    """Of a Gaussian process the users' gradients are known, too."""

    _learner: ProcessLearner

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        return self._users.means(self._learner.gradients(points))
