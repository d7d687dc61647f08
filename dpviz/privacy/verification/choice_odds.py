"""Whether choices are as frequent as declared: likelihood ratios of other laws, on all choices of all runs.

Under the declared law the expectation of such a ratio is 1, whatever utilities depend on: 1/x bounds the chance that
it is ever x or more (Ville 1939). So does 1 over the mean of several ratios.
"""

import math

import numpy as np
from scipy.special import logsumexp

from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.releases import Selected

_SCALES = (0.5, 0.71, 0.9, 1.1, 1.41, 2.0)  # times the declared noise
_TILTS = (-0.3, 0.3)  # of the logarithm of one weight: of an index, of what was chosen before or in the run before
_INDICES = 4


class ChoiceOdds:
    """Logarithms of the likelihood ratios so far, by the other law."""

    def __init__(self) -> None:
        self._odds: dict[str, float] = {}

    def add(self, release: Selected, last: dict[int, np.ndarray], runs: int) -> None:
        """Choices of so many runs. last : by the number of options, what each run chose before; brought up to date."""
        change = np.broadcast_to(np.asarray(release.change, dtype=float), len(release.output))
        if not 0 < release.paid < math.inf:
            return
        moves = change > 0  # where no row moves the utilities, the best index is public
        slope = release.paid / np.where(moves, change, 1.0)
        logits = release.log_weights(slope)
        logits = np.broadcast_to(logits, (*release.output.shape, logits.shape[-1]))
        drawn = (release.output >= 0) & moves[:, None]
        chosen, weights, options = release.output[drawn], logits[drawn], logits.shape[-1]
        earlier = last.get(options, np.full(runs, -1))
        before = np.broadcast_to(earlier[release.replicates][:, None], drawn.shape)[drawn]
        last[options] = earlier.copy()
        last[options][release.replicates] = release.output[:, 0]
        places = np.arange(options)
        tilted = {f"index {index}": places == index for index in range(min(options, _INDICES))}
        tilted["as before"] = places == before[:, None]
        tilted["as in the last run"] = places == np.concatenate([[-1], chosen[:-1]])[:, None]
        others = {f"noise {scale}": weights / scale for scale in _SCALES}
        others |= {f"{name} {tilt}": weights + tilt * which for name, which in tilted.items() for tilt in _TILTS}
        declared = _log_chances(weights, chosen)
        for name, other in others.items():
            self._odds[name] = self._odds.get(name, 0.0) + float((_log_chances(other, chosen) - declared).sum())

    def p_value(self) -> float:
        """1 over the mean ratio, at most 1."""
        odds = np.array(list(self._odds.values()))
        return math.exp(min(0.0, math.log(len(odds)) - float(logsumexp(odds)))) if len(odds) else 1.0


def _log_chances(weights: np.ndarray, chosen: np.ndarray) -> Floats:
    """(N,) logarithms of the probabilities of what was chosen. weights : (N, k) logarithms, the largest about 0."""
    picked = np.take_along_axis(weights, chosen[:, None], axis=1)[:, 0]
    return np.asarray(picked - np.log(np.exp(weights).sum(axis=1)))
