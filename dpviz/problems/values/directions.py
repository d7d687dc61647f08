"""Random directions for estimates of a slope from values: public, and cheap, as one bank of them is turned anew."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from dpviz.checkpoints import checkpoint

Kind = Literal["iid", "orthonormal"]

MOST_SETS, BANK_BYTES, FEWEST_SETS = 1024, 32_000_000, 16
MOST_SEEN, AT_ONCE = 32, 400_000  # directions of a row in diagnostics; numbers that are drawn at once for these
_SEED = 3_141_592_653  # of the banks, which are public constants; the streams of a run are derived from hashes


def haar(normals: np.ndarray) -> np.ndarray:
    """Rotations (and reflections) (..., d, d), uniform over all, from standard normal numbers (..., d, d); of (..., d,
    k) numbers the first k columns of such.

    The signs matter: without them the first column would prefer one half of the sphere (Mezzadri 2007).
    """
    q, r = np.linalg.qr(normals)
    return np.asarray(q * np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :])


def bank_size(count: int, d: int) -> int:
    """Sets of `count` directions in a bank: at most 1,024, and 32 MB as long as these are 16 sets or more."""
    return min(MOST_SETS, max(FEWEST_SETS, BANK_BYTES // (8 * count * d)))


def bank_bytes(count: int, d: int) -> float:
    """What such a bank takes."""
    return 8.0 * bank_size(count, d) * count * d


@lru_cache(maxsize=4)
def bank(kind: Kind, count: int, d: int) -> np.ndarray:
    """(P, m, d) sets of m unit vectors, read-only: independent of each other, or orthonormal within a set (m ≤ d)."""
    generator, size = np.random.default_rng((_SEED, count, d)), bank_size(count, d)
    if kind == "iid":
        sets = generator.standard_normal((size, count, d))
        sets /= np.linalg.norm(sets, axis=2, keepdims=True)
    else:
        sets = np.empty((size, count, d))
        for one in sets:  # so that no (P, d, d) array is needed for few directions in a large space
            one[:] = haar(generator.standard_normal((d, d)))[:, :count].T
    sets.flags.writeable = False
    return sets


@lru_cache(maxsize=4)
def seen(count: int, d: int, size: int) -> np.ndarray:
    """(m, size, k) coordinates of the first m = min(d, 32) of d orthonormal directions, in uniform position, along k
    fixed ones, read-only: what each of so many rows sees that looks at k numbers."""
    generator, sets = np.random.default_rng((_SEED, count, d, size)), np.empty((min(d, MOST_SEEN), size, count))
    for part in np.array_split(sets, -(-size * d * count // AT_ONCE), axis=1):  # views
        checkpoint()
        part[:] = haar(generator.standard_normal((part.shape[1], d, count)))[:, :MOST_SEEN].transpose(1, 0, 2)
    sets.flags.writeable = False
    return sets


class Directions:
    """Sets of m directions, one for each row of a batch, and other ones for every replicate.

    Row i of a replicate gets set i of a bank, turned by a rotation G that the replicate draws: u = G v. The bank's sets
    are independent, so two rows' turned sets are, and each is as uniform as a fresh one; means and variances of batch
    averages are those of fresh directions. A bank that is shorter than the batch is turned again for the rest.

    generators : (R') public streams. start : in [0, 1), where in the bank to begin, the same for all replicates.
    """

    def __init__(
        self, kind: Kind, count: int, d: int, generators: Sequence[np.random.Generator], start: float = 0.0
    ) -> None:
        self.kind, self.count, self.d = kind, count, d
        self._generators, self._start = generators, start

    @property
    def spread(self) -> float:
        """ς: the length of (1/m) Σ_j ε_j u_j is at most this, for any |ε_j| ≤ 1."""
        return spread(self.kind, self.count)

    def parts(self, size: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """For rows 0..size in parts: which rows, their sets (b, m, d) in the bank, and the rotations (R', d, d)."""
        sets = bank(self.kind, self.count, self.d)
        for begin in range(0, size, len(sets)):
            rows = slice(begin, min(begin + len(sets), size))
            first = int(self._start * (len(sets) - (rows.stop - rows.start) + 1))
            normals = np.empty((len(self._generators), self.d, self.d))
            for one, generator in zip(normals, self._generators, strict=True):
                one[:] = generator.standard_normal(one.shape)
            yield rows, sets[first : first + rows.stop - rows.start], haar(normals)


def singles(law: Literal["sphere", "normal"], d: int, generators: Sequence[np.random.Generator]) -> np.ndarray:
    """(R', d) one direction for every replicate, of mean squared length d: N(0, I), or uniform on the sphere."""
    found = np.array([generator.standard_normal(d) for generator in generators])
    return found if law == "normal" else found * (np.sqrt(d) / np.linalg.norm(found, axis=1, keepdims=True))


def spread(kind: Kind, count: int) -> float:
    """ς = 1 for independent directions, which might all be one; 1/√m for orthonormal ones, by Pythagoras."""
    return 1.0 if kind == "iid" else count**-0.5
