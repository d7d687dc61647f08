"""The audit page: choose, run, and see what an attacker can tell, and whether releases are what was declared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz import families, privacy
from dpviz.audits.audit import ORDINARY, WORST, Case, Progress
from dpviz.audits.one_run import OneRunVerdict
from dpviz.execution.auditing import BROKEN, Auditing, mistake_named
from dpviz.execution.runner import Job
from dpviz.families.accelerated.audits import ONE_RUN
from dpviz.lessons.classroom import Ballot, Room
from dpviz.numbers import short_down, short_up
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.verification.broken import Quieter
from dpviz.ui import audit, components, downloads, explain, glossary, links, visitors
from dpviz.ui import families as pages
from dpviz.ui.audit import results, texts
from dpviz.ui.controls import PageBody, Panel, Settings, draw_errors
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.run import Run, runner
from dpviz.ui.glossary import TERMS
from dpviz.ui.learn import classroom


@dataclass(frozen=True)
class Choices:
    """Choices of the sidebar, to be built when all controls have been drawn, also those above the verdict.

    family, name : family and name of the audited case; of a mistake made on purpose, BROKEN and its name.
    rest : values of the other fields of `Auditing`.
    """

    family: str
    name: str
    budget: Settings[Budget]
    rest: Mapping[str, Any]

    def build(self) -> Auditing:
        """Return the audit. Raises UserError for a budget that does not fit the method."""
        values = {"family": self.family, "case": self.name, "budget": self.budget.build(), **self.rest}
        auditing = Settings(Auditing, values).build()
        # The plan is computed here, so that its errors are raised where errors of settings are drawn.
        assert auditing.audit.plan is not None
        return auditing


def controls(panel: Panel) -> Choices:
    """Draw the controls of the sidebar; return the choices.

    They are the family and its method, or a mistake made on purpose; then the claimed budget, number of runs and seed.
    """
    st.subheader("What is attacked", anchor=False)
    cases = families.audits()  # by family; of each method, the worst known case comes first
    titles = {BROKEN: "Broken on purpose"}
    titles |= {family.name: family.title for family in pages.FAMILIES if family.name in cases}
    family = panel.choice("family", "Family", titles, next(iter(titles)), "Methods of this tool, or known mistakes.")
    rest: dict[str, Any] = {}
    budgets: tuple[Budget, ...]
    if family == BROKEN:
        mistakes = {mistake.name: mistake for mistake in families.broken()}
        mistake_titles = {name: mistake.title for name, mistake in mistakes.items()}
        help = "Each is caught: by the attack on the claim, or by the tests of the implementation."
        name = panel.choice("mistake", "Mistake", mistake_titles, next(iter(mistake_titles)), help)
        rest = panel.draw_controls(Auditing, ["mended"])
        budgets, runs, prefix = (mistakes[name].budget,), mistakes[name].runs, f"{family}_{name}"
    else:
        first_cases: dict[str, Case] = {}  # the first case of each method, by the method's title
        for case in cases[family]:
            first_cases.setdefault(case.title, case)
        methods = {case.name: title for title, case in first_cases.items()}  # by the name of the first case
        help = "The code that the method's own page runs, on data sets made for the attack."
        method = panel.choice(f"method_{family}", "Method", methods, next(iter(methods)), help)
        title = methods[method]
        first_case, prefix = first_cases[title], f"{family}_{method}"
        budgets, runs = first_case.budgets, first_case.runs
        canaries = {case.name: case.canary_name for case in cases[family] if case.title == title}
        name = method
        if len(canaries) > 1:
            help = f"{TERMS['canary'].sentence} Another one changes neither the method nor its claim."
            name = panel.choice(f"{prefix}_canary", "Canary", canaries, name, help)
    st.subheader("Claim and attack", anchor=False)
    budget = _budget(panel, prefix, budgets)
    declared = {control.name: control for control in Auditing.controls()}
    # The second control above the verdict, after the budget; writes "runs" into `rest`.
    panel.add_lead(1, replace(declared["runs"], default=runs), into=rest, prefix=f"{prefix}_")
    rest["seed"] = panel.control(declared["seed"], "seed")
    return Choices(family, name, budget, rest)


def _budget(panel: Panel, prefix: str, defaults: tuple[Budget, ...]) -> Settings[Budget]:
    """Draw the controls of a budget, in one of the currencies in which a case is audited; return its settings.

    prefix : beginning of the controls' keys, which each case has of its own. defaults : budgets of the case, in all its
        currencies; the first is selected at first.
    """
    default_by_class = {type(budget): budget for budget in reversed(defaults)}  # so that the first of a class wins
    currencies = {name: cls for name, cls in CURRENCIES.items() if cls in default_by_class}
    currency = next(name for name, cls in currencies.items() if cls is type(defaults[0]))
    if len(currencies) > 1:
        names = {name: cls.name for name, cls in currencies.items()}
        help = "In which currency the method states what it keeps to."
        currency = panel.choice(f"{prefix}_currency", "Guarantee", names, currency, help)
    cls = currencies[currency]
    default = default_by_class[cls]
    amount, *others = [replace(control, default=getattr(default, control.name)) for control in cls.controls()]
    values = {control.name: panel.control(control, f"{prefix}_{control.name}") for control in others}
    panel.add_lead(0, amount, into=values, prefix=f"{prefix}_")  # drawn above the verdict, as the first
    return Settings(cls, values)


def describe(auditing: Auditing) -> str:
    """Return in words how the two data sets of an audit differ, and the mistake made on purpose, if there is one."""
    case = auditing.audit.case
    text = f"**The case.** {case.canary}"
    if auditing.family != BROKEN:
        if case.canary_name == WORST:
            return text
        if case.canary_name == ORDINARY:
            return f"{text} {texts.CANARIES}"  # that the guarantee is about the worst row
        return f"{text} {texts.UNKNOWN}"  # that another pair of data sets may prove more
    mistake = mistake_named(auditing.case)  # `auditing.case` is its name
    if auditing.mended:
        return f"{text} This is “{mistake.title}” without the mistake."
    catch = {"attack": "the attack catches", "tests": "the tests of the implementation catch"}[mistake.by]
    # `mistake.runs` is the number with which 99 of 100 audits catch the mistake, at the budget that it claims to keep.
    sufficient = f"At {mistake.budget.describe()} and {mistake.runs:,} runs, {catch} it in 99 of 100 audits."
    return f"{text}  \n**The mistake.** {mistake.mistake} {sufficient}"


@dataclass(frozen=True, eq=False)
class AuditRun(Run):
    """A running or finished audit."""

    @property
    def auditing(self) -> Auditing:
        """The settings of the audit."""
        assert isinstance(self.job.task, Auditing)
        return self.job.task

    @property
    def progress(self) -> Progress | None:
        """Scores and verdict so far; None before the first block of runs."""
        return None if self.job.trace is None else self.auditing.progress(self.job.trace)

    @property
    def progress_text(self) -> str:
        """Number of finished runs on each data set, in words."""
        so_far = f"{round(self.job.progress * self.auditing.runs):,} of " if self.job.state != "done" else ""
        return f"{so_far}{self.auditing.runs:,} runs on each data set"


@dataclass(frozen=True)
class StartableAudit(run_panel.Startable):
    """An audit that can be started."""

    auditing: Auditing
    public: bool = True  # its data are synthetic
    # Its runs are not divided into a first part and the rest, and they fit into memory.
    first_part: None = None
    has_few_repeats: bool = False
    work_ratio: float = 1.0
    too_much: bool = False

    def is_task_of(self, job: Job) -> bool:
        return job.task == self.auditing

    def start(self, page: str, title: str, short: bool) -> AuditRun:
        job = runner().submit(self.auditing, visitor=visitors.current().name, short=short)
        return AuditRun(job, plans={}, page=page, title=title)


def show() -> None:
    """Draw the page: the sidebar, and all below the title as a fragment, which is drawn again alone."""
    panel = Panel("audit")
    st.title(texts.TITLE, anchor=False)
    st.markdown(texts.QUESTION)
    tools = st.container(key=panel.key("tools"), horizontal=True, vertical_alignment="center")
    with st.sidebar:
        choices = controls(panel)
        help = "Hides what the attack finds until you have placed a threshold."
        guesses_first = panel.switch("guess", "Your own guess first", default=False, help=help)
    _Screen(panel, choices, guesses_first, tools).show()
    with tools:
        glossary.mark_terms(panel.key("words"))


@dataclass
class _Screen(PageBody):
    """All of the page but its sidebar: the case, the verdict next to its chart, and the sections.

    tools : container next to the title. guesses_first : true if the visitor wants to place a threshold of their own
    before they see results. auditing : the audit of the present choices; None while they make none.
    """

    choices: Choices
    guesses_first: bool
    tools: DeltaGenerator
    auditing: Auditing | None = None

    def draw(self) -> None:
        """Draw Run and Stop, the case with its verdict, the question for a threshold if there is one, and the sections.

        Containers hold the places of what is drawn later, since it depends on the run.
        """
        panel, page = self.panel, self.panel.page
        class_bar = st.container()
        self.draw_leads()
        self.auditing = None
        with draw_errors():
            panel.check()
            self.auditing = self.choices.build()
        ready = None if self.auditing is None else StartableAudit(self.auditing)
        verdict, foot = st.container(), st.container(horizontal=True, vertical_alignment="center")
        with self.tools:
            active = run_panel.bar(panel, texts.TITLE, ready, switch_area=foot.container(width="content"))
        with verdict:
            # Unless a verdict on the present settings is shown, which describes the case itself.
            if self.auditing is not None and (self.run is None or self.is_outdated or not self.shows(self.run)):
                st.markdown(describe(self.auditing))
            run_panel.show_live(page, active, self._show_verdict, if_none=texts.NONE)
        with foot:
            link = st.container(width="content")
        if not active:
            self._ask_threshold()
        room = classroom.room()
        if room is not None:
            with class_bar:
                classroom.bar(room, self.ballot, self._reveal(room))
        if not self.is_redraw:
            panel.say_unread()
        self.panel.sections({"Evidence": self._evidence, "Take away": self._take_away, "Background": self._background})
        with link:
            links.show(panel)

    def _ask_threshold(self) -> None:
        """Ask for a threshold, if results wait for one: the class once all practice runs are done, else the visitor."""
        run, room = self.run, classroom.room()
        if run is None or run.progress is None or self.shows(run):
            return
        self._say_outdated()
        if room is None:
            results.ask_threshold(self.panel, run.auditing, run.progress)
        elif len(run.progress.present) >= run.progress.tuning:
            room.ask(results.class_question(run.progress))
            st.markdown(texts.GUESS)
            results.show(
                self.panel, "scores", results.scores_chart(run.auditing, run.progress, guess=None, practice=True)
            )

    def _reveal(self, room: Room) -> Callable[[], None] | None:
        """Return a callback that reveals the thresholds of a class; None if it was not asked about this audit."""
        run, ballot = self.run, self.ballot
        if run is None or run.progress is None or ballot is None:
            return None
        return partial(results.reveal_class, self.panel, room, run.auditing, run.progress, ballot)

    @property
    def run(self) -> AuditRun | None:
        """The newest audit of the page; None before the first."""
        run = run_panel.newest_run(self.panel.page)
        return run if isinstance(run, AuditRun) else None

    @property
    def ballot(self) -> Ballot | None:
        """The question for thresholds that the visitor's class has been asked about this audit; None without one."""
        room, run = classroom.room(), self.run
        if room is None or not room.questions or run is None or run.progress is None:
            return None
        question, ballot = results.class_question(run.progress), room.questions[-1]
        return ballot if ballot.question == question else None

    @property
    def is_outdated(self) -> bool:
        """True if the newest audit has other settings than the page."""
        return self.run is not None and self.run.job.task != self.auditing

    def _say_outdated(self) -> None:
        """Draw a caption if what follows is of earlier settings."""
        if self.is_outdated:
            st.caption(f":material/history: {texts.EARLIER}")

    def shows(self, run: AuditRun) -> bool:
        """Return true if the visitor may see the results of a run: at once, or after having placed a threshold."""
        return not self.guesses_first or results.fixed_threshold(self.panel, run.auditing) is not None

    def threshold(self, run: AuditRun) -> float | None:
        """Return the threshold that the visitor placed for a run; None without one."""
        return results.fixed_threshold(self.panel, run.auditing) if self.guesses_first else None

    def _show_verdict(self) -> None:
        """Draw the claim, the verdict so far, and the chart of the rates."""
        panel, run = self.panel, self.run
        if run is None or not self.shows(run):
            # An empty part, while the tab fetches the plotting library.
            components.figure_placeholder(panel.key("chart_roc"))
            return
        auditing, progress, threshold = run.auditing, run.progress, self.threshold(run)
        results.note_shown(panel, auditing)  # from now on a threshold that the visitor places proves nothing
        self._say_outdated()
        panel.hidden_heading("What the attack has found")  # a heading for screen readers
        with st.container(key=panel.key("found_pale" if self.is_outdated else "found")):  # by its key it is drawn pale
            text_column, chart_column = st.columns([6, 7], gap="medium")
        with text_column:
            results.cards(auditing, progress, panel.key("cards"))
            results.show_verdict(auditing, progress, is_finished=not run.job.active)
            if not self.is_outdated:
                st.markdown(describe(auditing))
            if threshold is not None and progress is not None:
                results.compare_thresholds(panel, auditing, progress, threshold)
        if progress is not None:
            with chart_column:
                results.show(panel, "roc", results.rates_chart(auditing, progress, threshold))
                ballot = self.ballot
                if ballot is not None and not ballot.is_open:
                    results.show_class(progress, ballot)

    def _evidence(self) -> None:
        """Draw the rising bound, the scores, the tests of the implementation, and the audit of a single run.

        While an audit is under way, all but the last is drawn again and again.
        """

        def draw() -> float | None:
            """Draw the evidence so far; return the seconds until it is drawn again, None if it is final."""
            run = self.run
            if run is None or run.progress is None or not self.shows(run):
                st.caption(texts.NONE)
                return None if run is None or not run.job.active else run.poll_interval()
            threshold = self.threshold(run)
            self._say_outdated()
            results.show_attackers_test(run.auditing, run.progress)
            charts = results.all_charts(run.auditing, run.progress, threshold)
            del charts["roc"]  # the chart of the rates, which is next to the verdict
            for column, (name, chart) in zip(st.columns(2), charts.items(), strict=False):  # one chart before a look
                with column:
                    results.show(self.panel, name, chart)
            if run.job.active:
                return run.poll_interval()
            results.show_tests(run.auditing, run.progress)
            return None

        run_panel.draw_repeatedly(self.panel.key("evidence_poll"), draw, before_redraw=lambda: None)
        _single_run(self.panel)

    def _take_away(self) -> None:
        """Draw the button that saves the charts as a file, and a program that runs the same audit."""
        run = self.run
        if run is not None and not run.job.active and run.progress is not None and self.shows(run):
            charts = partial(results.all_charts, run.auditing, run.progress, self.threshold(run))
            # Not the present settings, which may be others than those of the run.
            downloads.figures(self.panel, lambda: list(charts().values()), settings=run.auditing.to_json())
        if self.auditing is not None:
            with st.expander("The same in Python", icon=":material/code:"):
                st.code(_python(self.auditing), language="python")

    def _background(self) -> None:
        """Draw texts: what an audit is, what it cannot show, and the theory of privacy, audits included."""
        st.markdown(explain.document(audit, "about.md"))  # a file of this page's package, dpviz.ui.audit
        st.markdown(explain.document(audit, "limits.md"))
        explain.theory("audit", privacy)


def _python(auditing: Auditing) -> str:
    """Return a program in Python that runs an audit with the same settings."""
    budget, mended_line = auditing.budget, "\n    mended=True," if auditing.mended else ""
    return (
        f"from dpviz.execution.auditing import Auditing\n"
        f"from dpviz.privacy.budgets import {type(budget).__name__}\n\n"
        f"auditing = Auditing(\n    family={auditing.family!r},\n    case={auditing.case!r},\n"
        f"    budget={budget.to_python()},\n    runs={auditing.runs},\n    seed={auditing.seed},{mended_line}\n)\n"
        f"verdict = auditing.audit.run()\nprint(verdict.sentence())\nprint(verdict.implementation.sentence())"
    )


def _single_run(panel: Panel) -> None:
    """Draw an audit by a single run with many canaries: the controls of its claim and seed, and its outcome."""
    st.subheader("A single run", anchor=False)
    st.markdown(texts.ONE)
    (epsilon,) = PureDP.controls()
    (seed,) = (control for control in Auditing.controls() if control.name == "seed")
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    with left:
        claim = panel.number(replace(epsilon, label="Claim", default=1.0), "one_epsilon")
    with middle:
        one_seed = panel.number(replace(seed, label="Seed of the single run"), "one_seed")
    with right:
        help = "The standard deviation of Laplace noise is taken for its scale."
        is_broken = panel.switch("one_broken", "Noise too small by √2", default=False, help=help)
    if panel.mistakes or claim is None or one_seed is None:
        return
    outcome = _audit_once(float(claim), int(one_seed), is_broken)
    row = st.container(horizontal=True)
    row.metric("Claimed ε", short_up(outcome.claim), border=True)
    row.metric("Proven ε by one run", f"≥ {short_down(outcome.bound)}", border=True)
    row.metric("Guesses that are right", f"{outcome.correct} of {outcome.guesses}", border=True)
    if outcome.violation:
        st.error(
            texts.ONE_REFUTED.format(bound=short_down(outcome.bound)), title="VIOLATION", icon=":material/gpp_bad:"
        )
        return
    text = texts.ONE_HOLDS.format(
        bound=short_down(outcome.bound), guesses=outcome.guesses, most=short_down(outcome.max_bound)
    )
    if outcome.claim >= outcome.max_bound:
        text += f" {texts.ONE_CANNOT}"
    st.info(text, title="No violation found in one run", icon=":material/search:")


@lru_cache(64)
def _audit_once(epsilon: float, seed: int, is_broken: bool) -> OneRunVerdict:
    """Audit the claim ε-DP by a single run. is_broken : true to audit an implementation whose noise is too small."""
    audit = replace(ONE_RUN, source=Quieter) if is_broken else ONE_RUN
    return audit.run(PureDP(epsilon=epsilon), seed)
