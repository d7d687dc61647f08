"""Sentences about groups name the right group, and say why the game names another one."""

import numpy as np
import pytest

from dpviz.families.mirror_descent import texts
from dpviz.families.mirror_descent.texts import Losses
from dpviz.problems.games.grouped import Rates

GROUPS = ("White", "Black", "other")
COUNTS = np.array([900, 100, 0])
EQUAL = np.array([0.45, 0.45, 0.1])
MEANS = np.array([0.32, 0.5, np.nan])
WEIGHED = np.array([0.64, 0.111, 0.0])


def test_the_group_with_the_highest_mean_is_named_first_and_the_games_choice_is_explained() -> None:
    text = texts.worst("Vertex sampling", GROUPS, MEANS, WEIGHED, COUNTS, EQUAL)
    assert text.startswith("**Black** is worst off with Vertex sampling") and "0.5 (100 rows)" in text
    assert "The game sees **White** as the worst instead" in text and "0.32 × 0.9 / 0.45 = 0.64" in text


def test_nothing_is_explained_where_both_agree() -> None:
    text = texts.worst("Vertex sampling", GROUPS, MEANS, np.array([0.32, 0.5, 0.0]), COUNTS, EQUAL)
    assert "Black" in text and "White" not in text and "instead" not in text


def test_shares_that_are_far_off_are_listed() -> None:
    text = texts.shares_differ(GROUPS, np.array([960, 40, 0]), np.array([0.79, 0.2, 0.01]), 0.1)
    assert "White 0.79 against 0.96" in text and "Black 0.2 against 0.04" in text and "other" not in text
    assert not texts.shares_differ(GROUPS, COUNTS, np.array([0.88, 0.1, 0.02]), 0.1)


def test_prices_add_up_from_the_average_to_the_private_model() -> None:
    average, fairest = Losses(0.30, 0.50), Losses(0.32, 0.41)
    in_game, private = Losses(0.31, 0.45), Losses(0.36, 0.47)
    text = texts.prices("Vertex sampling", average, fairest, in_game, private)
    fairness, shares, privacy = text.split("\n")
    assert "falls by 0.09 (from 0.5 to 0.41)" in fairness and "rises by 0.02 (from 0.3 to 0.32)" in fairness
    assert "ends at 0.45, 0.04 more" in shares
    assert "is 0.47, 0.02 more" in privacy and "is 0.36, 0.05 more" in privacy
    fairness, privacy = texts.prices("Vertex sampling", average, fairest, None, private).split("\n")
    assert "is 0.47, 0.06 more" in privacy and "is 0.36, 0.04 more" in privacy


def rates(error: float, selection: float) -> Rates:
    """Of two runs and no groups but all rows."""
    return Rates(*(np.full((2, 1), value) for value in (error, selection, selection)))


def test_a_model_that_guesses_is_said_to_guess_and_to_select_nobody_for_that_reason() -> None:
    guess, rows = rates(0.24, 0.0), 10_000  # whose standard error is 0.0043
    text = texts.guessing("A", rates(0.238, 0.002), guess, rows)
    assert "With A, 23.8 % of all rows are predicted wrongly" in text and "24 %: it is no better" in text
    assert "always guessing no" in text and "predicts yes for 0.2 % of all rows" in text and "near 0 come" in text
    better = texts.guessing("A", rates(0.21, 0.03), guess, rows)
    assert "no better" not in better and "near 0 come from that" in better
    worse = texts.guessing("A", rates(0.3, 0.5), guess, rows)
    assert "no better" in worse and "come from that" not in worse
    assert not texts.guessing("A", rates(0.2, 0.2), guess, rows)
    often = texts.guessing("A", rates(0.24, 0.99), rates(0.24, 1.0), rows)
    assert "always guessing yes" in often and "near 1 come" in often


@pytest.mark.parametrize(("change", "words"), [(0.0, "the same"), (-0.01, "0.01 less"), (0.01, "0.01 more")])
def test_changes_are_in_words(change: float, words: str) -> None:
    text = texts.prices("A", Losses(0.3, 0.5), Losses(0.3, 0.4), None, Losses(0.3, 0.4 + change))
    assert f"is {0.4 + change:.3g}, {words};" in text
