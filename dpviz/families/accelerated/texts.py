"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

from collections.abc import Sequence

from dpviz import resources
from dpviz.families.accelerated.planning import UNDERESTIMATE
from dpviz.numbers import short

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.texts(__package__)
phrase = resources.phrases(__package__)
TITLE, QUESTION, NOT_COVERED = (str(TEXTS[name]) for name in ("TITLE", "QUESTION", "NOT_COVERED"))
WORDS: dict[str, str] = TEXTS["WORDS"]


def batches(m: int, n: int) -> str:
    """How batches are drawn, in words."""
    if m == n:
        return "None: every step uses all rows."
    return (
        f"Each step draws m = {m:,} of n = {n:,} rows, uniformly, without replacement, afresh and independently "
        "of everything else. Which rows were drawn stays secret; that is what makes sampling help privacy."
    )


def composition(noise: str, sampled: bool) -> str:
    """Which theorems turn the noise of the steps into the guarantee of the run."""
    return phrase(
        f"{noise}_composition",
        amplified=(", amplified by sampling without replacement (Balle, Barthe, Gaboardi 2018)") if sampled else "",
    )


def condition(assumed: Sequence[str]) -> str:
    """What error bounds rest on, to be said behind their name: " if E₀ holds". assumed : see `bound`."""
    return f" if {' and '.join(assumed)} hold{'s' * (len(assumed) == 1)}" if assumed else ""


def bound(assumed: Sequence[str], released: bool = False) -> str:
    """For what the error bound holds. assumed : the constants that are less than what follows from the ranges.
    released : whether L is from a private release."""
    chance = f", but for the chance of {short(UNDERESTIMATE)} that the released L is too small" if released else ""
    if not assumed:
        return f"Upper bound on the mean for every data set{chance}; real runs are usually far better."
    return (
        f"Upper bound on the mean **{condition(assumed).strip()}**, which is assumed: less than what follows from "
        f"the ranges{chance}. Runs may end above it."
    )


def constants(source: str | None, missing: str = "", curvature: float = 1 / 4, assumed: Sequence[str] = ()) -> str:
    """Where the constants are from, what holds whatever the data are, and what became of missing values.

    source : of the smoothness, None on a quadratic. missing : "fill" or "drop", of an upload. curvature : largest
    second derivative of the loss. assumed : see `bound`.
    """
    sizes = "d counts" if missing == "drop" else "n and d count"
    words = [(f"Ranges, categories and the clip C are enforced, whatever the data are; {sizes} as known.")]
    if missing:
        words.append(phrase(f"missing_{missing}"))
    words.append(phrase(f"smoothness_{source or 'known'}", quarter="/4" * (curvature < 1)))
    if source is not None:
        words.append(phrase("start_guessed" if "E₀" in assumed else "start_bounded"))
    return " ".join(words)
