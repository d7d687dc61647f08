from itertools import combinations, product

import pytest

from tests.pairs import all_pairs, covering


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 4, 6, 3), (9, 2, 3, 2, 5), (1, 3, 3)], ids=str)
def test_every_two_values_meet_in_fewer_cases(sizes: tuple[int, ...]) -> None:
    rows, every = covering(sizes), list(product(*map(range, sizes)))
    assert len(set(rows)) == len(rows) <= len(every) and set(rows) <= set(every)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in rows} == {(row[a], row[b]) for row in every}
    largest, second = sorted(sizes)[-1:-3:-1]
    assert largest * second <= len(rows) <= 1.5 * largest * second, "no cover of pairs is shorter than the first"


def test_a_stack_of_parameters_becomes_its_pairs() -> None:
    @all_pairs
    @pytest.mark.parametrize("letter", ["a", "b"])
    @pytest.mark.parametrize(("low", "high"), [(1, 2), (3, 4)], ids=["low", "high"])
    @pytest.mark.parametrize("sign", [-1, 1], ids=lambda sign: f"{sign:+d}")
    def example(letter: str, low: int, high: int, sign: int) -> None:
        """Stands for a test."""

    (mark,) = example.pytestmark  # type: ignore[attr-defined]
    assert mark.args[0] == ["sign", "low", "high", "letter"]
    assert len(mark.args[1]) == 4 and set(mark.args[1]) < set(product((-1, 1), (1, 3), (2, 4), "ab"))
    assert mark.kwargs["ids"] == ["-1-low-a", "-1-high-b", "+1-low-b", "+1-high-a"]
    with pytest.raises(ValueError, match="fewer than three"):
        all_pairs(pytest.mark.parametrize("one", [1])(lambda one: None))
