"""The audit page: choose, run, and see what an attacker can tell, and whether releases are what was declared."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import streamlit as st

from dpviz import privacy
from dpviz.audits.audit import Progress
from dpviz.audits.needed import LEAST, MOST, Needed, runs_needed
from dpviz.audits.one_run import OneRunVerdict
from dpviz.execution.auditing import Auditing
from dpviz.execution.runner import Job
from dpviz.families.accelerated.audits import ONE_RUN
from dpviz.numbers import about, duration, short
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.verification.broken import Quieter
from dpviz.ui import audit, components, downloads, explain, glossary, links, visitors
from dpviz.ui.audit import choose, guess, results, texts
from dpviz.ui.audit import verdict as verdicts
from dpviz.ui.controls import Panel, in_place
from dpviz.ui.experiment import freshness
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run, runner


@dataclass(frozen=True, eq=False)
class AuditRun(Run):
    """An audit under way, or at its end."""

    @property
    def auditing(self) -> Auditing:
        """What runs."""
        assert isinstance(self.job.task, Auditing)
        return self.job.task

    @property
    def progress(self) -> Progress | None:
        """What it has found so far; None before its first block of runs."""
        return None if self.job.trace is None else self.auditing.progress(self.job.trace)

    @property
    def done(self) -> str:
        """How many runs are done, on each data set."""
        so_far = f"{round(self.job.progress * self.auditing.runs):,} of " if self.job.state != "done" else ""
        return f"{so_far}{self.auditing.runs:,} runs on each data set"


@dataclass(frozen=True)
class Ready:
    """An audit that can be started."""

    auditing: Auditing
    public: bool = True
    until: float = freshness.FOLLOW  # seconds up to which it starts by itself
    first: None = None
    times: float = 1.0

    @cached_property
    def likely(self) -> float:
        """About how many seconds it takes."""
        return self.auditing.estimated_seconds

    @property
    def too_much(self) -> bool:
        """Whether it is beyond what a run may take."""
        return self.likely > runner().max_seconds

    def is_that_of(self, job: Job) -> bool:
        """Whether a job is this audit."""
        return job.task == self.auditing

    def started(self, page: str, title: str) -> AuditRun:
        """Put it in line."""
        job = runner().submit(self.auditing, visitor=visitors.here().name, expected=self.likely)
        return AuditRun(job, {}, page, title)


def show() -> None:
    """The whole page."""
    panel = Panel("audit")
    st.title(texts.TITLE, anchor=False)
    st.markdown(explain.document(audit, "about.md"))
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
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        active = run_panel.bar(panel, texts.TITLE, ready, st.container(width="content"))
    if ready is not None:
        _forecast(ready)
    run_panel.live(panel.page, active, partial(_draw, panel, guessing), texts.NONE)
    run, shown = run_panel.current(panel.page), False
    if isinstance(run, AuditRun) and not run.job.active:
        shown = run.progress is not None and (not guessing or guess.seen(panel, run.auditing) is not None)
        if guessing and not shown and run.progress is not None:
            guess.place(panel, run.auditing, run.progress)
        if auditing is not None and run.auditing != auditing:
            st.info("Settings changed since this audit. Press Run.", icon=":material/history:")
    if auditing is not None:
        _runs_needed(panel, auditing)
    _single_run(panel)
    with st.expander("What an audit can and cannot show", icon=":material/rule:"):
        st.markdown(explain.document(audit, "limits.md"))
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
    words, picture = st.columns([6, 7], gap="medium")
    with words:
        verdicts.box(auditing, progress, ended)
        verdicts.cards(auditing, progress)
        if threshold is not None and progress is not None:
            guess.score(panel, auditing, progress, threshold)
    if progress is not None:
        results.figures(panel, auditing, progress, threshold, picture)


def _drawn(run: AuditRun, threshold: float | None) -> Shown:
    """The figures of an audit that has ended, as a file takes them."""
    assert run.progress is not None
    return list(results.pictures(run.auditing, run.progress, threshold).values())


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


def _forecast(ready: Ready) -> None:
    """What the audit takes, and whether that is too much."""
    if not ready.too_much:
        st.caption(f"{ready.auditing.runs:,} runs on each data set, {about(ready.likely)}.")
        return
    limit = runner().max_seconds
    fit = int(ready.auditing.runs * limit / ready.likely)
    most = fit - fit % 10 ** (len(str(fit)) - 1)  # one digit is enough
    st.error(
        f"Runs end after {duration(limit)}. Choose at most {short(most)} runs.",
        title=f"This audit would take about {duration(ready.likely)}",
    )


# ------------------------------------------------------------------------------------------------------- below an audit


def _runs_needed(panel: Panel, auditing: Auditing) -> None:
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


def _single_run(panel: Panel) -> None:
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
    outcome = _audited_once(float(claim), int(chosen), broken)
    row = st.container(horizontal=True)
    row.metric("Claimed ε", short(outcome.claim), border=True)
    row.metric("Proven ε by one run", f"≥ {short(outcome.bound)}", border=True)
    row.metric("Guesses that are right", f"{outcome.correct} of {outcome.guesses}", border=True)
    if outcome.violation:
        st.error(texts.ONE_REFUTED.format(bound=short(outcome.bound)), title="VIOLATION", icon=":material/gpp_bad:")
        return
    text = texts.ONE_HOLDS.format(bound=short(outcome.bound), guesses=outcome.guesses, most=short(outcome.most))
    text += f" {texts.ONE_CANNOT}" if outcome.claim >= outcome.most else ""
    st.info(text, title="No violation found in one run", icon=":material/search:")


@lru_cache(64)
def _audited_once(epsilon: float, seed: int, broken: bool) -> OneRunVerdict:
    audit = replace(ONE_RUN, source=Quieter) if broken else ONE_RUN
    return audit.run(PureDP(epsilon=epsilon), seed)
