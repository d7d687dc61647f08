"""What the page says about groups: who is worst off, whether the shares are right, what fairness costs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpviz.numbers import short
from dpviz.problems.games.grouped import Rates

WHY_WEIGHED = (
    "The game cannot play for the means themselves: how many rows a group has depends on the data, so one row could "
    "move a mean by an amount that nothing declared bounds."
)


FEW = 0.05  # of all rows, or all but so few: then rates are near 0, or near 1


class Losses(NamedTuple):
    """Mean loss over all rows, and the highest mean loss of a group, of one model."""

    average: float
    highest: float


def worst(
    label: str,
    groups: Sequence[str],
    means: np.ndarray,
    weighed: np.ndarray,
    counts: np.ndarray,
    shares: np.ndarray,
) -> str:
    """The group with the highest mean loss, and the one that the game plays for where that is another.

    label : the method. groups : names, ready for Markdown. means : (G,) mean losses, nan without rows; weighed : (G,)
    as the game sees them; counts : (G,) rows found; shares : (G,) those that the game divides by.
    """
    highest, seen = int(np.nanargmax(means)), int(np.argmax(weighed))
    text = (
        f"**{groups[highest]}** is worst off with {label}: of all groups it has the highest mean loss, "
        f"{short(means[highest])} ({_rows(int(counts[highest]))})."
    )
    if seen == highest:
        return text
    found = counts / counts.sum()
    product = f"{short(means[seen])} × {short(found[seen])} / {short(shares[seen])} = {short(weighed[seen])}"
    return (
        f"{text} The game sees **{groups[seen]}** as the worst instead: it plays for the mean times found share "
        f"/ share in the game, {product}. {WHY_WEIGHED} Better shares, known from elsewhere or bought with a part "
        "of the budget, bring the two together."
    )


def shares_differ(groups: Sequence[str], counts: np.ndarray, shares: np.ndarray, tolerance: float) -> str:
    """Where the shares in the game and in the file differ by more than the (relative) tolerance; "" if they do not."""
    found = counts / counts.sum()
    parts = [
        f"{name} {short(used)} against {short(real)}"
        for name, used, real, count in zip(groups, shares, found, counts, strict=True)
        if count and abs(used / real - 1) > tolerance
    ]
    if not parts:
        return ""
    return (
        f"Shares in the game against those found: {', '.join(parts)}. A group counts found / in the game times as much "
        "as its mean loss says; the guarantee holds all the same."
    )


def prices(label: str, average: Losses, fairest: Losses, in_game: Losses | None, private: Losses) -> str:
    """What fairness, the shares and privacy cost, one after the other, as Markdown lines.

    average, fairest : the two models without privacy. in_game : the game's own optimum without privacy, None where the
    shares are right. private : the method, median over its runs.
    """
    fairness = fairest.average - average.average
    gain = average.highest - fairest.highest
    lines = [
        f"**Price of fairness**, without privacy: the highest mean loss of a group falls by {short(gain, 2)} (from "
        f"{short(average.highest)} to {short(fairest.highest)}), the mean over all rows rises by "
        f"{short(max(fairness, 0.0), 2)} (from {short(average.average)} to {short(fairest.average)})."
    ]
    reached = fairest
    if in_game is not None:
        lines.append(
            f"**Price of the shares**, without privacy: the game itself ends at {short(in_game.highest)}, "
            f"{_change(in_game.highest - reached.highest)}."
        )
        reached = in_game
    lines.append(
        f"**Price of privacy**, with {label}: the highest mean loss of a group is {short(private.highest)}, "
        f"{_change(private.highest - reached.highest)}; the mean over all rows is {short(private.average)}, "
        f"{_change(private.average - reached.average)}."
    )
    return "\n".join(f"- {line}" for line in lines)


def guessing(label: str, found: Rates, guess: Rates, rows: int) -> str:
    """Where a method is no better than who always guesses the majority, or predicts nearly the same for all rows, what
    follows for its rates; "" where neither is so. The medians over its runs count.

    label : ready for Markdown. rows : of the table.
    """
    (error, selected), (wrong, always) = (
        [float(np.median(values[:, -1])) for values in (rates.error, rates.selection)] for rates in (found, guess)
    )
    margin = math.sqrt(wrong * (1 - wrong) / rows)  # the standard error of a share of so many rows
    useless, alike = error > wrong - margin, min(selected, 1 - selected) < FEW
    if not (useless or alike):
        return ""
    guessed = f"always guessing {'yes' if always else 'no'}, as the majority is"
    parts = [f"With {label}, {short(100 * error)} % of all rows are predicted wrongly; with {guessed}, "]
    parts.append(f"{short(100 * wrong)} %{': it is no better' if useless else ''}. ")
    if alike:
        end = 0 if selected < FEW else 1
        parts.append(
            f"It predicts yes for {short(100 * selected)} % of all rows: selection and true-positive rates near {end} "
            "come from that, and do not say how fairly groups are treated. "
        )
    return "".join(parts) + "More budget, more rows or a larger radius can let a model say more."


def _change(difference: float) -> str:
    if abs(difference) < 5e-5:
        return "the same"
    return f"{short(abs(difference), 2)} {'more' if difference > 0 else 'less'}"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"
