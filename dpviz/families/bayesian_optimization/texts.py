"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

from dpviz import resources
from dpviz.numbers import short

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.texts(__package__)
phrase = resources.phrases(__package__)
TITLE, QUESTION, NOT_COVERED = (str(TEXTS[name]) for name in ("TITLE", "QUESTION", "NOT_COVERED"))
WORDS: dict[str, str] = TEXTS["WORDS"]


def constants(missing: str = "") -> str:
    """What is declared; missing : "fill" or "drop", of an upload."""
    return f"{phrase('constants')} {phrase(f'missing_{missing}')}" if missing else phrase("constants")


def beaten(label: str, better: bool, chance: bool) -> str:
    """A search that ends no higher than DP-GIBO, in a sentence. chance : whether that may be chance between the
    repeats."""
    if chance:
        return f"**{label} does as well here**, as far as these repeats can tell, and is simpler."
    return f"**{label} {'wins here' if better else 'does as well here'}**, and is simpler."


def clipped(share: float, label: str) -> str:
    """How many users' gradients were clipped where a run ended."""
    return f"{short(100 * share, 2)} % of the users' gradients in the last step of “{label}”."


def values(factor: float, d: int, distance: float) -> str:
    """What it would cost to release losses and take differences afterwards."""
    return (
        f"Two losses {short(2 * distance)} apart give a slope. If all {2 * d:,} losses of a step were released, "
        f"each with its own noise, the slope would have **{short(factor, 2)} times the noise** of DP-GIBO in each "
        "setting: a loss is as large as M, a user's slope only as long as B. This one number is why global "
        "search struggles."
    )


def everywhere(trainings: float, d: int) -> str:
    """How many trainings search of the whole box is said to need."""
    return (
        f"Without noise, search of the whole box is said to need about {short(trainings, 2)} trainings for d = "
        f"{d:,} to come within 0.1: an illustration with constants 1, not a theorem (E11)."
    )
