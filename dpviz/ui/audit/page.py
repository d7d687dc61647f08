"""The audit page: choose, run, and see what an attacker can tell, and whether releases are what was declared."""

from functools import partial

import streamlit as st

from dpviz import privacy
from dpviz.execution.auditing import Auditing
from dpviz.ui import components, downloads, explain, glossary, links
from dpviz.ui.audit import choose, guess, more, results, texts
from dpviz.ui.audit import verdict as verdicts
from dpviz.ui.audit.run import AuditRun, Ready, forecast
from dpviz.ui.controls import Panel, in_place
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.plan import Shown


def show() -> None:
    """The whole page."""
    panel = Panel("audit")
    st.title(texts.TITLE, anchor=False)
    st.markdown(texts.ABOUT)
    glossary.words(panel.key("words"))
    messages = st.container()
    auditing: Auditing | None = None
    with st.sidebar:
        chosen = choose.controls(panel)
        guessing = guess.wanted(panel)
        with in_place(messages):
            panel.check()
            auditing = chosen.build()
    if auditing is not None:
        st.markdown(choose.described(auditing))
    ready = None if auditing is None else Ready(auditing)
    active = run_panel.bar(panel, texts.TITLE, ready)
    if ready is not None:
        forecast(ready)
    run_panel.live(panel.page, active, partial(_draw, panel, guessing), texts.NONE)
    run, shown = run_panel.current(panel.page), False
    if isinstance(run, AuditRun) and not run.job.active:
        shown = run.progress is not None and (not guessing or guess.seen(panel, run.auditing) is not None)
        if guessing and not shown and run.progress is not None:
            guess.place(panel, run.auditing, run.progress)
        if auditing is not None and run.auditing != auditing:
            st.info("Settings changed since this audit. Press Run.", icon=":material/history:")
    if auditing is not None:
        more.needed(panel, auditing)
    more.one_run(panel)
    st.header("What an audit can and cannot show", anchor=False)
    st.markdown("\n".join(f"- **{name}.** {text}" for name, text in texts.LIMITS))
    if auditing is not None:
        _python(auditing)
    panel.say_unread()
    with st.container(horizontal=True):
        links.show(panel)
        if isinstance(run, AuditRun) and shown:
            threshold = guess.seen(panel, run.auditing) if guessing else None
            downloads.figures(panel, partial(_drawn, run, threshold))
    explain.theory("audit", privacy)


def _draw(panel: Panel, guessing: bool) -> None:
    """What the run has found so far."""
    run = run_panel.current(panel.page)
    if not isinstance(run, AuditRun):
        components.awaited(panel.key("chart_roc"))
        return
    auditing, progress, ended = run.auditing, run.progress, not run.job.active
    threshold = guess.seen(panel, auditing) if guessing else None
    if guessing and threshold is None:
        return
    guess.shown(panel, auditing)
    st.header("What the attack has found", anchor=False)
    verdicts.box(auditing, progress, ended)
    verdicts.cards(auditing, progress)
    if progress is None:
        return
    if threshold is not None:
        guess.score(panel, auditing, progress, threshold)
    results.figures(panel, auditing, progress, threshold)


def _drawn(run: AuditRun, threshold: float | None) -> Shown:
    """The figures of an audit that has ended, as a file takes them."""
    assert run.progress is not None
    found = results.pictures(run.auditing, run.progress, threshold)
    return [(picture.heading, picture.figure, picture.caption) for picture in found]


def _python(auditing: Auditing) -> None:
    """The lines that find the same."""
    budget, mended = auditing.budget, "\n    mended=True," if auditing.mended else ""
    with st.expander("The same in Python", icon=":material/code:"):
        st.code(
            f"from dpviz.execution.auditing import Auditing\n"
            f"from dpviz.privacy.budgets import {type(budget).__name__}\n\n"
            f"auditing = Auditing(\n    family={auditing.family!r},\n    case={auditing.case!r},\n"
            f"    budget={budget!r},\n    runs={auditing.runs},\n    seed={auditing.seed},{mended}\n)\n"
            f"verdict = auditing.audit.run()\nprint(verdict.sentence())\nprint(verdict.implementation.sentence())",
            language="python",
        )
