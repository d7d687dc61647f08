"""The figures of an audit, while it goes on and after it: rates against the claim, the rising bound, the scores."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from dpviz.audits.audit import Attack, Progress
from dpviz.execution.auditing import Auditing, rates
from dpviz.plots import audit_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.planner_figures import RATES
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.audit import clopper_pearson
from dpviz.ui import charts
from dpviz.ui.audit import texts
from dpviz.ui.controls import Panel

WORLDS = "on D", "on D'"
BINS = 40


def show(panel: Panel, name: str, chart: Chart) -> None:
    """Draw a chart; name : of its key."""
    charts.show(replace(chart, caption=f"{chart.caption} {texts.PUBLIC}"), panel.key(f"chart_{name}"))


def pictures(auditing: Auditing, progress: Progress, guess: float | None) -> dict[str, Chart]:
    """All charts of an audit so far, by the names in their keys."""
    drawn = {"roc": rates_chart(auditing, progress, guess)}
    if progress.looks:
        drawn["bound"] = Chart(
            bound(auditing, progress),
            f"The bound on {auditing.audit.claim.symbol} rises",
            "What is proven at each announced look, and the claim",
            texts.LOOKS,
        )
    return drawn | {"scores": scores(auditing, progress, guess, practice=len(progress.present) <= progress.tuning)}


def rates_chart(auditing: Auditing, progress: Progress, guess: float | None) -> Chart:
    """The rates so far against the claim. guess : the visitor's threshold, if there is one."""
    return Chart(roc(auditing, progress, guess), "What the attacker achieves", texts.RATES_ALT, texts.RATES)


def scores(auditing: Auditing, progress: Progress, guess: float | None, practice: bool) -> Chart:
    """How often each score was seen in both worlds, with the thresholds. practice : in the runs before those that
    count, in which the attacker has none yet."""
    thresholds = {} if practice or progress.attack is None else {"attacker's threshold": progress.attack.threshold}
    if guess is not None:
        thresholds["your threshold"] = guess
    part = slice(None, progress.tuning) if practice else slice(progress.tuning, None)
    present, absent = progress.present[part], progress.absent[part]
    meaning = texts.RATIO if auditing.audit.case.score is None else texts.OWN
    return Chart(
        histogram(present, absent, thresholds),
        f"Scores of the {'practice runs' if practice else 'runs that count'}",
        f"How often each score was seen on D and on D', in {len(present):,} runs on each",
        f"{meaning} What lies beyond is counted in the outermost bins.",
    )


def roc(auditing: Auditing, progress: Progress, guess: float | None) -> go.Figure:
    """The rates of the runs that count; before there are any, of the practice runs."""
    counted = progress.tuning if len(progress.present) > progress.tuning else 0
    present, absent = progress.present[counted:], progress.absent[counted:]
    marks = {}
    if progress.attack is not None:
        marks["attacker's threshold"] = _place(progress.attack, present, absent)
    if guess is not None:
        marks["your threshold"] = _place(Attack(guess), present, absent)
    claim = auditing.audit.claimed(RATES)
    planned = claim if auditing.mistake else 1 - tradeoffs.tradeoff(auditing.audit.plan.events, RATES)
    return audit_figures.roc(*rates(present, absent, RATES), claim, planned, marks)


def _place(attack: Attack, present: Floats, absent: Floats) -> tuple[float, float]:
    """False and true positive rate of saying D, also of a test that looks for D'."""
    hits, false_hits = (count / len(present) for count in attack.counts(present, absent))
    return (1 - hits, 1 - false_hits) if attack.reverse else (false_hits, hits)


def bound(auditing: Auditing, progress: Progress) -> go.Figure:
    """What is proven at the looks so far, of which there is one at least."""
    claim, looks = auditing.audit.claim, progress.looks
    runs, hits, false_hits = (
        np.array([getattr(look, name) for look in looks], dtype=float) for name in ("runs", "hits", "false_hits")
    )
    level = 1 - (1 - auditing.audit.confidence) / auditing.audit.looks
    (low, high), (false_low, false_high) = (clopper_pearson(count, runs, level) for count in (hits, false_hits))
    bounds, upper = claim.least(low, false_high), claim.least(high, false_low)
    middle = claim.least(hits / runs, false_hits / runs)
    refuted = [progress.tuning + look.runs for look in looks if look.bound > claim.value]
    return audit_figures.rising_bound(
        runs + progress.tuning, bounds, middle, upper, claim.value, claim.symbol, refuted[0] if refuted else None
    )


def histogram(present: Floats, absent: Floats, thresholds: Mapping[str, float]) -> go.Figure:
    """Both histograms on common bins."""
    edges = bins(present, absent)
    thresholds = {name: float(np.clip(at, edges[0], edges[-1])) for name, at in thresholds.items()}
    shares = {
        name: np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)
        for name, scores in zip(WORLDS, (present, absent), strict=True)
    }
    return audit_figures.scores(edges, shares, thresholds)


def bins(present: Floats, absent: Floats) -> Floats:
    """(BINS + 1,) edges around all scores but the most extreme ones."""
    both = np.concatenate([present, absent])
    finite = both[np.isfinite(both)]
    low, high = np.quantile(finite, [0.001, 0.999]) if len(finite) else (-1.0, 1.0)
    middle, width = (low + high) / 2, max(high - low, 0.1)
    return middle + width * np.linspace(-0.55, 0.55, BINS + 1)
