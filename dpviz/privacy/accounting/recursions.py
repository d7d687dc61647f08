"""Linear recursions with constant coefficients, without a loop in Python.

`scipy.signal.lfilter` solves them too, but its package takes 0.7 s to import; `scipy.linalg` is there anyway.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dtbtrs

Floats = NDArray[np.float64]


def recursion(coefficients: Sequence[float], force: ArrayLike, memory: Sequence[float] = ()) -> Floats:
    """(T,) y_t = f_t + Σ_k c_k y_{t-k} for force f (T,), coefficients c_1, c_2, … and y = 0 before.

    memory : what earlier values add to the first entries of the force. Values that overflow become inf or nan.

    It is a triangular system with few diagonals, solved forwards.
    """
    right = np.array(force, dtype=np.float64)
    added = memory[: len(right)]
    right[: len(added)] += added
    band = np.empty((len(coefficients) + 1, len(right)), order="F")
    band[0] = 1.0
    band[1:] = -np.asarray(coefficients, dtype=np.float64)[:, None]
    solution, _ = dtbtrs(band, right, uplo="L", diag="U")
    return np.asarray(solution)
