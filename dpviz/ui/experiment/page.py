"""A family's page: choose, plan, run, show, written once. A family describes itself and hooks in what only it has."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from types import MappingProxyType, ModuleType
from typing import Any, Protocol

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.errors import UserError
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.preset import Preset
from dpviz.experiments.trace import Trace
from dpviz.plots.elements.chart import Chart
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.ui import charts, components, downloads, explain, glossary, links, screen
from dpviz.ui.controls import Panel, Part, Settings, in_place
from dpviz.ui.experiment import (
    cloud,
    controls,
    faces,
    freshness,
    guarantee,
    hero,
    pins,
    plan,
    results,
    sections,
    sweep_tab,
    texts,
)
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.controls import EVERY, Catalogue, Chosen, Group, Offer
from dpviz.ui.experiment.plan import PlanView, Shown
from dpviz.ui.experiment.problem_menu import ProblemMenu, Selection
from dpviz.ui.experiment.results import Options
from dpviz.ui.experiment.run import Ready, Run
from dpviz.ui.uploads import file

LEADS = 4  # controls above the picture, the budget among them
SMALL = "noise", "privacy"  # the plan's charts beside the live picture


class Texts(Protocol):
    """The words of a page, as its family's `texts.py` has them."""

    TITLE: str
    QUESTION: str
    NOT_COVERED: str


def _room(method: type[AnyAlgorithm]) -> str:
    """The family that a method is of, as its kind says."""
    return method.kind.rpartition(".")[0]


class FamilyPage:
    """A family's page: a subclass describes it, and overrides what it has of its own.

    prefix : of all keys and addresses. package : the family's, whose about.md and THEORY.md the page shows, and whose
    `texts` and `presets` have its words, methods and named experiments.
    groups : how the methods' settings are grouped; usually by `groups.toml` beside the subclass.
    problems : what is minimised, and on which data.
    references : what the non-private references are, in a sentence; empty if there are none.
    currency, at_first : of the budget, and the numbers in which it, or the repeats, differ from the usual at first:
    "epsilon", "delta", "replicates".
    by_name : the settings that the label of a method stands for. default_methods : the labels chosen at first; if
    empty, all. words : what a label means, spelled out.
    scenery : what is known of the plane in which the runs of a problem that has one are shown.

    The methods from `offer` on stand in the order of their calls. One that is a plain function elsewhere is taken over
    by `staticmethod`.
    """

    prefix: str
    package: ModuleType
    groups: Sequence[Group] = ()
    problems: ProblemMenu
    references: str = "Each update rule once more, without noise: no privacy."
    data_heading: str = "Data"
    currency: str = "pure"
    at_first: Mapping[str, float] = MappingProxyType({})
    by_name: Sequence[str] = ()
    default_methods: Sequence[str] = ()
    words: Mapping[str, str] = MappingProxyType({})
    scenery: cloud.PlaneView = cloud.PlaneView()

    def __init__(self) -> None:
        self.groups = self.groups or controls.groups_of(type(self).__module__.rpartition(".")[0])
        self.texts: Texts
        self.texts, presets = (import_module(f"{self.package.__name__}.{name}") for name in ("texts", "presets"))
        default = self.default_methods or tuple(presets.METHODS)
        self.catalogue = Catalogue(presets.METHODS, presets.arms, default, self.by_name, self.words)
        self.presets: Sequence[Preset] = presets.PRESETS
        self._settings: dict[str, Mapping[str, Any]] = {}  # of the presets, by name

    @property
    def title(self) -> str:
        """Its name in the menu."""
        return self.texts.TITLE

    @property
    def family(self) -> str:
        """The name of its package, and of its address."""
        return self.package.__name__.rpartition(".")[2]

    def offer(self, _problem: type[ProblemSpecification], /) -> Offer:
        """Which methods go with a kind of problem, where that is chosen before its data."""
        return EVERY

    def applicable(
        self, names: Sequence[str], _problem: type[ProblemSpecification], _currency: type[Budget], /
    ) -> Sequence[str]:
        """Which settings mean something for a kind of problem and a currency."""
        return names

    def predict(self, _experiment: Experiment, _plans: Mapping[str, Plan], /) -> Any:
        """What theory says of the plans."""

    def card(self, label: str, plan: Plan, /) -> guarantee.Card:
        """One number of a plan's noise, above the tabs."""
        return guarantee.noise_card(label, plan)

    def advice(self, shown: PlanView, /) -> None:
        """Draw a hint."""

    def line(self, _shown: PlanView, /) -> str:
        """What is said below the plan's charts beside the live picture; empty for nothing."""
        return ""

    def drawings(self, shown: PlanView, /) -> Iterator[Chart]:
        """The plan's charts, made one by one; the first two, noise and privacy, also stand beside the live picture."""
        return plan.drawings(shown)

    def looks(self, _panel: Panel, _shown: PlanView, _delta: float, /) -> Mapping[str, Callable[[], None]]:
        """Closer looks, by the title of their tab."""
        return {}

    def note(self, shown: PlanView, /) -> str:
        """The size of the data in a line below the settings."""
        return plan.size(shown)

    def assumptions(self, shown: PlanView, /) -> None:
        """Draw the box of assumptions."""

    def picture(self, run: Run, diagnostics: bool, /) -> Chart | None:
        """The live picture; None if nothing may be shown."""
        return hero.curves(run, diagnostics)

    def mapped(self, _shown: PlanView, /) -> bool:
        """Whether the live picture is a map of these methods' runs."""
        return False

    def along_steps(self, run: Run, diagnostics: bool, /) -> Chart | None:
        """The curves, where the live picture is a map."""
        return self.picture(run, diagnostics)

    def more_faces(self, _shown: PlanView | None, /) -> Mapping[str, hero.Drawn]:
        """Further pictures of the run, by title."""
        return {}

    def number(self, run: Run, trace: Trace, /) -> hero.Headline | None:
        """The one number above the picture."""
        return hero.lowest(run, trace)

    def options(self, shown: PlanView, /) -> Options:
        """How a run's curves are drawn."""
        return results.plain_options(shown)

    def summary(self, panel: Panel, run: Run, trace: Trace, /) -> None:
        """Draw what comes before the curves."""

    def extra(self, _panel: Panel, _run: Run, _trace: Trace, _diagnostics: bool, /) -> Shown:
        """Draw what comes after the curves."""
        return []

    def verdict(self, run: Run, trace: Trace, diagnostics: bool, /) -> None:
        """Draw what comes last."""

    def view(self, experiment: Experiment) -> PlanView:
        """The plans of an experiment and what theory says of them, cached. Raises UserError if no arm has a plan."""
        return plan.view(experiment, self.predict)

    def ready(self, experiment: Experiment) -> Ready:
        """What an experiment on public data needs to run. Raises UserError if no arm has a plan."""
        shown = self.view(experiment)
        return Ready(shown.experiment, shown.plans)

    def knows(self, experiment: Experiment) -> bool:
        """Whether it compares methods of this page, and none of another family's: no page knows all of those."""
        methods = {type(method) for method in self.catalogue.methods.values()}
        rooms = {_room(type(arm.algorithm)) for arm in experiment.arms}
        return any(type(arm.algorithm) in methods for arm in experiment.arms) and rooms == set(map(_room, methods))

    def settings(self, experiment: Experiment) -> dict[str, Any]:
        """The controls that rebuild an experiment. Raises ValueError for one that the page cannot express."""
        offer = self.offer(type(experiment.problem))
        arms = controls.settings_of(experiment, self.catalogue, offer.name)
        return arms | self.problems.settings_of(experiment.problem)

    def settings_of(self, preset: Preset) -> Mapping[str, Any]:
        """The controls that rebuild a preset, found once."""
        if preset.name not in self._settings:
            self._settings[preset.name] = self.settings(preset.experiment)
        return self._settings[preset.name]


@dataclass
class _Chosen:
    """What the controls in the sidebar say.

    build : an experiment of these and of the present values of the numbers above the picture; None while there are no
    data. error : why there is none.
    """

    source: Selection | None = None
    build: Callable[[], Experiment] | None = None
    delta: float = guarantee.DELTA
    error: UserError | None = None

    def experiment(self, panel: Panel) -> Experiment | None:
        """What is compared now; raises UserError for a mistake in the controls."""
        if self.error is not None:
            raise self.error
        panel.check()
        return None if self.build is None else self.build()


def show(page: FamilyPage) -> None:
    """Draw the page: the sidebar, and all else as a fragment, which the numbers above the picture draw again alone."""
    key, panel = page.prefix, Panel(page.prefix)
    preset_menu.arrive(panel, page.presets)
    preset_menu.apply_pending(panel, page.settings)
    st.title(page.texts.TITLE, anchor=False)
    st.markdown(page.texts.QUESTION)
    tools = st.container(key=f"{key}_tools", horizontal=True, vertical_alignment="center")
    chosen = _choose(page, panel, st.container())
    _Screen(panel, page, chosen, tools).show()
    with tools:
        glossary.words(panel.key("words"))


def _choose(page: FamilyPage, panel: Panel, uploads: DeltaGenerator) -> _Chosen:
    """Draw the controls in the sidebar. uploads : the place of a visitor's own file."""
    chosen = _Chosen()
    with st.sidebar:
        try:
            st.subheader(page.data_heading, anchor=False)
            chosen.source = source = page.problems.choose(panel, uploads, LEADS - 1)
            st.subheader("Privacy", anchor=False)
            budget = controls.budget(panel, page.currency, page.at_first, leads=True)
            chosen.delta = guarantee.delta(panel, budget)
            st.subheader("Methods", anchor=False)
            offer = page.offer(source.kind)
            labels = controls.methods(panel, page.catalogue, offer)
            references = bool(page.references) and controls.references(panel, page.references)
            st.subheader("Settings", anchor=False)
            settings = controls.grouped(
                panel,
                page.catalogue,
                page.groups,
                methods=labels or offer.methods,
                applicable_names=lambda names: page.applicable(names, source.kind, budget.cls),
                leads=range(1, LEADS - source.leads),
            )
            with st.expander("Repeats and seed"):
                numbers = controls.replicates_and_seed(panel, not source.uploaded, page.at_first)
            problem = page.problems.build(panel, source, budget, numbers["seed"])
            if problem is not None:
                chosen.build = partial(_built, page, problem, Chosen(labels, references, settings), budget, numbers)
        except UserError as error:
            chosen.error = error
        st.button(
            "Reset to defaults",
            key=panel.key("reset"),
            icon=":material/restart_alt:",
            on_click=preset_menu.open_with,
            args=(page.prefix, page.presets[0].experiment),
        )
    return chosen


def _built(
    page: FamilyPage,
    problem: Callable[[], ProblemSpecification],
    methods: Chosen,
    budget: Settings[Budget],
    numbers: Mapping[str, Any],
) -> Experiment:
    """The experiment of what was set; raises UserError where that does not go together."""
    parts = {"problem": problem(), "arms": methods.arms(page.catalogue), "budget": budget.build(), **numbers}
    return Settings(Experiment, parts).build()


@dataclass
class _Screen(Part):
    """All of a page but its sidebar.

    tools : the place beside the title. experiment : what is compared; None while the controls make none. every : the
    same, also with the methods that have no plan. preset : that was picked last. settings : a name for all that is set.
    packed : the stops of the slider that was pressed, if any. ready : what can be run. small, drawings : the plan's
    first two charts, and what makes the others. comparing : the place of what is said while a preset's comparison runs.
    """

    page: FamilyPage
    chosen: _Chosen
    tools: DeltaGenerator
    experiment: Experiment | None = None
    every: Experiment | None = None
    preset: Preset | None = None
    settings: str = ""
    packed: str = ""
    ready: Ready | None = None
    small: Sequence[Chart] = ()
    drawings: Iterator[Chart] = field(default_factory=lambda: iter(()))
    comparing: DeltaGenerator | None = None

    def draw(self) -> None:
        """As `Part`."""
        pins.arrive(self.panel, self.page.knows)
        shown = self._controls()
        foot = self._picture(shown)
        components.stops(self.panel.key("stops"), self.panel.page, self.settings, self.packed)
        with st.container():
            self._below(shown)
        _Sections(self.page, self, shown).show()
        with foot:
            self._link()

    def _controls(self) -> PlanView | None:
        """Draw the numbers above the picture, with a line on what they are about, and the menu of presets. The plan of
        what they make, if they make one."""
        page, panel, chosen, shown = self.page, self.panel, self.chosen, None
        self.draw_leads(all_read=chosen.error is not None)
        self.experiment, self.every, self.packed = None, None, ""
        with st.container(), in_place():
            self.experiment = self.every = chosen.experiment(panel)
            self._stops(self.experiment)
            shown = None if self.experiment is None else page.view(self.experiment)
        preset_menu.applied(panel)
        if not self.again:
            panel.say_unread()
        with self.tools:
            self.preset = preset_menu.menu(panel, page.presets, self.experiment)
        if shown is not None:
            self.experiment = shown.experiment  # without the methods that have no plan
            self.drawings = plan.kept(shown, page.drawings(shown))
            self.small = [*islice(self.drawings, len(SMALL))]
        with st.container(key=panel.key("note"), horizontal=True, vertical_alignment="center"):
            if not screen.narrow():
                self._note(shown)
            if not self.uploaded and (own_file := page.problems.own_file):
                st.button(
                    "Use your own file",
                    key=panel.key("own_file"),
                    icon=":material/upload_file:",
                    type="tertiary",
                    on_click=panel.write,
                    args=(own_file,),
                )
        return shown

    def _stops(self, experiment: Experiment | None) -> None:
        """Name the settings and, where a slider above the picture was pressed, pack all its stops for the browser."""
        name, points = st.session_state.pop(self.panel.key("pressed"), ("", ()))
        if lead := next((lead for lead in self.panel.leads if lead.name == name), None):
            experiments: list[Experiment | None] = []
            value = lead.value
            for point in points:
                lead.into[lead.control.name] = point
                experiments.append(None)
                with suppress(UserError):
                    experiments[-1] = self.chosen.experiment(self.panel)
            lead.into[lead.control.name] = value
            keys = [self.panel.key(f"hero_{chart}") for chart in SMALL]
            slider = self.panel.key(f"{name}_slider")
            self.packed = plan.stops(slider, experiments, keys, self.page.predict, self.page.drawings)
        self.settings = plan.name(experiment)

    def _note(self, shown: PlanView | None) -> None:
        """What the numbers above the picture are about, and what stands in place of one that is not there."""
        without = next((group.without for group in self.page.groups if group.without), "")
        st.caption(f"{'' if shown is None else self.page.note(shown)} {without}")

    @property
    def uploaded(self) -> bool:
        """Whether the data are a visitor's own file."""
        return self.chosen.source is not None and self.chosen.source.uploaded

    def _picture(self, shown: PlanView | None) -> DeltaGenerator:
        """The live picture with its number, the plan's charts beside it, Run and Stop, and the guarantee below them;
        the place behind that. Runs on public data start by themselves when the settings have settled."""
        page, panel, source, ready = self.page, self.panel, self.chosen.source, None
        if shown is not None and source is not None:
            ready = Ready(shown.experiment, shown.plans, source.tables)
        run_panel.settled(panel.page, None if ready is None else ready.without_tables())
        leads = components.Leads(panel.lead_texts(), self.settings)
        picture, beside = st.columns([62, 38], gap="medium")
        with beside:
            for name, chart in zip(SMALL, self.small if shown else (), strict=False):
                key = panel.key(f"hero_{name}")
                handles = panel.handles(key) if name == "noise" else None
                charts.alone(chart, key, group=panel.page, leads=leads, handles=handles)
            if shown is not None and (line := page.line(shown)):
                st.caption(line)
            preset_menu.text(panel, self.preset, self.experiment, page.settings_of)
            self.comparing = st.container() if self.preset is not None and self.preset.beside else None
            if self.uploaded:
                results.diagnostics_switch(panel)
        with self.tools:
            own = f"{texts.OWN_FILE}{'' if ready is None else f' Run: {ready.releases}.'}" if self.uploaded else ""
            active = run_panel.bar(panel, page.texts.TITLE, ready, beside, own)
        with picture:
            more = page.more_faces(shown)
            mapped = not self.uploaded and shown is not None and page.mapped(shown)
            face = faces.choose(panel, shown, self.uploaded, mapped, tuple(more))
            run_panel.rest(page.family if face == faces.BUDGET else "")
            draw, other = (more[face], None) if face in more else self._drawing(face, ready)
            lacks = file.lacks() if self.uploaded else ()
            frame = hero.Frame(ready, self.uploaded, page.texts.TITLE, lacks, leads, face, face in more, other)
            hero.picture(panel, active, pins.beneath(panel, draw, self.preset), page.number, frame)
        foot = st.container(key=panel.key("foot"), horizontal=True, vertical_alignment="center", gap="small")
        with foot:
            if shown is not None:
                guarantee.sentence(shown.experiment, shown.plans, panel.key("guarantee"))
            pins.button(panel, draw, page.knows)
            links.back_to_lesson()
        self.ready = ready
        return foot

    def _drawing(self, face: str, ready: Ready | None) -> tuple[hero.Drawn, Callable[[], hero.Face] | None]:
        """Return what draws the run of the page with a usual face; or what makes a picture of another kind."""
        page, panel = self.page, self.panel
        if face == faces.BUDGET:
            return page.picture, partial(faces.along_budget, panel, page, ready, self.every)
        if face == faces.CLOUD:
            return page.picture, partial(self._cloud, ready)
        return (page.along_steps if face == faces.STEPS else page.picture), None

    def _cloud(self, ready: Ready | None) -> hero.Face:
        """The runs that have ended as moving points."""
        page, run = self.page, run_panel.shown(self.panel.page)
        trace = None if run is None or not run.returns else run.job.trace

        def draw() -> None:
            if run is None or trace is None:
                with hero.blank():
                    st.markdown(texts.CLOUD_WAITS)
            elif not cloud.show(self.panel, run, trace, page.options(page.view(run.experiment)).currency, page.scenery):
                st.caption(texts.NO_PLANE)

        return hero.Face(trace is not None and run is not None and not freshness.belongs(ready, run.job), draw)

    def _below(self, shown: PlanView | None) -> None:
        """What is left out and why, what a run takes that takes long, and the pins."""
        if screen.narrow():  # there the picture is nearer to the controls without it
            self._note(shown)
        if shown is not None:
            plan.refusals(shown.refused)
        if self.ready is not None:
            run_panel.refusal(self.ready)
        page = self.page
        pins.show(self.panel, page.texts.TITLE, self.experiment, page.picture, page.ready)
        if self.preset is not None and self.comparing is not None:
            with self.comparing:
                pins.compare(self.panel, page.texts.TITLE, self.preset, page.picture, page.ready)

    def _link(self) -> None:
        """The address that restores the page; complete when all controls have been drawn."""
        own = None if self.experiment is None or self.experiment.public else self.experiment.problem
        read = () if own is None else own.read_by_itself
        links.show(self.panel, preset_menu.restoring(self.panel, self.page.presets, self.page.settings_of), read)


@dataclass
class _Sections:
    """What stands below the first screen, one section at a time.

    shown : the plan; None while the settings make none. drawn : the charts of the results, once they were drawn.
    """

    page: FamilyPage
    screen: _Screen
    shown: PlanView | None
    drawn: Shown | None = None

    def show(self) -> None:
        """The bar, and what is open."""
        parts: dict[str, Callable[[], Any]] = {
            sections.PLAN: self.plan,
            sections.RESULTS: self.results,
            sections.SWEEP: self.sweep,
            sections.CHECK: self.check,
            sections.TAKE_AWAY: self.take_away,
            sections.BACKGROUND: self.background,
        }
        if self.shown is None:
            parts |= dict.fromkeys((sections.PLAN, sections.SWEEP, sections.CHECK), lambda: st.caption(texts.NO_PLAN))
        self.screen.panel.sections(parts)

    def plan(self) -> None:
        """What the settings buy: cards, figures and closer looks, of which only the open one is computed."""
        assert self.shown is not None
        panel, delta = self.screen.panel, self.screen.chosen.delta
        plan.notes(self.shown.plans)
        guarantee.line(self.shown.experiment, self.shown.plans, delta, self.page.card)
        self.page.advice(self.shown)
        looks = plan.tabs(self.screen.small, self.screen.drawings, panel.key("chart_plan"))
        looks |= self.page.looks(panel, self.shown, delta)
        tabs = st.tabs(list(looks), key=panel.key("tabs"), on_change="rerun")
        for tab, look in zip(tabs, looks.values(), strict=True):
            if tab.open:
                with tab:
                    look()

    def sweep(self) -> None:
        """How the methods compare as one setting changes, or two."""
        assert self.shown is not None
        tables = self.screen.chosen.source.tables if self.screen.chosen.source is not None else {}
        diagnostics = results.diagnostics_shown(self.screen.panel, self.shown.experiment)
        sweep_tab.show(self.screen.panel, self.page.texts.TITLE, self.shown.experiment, tables, diagnostics)

    def check(self) -> None:
        """Audits of these methods."""
        assert self.shown is not None
        sections.check(self.page.family, self.page.texts.TITLE, self.shown.experiment)

    def results(self) -> None:
        """What the last run brought."""
        if (ended := self._ended()) is None:
            st.caption(texts.NO_RUN)
            return
        page, panel, (run, trace, done) = self.page, self.screen.panel, ended
        diagnostics = results.diagnostics_shown(panel, run.experiment)
        run_panel.changed(page.prefix)
        page.summary(panel, run, trace)
        results.hidden(panel, run.experiment)
        self.drawn = results.curves(panel, run, trace, page.options(done))
        self.drawn += page.extra(panel, run, trace, diagnostics)
        results.table(run, trace, self._delta(run))
        results.publishing_line(run, trace, self._delta(run))
        page.verdict(run, trace, diagnostics)

    def take_away(self) -> None:
        """Files."""
        page, experiment = self.page, self.screen.experiment
        if (ended := self._ended()) is not None and self.drawn is None:
            unseen = st.empty()  # their charts are made where they are drawn
            with unseen.container():
                self.results()
            unseen.empty()
        with st.container(horizontal=True):
            if experiment is not None:
                downloads.programs(page.prefix, experiment)
            if ended is not None:
                (run, trace, done), drawn = ended, self.drawn or []
                downloads.run_files(
                    page.prefix,
                    run.experiment,
                    run.plans,
                    trace,
                    self._delta(run),
                    charts=lambda: [*page.drawings(done), *drawn],
                )

    def background(self) -> None:
        """What is behind it all: the method in words, assumptions, errata, and the family's theory."""
        page = self.page
        preset_menu.story(self.screen.panel, page.presets)
        with st.expander("About this method", icon=":material/menu_book:"):
            st.markdown(explain.document(page.package, "about.md"))
            st.caption(page.texts.NOT_COVERED)
        if self.shown is not None:
            page.assumptions(self.shown)
        if errata := explain.errata(page.package):
            with st.expander("Where this tool and the paper differ", icon=":material/rule:"):
                st.markdown(errata)
        explain.theory(page.prefix, page.package)

    def _ended(self) -> tuple[Run, Trace, PlanView] | None:
        """The run whose results are shown, what may be seen of it, and its plan."""
        run = run_panel.shown(self.page.prefix)
        if run is None or run.job.trace is None or (self.screen.uploaded and run.returns):
            return None  # nothing of the demonstration stands below a file
        diagnostics = results.diagnostics_shown(self.screen.panel, run.experiment)
        return run, run.job.trace.visible(diagnostics), self.page.view(run.experiment)

    def _delta(self, run: Run) -> float:
        return run.experiment.budget.own_delta(self.screen.chosen.delta)
