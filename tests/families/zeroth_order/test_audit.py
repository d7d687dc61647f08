"""What an attacker who knows everything but one row can tell from all estimates of an epoch: what the event says."""

from collections.abc import Iterator

import numpy as np
import pytest

from dpviz.families.zeroth_order import theory
from dpviz.privacy.events import Gaussian
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.matrix_factorisation import BinaryTree, Draw, Factorisation, binary_tree, restarted
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query

DRAWS = 200_000
ERROR = 4 * np.sqrt(2 / DRAWS)  # four standard errors of a difference of means, in standard deviations


def released(sums: Factorisation, leaf: int, change: float, seed: int, draws: int = DRAWS) -> np.ndarray:
    """(T, draws) running sums at μ = 1 of queries with sensitivity 1, all 0 but that of one leaf, from 1."""
    mechanisms = Mechanisms(Ledger(FixedEvents((Gaussian(1.0),)), 1), seed)
    leaves = mechanisms.leaves([1] * sums.length, sums.length)
    running = mechanisms.prefix_sums(Gaussian(1.0), sums, leaves, 1.0, (draws,))
    found = []
    for t in range(1, sums.length + 1):
        value = np.full((1, draws), change if t == leaf else 0.0)
        found.append(running.add(Query(value, 1.0, "l2", leaves.next()))[0])
    return np.array(found)


def told(sums: Factorisation, leaf: int, covariance: np.ndarray, draws: int = DRAWS) -> float:
    """μ of the best test between a row's two worst values, a distance of 1 apart, if the noise has this covariance."""
    first = leaf - 1
    last = first - first % sums.period + sums.period
    shift = np.zeros(sums.length)
    shift[first:last] = 1.0
    weights = np.linalg.solve(covariance, shift)
    one, two = (weights @ released(sums, leaf, change, seed, draws) for seed, change in ((1, 0.5), (2, -0.5)))
    return float((one.mean() - two.mean()) / np.sqrt((one.var() + two.var()) / 2))


def claimed(sums: Factorisation) -> np.ndarray:
    return float(sums.sensitivity()) ** 2 * sums.decoder() @ sums.decoder().T


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree", "honaker", "square_root", "normalised", "optimal", "independent"])
def test_no_leaf_of_any_epoch_tells_more_than_the_event(name: theory.Sums) -> None:
    """Of a tree of 4 steps, leaf 1 tells all of μ, leaf 2 √(2/3) of it, leaf 4 √(1/3): the columns of C."""
    sums = restarted(theory.factorisation(name, 4), 2)
    expected = sums.column_norms / sums.column_norms.max()
    for leaf in (1, 2, 4, 5, 8):
        assert told(sums, leaf, claimed(sums)) == pytest.approx(expected[leaf - 1], abs=ERROR)
    if name == "tree":
        assert expected[[0, 1, 3]] == pytest.approx([1, 0.817, 0.577], abs=1e-3)


@pytest.mark.slow
def test_noise_that_is_drawn_afresh_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """E7: 1.08 in place of 1 for 4 steps, 1.94 for 64."""

    def wrong(self: BinaryTree, draw: Draw) -> Iterator[np.ndarray]:
        for t in range(1, self.length + 1):
            yield draw() * np.sqrt(t.bit_count())

    monkeypatch.setattr(BinaryTree, "stream", wrong)
    for length, draws, mu in ((4, DRAWS, 1.08), (64, 20_000, 1.94)):
        sums = binary_tree(length)
        seen = float(sums.sensitivity()) ** 2 * np.diag(sums.row_norms**2)
        found = told(sums, 1, seen, draws)
        assert found > 1.02 and found == pytest.approx(mu, abs=0.01 + 4 * np.sqrt(2 / draws))
