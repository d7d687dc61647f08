"""Sentences of the family's page: names of methods, assumptions, and differences between tool and paper.

Texts without numbers are in texts.toml; `phrase` fills the values in braces into one of its phrases.
"""

from collections.abc import Sequence

from dpviz import resources
from dpviz.datasets.uploads.upload import MISSING
from dpviz.families.accelerated.planning import UNDERESTIMATE
from dpviz.numbers import short

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.Texts(__package__).__getattr__
phrase = resources.phrases(__package__)
WORDS: dict[str, str] = TEXTS["WORDS"]


def batches(m: int, n: int) -> str:
    """Return a sentence on how batches of m of n rows are drawn."""
    if m == n:
        return "None: every step uses all rows."
    return (
        f"Each step draws m = {m:,} of n = {n:,} rows, uniformly, without replacement, afresh and independently "
        "of everything else. Which rows were drawn stays secret; that is what makes sampling help privacy."
    )


def composition(noise: str, sampled: bool) -> str:
    """Return a sentence that names the theorems by which the noise of the steps gives the guarantee of the run.

    noise : "laplace" or "gaussian". sampled : True if batches are drawn.
    """
    return phrase(
        "gaussian_batches_composition" if sampled and noise == "gaussian" else f"{noise}_composition",
        amplified=", amplified by sampling without replacement (Balle, Barthe, Gaboardi 2018)" if sampled else "",
    )


def condition(assumed: Sequence[str]) -> str:
    """Return the condition of an error bound, to follow its name: " if E₀ holds"; "" if there is none.

    assumed : the constants that are set below the value that follows from the declared ranges.
    """
    if not assumed:
        return ""
    return f" if {assumed[0]} holds" if len(assumed) == 1 else f" if {' and '.join(assumed)} hold"


def bound(assumed: Sequence[str], released: bool = False) -> str:
    """Return a sentence that says when the bound on the mean excess loss holds.

    assumed : as for `condition`. released : True if L is from a private release.
    """
    chance = f", but for the chance of {short(UNDERESTIMATE)} that the released L is too small" if released else ""
    if not assumed:
        return f"Upper bound on the mean for every data set{chance}."
    return (
        f"Upper bound on the mean **{condition(assumed).strip()}**, which is assumed: less than what follows from "
        f"the ranges{chance}. Runs may end above it."
    )


def constants(source: str | None, missing: str = "", curvature: float = 1 / 4, assumed: Sequence[str] = ()) -> str:
    """Return sentences that say where the constants n, d, L and E₀ of the plan come from.

    source : of the smoothness L, "bounds", "declared", "estimated" or "released"; None on a quadratic, where L is
        known.
    missing : treatment of missing values in an upload, "fill" or "drop"; "" if there are none.
    curvature : largest second derivative of the loss.
    assumed : names of the constants that are set below the value that follows from the declared ranges.
    """
    sizes = "d counts" if missing == "drop" else "n and d count"  # n depends on which rows are dropped
    sentences = [f"Ranges, categories and the clip C are enforced, whatever the data are; {sizes} as known."]
    if missing:
        sentences.append(MISSING[missing])
    quarter = "/4" if curvature < 1 else ""  # the curvature is 1/4 of the logistic loss, else 1
    sentences.append(phrase(f"smoothness_{source or 'known'}", quarter=quarter))
    if source is not None:
        sentences.append(phrase("start_guessed" if "E₀" in assumed else "start_bounded"))
    return " ".join(sentences)
