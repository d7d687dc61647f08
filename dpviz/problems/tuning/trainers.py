"""Models with hyper-parameters, and their trainings, which the process of a run shares with further processes if they
take long.

The result of a training depends on its setting alone, so it does not matter which process does it. The further
processes belong to one problem: they are started when it first has enough to do, and end with it, or with the process
that started them. Each of them runs this module: `python -m dpviz.problems.tuning.trainers`.
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
from dpviz.later import require_package
from dpviz.one_thread import one_thread
from dpviz.processes import Child, ParentConnection, ProcessEnded, pack, unpack

# ----------------------------------------------------------------------------------------- models with hyper-parameters
# A learner consists of settings and arrays, so that it can be sent to another process.

JITTER = 1e-10  # added to the diagonal of a kernel matrix, so that rounding cannot make it singular
MAX_STEPS = 100_000  # of a support vector machine, which at some settings would run for hours

# Seconds measured on one core, at 100 to 1000 training and 300 to 9000 validation rows and 5 to 100 features: for an
# entry of a kernel matrix, each product in it, each product of a factorisation, and the fixed cost of a training. For
# support vector machines, at 20 to 2000 training rows: the fixed cost of a training, most of which is scikit-learn's
# check of parameters, and the cost of each pair of rows, by the learner's name.
SECONDS_PER_ENTRY, SECONDS_PER_PRODUCT, SECONDS_PER_FACTORED, SECONDS_OF_A_TRAINING = 1.8e-9, 0.055e-9, 0.045e-9, 1e-4
SECONDS_OF_A_MACHINE, SECONDS_PER_PAIR = 5e-4, {"svr": 2.2e-8, "svc": 1.4e-8}


class Learner(ABC):
    """A model that is trained on rows X (m, p) with targets y (m,), and evaluated on rows V (v, p) with targets z (v,).

    arrays : these four, by the names "x", "y", "v" and "z". settings : numbers of the model that are not tuned.
    name : key of the class in `LEARNERS`. The tuned numbers are the coordinates of a *point* (d,), in logarithms.
    """

    name: ClassVar[str]

    def __init__(self, arrays: Mapping[str, np.ndarray], **settings: Any) -> None:
        if self.name in SECONDS_PER_PAIR:  # a support vector machine of scikit-learn
            require_package("sklearn")
        self.arrays, self.settings = arrays, settings
        self._x, self._y, self._v, self._z = (arrays[name] for name in "xyvz")

    @abstractmethod
    def _losses(self, point: np.ndarray) -> np.ndarray:
        """Train the model at a point (d,), and return the losses (v,) of the validation rows."""

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute the losses (P, v) of the validation rows at points (P, d); NaN where the model cannot be trained."""
        losses = np.full((len(points), len(self._z)), np.nan)
        with np.errstate(all="ignore"):
            for row, point in zip(losses, points, strict=True):
                try:
                    row[:] = self._losses(point)
                except (LinAlgError, ValueError):  # of SciPy, for a singular K; of scikit-learn, for NaN in a kernel
                    continue
        return losses

    def _kernels(self, log_scales: np.ndarray, log_width: float = -math.log(2)) -> tuple[np.ndarray, np.ndarray]:
        """Compute k(X, X) (m, m) and k(V, X) (v, m) with the kernel k(x, z) = exp(-γ ‖(x - z)/ℓ‖²).

        log_scales : (p,) ln ℓ. log_width : ln γ, by default of γ = ½.
        """
        scales = np.exp(log_width / 2 - log_scales)  # √γ/ℓ
        x, v = self._x * scales, self._v * scales
        squares = np.einsum("ij,ij->i", x, x)
        return _exponentials(x, squares, x, squares), _exponentials(v, np.einsum("ij,ij->i", v, v), x, squares)


def _exponentials(a: np.ndarray, a_squares: np.ndarray, b: np.ndarray, b_squares: np.ndarray) -> np.ndarray:
    """Compute exp(-‖a - b‖²) (k, l) for all pairs of rows a (k, p) and b (l, p), given their squared lengths (k,) and
    (l,)."""
    kernel = a @ b.T
    kernel *= 2
    kernel -= a_squares[:, None]
    kernel -= b_squares
    np.minimum(kernel, 0.0, out=kernel)  # rounding may make -‖a - b‖² positive
    return np.exp(kernel, out=kernel)


class ProcessLearner(Learner):
    """Gaussian-process regression with the squared error as loss. A point is ln ℓ (p,), the logarithms of
    length-scales.

    The setting "noise" is the variance of the noise in targets whose own variance is 1.
    """

    name: ClassVar[str] = "process"

    def _fit(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, bool], np.ndarray]:
        """Train the process at a point (p,): return k(X, X) (m, m), k(V, X) (v, m), the Cholesky factor of K = k(X, X)
        + noise · I, and the weights α = K⁻¹ y (m,). Its predictions are k(V, X) α.
        """
        k_xx, k_vx = self._kernels(point)
        noisy = k_xx.copy()
        noisy.flat[:: len(k_xx) + 1] += self.settings["noise"] + JITTER  # on the diagonal
        factor = cho_factor(noisy, lower=True, overwrite_a=True, check_finite=False)
        return k_xx, k_vx, factor, cho_solve(factor, self._y, check_finite=False)

    def _losses(self, point: np.ndarray) -> np.ndarray:
        _, k_vx, _, weights = self._fit(point)
        return np.asarray((self._z - k_vx @ weights) ** 2)

    def gradients(self, points: np.ndarray) -> np.ndarray:
        """Compute the gradients (P, v, p) of the losses of the validation rows with respect to the points (P, p).

        The prediction is k(V, X) α with α = K⁻¹ y, so its derivative by a coordinate is (∂k(V, X)) α - k(V, X) K⁻¹ (∂K)
        α. The derivative of k(r, x) by ln ℓ_j is k(r, x) (r_j - x_j)²/ℓ_j². Products of these matrices with α, for all
        j, follow from products of the kernel matrix with 2p + 1 vectors (`_derivative_products`).
        """
        gradients = np.empty((len(points), *self._v.shape))
        for gradient, point in zip(gradients, points, strict=True):
            k_xx, k_vx, factor, weights = self._fit(point)
            x, v = self._x * np.exp(-point), self._v * np.exp(-point)
            vectors = np.column_stack([weights, x * weights[:, None], x**2 * weights[:, None]])
            solutions = cho_solve(factor, _derivative_products(x, k_xx @ vectors), check_finite=False)  # K⁻¹ (∂K) α
            derivatives = _derivative_products(v, k_vx @ vectors) - k_vx @ solutions  # of predictions
            residuals = self._z - k_vx @ weights
            gradient[:] = -2 * residuals[:, None] * derivatives
        return gradients


def _derivative_products(rows: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Compute Σ_k K_ik (r_ij - x_kj)² α_k (b, p) for b rows r (b, p), where K_ik is the kernel of r_i and x_k.

    products : (b, 2p + 1) the products of K with the vectors α, x_j α and x_j² α for all coordinates j. The square is
        multiplied out: Σ_k K_ik (r_ij² - 2 r_ij x_kj + x_kj²) α_k.
    """
    p = rows.shape[1]
    return np.asarray(rows**2 * products[:, :1] - 2 * rows * products[:, 1 : p + 1] + products[:, p + 1 :])


class RidgeLearner(Learner):
    """Kernel ridge regression with regularisation 1/C, and the squared error as loss.

    A point is ln ℓ (p,), ln ε, ln C, ln γ, as for support vector regression; ε is not used.
    """

    name: ClassVar[str] = "ridge"

    def _losses(self, point: np.ndarray) -> np.ndarray:
        k_xx, k_vx = self._kernels(point[:-3], log_width=float(point[-1]))
        k_xx.flat[:: len(k_xx) + 1] += math.exp(-float(point[-2]))  # 1/C on the diagonal
        factor = cho_factor(k_xx, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray((self._z - k_vx @ cho_solve(factor, self._y, check_finite=False)) ** 2)


class VectorLearner(Learner):
    """Support vector regression, with the squared error as loss. A point is ln ℓ (p,), ln ε, ln C, ln γ."""

    name: ClassVar[str] = "svr"

    def _losses(self, point: np.ndarray) -> np.ndarray:
        from sklearn.svm import SVR  # the import takes half a second, which other learners do not need

        k_xx, k_vx = self._kernels(point[:-3], log_width=float(point[-1]))
        epsilon, cost = np.exp(point[-3:-1])
        machine = SVR(kernel="precomputed", epsilon=float(epsilon), C=float(cost), max_iter=MAX_STEPS)
        with warnings.catch_warnings(action="ignore"):  # of a training that stops early: its losses show that
            machine.fit(k_xx, self._y)
        return np.asarray((self._z - _predict(machine, k_vx)) ** 2)


class ClassifierLearner(Learner):
    """Support vector classification with the hinge loss max(0, 1 - z f) of predictions f. A point is ln ℓ (p,), ln C,
    ln γ."""

    name: ClassVar[str] = "svc"

    def _losses(self, point: np.ndarray) -> np.ndarray:
        from sklearn.svm import SVC

        if (self._y == self._y[0]).all():  # with a single class there is nothing to train: it is predicted everywhere
            return np.maximum(0.0, 1 - self._z * self._y[0])
        k_xx, k_vx = self._kernels(point[:-2], log_width=float(point[-1]))
        machine = SVC(kernel="precomputed", C=math.exp(float(point[-2])), max_iter=MAX_STEPS)
        with warnings.catch_warnings(action="ignore"):
            machine.fit(k_xx, self._y)
        return np.asarray(np.maximum(0.0, 1 - self._z * _predict(machine, k_vx)))


def _predict(machine: Any, kernel: np.ndarray) -> np.ndarray:
    """Return the predictions (v,) of a trained machine for rows V, given their kernel k(V, X) (v, m).

    The machine's own method refuses all rows if one is not finite, so that one user would affect the losses of all.
    """
    return np.asarray(kernel[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0])


LEARNERS: Mapping[str, type[Learner]] = {
    learner.name: learner for learner in (ProcessLearner, RidgeLearner, VectorLearner, ClassifierLearner)
}


def training_seconds(learner: str, m: int, v: int, p: int) -> float:
    """Estimate the seconds of one training on m rows with p features, including the losses of v rows.

    learner : name of the model, a key of `LEARNERS`.
    """
    entries = m * m + m * v
    kernels = entries * (SECONDS_PER_ENTRY + p * SECONDS_PER_PRODUCT)
    if learner in SECONDS_PER_PAIR:
        fit = SECONDS_OF_A_MACHINE + m * m * SECONDS_PER_PAIR[learner]
    else:
        fit = m**3 / 3 * SECONDS_PER_FACTORED
    return SECONDS_OF_A_TRAINING + kernels + fit


# ------------------------------------------------------------------------------------------------- processes that train

VARIABLE = "DPVIZ_TRAINERS"  # environment variable with the number of further processes; 0 for none
MAX_PROCESSES = 3  # the largest number that is used by default
SLOW = 5e-3  # declared seconds of a training from which on it is worth sending it to another process
POLL_INTERVAL = 0.05  # seconds between two checks for a request to stop the run
AHEAD = 2  # points that a process has at a time, so that it need not wait for the next one


def further_processes() -> int:
    """Return the number of further processes that train for a run: the number in the environment, or one for each
    further processor, at most MAX_PROCESSES."""
    variable = os.environ.get(VARIABLE, "")
    if variable.isdecimal():
        return int(variable)
    # The processors that this process (0) may use; all where the system does not tell.
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_PROCESSES, processors - 1)


class _Helper:
    """A further process that trains.

    busy : numbers of the points that it has been sent and has not answered; each point that is sent gets a new number.
    """

    def __init__(self) -> None:
        self.child = Child("dpviz.problems.tuning.trainers")
        self.busy: set[int] = set()
        self._is_ready = False

    def ready(self, learner: Learner) -> bool:
        """Return True if the process has been sent the learner, so that it can be sent points; send the learner as soon
        as the process has said that it has started.

        This does not wait for the process. Raises ProcessEnded if the process has ended.
        """
        if not self._is_ready and self.child.receive(0.0) is not None:
            self._is_ready = True
            self.child.send(pack({"learner": learner.name, "settings": learner.settings}, learner.arrays))
        return self._is_ready

    def send_point(self, number: int, point: np.ndarray) -> None:
        """Send the process a point (1, d) with its number. Raises ProcessEnded if the process has ended."""
        self.busy.add(number)
        self.child.send(pack({"number": number}, {"points": point}))


class _Request:
    """A request for the losses of v rows at points (P, d).

    losses : (P, v), filled in as they arrive. waiting : indices of the points that no process has yet.
    n_missing : number of points without losses.
    """

    def __init__(self, points: np.ndarray, rows: int) -> None:
        self.points, self.losses = points, np.empty((len(points), rows))
        self.waiting, self.n_missing = deque(range(len(points))), len(points)

    def set_losses(self, index: int, losses: np.ndarray) -> None:
        """Set the losses (v,) at the point with this index."""
        self.losses[index] = losses
        self.n_missing -= 1


class Trainers:
    """The processes that train a learner: this one, and further ones if a training takes long.

    A request that is stopped, or one that the callback of a checkpoint makes during another one, does not disturb other
    requests.

    seconds : declared cost of one training. wanted : True if further processes are worth their start; callers then use
    `losses`, else they train here.
    seconds_elsewhere : computing time that the further processes have spent so far.
    """

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner = learner
        self.wanted = seconds >= SLOW and further_processes() > 0
        self._helpers: list[_Helper] = []
        # The points that further processes have, by number: the request that a point is of, and its index there.
        self._sent: dict[int, tuple[_Request, int]] = {}
        self._is_started, self._numbers, self.seconds_elsewhere = False, count(), 0.0
        weakref.finalize(self, _end, self._helpers)

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Compute the losses (P, v) of the validation rows at points (P, d).

        After each training of this process, and while it waits for others, there is a checkpoint, whose callback raises
        an error to stop the request.
        """
        if not self._is_started and len(points) > 1:
            self._is_started = True
            # Where no further process can be started, or no thread that listens to one, this process does everything.
            with suppress(OSError, RuntimeError):
                for _ in range(further_processes()):
                    self._helpers.append(_Helper())
        request = _Request(points, len(self._learner.arrays["z"]))
        try:
            while request.n_missing:
                self._share_out(request)
                if request.waiting:  # this process trains, too
                    index = request.waiting.popleft()
                    request.set_losses(index, self._learner.losses(points[index : index + 1])[0])
                seconds = 0.0 if request.waiting else POLL_INTERVAL  # it waits only without points to train at
                for helper in list(self._helpers):  # a copy, as `_receive` removes one that has ended
                    self._receive(helper, seconds)
                checkpoint()
        finally:  # forget the points of a request that was stopped: losses that still come for them are dropped
            self._sent = {
                number: (other, index) for number, (other, index) in self._sent.items() if other is not request
            }
        return request.losses

    def _share_out(self, request: _Request) -> None:
        """Send waiting points to the further processes that are ready and have fewer than AHEAD points."""
        for helper in list(self._helpers):
            try:
                while request.waiting and len(helper.busy) < AHEAD and helper.ready(self._learner):
                    number, index = next(self._numbers), request.waiting.popleft()
                    self._sent[number] = request, index  # first, as `_remove` gives back the points noted here
                    helper.send_point(number, request.points[index : index + 1])
            except ProcessEnded:
                self._remove(helper)

    def _receive(self, helper: _Helper, seconds: float) -> None:
        """Store the losses that a process has computed, if it has points: wait up to `seconds` for the first message,
        and take those that follow at once."""
        try:
            while helper.busy:
                message = helper.child.receive(seconds)
                if message is None:  # none has arrived
                    break
                header, arrays = unpack(message)
                helper.busy.discard(header["number"])
                self.seconds_elsewhere += header["seconds"]
                request_and_index = self._sent.pop(header["number"], None)
                if request_and_index is not None:  # else its request was stopped
                    request, index = request_and_index
                    request.set_losses(index, arrays["losses"][0])
                seconds = 0.0
        except ProcessEnded:
            self._remove(helper)

    def _remove(self, helper: _Helper) -> None:
        """Remove a process that has ended; the points that it had wait again."""
        self._helpers.remove(helper)
        for number in sorted(helper.busy & set(self._sent)):
            request, index = self._sent.pop(number)
            request.waiting.append(index)


def _end(helpers: list[_Helper]) -> None:
    """End the processes, when the `Trainers` that they belong to are gone."""
    for helper in helpers:
        helper.child.kill()


def main() -> None:
    """Run a further process: receive a learner, then points, and send back losses, until the parent ends."""
    parent = ParentConnection(intercept=lambda _: False)  # no message is dealt with on arrival: all wait in `messages`
    messages = parent.messages()
    parent.send(pack({"ready": True}, {}))
    header, arrays = unpack(next(messages))
    learner = LEARNERS[header["learner"]](arrays, **header["settings"])
    for message in messages:
        header, arrays = unpack(message)
        start = time.process_time()
        with one_thread:  # as in the parent, in any environment
            losses = learner.losses(arrays["points"])
        seconds = time.process_time() - start
        parent.send(pack(header | {"seconds": seconds}, {"losses": losses}))  # the header has the point's number


if __name__ == "__main__":
    main()
