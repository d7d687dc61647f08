"""Verdict and charts of an audit, while it runs and after it: rates against the claim, rising bound, scores."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from dpviz.audits.audit import Attack, Progress, Verdict
from dpviz.execution.auditing import Auditing, rates
from dpviz.numbers import short, short_down, short_up
from dpviz.plots import audit_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.planner_figures import RATES
from dpviz.privacy import audit, tradeoffs
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.audit import clopper_pearson
from dpviz.specification import Control
from dpviz.ui import charts
from dpviz.ui.audit import texts
from dpviz.ui.controls import Panel

LITTLE = 0.02  # share of the claim below which the proven bound is as good as nothing


def verdict(auditing: Auditing, progress: Progress | None) -> Verdict | None:
    """Return the verdict of the looks so far; None before the first. A look's conclusion holds even if no more runs
    follow."""
    return auditing.audit.verdict(progress) if progress is not None and progress.looks else None


def show_verdict(auditing: Auditing, progress: Progress | None, is_finished: bool) -> None:
    """Show the verdict in a sentence or two. is_finished : whether no more runs will follow."""
    outcome = verdict(auditing, progress)
    if outcome is None:
        done, practice = 0 if progress is None else len(progress.present), auditing.audit.tuning
        text = f"{done:,} of {practice:,} practice runs are done." if done < practice else "The practice runs are done."
        first = f"after {auditing.audit.ends()[0]:,} runs on each data set"
        more = f"It ended before the first look, {first}." if is_finished else f"The first look is {first}."
        st.info(f"{text} {more}", title="Nothing is proven yet", icon=":material/hourglass_top:")
        return
    _show_outcome(auditing, outcome, is_finished)
    if is_finished:
        _show_implementation(auditing, outcome)


def _show_outcome(auditing: Auditing, outcome: Verdict, is_finished: bool) -> None:
    """Show what the attack has proven against the claim."""
    level = f"{100 * outcome.confidence:g} % confidence"
    proven, claimed = outcome.proven, outcome.claimed
    mistake = auditing.mistake
    if outcome.violation:
        why = "" if mistake is None else f" **Because:** {mistake.why}"
        why += f"\n\n{outcome.implementation.sentence()}" if outcome.implementation and outcome.faulty else ""
        refuted = texts.REFUTED.format(proven=proven, claimed=claimed, level=level, runs=outcome.flagged_at)
        st.error(refuted + why, title="VIOLATION", icon=":material/gpp_bad:")
        return
    if outcome.bound < LITTLE * outcome.claim:
        proven = f"next to nothing, {proven},"
    text = f"This attack proves {proven} of the claimed {claimed}, with {level}. "
    if not is_finished:
        st.info(text + "The audit goes on.", title="No violation so far", icon=":material/search:")
    elif mistake is not None and mistake.by == "attack":
        text += texts.HIDDEN_FROM_ATTACK.format(why=mistake.why)
        st.warning(text, title="Not caught by the attack", icon=":material/search_off:")
    elif outcome.faulty:
        text += texts.BESIDE
        st.info(text, title="No violation found", icon=":material/search:")
    else:
        st.success(text + texts.ONLY, title="No violation found", icon=":material/verified_user:")


def _show_implementation(auditing: Auditing, outcome: Verdict) -> None:
    """Show the outcome of the implementation's tests, unless the message of a refuted claim contains it."""
    implementation, mistake = outcome.implementation, auditing.mistake
    if implementation is None:
        st.caption(texts.NOT_TESTED)
        return
    if outcome.faulty and not outcome.violation:
        why = "" if mistake is None else f" **Because:** {mistake.why}"
        st.error(implementation.sentence() + why, title="NOT AS DECLARED", icon=":material/gpp_bad:")
    elif not outcome.faulty:
        st.markdown(f":material/fact_check: **Tests of the implementation.** {implementation.sentence()}")
        if mistake is not None and mistake.by == "tests":
            hidden = texts.HIDDEN_FROM_TESTS.format(why=mistake.why)
            st.warning(hidden, title="Not caught by the tests", icon=":material/search_off:")


def tests(auditing: Auditing, progress: Progress) -> None:
    """Draw the table of the implementation's tests, when all runs are done."""
    outcome = verdict(auditing, progress)
    if outcome is None or outcome.implementation is None:
        return
    st.subheader("What was tested of the implementation", anchor=False)
    rows = [
        (texts.TESTS[finding.kind], "not as declared" if finding.fault else "as declared", texts.chance(finding.p))
        for finding in outcome.implementation.findings
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    st.markdown(f"| test | found | chance, at most, in a sound implementation |\n|---|---|---|\n{table}")


def cards(auditing: Auditing, progress: Progress | None, key: str) -> None:
    """Draw the claim, and what is proven of it, as two numbers. key : of their container."""
    claim, outcome = auditing.audit.claim, verdict(auditing, progress)
    with st.container(key=key):
        left, right = st.columns(2)
    style: Any = {"border": True, "height": "stretch"}
    left.metric(f"Claimed {claim.symbol}", short_up(claim.value), help=_claim_help(auditing), **style)
    if outcome is not None:
        help = texts.PROVEN_HELP.format(tightness=short_down(100 * outcome.tightness), looks=auditing.audit.looks)
        if outcome.violation:
            style |= {"delta": "VIOLATION", "delta_color": "inverse", "delta_arrow": "off"}
        right.metric(f"Proven {claim.symbol}", f"≥ {short_down(outcome.bound)}", help=help, **style)


def guesses(auditing: Auditing, progress: Progress) -> None:
    """Draw the true and the false positive rate of the attacker's rule, on the runs that count."""
    if (outcome := verdict(auditing, progress)) is None:
        return
    which, side, hits, false_hits = recognised(outcome)
    rule = f"The attacker says {which} for every run whose score is {side} {short(outcome.attack.threshold)}."
    row = st.container(horizontal=True)
    row.metric(f"{which} recognised", f"{short(100 * hits)} %", border=True, help=rule)
    row.metric("False alarms", f"{short(100 * false_hits)} %", border=True, help=f"Guessed {which} where it was not.")


def recognised(outcome: Verdict) -> tuple[str, str, float, float]:
    """Return the data set that the attacker looks for, the side of the threshold, and its true and false positive
    rates.

    Where most runs are taken for one data set, the test is described as one that looks for the other.
    """
    look, which, side = outcome.looks[-1], "D", "at least"
    hits, false_hits = look.hits / look.runs, look.false_hits / look.runs
    if outcome.attack.reverse:
        which, side = "D'", "at most"
    if hits + false_hits > 1:
        which, side = ("D", "above") if outcome.attack.reverse else ("D'", "below")
        hits, false_hits = 1 - false_hits, 1 - hits
    return which, side, hits, false_hits


def _claim_help(auditing: Auditing) -> str:
    """Return how the number under test follows from the budget."""
    symbol, budget = auditing.audit.claim.symbol, auditing.budget
    if symbol == "largest η":
        return texts.LARGEST_RANGE.format(budget=budget.describe())
    if symbol == "η":
        return texts.ONE_RANGE.format(budget=budget.describe())
    if symbol == "μ" and budget.symbol != "μ":
        return texts.ALL_GAUSSIAN.format(budget=budget.describe())
    return "The budget that the method states to keep to."


def proven_at(auditing: Auditing, progress: Progress, threshold: float) -> float:
    """Return what a threshold placed before the runs that count proves on them, at the confidence of one look."""
    present, absent = (scores[progress.tuning :] for scores in (progress.present, progress.absent))
    hits, false_hits = Attack(threshold).counts(present, absent)
    level = 1 - (1 - auditing.audit.confidence) / auditing.audit.looks
    rates = audit.separated(hits, len(present), false_hits, len(absent), level)
    return float(auditing.audit.claim.least(*rates))


WORLDS = "on D", "on D'"
BINS = 40


def show(panel: Panel, name: str, chart: Chart) -> None:
    """Draw a chart. name : part of its key."""
    charts.show(replace(chart, caption=f"{chart.caption} {texts.PUBLIC}"), panel.key(f"chart_{name}"))


def all_charts(auditing: Auditing, progress: Progress, guess: float | None) -> dict[str, Chart]:
    """Return all charts of an audit so far, by the names in their keys."""
    charts_so_far = {"roc": rates_chart(auditing, progress, guess)}
    if progress.looks:
        charts_so_far["bound"] = Chart(
            bound(auditing, progress),
            f"The bound on {auditing.audit.claim.symbol} rises",
            "What is proven at each announced look, and the claim",
            texts.LOOKS,
        )
    practice = len(progress.present) <= progress.tuning
    return charts_so_far | {"scores": scores(auditing, progress, guess, practice)}


def rates_chart(auditing: Auditing, progress: Progress, guess: float | None) -> Chart:
    """Return the chart of the rates so far against the claim. guess : the visitor's threshold, if there is one."""
    return Chart(roc(auditing, progress, guess), "What the attacker achieves", texts.RATES_ALT, texts.RATES)


def scores(auditing: Auditing, progress: Progress, guess: float | None, practice: bool) -> Chart:
    """Return the chart of how often each score was seen in both worlds, with the thresholds.

    guess : the visitor's threshold, if there is one.
    practice : whether it is of the practice runs, for which the attacker has no threshold yet; else of the runs that
        count.
    """
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
    """Draw the rates of the runs that count, or of the practice runs before any count."""
    start = progress.tuning if len(progress.present) > progress.tuning else 0
    present, absent = progress.present[start:], progress.absent[start:]
    marks = {}
    if progress.attack is not None:
        marks["attacker's threshold"] = _rates_of(progress.attack, present, absent)
    if guess is not None:
        marks["your threshold"] = _rates_of(Attack(guess), present, absent)
    claim = auditing.audit.claimed(RATES)
    planned = claim if auditing.mistake else 1 - tradeoffs.tradeoff(auditing.audit.plan.events, RATES)
    return audit_figures.roc(*rates(present, absent, RATES), claim, planned, marks)


def _rates_of(attack: Attack, present: Floats, absent: Floats) -> tuple[float, float]:
    """Return false and true positive rate of an attack that says D, also where its test looks for D'."""
    hits, false_hits = (count / len(present) for count in attack.counts(present, absent))
    return (1 - hits, 1 - false_hits) if attack.reverse else (false_hits, hits)


def bound(auditing: Auditing, progress: Progress) -> go.Figure:
    """Draw what is proven at the looks so far, of which there is at least one."""
    claim, looks = auditing.audit.claim, progress.looks
    runs, hits, false_hits = (
        np.array([getattr(look, name) for look in looks], dtype=float) for name in ("runs", "hits", "false_hits")
    )
    level = 1 - (1 - auditing.audit.confidence) / auditing.audit.looks
    (low, high), (false_low, false_high) = (clopper_pearson(count, runs, level) for count in (hits, false_hits))
    bounds, upper = claim.least(low, false_high), claim.least(high, false_low)
    middle = claim.least(hits / runs, false_hits / runs)
    refuted_at = [progress.tuning + look.runs for look in looks if look.bound > claim.value]
    return audit_figures.rising_bound(
        runs + progress.tuning, bounds, middle, upper, claim.value, claim.symbol, refuted_at[0] if refuted_at else None
    )


def histogram(present: Floats, absent: Floats, thresholds: Mapping[str, float]) -> go.Figure:
    """Draw the histograms of both worlds' scores on common bins."""
    edges = bins(present, absent)
    thresholds = {name: float(np.clip(threshold, edges[0], edges[-1])) for name, threshold in thresholds.items()}
    shares = {
        name: np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)
        for name, scores in zip(WORLDS, (present, absent), strict=True)
    }
    return audit_figures.scores(edges, shares, thresholds)


def bins(present: Floats, absent: Floats) -> Floats:
    """Return (BINS + 1,) edges around all scores but the most extreme ones."""
    both = np.concatenate([present, absent])
    finite = both[np.isfinite(both)]
    low, high = np.quantile(finite, [0.001, 0.999]) if len(finite) else (-1.0, 1.0)
    middle, width = (low + high) / 2, max(high - low, 0.1)
    return middle + width * np.linspace(-0.55, 0.55, BINS + 1)


_SEEN, _SHOWN = "_seen", "_shown"  # session keys: the last threshold that was fixed; audits whose results were seen


def asks_for_guess(panel: Panel) -> bool:
    """Ask whether the visitor wants to guess before seeing results."""
    return panel.switch("guess", "Your own guess first", False, texts.GUESS_HELP)


def fixed_threshold(panel: Panel, auditing: Auditing) -> float | None:
    """Return the threshold that the visitor fixed for this audit; None before that."""
    text, threshold, _ = st.session_state.get(panel.key(_SEEN), ("", None, False))
    return threshold if text == auditing.to_json() else None


def note_shown(panel: Panel, auditing: Auditing) -> None:
    """Remember that the visitor has seen this audit's results: a threshold placed after that proves nothing."""
    st.session_state.setdefault(panel.key(_SHOWN), set()).add(auditing.to_json())


def ask_threshold(panel: Panel, auditing: Auditing, progress: Progress) -> None:
    """Draw the practice runs, the control of a threshold, and the button that fixes it and shows what it proves."""
    st.markdown(texts.GUESS)
    has_practised = len(progress.present) >= progress.tuning
    edges = bins(progress.present[: progress.tuning], progress.absent[: progress.tuning])
    far = float(f"{np.abs(edges).max():.1g}") * 2
    control = Control("threshold", "Your threshold", texts.THRESHOLD_HELP, 0.0, float, -far, far)
    threshold = panel.number(control, "threshold")
    is_usable = has_practised and threshold is not None and not panel.mistakes
    st.button(
        "Count it",
        key=panel.key("count"),
        type="primary",
        icon=":material/lock:",
        disabled=not is_usable,
        on_click=_fix_threshold,
        args=(panel, auditing.to_json(), threshold),
    )
    show(panel, "scores", scores(auditing, progress, threshold, practice=True))


def _fix_threshold(panel: Panel, text: str, threshold: float) -> None:
    is_blind = text not in st.session_state.get(panel.key(_SHOWN), ())
    st.session_state[panel.key(_SEEN)] = text, threshold, is_blind


def compare_thresholds(panel: Panel, auditing: Auditing, progress: Progress, threshold: float) -> None:
    """Show what the visitor's threshold proves next to the attacker's; offer another round."""
    outcome, symbol = verdict(auditing, progress), auditing.audit.claim.symbol
    if outcome is None:
        return
    mine, best = proven_at(auditing, progress, threshold), outcome.looks[-1].bound
    relation = "as much as" if mine == best else "more than" if mine > best else "less than"
    proves, fixed = "proves", "Both were fixed before these runs were seen."
    if not st.session_state[panel.key(_SEEN)][-1]:
        proves = "would prove"
        fixed = "But you had seen these runs before you placed it, so it proves nothing: take another round."
    proven, attackers = f"{symbol} ≥ {short_down(mine)}", f"{short(outcome.attack.threshold)}: {short_down(best)}"
    st.markdown(
        f"**Your threshold {short(threshold)} {proves} {proven}**, {relation} the attacker's {attackers}. {fixed}"
    )
    if st.button(
        "Another round",
        key=panel.key("again"),
        icon=":material/replay:",
        help=texts.AGAIN_HELP,
        on_click=lambda: panel.write({"seed": auditing.seed + 1}),
    ):
        st.rerun()  # the seed's control is outside this part, which is drawn alone
