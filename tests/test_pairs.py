from itertools import combinations, product

import pytest

from tests.pairs import covering


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 4, 6, 3), (9, 2, 3, 2, 5), (1, 3, 3)], ids=str)
def test_every_two_values_meet_in_fewer_cases(sizes: tuple[int, ...]) -> None:
    rows, every = covering(sizes), list(product(*map(range, sizes)))
    assert len(set(rows)) == len(rows) <= len(every) and set(rows) <= set(every)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in rows} == {(row[a], row[b]) for row in every}
    largest, second = sorted(sizes)[-1:-3:-1]
    assert largest * second <= len(rows) <= 1.5 * largest * second, "no cover of pairs is shorter than the first"
