"""What the page says about the family: names of games and methods, what is assumed, where tool and paper differ."""

from collections.abc import Collection, Mapping, Sequence

from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.advice import SMALLEST, Expectation
from dpviz.families.mirror_descent.methods.certified import CONFIDENCE
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget

TITLE = "Private games"
OWN = "Vertex sampling"  # the family's method, by its label
QUESTION = "**Two players search for a good mixture among d strategies. What does privacy cost as d grows?**"

WORDS = {
    "Single pass": "vertex sampling, every row in one round only",
    "As in the paper": "vertex sampling in a single pass, composed as the paper does",
    "Fresh draws": "vertex sampling, output drawn afresh",
    "Bias-reduced": "vertex sampling with a telescoping gradient",
    "DP-SGDA": "noisy gradient descent and ascent",
    "Two draws": "each player draws one strategy, once",
    "Noisy matrix": "the payoffs with noise, then solved",
    "Vertex sampling, certified": "a part of the budget releases the gap, too",
    "Anytime": "vertex sampling at averages of the weights",
    "MWEM": "multiplicative weights with measured queries",
}

NOT_COVERED = (
    "Choosing rounds, draws, step sizes or the method by looking at results on the data is not accounted for: every "
    "run on real data spends its budget again. Groups of several rows per person, and adding or removing rows "
    "instead of replacing one, are not covered either."
)

SCREEN = (
    "The plan depends on your settings only. Of a run, the drawn vertices and their averages have the guarantee shown, "
    "for one run; of synthetic data, all that x does. The hidden weights, gaps, losses and query errors are "
    "diagnostics: they read the raw data and are not private. Bands over several runs would compose their costs."
)


def batches(single_pass: bool, batch: int, n: int) -> str:
    """Which rows a round reads, in words."""
    if not single_pass:
        return f"None: every round uses all n = {n:,} rows, and a row's weight in the sums grows with the rounds."
    return (
        f"Each round has its own block of {batch:,} of n = {n:,} rows, in a fixed public order. A row is read once, "
        "so it pays only in the draws after its block; there is no amplification by sampling, and none is claimed."
    )


def composition(accounting: planning.Accounting) -> str:
    """Which theorems turn draws into the guarantee of the run."""
    if accounting == "paper":
        return (
            "Every draw is the exponential mechanism, counted as 4 L₀ τ/B-DP; advanced composition over 2KT draws "
            "(Dwork, Roth 2014, Corollary 3.21), as in Proposition 4.1. The accountants show what it really costs."
        )
    return (
        "Every draw is the exponential mechanism with bounded range η, which is η-DP and costs at most η²/8 in ρ; "
        "costs add up over draws, each given all earlier ones (adaptive composition). Gaussian noise: μ² adds up. "
        "Number of rounds and step sizes are fixed before the run."
    )


DECLARED = {
    "ranges": "the ranges of the columns",
    "range": "the range of the losses",
    "categories": "the categories of the columns",
    "groups": "the groups",
    "shares": "the groups' shares",
}


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
    outside = "becomes “other”" if "categories" in things else "is clipped"
    words.append(f"What lies outside {outside}, which bounds every gradient whatever the data are.")
    if "shares" in things:
        words.append("Wrong shares reweight the groups and never break privacy.")
    words += {
        "": [],
        "fill": ["A missing value counts as the middle of its range."],
        "drop": ["Rows with missing values were dropped: n depends on the data, **not private**."],
    }[missing]
    return " ".join(words)


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
    source = "On generated data, medians at default settings, interpolated to your rows, budget, strategies and rounds."
    if best[0] in found.useless:
        return (
            f"Expect no method to do better than not playing here ({uniform}): more rows or budget are needed. {source}"
        )
    words = [f"Prefer {_list(best, 'or')}: expect an error of about {reached}.{add}"]
    if OWN in chosen and OWN in found.medians and OWN not in best:
        words.append(f"{OWN}: about {_gap(found.medians[OWN])}.")
    idle = [label for label in found.useless if label in chosen]
    if idle:
        words.append(f"No better than not playing ({uniform}): {', '.join(idle)}.")
    return " ".join([*words, source])


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
    tuning = "On private data, choosing by such results is tuning, which the budget does not cover."
    played = f"uniform play: {short(uniform)}"
    if best in useless:
        return f"No method does better than not playing here ({played}). {tuning}"
    idle = f" No better than not playing ({played}): {', '.join(useless)}." if useless else ""
    if own == best:
        return f"{best} has the smallest error here, {short(gaps[best])}.{idle} {tuning}"
    return (
        f"{best} beats {own} here, {short(gaps[best])} against {short(gaps[own])}: at this size the simpler method "
        f"wins.{idle} {tuning}"
    )


def certified(label: str, bound: float, added: float) -> str:
    """What a released certificate says, and of what it is a function. added : to the noisy gap, in the bound."""
    return (
        f"{label}, first run: the gap here is at most {short(bound)}, with {100 * CONFIDENCE:.0f} % confidence "
        f"over the certificate's own noise. Released, and paid for by the budget; {short(added)} of it is a margin "
        "for that noise."
    )


def _gap(value: float) -> str:
    """A rule of thumb, with two digits; 0 for what is below everything that was measured."""
    return short(value, 2) if value > 2 * SMALLEST else "0"
