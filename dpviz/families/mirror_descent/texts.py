"""Texts of the family's page that depend on numbers; `texts.toml` has the fixed ones.

They are about the privacy of a method, which method to prefer, and, for problems with groups of rows, the losses and
shares of the groups and the price of fairness.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpviz import resources
from dpviz.datasets.uploads.upload import MISSING
from dpviz.families.mirror_descent.advice import MIN_MEDIAN, Expectation
from dpviz.families.mirror_descent.methods.algorithms import CONFIDENCE
from dpviz.numbers import short, short_up
from dpviz.privacy.budgets import Budget
from dpviz.problems.games.grouped import Rates

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.Texts(__package__).__getattr__
phrase = resources.phrases(__package__)
WORDS: dict[str, str] = TEXTS["WORDS"]  # descriptions of the methods, by label
COLUMNS: dict[str, dict[str, str]] = TEXTS["COLUMNS"]  # meaning of the columns of tables
DECLARED: dict[str, str] = TEXTS["DECLARED"]  # names of the constants that a user declares

OWN = "Vertex sampling"  # label of the paper's method


def batches(single_pass: Sequence[str], others: bool, n: int) -> str:
    """Return sentences on the rows that a round reads. single_pass : labels of the methods whose rounds have rows of
    their own. others : True if there are other methods. n : all rows."""
    if not single_pass:
        return f"None: every round uses all n = {n:,} rows."
    own_block = (
        f"has its own block of the n = {n:,} rows, in a fixed public order. A row is read once; there is no "
        "amplification by sampling, and none is claimed."
    )
    if not others:
        return f"Each round {own_block}"
    return f"{_list(single_pass, 'and')}: each round {own_block} The others use all rows in every round."


def composition(as_in_paper: Sequence[str], others: bool) -> str:
    """Return sentences on the theorems by which the costs of all draws add up to the guarantee of the run.

    as_in_paper : labels of the methods whose draws are counted as the paper does. others : True if there are others.
    """
    paper = "counted as the paper does, by advanced composition (Dwork, Roth 2014)"
    if not others:
        return f"Every draw is the exponential mechanism, {paper}. Step sizes are fixed before the run."
    exceptions = f" {_list(as_in_paper, 'and')}: {paper}." if as_in_paper else ""
    return (
        "Every draw is the exponential mechanism with bounded range η, which is η-DP and costs at most η²/8 in "
        "ρ; costs add up over draws, each given all earlier ones (adaptive composition). Gaussian noise: μ² adds "
        f"up. Step sizes are fixed before the run; so are the rounds, or they are drawn without the data.{exceptions}"
    )


def constants(
    keys: Sequence[str], missing: str = "", released: Collection[str] = (), from_rows: Collection[str] = ()
) -> str:
    """Return sentences on the constants on which the guarantee rests, and on missing values.

    keys : the constants that the problem has, by their keys in `DECLARED`. missing : treatment of missing values in an
    upload, "fill" or "drop"; empty if the data are no upload. released : the constants that were released with a part
    of the budget. from_rows : those that were read from the data in part, so that no sentence calls them declared.
    """
    declared = [DECLARED[key] for key in keys if key not in released and key not in from_rows]
    if missing != "drop":  # the number of rows is not declared if rows with missing values are dropped
        declared = ["n", *declared]
    paid_names = [DECLARED[key] for key in keys if key in released]
    sentences = []
    if declared:
        sentences.append(f"Declared: {', '.join(declared)}.")
    if paid_names:
        sentences.append(f"Released privately, with a part of the budget shown: {', '.join(paid_names)}.")
    sentences.append(
        f"What lies outside {'becomes “other”' if 'categories' in keys else 'is clipped'}, which bounds every "
        "gradient whatever the data are."
    )
    if "shares" in keys:
        sentences.append("Wrong shares reweight the groups and never break privacy.")
    if missing:
        sentences.append(MISSING[missing])
    return " ".join(sentences)


def recommend(expectation: Expectation | None, budget: Budget, chosen: Collection[str]) -> str:
    """Return sentences that recommend a method before a run, the paper's or another one; empty if nothing is known.

    expectation : expected errors of the methods that have a plan; None if this problem was not measured. chosen :
    labels of the methods that will run.
    """
    if not budget.private:
        return "Without privacy there is nothing to pay for: play the weights themselves."
    if expectation is None or not expectation.medians:
        return ""
    best, uniform_play = expectation.best, f"uniform play: {_two_digits(expectation.uniform)}"
    errors = _list([_two_digits(expectation.medians[label]) for label in best], "and")
    they_are = "It is" if len(best) == 1 else "They are"
    suggestion = "" if set(best) & set(chosen) else f" {they_are} not chosen: add {best[0]} under “Methods”."
    source = "On generated data, medians at default settings, interpolated to your rows, budget, strategies and rounds."
    if not expectation.inside:
        return (
            "Your size, settings or data differ from all that was measured: compare the methods. On the nearest "
            f"generated data {_list(best, 'and')} had the smallest error, about {errors} ({uniform_play}).{suggestion}"
        )
    if best[0] in expectation.useless:
        return (
            f"Expect no method to do better than not playing here ({uniform_play}): more rows or budget are needed. "
            f"{source}"
        )
    sentences = [f"Prefer {_list(best, 'or')}: expect an error of about {errors}.{suggestion}"]
    if OWN in chosen and OWN in expectation.medians and OWN not in best:
        sentences.append(f"{OWN}: about {_two_digits(expectation.medians[OWN])}.")
    useless = [label for label in expectation.useless if label in chosen]
    if useless:
        sentences.append(f"No better than not playing ({uniform_play}): {', '.join(useless)}.")
    return " ".join([*sentences, source])


def _list(items: Sequence[str], conjunction: str) -> str:
    """Return the items as a list in words, "a, b and c" if the conjunction is "and"; equal items once."""
    *others, last = dict.fromkeys(items)
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def verdict(gaps: Mapping[str, float], sampling: Collection[str], uniform: float, useless: Collection[str] = ()) -> str:
    """Return sentences on the result of a run: the best method; vertex sampling, if another method is better; and the
    methods of which the run does not show that they are better than uniform play.

    gaps : median error of each private method, by label; at least one. sampling : labels of the variants of vertex
    sampling. uniform : error of uniform play, which needs no data. useless : labels of methods not shown to be better.
    """
    best = min(gaps, key=lambda label: gaps[label])
    best_sampling = min((label for label in gaps if label in sampling), key=lambda label: gaps[label], default=best)
    uniform_play = f"uniform play: {short(uniform)}"
    if set(gaps) <= set(useless):
        return f"No method is shown to do better than not playing here ({uniform_play}). {phrase('tuning')}"
    caveat = f" Not shown to be better than not playing ({uniform_play}): {', '.join(useless)}." if useless else ""
    sampling_text = "" if best_sampling == best else f"; {best_sampling}: {short(gaps[best_sampling])}"
    return f"{best} has the smallest error here, {short(gaps[best])}{sampling_text}.{caveat} {phrase('tuning')}"


def certified(label: str, bound: float, added: float) -> str:
    """Return sentences on the upper bound that a certificate has released in the first run of a method.

    label : of the method. added : the margin that was added to the noisy gap, a part of the bound.
    """
    return (
        f"{label}, first run: the gap here is at most {short_up(bound)}, with {100 * CONFIDENCE:.0f} % confidence "
        f"over the certificate's own noise. Released, and paid for by the budget; {short(added)} of it is a "
        "margin for that noise."
    )


def _two_digits(error: float) -> str:
    """Return an expected error in two digits; "0" for one that was measured as 0, for which `advice` has MIN_MEDIAN."""
    return short(error, 2) if error > 2 * MIN_MEDIAN else "0"  # 2: interpolation may round MIN_MEDIAN up


FEW = 0.05  # predictions count as nearly all alike if a smaller share of the rows has the rarer one


class Losses(NamedTuple):
    """The mean loss of one model over all rows, and the highest of its mean losses over the rows of one group."""

    average: float
    highest: float


def worst(
    label: str, groups: Sequence[str], means: np.ndarray, weighed: np.ndarray, counts: np.ndarray, shares: np.ndarray
) -> str:
    """Return sentences on the group with the highest mean loss and, if it is another one, on the group with the highest
    loss in the game, for which the game plays.

    label : the method. groups : names, ready for Markdown. means : (G,) mean losses, nan for groups without rows.
    weighed : (G,) losses in the game, a mean times the group's true share over its share in the game. counts : (G,)
    rows in the data. shares : (G,) in the game.
    """
    highest, in_game = int(np.nanargmax(means)), int(np.argmax(weighed))  # indices of groups
    rows = int(counts[highest])
    text = (
        f"**{groups[highest]}** is worst off with {label}: of all groups it has the highest mean loss, "
        f"{short(means[highest])} as median over the runs ({rows:,} row{'s' if rows != 1 else ''})."
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
    """Return sentences that name the groups with rows whose share is wrong in the game; empty if there are none.

    counts : (G,) rows in the file. shares : (G,) in the game. tolerance : a share is wrong if its ratio to the true one
    differs from 1 by more than this.
    """
    comparisons = [
        f"{name} {short(share)} against {short(true_share)}"
        for name, share, true_share in zip(groups, shares, counts / counts.sum(), strict=True)
        if true_share > 0 and abs(share / true_share - 1) > tolerance
    ]
    if not comparisons:
        return ""
    return (
        f"Shares in the game against those found: {', '.join(comparisons)}. A group counts found / in the game times "
        "as much as its mean loss says; the guarantee holds all the same."
    )


def prices(label: str, average: Losses, fairest: Losses, in_game: Losses | None, private: Losses) -> str:
    """Return a Markdown list with the prices of fairness, of wrong shares and of privacy: by how much each of them
    raises losses.

    label : of the private method. average, fairest : the models without privacy that minimise the mean loss over all
    rows, and the highest mean loss of a group. in_game : the game's own optimum without privacy; None if its shares are
    right, so that it is `fairest`. private : the method's model, median over its runs.
    """
    rise = fairest.average - average.average  # 0 or more, but for the accuracy of both minimisations
    gain = average.highest - fairest.highest
    lines = [
        (
            f"**Price of fairness**, without privacy: the highest mean loss of a group falls by {short(gain, 2)} "
            f"(from {short(average.highest)} to {short(fairest.highest)}), the mean over all rows rises by "
            f"{short(max(rise, 0.0), 2)} (from {short(average.average)} to {short(fairest.average)})."
        )
    ]
    if in_game is not None:
        lines.append(
            f"**Price of the shares**, without privacy: the game itself ends at {short(in_game.highest)}, "
            f"{_change(in_game.highest - fairest.highest)}."
        )
    reference = in_game or fairest  # the optimum of the game
    lines.append(
        f"**Price of privacy**, with {label}: a run's highest mean loss of a group is {short(private.highest)}, "
        f"{_change(private.highest - reference.highest)}; the mean over all rows is {short(private.average)}, "
        f"{_change(private.average - reference.average)}."
    )
    return "\n".join(f"- {line}" for line in lines)


def guessing(label: str, model: Rates, guess: Rates, rows: int) -> str:
    """Return a warning if a model is no better than always guessing the majority, or predicts nearly the same for all
    rows; else an empty text.

    label : of the method, ready for Markdown. model, guess : rates of the model, of which the medians over its runs
    count, and of the guess; their last column is that of all rows. rows : number of rows.
    """

    def over_all_rows(rates: np.ndarray) -> float:
        """Return the rate of all rows, the last column of (R, G + 1) rates: its median over the R runs."""
        return float(np.median(rates[:, -1]))

    # `selection` is the rate of yes. That of the guess is 0 or 1, as it is the same for all rows.
    error, selected = over_all_rows(model.error), over_all_rows(model.selection)
    guess_error, guess_selected = over_all_rows(guess.error), over_all_rows(guess.selection)
    standard_error = math.sqrt(guess_error * (1 - guess_error) / rows)  # of the guess's error
    is_useless = error > guess_error - standard_error
    is_constant = min(selected, 1 - selected) < FEW
    if not (is_useless or is_constant):
        return ""
    guess_text = f"always guessing {'yes' if guess_selected else 'no'}, as the majority is"
    numbers = {"error": short(100 * error), "guessed": guess_text, "wrong": short(100 * guess_error)}
    no_better = ": it is no better" if is_useless else ""
    sentences = [phrase("guessing", label=label, useless=no_better, **numbers)]
    if is_constant:
        sentences.append(
            f"It predicts yes for {short(100 * selected)} % of all rows: selection and true-positive rates near "
            f"{0 if selected < FEW else 1} come from that, and do not say how fairly groups are treated."
        )
    sentences.append("More budget, more rows or a larger radius can let a model say more.")
    return " ".join(sentences)


def _change(difference: float) -> str:
    """Return a difference of two losses in words: "0.012 more", "the same"."""
    if abs(difference) < 5e-5:  # 0 to four decimals
        return "the same"
    return f"{short(abs(difference), 2)} {'more' if difference > 0 else 'less'}"
