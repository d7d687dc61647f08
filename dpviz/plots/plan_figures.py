"""Figures of plans, drawn before anything runs. They depend on settings only, never on data.

Privacy spent is that of a plan's `statement`: the plan as the unit of protection sees it, a row or a person.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.numbers import short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import SETTINGS_ONLY, Chart
from dpviz.plots.elements.lines import Limit, Line, Mark, line_drawing, staircases
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.accountants import Method
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.events import Gaussian, Laplace, distinct_objects, inner_events
from dpviz.privacy.ledger import Filter

STEP = "Step t"
BY_SELECTION = "These methods add no noise: what is random is which answers they select."
NO_BOUND = "No error bound is known for these methods."
CHECKPOINTS = 25  # number of steps at which a chart of all accountants evaluates them
FEW_CHECKPOINTS = 12  # number of steps at which the chart next to the run evaluates an accountant for every method
PLANNED = "At each step: if a stop there was planned. Else the whole plan counts, or the ε so far added up."
QUICKEST: tuple[Method, ...] = ("gdp", "basic", "zcdp", "optimal", "rdp", "pld")  # accountants, the quickest first
ROUNDING = 1e-9  # relative tolerance in comparisons with the budget
METHOD_STYLES: Mapping[Method, ArmStyle] = MappingProxyType(
    {
        "basic": ArmStyle(style.GREY, "dot"),
        "advanced": ArmStyle(style.GREY, "4px,4px"),
        "optimal": ArmStyle(style.GREY, "12px,3px"),
        "zcdp": ArmStyle(style.PALETTE["spent"], "longdash"),
        "rdp": ArmStyle(style.PALETTE["second"], "dash"),
        "gdp": ArmStyle(style.PALETTE["theory"], "dashdot"),
        "pld": ArmStyle(style.PALETTE["private"], "solid"),
    }
)


def noise_schedule(
    plans: Mapping[str, Plan],
    styles: Mapping[str, ArmStyle],
    caption: str = "",
    height: int = style.SMALL,
    *,
    noise: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    title: str = "",
    limits: Sequence[Limit] = (),
) -> Chart:
    """Return a chart of the noise scale in each step, on a log axis: b_t of Laplace noise, σ_t of Gaussian noise.

    A method has a line for each of its noises that differs from the others, such as the noise of gradients and of
    Hessians. Steps without noise are left out, and a method that adds noise once is a point. Arms without privacy are
    left out. A note names the private methods that add no noise, but randomise by selection.

    caption : "" for the usual one, which says "at most" if the scales of a plan are bounds (`Plan.noise_varies`).
    noise : by label and name, (T,) scales to draw in place of the planned ones.
    title : title of the vertical axis, if it is not "Noise scale" with the symbols of the noise.
    limits : horizontal lines at values to point out.
    """
    private = {label: plan for label, plan in plans.items() if plan.private}
    noise = {label: plan.noise for label, plan in private.items()} if noise is None else noise
    lines = [line for label in private for line in _noise_lines(noise[label], label, styles[label])]
    noisy_labels = {line.group for line in lines}
    selecting_labels = [label for label in private if label not in noisy_labels]
    kinds: set[type] = set()
    for label in noisy_labels:
        plan = private[label]
        # Every different event of the plan; under a filter, every event that it allows.
        events = plan.terms.allowed.values() if isinstance(plan.terms, Filter) else distinct_objects(plan.events)
        kinds |= {type(release) for event in events for release in inner_events(event)}
    symbols = [symbol for kind, symbol in ((Laplace, "b_t"), (Gaussian, "σ_t")) if kind in kinds]
    drawing = line_drawing(
        lines,
        Axes(STEP, title or f"Noise scale {' or '.join(symbols)}".rstrip(), log_y=True),
        notes=[f"no noise, but random selections: {', '.join(selecting_labels)}"] if selecting_labels else [],
        limits=limits,
        if_empty=BY_SELECTION if selecting_labels else "No method adds noise.",
        height=height,
    )
    alt = "Scale of the noise in each step, one line per method"
    if not caption:
        is_bound = any(plan.noise_varies for plan in private.values())
        caption = "Scale of the noise in each step, at most." if is_bound else "Scale of the noise in each step."
    return Chart(drawing, "Noise per step", alt, f"{caption} {SETTINGS_ONLY}")


def _noise_lines(noise: Mapping[str, np.ndarray], label: str, arm_style: ArmStyle) -> list[Line]:
    """Return a line for each noise scale of a method that differs from the others, at the steps where it is above 0.

    noise : by name, (T,) scales. Lines after the first are thin.
    """
    names_by_scale: dict[bytes, list[str]] = {}  # equal scales have equal bytes
    for name, scale in noise.items():
        if (scale > 0).any():
            names_by_scale.setdefault(scale.tobytes(), []).append(name)
    lines = []
    for i, names in enumerate(names_by_scale.values()):
        scale = noise[names[0]]
        steps = np.flatnonzero(scale > 0)
        title = f"{label}, {' and '.join(names)}" if len(names_by_scale) > 1 else label
        lines.append(Line(steps + 1, scale[steps], title, arm_style, width=1.0 if i else 2.0, group=label))
    return lines


def privacy_spent(
    plans: Mapping[str, Plan],
    styles: Mapping[str, ArmStyle],
    currency: Currency,
    limit: float | None,
    *,
    remark: str = "",
    step_name: str = "step",
) -> Chart:
    """Return a chart of the privacy spent after each step, in a currency whose costs add up (ε, ρ or μ), with the
    budget as a limit.

    A line begins at the cost of the releases before the run, by which constants of the problem were learned. For a
    method that stops by itself it is the largest amount that can have been spent, and a note says so. Arms without
    privacy, and arms whose events have no finite cost in this currency, are left out.

    limit : the budget in this currency; None to draw none.
    remark : a sentence on the budget, for the caption. step_name : word for a step, in the text alternative.
    """
    symbol, title = UNITS[currency].symbol, f"Cumulative {UNITS[currency].label}"
    lines = []
    for label, plan in plans.items():
        if plan.private:
            spent = plan.statement.spent(currency)
            if np.isfinite(spent[-1]):
                lines.append(Line(np.arange(len(spent)), spent, label, styles[label]))
    axes = Axes(STEP, title, from_zero=True, bound="upper")
    if_empty = f"No method has a finite {symbol}."
    limits = [] if limit is None else [Limit(limit, f"budget {symbol} = {short_up(limit, 4)}")]
    alt = f"Privacy spent after each {step_name}, one line per method, and the budget"
    return _spent_chart(lines, plans, axes, if_empty, limits=limits, alt=alt, remark=remark)


def epsilon_spent(
    plans: Mapping[str, Plan],
    styles: Mapping[str, ArmStyle],
    delta: float,
    limit: float,
    *,
    remark: str = "",
    step_name: str = "step",
) -> Chart:
    """Return a chart of the ε at δ spent after some of the steps, with the budget as a limit.

    The ε of an arm is computed by the quickest accountant that proves that the budget is kept, or by the tightest if
    none proves it. Arms without privacy are left out.

    limit : the budget's ε.
    remark : a sentence on the budget, for the caption. step_name : word for a step, in the text alternative.
    """
    lines = []
    for label, plan in plans.items():
        if not plan.private:
            continue
        plan = plan.statement
        steps = _some_steps(plan, count=FEW_CHECKPOINTS)
        start = accountants.total(plan.facts.released, "epsilon")  # spent before the run
        largest = limit * (1 + ROUNDING)
        # A generator: no accountant is evaluated after the first that proves the budget, as some take long.
        sufficient = (name for name in QUICKEST if start + accountants.epsilon(plan.events, delta, name) <= largest)
        method = next(sufficient, None) or accountants.tightest(plan.events, delta, plan.facts.released).method
        curve = start + np.append(0.0, _epsilon_curve(plan, steps, delta, method))
        if np.isfinite(curve[-1]):
            lines.append(Line(np.append(0, steps), curve, label, styles[label]))
    axes = Axes(STEP, f"ε at δ = {short_up(delta, 4)}", from_zero=True, bound="upper")
    if_empty = "No accountant gives a finite ε: these methods have no privacy."
    alt = f"ε spent after each {step_name}, one line per method, and the budget"
    limits = [Limit(limit, f"budget ε = {short_up(limit, 4)}")]
    return _spent_chart(lines, plans, axes, if_empty, limits=limits, alt=alt, remark=f"{remark} {PLANNED}")


def _spent_chart(
    lines: Sequence[Line],
    plans: Mapping[str, Plan],
    axes: Axes,
    if_empty: str,
    *,
    limits: Sequence[Limit],
    alt: str,
    remark: str,
) -> Chart:
    """Return the chart of `privacy_spent` and `epsilon_spent`, with notes on methods that stop by themselves.

    lines : privacy spent at some of the steps, by label, drawn as staircases between them. if_empty : text in place of
        lines, if there are none.
    """
    stopping = [line.name for line in lines if plans[line.name].stops]
    notes = []
    if stopping and len(stopping) == len(lines):
        notes.append("at most; all may stop sooner")
    elif stopping:
        notes.append(f"at most; may stop sooner: {', '.join(stopping)}")
    climb_once = [len(line.y) > 2 and line.y[0] == 0 and 0 < line.y[1] == line.y[-1] for line in lines]
    if lines and all(climb_once):
        notes.append("all of it is charged at the first step")
    drawing = line_drawing(staircases(lines), axes, notes=notes, limits=limits, if_empty=if_empty, height=style.SMALL)
    return Chart(drawing, "Privacy spent", alt, f"{remark} {SETTINGS_ONLY}")


def accountant_curves(plan: Plan, delta: float, step_name: str = "step of one method", remark: str = "") -> Chart:
    """Return a chart of ε at δ spent after each step of one plan, by every accountant that applies.

    The tightest at the end is bold. The value at step t is the guarantee of a run that was planned to stop there. All
    are upper bounds on the same loss.

    step_name : word for a step, in the text alternative. remark : a sentence for the caption.
    """
    plan = plan.statement
    steps = _some_steps(plan, count=CHECKPOINTS)
    # The plan depends on the values that were released before it: only basic composition holds, so that ε adds up.
    start = accountants.total(plan.facts.released, "epsilon")
    curves = {}
    for method in accountants.METHODS:
        curve = start + _epsilon_curve(plan, steps, delta, method)
        if np.isfinite(curve[-1]):
            curves[method] = curve
    limit = plan.budget.limit_at(delta)  # None unless the budget is an ε at this δ
    figure = line_drawing(
        accountant_lines(steps, curves),
        Axes(STEP, f"ε at δ = {short_up(delta, 4)}", from_zero=True, bound="upper"),
        limits=[] if limit is None else [Limit(limit, f"budget ε = {short_up(limit, 4)}")],
        if_empty="No accountant gives a finite ε: this method has no privacy.",
        height=style.ALONE,
    )
    alt = f"ε spent after each {step_name}, one line per accountant; the lowest is the tightest"
    return Chart(figure, f"ε at δ = {short_up(delta)}, by every accountant", alt, f"{remark} {PLANNED} {SETTINGS_ONLY}")


def accountant_lines(steps: np.ndarray, curves: Mapping[Method, np.ndarray]) -> list[Line]:
    """Return a staircase of ε for each accountant; the one that is the lowest at the end is bold.

    steps : (k,). curves : by accountant, (k,) ε after each of the steps.
    """
    tightest = min(curves, key=lambda method: curves[method][-1], default=None)
    return staircases(
        [
            Line(
                steps,
                curve,
                accountants.METHOD_NAMES[method] + (" (tightest)" if method == tightest else ""),
                METHOD_STYLES[method],
                width=4.0 if method == tightest else 1.5,
            )
            for method, curve in curves.items()
        ]
    )


def _some_steps(plan: Plan, count: int) -> np.ndarray:
    """Return at most `count` of a plan's steps, the first and the last among them; all steps if there are no more.

    They are proportional to 1, 4, 9, …, dense at the beginning, so that ε, which grows about like the square root of
    the step, climbs by equal amounts from one to the next.
    """
    if plan.iterations <= count:
        return np.arange(1, plan.iterations + 1)
    shares = (np.arange(1, count) / (count - 1)) ** 2
    return np.unique(np.append(1, np.ceil(plan.iterations * shares).astype(int)))


def _epsilon_curve(plan: Plan, steps: np.ndarray, delta: float, method: Method) -> np.ndarray:
    """Return (k,) the ε at δ that one accountant proves after each of the steps (k,), for releases of the run alone."""
    if plan.worst_case is not None:  # of a filter: its events are not known, only the most that they can cost
        return np.array([accountants.epsilon(plan.charged(step), delta, method) for step in steps.tolist()])
    counts = np.searchsorted(plan.charged_at, steps, side="right")  # events up to each step
    return accountants.epsilon_curve(plan.events, delta, method, tuple(counts.tolist()))


def error_bounds(
    bounds: Mapping[str, np.ndarray],
    styles: Mapping[str, ArmStyle],
    caption: str = "",
    *,
    start: float = math.inf,
    condition: str = "",
) -> Chart:
    """Return a chart of the upper bound on the expected error after each step t = 0..T, on a log axis.

    bounds : by label, (T+1,) the bound after each step.
    start : largest possible error of the starting point; a bound above it says nothing.
    condition : text on a condition of the bounds and of `start`, which is appended to the axis title and the limit.
    """
    lines = [Line(np.arange(len(bound)), bound, label, styles[label]) for label, bound in bounds.items()]
    vacuous_labels = [label for label, bound in bounds.items() if bound[-1] > start]
    figure = line_drawing(
        lines,
        Axes(STEP, f"Bound on the excess loss{condition}", log_y=True, bound="upper"),
        limits=_start_limit(start, bounds.values(), condition),
        notes=[f"says nothing in the end: {', '.join(vacuous_labels)}"] if vacuous_labels else [],
        if_empty=NO_BOUND,
    )
    alt = "Upper bound on the expected excess loss after each step, one line per method"
    return Chart(figure, "Predicted error", alt, caption)


def _start_limit(start: float, bounds: Iterable[np.ndarray], condition: str) -> list[Limit]:
    """Return `start`, the largest possible error of the starting point, as a limit, if one of the bounds exceeds it."""
    is_exceeded = any((bound > (1 + 1e-9) * start).any() for bound in bounds)  # beyond rounding
    return [Limit(start, f"without a step: at most {short_up(start)}{condition}")] if is_exceeded else []


def bound_by_horizon(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    styles: Mapping[str, ArmStyle],
    caption: str = "",
    *,
    start: float = math.inf,
    condition: str = "",
) -> Chart:
    """Return a chart of the error bound after the last step against T, the number of steps that share the budget.

    The best number of steps T* of each private arm is marked, and named in the legend. Both axes are logarithmic.

    curves : by label, numbers of steps (k,) and the bound for each (k,).
    start : largest possible error of the starting point; a bound above it says nothing, and its best T is no advice.
    condition : text on a condition of the bounds and of `start`, which is appended to the axis title and the limit.
    """
    lines, marks = [], []
    for label, (horizons, bound) in curves.items():
        if not np.isfinite(bound).any():
            continue
        best = int(np.nanargmin(bound))
        if styles[label].reference:  # without noise, more steps are always better
            name = label
        elif bound[best] > start:
            name = f"{label}: says nothing"
        else:
            name = f"{label}: T* = {horizons[best]:,.0f}"
            marks.append(Mark(float(horizons[best]), float(bound[best]), name, styles[label].color))
        lines.append(Line(horizons, bound, name, styles[label], group=label, value_in_label=False))
    figure = line_drawing(
        lines,
        Axes("Steps T", f"Bound on the final excess loss{condition}", log_x=True, log_y=True, bound="upper"),
        marks=marks,
        limits=_start_limit(start, (bound for _, bound in curves.values()), condition),
        if_empty=NO_BOUND,
    )
    alt = "Error bound against the number of steps that share the budget; the best number is marked"
    return Chart(figure, "How many steps?", alt, caption)
