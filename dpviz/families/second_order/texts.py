"""Sentences of the family's page: names of methods, assumptions, and differences between tool and paper.

Texts without numbers are in texts.toml. Symbols: α and ε_H are the targets of the gradient's norm and of the curvature,
G is an upper bound on the curvature of the objective f, M the Lipschitz constant of its Hessian, Γ a bound on how far f
can fall, W the waiting time at a flat place.
"""

import math
from collections.abc import Collection, Mapping

import numpy as np

from dpviz import resources
from dpviz.datasets.uploads import upload
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice, theory
from dpviz.numbers import short, short_up
from dpviz.problems.nonconvex import nonconvex, nonconvex_risk

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.Texts(__package__).__getattr__
TABLES: dict[str, str] = TEXTS["TABLES"] | {"published": f"{TEXTS['SIMULATION']} {TEXTS['TABLES']['published']}"}
WORDS: dict[str, str] = TEXTS["WORDS"]
COLUMNS: dict[str, dict[str, str]] = TEXTS["COLUMNS"]  # of tables: what the columns mean
TESTS: dict[str, str] = TEXTS["TESTS"]
MISSING = upload.MISSING | {
    "classes": "A missing value counts as the centre of its column. Rows of other classes were left out: n depends on "
    "the data, **not private**."
}


def batches(m: int, n: int) -> str:
    """Return a sentence on how batches of m of n rows are drawn."""
    if m == n:
        return "None: every step uses all rows. Methods on mini-batches say so by the letter B."
    return (
        f"Methods with the letter B draw m = {m:,} of n = {n:,} rows in each step, without replacement, one batch "
        "for gradient and Hessian. Which rows were drawn stays secret; that is what makes sampling help privacy."
    )


def constants(problem: nonconvex.NonconvexModel, missing: str = "") -> str:
    """Return sentences that say which constants follow from the loss, which are declared, and what became of missing
    values.

    missing : treatment of missing values in an upload, "fill" or "drop"; "classes" where rows of other classes were
        left out, too; "" if there is nothing to say.
    """
    sizes = "n and d count" if missing in ("", "fill") else "d counts"  # n depends on which rows are dropped
    follows_by_name = {
        "G": problem.smoothness is None,
        "M": problem.hessian_lipschitz is None,
        "the bound Γ on how far f can fall": problem.gap is None,
        "the sensitivity of the gradient": True,
        "that of the Hessian": problem.hessian_bound == "tight",
    }
    names = ", ".join(name for name, follows in follows_by_name.items() if follows)
    sentences = [
        (
            "Ranges and categories are enforced, and rows longer than 1 are scaled to it, whatever the data are; "
            f"{sizes} as known."
        ),
        f"{names[0].upper()}{names[1:]} and the least possible curvature follow from the loss.",
    ]
    # Of each other constant, where it is from, and whether it holds for every data set.
    assumed = {constant.symbol: constant for constant in problem.facts().assumed}
    declared = {"G": problem.smoothness, "M": problem.hessian_lipschitz, "Γ": problem.gap}
    for symbol, value in declared.items():
        if value is None:
            continue
        if symbol in assumed:
            follows = short(assumed[symbol].implied)
            sentences.append(
                f"{symbol} = {short(value)} is declared and **assumed**: {follows} follows from the loss. Steps, "
                "their number and what runs come to rest on it; privacy does not."
            )
        elif symbol == "Γ" and problem.gap_cost is not None:
            sentences.append(f"Γ = {short(value)} is from a release, and too small with probability 0.001 at most.")
        else:
            sentences.append(f"{symbol} = {short(value)} is declared, and holds: it is no less than what follows.")
    if problem.hessian_bound == "spectral":
        sentences.append("The sensitivity of the Hessian is the published one, larger than what follows from the loss.")
    if missing:
        sentences.append(MISSING[missing])
    return " ".join(sentences)


def ended(endings: advice.RunEndings) -> str:
    """Return a sentence on the endings of a method's runs: how many stopped by themselves, their median step, and, if
    it may be shown, how many of these meet both targets where they stopped."""
    if not endings.finished:
        return f"0 of {endings.runs} stopped."
    where = "" if endings.solved is None else f", **{_where(endings.solved, endings.finished)}**"
    step = "median step" if endings.finished > 1 else "step"
    return f"{endings.finished} of {endings.runs} stopped, {step} {short(endings.median_step, 4)}{where}."


def _where(solved: int, finished: int) -> str:
    """Return in words that `solved` of `finished` runs are at points that meet both targets."""
    if finished == 1:
        return "within both targets" if solved else "not within both targets: only flat"
    if not solved:
        return "none within both targets: only flat"
    return "all within both targets" if solved == finished else f"{solved} within both targets"


def when(endings: advice.RunEndings) -> str:
    """Return a sentence with the median step at which those runs stopped that stopped by themselves."""
    return f"{'Median step' if endings.finished > 1 else 'Step'} {short(endings.median_step, 4)}."


def targets(gradient: np.ndarray, curvature: np.ndarray) -> str:
    """Return a badge, a colour, a symbol and words, that says whether R runs meet their targets.

    gradient, curvature : (R,) bool, True for a run that meets the target of the gradient, of the curvature.
    """
    both, runs = int((gradient & curvature).sum()), len(gradient)
    if both == runs:
        return ":green-badge[✓ both targets met]"
    if both:
        return f":orange-badge[~ both targets met by {both} of {runs}]"
    if gradient.all():
        return ":red-badge[✗ gradient met, curvature not]"
    return f":red-badge[✗ {'curvature met, gradient not' if curvature.all() else 'targets not met'}]"


# The forecast whether a run stops, a traffic light: a symbol and words.
LIGHTS: Mapping[theory.Light, tuple[str, str]] = {
    "green": ("✓", "stops soon"),
    "amber": ("~", "stops late where it is just flat"),
    "red": ("✗", "hardly stops where it is just flat"),
}


BLIND = "stops where it is flat, be it a pass"


def light(forecast: advice.Forecast) -> str:
    """Return the forecast of a method, a traffic light, in a symbol and words."""
    return f"? cannot tell: {BLIND}" if forecast.blind else stops(forecast.stopping, forecast.assumed)


def stops(stopping: theory.Stopping, assumed: Collection[nonconvex_risk.Assumed] = ()) -> str:
    """Return the forecast of a phase, a traffic light, in a symbol and words.

    assumed : constants that are declared and not known to hold, on which it rests unless it is red.
    """
    symbol, words = LIGHTS[stopping.light]
    name: str = stopping.light
    if stopping.light == "amber" and stopping.recognised:
        length = "1 step" if stopping.iterations == 1 else f"{stopping.iterations:,} steps"
        name, words = f"amber in {length}", "stops if it is there by then"
    if assumed and stopping.light != "red":
        return f"? open: {words}, if {_hold(assumed)}"
    return f"{symbol} {name}: {words}"


def can_tell(forecast: advice.Forecast, plan: Plan) -> str:
    """Return sentences that say whether one method can tell a flat place with this budget, and what would make it able
    to: less noise, looser targets, or more steps."""
    stopping = forecast.stopping
    waiting = f"At a flat place {forecast.name} waits {_steps(stopping.waiting_time)}, of {stopping.iterations:,}"
    if stopping.hessian_noise > 0:  # it tests the curvature, too
        passed, luck, looser = "both tests pass", "the luck of their noise", "looser targets α and ε_H"
    else:
        passed, luck, looser = "its gradient looks small", "the luck of the noise", "looser targets, α above all"
    if stopping.light == "green":
        if not forecast.assumed:
            return f"{waiting}, until {passed}."
        values = " and ".join(f"{constant.symbol} = {short(constant.declared)}" for constant in forecast.assumed)
        do = "does" if len(forecast.assumed) == 1 else "do"
        return f"{waiting}, until {passed}. This holds if {values} {do}: assumed, not known."
    if stopping.too_short:
        length = "1 step" if stopping.iterations == 1 else f"{stopping.iterations:,} steps"
        return (
            f"{forecast.name} stops after {stopping.in_a_row:,} small gradients in a row, and has {length}. No "
            "budget and no rows turn that green: only more “Steps at most”."
        )
    if stopping.recognised:
        beginning = f"{waiting}, until {passed}. It may end on the way there: so few steps are often too few."
    else:
        beginning = f"{waiting}, until {passed} by {luck}."
    if math.isinf(forecast.factor_until_green):
        return f"{beginning} No budget and no rows turn that green: only looser targets, or more “Steps at most”."
    effect = (
        f"would let it stop there soon, if {_hold(forecast.assumed)}" if forecast.assumed else "would turn it green"
    )
    sentences = f"{beginning} {short_up(forecast.factor_until_green)} times less noise {effect}"
    if not forecast.all_rows:  # the noise of batches falls in another way
        return f"{sentences}; or {looser}."
    rows = short_up(forecast.factor_until_green * forecast.rows)
    larger_budget = advice.budget_for(plan, forecast.factor_until_green)  # "" where no budget is named
    if not larger_budget:
        return f"{sentences}: n = {rows} rows; or {looser}."
    return f"{sentences}: n = {rows} rows or about {larger_budget}; or {looser}."


def _hold(assumed: Collection[nonconvex_risk.Assumed]) -> str:
    """Return the condition that the assumed constants hold, in words, such as "G and Γ hold"."""
    symbols = " and ".join(constant.symbol for constant in assumed)
    return f"{symbols} holds" if len(assumed) == 1 else f"{symbols} hold"


def _steps(waiting: float) -> str:
    """Return the waiting time W, a number of steps, in words."""
    if waiting >= 1e6:
        return "more than a million steps"
    number = short(waiting)
    is_one = float(number.replace(",", "")) == 1  # as it is printed, so that 1.0001 counts
    return f"W = {number} step{'' if is_one else 's'}"
