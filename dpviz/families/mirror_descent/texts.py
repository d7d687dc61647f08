"""Sentences of the family's page: names of games and methods, assumptions, differences between tool and paper; and, for
groups, the one with the highest loss, errors of the shares, and the price of fairness.
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
    """Return a sentence on the rows that a round reads. batch : rows of a round in a single pass."""
    if not single_pass:
        return f"None: every round uses all n = {n:,} rows, and a row's weight in the sums grows with the rounds."
    return (
        f"Each round has its own block of {batch:,} of n = {n:,} rows, in a fixed public order. A row is read "
        "once, so it pays only in the draws after its block; there is no amplification by sampling, and none is "
        "claimed."
    )


def composition(accounting: planning.Accounting) -> str:
    """Return a sentence on the theorems that turn draws into the guarantee of the run."""
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
    """Return sentences on the constants that are declared or released, and on missing values.

    things : names in `DECLARED`, those that the problem has. missing : treatment of missing values in an upload, "fill"
    or "drop". bought : things that were released with a part of the budget. taken : things of which a part was read
    from the data.
    """
    declared = [DECLARED[thing] for thing in things if thing not in bought and thing not in taken]
    names = [*["n"] * (missing != "drop"), *declared]
    released = [DECLARED[thing] for thing in things if thing in bought]
    sentences = [f"Declared: {', '.join(names)}."] * bool(names)
    if released:
        sentences.append(f"Released privately, with a part of the budget shown: {', '.join(released)}.")
    sentences.append(
        f"What lies outside {'becomes “other”' if 'categories' in things else 'is clipped'}, which bounds every "
        "gradient whatever the data are."
    )
    if "shares" in things:
        sentences.append("Wrong shares reweight the groups and never break privacy.")
    return " ".join([*sentences, phrase(f"missing_{missing}")] if missing else sentences)


def recommend(expectation: Expectation | None, budget: Budget, chosen: Collection[str]) -> str:
    """Return a recommendation of a method before a run, of the paper or not; empty if nothing is known.

    expectation : expected errors of the methods that have a plan. chosen : labels of those that will run.
    """
    if not budget.private:
        return "Without privacy there is nothing to pay for: play the weights themselves."
    if expectation is None or not expectation.medians:
        return ""
    best, uniform = expectation.best, f"uniform play: {_gap(expectation.uniform)}"
    errors = _list([_gap(expectation.medians[label]) for label in best], "and")
    they_are = "It is" if len(best) == 1 else "They are"
    add = "" if set(best) & set(chosen) else f" {they_are} not chosen: add {best[0]} under “Methods”."
    if not expectation.inside:
        return (
            "Your size, settings or data differ from all that was measured: compare the methods. On the nearest "
            f"generated data {_list(best, 'and')} had the smallest error, about {errors} ({uniform}).{add}"
        )
    if best[0] in expectation.useless:
        return (
            f"Expect no method to do better than not playing here ({uniform}): more rows or budget are needed. On "
            "generated data, medians at default settings, interpolated to your rows, budget, strategies and "
            "rounds."
        )
    sentences = [f"Prefer {_list(best, 'or')}: expect an error of about {errors}.{add}"]
    if OWN in chosen and OWN in expectation.medians and OWN not in best:
        sentences.append(f"{OWN}: about {_gap(expectation.medians[OWN])}.")
    useless = [label for label in expectation.useless if label in chosen]
    if useless:
        sentences.append(f"No better than not playing ({uniform}): {', '.join(useless)}.")
    return " ".join(
        [
            *sentences,
            (
                "On generated data, medians at default settings, interpolated to your rows, budget, strategies and "
                "rounds."
            ),
        ]
    )


def _list(words: Sequence[str], conjunction: str) -> str:
    """Return the words as in "a, b and c"; the same word once."""
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def verdict(gaps: Mapping[str, float], sampling: Collection[str], uniform: float, useless: Collection[str] = ()) -> str:
    """Return a verdict after a run: the best method, vertex sampling if another one is better, and useless methods.

    gaps : median error of each private method, by label; at least one. sampling : the labels of vertex sampling.
    uniform : error of uniform play, which needs no data. useless : labels that did no better than uniform play.
    """
    best = min(gaps, key=lambda label: gaps[label])
    best_sampling = min((label for label in gaps if label in sampling), key=lambda label: gaps[label], default=best)
    uniform_play = f"uniform play: {short(uniform)}"
    if best in useless:
        return f"No method does better than not playing here ({uniform_play}). {phrase('tuning')}"
    idle = f" No better than not playing ({uniform_play}): {', '.join(useless)}." if useless else ""
    if best_sampling == best:
        return f"{best} has the smallest error here, {short(gaps[best])}.{idle} {phrase('tuning')}"
    least, other = short(gaps[best]), short(gaps[best_sampling])
    return (
        f"{best} beats {best_sampling} here, {least} against {other}: at this size the simpler method wins.{idle} "
        "On private data, choosing by such results is tuning, which the budget does not cover."
    )


def certified(label: str, bound: float, added: float) -> str:
    """Return a sentence on a released certificate and its assumptions. added : the part of the bound that is added to
    the noisy gap."""
    return (
        f"{label}, first run: the gap here is at most {short_up(bound)}, with {100 * CONFIDENCE:.0f} % confidence "
        f"over the certificate's own noise. Released, and paid for by the budget; {short(added)} of it is a "
        "margin for that noise."
    )


def _gap(value: float) -> str:
    """Return an expected error in two digits; "0" for one below the measured range."""
    return short(value, 2) if value > 2 * SMALLEST else "0"


FEW = 0.05  # share of the rows with the rarer prediction, below which predictions count as nearly all alike


class Losses(NamedTuple):
    """Mean loss of one model over all rows, and its highest mean loss over a group."""

    average: float
    highest: float


def worst(
    label: str, groups: Sequence[str], means: np.ndarray, weighed: np.ndarray, counts: np.ndarray, shares: np.ndarray
) -> str:
    """Return a sentence on the group with the highest mean loss, and on the one that the game favours if it is another.

    label : the method. groups : names, ready for Markdown. means : (G,) mean losses, nan without rows; weighed : (G,)
    losses in the game; counts : (G,) rows in the data; shares : (G,) those that the game divides by.
    """
    highest, in_game = int(np.nanargmax(means)), int(np.argmax(weighed))
    text = (
        f"**{groups[highest]}** is worst off with {label}: of all groups it has the highest mean loss, "
        f"{short(means[highest])} ({_rows(int(counts[highest]))})."
    )
    if in_game == highest:
        return text
    true_share = counts[in_game] / counts.sum()
    factors = f"{short(means[in_game])} × {short(true_share)} / {short(shares[in_game])}"
    product = f"{factors} = {short(weighed[in_game])}"
    return (
        f"{text} The game sees **{groups[in_game]}** as the worst instead: it plays for the mean times found "
        f"share / share in the game, {product}. The game cannot play for the means themselves: how many rows a "
        "group has depends on the data, so one row could move a mean by an amount that nothing declared bounds. "
        "Better shares, known from elsewhere or bought with a part of the budget, bring the two together."
    )


def shares_differ(groups: Sequence[str], counts: np.ndarray, shares: np.ndarray, tolerance: float) -> str:
    """Return a sentence on the groups whose shares in the game and in the file differ by more than the tolerance.

    counts : (G,) rows in the file. shares : (G,) in the game. tolerance : of their ratio, less 1. "" if none differs.
    """
    parts = [
        f"{name} {short(share)} against {short(true_share)}"
        for name, share, true_share, count in zip(groups, shares, counts / counts.sum(), counts, strict=True)
        if count and abs(share / true_share - 1) > tolerance
    ]
    if not parts:
        return ""
    return (
        f"Shares in the game against those found: {', '.join(parts)}. A group counts found / in the game times as "
        "much as its mean loss says; the guarantee holds all the same."
    )


def prices(label: str, average: Losses, fairest: Losses, in_game: Losses | None, private: Losses) -> str:
    """Return the prices of fairness, of wrong shares and of privacy, one after the other, as Markdown lines.

    average, fairest : the two models without privacy. in_game : the game's own optimum without privacy, None where the
    shares are right. private : the method, median over its runs.
    """
    rise = fairest.average - average.average
    gain = average.highest - fairest.highest
    lines = [
        (
            f"**Price of fairness**, without privacy: the highest mean loss of a group falls by {short(gain, 2)} "
            f"(from {short(average.highest)} to {short(fairest.highest)}), the mean over all rows rises by "
            f"{short(max(rise, 0.0), 2)} (from {short(average.average)} to {short(fairest.average)})."
        )
    ]
    reference = fairest
    if in_game is not None:
        lines.append(
            f"**Price of the shares**, without privacy: the game itself ends at {short(in_game.highest)}, "
            f"{_change(in_game.highest - reference.highest)}."
        )
        reference = in_game
    lines.append(
        f"**Price of privacy**, with {label}: the highest mean loss of a group is {short(private.highest)}, "
        f"{_change(private.highest - reference.highest)}; the mean over all rows is {short(private.average)}, "
        f"{_change(private.average - reference.average)}."
    )
    return "\n".join(f"- {line}" for line in lines)


def guessing(label: str, model: Rates, guess: Rates, rows: int) -> str:
    """Return a warning if a model is no better than always guessing the majority, or predicts nearly the same for all
    rows; else "". The medians over its runs count.

    label : of the method, ready for Markdown. model, guess : rates of the model and of the guess. rows : of the table.
    """
    (error, selected), (guess_error, guess_selected) = (
        [float(np.median(values[:, -1])) for values in (rates.error, rates.selection)] for rates in (model, guess)
    )
    margin = math.sqrt(guess_error * (1 - guess_error) / rows)  # the standard error of this share of the rows
    is_useless, is_constant = error > guess_error - margin, min(selected, 1 - selected) < FEW
    if not (is_useless or is_constant):
        return ""
    guess_text = f"always guessing {'yes' if guess_selected else 'no'}, as the majority is"
    numbers = {"error": short(100 * error), "guessed": guess_text, "wrong": short(100 * guess_error)}
    parts = [phrase("guessing", label=label, useless=": it is no better" * is_useless, **numbers)]
    if is_constant:
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
