"""Verdict and charts of an audit, while it runs and after it: rates against the claim, rising bound, scores."""

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from dpviz.audits.audit import Attack, Progress, Verdict
from dpviz.execution.auditing import Auditing, rates
from dpviz.lessons.classroom import Ballot, Room, Threshold
from dpviz.numbers import short, short_down, short_up
from dpviz.plots import audit_figures, class_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.plots.planner_figures import RATES
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.audit import clopper_pearson
from dpviz.specification import Control
from dpviz.ui import charts, visitors
from dpviz.ui.audit import TESTS, texts
from dpviz.ui.controls import Panel

LITTLE = 0.02  # share of the claim below which the proven bound is as good as nothing


def verdict(auditing: Auditing, progress: Progress | None) -> Verdict | None:
    """Return the verdict at the last look, an announced moment at which the audit states a bound; None before one.

    The verdict holds even if no more runs follow.
    """
    return auditing.audit.verdict(progress) if progress is not None and progress.looks else None


def show_verdict(auditing: Auditing, progress: Progress | None, is_finished: bool) -> None:
    """Draw the verdict in a sentence or two. is_finished : true if no more runs will follow."""
    outcome = verdict(auditing, progress)
    if outcome is None:
        done = 0 if progress is None else len(progress.present)
        practice = auditing.audit.tuning  # runs on which the attack is chosen, before any of them counts
        text = f"{done:,} of {practice:,} practice runs are done." if done < practice else "The practice runs are done."
        first_runs, *_ = auditing.audit.runs_at_looks()
        first_look = f"after {first_runs:,} runs on each data set"
        more = f"It ended before the first look, {first_look}." if is_finished else f"The first look is {first_look}."
        st.info(f"{text} {more}", title="Nothing is proven yet", icon=":material/hourglass_top:")
        return
    _show_outcome(auditing, outcome, is_finished)
    if is_finished:
        _show_implementation(auditing, outcome)


def _show_outcome(auditing: Auditing, outcome: Verdict, is_finished: bool) -> None:
    """Draw what the attack has proven against the claim, and what to make of it.

    outcome : the verdict. The text depends on whether the claim is refuted, the audit goes on, or a mistake is known.
    """
    level = f"{100 * outcome.confidence:g} % confidence"
    proven, claimed = outcome.proven, outcome.claimed
    mistake = auditing.mistake  # one that was made on purpose
    if outcome.violation:  # of the claim, by the attack; `faulty` says that the tests of the implementation fail
        why = "" if mistake is None else f" **Because:** {mistake.why}"
        if outcome.implementation and outcome.faulty:
            why += f"\n\n{outcome.implementation.sentence()}"
        refuted = texts.REFUTED.format(proven=proven, claimed=claimed, level=level, runs=outcome.flagged_at)
        st.error(refuted + why, title="VIOLATION", icon=":material/gpp_bad:")
        return
    if outcome.bound < LITTLE * outcome.claim:
        proven = f"next to nothing, {proven},"
    text = f"This attack proves {proven} of the claimed {claimed}, with {level}. "
    max_bound = auditing.audit.max_bound
    if max_bound <= outcome.claim:
        text += texts.CANNOT.format(most=f"{outcome.symbol} ≥ {short_down(max_bound)}")
    if not is_finished:
        st.info(text + "The audit goes on.", title="No violation so far", icon=":material/search:")
    elif mistake is not None and mistake.by == "attack":  # the attack should have caught it
        text += texts.HIDDEN_FROM_ATTACK.format(why=mistake.why)
        st.warning(text, title="Not caught by the attack", icon=":material/search_off:")
    elif outcome.faulty:
        text += texts.BESIDE
        st.info(text, title="No violation found", icon=":material/search:")
    else:
        st.success(text + texts.ONLY, title="No violation found", icon=":material/verified_user:")


def _show_implementation(auditing: Auditing, outcome: Verdict) -> None:
    """Draw the outcome of the tests that releases are as declared, unless the message of a refuted claim has it."""
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


def show_tests(auditing: Auditing, progress: Progress) -> None:
    """Draw a table of the tests that releases are as declared; nothing until all runs are done."""
    outcome = verdict(auditing, progress)
    if outcome is None or outcome.implementation is None:
        return
    st.subheader("What was tested of the implementation", anchor=False)
    rows = []
    for finding in outcome.implementation.findings:
        chance = "impossible" if finding.p == 0 else "1" if finding.p >= 1 else short_up(finding.p, 2)
        rows.append((TESTS[finding.kind], "not as declared" if finding.is_fault else "as declared", chance))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    st.markdown(f"| test | found | chance, at most, in a sound implementation |\n|---|---|---|\n{table}")


def cards(auditing: Auditing, progress: Progress | None, key: str) -> None:
    """Draw two numbers: the claim, and how much of it is proven. key : of their container."""
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


def show_attackers_test(auditing: Auditing, progress: Progress) -> None:
    """Draw how often the attacker's test is right and how often it is a false alarm, in the runs that count."""
    outcome = verdict(auditing, progress)
    if outcome is None:
        return
    data_set, side, true_rate, false_rate = attackers_test(outcome)
    test = f"The attacker says {data_set} for every run whose score is {side} {short(outcome.attack.threshold)}."
    false_alarm = f"Guessed {data_set} where it was not."
    row = st.container(horizontal=True)
    row.metric(f"{data_set} recognised", f"{short(100 * true_rate)} %", border=True, help=test)
    row.metric("False alarms", f"{short(100 * false_rate)} %", border=True, help=false_alarm)


def attackers_test(outcome: Verdict) -> tuple[str, str, float, float]:
    """Return the attacker's test: the data set that it says, on which side of the threshold scores must be for that,
    and its true and false positive rates.

    A test that says one data set for most runs is returned as the one that says the other, for the rest of the runs.
    """
    look, is_reverse = outcome.looks[-1], outcome.attack.reverse
    data_set, side = ("D'", "at most") if is_reverse else ("D", "at least")
    true_rate, false_rate = look.hits / look.runs, look.false_hits / look.runs
    if true_rate + false_rate > 1:
        data_set, side = ("D", "above") if is_reverse else ("D'", "below")
        true_rate, false_rate = 1 - false_rate, 1 - true_rate
    return data_set, side, true_rate, false_rate


def _claim_help(auditing: Auditing) -> str:
    """Return a sentence on how the number under test follows from the budget."""
    symbol, budget = auditing.audit.claim.symbol, auditing.budget
    if symbol == "largest η":
        return texts.LARGEST_RANGE.format(budget=budget.describe())
    if symbol == "η":
        return texts.ONE_RANGE.format(budget=budget.describe())
    if symbol == "μ" and budget.symbol != "μ":
        return texts.ALL_GAUSSIAN.format(budget=budget.describe())
    return "The budget that the method states to keep to."


def proven_at(auditing: Auditing, progress: Progress, threshold: float) -> float:
    """Return the lower bound on the claim's number that a threshold proves on the runs that count, at the last look.

    The bound holds only if the threshold was placed before these runs were seen.
    """
    last = progress.tuning + progress.looks[-1].runs  # a stop may come at any time, but bounds hold at looks alone
    present, absent = progress.present[progress.tuning : last], progress.absent[progress.tuning : last]
    return auditing.audit.bound(*Attack(threshold).counts(present, absent), len(present))


WORLDS = "on D", "on D'"  # names of the scores of runs on both data sets; with the canary and without
BINS = 40  # of a histogram of scores


def show(panel: Panel, name: str, chart: Chart) -> None:
    """Draw a chart, whose caption says also that its data are public. name : part of its key."""
    charts.show(replace(chart, caption=f"{chart.caption} The data are made up."), panel.key(f"chart_{name}"))


def all_charts(auditing: Auditing, progress: Progress, guess: float | None) -> dict[str, Chart]:
    """Return all charts of an audit so far, by the names in their keys: of the rates, the rising bound, the scores.

    guess : the visitor's threshold, if there is one.
    """
    charts_so_far = {"roc": rates_chart(auditing, progress, guess)}
    if progress.looks:
        charts_so_far["bound"] = Chart(
            bound_figure(auditing, progress),
            f"The bound on {auditing.audit.claim.symbol} rises",
            "What is proven at each announced look, and the claim",
            "At each look, with the attacker's threshold. Dotted: what the measured rates say; the band is what they "
            "leave open, at all looks together with 95 % confidence. Solid: what is proven.",
        )
    are_practice = len(progress.present) <= progress.tuning
    return charts_so_far | {"scores": scores_chart(auditing, progress, guess, practice=are_practice)}


def rates_chart(auditing: Auditing, progress: Progress, guess: float | None) -> Chart:
    """Return the chart of the true against the false positive rates of all thresholds, with claim and thresholds.

    It is about the runs that count, or about the practice runs until there are such runs. guess : the visitor's
    threshold, if there is one.
    """
    start = progress.tuning if len(progress.present) > progress.tuning else 0
    present, absent = progress.present[start:], progress.absent[start:]
    marks = {}
    if progress.attack is not None:
        marks["attacker's threshold"] = _rates_of(progress.attack, present, absent)
    if guess is not None:
        marks["your threshold"] = _rates_of(Attack(guess), present, absent)
    # The largest true positive rates that the claim allows, and those that the releases of the plan allow. With a
    # mistake the plan says nothing of what is released.
    claimed_rates = auditing.audit.max_true_rates(RATES)
    planned_rates = claimed_rates if auditing.mistake else 1 - tradeoffs.tradeoff(auditing.audit.plan.events, RATES)
    true_rates, low, high = rates(present, absent, RATES)  # with the ends of their confidence band
    figure = audit_figures.roc(true_rates, low, high, claimed_rates, planned_rates, marks)
    return Chart(
        figure,
        "What the attacker achieves",
        "True against false positive rate of the attack at every threshold, and the most that the claim allows",
        "Every point is a threshold: how often D is recognised, against how often D' is taken for it. Band: both rates "
        "at one threshold by itself, each with 95 % confidence. Of so many, one may be all in the shaded area by "
        "chance: the verdict is on the attacker's threshold alone, which was fixed beforehand.",
    )


def scores_chart(auditing: Auditing, progress: Progress, guess: float | None, *, practice: bool) -> Chart:
    """Return the chart of how often each score was seen on both data sets, with the thresholds.

    guess : the visitor's threshold, if there is one.
    practice : true for the practice runs, for which the attacker has no threshold yet; false for the runs that count.
    """
    thresholds = {} if practice or progress.attack is None else {"attacker's threshold": progress.attack.threshold}
    if guess is not None:
        thresholds["your threshold"] = guess
    part = slice(None, progress.tuning) if practice else slice(progress.tuning, None)
    present, absent = progress.present[part], progress.absent[part]
    edges = bins(present, absent)  # scores and thresholds outside of them are drawn in the outermost ones
    thresholds = {name: float(np.clip(threshold, edges[0], edges[-1])) for name, threshold in thresholds.items()}
    shares = {
        name: np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)
        for name, scores in zip(WORLDS, (present, absent), strict=True)
    }
    meaning = "what an attacker who knows the mistake computes from the releases of a run"
    if auditing.audit.case.score is None:  # without a score of its own, a case has the likelihood ratio
        meaning = (
            "logarithm of how much more likely the releases of a run are on D than on D', under the declared noise"
        )
    return Chart(
        audit_figures.scores(edges, shares, thresholds),
        f"Scores of the {'practice runs' if practice else 'runs that count'}",
        f"How often each score was seen on D and on D', in {len(present):,} runs on each",
        f"Score: {meaning}. What lies beyond is counted in the outermost bins.",
    )


def _rates_of(attack: Attack, present: Floats, absent: Floats) -> tuple[float, float]:
    """Return the false and the true positive rate of an attack, where a positive is a run that is taken for one on D.

    present, absent : scores of the runs on D and on D'. A reverse attack tests for D': its hits are runs on D', its
    false hits runs on D. It takes a run for one on D if this test fails.
    """
    runs = len(present)  # as many as on D'
    hit_rate, false_hit_rate = (count / runs for count in attack.counts(present, absent))
    return (1 - hit_rate, 1 - false_hit_rate) if attack.reverse else (false_hit_rate, hit_rate)


def bound_figure(auditing: Auditing, progress: Progress) -> go.Figure:
    """Return the figure of the lower bounds at the looks so far, of which there must be at least one.

    Around them are the estimates at each look, and the upper ends of their margins.
    """
    claim, looks = auditing.audit.claim, progress.looks
    counts = [(look.runs, look.hits, look.false_hits) for look in looks]
    runs, hits, false_hits = np.array(counts, dtype=float).T  # (k,) each, for k looks
    low, high = clopper_pearson(hits, runs, auditing.audit.level)
    false_low, false_high = clopper_pearson(false_hits, runs, auditing.audit.level)
    # The smallest number of the claim, such as ε, with which the rates are possible. It rises with the true positive
    # rate, and falls with the false positive rate.
    bounds, upper = claim.smallest_value(low, false_high), claim.smallest_value(high, false_low)
    estimates = claim.smallest_value(hits / runs, false_hits / runs)
    refuting = [progress.tuning + look.runs for look in looks if look.bound > claim.value]
    refuted_at = refuting[0] if refuting else None
    all_runs = runs + progress.tuning
    return audit_figures.rising_bound(all_runs, bounds, estimates, upper, claim.value, claim.symbol, refuted_at)


def bins(present: Floats, absent: Floats) -> Floats:
    """Return the edges (BINS + 1,) of bins around all scores but the 0.1 % most extreme ones at each end.

    All bins together are a tenth wider than that, and never narrower than 0.11, also if all scores are the same.
    """
    both = np.concatenate([present, absent])
    finite = both[np.isfinite(both)]
    low, high = np.quantile(finite, [0.001, 0.999]) if len(finite) else (-1.0, 1.0)
    middle, width = (low + high) / 2, max(high - low, 0.1)
    return middle + width * np.linspace(-0.55, 0.55, BINS + 1)


def _practice_bins(progress: Progress) -> Floats:
    """Return the edges (BINS + 1,) of bins around the scores of the practice runs."""
    return bins(progress.present[: progress.tuning], progress.absent[: progress.tuning])


# Names of the visitor's notes, which a reload keeps. _FIXED : of the last threshold that was fixed, as (JSON text of
# its audit, threshold, whether it is blind: fixed before any results with its noise were seen). _SEEN : beginning of
# the names that `_seen_name` returns.
_FIXED, _SEEN = "_fixed", "_seen"


def fixed_threshold(panel: Panel, auditing: Auditing) -> float | None:
    """Return the threshold that the visitor has fixed for this audit; None if that was for another one, or never."""
    text, threshold, _ = _last_fixed(panel)
    return threshold if text == auditing.to_json() else None


def note_shown(panel: Panel, auditing: Auditing) -> None:
    """Remember that the visitor has seen this audit's results: a threshold placed after that proves nothing."""
    visitors.current().notes[_seen_name(panel, auditing)] = True


def _last_fixed(panel: Panel) -> tuple[str, float | None, bool]:
    """Return the note of the last threshold that was fixed, as described at `_FIXED`."""
    note: Any = visitors.current().notes.get(panel.key(_FIXED), ("", None, False))
    text, threshold, is_blind = note
    return text, threshold, is_blind


def _seen_name(panel: Panel, auditing: Auditing) -> str:
    """Return the name of the note that results with an audit's noise were seen. It has the case and the seed alone, as
    another number of runs or another budget draws no fresh noise."""
    return f"{panel.key(_SEEN)}_{auditing.family}_{auditing.case}_{auditing.seed}"


def ask_threshold(panel: Panel, auditing: Auditing, progress: Progress) -> None:
    """Draw the scores of the practice runs, the control of a threshold, and the button that fixes it.

    Once it is fixed, the page draws the results instead, and what the threshold proves on the runs that count.
    """
    st.markdown(texts.GUESS)
    has_practised = len(progress.present) >= progress.tuning
    edges = _practice_bins(progress)
    far = float(f"{np.abs(edges).max():.1g}") * 2  # a round number beyond all bins
    help = "You say D for every run that scores at least as much."
    control = Control("threshold", "Your threshold", help, 0.0, float, -far, far)
    threshold = panel.number(control, "threshold")
    is_usable = has_practised and threshold is not None and not panel.mistakes
    st.button(
        "Count it",
        key=panel.key("count"),
        type="primary",
        icon=":material/lock:",
        disabled=not is_usable,
        on_click=_fix_threshold,
        args=(panel, auditing, threshold),
    )
    show(panel, "scores", scores_chart(auditing, progress, threshold, practice=True))


def class_question(progress: Progress) -> Threshold:
    """Return the question for the threshold of each phone of a class, with the scores of the practice runs."""
    present, absent = progress.present[: progress.tuning], progress.absent[: progress.tuning]
    edges = _practice_bins(progress)
    counts = [np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] for scores in (present, absent)]
    heights = (np.array(counts) / np.max(counts)).round(4)  # (2, BINS), as shares of the highest bar
    bars = {name: tuple(row) for name, row in zip(WORLDS, heights.tolist(), strict=True)}
    ticks = FixedAxis(title="", low=float(edges[0]), high=float(edges[-1]), log=False).ticks
    return Threshold(
        "Where is your threshold? You say D for every run that scores at least as much.", bars, "Score", tuple(ticks)
    )


def class_thresholds(progress: Progress, ballot: Ballot) -> np.ndarray:
    """Return the thresholds that phones have placed, (phones,)."""
    edges = _practice_bins(progress)
    positions = np.array(list(ballot.answers.values()))  # from 0 to 1, as shares of the width of the picture
    return np.asarray(edges[0] + positions * (edges[-1] - edges[0]))


def reveal_class(panel: Panel, room: Room, auditing: Auditing, progress: Progress, ballot: Ballot) -> None:
    """Fix the median threshold of a class as the visitor's, and have phones show the attacker's; for a callback.

    Nothing happens before a phone has placed a threshold.
    """
    if ballot.answers:
        room.close(ballot)
        _fix_threshold(panel, auditing, float(np.median(class_thresholds(progress, ballot))))
        best = {}
        if progress.attack is not None:
            edges = _practice_bins(progress)
            share = (progress.attack.threshold - edges[0]) / (edges[-1] - edges[0])
            best = {"best": float(np.clip(share, 0, 1))}
        room.reveal(ballot, best)


def show_class(progress: Progress, ballot: Ballot) -> None:
    """Draw the thresholds of a class, which are revealed, and the attacker's."""
    thresholds = class_thresholds(progress, ballot)
    marks = {} if progress.attack is None else {"attacker's threshold": progress.attack.threshold}
    figure = class_figures.ends({"the class": thresholds}, "Score of a run", log=False, marked=marks)
    st.markdown(f"**{len(thresholds)} phones have placed a threshold.** Their median is “your threshold”.")
    charts.show_figure(figure, "audit_class", "Thresholds of the class")


def _fix_threshold(panel: Panel, auditing: Auditing, threshold: float) -> None:
    """Fix the visitor's threshold for an audit; for callbacks.

    It is stored as described at `_FIXED`.
    """
    notes = visitors.current().notes
    is_blind = _seen_name(panel, auditing) not in notes
    notes[panel.key(_FIXED)] = auditing.to_json(), threshold, is_blind


def compare_thresholds(panel: Panel, auditing: Auditing, progress: Progress, threshold: float) -> None:
    """Draw what the visitor's threshold proves next to the attacker's, and a button for a round with fresh noise."""
    outcome, symbol = verdict(auditing, progress), auditing.audit.claim.symbol
    if outcome is None:
        return
    own_bound, attackers_bound = proven_at(auditing, progress, threshold), outcome.looks[-1].bound  # at the last look
    relation = "more than" if own_bound > attackers_bound else "less than"
    if own_bound == attackers_bound:
        relation = "as much as"
    _, _, is_blind = _last_fixed(panel)
    proves, fixed = "proves", "Both were fixed before these runs were seen."
    if not is_blind:
        proves = "would prove"
        fixed = "But you had seen runs with this noise before you placed it, so it proves nothing: take another round."
    own = f"{short(threshold)} {proves} {symbol} ≥ {short_down(own_bound)}"
    attackers = f"{short(outcome.attack.threshold)}: {short_down(attackers_bound)}"
    st.markdown(f"**Your threshold {own}**, {relation} the attacker's {attackers}. {fixed}")
    if st.button(
        "Another round",
        key=panel.key("again"),
        icon=":material/replay:",
        help="The next seed: fresh noise, and runs that nobody has seen.",
        on_click=lambda: panel.set_values({"seed": auditing.seed + 1}),
    ):
        st.rerun()  # the seed's control is outside this part, which is drawn alone
