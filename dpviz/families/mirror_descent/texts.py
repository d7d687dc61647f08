"""What the page says about the family: names of games and methods, what is assumed, where tool and paper differ; and of
groups, who is worst off, whether the shares are right, what fairness costs.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpviz import resources
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.advice import SMALLEST, Expectation
from dpviz.families.mirror_descent.methods.algorithms import CONFIDENCE
from dpviz.numbers import short, short_up
from dpviz.privacy.budgets import Budget
from dpviz.problems.games.grouped import Rates

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.texts(__package__)
phrase = resources.phrases(__package__)
TITLE, QUESTION, NOT_COVERED = (str(TEXTS[name]) for name in ("TITLE", "QUESTION", "NOT_COVERED"))
WORDS: dict[str, str] = TEXTS["WORDS"]
COLUMNS: dict[str, dict[str, str]] = TEXTS["COLUMNS"]  # of tables: what the columns mean
DECLARED: dict[str, str] = TEXTS["DECLARED"]

OWN = "Vertex sampling"  # the family's method, by its label


def batches(single_pass: bool, batch: int, n: int) -> str:
    """Which rows a round reads, in words."""
    if not single_pass:
        return f"None: every round uses all n = {n:,} rows, and a row's weight in the sums grows with the rounds."
    return (
        f"Each round has its own block of {batch:,} of n = {n:,} rows, in a fixed public order. A row is read "
        "once, so it pays only in the draws after its block; there is no amplification by sampling, and none is "
        "claimed."
    )


def composition(accounting: planning.Accounting) -> str:
    """Which theorems turn draws into the guarantee of the run."""
    if accounting == "paper":
        return (
            "Every draw is the exponential mechanism, counted as 4 L₀ τ/B-DP; advanced composition over 2KT "
            "draws (Dwork, Roth 2014, Corollary 3.21), as in Proposition 4.1. The accountants show what it "
            "really costs."
        )
    return (
        "Every draw is the exponential mechanism with bounded range η, which is η-DP and costs at most η²/8 in "
        "ρ; costs add up over draws, each given all earlier ones (adaptive composition). Gaussian noise: μ² adds "
        "up. Number of rounds and step sizes are fixed before the run."
    )


def constants(
    things: Sequence[str] = ("ranges",), missing: str = "", bought: Collection[str] = (), taken: Collection[str] = ()
) -> str:
    """Which constants are declared or bought, and what became of missing values.

    things : names in `DECLARED`, those that the problem has. missing : "fill" or "drop", of an upload. bought : those
    that were released with a part of the budget. taken : those of which something was read from the data.
    """
    declared = [DECLARED[thing] for thing in things if thing not in bought and thing not in taken]
    names = [*["n"] * (missing != "drop"), *declared]
    released = [DECLARED[thing] for thing in things if thing in bought]
    words = [f"Declared: {', '.join(names)}."] * bool(names)
    if released:
        words.append(f"Released privately, with a part of the budget shown: {', '.join(released)}.")
    words.append(
        f"What lies outside {'becomes “other”' if 'categories' in things else 'is clipped'}, which bounds every "
        "gradient whatever the data are."
    )
    if "shares" in things:
        words.append("Wrong shares reweight the groups and never break privacy.")
    return " ".join([*words, phrase(f"missing_{missing}")] if missing else words)


def recommend(found: Expectation | None, budget: Budget, chosen: Collection[str]) -> str:
    """Which method to prefer before anything ran, also where it is not the paper's; empty where nothing is known.

    found : what the methods that have a plan may be expected to reach. chosen : labels of those that will run.
    """
    if not budget.private:
        return "Without privacy there is nothing to pay for: play the weights themselves."
    if found is None or not found.medians:
        return ""
    best, uniform = found.best, f"uniform play: {_gap(found.uniform)}"
    reached = _list([_gap(found.medians[label]) for label in best], "and")
    absent = "It is" if len(best) == 1 else "They are"
    add = "" if set(best) & set(chosen) else f" {absent} not chosen: add {best[0]} under “Methods”."
    if not found.inside:
        return (
            "Your size, settings or data differ from all that was measured: compare the methods. On the nearest "
            f"generated data {_list(best, 'and')} had the smallest error, about {reached} ({uniform}).{add}"
        )
    if best[0] in found.useless:
        return (
            f"Expect no method to do better than not playing here ({uniform}): more rows or budget are needed. On "
            "generated data, medians at default settings, interpolated to your rows, budget, strategies and "
            "rounds."
        )
    words = [f"Prefer {_list(best, 'or')}: expect an error of about {reached}.{add}"]
    if OWN in chosen and OWN in found.medians and OWN not in best:
        words.append(f"{OWN}: about {_gap(found.medians[OWN])}.")
    idle = [label for label in found.useless if label in chosen]
    if idle:
        words.append(f"No better than not playing ({uniform}): {', '.join(idle)}.")
    return " ".join(
        [
            *words,
            (
                "On generated data, medians at default settings, interpolated to your rows, budget, strategies and "
                "rounds."
            ),
        ]
    )


def _list(words: Sequence[str], last: str) -> str:
    """The words as in "a, b and c"; the same word once."""
    *most, end = dict.fromkeys(words)
    return f"{', '.join(most)} {last} {end}" if most else end


def verdict(gaps: Mapping[str, float], sampling: Collection[str], uniform: float, useless: Collection[str] = ()) -> str:
    """Which method won after a run, that a simpler one did where that is so, and who might as well not have played.

    gaps : median error of each private method, by label; at least one. sampling : the labels of vertex sampling.
    uniform : error of uniform play, which needs no data. useless : labels that did no better than that.
    """
    best = min(gaps, key=lambda label: gaps[label])
    own = min((label for label in gaps if label in sampling), key=lambda label: gaps[label], default=best)
    played = f"uniform play: {short(uniform)}"
    if best in useless:
        return f"No method does better than not playing here ({played}). {phrase('tuning')}"
    idle = f" No better than not playing ({played}): {', '.join(useless)}." if useless else ""
    if own == best:
        return f"{best} has the smallest error here, {short(gaps[best])}.{idle} {phrase('tuning')}"
    return (
        f"{best} beats {own} here, {short(gaps[best])} against {short(gaps[own])}: at this size the simpler "
        f"method wins.{idle} On private data, choosing by such results is tuning, which the budget does not cover."
    )


def certified(label: str, bound: float, added: float) -> str:
    """What a released certificate says, and of what it is a function. added : to the noisy gap, in the bound."""
    return (
        f"{label}, first run: the gap here is at most {short_up(bound)}, with {100 * CONFIDENCE:.0f} % confidence "
        f"over the certificate's own noise. Released, and paid for by the budget; {short(added)} of it is a "
        "margin for that noise."
    )


def _gap(value: float) -> str:
    """A rule of thumb, with two digits; 0 for what is below everything that was measured."""
    return short(value, 2) if value > 2 * SMALLEST else "0"


FEW = 0.05  # of all rows, or all but so few: then rates are near 0, or near 1


class Losses(NamedTuple):
    """Mean loss over all rows, and the highest mean loss of a group, of one model."""

    average: float
    highest: float


def worst(
    label: str, groups: Sequence[str], means: np.ndarray, weighed: np.ndarray, counts: np.ndarray, shares: np.ndarray
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
        f"{text} The game sees **{groups[seen]}** as the worst instead: it plays for the mean times found share / "
        f"share in the game, {product}. The game cannot play for the means themselves: how many rows a group has "
        "depends on the data, so one row could move a mean by an amount that nothing declared bounds. Better "
        "shares, known from elsewhere or bought with a part of the budget, bring the two together."
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
        f"Shares in the game against those found: {', '.join(parts)}. A group counts found / in the game times as "
        "much as its mean loss says; the guarantee holds all the same."
    )


def prices(label: str, average: Losses, fairest: Losses, in_game: Losses | None, private: Losses) -> str:
    """What fairness, the shares and privacy cost, one after the other, as Markdown lines.

    average, fairest : the two models without privacy. in_game : the game's own optimum without privacy, None where the
    shares are right. private : the method, median over its runs.
    """
    fairness = fairest.average - average.average
    gain = average.highest - fairest.highest
    lines = [
        (
            f"**Price of fairness**, without privacy: the highest mean loss of a group falls by {short(gain, 2)} "
            f"(from {short(average.highest)} to {short(fairest.highest)}), the mean over all rows rises by "
            f"{short(max(fairness, 0.0), 2)} (from {short(average.average)} to {short(fairest.average)})."
        )
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
    numbers = {"error": short(100 * error), "guessed": guessed, "wrong": short(100 * wrong)}
    parts = [phrase("guessing", label=label, useless=": it is no better" * useless, **numbers)]
    if alike:
        parts.append(
            f"It predicts yes for {short(100 * selected)} % of all rows: selection and true-positive rates near "
            f"{0 if selected < FEW else 1} come from that, and do not say how fairly groups are treated."
        )
    return " ".join([*parts, ("More budget, more rows or a larger radius can let a model say more.")])


def _change(difference: float) -> str:
    if abs(difference) < 5e-5:
        return "the same"
    return f"{short(abs(difference), 2)} {'more' if difference > 0 else 'less'}"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"
