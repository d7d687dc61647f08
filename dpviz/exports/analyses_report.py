"""A plan for several analyses in plain words, as one page to print: for those who decide."""

import html
import re
from functools import partial

import dpviz
from dpviz import templates
from dpviz.numbers import short, short_down, short_up
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import CONFIDENCE, Analyses, Planned

_TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # directions: after one, 21 may read as 12


def to_report(plan: Analyses, budget: Budget, delta: float, relative: float, day: str) -> str:
    """The plan as a self-contained HTML page; every text in it is taken literally.

    delta : at which ε is read. relative : the error that the rows needed are for. day : when it was made.
    """
    planned = plan.planned(budget)
    total = allocation.together([p.share for p in planned], delta)
    readings = [(unit.name, total.values.get(name)) for name, unit in UNITS.items()]
    readings.append((f"ε at δ = {short_up(delta)}", total.values.get("epsilon_at_delta")))
    composed = allocation.composed([(p.share.analysis, p.event) for p in planned])
    return templates.document(
        "exports/templates/analyses_report.html.j2",
        words=_text,
        told=_told,
        row=partial(_row, relative=relative),
        version=dpviz.__version__,
        day=day,
        plan=plan,
        budget=budget,
        planned=planned,
        readings=[(unit, short_up(value)) for unit, value in readings if value is not None],
        # What the best attacker can do with these releases, which may be less than with any that have the guarantee.
        right=short_up(50 * (1 + tradeoffs.advantage(composed))),
        all_at_once=short_down(100 * CONFIDENCE ** len(planned)),  # the noises are independent
    )


def _told(p: Planned) -> str:
    """Noise and error of one analysis, in words."""
    unit, values = f" {p.statistic.unit}" * bool(p.statistic.unit), p.statistic.values
    if p.standard_deviation is None:
        noise = (
            "One of its values is drawn at random, by far more often one near the wanted rank. How far off it is in "
            "ranks is how many rows lie in between."
        )
    else:
        to = f"each of its {values:,} numbers" if values > 1 else "it"
        rounded = ", and what comes out is rounded to whole numbers, which costs no privacy" * p.statistic.whole
        noise = f"{p.noise.capitalize()} noise of standard deviation {short(p.standard_deviation)} is added to {to}"
        noise += f"{rounded}."
    what = f"{'one number of ' * (values > 1)}the published {p.statistic.title.lower()}"
    most = p.largest_error
    all_of_them = "" if most is None else f", and none of its {values:,} numbers by more than {short_up(most)}{unit}"
    lost = " That is as much as so many rows can give: it says nothing." * p.drowned
    return f"{noise} In 95 of 100 releases {what} is off by at most {short_up(p.error)}{unit}{all_of_them}.{lost}"


def _row(p: Planned, relative: float) -> tuple[str, ...]:
    """An analysis in the table: name, share, what it spends, its error, and the rows that it needs."""
    return (
        p.statistic.name,
        f"{short(100 * (p.share.fraction or 0.0))} %",
        described(p.event),
        f"{short_up(p.error)} {p.statistic.unit or 'in the unit of the column'}",
        f"{p.rows_needed(relative):,} for an error of {short(100 * relative)} % of {p.statistic.of}",
    )


def _text(sentence: str) -> str:
    """The sentence, taken literally but for **bold** words. What would turn the text around is shown as its code."""
    literal = html.escape(_TURNING.sub(lambda found: f"\\u{ord(found[0]):04x}", sentence))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", literal)
