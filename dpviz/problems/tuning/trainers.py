"""Trainings that take long, shared among the run's process and further ones.

A training depends on its setting alone, so it does not matter which process does it. The processes belong to one
problem: they are started when it first has enough to do, and end with it, or with the process that started them. Each
runs this module: `python -m dpviz.problems.tuning.trainers`.
"""

import math
import os
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dpviz.checkpoints import checkpoint
from dpviz.one_thread import one_thread
from dpviz.processes import Child, Ended, Parent, pack, unpack

# ----------------------------------------------------------------------------------------- models with hyper-parameters
# A learner is settings and arrays, so that it can be sent to a worker process; its losses at a setting depend on
# that setting alone.

JITTER = 1e-10
MOST_STEPS = 100_000  # of a support vector machine, which at some settings would run for hours

# Measured on one core, at 100 to 1000 training and 300 to 9000 validation rows and 5 to 100 features: an entry of a
# kernel matrix, each product in it, each product of a factorisation, and a fixed cost of a training. Of support vector
# machines, at 20 to 2000 training rows, the fixed cost of a training, most of which is scikit-learn's check of
# parameters, and each pair of rows, by the learner's name.
SECONDS_PER_ENTRY, SECONDS_PER_PRODUCT, SECONDS_PER_FACTORED, SECONDS_OF_A_TRAINING = 1.8e-9, 0.055e-9, 0.045e-9, 1e-4
SECONDS_OF_A_MACHINE, SECONDS_PER_PAIR = 5e-4, {"svr": 2.2e-8, "svc": 1.4e-8}


class Learner(ABC):
    """A model that is trained on rows X (m, p) with targets y (m,), and evaluated on rows V (v, p) with targets z (v,).

    arrays : "x", "y", "v", "z". settings : further numbers of the model.
    """

    name: ClassVar[str]

    def __init__(self, arrays: Mapping[str, np.ndarray], **settings: Any) -> None:
        self.arrays, self.settings = arrays, settings
        self._x, self._y, self._v, self._z = (arrays[name] for name in "xyvz")

    @abstractmethod
    def _losses(self, point: np.ndarray) -> np.ndarray:
        """Compute the losses (v,) at a setting (d,)."""

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, v) the losses of the validation rows at settings (P, d); NaN where a model cannot be trained."""
        losses = np.full((len(points), len(self._z)), np.nan)
        with np.errstate(all="ignore"):
            for row, point in zip(losses, points, strict=True):
                try:
                    row[:] = self._losses(point)
                except (LinAlgError, ValueError):
                    continue
        return losses

    def _kernels(self, log_scales: np.ndarray, log_width: float = -math.log(2)) -> tuple[np.ndarray, np.ndarray]:
        """Compute k(X, X) (m, m) and k(V, X) (v, m), k(x, z) = exp(-γ ‖(x - z)/ℓ‖²), with γ = ½ by default."""
        scales = np.exp(log_width / 2 - log_scales)
        x, v = self._x * scales, self._v * scales
        squares = np.einsum("ij,ij->i", x, x)
        return _exponentials(x, squares, x, squares), _exponentials(v, np.einsum("ij,ij->i", v, v), x, squares)


def _exponentials(a: np.ndarray, a_squares: np.ndarray, b: np.ndarray, b_squares: np.ndarray) -> np.ndarray:
    """Compute exp(-‖a - b‖²) for all pairs of rows."""
    kernel = a @ b.T
    kernel *= 2
    kernel -= a_squares[:, None]
    kernel -= b_squares
    np.minimum(kernel, 0.0, out=kernel)
    return np.exp(kernel, out=kernel)


class ProcessLearner(Learner):
    """Gaussian-process regression; a setting is the logarithms of the length-scales. noise : variance, if y has 1."""

    name: ClassVar[str] = "process"

    def _fitted(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, bool], np.ndarray]:
        """Compute k(X, X), k(V, X), the factor of k(X, X) + noise and (that)⁻¹ y."""
        inner, outer = self._kernels(point)
        noisy = inner.copy()
        noisy.flat[:: len(inner) + 1] += self.settings["noise"] + JITTER
        factor = cho_factor(noisy, lower=True, overwrite_a=True, check_finite=False)
        return inner, outer, factor, cho_solve(factor, self._y, check_finite=False)

    def _losses(self, point: np.ndarray) -> np.ndarray:
        _, outer, _, weights = self._fitted(point)
        return np.asarray((self._z - outer @ weights) ** 2)

    def gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, v, d) the gradients of the losses with respect to the settings.

        ∂K/∂log ℓ_j = K ∘ δ_j²/ℓ_j², so that all these matrices act on a vector by products of K with 2p + 1 vectors.
        """
        gradients = np.full((len(points), *self._v.shape), np.nan)
        for row, point in zip(gradients, points, strict=True):
            inner, outer, factor, weights = self._fitted(point)
            x, v = self._x * np.exp(-point), self._v * np.exp(-point)
            vectors = np.column_stack([weights, x * weights[:, None], x**2 * weights[:, None]])
            solved = cho_solve(factor, _derivative_products(x, inner @ vectors), check_finite=False)
            residuals = self._z - outer @ weights
            row[:] = -2 * residuals[:, None] * (_derivative_products(v, outer @ vectors) - outer @ solved)
        return gradients


def _derivative_products(rows: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Compute (b, p) Σ_k K_ik (r_ij - x_kj)² α_k from K α, K (x_j α) and K (x_j² α), the columns of products (b, 2p
    + 1)."""
    p = rows.shape[1]
    return np.asarray(rows**2 * products[:, :1] - 2 * rows * products[:, 1 : p + 1] + products[:, p + 1 :])


class RidgeLearner(Learner):
    """Kernel ridge regression with λ = 1/C; a setting is log ℓ (p,), log ε, log C, log γ, of which ε is unused."""

    name: ClassVar[str] = "ridge"

    def _losses(self, point: np.ndarray) -> np.ndarray:
        inner, outer = self._kernels(point[:-3], float(point[-1]))
        inner.flat[:: len(inner) + 1] += math.exp(-float(point[-2]))
        factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray((self._z - outer @ cho_solve(factor, self._y, check_finite=False)) ** 2)


class VectorLearner(Learner):
    """Support vector regression; a setting is log ℓ (p,), log ε, log C, log γ. Squared error."""

    name: ClassVar[str] = "svr"

    def _losses(self, point: np.ndarray) -> np.ndarray:
        from sklearn.svm import SVR  # the import takes half a second, which other learners do not need

        inner, outer = self._kernels(point[:-3], float(point[-1]))
        epsilon, cost = np.exp(point[-3:-1])
        machine = SVR(kernel="precomputed", epsilon=float(epsilon), C=float(cost), max_iter=MOST_STEPS)
        with warnings.catch_warnings(action="ignore"):  # on convergence; the loss shows it
            machine.fit(inner, self._y)
        return np.asarray((self._z - _predicted(machine, outer)) ** 2)


class ClassifierLearner(Learner):
    """Support vector classification; a setting is log ℓ (p,), log C, log γ. Hinge loss, max(0, 1 - z f)."""

    name: ClassVar[str] = "svc"

    def _losses(self, point: np.ndarray) -> np.ndarray:
        from sklearn.svm import SVC

        if (self._y == self._y[0]).all():
            return np.maximum(0.0, 1 - self._z * self._y[0])
        inner, outer = self._kernels(point[:-2], float(point[-1]))
        machine = SVC(kernel="precomputed", C=math.exp(float(point[-2])), max_iter=MOST_STEPS)
        with warnings.catch_warnings(action="ignore"):
            machine.fit(inner, self._y)
        return np.asarray(np.maximum(0.0, 1 - self._z * _predicted(machine, outer)))


def _predicted(machine: Any, kernel: np.ndarray) -> np.ndarray:
    """Return (v,) the predictions of a trained machine for rows, from k(V, X).

    The machine's own method refuses all rows if one is not finite, so that one user would affect the losses of all.
    """
    return np.asarray(kernel[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0])


LEARNERS: Mapping[str, type[Learner]] = {
    learner.name: learner for learner in (ProcessLearner, RidgeLearner, VectorLearner, ClassifierLearner)
}


def training_seconds(learner: str, m: int, v: int, p: int) -> float:
    """Estimate the seconds of one training on m rows of p features, with the losses of v rows."""
    entries = m * m + m * v
    kernels = entries * (SECONDS_PER_ENTRY + p * SECONDS_PER_PRODUCT)
    if learner in SECONDS_PER_PAIR:
        fit = SECONDS_OF_A_MACHINE + m * m * SECONDS_PER_PAIR[learner]
    else:
        fit = m**3 / 3 * SECONDS_PER_FACTORED
    return SECONDS_OF_A_TRAINING + kernels + fit


# ------------------------------------------------------------------------------------------------- processes that train

VARIABLE, MOST = (
    "DPVIZ_TRAINERS",
    3,
)  # the variable sets the number of further processes, MOST limits its default; 0: none
SLOW = 5e-3  # declared seconds of a training from which on it is worth sending it to another process
POLL_INTERVAL = 0.05  # seconds between two checks for a request to stop the run
AHEAD = 2  # points that a process has at a time, so that it need not wait for the next one


def beside() -> int:
    """Return the number of further processes of a run: by default one for each further processor, at most MOST."""
    stated = os.environ.get(VARIABLE, "")
    if stated.isdecimal():
        return int(stated)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST, processors - 1)


class _Helper:
    """A further process, and the numbers of the points that it has."""

    def __init__(self) -> None:
        self.child = Child("dpviz.problems.tuning.trainers")
        self.busy: set[int] = set()
        self._ready = False

    def ready(self, learner: Learner) -> bool:
        """Return whether the process has started, and send it the learner then. Does not wait. Raises Ended if it
        has ended."""
        if not self._ready and self.child.receive(0.0) is not None:
            self._ready = True
            self.child.send(pack({"learner": learner.name, "settings": learner.settings}, learner.arrays))
        return self._ready

    def take(self, number: int, point: np.ndarray) -> None:
        """Send it a point (1, d). Raises Ended if it has ended."""
        self.busy.add(number)
        self.child.send(pack({"number": number}, {"points": point}))


class _Call:
    """One request for losses: the points that wait, and the losses at the others."""

    def __init__(self, points: np.ndarray, rows: int) -> None:
        self.points, self.losses = points, np.empty((len(points), rows))
        self.waiting, self.missing = deque(range(len(points))), len(points)

    def set_losses(self, index: int, losses: np.ndarray) -> None:
        """Set the losses (v,) at a point."""
        self.losses[index] = losses
        self.missing -= 1


class Trainers:
    """The processes that train: this one, and further ones if a training takes `seconds` and that is long.

    A request that was stopped, or one that is made at a checkpoint inside another one, does not disturb the others.

    elsewhere : seconds of computing time that the further processes have taken so far.
    """

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner, self.wanted = learner, seconds >= SLOW and beside() > 0
        self._helpers: list[_Helper] = []
        self._given: dict[int, tuple[_Call, int]] = {}  # points at the further processes, by number: request and index
        self._started, self._numbers, self.elsewhere = False, count(), 0.0
        weakref.finalize(self, _end, self._helpers)

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute (P, v) the losses of the validation rows at points (P, d), with a checkpoint after each training."""
        if not self._started and len(points) > 1:
            self._start()
        call = _Call(points, len(self._learner.arrays["z"]))
        try:
            while call.missing:
                self._share_out(call)
                if call.waiting:
                    index = call.waiting.popleft()
                    call.set_losses(index, self._learner.losses(points[index : index + 1])[0])
                for helper in list(self._helpers):
                    self._receive(helper, 0.0 if call.waiting else POLL_INTERVAL)
                checkpoint()
        finally:  # a stopped request needs no answers
            self._given = {number: origin for number, origin in self._given.items() if origin[0] is not call}
        return call.losses

    def _start(self) -> None:
        """Start the further processes. If none can be started, this process does everything."""
        self._started = True
        with suppress(OSError, RuntimeError):
            for _ in range(beside()):
                self._helpers.append(_Helper())

    def _share_out(self, call: _Call) -> None:
        for helper in list(self._helpers):
            try:
                while call.waiting and len(helper.busy) < AHEAD and helper.ready(self._learner):
                    number, index = next(self._numbers), call.waiting.popleft()
                    self._given[number] = call, index
                    helper.take(number, call.points[index : index + 1])
            except Ended:
                self._lose(helper)

    def _receive(self, helper: _Helper, seconds: float) -> None:
        """Take the losses that a process has computed, waiting up to `seconds` for the first if it has a point."""
        try:
            while helper.busy and (message := helper.child.receive(seconds)) is not None:
                header, arrays = unpack(message)
                helper.busy.discard(header["number"])
                self.elsewhere += header["seconds"]
                origin = self._given.pop(header["number"], None)
                if origin is not None:
                    origin[0].set_losses(origin[1], arrays["losses"][0])
                seconds = 0.0
        except Ended:
            self._lose(helper)

    def _lose(self, helper: _Helper) -> None:
        """Remove a process that has ended; its points wait again."""
        self._helpers.remove(helper)
        for number in sorted(helper.busy & set(self._given)):
            call, index = self._given.pop(number)
            call.waiting.append(index)


def _end(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.child.kill()


def main() -> None:
    """Receive a learner, then points, and answer with the losses there, until the parent ends."""
    parent = Parent(lambda _: False)
    messages = parent.messages()
    parent.send(pack({"ready": True}, {}))
    header, arrays = unpack(next(messages))
    learner = LEARNERS[header["learner"]](arrays, **header["settings"])
    for message in messages:
        header, arrays = unpack(message)
        start = time.process_time()
        with one_thread:  # as in the parent, in any environment
            losses = learner.losses(arrays["points"])
        parent.send(pack(header | {"seconds": time.process_time() - start}, {"losses": losses}))


if __name__ == "__main__":
    main()
