"""Texts of the family's page that depend on numbers; `texts.toml` has the fixed ones."""

from dpviz import resources
from dpviz.datasets.uploads import upload
from dpviz.numbers import short

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.Texts(__package__).__getattr__
WORDS: dict[str, str] = TEXTS["WORDS"]  # descriptions of the methods, by label
MISSING = upload.MISSING | {
    "drop": "Rows with missing values were dropped: the number of users depends on the data, **not private**."
}
TRAININGS_BY_LEVEL = (
    "The first step's batch is known exactly, later ones are taken as 60 % of it or less: they reuse points. No "
    "training costs privacy."
)


def constants(missing: str = "") -> str:
    """Return sentences on the constants that are declared, and on missing values. missing : their treatment in an
    upload, "fill" or "drop"; empty if the data are no upload."""
    declared = (
        "Box, clip, kernel, its length-scale and noise, the loss cap M and the time of a training are declared. Clips "
        "hold for any data. Features are scaled by what the training rows say, never by the users'."
    )
    return f"{declared} {MISSING[missing]}" if missing else declared


def beaten(label: str, better: bool, chance: bool) -> str:
    """Return a sentence on a search method that ends about as low as DP-GIBO, or lower.

    label : of the search. better : True if it ends lower. chance : True if the difference may be chance.
    """
    if chance:
        return f"**{label} does as well here**, as far as these repeats can tell."
    return f"**{label} {'wins here' if better else 'does as well here'}.**"


def clipping(share: float, label: str) -> str:
    """Return the share of the users whose gradients were clipped in a method's last step, in words. share : in 0 to 1.
    label : of the method."""
    return f"{short(100 * share, 2)} % of the users' gradients in the last step of “{label}”."


def values(factor: float, d: int, distance: float) -> str:
    """Return sentences on the noise if losses were released and their differences taken, in place of gradients.

    factor : by which a slope's noise is larger. d : settings. distance : of the evaluated points from the iterate.
    """
    return (
        f"Two losses {short(2 * distance)} apart give a slope. If all {2 * d:,} losses of a step were released, "
        f"each with its own noise, the slope would have **{short(factor, 2)} times the noise** of DP-GIBO in each "
        "setting: a loss is as large as M, a user's slope only as long as B. This one number is why global "
        "search struggles."
    )


def everywhere(trainings: float, d: int) -> str:
    """Return a sentence on the number of trainings that search of the whole box is said to need. d : settings."""
    return (
        f"Without noise, search of the whole box is said to need about {short(trainings, 2)} trainings for d = "
        f"{d:,} to come within 0.1: an illustration with constants 1, not a theorem (E11)."
    )
