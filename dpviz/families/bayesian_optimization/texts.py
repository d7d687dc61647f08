"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

from dpviz.numbers import short

TITLE = "Private tuning"
QUESTION = "**Tune on private data: how much does each look cost, and when should you stop looking?**"

WORDS = {
    "DP-GIBO": "steps along noisy mean gradients, which a Gaussian process reads off a few trainings nearby",
    "DP-GD": "the same steps with exact gradients, where the problem has them",
    "DP-GIBO, a fifth of μ": "DP-GIBO that spends a fifth of the budget's μ",
    "DP-GIBO, noise × 0.1": "DP-GIBO that takes the noise of evaluations for a tenth of what it is",
    "DP-GIBO, noise × 0.01": "DP-GIBO that takes the noise of evaluations for a hundredth of what it is",
    "DP-GIBO, noise × 3": "DP-GIBO that takes the noise of evaluations for three times what it is",
    "Random search": "settings drawn anywhere, one of them chosen by the exponential mechanism",
    "Global search": "Bayesian optimisation of the whole box on noisy mean losses, each of them paid for",
}

NOT_COVERED = (
    "Not covered: what you choose after looking at the users' losses (clip, steps, bias level, kernel, length-scales, "
    "box, start), and several runs on the same users, which compose. Related methods that are not here: TuRBO and "
    "SAASBO (no privacy), DP-HyPO (adaptive random stopping)."
)

POINTS = (
    "Points, weights and batch sizes follow from the settings released so far and the declared process. No loss is "
    "looked at, so trainings are free of charge, and their number may be told."
)
COMPOSITION = (
    "All users enter every step. T Gaussian releases are μ-GDP with μ² the sum of their squares, exactly; so is all "
    "that follows from them. Random search is one choice by the exponential mechanism, however many settings are tried."
)
SCREEN = (
    "The plan depends on your settings only. Of a run, settings, trainings, batch sizes and noisy gradients have "
    "the guarantee shown, for one run. Losses, lengths of gradients, clipped shares and the curve of the "
    "process are diagnostics: they read the users' data and are not private."
)


def constants(missing: str = "") -> str:
    """What is declared; missing : "fill" or "drop", of an upload."""
    said = (
        "Box, clip, kernel, its length-scale and noise, the loss cap M and the time of a training are declared. Clips "
        "hold for any data. Features are scaled by what the training rows say, never by the users'."
    )
    if missing == "drop":
        said += " Rows with missing values were dropped: the number of users depends on the data, **not private**."
    if missing == "fill":
        said += " A missing value counts as the middle of its range."
    return said


BIAS = (
    "The planned bias of a step's gradient, A√(ωP/d) with A = 0.5 declared for the mean loss, beside the length of its "
    "noise, σ√d. Right of where they meet bias shows; left of it, trainings buy what drowns."
)
TRAININGS = (
    "The first step's batch is known exactly, later ones are taken as 60 % of it or less: they reuse points. No "
    "training costs privacy."
)


def beaten(label: str, better: bool, chance: bool) -> str:
    """A search that ends no higher than DP-GIBO, in a sentence. chance : whether that may be chance between the
    repeats."""
    if chance:
        return f"**{label} does as well here**, as far as these repeats can tell, and is simpler."
    return f"**{label} {'wins here' if better else 'does as well here'}**, and is simpler."


def clipped(share: float, label: str) -> str:
    """How many users' gradients were clipped where a run ended."""
    return f"{short(100 * share, 2)} % of the users' gradients in the last step of “{label}”."


MUCH_CLIPPED = (
    "Nearly all gradients are shortened: signal is lost, noise is not. Either the clip is too small, or points are so "
    "near each other that noise is taken for slopes: assume more noise, or place points further away."
)

SIGNAL = (
    "Where the bound on the bias (for a mean loss of norm 0.5) is below the noise, further trainings buy nothing that "
    "can be seen. Where the mean gradient is below the noise, steps are mostly noise."
)
RELEASED = "In the settings' own units; from and to are the ends of the box."
PATHS = "A dot for every run, the way of the first one, and the edges of the box."
PROCESS = (
    "The mean loss through the first run's setting, with what the Gaussian process expects of it, two standard "
    "deviations on both sides, and the points that it rests on, which lie beside the curve. Between points far away it "
    "is often sure and wrong: the slope at θ_t is all that is used."
)
LANDSCAPE = (
    "Contours of the mean validation loss; every dot is what one run would release, the line is the way of the first."
)
NOT_GAUSSIAN = "This is about Gaussian noise, which never gives pure ε. Choose another guarantee."
ASSUMED = (
    "What you assume of the mean loss near the minimum that a run approaches. Bounds rest on it; privacy and runs do "
    "not. They are for plain steps of at most 1/L."
)
STEPS = (
    "More steps get nearer, and each of them then gets less of the budget. The published bound is linear in bias and "
    "noise, its constants are unknown and taken as 1 (E8)."
)
TOLD = "With quantiles of χ² where the paper bounds the length of Gaussian noise (Derivations, 5 and 6)."
STOPPING = (
    "How exact each try may be if only the best of K random tries is released, K is drawn at random and **nobody "
    "learns it**. For who can count the trainings the promise does not hold, so there is no run of it here."
)


def values(factor: float, d: int, distance: float) -> str:
    """What it would cost to release losses and take differences afterwards."""
    return (
        f"Two losses {short(2 * distance)} apart give a slope. If all {2 * d:,} losses of a step were released, each "
        f"with its own noise, the slope would have **{short(factor, 2)} times the noise** of DP-GIBO in each setting: "
        "a loss is as large as M, a user's slope only as long as B. This one number is why global search struggles."
    )


def everywhere(trainings: float, d: int) -> str:
    """How many trainings search of the whole box is said to need."""
    return (
        f"Without noise, search of the whole box is said to need about {short(trainings, 2)} trainings for d = {d:,} "
        "to come within 0.1: an illustration with constants 1, not a theorem (E11)."
    )


EPSILON = (
    "What the steps so far have told, all of them together, exactly: costs of Gaussian steps add up as squares of μ, "
    "so half of the steps tell more than half of ε. Random search tells all at once, and its ε is smaller: a "
    "choice among few settings tells less than Gaussian noise of the same μ could."
)
ATTACKS = (
    "No test of whether one user was replaced lies below its curve, whatever else the attacker knows. Random search is "
    "a choice among few settings, so tests of it are weaker than its μ allows."
)
FIXED = "Your steps have a fixed number of evaluations, so no bias level is asked for now."
