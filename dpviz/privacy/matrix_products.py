"""Products of vectors with a noisy symmetric matrix H + E, for which only the noise that they need is drawn.

H is computed from data. E is noise of the Gaussian orthogonal ensemble (GOE): symmetric, normal, with standard
deviation s on the diagonal and s/√2 off it. Its law does not change under rotations. So the law of its product with a
further direction, given the earlier products, is known: symmetry fixes the part along the earlier directions, and the
rest is fresh noise. A few products with a large matrix then need a few vectors of random numbers instead of a whole
matrix of them. The products are functions of the noisy matrix H + E, so one Gaussian release of that pays for all.

This is exact under two conditions. Each direction must be chosen without data, or from products that were released
before; the caller has to ensure this. And all products must use the same E, so that a direction within the span of
earlier ones gets no fresh noise; this module ensures it: only products with orthonormal directions are released, each
once, and all others are computed from them. If instead exact products with two nearly equal directions were used, their
difference would reveal a product that no noise has covered.

In the shapes, R' is the number of replicates (simulated runs), d the size of the matrices and k the number of
orthonormal directions so far.
"""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from dpviz.privacy.batches import Replicates, require_finite, require_precision
from dpviz.privacy.events import Gaussian, Relation
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.releases import ProductRelease, Source

# The part of a direction outside the span of the earlier ones is rounding if its relative length is below this.
_SAME = 1e-13


class MatrixQuery(NamedTuple):
    """Symmetric matrices (R', d, d) that are computed from data, given as a function for products; made by a Problem.

    times : maps vectors (R', d), one for each matrix, to their exact products (R', d).
    d : number of rows of a matrix.
    sensitivity : largest change of a matrix in the Frobenius norm when one row of the data changes as `relation` says.
    relation : the neighbouring relation under which the sensitivity holds.
    """

    times: Callable[[np.ndarray], np.ndarray]
    d: int
    sensitivity: float
    relation: Relation = "replace-one"


class MatrixProducts:
    """Products with noisy matrices H + E that have been paid for: any number of them, with any directions.

    noise_scale : s, the standard deviation of the noise on the diagonal; off the diagonal it is s/√2.
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
        # The orthonormal directions of each replicate, (R', k, d), and the products of E and of H + E with them. Where
        # a replicate needed no new direction for a product, its entry is a vector of zeros.
        self._basis = np.empty((len(replicates), 0, query.d))
        self._noise = np.empty((len(replicates), 0, query.d))
        self._released = np.empty((len(replicates), 0, query.d))
        self._rank = np.zeros(len(replicates), dtype=int)  # number of directions that are not zero
        self._lock = Lock()

    def times(self, directions: np.ndarray) -> np.ndarray:
        """Return the noisy products (H + E) v, (R', d), with directions v (R', d), one for each replicate."""
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
        """Return (H + E) v, (R', d), and release the product with one new direction if v needs it.

        v is split into a part in the span of the earlier directions and a rest, length · unit. Its product is composed
        of the earlier releases and of the product with `unit`, which is released now and joins the basis.
        """
        coefficients, outside = self._split(directions)
        products = np.einsum("rk,rkd->rd", coefficients, self._released)
        lengths = np.linalg.norm(outside, axis=1)
        # The rest is only rounding if v lies in the span, and whenever the span has all d dimensions.
        is_new = (lengths > _SAME * np.linalg.norm(directions, axis=1)) & (self._rank < self._query.d)  # (R',)
        if not is_new.any():
            return products
        unit = np.zeros_like(outside)  # remains zero for replicates that need no new direction
        unit[is_new] = outside[is_new] / lengths[is_new, None]
        # A short rest has few exact digits, so it is made orthogonal to the earlier directions a second time.
        _, unit_outside = self._split(unit)
        unit[is_new] = unit_outside[is_new]
        unit[is_new] /= np.linalg.norm(unit[is_new], axis=1, keepdims=True)

        exact, symmetric_part = self._exact(unit), self._symmetric_part(unit)
        require_precision(exact, self.noise_scale)
        noisy = exact + symmetric_part
        noisy[is_new] += self._fresh_part(unit, is_new)
        product = ProductRelease(
            exact[is_new] + symmetric_part[is_new],  # the mean, given the earlier products
            noisy[is_new],
            self._replicates[is_new],
            batch=None,
            unit=unit[is_new],
            basis=self._basis[is_new],
            scale=self.noise_scale,
            event=self._event,
            declared_sensitivity=self._query.sensitivity,
        )
        released = np.zeros_like(exact)
        # In the second run of an audit it is the product that the first run released, so `noisy` is not used below.
        released[is_new] = self._source._passed(product)
        noise = np.where(is_new[:, None], released - exact, 0.0)
        self._rank += is_new
        self._basis = np.concatenate([self._basis, unit[:, None]], axis=1)
        self._noise = np.concatenate([self._noise, noise[:, None]], axis=1)
        self._released = np.concatenate([self._released, released[:, None]], axis=1)
        return products + np.where(is_new, lengths, 0.0)[:, None] * released

    def _split(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients (R', k) of vectors (R', d) along the earlier directions, and what remains of the
        vectors outside their span, (R', d)."""
        coefficients = np.einsum("rkd,rd->rk", self._basis, vectors)
        return coefficients, vectors - np.einsum("rk,rkd->rd", coefficients, self._basis)

    def _symmetric_part(self, unit: np.ndarray) -> np.ndarray:
        """Return the part of E q along the earlier directions qᵢ, (R', d), for unit q (R', d) orthogonal to them.

        E is symmetric, so ⟨qᵢ, E q⟩ = ⟨E qᵢ, q⟩, which the earlier products fix: the part is Σᵢ ⟨E qᵢ, q⟩ qᵢ.
        """
        inner_products = np.einsum("rkd,rd->rk", self._noise, unit)
        return np.einsum("rk,rkd->rd", inner_products, self._basis)

    def _fresh_part(self, unit: np.ndarray, is_new: np.ndarray) -> np.ndarray:
        """Draw the rest of E q, for the replicates with a new direction q (`is_new`, (R',) bool).

        It is normal, of standard deviation s along q, and s/√2 in each direction orthogonal to q and all earlier ones.
        """
        # d normals are drawn and projected: the part along q and the earlier directions is taken off again.
        sample = self._source._drawn("standard_normal", self._replicates[is_new], (1 + self._query.d,))
        along_unit, normals = sample[:, :1], sample[:, 1:]
        earlier, unit = self._basis[is_new], unit[is_new]
        normals -= np.einsum("rk,rkd->rd", np.einsum("rkd,rd->rk", earlier, normals), earlier)
        normals -= (normals * unit).sum(axis=1, keepdims=True) * unit
        return np.asarray(self.noise_scale * (along_unit * unit + normals / np.sqrt(2)))
