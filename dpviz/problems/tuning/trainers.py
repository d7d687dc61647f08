"""Trainings that take long, shared out over processes beside the one that asks for them.

A training depends on its setting alone, so who does it makes no difference. The processes belong to one problem: they
are started when it first has enough to do, and end with it, or with the process that started them. Each runs this
module: `python -m dpviz.problems.tuning.trainers`.
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
# A learner is settings and arrays, so that it can be sent to a worker process; what it finds at a setting depends on
# that setting alone.

JITTER = 1e-10
MOST_STEPS = 100_000  # of a support vector machine, which at some settings would go on for hours

# Measured on one core, at 100 to 1000 training and 300 to 9000 validation rows and 5 to 100 features: an entry of a
# kernel matrix, each product in it, each product of a factorisation, and what every training takes. Of support vector
# machines, at 20 to 2000 training rows, what each training takes, most of which is scikit-learn's looking at
# parameters, and each pair of rows, by the learner's name.
SECONDS_PER_ENTRY, SECONDS_PER_PRODUCT, SECONDS_PER_FACTORED, SECONDS_OF_A_TRAINING = 1.8e-9, 0.055e-9, 0.045e-9, 1e-4
SECONDS_OF_A_MACHINE, SECONDS_PER_PAIR = 5e-4, {"svr": 2.2e-8, "svc": 1.4e-8}


class Learner(ABC):
    """What is trained on rows X (m, p) with targets y (m,), and judged on rows V (v, p) with targets z (v,).

    arrays : "x", "y", "v", "z". settings : numbers that it needs beside them.
    """

    name: ClassVar[str]

    def __init__(self, arrays: Mapping[str, np.ndarray], **settings: Any) -> None:
        self.arrays, self.settings = arrays, settings
        self._x, self._y, self._v, self._z = (arrays[name] for name in "xyvz")

    @abstractmethod
    def _losses(self, point: np.ndarray) -> np.ndarray:
        """(v,) at a setting (d,)."""

    def losses(self, points: np.ndarray) -> np.ndarray:
        """(P, v) the losses of the validation rows at settings (P, d); NaN where a model cannot be trained."""
        found = np.full((len(points), len(self._z)), np.nan)
        with np.errstate(all="ignore"):
            for row, point in zip(found, points, strict=True):
                try:
                    row[:] = self._losses(point)
                except (LinAlgError, ValueError):
                    continue
        return found

    def _kernels(self, log_scales: np.ndarray, log_width: float = -math.log(2)) -> tuple[np.ndarray, np.ndarray]:
        """k(X, X) (m, m) and k(V, X) (v, m), k(x, z) = exp(-γ ‖(x - z)/ℓ‖²) with γ = ½ if nothing else is said."""
        scales = np.exp(log_width / 2 - log_scales)
        x, v = self._x * scales, self._v * scales
        squares = np.einsum("ij,ij->i", x, x)
        return _exponentials(x, squares, x, squares), _exponentials(v, np.einsum("ij,ij->i", v, v), x, squares)


def _exponentials(a: np.ndarray, a_squares: np.ndarray, b: np.ndarray, b_squares: np.ndarray) -> np.ndarray:
    """exp(-‖a - b‖²) for all pairs of rows."""
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
        """k(X, X), k(V, X), the factor of k(X, X) + noise and (that)⁻¹ y."""
        inner, outer = self._kernels(point)
        noisy = inner.copy()
        noisy.flat[:: len(inner) + 1] += self.settings["noise"] + JITTER
        factor = cho_factor(noisy, lower=True, overwrite_a=True, check_finite=False)
        return inner, outer, factor, cho_solve(factor, self._y, check_finite=False)

    def _losses(self, point: np.ndarray) -> np.ndarray:
        _, outer, _, weights = self._fitted(point)
        return np.asarray((self._z - outer @ weights) ** 2)

    def gradients(self, points: np.ndarray) -> np.ndarray:
        """(P, v, d) of the losses with respect to the settings. ∂K/∂log ℓ_j = K ∘ δ_j²/ℓ_j², so that all of them act on
        a vector by products of K with 2p + 1 vectors."""
        found = np.full((len(points), *self._v.shape), np.nan)
        for row, point in zip(found, points, strict=True):
            inner, outer, factor, weights = self._fitted(point)
            x, v = self._x * np.exp(-point), self._v * np.exp(-point)
            acted = np.column_stack([weights, x * weights[:, None], x**2 * weights[:, None]])
            bent = cho_solve(factor, _moved(x, inner @ acted), check_finite=False)
            residuals = self._z - outer @ weights
            row[:] = -2 * residuals[:, None] * (_moved(v, outer @ acted) - outer @ bent)
        return found


def _moved(rows: np.ndarray, products: np.ndarray) -> np.ndarray:
    """(b, p) Σ_k K_ik (r_ij - x_kj)² α_k from K α, K (x_j α) and K (x_j² α), side by side in products (b, 2p + 1)."""
    p = rows.shape[1]
    return np.asarray(rows**2 * products[:, :1] - 2 * rows * products[:, 1 : p + 1] + products[:, p + 1 :])


class RidgeLearner(Learner):
    """Kernel ridge regression with λ = 1/C; a setting is log ℓ (p,), log ε, log C, log γ. It has no use for ε."""

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
        from sklearn.svm import SVR  # half a second, that nobody waits for who tunes something else

        inner, outer = self._kernels(point[:-3], float(point[-1]))
        epsilon, cost = np.exp(point[-3:-1])
        machine = SVR(kernel="precomputed", epsilon=float(epsilon), C=float(cost), max_iter=MOST_STEPS)
        with warnings.catch_warnings(action="ignore"):  # that it has not converged: its loss tells
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
    """(v,) what a trained machine says of rows, from k(V, X). Its own method refuses all rows if one is not finite, so
    that one user would decide about the losses of all."""
    return np.asarray(kernel[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0])


LEARNERS: Mapping[str, type[Learner]] = {
    learner.name: learner for learner in (ProcessLearner, RidgeLearner, VectorLearner, ClassifierLearner)
}


def training_seconds(learner: str, m: int, v: int, p: int) -> float:
    """About how long one training on m rows of p features takes, with the losses of v rows."""
    entries = m * m + m * v
    kernels = entries * (SECONDS_PER_ENTRY + p * SECONDS_PER_PRODUCT)
    if learner in SECONDS_PER_PAIR:
        fit = SECONDS_OF_A_MACHINE + m * m * SECONDS_PER_PAIR[learner]
    else:
        fit = m**3 / 3 * SECONDS_PER_FACTORED
    return SECONDS_OF_A_TRAINING + kernels + fit


# ------------------------------------------------------------------------------------------------- processes that train

VARIABLE, MOST = "DPVIZ_TRAINERS", 3  # processes beside a run, unless the variable says otherwise; 0: none
SLOW = 5e-3  # declared seconds of a training from which on it is worth to send it elsewhere
LOOK = 0.05  # seconds between two looks at whether somebody wants the run to stop
AHEAD = 2  # points that a process has at a time, so that it need not wait for the next


def beside() -> int:
    """How many processes a run may have beside it: one for each further processor, if nothing else is said."""
    stated = os.environ.get(VARIABLE, "")
    if stated.isdecimal():
        return int(stated)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST, processors - 1)


class _Helper:
    """A process, and the numbers of the points that it has."""

    def __init__(self) -> None:
        self.child = Child("dpviz.problems.tuning.trainers")
        self.busy: set[int] = set()
        self._ready = False

    def ready(self, learner: Learner) -> bool:
        """Whether it has started, and so has the learner. Nobody waits for it: there is something to do here, too.
        Raises Ended if it has."""
        if not self._ready and self.child.receive(0.0) is not None:
            self._ready = True
            self.child.send(pack({"learner": learner.name, "settings": learner.settings}, learner.arrays))
        return self._ready

    def take(self, number: int, point: np.ndarray) -> None:
        """Give it a point (1, d). Raises Ended if nobody takes it."""
        self.busy.add(number)
        self.child.send(pack({"number": number}, {"points": point}))


class _Call:
    """Points that somebody asks about: those that wait, and what has been found of the others."""

    def __init__(self, points: np.ndarray, rows: int) -> None:
        self.points, self.found = points, np.empty((len(points), rows))
        self.waiting, self.missing = deque(range(len(points))), len(points)

    def take(self, place: int, losses: np.ndarray) -> None:
        """The losses (v,) at a point."""
        self.found[place] = losses
        self.missing -= 1


class Trainers:
    """Who trains: this process, and others beside it if a training takes `seconds` and that is long.

    Who has been stopped while it asked, or asks again at a checkpoint, disturbs no other one.

    elsewhere : seconds of computing time that the others have taken so far.
    """

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner, self.wanted = learner, seconds >= SLOW and beside() > 0
        self._helpers: list[_Helper] = []
        self._given: dict[int, tuple[_Call, int]] = {}  # what the others have, by its number: whose, and which point
        self._started, self._numbers, self.elsewhere = False, count(), 0.0
        weakref.finalize(self, _end, self._helpers)

    def losses(self, points: np.ndarray) -> np.ndarray:
        """(P, v) the losses of the validation rows at points (P, d), with a checkpoint after each training."""
        if not self._started and len(points) > 1:
            self._start()
        call = _Call(points, len(self._learner.arrays["z"]))
        try:
            while call.missing:
                self._share_out(call)
                if call.waiting:
                    place = call.waiting.popleft()
                    call.take(place, self._learner.losses(points[place : place + 1])[0])
                for helper in list(self._helpers):
                    self._hear(helper, 0.0 if call.waiting else LOOK)
                checkpoint()
        finally:  # who has stopped wants no answers
            self._given = {number: asked for number, asked in self._given.items() if asked[0] is not call}
        return call.found

    def _start(self) -> None:
        """Start the others. Where none can be, this process does everything."""
        self._started = True
        with suppress(OSError, RuntimeError):
            for _ in range(beside()):
                self._helpers.append(_Helper())

    def _share_out(self, call: _Call) -> None:
        for helper in list(self._helpers):
            try:
                while call.waiting and len(helper.busy) < AHEAD and helper.ready(self._learner):
                    number, place = next(self._numbers), call.waiting.popleft()
                    self._given[number] = call, place
                    helper.take(number, call.points[place : place + 1])
            except Ended:
                self._lose(helper)

    def _hear(self, helper: _Helper, seconds: float) -> None:
        """Take what a process has found, waiting for it so long if it has something to do."""
        try:
            while helper.busy and (message := helper.child.receive(seconds)) is not None:
                header, arrays = unpack(message)
                helper.busy.discard(header["number"])
                self.elsewhere += header["seconds"]
                asked = self._given.pop(header["number"], None)
                if asked is not None:
                    asked[0].take(asked[1], arrays["losses"][0])
                seconds = 0.0
        except Ended:
            self._lose(helper)

    def _lose(self, helper: _Helper) -> None:
        """A process has ended: what it had must be done by others."""
        self._helpers.remove(helper)
        for number in sorted(helper.busy & set(self._given)):
            call, place = self._given.pop(number)
            call.waiting.append(place)


def _end(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.child.kill()


def main() -> None:
    """Take a learner, then points, and answer with the losses there, until nobody asks any more."""
    parent = Parent(lambda _: False)
    messages = parent.messages()
    parent.send(pack({"ready": True}, {}))
    header, arrays = unpack(next(messages))
    learner = LEARNERS[header["learner"]](arrays, **header["settings"])
    for message in messages:
        header, arrays = unpack(message)
        began = time.process_time()
        with one_thread:  # as in the run beside it, whatever the environment says
            losses = learner.losses(arrays["points"])
        parent.send(pack(header | {"seconds": time.process_time() - began}, {"losses": losses}))


if __name__ == "__main__":
    main()
