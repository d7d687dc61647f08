"""Sentences of the family's page: names of methods, assumptions, and differences between tool and paper.

Texts without numbers are in texts.toml; `phrase` fills the values in braces into one of its phrases.
"""

from dpviz import resources
from dpviz.datasets.uploads.upload import MISSING
from dpviz.numbers import short, short_up

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.Texts(__package__).__getattr__
phrase = resources.phrases(__package__)
WORDS: dict[str, str] = TEXTS["WORDS"]
GUESS: str = TEXTS["GUESS"]
MEASURED_ELSEWHERE = f"{TEXTS['MEASURED']} {TEXTS['ELSEWHERE']}"


def condition(guessed: bool) -> str:
    """Return the condition under which bounds hold, to follow their name; "" if the gap F* is not guessed."""
    return " if F* holds" if guessed else ""


def constants(exact: bool, missing: str = "", guessed: bool = False) -> str:
    """Return sentences on the Lipschitz constant L, on the gap F* = F(x₀) - inf F, and on missing values.

    exact : True if L holds for every row. missing : treatment of missing values in an upload, "fill" or "drop"; "" if
    there are none. guessed : True if the gap is set below the value that holds for every data set.
    """
    claim = "holds for every row, whatever it is" if exact else "is no promise here: differences beyond it are clipped"
    sentences = [f"L {claim}. The gap F* is for the bounds only."]
    if guessed:
        sentences.append(GUESS)
    if missing:
        sentences.append(MISSING[missing])
    return " ".join(sentences)


def clipping(share: float, mass: float, label: str) -> str:
    """Return a sentence on the clipping of differences of values at the end of the runs of the method `label`.

    share : of the differences that are beyond the clip, in [0, 1]. mass : share of the sum of their sizes that the clip
    takes away.
    """
    if not share:
        return "no difference of values over 2r at the end of any run: L holds there."
    return (
        f"{short(100 * share, 2)} % of the differences of values over 2r at the end of “{label}” are beyond L; to "
        f"clip them there takes away {short(100 * mass, 2)} % of their sum."
    )


def renyi(mu: float) -> str:
    """Return the guarantee of a run with μ-Gaussian DP as the paper states it, as a Rényi divergence."""
    return phrase("renyi", mu=short_up(mu, 4), rho=short_up(mu**2 / 2))
