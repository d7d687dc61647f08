"""Products with a symmetric matrix plus GOE noise, of which only the part is drawn that the products need.

The law of the noise E does not change under rotations. So the law of its product with a further direction, given the
earlier products, is known: symmetry fixes the part along the earlier directions, and the rest is fresh noise. A few
products of a large matrix then need a few vectors of random numbers instead of a whole matrix of them, and the release
is the same as that of the whole noisy matrix, of which the products are functions: one Gaussian release pays for all.

That is exact as long as each direction is chosen from products that were released before, or without any data: the
caller has to ensure this. And as long as there is one E, so that a direction within the span of earlier ones gets no
fresh noise: this is ensured here. Only products with orthonormal directions are released, each once, and all others are
made of them. The difference between the exact products with two nearly equal directions would reveal a product that no
noise has covered.
"""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from dpviz.privacy.batches import Replicates, require_finite, require_room
from dpviz.privacy.events import Gaussian, Relation
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.releases import Multiplied, Source

_SAME = 1e-13  # relative length; a smaller part of a direction outside the span of the earlier ones is rounding


class MatrixQuery(NamedTuple):
    """Symmetric matrices (R', d, d) computed from data, known by their products alone; made by a Problem.

    times : from directions (R', d) to products (R', d); always of the same matrices. d : their size.
    sensitivity : largest change of a matrix in the Frobenius norm when one row of the data is replaced.
    relation : as in `Query`.
    """

    times: Callable[[np.ndarray], np.ndarray]
    d: int
    sensitivity: float
    relation: Relation = "replace-one"


class MatrixProducts:
    """Products with noisy matrices that have been paid for; any number of them, with any directions.

    noise_scale : standard deviation of the noise on the diagonal; that off it is smaller by √2.
    """

    def __init__(
        self, query: MatrixQuery, event: Gaussian, replicates: Replicates, source: Source, relation: Relation
    ) -> None:
        if query.relation != relation:
            raise LedgerError(f"this run holds under {relation}, the matrices' sensitivity under {query.relation}")
        if not 0 <= query.sensitivity < np.inf:
            raise LedgerError(f"the sensitivity {query.sensitivity} is not a finite number")
        self.noise_scale, self._event = query.sensitivity / event.mu, event
        self._query, self._replicates, self._source = query, np.array(replicates), source
        self._basis = np.empty((len(replicates), 0, query.d))  # orthonormal, for each replicate
        self._noise = np.empty((len(replicates), 0, query.d))  # E times those
        self._released = np.empty((len(replicates), 0, query.d))  # H + E times those
        self._rank = np.zeros(len(replicates), dtype=int)  # directions of each
        self._lock = Lock()

    def times(self, directions: np.ndarray) -> np.ndarray:
        """Return (H + E) v for directions v (R', d), one for each replicate; (R', d)."""
        if directions.shape != (len(self._replicates), self._query.d):
            raise LedgerError(f"products need one direction of {self._query.d} numbers for each replicate")
        require_finite(directions)
        if self.noise_scale == 0:
            return self._exact(directions)
        with self._lock:
            return self._noisy(directions)

    def _exact(self, directions: np.ndarray) -> np.ndarray:
        """Return H v without noise."""
        products = self._query.times(directions)
        require_finite(products)
        return products

    def _noisy(self, directions: np.ndarray) -> np.ndarray:
        """Return (H + E) v: earlier releases along the earlier directions, plus one product along the new part of v."""
        coefficients, outside = self._split(directions)
        products = np.einsum("rk,rkd->rd", coefficients, self._released)
        lengths = np.linalg.norm(outside, axis=1)
        # Outside the span of d directions, or of those that make up this one, there is only rounding.
        new = (lengths > _SAME * np.linalg.norm(directions, axis=1)) & (self._rank < self._query.d)
        if not new.any():
            return products
        unit = np.zeros_like(outside)
        unit[new] = outside[new] / lengths[new, None]
        unit[new] = self._split(unit)[1][new]  # again: of two nearly equal directions few digits remain
        unit[new] /= np.linalg.norm(unit[new], axis=1, keepdims=True)
        exact, by_symmetry = self._exact(unit), self._by_symmetry(unit)
        require_room(exact, self.noise_scale)
        noisy = exact + by_symmetry
        noisy[new] += self._fresh(unit, new)
        mean = exact[new] + by_symmetry[new]
        law = unit[new], self._basis[new], self.noise_scale
        released = np.zeros_like(exact)
        declared = self._query.sensitivity
        product = Multiplied(mean, noisy[new], self._replicates[new], None, *law, event=self._event, change=declared)
        released[new] = self._source._passed(product)
        self._rank += new
        self._basis = np.concatenate([self._basis, unit[:, None]], axis=1)
        self._noise = np.concatenate([self._noise, np.where(new[:, None], released - exact, 0.0)[:, None]], axis=1)
        self._released = np.concatenate([self._released, released[:, None]], axis=1)
        return products + np.where(new, lengths, 0.0)[:, None] * released

    def _split(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients (R', k) along the earlier directions, and the remaining vectors (R', d)."""
        coefficients = np.einsum("rkd,rd->rk", self._basis, vectors)
        return coefficients, vectors - np.einsum("rk,rkd->rd", coefficients, self._basis)

    def _by_symmetry(self, unit: np.ndarray) -> np.ndarray:
        """Return the part ⟨E qᵢ, q⟩ qᵢ of E q that symmetry fixes, for unit q (R', d) orthogonal to all earlier
        ones."""
        return np.einsum("rk,rkd->rd", np.einsum("rkd,rd->rk", self._noise, unit), self._basis)

    def _fresh(self, unit: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Return the rest of E q where q is new: normal noise of scale s along q, of s/√2 orthogonal to all
        directions."""
        sample = self._source._drawn("standard_normal", self._replicates[new], (1 + self._query.d,))
        normals, along = sample[:, 1:], sample[:, :1]
        normals -= np.einsum("rk,rkd->rd", np.einsum("rkd,rd->rk", self._basis[new], normals), self._basis[new])
        normals -= (normals * unit[new]).sum(axis=1, keepdims=True) * unit[new]
        return np.asarray(self.noise_scale * (along * unit[new] + normals / np.sqrt(2)))
