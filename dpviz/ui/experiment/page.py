"""A family's page: choose, plan, run, show, written once. A family describes itself and hooks in what only it has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.preset import Preset
from dpviz.experiments.trace import Trace
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.ui import downloads, explain, glossary, links
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment import cloud, controls, guarantee, hero, pins, plan, results, sweep_tab
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.controls import EVERY, Catalogue, Chosen, Group, Offer
from dpviz.ui.experiment.plan import Drawing, PlanView, Predict, Shown
from dpviz.ui.experiment.results import Options
from dpviz.ui.experiment.run import Ready, Run

NOT_READY = "The plan and the run follow as soon as your table is ready."


class Source(Protocol):
    """What a family's data controls chose."""

    @property
    def uploaded(self) -> bool:
        """Whether it is the visitor's own file."""

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        """The file's arrays."""

    @property
    def leads(self) -> bool:
        """Whether one of the data controls took the place of the steps above the picture."""


class Texts(Protocol):
    """The words of a page, as its family's `texts.py` has them."""

    TITLE: str
    QUESTION: str
    NOT_COVERED: str


def _nothing(*_: Any) -> None:
    """A family that has nothing to add here."""


def _every(*_: Any) -> Offer:
    """All methods go with all data."""
    return EVERY


def _all(names: Sequence[str], *_: Any) -> Sequence[str]:
    """Every setting means something."""
    return names


def _no_looks(*_: Any) -> Mapping[str, Callable[[], None]]:
    """The plan alone."""
    return {}


def _room(method: type[AnyAlgorithm]) -> str:
    """The family that a method is of, as its kind says."""
    return method.kind.rpartition(".")[0]


def _no_pictures(*_: Any) -> Shown:
    """Curves alone."""
    return []


@dataclass(frozen=True, kw_only=True)
class FamilyPage:
    """A family's page describes itself.

    prefix : of all keys and addresses. package : the family's, whose about.md and THEORY.md the page shows.
    catalogue, presets, groups : the methods, the named experiments, and how the methods' settings are grouped.
    references : what the non-private references are, in a sentence; empty if there are none.
    currency, at_first : of the budget, and the numbers in which it, or the repeats, differ from the usual at first:
    "epsilon", "delta", "replicates".

    Hooks, in the order of their calls:
    choose : data controls; `(panel, place for an upload, place for a leading control)`.
    offer : which methods go with these data. applicable : which settings mean something for data and currency.
    build : the last controls and the problem; None while there are no data. settings_of : its inverse.
    predict : what theory says of the plans. card : one number of a plan's noise, above the tabs. advice : a hint.
    noise : the plan's first figure, which also stands beside the live picture. drawings : the others; alts : the text
    alternatives of them all.
    looks : closer looks, by the title of their tab. note : the size of the data in a line below the settings.
    assumptions : the box of assumptions.
    picture, number : the live picture, and the one number beside it.
    options : how a run's curves are drawn. summary, extra, verdict : what comes before the curves, after, and last.
    scenery : what is known of the plane in which the runs of a problem that has one are shown.
    """

    prefix: str
    package: ModuleType
    texts: Texts
    catalogue: Catalogue
    presets: Sequence[Preset]
    groups: Sequence[Group]
    choose: Callable[[Panel, DeltaGenerator, DeltaGenerator], Any]
    build: Callable[[Panel, Any, Settings[Budget], int | None], ProblemSpecification | None]
    settings_of: Callable[[ProblemSpecification], Mapping[str, Any]]
    references: str = "Each update rule once more, without noise: no privacy."
    data_heading: str = "Data"
    currency: str = "pure"
    at_first: Mapping[str, float] = field(default_factory=dict)
    offer: Callable[[Any], Offer] = _every
    offer_of: Callable[[ProblemSpecification], Offer] = _every
    applicable: Callable[[Sequence[str], Any, type[Budget]], Sequence[str]] = _all
    predict: Predict = _nothing
    card: Callable[[str, Plan], guarantee.Card] = guarantee.noise_card
    advice: Callable[[PlanView], None] = _nothing
    noise: Callable[[PlanView], Drawing] = plan.noise
    drawings: Callable[[PlanView], Shown] = plan.drawings
    alts: Sequence[str] = plan.ALTS
    looks: Callable[[Panel, PlanView, float], Mapping[str, Callable[[], None]]] = _no_looks
    note: Callable[[PlanView], str] = plan.size
    assumptions: Callable[[PlanView], None] = _nothing
    picture: hero.Drawn = hero.curves
    number: hero.Told = hero.lowest
    options: Callable[[PlanView], Options] = results.plain_options
    summary: Callable[[Panel, Run, Trace], None] = _nothing
    extra: Callable[[Panel, Run, Trace, bool], Shown] = _no_pictures
    verdict: Callable[[Run, Trace, bool], None] = _nothing
    scenery: cloud.PlaneView = field(default_factory=cloud.PlaneView)

    def view(self, experiment: Experiment) -> PlanView:
        """The plans of an experiment and what theory says of them, cached. Raises UserError if no arm has a plan."""
        return plan.view(experiment.to_json(), self.predict)

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
        offer = self.offer_of(experiment.problem)
        return controls.settings_of(experiment, self.catalogue, offer.name) | dict(self.settings_of(experiment.problem))


@dataclass
class _Chosen:
    """What the controls say; without an experiment while they do not make one.

    noise : the plan's first figure, drawn once for both of its places.
    """

    panel: Panel
    source: Source | None = None
    experiment: Experiment | None = None
    delta: float = guarantee.DELTA
    size: DeltaGenerator | None = None
    noise: Drawing | None = None


@dataclass(frozen=True)
class _Places:
    """The places of a page, from top to bottom, reserved before anything is drawn."""

    first: DeltaGenerator
    second: DeltaGenerator
    bar: DeltaGenerator
    messages: DeltaGenerator
    picture: DeltaGenerator
    number: DeltaGenerator
    pins: DeltaGenerator
    line: DeltaGenerator
    advice: DeltaGenerator
    preset: DeltaGenerator
    plan: DeltaGenerator


def show(page: FamilyPage) -> None:
    """Draw the page."""
    panel = Panel(page.prefix)
    preset_menu.arrive(panel, page.presets)
    preset_menu.apply_pending(panel, page.settings)
    pins.arrive(panel, page.knows)
    places = _reserve(page)
    begun = run_panel.begun(panel.page)
    if begun:  # what was asked for comes first: the rest of the page is as it was
        with places.picture:
            hero.picture(panel, True, pins.beneath(panel, page.picture))
    chosen = _choose(page, panel, places)
    shown = _plan(page, chosen, places)
    _run(page, chosen, shown, places, begun)
    _results(page, chosen)
    _closing(page, shown)


def _reserve(page: FamilyPage) -> _Places:
    st.title(page.texts.TITLE, anchor=False)
    st.markdown(page.texts.QUESTION)
    first, second, bar = st.columns([4, 4, 3], gap="medium", vertical_alignment="bottom")
    messages = st.container()
    picture, number = st.columns([7, 4], gap="medium")
    return _Places(first, second, bar, messages, picture, number, *(st.container() for _ in range(5)))


def _choose(page: FamilyPage, panel: Panel, places: _Places) -> _Chosen:
    """Draw all controls, in the sidebar and above the picture."""
    chosen, preset = _Chosen(panel), None
    with st.sidebar:
        menu = st.container()
        with in_place(places.messages):
            st.subheader(page.data_heading, anchor=False)
            chosen.source = source = page.choose(panel, places.messages, places.second)
            st.subheader("Privacy", anchor=False)
            budget = controls.budget(panel, page.currency, page.at_first, lead=places.first)
            chosen.delta = guarantee.delta(panel, budget)
            st.subheader("Methods", anchor=False)
            offer = page.offer(source)
            labels = controls.methods(panel, page.catalogue, offer)
            references = bool(page.references) and controls.references(panel, page.references)
            st.subheader("Settings", anchor=False)
            settings, chosen.size = controls.grouped(
                panel,
                page.catalogue,
                page.groups,
                methods=labels or offer.methods,
                applicable_names=lambda names: page.applicable(names, source, budget.cls),
                lead=None if source.leads else places.second,
            )
            with st.expander("Repeats and seed"):
                numbers = controls.replicates_and_seed(panel, not source.uploaded, page.at_first)
            problem = page.build(panel, source, budget, numbers["seed"])
            arms = Chosen(labels, references, settings).arms(page.catalogue)
            if problem is not None:
                parts = {"problem": problem, "arms": arms, "budget": budget.build(), **numbers}
                chosen.experiment = Settings(Experiment, parts).build()
        preset_menu.applied(panel)
        panel.say_unread()
        with menu:
            preset = preset_menu.menu(panel, page.presets, chosen.experiment)
    with places.preset:
        preset_menu.sentence(panel, preset, chosen.experiment, page.settings)
    return chosen


def _plan(page: FamilyPage, chosen: _Chosen, places: _Places) -> PlanView | None:
    """What the settings buy: the guarantee in a line, then cards, figures and closer looks."""
    if chosen.experiment is None:
        if chosen.source is not None and chosen.source.uploaded:
            places.plan.info(NOT_READY, icon=":material/upload_file:")
        return None
    shown: PlanView | None = None
    with in_place(places.messages):
        shown = page.view(chosen.experiment)
    if shown is None:
        chosen.experiment = None
        return None
    chosen.experiment = shown.experiment  # without the methods that have no plan
    chosen.noise = noise = page.noise(shown)
    with places.line, st.container(horizontal=True, vertical_alignment="center"):
        guarantee.sentence(shown.experiment, shown.plans)
        glossary.words(chosen.panel.key("words"))
    with places.advice:
        page.advice(shown)
    with places.plan:
        plan.refusals(shown.refused)
        plan.notes(shown.plans)
        st.header("Plan", anchor=False)
        guarantee.line(shown.experiment, shown.plans, chosen.delta, page.card)
        _looks(page, chosen, shown, noise)
    if chosen.size is not None:
        chosen.size.caption(page.note(shown))
    return shown


def _looks(page: FamilyPage, chosen: _Chosen, shown: PlanView, noise: Drawing) -> None:
    """The plan's figures in the first tab, a sweep and the closer looks beside it; only the open one is computed."""
    panel = chosen.panel
    looks: dict[str, Callable[[], None]] = {
        "Plan": lambda: plan.draw([noise, *page.drawings(shown)], page.alts, panel.key("chart_plan")),
        sweep_tab.TITLE: lambda: _sweep(page, chosen, shown),
        **page.looks(panel, shown, chosen.delta),
    }
    for tab, look in zip(st.tabs(list(looks), key=panel.key("tabs"), on_change="rerun"), looks.values(), strict=True):
        if tab.open:
            with tab:
                look()


def _sweep(page: FamilyPage, chosen: _Chosen, shown: PlanView) -> None:
    """How the methods compare as one setting changes, or two."""
    tables = chosen.source.tables if chosen.source is not None else {}
    diagnostics = results.diagnostics_shown(chosen.panel, shown.experiment)
    sweep_tab.show(chosen.panel, page.texts.TITLE, shown.experiment, tables, diagnostics)


def _run(page: FamilyPage, chosen: _Chosen, shown: PlanView | None, places: _Places, pictured: bool) -> None:
    """Run, Stop and the live picture; runs on public data start by themselves when the settings have settled.

    pictured : whether the picture has been drawn.
    """
    panel, ready = chosen.panel, None
    if shown is not None and chosen.source is not None:
        ready = Ready(shown.experiment, shown.plans, chosen.source.tables)
    with places.bar:
        active = run_panel.bar(panel, page.texts.TITLE, ready)
    with places.picture:
        if not pictured:
            hero.picture(panel, active, pins.beneath(panel, page.picture))
        if ready is not None:
            run_panel.forecast(panel, ready)
    with places.number:
        hero.number(panel, chosen.noise, page.number)
        pins.button(panel, page.picture, page.knows)
    with places.pins:
        pins.show(panel, page.texts.TITLE, chosen.experiment, page.picture, page.ready)


def _results(page: FamilyPage, chosen: _Chosen) -> None:
    """What the last run brought, and what of this page can be taken away."""
    panel, prefix = chosen.panel, page.prefix
    run, trace = run_panel.shown(prefix), None
    if run is not None and run.job.trace is not None:
        run_panel.changed(prefix, chosen.experiment)
        st.header("Results", anchor=False)
        diagnostics = results.diagnostics_shown(panel, run.experiment)
        delta = run.experiment.budget.own_delta(chosen.delta)
        done, trace = page.view(run.experiment), run.job.trace.visible(diagnostics)
        page.summary(panel, run, trace)
        results.diagnostics_switch(panel, run.experiment)
        options = page.options(done)
        drawn = results.curves(panel, run, trace, options)
        cloud.show(panel, run, trace, options.currency, page.scenery)
        drawn += page.extra(panel, run, trace, diagnostics)
        results.table(run, trace, delta)
        results.publishing_line(run, trace, delta)
        page.verdict(run, trace, diagnostics)
    with st.container(horizontal=True):
        own = None if chosen.experiment is None or chosen.experiment.public else chosen.experiment.problem
        read = () if own is None else own.read_by_itself
        links.show(panel, preset_menu.restoring(panel, page.presets, page.settings), read)
        if chosen.experiment is not None:
            downloads.script(prefix, chosen.experiment)
            downloads.notebook(prefix, chosen.experiment)
            downloads.settings(prefix, chosen.experiment)
        if run is not None and trace is not None:
            downloads.run_files(
                prefix,
                run.experiment,
                run.plans,
                trace,
                delta,
                figures=lambda: [page.noise(done), *page.drawings(done), *drawn],
            )


def _closing(page: FamilyPage, shown: PlanView | None) -> None:
    """What is behind it all: the method in words, assumptions, errata, and the family's theory."""
    with st.expander("About this method", icon=":material/menu_book:"):
        st.markdown(explain.document(page.package, "about.md"))
        st.caption(page.texts.NOT_COVERED)
    if shown is not None:
        page.assumptions(shown)
    if errata := explain.errata(page.package):
        with st.expander("Where this tool and the paper differ", icon=":material/rule:"):
            st.markdown(errata)
    explain.theory(page.prefix, page.package)
