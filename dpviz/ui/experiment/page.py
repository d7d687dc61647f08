"""The page of a family of methods: sidebar, plan, live picture, results.

It is written here once for all families. Each family subclasses `FamilyPage` and overrides the methods in which its
page differs; `show` draws the page of an instance.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.preset import Preset
from dpviz.experiments.trace import Trace
from dpviz.plots.clouds import Ground
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.ui import appearance, charts, components, downloads, explain, glossary, links
from dpviz.ui.controls import PageBody, Panel, Settings, draw_errors
from dpviz.ui.experiment import controls, faces, guarantee, hero, pins, plan, results, sections, texts
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.controls import ALL_METHODS, Catalogue, ChosenMethods, Group, Offer
from dpviz.ui.experiment.plan import Charts, PlanView
from dpviz.ui.experiment.problem_menu import ProblemMenu, Selection
from dpviz.ui.experiment.results import CurveOptions
from dpviz.ui.experiment.run import MakeChart, Run, StartableExperiment
from dpviz.ui.uploads import file

LEADS = 4  # number of controls above the picture, including that of the budget
SMALL_CHARTS = "noise", "privacy"  # names, in the charts' keys, of the plan's two charts next to the live picture


def _family_of(method: type[AnyAlgorithm]) -> str:
    """Return the family of a method, with which its registered kind, "<family>.<name>", begins."""
    return method.kind.rpartition(".")[0]


class FamilyPage:
    """The page of a family. A subclass sets the attributes, and overrides the methods from `offer` to `draw_verdict`
    where its page differs: those called `draw_…` draw on the page, the others return what the page draws.

    prefix : beginning of all session keys and address parameters of the page. package : the package of the family, with
    about.md, THEORY.md, `texts` (the words of the page) and `presets` (its methods and named experiments).
    groups : groups of the methods' settings in the sidebar; from `groups.toml` next to the subclass if empty.
    problems : the menu of problems and their data. data_heading : the heading above it.
    references : a sentence that says what the non-private references are; "" if there are none.
    currency : the kind of budget that is selected at first, a key of `controls.CURRENCIES`. at_first : first values
    that differ from the usual ones, of the settings "epsilon", "delta", "mu" and "replicates".
    by_name : settings whose value the label of a method can imply. default_methods : labels selected at first; all if
    empty. full_names : the full name of a method, by label.
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
    full_names: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        subclass_package, _, _ = type(self).__module__.rpartition(".")
        if not self.groups:
            declared_groups = resources.data(subclass_package, "groups.toml")["group"]
            self.groups = tuple(Group(**group) for group in declared_groups)
        # TITLE of the page; QUESTION that it answers; NOT_COVERED: what of the paper it leaves out.
        self.texts = resources.Texts(self.package.__name__)
        # Imported by name, since only the subclass knows its package.
        presets = import_module(f"{self.package.__name__}.presets")
        default_methods = self.default_methods or tuple(presets.METHODS)
        self.catalogue = Catalogue(
            presets.METHODS, presets.arms, default_methods, by_name=self.by_name, full_names=self.full_names
        )
        self.presets: Sequence[Preset] = presets.PRESETS
        self._settings: dict[str, Mapping[str, Any]] = {}  # a cache for `settings_of`

    @property
    def title(self) -> str:
        """Name of the page in the menu."""
        return self.texts.TITLE

    @property
    def family(self) -> str:
        """Name of the family's package, and of the page's address."""
        return self.package.__name__.rpartition(".")[2]  # without "dpviz.families."

    # ----------------------------------------------------------------------------------------------------- the sidebar

    def offer(self, _problem: type[ProblemSpecification], /) -> Offer:
        """Return the methods that the page offers for a kind of problem: all, unless a family leaves some out."""
        return ALL_METHODS

    def applicable(
        self, names: Sequence[str], _problem: type[ProblemSpecification], _currency: type[Budget], /
    ) -> Sequence[str]:
        """Return those of the settings `names` that mean something for a kind of problem and a kind of budget.

        The sidebar draws controls for these only.
        """
        return names

    # ---------------------------------------------------------------------------------------------------- before a run

    def predict(self, _experiment: Experiment, _plans: Mapping[str, Plan], /) -> Any:
        """Return the predictions of the family's theory about the plans (by label), in a type of the family's own.

        They become the property `theory` of the `PlanView` that the other methods get. By default there are none.
        """

    def size_note(self, view: PlanView, /) -> str:
        """Return the line below the sliders, on the size of the data."""
        first_plan, *_ = view.plans.values()
        return f"n = {first_plan.facts.n:,} rows."  # the same for all plans

    def plan_charts(self, view: PlanView, /) -> Iterator[Chart]:
        """Yield the charts of the plan. The first two, of noise and privacy spent, are also next to the live picture.

        A generator, since the others are computed only when their tab is open.
        """
        return plan.basic_charts(view)

    def chart_note(self, _view: PlanView, /) -> str:
        """Return the line below the two charts next to the live picture; "" for none."""
        return ""

    def noise_card(self, label: str, plan: Plan, /) -> guarantee.Card:
        """Return a card with one number about the noise of the plan of the method with this label."""
        return guarantee.noise_card(label, plan)

    def draw_advice(self, view: PlanView, /) -> None:
        """Draw advice about the settings, above the charts of the plan. By default there is none."""

    def closer_looks(self, _panel: Panel, _view: PlanView, _delta: float, /) -> Mapping[str, Callable[[], None]]:
        """Return functions that draw closer looks at the plan, each in a tab of its own, by the title of the tab.

        By default there are none. The last argument is the δ at which guarantees are read as (ε, δ).
        """
        return {}

    def draw_assumptions(self, view: PlanView, /) -> None:
        """Draw the box of the assumptions on which guarantee and theory rest. By default there is none."""

    # ----------------------------------------------------------------------------------------------------- during a run

    def picture(self, run: Run, diagnostics: bool, /) -> Chart | None:
        """Return the live picture of a run; None before the first record, and where nothing may be shown.

        diagnostics : true if the picture may show values that read the raw data.
        """
        if diagnostics and run.job.trace is not None and self.has_map(run):
            return self.landscape(run, run.job.trace)
        return self.curves(run, diagnostics)

    def has_map(self, _planned: PlanView | Run, /) -> bool:
        """Return true if the live picture is a map, with a dot for every run, instead of curves along the steps."""
        return False

    def landscape(self, _run: Run, _trace: Trace, /) -> Chart | None:
        """Return the map of a run, with a dot for every repeat; None before the first step."""

    def curves(self, run: Run, diagnostics: bool, /) -> Chart | None:
        """Return the curves along the steps, which the visitor can choose where the live picture is a map."""
        return hero.curves(run, diagnostics)

    def more_faces(self, _view: PlanView | None, /) -> Mapping[str, MakeChart]:
        """Return functions that draw further pictures of a run, by the title under which the visitor chooses them.

        The argument is None while the settings make no plan.
        """
        return {}

    def headline(self, run: Run, trace: Trace, /) -> hero.Headline | None:
        """Return the number above the live picture, and what it means; None before there is one."""
        return hero.lowest_headline(run, trace)

    def ground(self, _run: Run, _x: FixedAxis, _y: FixedAxis, /) -> Ground | None:
        """Return the objective as a map on which a run's replicates move as points; None where it cannot be drawn.

        x, y : the axes that show all points. A map over another part of the plane replaces them by its own.
        """
        return None

    def region(self, _run: Run, _arm: Arm, /) -> tuple[np.ndarray, np.ndarray] | None:
        """Return centres (T+1, 2) and half axes (T+1, 2) of ellipses that by theory hold about 90 % of an arm's runs
        after t = 0..T steps; None where there is no such theory."""
        return None

    # ------------------------------------------------------------------------------------------------------ after a run

    def curve_options(self, _view: PlanView, /) -> CurveOptions:
        """Return options for the curves under Results: the second metric that is drawn, and lines of theory."""
        return CurveOptions()

    def draw_release(self, panel: Panel, run: Run, trace: Trace, /) -> None:
        """Draw the first results, above the curves, such as the model released from a user's file.

        By default there are none. trace : the records of the run that may be shown, here and in the methods below.
        """

    def draw_results(self, _panel: Panel, _run: Run, _trace: Trace, _diagnostics: bool, /) -> Charts:
        """Draw results below the curves; return their charts, for the download. By default there are none."""
        return []

    def draw_verdict(self, run: Run, trace: Trace, diagnostics: bool, /) -> None:
        """Draw the last results: findings about the run as a whole. By default there are none."""

    # -------------------------------------------------------------------------------------------------------- all pages

    def view(self, experiment: Experiment) -> PlanView:
        """Return the plans of an experiment with the predictions of theory, cached.

        Raises UserError if no arm has a plan.
        """
        return plan.view(experiment, self.predict)

    def ready(self, experiment: Experiment) -> StartableExperiment:
        """Return the experiment of a pin with its plans, ready to run. Raises UserError if no arm has a plan.

        The data must be public: pins run without a click, which a release of a file's rows would need.
        """
        view = self.view(experiment)
        return StartableExperiment(view.experiment, view.plans)

    def can_express(self, experiment: Experiment) -> bool:
        """Return true if an experiment has a method of this page, and none of another family.

        References need not be methods of the page.
        """
        page_methods = {type(method) for method in self.catalogue.methods.values()}
        methods = {type(arm.algorithm) for arm in experiment.arms}
        has_page_method = bool(methods & page_methods)
        return has_page_method and set(map(_family_of, methods)) == set(map(_family_of, page_methods))

    def settings(self, experiment: Experiment) -> dict[str, Any]:
        """Return the values of the controls that rebuild an experiment, by name.

        Raises ValueError for an experiment that the page cannot express.
        """
        offer = self.offer(type(experiment.problem))
        values = controls.settings_of(experiment, self.catalogue, methods_control=offer.name)
        return values | self.problems.settings_of(experiment.problem)

    def settings_of(self, preset: Preset) -> Mapping[str, Any]:
        """Return the values of the controls that rebuild a preset, by control; cached by the preset's name."""
        if preset.name not in self._settings:
            self._settings[preset.name] = self.settings(preset.experiment)
        return self._settings[preset.name]


@dataclass
class _Sidebar:
    """Choices in the sidebar.

    source : the problem and where its data come from; None if a mistake ended the sidebar before. build : returns the
    experiment of the choices and of the present values of the sliders above the picture; None while there are no data.
    delta : δ at which guarantees are read as (ε, δ). error : the mistake in the controls, if there is one. It is raised
    later, by `experiment`, so that its message is drawn on the page and not in the sidebar.
    """

    source: Selection | None = None
    build: Callable[[], Experiment] | None = None
    delta: float = guarantee.DELTA
    error: UserError | None = None

    def experiment(self, panel: Panel) -> Experiment | None:
        """Return the experiment; None while there are no data. Raises UserError for a mistake in the controls."""
        if self.error is not None:
            raise self.error
        panel.check()  # raises the error of a number that is out of range
        return None if self.build is None else self.build()


def show(page: FamilyPage) -> None:
    """Draw the page: the sidebar, and all below the title as a fragment, which a moved slider draws again alone."""
    key, panel = page.prefix, Panel(page.prefix)
    preset_menu.read_address(panel, page.presets)
    preset_menu.apply_pending(panel, page.settings)  # before the controls, whose values it sets
    st.title(page.title, anchor=False)
    st.markdown(page.texts.QUESTION)
    tools = st.container(key=f"{key}_tools", horizontal=True, vertical_alignment="center")
    sidebar = _draw_sidebar(page, panel, st.container())
    _Screen(panel, page, sidebar, tools).show()
    with tools:
        glossary.mark_terms(panel.key("words"))  # last, as it marks terms in all that the page has


def _draw_sidebar(page: FamilyPage, panel: Panel, uploads: DeltaGenerator) -> _Sidebar:
    """Draw the controls in the sidebar; return the choices.

    uploads : container on the page, in which the panel of a user's own file is drawn.
    """
    sidebar = _Sidebar()
    with st.sidebar:
        try:
            st.subheader(page.data_heading, anchor=False)
            sidebar.source = source = page.problems.choose(panel, uploads, lead=LEADS - 1)  # lead: the last column
            st.subheader("Privacy", anchor=False)
            budget = controls.budget(panel, default=page.currency, at_first=page.at_first)
            sidebar.delta = guarantee.delta(panel, budget)
            st.subheader("Methods", anchor=False)
            offer = page.offer(source.kind)
            labels = controls.methods(panel, page.catalogue, offer)
            references = bool(page.references) and panel.switch(
                "references", "Add non-private references", default=True, help=page.references
            )
            st.subheader("Settings", anchor=False)
            settings = controls.choose_settings(
                panel,
                page.catalogue,
                page.groups,
                methods=labels or offer.methods,  # while none is chosen, the settings of all
                applicable_names=lambda names: page.applicable(names, source.kind, budget.cls),
                # Column 0 is the budget's; a control of the data takes the last.
                free_columns=range(1, LEADS - 1 if source.has_leading else LEADS),
            )
            with st.expander("Repeats and seed"):
                numbers = controls.replicates_and_seed(panel, public=not source.uploaded, at_first=page.at_first)
            # A fact of a file is released without a seed, whose noise could be known: the fact stays in use after a
            # fixed seed of the runs was made random again.
            problem = page.problems.build(panel, source, budget, None if source.uploaded else numbers["seed"])
            if problem is not None:  # else a visitor's file is not ready
                methods = ChosenMethods(labels, references, settings)
                sidebar.build = partial(_build, page, problem, methods, budget, numbers)
        except UserError as error:
            sidebar.error = error
        st.button(
            "Reset to defaults",
            key=panel.key("reset"),
            icon=":material/restart_alt:",
            on_click=preset_menu.set_pending,
            args=(page.prefix, page.presets[0].experiment),  # the defaults of a page are its first preset
        )
    return sidebar


def _build(
    page: FamilyPage,
    problem: Callable[[], ProblemSpecification],
    methods: ChosenMethods,
    budget: Settings[Budget],
    numbers: Mapping[str, Any],
) -> Experiment:
    """Return the experiment of all settings. Raises UserError for settings that do not go together.

    problem : builds the problem. numbers : the experiment's replicates and seed, by name of the field.
    """
    fields = {"problem": problem(), "arms": methods.arms(page.catalogue), "budget": budget.build(), **numbers}
    return Settings(Experiment, fields).build()


@dataclass
class _Screen(PageBody):
    """All of a page but its sidebar, whose controls are in `sidebar_panel` and, with those drawn here, in `panel`: see
    `PageBody`.

    tools : container below the title. `draw` sets the other fields anew each time:
    experiment : the experiment without the methods that have no plan; None while the settings make none.
    full_experiment : the same with all methods. preset : the preset that was opened last. settings_id : a text by which
    the browser recognises the settings. packed_stops : the plan's charts at all stops of the slider that was pressed,
    as text for the browser; "" if none was pressed. ready : the experiment with plans and data, to be run.
    small_charts, other_charts : the first two charts of the plan, and an iterator over the others.
    comparison_state : container for the state of the runs that a preset is compared with.
    """

    page: FamilyPage
    sidebar: _Sidebar
    tools: DeltaGenerator
    experiment: Experiment | None = None
    full_experiment: Experiment | None = None
    preset: Preset | None = None
    settings_id: str = ""
    packed_stops: str = ""
    ready: StartableExperiment | None = None
    small_charts: Sequence[Chart] = ()
    other_charts: Iterator[Chart] = field(default_factory=lambda: iter(()))
    comparison_state: DeltaGenerator | None = None

    def draw(self) -> None:
        """Draw the sliders, the live picture with the pins below, the sections, and the link that restores the page."""
        page, panel = self.page, self.panel
        pins.read_address(panel, page.can_express)
        view = self._controls()
        foot = self._picture(view)
        components.stops(panel.key("stops"), group=panel.page, settings=self.settings_id, packed=self.packed_stops)
        with st.container():
            if appearance.is_narrow():  # on a phone, so that the picture is near the sliders
                self._note(view)
            if view is not None:
                plan.show_refusals(view.refused)
            if self.ready is not None:
                run_panel.show_memory_error(self.ready)
            pins.show(panel, page.title, self.experiment, make_chart=page.picture, make_ready=page.ready)
            if self.preset is not None and self.comparison_state is not None:
                with self.comparison_state:
                    pins.compute_comparison(
                        panel, page.title, self.preset, make_chart=page.picture, make_ready=page.ready
                    )
        _Sections(page, self, view).show()
        facts_read: Collection[str] = ()
        if self.experiment is not None and not self.experiment.public:
            facts_read = self.experiment.problem.settings_from_data  # in words, such as "the smoothness L"
        with foot:  # last, as the link holds the values of all controls
            links.show(panel, preset_menu.preset_link(panel, page.presets, page.settings_of), facts_read)

    def _controls(self) -> PlanView | None:
        """Draw the sliders above the picture, a line about the data, and the menu of presets.

        Returns the plan of the settings; None while they make none. A mistake in the settings is drawn as a message.
        """
        page, panel, sidebar, view = self.page, self.panel, self.sidebar, None
        # After a mistake, any moved slider draws the sidebar again: it may mend what ended the sidebar.
        self.draw_leads(all_read=sidebar.error is not None)
        self.experiment, self.full_experiment, self.packed_stops = None, None, ""
        with st.container(), draw_errors():
            self.experiment = self.full_experiment = sidebar.experiment(panel)  # until the plan leaves out methods
            self.settings_id = plan.settings_id(self.experiment)
            self._pack_stops()
            view = None if self.experiment is None else page.view(self.experiment)
        preset_menu.clear_pending(panel)  # all controls that a preset sets are drawn now
        if not self.is_redraw:  # with the whole page, and not again when a slider is moved
            panel.say_unread()  # which parts of the link could not be read
        with self.tools:
            self.preset = preset_menu.menu(panel, page.presets, self.experiment)
        if view is not None:
            self.experiment = view.experiment  # without the methods that have no plan
            self.other_charts = plan.cached_charts(view, page.plan_charts(view))
            self.small_charts = [*islice(self.other_charts, len(SMALL_CHARTS))]
        with st.container(key=panel.key("note"), horizontal=True, vertical_alignment="center"):
            if not appearance.is_narrow():
                self._note(view)
            if page.problems.own_file and not self.uploaded:
                st.button(
                    "Use your own file",
                    key=panel.key("own_file"),
                    icon=":material/upload_file:",
                    type="tertiary",
                    on_click=page.problems.choose_own_file,
                    args=(panel,),
                )
        return view

    def _pack_stops(self) -> None:
        """After a press on a slider, pack the plan's charts at each stop of the slider, for the browser.

        With these the browser draws the charts while the slider is dragged, without asking the server. The experiment
        at a stop is built by setting the slider's value to it for a moment.
        """
        name, stops = st.session_state.pop(self.panel.key("pressed"), ("", ()))  # noted when a slider is pressed
        lead = next((lead for lead in self.panel.leads if lead.name == name), None)
        if lead is None:
            return
        present_value = lead.value
        experiments: list[Experiment | None] = []
        for stop in stops:
            lead.into[lead.control.name] = stop  # from where `experiment` takes it
            experiments.append(None)  # stays so where the settings do not go together
            with suppress(UserError):
                experiments[-1] = self.sidebar.experiment(self.panel)
        lead.into[lead.control.name] = present_value
        keys = [self.panel.key(f"hero_{chart}") for chart in SMALL_CHARTS]
        slider = self.panel.key(f"{name}_slider")
        self.packed_stops = plan.pack_stops(slider, experiments, keys, self.page.predict, self.page.plan_charts)

    def _note(self, view: PlanView | None) -> None:
        """Draw the line about the size of the data, and the reason if there is no slider for steps or batches."""
        why_missing = next((group.why_missing for group in self.page.groups if group.why_missing), "")
        st.caption(f"{'' if view is None else self.page.size_note(view)} {why_missing}")

    @property
    def uploaded(self) -> bool:
        """True if the data are a user's own file."""
        return self.sidebar.source is not None and self.sidebar.source.uploaded

    def _picture(self, view: PlanView | None) -> DeltaGenerator:
        """Draw the live picture with its number, the plan's charts next to it, Run and Stop, and the guarantee.

        A run on public data starts by itself once the settings no longer change. Returns the container below the
        picture.
        """
        page, panel, source, ready = self.page, self.panel, self.sidebar.source, None
        if view is not None and source is not None:
            ready = StartableExperiment(view.experiment, view.plans, source.tables)
        self.ready = ready
        run_panel.note_settings(panel.page, ready)
        leads = components.Leads(panel.lead_texts(), self.settings_id)  # tell the browser which charts are old
        picture_column, plan_column = st.columns([62, 38], gap="medium")
        with plan_column:
            for name, chart in zip(SMALL_CHARTS, self.small_charts if view else (), strict=False):
                key = panel.key(f"hero_{name}")
                handles = panel.handles(key) if name == "noise" else None  # to draw a schedule by hand
                charts.show_bare(chart, key, group=panel.page, leads=leads, handles=handles)
            chart_note = "" if view is None else page.chart_note(view)
            if chart_note:
                st.caption(chart_note)
            story = st.container()  # for the preset's text, drawn below if the chosen face is one that it speaks of
            has_comparison = self.preset is not None and self.preset.comparisons  # experiments to compare it with
            self.comparison_state = st.container() if has_comparison else None
            if self.uploaded:
                results.show_diagnostics_switch(panel)
        with self.tools:
            about_file = texts.OWN_FILE if self.uploaded else ""
            if self.uploaded and ready is not None:
                about_file += f" Run: {ready.releases}."
            active = run_panel.bar(panel, page.title, ready, switch_area=plan_column, file_text=about_file)
        with picture_column:
            further_faces = page.more_faces(view)
            has_map = not self.uploaded and view is not None and page.has_map(view)
            face = faces.choose(panel, view, self.uploaded, mapped=has_map, more=tuple(further_faces))
            if face in (faces.STEPS, faces.MAP):
                with story:
                    preset_menu.show_text(panel, self.preset, self.experiment, page.settings_of)
            # Only the face along the budget needs a sweep over budgets.
            run_panel.stop_other_sweeps(page.family if face == faces.BUDGET else "")
            is_further = face in further_faces
            make_chart, other = (further_faces[face], None) if is_further else self._chart_and_face(face, ready)
            missing_parts = file.missing_parts() if self.uploaded else ()
            frame = hero.Frame(
                ready, self.uploaded, page.title, missing_parts, leads, face, further=is_further, other=other
            )
            chart_with_pins = pins.with_pins(panel, make_chart, self.preset)
            hero.picture(panel, active, make_chart=chart_with_pins, make_number=page.headline, frame=frame)
        foot = st.container(key=panel.key("foot"), horizontal=True, vertical_alignment="center", gap="small")
        with foot:
            if view is not None:
                guarantee.show_sentence(view.experiment, view.plans, panel.key("guarantee"))
            pins.show_button(panel, make_chart, page.can_express)
            links.back_to_lesson()
        return foot

    def _chart_and_face(
        self, face: str, ready: StartableExperiment | None
    ) -> tuple[MakeChart, Callable[[], hero.Face] | None]:
        """Return two functions for the face with the title `face`, which is none of the family's further faces.

        The first returns the chart of the page's run, from which pins take their lines. The second returns the picture
        that is drawn in its place, for a face that needs more than the curves of this run; else it is None.
        """
        page, panel = self.page, self.panel
        if face == faces.BUDGET:
            return page.picture, partial(faces.along_budget, panel, page, ready, self.full_experiment)
        if face == faces.CLOUD:
            return page.picture, partial(self._cloud, ready)
        return (page.curves if face == faces.STEPS else page.picture), None

    def _cloud(self, ready: StartableExperiment | None) -> hero.Face:
        """Return the face on which the replicates of the last finished run are moving points.

        It is pale where the run has other settings than the present ones, `ready`. Only runs on public data have such a
        picture; `is_restorable` is true for these.
        """
        run = run_panel.finished_run(self.panel.page)
        trace = None if run is None or not run.is_restorable else run.job.trace
        is_pale = trace is not None and run is not None and not run_panel.matches_job(ready, run.job)

        def draw() -> None:
            if run is None or trace is None:
                with hero.blank():
                    st.markdown(texts.CLOUD_WAITS)
                return
            if not hero.show_cloud(self.panel, run, trace, self.page):  # nothing to draw: no plane, or nothing moved
                st.caption(texts.NO_PLANE)

        return hero.Face(is_pale, draw)


@dataclass
class _Sections:
    """The sections below the first screen, of which one is open.

    view : the plan; None while the settings make none. result_charts : the charts of the results, for the download;
    None until the results are drawn.
    """

    page: FamilyPage
    screen: _Screen
    view: PlanView | None
    result_charts: Charts | None = None

    def show(self) -> None:
        """Draw the bar of sections, and the open one."""
        draw_by_title: dict[str, Callable[[], Any]] = {
            sections.PLAN: self.plan,
            sections.RESULTS: self.results,
            sections.SWEEP: self.sweep,
            sections.CHECK: self.check,
            sections.TAKE_AWAY: self.take_away,
            sections.BACKGROUND: self.background,
        }
        if self.view is None:
            need_plan = sections.PLAN, sections.SWEEP, sections.CHECK
            draw_by_title |= dict.fromkeys(need_plan, lambda: st.caption(texts.NO_PLAN))
        self.screen.panel.sections(draw_by_title)

    def plan(self) -> None:
        """Draw the plan: cards, advice, and tabs with charts and closer looks; only the open tab is computed."""
        assert self.view is not None
        panel, delta = self.screen.panel, self.screen.sidebar.delta
        plan.show_notes(self.view.plans)
        guarantee.show_cards(self.view.experiment, self.view.plans, delta, self.page.noise_card)
        experiment = self.view.experiment
        k = experiment.problem.rows_per_person
        if k > 1:
            row, person = experiment.row_budget.describe(), experiment.budget.describe()
            st.caption(texts.ROW_BUDGET.format(row=row, person=person, rows=k))
        self.page.draw_advice(self.view)
        draw_by_title = plan.tabs(self.screen.small_charts, self.screen.other_charts, panel.key("chart_plan"))
        draw_by_title |= self.page.closer_looks(panel, self.view, delta)
        tabs = st.tabs(list(draw_by_title), key=panel.key("tabs"), on_change="rerun")
        for tab, draw_tab in zip(tabs, draw_by_title.values(), strict=True):
            if tab.open:
                with tab:
                    draw_tab()

    def sweep(self) -> None:
        """Draw a sweep of the methods over one setting, or two."""
        assert self.view is not None
        source = self.screen.sidebar.source
        tables = source.tables if source is not None else {}
        diagnostics = results.diagnostics_shown(self.screen.panel, self.view.experiment)
        sweep_panel.show_section(self.screen.panel, self.page.title, self.view.experiment, tables, diagnostics)

    def check(self) -> None:
        """Draw links to audits of these methods."""
        assert self.view is not None
        sections.show_audit_links(self.page.family, self.page.title, self.view.experiment)

    def results(self) -> None:
        """Draw the results of the last run, from what may be published to what reads the raw data."""
        finished = self._finished()
        if finished is None:
            st.caption(texts.NO_RUN)
            return
        page, panel, (run, trace, view) = self.page, self.screen.panel, finished
        diagnostics = results.diagnostics_shown(panel, run.experiment)
        run_panel.show_outdated_notice(page.prefix)
        page.draw_release(panel, run, trace)
        if not diagnostics:
            st.caption(texts.HIDDEN)
        self.result_charts = results.show_curves(panel, run, trace, page.curve_options(view))
        self.result_charts += page.draw_results(panel, run, trace, diagnostics)
        results.show_final_numbers(run, trace, self._delta(run))
        results.show_publishing_line(run, trace, self._delta(run))
        page.draw_verdict(run, trace, diagnostics)

    def take_away(self) -> None:
        """Draw buttons for files: programs, charts, and the results of the last run."""
        page, experiment = self.page, self.screen.experiment
        finished = self._finished()
        if finished is not None and self.result_charts is None:
            # The charts of the results are computed where they are drawn, so they are drawn and removed at once.
            unseen = st.empty()
            with unseen.container():
                self.results()
            unseen.empty()
        if finished is not None:  # the programs are of the present settings, the other files of the run's
            run_panel.show_outdated_notice(page.prefix)
        with st.container(horizontal=True):
            if experiment is not None:
                downloads.programs(page.prefix, experiment)
            if finished is not None:
                run, trace, view = finished
                result_charts = self.result_charts or []
                downloads.run_files(
                    page.prefix,
                    run.experiment,
                    run.plans,
                    trace,
                    self._delta(run),
                    charts=lambda: [*page.plan_charts(view), *result_charts],
                )

    def background(self) -> None:
        """Draw the preset's story, the method in words, assumptions, errata, and the theory of the family."""
        page = self.page
        preset_menu.show_story(self.screen.panel, page.presets)
        with st.expander("About this method", icon=":material/menu_book:"):
            st.markdown(explain.document(page.package, "about.md"))
            st.caption(page.texts.NOT_COVERED)
        if self.view is not None:
            page.draw_assumptions(self.view)
        if errata := explain.errata(page.package):
            with st.expander("Where this tool and the paper differ", icon=":material/rule:"):
                st.markdown(errata)
        explain.theory(page.prefix, page.package)

    def _finished(self) -> tuple[Run, Trace, PlanView] | None:
        """Return the run whose results are shown, the records of it that may be seen, and its plan; None without one.

        On the page of a user's file, a run on public data does not count: its results could be taken for the file's.
        Results of a file that was removed stay: they are paid for.
        """
        run = run_panel.finished_run(self.page.prefix)
        if run is None or run.job.trace is None or (self.screen.uploaded and run.is_restorable):
            return None
        diagnostics = results.diagnostics_shown(self.screen.panel, run.experiment)
        return run, run.job.trace.visible(diagnostics), self.page.view(run.experiment)

    def _delta(self, run: Run) -> float:
        """Return the δ at which the cost of a run is read as (ε, δ): that of its budget, or else of the sidebar."""
        return run.experiment.budget.own_delta(self.screen.sidebar.delta)
