"""A plan for several analyses in plain words, as one page to print: for those who decide."""

import html
import re
from collections.abc import Iterable, Sequence

import dpviz
from dpviz.numbers import short
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import CONFIDENCE, Analyses, Planned

_TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # directions: after one, 21 may read as 12
# The browser enforces it: no script, no connection anywhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
h1, h2 { line-height: 1.25; } h2 { margin-top: 2rem; } .made { color: #59636e; }
.wide { overflow-x: auto; } table { min-width: 36rem; border-collapse: collapse; width: 100%; font-size: 0.875rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid #d1d9e0; }
td, li, p { overflow-wrap: anywhere; } pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.75rem; }
@media print {
  @page { margin: 18mm; }
  body { font-size: 10.5pt; max-width: none; margin: 0; padding: 0; }
  .wide { overflow: visible; } table { min-width: 0; } h2 { break-after: avoid; } li, tr, pre { break-inside: avoid; }
}
"""
_ASSUMPTIONS = (
    "Two tables are neighbours if one row of them differs, in whatever way. The number of rows is public.",
    "Values outside the declared ranges are clipped to them, missing ones count as a value of the range that was fixed "
    "beforehand, and rows that fit no declared bin are not counted; so the guarantee holds whatever the data are.",
    "Conditions and bins look at one row at a time, and a row is in one bin at most.",
    "Ranges, bins, conditions and shares were fixed beforehand, without looking at the data.",
    "The noise is drawn afresh, and kept secret, for every release. Each analysis is released once.",
)
_NOT_COVERED = (
    "A person with several rows: each row is protected, not the person.",
    "What else is released about the same people, before or after: guarantees add up.",
    "What follows for a person because it holds for people like them: that would follow without their row, too.",
    "Errors that are not of the noise: in the data, by clipping, by the choice of who is in the table.",
    "The program that will draw the noise. Floating-point numbers and guessable seeds can undo it; use a release tool "
    "that was built for it. This page is a plan.",
)


def to_report(plan: Analyses, budget: Budget, delta: float, relative: float, day: str) -> str:
    """The plan as a self-contained HTML page; every text in it is taken literally.

    delta : at which ε is read. relative : the error that the rows needed are for. day : when it was made.
    """
    planned = plan.planned(budget)
    total = allocation.together([p.share for p in planned], delta)
    readings = [
        f"{unit.name}: at most {short(value)}."
        for name, unit in UNITS.items()
        if (value := total.values.get(name)) is not None
    ]
    at_delta = total.values.get("epsilon_at_delta")
    if at_delta is not None:
        readings.append(f"ε at δ = {short(delta)}: at most {short(at_delta)}.")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Privacy plan</title><style>{_STYLE}</style></head><body>",
            "<h1>Privacy plan</h1>",
            f'<p class="made">Made on {_text(day)} by dpviz {_text(dpviz.__version__)}. It follows from the settings '
            "alone; no data were read.</p>",
            "<h2>What is asked</h2>",
            f"<p>{_count(len(planned))} of a table of {plan.rows:,} rows:</p>",
            _list(f"**{p.statistic.name}**. {p.statistic.asked}." for p in planned),
            "<h2>The guarantee</h2>",
            f"<p>All of it together is private at <strong>{_text(budget.describe())}</strong> for one row "
            "replaced by any other. What the releases cost together, in the units of the field:</p>",
            _list(readings),
            "<h2>What it means for one person</h2>",
            _list([*budget.consequences(), _of_these(planned)]),
            "<h2>What each analysis spends, and what is left of it</h2>",
            _table(planned, relative),
            f"<p>{_at_once(len(planned))}</p>",
            _list(f"**{p.statistic.name}**. {_told(p)}" for p in planned),
            "<h2>How far one row moves each of them</h2>",
            _list(f"**{p.statistic.name}**. {p.statistic.why(p.rows)}" for p in planned),
            "<h2>What is assumed</h2>",
            _list(_ASSUMPTIONS),
            "<h2>What is not covered</h2>",
            _list(_NOT_COVERED),
            "<h2>Settings</h2>",
            f"<pre>{_text(budget.to_json())}\n{_text(plan.to_json())}</pre>",
            "</body></html>",
        ]
    )


def _count(number: int) -> str:
    return "One number or table" if number == 1 else f"{number} numbers or tables"


def _of_these(planned: Sequence[Planned]) -> str:
    """What the best attacker can do with these releases, which may be less than with any that have the guarantee."""
    right = 50 * (1 + tradeoffs.advantage(allocation.composed([(p.share.analysis, p.event) for p in planned])))
    return (
        "That is the worst of all that the guarantee allows. With the noise planned here, the same attacker is right "
        f"in **at most {short(right)} of 100** such cases."
    )


def _at_once(count: int) -> str:
    """How sure one is of all 95 % errors together: the noises are independent."""
    if count == 1:
        return ""
    sure = 100 * CONFIDENCE**count
    return (
        f"Each of the errors below holds by itself, in 95 of 100 releases. All {count} of them hold at once in at "
        f"least {short(sure)} of 100."
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
    all_of_them = "" if most is None else f", and none of its {values:,} numbers by more than {short(most)}{unit}"
    lost = " That is as much as so many rows can give: it says nothing." * p.drowned
    return f"{noise} In 95 of 100 releases {what} is off by at most {short(p.error)}{unit}{all_of_them}.{lost}"


def _table(planned: Sequence[Planned], relative: float) -> str:
    names = ("Analysis", "Share", "Spends", "95 % error", "Rows needed")
    rows = [
        (
            p.statistic.name,
            f"{short(100 * (p.share.fraction or 0.0))} %",
            described(p.event),
            f"{short(p.error)} {p.statistic.unit or 'in the unit of the column'}",
            f"{p.rows_needed(relative):,} for an error of {short(100 * relative)} % of {p.statistic.of}",
        )
        for p in planned
    ]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _list(sentences: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_text(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def _text(sentence: str) -> str:
    """The sentence, taken literally but for **bold** words. What would turn the text around is shown as its code."""
    literal = html.escape(_TURNING.sub(lambda found: f"\\u{ord(found[0]):04x}", sentence))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", literal)
