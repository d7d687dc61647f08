"""What an audit has found, in words and in numbers."""

from typing import Any

import streamlit as st

from dpviz.audits.audit import Attack, Progress, Verdict
from dpviz.execution.auditing import Auditing
from dpviz.numbers import short, short_down, short_up
from dpviz.privacy import audit
from dpviz.ui.audit import texts

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
