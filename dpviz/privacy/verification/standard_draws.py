"""Releases in units of their declared noise: what would be standard draws, if the noise were as declared.

The declared law follows from the event that was paid for and from the query's sensitivity; the law and the scale that
were really drawn with are not looked at.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.events import Gaussian, Laplace
from dpviz.privacy.releases import Multiplied, Noised, Release, Standard, Summed


def declared_scale(release: Release) -> Floats | None:
    """(R',) the declared scale of the noise, 0 where no row moves the query; None where there is no noise: of choices,
    and without privacy."""
    noisy = isinstance(release, Noised | Summed | Multiplied) and isinstance(release.event, Laplace | Gaussian)
    if not noisy or not 0 < release.paid < np.inf:
        return None
    change = np.asarray(release.change, dtype=float)
    if isinstance(release, Summed):
        change = (change * np.linalg.norm(release.factorisation.encoder(), axis=0)).max(axis=-1)
    return np.broadcast_to(change / release.paid, len(release.value))


def law_of(release: Release) -> Standard:
    """Of its draws, as the event says."""
    return "laplace" if isinstance(release.event, Laplace) else "standard_normal"


def standard_draws(noted: Sequence[Release], replicates: int) -> list[np.ndarray | None]:
    """For every release (R', k) draws, nan where no row moves the query; None where no noise is declared.

    replicates : R, of the run.
    """
    past: dict[int, list[np.ndarray]] = {}
    draws: list[np.ndarray | None] = []
    for release in noted:
        scale = declared_scale(release)
        if scale is None:
            draws.append(None)
            continue
        away = (release.output - release.value).reshape(len(scale), -1)
        units = away / np.where(scale > 0, scale, 1.0)[:, None]
        if isinstance(release, Summed):
            units = whitened(release, units, past.setdefault(id(release.series), []), replicates)
        elif isinstance(release, Multiplied):
            units = _along_and_across(release, units)
        draws.append(np.where(scale[:, None] > 0, units, np.nan))
    return draws


def whitened(release: Summed, away: np.ndarray, past: list[np.ndarray], replicates: int) -> np.ndarray:
    """(R', k) the last row of z = B⁻¹ (y - x)/σ, with the running sums before, `past`, to which this one is added.

    away : (R', k) distances in units of σ. replicates : R, of the run.
    """
    noise = np.zeros((replicates, away.shape[1]))
    noise[release.replicates] = away
    past.append(noise)
    decoder = release.factorisation.decoder()[: len(past), : len(past)]
    draws = solve_triangular(decoder, np.stack(past).reshape(len(past), -1), lower=True)[-1]
    return np.asarray(draws.reshape(noise.shape)[release.replicates])


def _along_and_across(release: Multiplied, away: np.ndarray) -> np.ndarray:
    """(R', d - earlier) along the direction, and √2 times what is across it and all earlier ones, in some basis."""
    rows, earlier, d = release.basis.shape
    spanning = np.concatenate([release.basis, release.unit[:, None], np.broadcast_to(np.eye(d), (rows, d, d))], axis=1)
    basis = np.linalg.qr(spanning.transpose(0, 2, 1))[0][:, :, earlier + 1 :]
    along = (away * release.unit).sum(axis=1, keepdims=True)
    return np.concatenate([along, np.sqrt(2) * np.einsum("rdk,rd->rk", basis, away)], axis=1)
