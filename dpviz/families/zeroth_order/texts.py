"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

from dpviz.numbers import short

TITLE = "Zeroth-order optimisation"
QUESTION = "**You may only ask for values, never gradients. What does privacy cost?**"

WORDS = {
    "Published": "changes of the gradient added up by a binary tree, independent directions",
    "Published noise": "the same with the noise as the paper counts it, which the guarantee may not need",
    "Improved": "changes of the gradient, with orthonormal directions and the optimal running sums",
    "Naive": "a fresh estimate in every step, one direction per row",
    "Naive, orthonormal": "a fresh estimate in every step, as many orthonormal directions as parameters",
    "DP-ZO": "one noisy slope along one direction per step",
    "DP-SGD": "for who may ask for derivatives",
}

NOT_COVERED = (
    "Choosing L, r or the learner's step size by trying them on the data is not accounted for here: every run on real "
    "data spends its budget again. Choosing the best epoch by looking at losses is not private either; the epoch that "
    "is returned is drawn at random, or is the last one."
)

SCREEN = (
    "The plan depends on your settings only. Of a run, positions and noisy gradient norms have the guarantee shown, "
    "for one run; rows used and numbers of values are public. The objective, the smoothed gradient, Goldstein "
    "stationarity and the clipped share are diagnostics: they read the raw data and are not private. Several runs on "
    "real data would add up their costs."
)

BATCHES = (
    "Rows are dealt out once, in a random order that is public: every row is in one step, and in no other. "
    "Rows that are left over are never touched."
)

COMPOSITION = (
    "Gaussian noise of all steps is one Gaussian mechanism: μ-GDP exactly, where the paper states the Rényi guarantee "
    "(α, αμ²/2) for all α > 1 that follows from it and calls our μ its ρ; its readings as (ε, δ) are exact. Laplace "
    "noise, which DP-ZO offers, is ε-DP. Epochs, and the steps of methods without running sums, are on different rows, "
    "so their costs do not add up."
)


GUESS = "Bounds hold **if F* does**, which is a guess: less than what holds for every data set."


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
    if missing == "drop":
        said += " Rows with missing values were dropped: n depends on the data, **not private**."
    if missing == "fill":
        said += " A missing value counts as the middle of its range."
    return said


ALIKE = 1.05  # ratio of two ends up to which they are told as the same


def finding(published: float, other: float, label: str) -> str:
    """How a simple method does beside the published algorithm, in a sentence."""
    who = f"“{label}”, which adds up nothing,"
    if other > ALIKE * published:
        return f"{who} ends higher than the published algorithm."
    if published <= ALIKE * other:
        return f"{who} ends about as low as the published algorithm."
    return f"{who} ends lower than the published algorithm."


def clipped(share: float, mass: float, label: str) -> str:
    """How often, and how much, differences of values were clipped where a run ended."""
    if not share:
        return "no difference of values over 2r at the end of any run: L holds there."
    return (
        f"{short(100 * share, 2)} % of the differences of values over 2r at the end of “{label}” are beyond L; to clip "
        f"them there takes away {short(100 * mass, 2)} % of their sum."
    )


MUCH_CLIPPED = (
    "Privacy holds whatever is clipped, but the gradient is underestimated. Declare a larger L, or choose the naive "
    "oracle, whose clipping keeps signal and noise in proportion."
)
LANDSCAPE = (
    "Contours of the {what}, from 2,000 rows that are drawn alike; every dot is what one run would release, the line "
    "is the way of the first run."
)
STATIONARITY = (
    "Goldstein stationarity within r, from above: a mixture of gradients at 20 points, at a few epochs. Up to 1,000 "
    "rows say which mixture is short, up to 3,000 others how long it is. The band is the sampling error of that "
    "length, not the spread of the runs; 0 would mean that the gradients of these rows cancel exactly."
)
NO_STATIONARITY = (
    "Values jump here: Goldstein stationarity, a mixture of gradients, is not defined for such a function."
)
SMOOTHED = (
    "An estimate of ‖∇F̂_r‖ from 4,000 rows at most, at a few epochs: it bounds the Goldstein stationarity within r. "
    "The band is the estimate's own sampling error, not the spread of the runs; below 0 it cannot be told from 0."
)
NOISE = (
    "Standard deviation of what is added to each coordinate of g_t. With a tree it follows the binary digits of t; "
    "fresh estimates have the same noise in every step."
)
PARTS = (
    "What is promised of a random epoch's average, in three parts, if rows are drawn independently, for the mean over "
    "all rows that might have been drawn, and if the learner takes the steps that theory asks for (g₀ = 1 plus the "
    "oracle's error). That error counts twice in running sums; in fresh estimates it averages out over an epoch. From "
    "L on, every point is that good. With constants of ours (Derivations, 5)."
)

SUMS = (
    "Noise in the running sums of an epoch, for every way to add them up, at your settings; and what estimating afresh "
    "in every step would have. Its square grows with t if noise is independent, and with a tree as log² t."
)
WATCHED = (
    "What somebody has learned who watches the first t steps of an epoch only. Sums that are correlated give their "
    "secrets away little by little; the guarantee is for all of them."
)
TREE = (
    "A running sum of T changes is released as sums over blocks, the nodes of a tree. Each row is in one change only, "
    "so it enters few nodes, and each estimate sums few nodes: both about log₂ T, which is why noise grows so slowly."
)
NODES = (
    "Every bar is a released node, over the steps whose changes it sums; all epochs are alike. Right children are "
    "never needed and never released (E6)."
)
NOISE_RATIO = (
    "Exact, at equal rows and directions, for moves of r/T: noise in the estimate of a step, and in the mean of an "
    "epoch's estimates. Below 1 running sums have less of it."
)
CROSSOVER = (
    "What the bound makes of the same noise: it counts the error of running sums twice in every step, and lets that of "
    "fresh estimates average out. So it favours running sums only from T = {published} on as published, {root} with "
    "the square root, {following} if batches follow the moves. It is no statement about noise, nor about runs."
)
MEASURED = (
    "Medians of six runs on generated data, between the sizes and budgets that were measured; every option with the "
    "best of 10, 20 and 40 epochs, other settings at their defaults."
)
MEASURED_ELSEWHERE = f"{MEASURED} Your function differs from all that was measured: these are the nearest numbers."
UNMEASURED = "No function of this kind was measured, so there are no runs to compare with the noise and the bound."
OPTIONS = (
    "Runs end at: median objective of runs on generated data, with the T and K beside it, which suit that option best. "
    "Noise: standard deviation on each coordinate as planned, in a step and in the mean of an epoch. Bound: of these "
    "epochs. Smallest bound: over all T and K that may be set, and where runs with those ended."
)
MECHANISMS = (
    "Variance of the noise on a running sum, over the steps of an epoch, for changes of sensitivity 1 and μ = 1."
)
ROWS = (
    "Rows that the bounds ask for, with their constants. The published rates, of the paper's oracle (Theorem 4.9) and "
    "of the naive one (Appendix E), leave these out, and logarithms: they are no numbers of rows to plan with."
)
FREE = (
    "Above a line, the private term of the rate is the smaller one: privacy then costs no more than a constant factor "
    "of rows. As published from μ = √d ε/L on, with orthonormal directions from ε/L on."
)
READINGS = (
    "The same noise, read as (ε, δ). The exact curve is what holds; the formula that the paper uses is an upper bound "
    "on it (E13)."
)
NOT_GAUSSIAN = "This is about Gaussian noise, which never gives pure ε. Choose another guarantee."
NORMS = (
    "Where both lines run together, what was released is mostly noise: only the sum of many of them can say where to "
    "go."
)
NO_REACH = (
    "The nearest minimum is {far} from the start, and all moves of a run together are {reach} long at most. Take more "
    "steps, longer travel per epoch, or a larger smoothing radius."
)


def renyi(mu: float) -> str:
    """The guarantee of a run as the paper states it."""
    rho = short(mu**2 / 2)
    return (
        f"With Gaussian noise a run is **μ-GDP with μ = {short(mu, 4)}**, exactly. The paper states what follows: "
        f"(α, {rho} α)-Rényi DP for every α > 1, and calls our μ its ρ. In the unit of zCDP it is {rho}."
    )
