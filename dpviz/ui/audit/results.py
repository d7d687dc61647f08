"""The figures of an audit, while it goes on and after it: rates against the claim, the rising bound, the scores."""

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

LITTLE = 0.02  # of the claim: what is proven is as good as nothing


def verdict(auditing: Auditing, progress: Progress | None) -> Verdict | None:
    """What follows from the looks so far; None before the first. What was announced holds if no more runs come, too."""
    return auditing.audit.verdict(progress) if progress is not None and progress.looks else None


def box(auditing: Auditing, progress: Progress | None, ended: bool) -> None:
    """The verdict in a sentence or two. ended : whether no more runs will come."""
    outcome = verdict(auditing, progress)
    if outcome is None:
        done, practice = 0 if progress is None else len(progress.present), auditing.audit.tuning
        text = f"{done:,} of {practice:,} practice runs are done." if done < practice else "The practice runs are done."
        first = f"after {auditing.audit.ends()[0]:,} runs on each data set"
        more = f"It ended before the first look, {first}." if ended else f"The first look is {first}."
        st.info(f"{text} {more}", title="Nothing is proven yet", icon=":material/hourglass_top:")
        return
    _boxed(auditing, outcome, ended)
    if ended:
        _implementation(auditing, outcome)


def _boxed(auditing: Auditing, outcome: Verdict, ended: bool) -> None:
    """What the attack on the claim has proven."""
    level = f"{100 * outcome.confidence:g} % confidence"
    proven, claimed = outcome.proven, outcome.claimed
    mistake = auditing.mistake
    if outcome.violation:
        why = "" if mistake is None else f" **Because:** {mistake.why}"
        why += f"\n\n{outcome.implementation.sentence()}" if outcome.implementation and outcome.faulty else ""
        said = texts.REFUTED.format(proven=proven, claimed=claimed, level=level, runs=outcome.flagged_at)
        st.error(said + why, title="VIOLATION", icon=":material/gpp_bad:")
        return
    if outcome.bound < LITTLE * outcome.claim:
        proven = f"next to nothing, {proven},"
    text = f"This attack proves {proven} of the claimed {claimed}, with {level}. "
    if not ended:
        st.info(text + "The audit goes on.", title="No violation so far", icon=":material/search:")
    elif mistake is not None and mistake.by == "attack":
        text += texts.HIDDEN_FROM_ATTACK.format(why=mistake.why)
        st.warning(text, title="Not caught", icon=":material/search_off:")
    elif outcome.faulty:
        text += texts.BESIDE
        st.info(text, title="No violation found", icon=":material/search:")
    else:
        st.success(text + texts.ONLY, title="No violation found", icon=":material/verified_user:")


def _implementation(auditing: Auditing, outcome: Verdict) -> None:
    """What the tests of the implementation have found; of a refuted claim that is said with it."""
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
            st.warning(hidden, title="Not caught", icon=":material/search_off:")


def tests(auditing: Auditing, progress: Progress) -> None:
    """What was tested of the implementation, when all runs are done."""
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
    """The claim, and what is proven of it."""
    claim, outcome = auditing.audit.claim, verdict(auditing, progress)
    with st.container(key=key):
        left, right = st.columns(2)
    look: Any = {"border": True, "height": "stretch"}
    left.metric(f"Claimed {claim.symbol}", short_up(claim.value), help=_kept(auditing), **look)
    if outcome is not None:
        help = texts.PROVEN_HELP.format(tightness=short_down(100 * outcome.tightness), looks=auditing.audit.looks)
        if outcome.violation:
            look |= {"delta": "VIOLATION", "delta_color": "inverse", "delta_arrow": "off"}
        right.metric(f"Proven {claim.symbol}", f"≥ {short_down(outcome.bound)}", help=help, **look)


def guesses(auditing: Auditing, progress: Progress) -> None:
    """How good the attacker's were."""
    if (outcome := verdict(auditing, progress)) is None:
        return
    which, side, hits, false_hits = recognised(outcome)
    rule = f"The attacker says {which} for every run whose score is {side} {short(outcome.attack.threshold)}."
    row = st.container(horizontal=True)
    row.metric(f"{which} recognised", f"{short(100 * hits)} %", border=True, help=rule)
    row.metric("False alarms", f"{short(100 * false_hits)} %", border=True, help=f"Guessed {which} where it was not.")


def recognised(outcome: Verdict) -> tuple[str, str, float, float]:
    """Which data set the attacker looks for, on which side of the threshold, how often it is found where it is, and
    where it is not. Where most runs are taken for one, the test is told as one that looks for the other."""
    look, which, side = outcome.looks[-1], "D", "at least"
    hits, false_hits = look.hits / look.runs, look.false_hits / look.runs
    if outcome.attack.reverse:
        which, side = "D'", "at most"
    if hits + false_hits > 1:
        which, side = ("D", "above") if outcome.attack.reverse else ("D'", "below")
        hits, false_hits = 1 - false_hits, 1 - hits
    return which, side, hits, false_hits


def _kept(auditing: Auditing) -> str:
    """How the number that is tested follows from the budget that was set."""
    symbol, budget = auditing.audit.claim.symbol, auditing.budget
    if symbol == "largest η":
        return texts.LARGEST_RANGE.format(budget=budget.describe())
    if symbol == "η":
        return texts.ONE_RANGE.format(budget=budget.describe())
    if symbol == "μ" and budget.symbol != "μ":
        return texts.ALL_GAUSSIAN.format(budget=budget.describe())
    return "The budget that the method states to keep to."


def proven_at(auditing: Auditing, progress: Progress, threshold: float) -> float:
    """What a threshold that was placed before the runs that count proves on them, at the confidence of one look."""
    present, absent = (scores[progress.tuning :] for scores in (progress.present, progress.absent))
    hits, false_hits = Attack(threshold).counts(present, absent)
    level = 1 - (1 - auditing.audit.confidence) / auditing.audit.looks
    rates = audit.separated(hits, len(present), false_hits, len(absent), level)
    return float(auditing.audit.claim.least(*rates))


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


_SEEN, _SHOWN = "_seen", "_shown"


def wanted(panel: Panel) -> bool:
    """Whether the visitor wants to guess before seeing."""
    return panel.switch("guess", "Your own guess first", False, texts.GUESS_HELP)


def seen(panel: Panel, auditing: Auditing) -> float | None:
    """The threshold with which the visitor has asked to see this audit; None before that."""
    text, threshold, _ = st.session_state.get(panel.key(_SEEN), ("", None, False))
    return threshold if text == auditing.to_json() else None


def shown(panel: Panel, auditing: Auditing) -> None:
    """Remember that the visitor sees what this audit has found: a threshold placed after that proves nothing."""
    st.session_state.setdefault(panel.key(_SHOWN), set()).add(auditing.to_json())


def place(panel: Panel, auditing: Auditing, progress: Progress) -> None:
    """The practice runs, a threshold to be placed on them, and the button that shows what it proves."""
    st.markdown(texts.GUESS)
    practised = len(progress.present) >= progress.tuning
    edges = bins(progress.present[: progress.tuning], progress.absent[: progress.tuning])
    far = float(f"{np.abs(edges).max():.1g}") * 2
    control = Control("threshold", "Your threshold", texts.THRESHOLD_HELP, 0.0, float, -far, far)
    threshold = panel.number(control, "threshold")
    usable = practised and threshold is not None and not panel.mistakes
    st.button(
        "Count it",
        key=panel.key("count"),
        type="primary",
        icon=":material/lock:",
        disabled=not usable,
        on_click=_see,
        args=(panel, auditing.to_json(), threshold),
    )
    show(panel, "scores", scores(auditing, progress, threshold, practice=True))


def _see(panel: Panel, text: str, threshold: float) -> None:
    blind = text not in st.session_state.get(panel.key(_SHOWN), ())
    st.session_state[panel.key(_SEEN)] = text, threshold, blind


def score(panel: Panel, auditing: Auditing, progress: Progress, threshold: float) -> None:
    """How well the visitor's threshold did, beside the attacker's; and another round."""
    outcome, symbol = verdict(auditing, progress), auditing.audit.claim.symbol
    if outcome is None:
        return
    mine, best = proven_at(auditing, progress, threshold), outcome.looks[-1].bound
    beside = "as much as" if mine == best else "more than" if mine > best else "less than"
    proves, fixed = "proves", "Both were fixed before these runs were seen."
    if not st.session_state[panel.key(_SEEN)][-1]:
        proves = "would prove"
        fixed = "But you had seen these runs before you placed it, so it proves nothing: take another round."
    proven, most = f"{symbol} ≥ {short_down(mine)}", f"{short(outcome.attack.threshold)}: {short_down(best)}"
    said = texts.PROVES.format(threshold=short(threshold), proves=proves, proven=proven, beside=beside, most=most)
    st.markdown(f"{said} {fixed}")
    if st.button(
        "Another round",
        key=panel.key("again"),
        icon=":material/replay:",
        help=texts.AGAIN_HELP,
        on_click=lambda: panel.write({"seed": auditing.seed + 1}),
    ):
        st.rerun()  # this part is drawn by itself, and the seed stands outside of it
