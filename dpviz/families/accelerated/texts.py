"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

from collections.abc import Sequence

from dpviz.families.accelerated.smoothness import UNDERESTIMATE
from dpviz.numbers import short

TITLE = "Accelerated gradient"
QUESTION = "**Same privacy, different methods: how close to the best model does each of them get?**"

WORDS = {
    "DP-GD": "gradient descent",
    "DP-GD-opt": "gradient descent, noise and steps chosen by theory",
    "DP-HB": "heavy ball momentum",
    "DP-NAG": "Nesterov's accelerated gradient",
    "DP-NAG-T*": "Nesterov's, number of steps chosen by theory",
    "DP-NAG-opt": "Nesterov's, noise and steps chosen by theory",
    "DP-MASG": "multi-stage Nesterov",
    "DP-MASG-opt": "multi-stage Nesterov, noise and steps chosen by theory",
}

NOT_COVERED = (
    "Choosing hyper-parameters by trying them on the data is not accounted for here: every run on real data spends its "
    "budget again."
)

DECOMPOSITION = (
    "The error bound after all steps, split into what it consists of. What remains of the start shrinks with more "
    "steps, privacy noise grows with them, and batch noise comes from looking at m rows only."
)

CERTIFICATE = (
    "For heavy ball no error bound is known that holds everywhere. Proposition 3.4 of the paper (corrected) proves "
    "one if a small matrix inequality has a solution, which is the case only for modest momentum, about β ≤ 1 - "
    "αL/2."
)

PUBLISHED = (
    "The curves as the paper prints them. They use Nesterov's rate for heavy ball and are not a bound on its error "
    "(errata E2 and E10)."
)


def batches(m: int, n: int) -> str:
    """How batches are drawn, in words."""
    if m == n:
        return "None: every step uses all rows."
    return (
        f"Each step draws m = {m:,} of n = {n:,} rows, uniformly, without replacement, afresh and independently of "
        "everything else. Which rows were drawn stays secret; that is what makes sampling help privacy."
    )


def composition(noise: str, sampled: bool) -> str:
    """Which theorems turn the noise of the steps into the guarantee of the run."""
    step = "Laplace mechanism" if noise == "laplace" else "Gaussian mechanism"
    amplified = ", amplified by sampling without replacement (Balle, Barthe, Gaboardi 2018)" if sampled else ""
    total = {
        "laplace": "pure ε adds up over the steps; for other currencies the accountants named above compose the steps",
        "gaussian": "Gaussian DP composes exactly (Dong, Roth, Su 2019); ρ = μ²/2",
    }[noise]
    return f"{step} in every step{amplified}; {total}. Number of steps and schedule are fixed before the run."


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
        f"Upper bound on the mean **{condition(assumed).strip()}**, which is assumed: less than what follows from the "
        f"ranges{chance}. Runs may end above it."
    )


def constants(source: str | None, missing: str = "", curvature: float = 1 / 4, assumed: Sequence[str] = ()) -> str:
    """Where the constants are from, what holds whatever the data are, and what became of missing values.

    source : of the smoothness, None on a quadratic. missing : "fill" or "drop", of an upload. curvature : largest
    second derivative of the loss. assumed : see `bound`.
    """
    sizes = "d counts" if missing == "drop" else "n and d count"
    common = f"Ranges, categories and the clip C are enforced, whatever the data are; {sizes} as known. "
    common += {
        "": "",
        "fill": "A missing value counts as the middle of its range. ",
        "drop": "Rows with missing values were dropped: n depends on the data, **not private**. ",
    }[missing]
    smoothness = {
        None: "μ and L are those of the quadratic.",
        "bounds": f"L = R²{'/4' * (curvature < 1)} + 2λ follows from the ranges; R bounds a row's norm.",
        "declared": "L is your own value; if it is too small, accuracy suffers, not privacy.",
        "estimated": "L was estimated from the data: **not private**, and no budget accounts for it.",
        "released": "L was released privately; its cost is part of the budget shown.",
    }
    start = "The starting error is a bound for every data set."
    if "E₀" in assumed:
        start = "E₀ is a guess, less than the bound for every data set: no error bound is sure with it."
    return f"{common}{smoothness[source]}{'' if source is None else f' {start}'}"


SCREEN = (
    "The plan depends on your settings only. Of a run, each method's iterates, and what follows from them (distance "
    "travelled, noisy gradient norm), have the guarantee shown, for one run. Loss, gradient norm and accuracy "
    "are diagnostics: they read the raw data and are not private. Bands over several runs would compose their costs."
)
