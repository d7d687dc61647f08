"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

import math
from collections.abc import Collection, Mapping

from dpviz.experiments.plan import Plan
from dpviz.families.second_order.advice import Forecast, budget_for
from dpviz.families.second_order.measure import Finish
from dpviz.families.second_order.theory import Light, Stopping
from dpviz.numbers import rounded_up, short
from dpviz.problems.nonconvex.nonconvex import NonconvexModel
from dpviz.problems.nonconvex.nonconvex_risk import Assumed

TITLE = "Second-order solutions"
QUESTION = "**Is it a minimum, or just flat? And can your budget tell?**"

WORDS = {
    "OPT": "short steps along noisy gradients and noisy curvature",
    "OPT-B": "the same on mini-batches",
    "OPT-LS": "with a private line search",
    "2OPT": "a short phase with little noise, then the rest",
    "2OPT-B": "two phases on mini-batches",
    "2OPT-LS": "two phases with a private line search",
    "DP-TR": "trust region, gradient and Hessian in every step",
    "DP-TR-B": "trust region on mini-batches",
    "First order only": "stops where the gradient is small, never looks at curvature",
    "DP-GD, perturbed": "steps aside where the gradient is small, and stops if it stays so; certifies nothing",
}

NOT_COVERED = (
    "Choosing tolerances or methods by trying them on the data is not accounted for here: every run on real data "
    "spends its budget again. Better rates are known for small gradients alone (DP-SPIDER) and with a private warm "
    "start."
)

SCREEN = (
    "The plan depends on your settings only. Of a run, positions, noisy gradient norms, noisy curvatures, kinds of "
    "steps, how runs ended and what they spent have the guarantee shown, for one run. Loss, exact gradient "
    "norm, exact curvature and whether a solution is a true one are diagnostics: they read the raw data and are not "
    "private. Several runs on real data would add up their costs."
)

SIMULATION = (
    "Simulation of published numbers: noise as the paper draws it for n = 495,141 rows, with its constants, on fewer "
    "rows. The guarantee shown is what that noise is worth for these rows, not the paper's ε: no privacy claim for "
    "your data."
)

LANDSCAPE = (
    "Contours of the exact objective in the plane of the hidden direction and one other; every dot is one run, the "
    "line is the way of the first run. The start in the middle is a pass: flat, but no minimum."
)


def batches(m: int, n: int) -> str:
    """How batches are drawn, in words."""
    if m == n:
        return "None: every step uses all rows. Methods on mini-batches say so by the letter B."
    return (
        f"Methods with the letter B draw m = {m:,} of n = {n:,} rows in each step, without replacement, one batch for "
        "gradient and Hessian. Which rows were drawn stays secret; that is what makes sampling help privacy."
    )


COMPOSITION = (
    "Gaussian releases compose exactly (Gaussian DP), a line search adds its sparse vectors in ρ-zCDP; a filter stops "
    "every run before its sum exceeds the budget (Feldman, Zrnic 2021; Smith, Thakurta 2022). DP-TR and methods on "
    "mini-batches have a fixed number of steps instead, on batches composed as privacy loss distributions. A run that "
    "stops early has spent less than is guaranteed."
)


def constants(problem: NonconvexModel, missing: str = "") -> str:
    """Which constants follow from the loss, which were stated, and what became of missing values.

    problem : what is minimised. missing : "fill" or "drop", of an upload; "classes" where rows of other classes were
    left out, too.
    """
    sizes = "n and d count" if missing in ("", "fill") else "d counts"
    filled = {
        "": "",
        "fill": " A missing value counts as the middle of its range.",
        "drop": " Rows with missing values were dropped: n depends on the data, **not private**.",
        "classes": " A missing value counts as the centre of its column. Rows of other classes were left out: n "
        "depends on the data, **not private**.",
    }[missing]
    return (
        f"Ranges and categories are enforced, and rows longer than 1 are scaled to it, whatever the data are; {sizes} "
        f"as known. {_following(problem)}"
        f"{_stated(problem)}{filled}"
    )


def _following(problem: NonconvexModel) -> str:
    """Which constants follow from the loss."""
    found = {
        "G": problem.smoothness is None,
        "M": problem.hessian_lipschitz is None,
        "the bound Γ on how far f can fall": problem.gap is None,
        "the sensitivity of the gradient": True,
        "that of the Hessian": problem.hessian_bound == "tight",
    }
    named = ", ".join(name for name, follows in found.items() if follows)
    return f"{named[0].upper()}{named[1:]} and the least possible curvature follow from the loss."


def _stated(problem: NonconvexModel) -> str:
    """Of the constants that do not: where they are from, and whether they hold for every data set."""
    facts = problem.facts()
    assumed = {a.symbol: a for a in facts.assumed}
    values = {"G": problem.smoothness, "M": problem.hessian_lipschitz, "Γ": problem.gap}
    found = []
    for symbol, value in values.items():
        if value is None:
            continue
        if symbol in assumed:
            follows = short(assumed[symbol].follows)
            found.append(
                f" {symbol} = {short(value)} is declared and **assumed**: {follows} follows from the loss. Steps, "
                "their number and what runs come to rest on it; privacy does not."
            )
        elif symbol == "Γ" and problem.gap_cost is not None:
            found.append(f" Γ = {short(value)} is from a release, and too small with probability 0.001 at most.")
        else:
            found.append(f" {symbol} = {short(value)} is declared, and holds: it is no less than what follows.")
    if problem.hessian_bound == "spectral":
        found.append(" The sensitivity of the Hessian is the published one, larger than what follows from the loss.")
    return "".join(found)


def ended(found: Finish) -> str:
    """How the runs of a method ended, in a sentence that begins with their number."""
    if not found.finished:
        return f"none of {found.runs} runs stopped by itself."
    return f"{found.finished} of {found.runs} stopped, {when_and_where(found)}."


def when_and_where(found: Finish) -> str:
    """At which step the runs that stopped did, and whether at a minimum."""
    where = "" if found.solved is None else f", **{_where(found.solved, found.finished)}**"
    return f"{'median ' * (found.finished > 1)}step {short(found.median_step, 4)}{where}"


def _where(solved: int, finished: int) -> str:
    if finished == 1:
        return "at a minimum" if solved else "not at a minimum: only flat"
    if not solved:
        return "none of them at a minimum: only flat"
    return "all of them at a minimum" if solved == finished else f"{solved} of them at a minimum"


LIGHTS: Mapping[Light, tuple[str, str]] = {
    "green": ("✓", "stops soon"),
    "amber": ("~", "stops late, by luck of the noise"),
    "red": ("✗", "will hardly stop"),
}


BLIND = "stops where it is flat, be it a pass"


def light(forecast: Forecast) -> str:
    """The traffic light of a method in a symbol and words."""
    return f"? cannot tell: {BLIND}" if forecast.blind else stops(forecast.stopping, forecast.assumed)


def stops(stopping: Stopping, assumed: Collection[Assumed] = ()) -> str:
    """The traffic light of a phase in a symbol and words. assumed : the constants that it may rest on."""
    symbol, words = LIGHTS[stopping.light]
    name: str = stopping.light
    if stopping.light == "amber" and stopping.recognised:
        length = stopping.iterations
        name, words = f"amber in {length:,} step{'s' * (length != 1)}", "stops if it is there by then"
    if assumed and stopping.light != "red":
        symbol, name, words = "?", "open", f"{words}, if {_hold(assumed)}"
    return f"{symbol} {name}: {words}"


def can_tell(forecast: Forecast, plan: Plan) -> str:
    """Whether the budget can tell, for one method, and what would make it able to, in a sentence."""
    stopping = forecast.stopping
    waiting = f"At a flat place {forecast.name} waits {_steps(stopping.waiting_time)}, of {stopping.iterations:,}"
    asks = stopping.hessian_noise > 0
    passed, targets = ("both tests pass", "α and ε_H") if asks else ("its gradient looks small", "α above all")
    if stopping.light == "green":
        rests = " and ".join(f"{a.symbol} = {short(a.declared)}" for a in forecast.assumed)
        condition = f" This holds if {rests} do{'es' * (len(forecast.assumed) == 1)}: assumed, not known."
        return f"{waiting}, until {passed}.{condition if rests else ''}"
    if stopping.too_short:
        steps = f"{stopping.iterations:,} step{'s' * (stopping.iterations != 1)}"
        return (
            f"{forecast.name} stops after {stopping.in_a_row:,} small gradients in a row, and has {steps}. No budget "
            "and no rows turn that green: only more “Iterations at most”."
        )
    begin = f"{waiting}, until {passed} by the luck of {'their' if asks else 'the'} noise."
    if stopping.recognised:
        begin = f"{waiting}, until {passed}. It may end on the way there: so few steps are often too few."
    if math.isinf(forecast.factor):
        return f"{begin} No budget and no rows turn that green: only looser targets, or more “Iterations at most”."
    either = ""
    if forecast.all_rows:  # the noise of batches falls in another way
        larger = budget_for(plan, forecast.factor)
        either = f": n = {short(rounded_up(forecast.factor * forecast.rows))} rows{larger and f' or about {larger}'}"
    turned = (
        f"would let it stop there soon, if {_hold(forecast.assumed)}" if forecast.assumed else "would turn it green"
    )
    return (
        f"{begin} {short(rounded_up(forecast.factor))} times less noise {turned}{either}; or looser "
        f"targets{',' * (not asks)} {targets}."
    )


def _hold(assumed: Collection[Assumed]) -> str:
    """That the constants that are assumed do hold: "G and Γ hold"."""
    return f"{' and '.join(a.symbol for a in assumed)} hold{'s' * (len(assumed) == 1)}"


def _steps(waiting: float) -> str:
    if waiting >= 1e6:
        return "more than a million steps"
    return f"W = {short(waiting)} step{'s' if float(short(waiting).replace(',', '')) != 1 else ''}"


AT_MOST = (
    "At most so much of {}: a second phase has less if the first one asked for few Hessians, and noise for the point "
    "where a run is follows that point. What was drawn is among the curves of a run, as noise of the gradient."
)
TESTS = {
    "noisy_gradient_norm": "a marker for every step of every run. Above the tolerance the step goes along the "
    "gradient; below it the curvature is asked for.",
    "noisy_curvature": "asked for only where the gradient was small. Below the tolerance the step goes along the "
    "curvature; above it the run stops. With many columns, or “Products with the Hessian”, a stop shows a bound from "
    "below, which all tests of a run together exceed the eigenvalue with probability 0.01 at most.",
}
CERTIFIED = (
    "The smallest eigenvalue was asked for first, as one number. It stops a run from -ε_H and a margin on, and not at "
    "the line, which is for the matrix: such a stop may be below it. The margin grows with each question, so that all "
    "of a run together err with probability 0.01 at most."
)
NEVER_ASKED = "This method never asked for the curvature: it stops wherever the gradient is small."
NOT_NEEDED = "The curvature was not asked for: whatever the data, it cannot be too negative here."
NOT_YET = "The curvature was not asked for so far: no noisy gradient was small."

TABLES = {
    "honest": "What the paper reports, and what the same methods come to **at the budget that is claimed**: rows of "
    "norm at most 1, tight sensitivities, noise for the 80,000 rows that there are.",
    "published": f"{SIMULATION} Mini-batches are left out: what the paper draws for them would cost ε = 120 and more "
    "(E1). The baseline has its published radius (E7). No run is stopped by looking at the exact loss (E6).",
}
TABLES_DATA = (
    "“Before” is the traffic light, known before anything runs. The data are a synthetic stand-in for the forest cover "
    "types, which cannot be shipped."
)
TABLES_CAPTION = (
    "×: no solution within the steps. **A lower loss is no merit here**: runs that never stop go on descending. “±” "
    "here: over five draws of the noise, from one start. “±” in the paper: it does not say; its authors' program draws "
    "a start for each of five runs, and starts differ by more than noise. Times are of the processor, over the "
    "quickest method that finished at the same budget. Losses read the data, which are public."
)
