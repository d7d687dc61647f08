"""What the page says about the family: names of methods, what is assumed, and where tool and paper differ."""

import math
from collections.abc import Collection, Mapping

import numpy as np

from dpviz import resources
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice, theory
from dpviz.numbers import short, short_up
from dpviz.problems.nonconvex import nonconvex, nonconvex_risk

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.texts(__package__)
phrase = resources.phrases(__package__)
TITLE, QUESTION, NOT_COVERED = (str(TEXTS[name]) for name in ("TITLE", "QUESTION", "NOT_COVERED"))
TABLES: dict[str, str] = TEXTS["TABLES"] | {"published": f"{TEXTS['SIMULATION']} {TEXTS['TABLES']['published']}"}
WORDS: dict[str, str] = TEXTS["WORDS"]
COLUMNS: dict[str, dict[str, str]] = TEXTS["COLUMNS"]  # of tables: what the columns mean
TESTS: dict[str, str] = TEXTS["TESTS"]


def batches(m: int, n: int) -> str:
    """How batches are drawn, in words."""
    if m == n:
        return "None: every step uses all rows. Methods on mini-batches say so by the letter B."
    return (
        f"Methods with the letter B draw m = {m:,} of n = {n:,} rows in each step, without replacement, one batch "
        "for gradient and Hessian. Which rows were drawn stays secret; that is what makes sampling help privacy."
    )


def constants(problem: nonconvex.NonconvexModel, missing: str = "") -> str:
    """Which constants follow from the loss, which were stated, and what became of missing values.

    problem : what is minimised. missing : "fill" or "drop", of an upload; "classes" where rows of other classes were
    left out, too.
    """
    sizes = "n and d count" if missing in ("", "fill") else "d counts"
    words = [
        (
            "Ranges and categories are enforced, and rows longer than 1 are scaled to it, whatever the data are; "
            f"{sizes} as known."
        ),
        _following(problem),
        *_stated(problem),
    ]
    return " ".join([*words, phrase(f"missing_{missing}")] if missing else words)


def _following(problem: nonconvex.NonconvexModel) -> str:
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


def _stated(problem: nonconvex.NonconvexModel) -> list[str]:
    """Of the constants that do not: where they are from, and whether they hold for every data set; sentences."""
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
                f"{symbol} = {short(value)} is declared and **assumed**: {follows} follows from the loss. Steps, "
                "their number and what runs come to rest on it; privacy does not."
            )
        elif symbol == "Γ" and problem.gap_cost is not None:
            found.append(f"Γ = {short(value)} is from a release, and too small with probability 0.001 at most.")
        else:
            found.append(f"{symbol} = {short(value)} is declared, and holds: it is no less than what follows.")
    if problem.hessian_bound == "spectral":
        found.append("The sensitivity of the Hessian is the published one, larger than what follows from the loss.")
    return found


def ended(found: advice.Finish) -> str:
    """How the runs of a method ended, in a sentence that begins with their number."""
    if not found.finished:
        return f"none of {found.runs} runs stopped by itself."
    return f"{found.finished} of {found.runs} stopped, {when_and_where(found)}."


def when(found: advice.Finish) -> str:
    """At which step the runs that stopped did, in a sentence."""
    return f"{'Median step' if found.finished > 1 else 'Step'} {short(found.median_step, 4)}."


def when_and_where(found: advice.Finish) -> str:
    """At which step the runs that stopped did, and whether gradient and curvature meet their targets there."""
    where = "" if found.solved is None else f", **{_where(found.solved, found.finished)}**"
    return f"{'median ' * (found.finished > 1)}step {short(found.median_step, 4)}{where}"


def _where(solved: int, finished: int) -> str:
    if finished == 1:
        return "within both targets" if solved else "not within both targets: only flat"
    if not solved:
        return "none within both targets: only flat"
    return "all within both targets" if solved == finished else f"{solved} within both targets"


def targets(gradient: np.ndarray, curvature: np.ndarray) -> str:
    """Whether runs (R,) have met their targets, in a colour, a symbol and words."""
    both, runs = int((gradient & curvature).sum()), len(gradient)
    if both == runs:
        return ":green-badge[✓ both targets met]"
    if both:
        return f":orange-badge[~ both targets met by {both} of {runs}]"
    missed = {(True, False): "gradient met, curvature not", (False, True): "curvature met, gradient not"}
    return f":red-badge[✗ {missed.get((bool(gradient.all()), bool(curvature.all())), 'targets not met')}]"


LIGHTS: Mapping[theory.Light, tuple[str, str]] = {
    "green": ("✓", "stops soon"),
    "amber": ("~", "stops late, by luck of the noise"),
    "red": ("✗", "will hardly stop"),
}


BLIND = "stops where it is flat, be it a pass"


def light(forecast: advice.Forecast) -> str:
    """The traffic light of a method in a symbol and words."""
    return f"? cannot tell: {BLIND}" if forecast.blind else stops(forecast.stopping, forecast.assumed)


def stops(stopping: theory.Stopping, assumed: Collection[nonconvex_risk.Assumed] = ()) -> str:
    """The traffic light of a phase in a symbol and words. assumed : the constants that it may rest on."""
    symbol, words = LIGHTS[stopping.light]
    name: str = stopping.light
    if stopping.light == "amber" and stopping.recognised:
        length = stopping.iterations
        name, words = f"amber in {length:,} step{'s' * (length != 1)}", "stops if it is there by then"
    if assumed and stopping.light != "red":
        symbol, name, words = "?", "open", f"{words}, if {_hold(assumed)}"
    return f"{symbol} {name}: {words}"


def can_tell(forecast: advice.Forecast, plan: Plan) -> str:
    """Whether the budget can tell, for one method, and what would make it able to, in a sentence."""
    stopping = forecast.stopping
    waiting = f"At a flat place {forecast.name} waits {_steps(stopping.waiting_time)}, of {stopping.iterations:,}"
    asks = stopping.hessian_noise > 0
    passed, targets = ("both tests pass", "α and ε_H") if asks else ("its gradient looks small", "α above all")
    if stopping.light == "green":
        rests = " and ".join(f"{a.symbol} = {short(a.declared)}" for a in forecast.assumed)
        condition = f"This holds if {rests} do{'es' * (len(forecast.assumed) == 1)}: assumed, not known."
        return f"{waiting}, until {passed}.{f' {condition}' if rests else ''}"
    if stopping.too_short:
        steps = f"{stopping.iterations:,} step{'s' * (stopping.iterations != 1)}"
        return (
            f"{forecast.name} stops after {stopping.in_a_row:,} small gradients in a row, and has {steps}. No "
            "budget and no rows turn that green: only more “Steps at most”."
        )
    begin = f"{waiting}, until {passed} by the luck of {'their' if asks else 'the'} noise."
    if stopping.recognised:
        begin = f"{waiting}, until {passed}. It may end on the way there: so few steps are often too few."
    if math.isinf(forecast.factor):
        return f"{begin} No budget and no rows turn that green: only looser targets, or more “Steps at most”."
    either = ""
    if forecast.all_rows:  # the noise of batches falls in another way
        larger = advice.budget_for(plan, forecast.factor)
        either = f": n = {short_up(forecast.factor * forecast.rows)} rows{larger and f' or about {larger}'}"
    turned = (
        f"would let it stop there soon, if {_hold(forecast.assumed)}" if forecast.assumed else "would turn it green"
    )
    return (
        f"{begin} {short_up(forecast.factor)} times less noise {turned}{either}; or looser "
        f"targets{',' * (not asks)} {targets}."
    )


def _hold(assumed: Collection[nonconvex_risk.Assumed]) -> str:
    """That the constants that are assumed do hold: "G and Γ hold"."""
    return f"{' and '.join(a.symbol for a in assumed)} hold{'s' * (len(assumed) == 1)}"


def _steps(waiting: float) -> str:
    if waiting >= 1e6:
        return "more than a million steps"
    return f"W = {short(waiting)} step{'s' if float(short(waiting).replace(',', '')) != 1 else ''}"
