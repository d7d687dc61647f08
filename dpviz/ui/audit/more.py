"""What stands below an audit: how many runs a fault needs, and audits from a single run."""

from dataclasses import replace
from functools import lru_cache

import streamlit as st

from dpviz.audits.needed import LEAST, MOST, Needed, runs_needed
from dpviz.audits.one_run import OneRunVerdict
from dpviz.execution.auditing import Auditing
from dpviz.families.accelerated.audits import ONE_RUN
from dpviz.numbers import short
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.verification.broken import Quieter
from dpviz.ui.audit import texts
from dpviz.ui.controls import Panel


def needed(panel: Panel, auditing: Auditing) -> None:
    """Runs that flag smaller noise, if asked for."""
    if not panel.switch("needed", "Runs needed to flag a fault", False, texts.NEEDED_HELP):
        return
    rows = "\n".join(
        f"| ×\N{NO-BREAK SPACE}{short(row.factor, 2)} | {_runs(row.attack)} | {_runs(row.tests)} |"
        for row in _needed(auditing.to_json())
    )
    st.markdown(f"| noise | the attack on the claim | the tests of the implementation |\n|---|---|---|\n{rows}")
    st.caption(texts.NEEDED)


def _runs(runs: int | None) -> str:
    if runs is None:
        return f"more than {MOST:,}, or not known before the runs"
    return f"{runs:,}" if runs > LEAST else f"at most {LEAST}"


@lru_cache(64)
def _needed(text: str) -> tuple[Needed, ...]:
    auditing = Auditing.from_json(text)
    assert isinstance(auditing, Auditing)
    return runs_needed(auditing.audit)


def one_run(panel: Panel) -> None:
    """A single run with many canaries, if asked for."""
    if not panel.switch("one", "An audit from a single run", False, texts.ONE_HELP):
        return
    st.markdown(texts.ONE)
    (epsilon,) = PureDP.controls()
    (seed,) = (control for control in Auditing.controls() if control.name == "seed")
    left, right, last = st.columns(3, vertical_alignment="bottom")
    with left:
        claim = panel.number(replace(epsilon, label="Claim", default=1.0), "one_epsilon")
    with right:
        chosen = panel.number(replace(seed, label="Seed of the single run"), "one_seed")
    with last:
        broken = panel.switch("one_broken", "Noise too small by √2", False, texts.ONE_BROKEN)
    if panel.mistakes or claim is None or chosen is None:
        return
    found = _one_run(float(claim), int(chosen), broken)
    row = st.container(horizontal=True)
    row.metric("Claimed ε", short(found.claim), border=True)
    row.metric("Proven ε by one run", f"≥ {short(found.bound)}", border=True)
    row.metric("Guesses that are right", f"{found.correct} of {found.guesses}", border=True)
    if found.violation:
        st.error(texts.ONE_REFUTED.format(bound=short(found.bound)), title="VIOLATION", icon=":material/gpp_bad:")
        return
    text = texts.ONE_HOLDS.format(bound=short(found.bound), guesses=found.guesses, most=short(found.most))
    text += f" {texts.ONE_CANNOT}" if found.claim >= found.most else ""
    st.info(text, title="No violation found in one run", icon=":material/search:")


@lru_cache(64)
def _one_run(epsilon: float, seed: int, broken: bool) -> OneRunVerdict:
    audit = replace(ONE_RUN, source=Quieter) if broken else ONE_RUN
    return audit.run(PureDP(epsilon=epsilon), seed)
