"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

from dpviz import resources
from dpviz.numbers import short, short_up

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.texts(__package__)
phrase = resources.phrases(__package__)
TITLE, QUESTION, NOT_COVERED = (str(TEXTS[name]) for name in ("TITLE", "QUESTION", "NOT_COVERED"))
WORDS: dict[str, str] = TEXTS["WORDS"]
GUESS: str = TEXTS["GUESS"]
MEASURED_ELSEWHERE = f"{TEXTS['MEASURED']} {TEXTS['ELSEWHERE']}"


def rests_on(guessed: bool) -> str:
    """What bounds rest on, to be said behind their name."""
    return " if F* holds" * guessed


def constants(exact: bool, missing: str = "", guessed: bool = False) -> str:
    """What L and the gap are, and what became of missing values.

    exact : whether L holds for every row. missing : "fill" or "drop", of an upload. guessed : whether the gap is less
    than what holds for every data set.
    """
    held = "holds for every row, whatever it is" if exact else "is no promise here: differences beyond it are clipped"
    said = f"L {held}. The gap F* is for the bounds only.{f' {GUESS}' * guessed}"
    return f"{said} {phrase(f'missing_{missing}')}" if missing else said


def clipped(share: float, mass: float, label: str) -> str:
    """How often, and how much, differences of values were clipped where a run ended."""
    if not share:
        return "no difference of values over 2r at the end of any run: L holds there."
    return (
        f"{short(100 * share, 2)} % of the differences of values over 2r at the end of “{label}” are beyond L; to "
        f"clip them there takes away {short(100 * mass, 2)} % of their sum."
    )


def renyi(mu: float) -> str:
    """The guarantee of a run as the paper states it."""
    return phrase("renyi", mu=short_up(mu, 4), rho=short_up(mu**2 / 2))
