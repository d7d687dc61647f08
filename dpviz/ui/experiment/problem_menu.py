"""The menu of problems and data of a page.

Each page declares its problems, and the sources of their rows, in one `ProblemMenu`. It draws the controls, builds the
problem from them, and finds the values of the controls from a problem.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets.base import NO_TABLES, RowsSpecification
from dpviz.datasets.synthetic import LatentGame
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.specification import Specification
from dpviz.ui.controls import Panel, Settings, draw_errors
from dpviz.ui.experiment.controls import fields_of
from dpviz.ui.uploads import file

ANY = ""  # key of the sources, in place of the name of a problem, where the same data sets go with all problems
UPLOAD = "upload"  # name of the source that is a visitor's own file
Generator = type[RowsSpecification[Any, Any]] | type[LatentGame]
# From the prefix of a page to the data set of a visitor's file, None until it is ready, and the file's arrays by name.
Upload = Callable[[str], tuple[Specification | None, Mapping[str, np.ndarray]]]


def setting_names(cls: type[Specification], without: Collection[str] = ()) -> list[str]:
    """Return the names of the settings of a class of specifications, except those in `without`."""
    return [control.name for control in cls.controls() if control.name not in without]


@dataclass(frozen=True)
class Menu:
    """A control that chooses one of several problems.

    options : the labels by value; if there is only one, the control is replaced by the text `help`. name : name of the
    control, which links contain.
    """

    name: str
    label: str
    options: Mapping[str, str]
    default: str
    help: str

    def draw(self, panel: Panel) -> str:
        """Draw the control; return the chosen option."""
        if len(self.options) == 1:
            st.caption(self.help)
            return self.default
        return panel.choice(self.name, self.label, self.options, self.default, self.help)


@dataclass(frozen=True)
class ProblemEntry:
    """A kind of problem, with the names of its controls and where they are drawn.

    shared : settings whose control other problems of the page have too, under the same name. prefix : beginning of the
    names of all other controls. first : settings that are drawn together with those of the data.
    groups : the other settings, by the title of the expander in which they are drawn.
    """

    cls: type[ProblemSpecification]
    prefix: str = ""
    shared: Collection[str] = ()
    first: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def key(self, name: str) -> str:
        """Return the name of a setting's control."""
        return name if name in self.shared else self.prefix + name

    def draw(self, panel: Panel, names: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Draw the controls of the settings `names`; return their values by name.

        defaults : default values, by name, in place of those that the class declares.
        """
        controls = {control.name: control for control in self.cls.controls()}
        values = {}
        for name in names:
            control = replace(controls[name], default=defaults.get(name, controls[name].default))
            values[name] = panel.control(control, self.key(name))
        return values


@dataclass(frozen=True)
class Source:
    """A source of the rows of a problem, in the choice of the data set.

    A source with neither `cls` nor `upload` is a problem without data, which has the name of the source.

    cls : class of the settings of a generated data set; the names of their controls begin with `prefix`.
    upload : draws the panel for a visitor's own file and returns the data set.
    """

    title: str
    cls: Generator | None = None
    prefix: str = ""
    upload: Upload | None = None


def generators(classes: Mapping[str, Generator], prefix: str = "") -> dict[str, Source]:
    """Return a source for each generator, by its name in the address.

    The names of its controls begin with `prefix` and the generator's name.
    """
    return {name: Source(cls.title, cls, f"{prefix}{name}_") for name, cls in classes.items()}


@dataclass(frozen=True)
class Selection:
    """The values of the controls of the data, with the problem if it is chosen before the data.

    source : name of the source. name, kind : name and class of the problem; "" and the base class if it is chosen
    later. values : values of the problem's settings that were drawn with the data. data : a generator with its
    settings, None for other sources. uploaded : true if the data are the visitor's own file. upload : the data set of
    that file, None until it is ready. tables : the arrays of that file. has_leading : true if a control of the data is
    above the picture, in the place of the number of steps.
    """

    source: str = ""
    name: str = ""
    kind: type[ProblemSpecification] = ProblemSpecification  # type: ignore[type-abstract]
    values: Mapping[str, Any] = field(default_factory=dict)
    data: Settings[Any] | None = None
    upload: Specification | None = None
    uploaded: bool = False
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    has_leading: bool = False


@dataclass(frozen=True)
class Draft:
    """A problem that is about to be built, with everything that the private release of a fact about its data needs.

    values : the values of its settings. tables : the arrays of an uploaded file. budget, seed : from which the release
    takes its cost and its noise.
    """

    panel: Panel
    cls: type[ProblemSpecification]
    values: Mapping[str, Any]
    tables: Mapping[str, np.ndarray]
    budget: Settings[Budget]
    seed: int | None


def _nothing(*_: Any) -> dict[str, Any]:
    """Return {}, for a page without further controls."""
    return {}


def _values(draft: Draft) -> Mapping[str, Any]:
    """Return the values of a draft as they were set, for a page that adds none."""
    return draft.values


@dataclass(frozen=True, kw_only=True)
class ProblemMenu:
    """The choice of problem and data on a page.

    problems : the problems by their names in the address. menu : the control that chooses among them, or a function
    that returns it for the data chosen before; None if the first problem is the only choice.
    sources : for each problem, by name, the sources of its rows by name, of which the first is chosen at first. With
    the single key `ANY` instead, the source is chosen first, and goes with every problem.
    source_name, label, help : name, label and help of the control of the source; "{}" in its name is replaced by the
    name of the problem.
    data_settings, expanded : title of the expander with the settings of the data, and whether it is open.
    expanders : titles of the expanders with the other settings of the problem, below the data; "" draws them without an
    expander. Errors of the problem are drawn in the last one.
    leading : a setting of the data that is drawn above the picture, in the place of the number of steps.
    upload_defaults : settings of the problem that have another default on a visitor's own file, as {name: (usual
    default, default on a file)}; only settings whose control has no prefix.

    Three functions let a page add to this.
    draw_more : `(panel, kind of problem, values)`, draws controls below the last settings; returns their values.
    complete : returns, from a draft, the values from which the problem is built.
    more_values_of : the inverse: returns, from a problem, the values of the controls that `draw_more` drew.
    """

    problems: Mapping[str, ProblemEntry]
    menu: Menu | Callable[[Selection], Menu] | None = None
    sources: Mapping[str, Mapping[str, Source]] = field(default_factory=dict)
    source_name: str = "data"
    label: str = "Data set"
    help: str = ""
    data_settings: str = "Data settings"
    expanded: bool = False
    expanders: Sequence[str] = ()
    leading: str = ""
    upload_defaults: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    draw_more: Callable[[Panel, type[ProblemSpecification], Mapping[str, Any]], Mapping[str, Any]] = _nothing
    complete: Callable[[Draft], Mapping[str, Any]] = _values
    more_values_of: Callable[[ProblemSpecification], Mapping[str, Any]] = _nothing

    def choose(self, panel: Panel, main: DeltaGenerator, lead: int) -> Selection:
        """Draw the choice of the data with their settings, and of the problem if that comes first; return the choices.

        main : the part of the page in which the panel for a visitor's file is drawn. lead : number of the column above
        the picture for the leading setting.
        """
        if file.pop_removed():
            self._go_back(panel)
        name = "" if ANY in self.sources else self._choose_problem(panel, Selection())  # "": chosen after the data
        source_name = self._choose_source(panel, name)
        if source_name in self.problems:  # a source that is a problem without data
            name = source_name
        # Without a name, the base class: no settings yet.
        entry = self.problems.get(name, ProblemEntry(Selection.kind))
        source = self._sources(name).get(source_name, Source(""))  # without one, the problem has no data
        upload, tables = None, NO_TABLES
        if source.upload is not None:
            with main:
                upload, tables = source.upload(panel.page)
        data_names = [] if source.cls is None else setting_names(source.cls)
        has_leading = self.leading in data_names
        names_below = [setting for setting in data_names if setting != self.leading]  # this one is above the picture
        data = None
        has_controls = entry.first or data_names
        with st.expander(self.data_settings, expanded=self.expanded) if has_controls else st.container():
            values = entry.draw(panel, entry.first, defaults={})
            if source.cls is not None:
                fields = panel.draw_controls(source.cls, names_below, prefix=source.prefix)
                if has_leading:
                    (leading,) = (control for control in source.cls.controls() if control.name == self.leading)
                    panel.add_lead(lead, leading, fields, prefix=source.prefix)  # writes its value into `fields`
                data = Settings(source.cls, fields)
            if name and not self.expanders:  # else `build` draws these in the last of its expanders
                values |= self.draw_more(panel, entry.cls, values)
        uploaded = source.upload is not None
        return Selection(source_name, name, entry.cls, values, data, upload, uploaded, tables, has_leading=has_leading)

    def build(
        self, panel: Panel, selection: Selection, budget: Settings[Budget], seed: int | None
    ) -> Callable[[], ProblemSpecification] | None:
        """Draw the problem's controls in their expanders; return a function that builds the problem.

        Return None while a visitor's file is not ready. A function is returned, since leading settings are drawn later:
        it uses the values that these have when it is called. These controls are the last ones of an experiment, so this
        raises UserError for a mistake in any of them.

        selection : the values that `choose` returned. budget, seed : for private releases of facts about the data.
        """
        name, values = selection.name, dict(selection.values)
        upload_defaults = {setting: on_file for setting, (_, on_file) in self.upload_defaults.items()}
        defaults = upload_defaults if selection.uploaded else {}
        container: AbstractContextManager[Any] = nullcontext()
        for title in self.expanders:
            container = st.expander(title) if title else st.container()
            with container:
                name = name or self._choose_problem(panel, selection)  # in the first expander, if chosen after the data
                values |= self.problems[name].draw(panel, self.problems[name].groups.get(title, ()), defaults)
        cls = self.problems[name].cls
        with container:  # the last expander again, or none
            if self.expanders:  # else `choose` has drawn these
                values |= self.draw_more(panel, cls, values)
            panel.check()
            data = selection.upload if selection.data is None else selection.data.build()
            if data is not None:
                values["data"] = data
            elif selection.uploaded:
                return None
            # With expanders an error is drawn in the last one, and raised again for the page, which draws it, too.
            with draw_errors(go_on=False) if self.expanders else nullcontext():
                draft = Draft(panel, cls, values, selection.tables, budget, seed)
                all_values = dict(self.complete(draft))
                Settings(cls, all_values).build()  # only for the error of values that do not go together

        def build() -> ProblemSpecification:
            # The settings of the data are read again, as a leading one may have been drawn since.
            present = all_values if selection.data is None else {**all_values, "data": selection.data.build()}
            return Settings(cls, present).build()

        return build

    def settings_of(self, problem: ProblemSpecification) -> dict[str, Any]:
        """Return the values of the controls, by name, that rebuild a problem: the inverse of `choose` and `build`.

        Raises ValueError for a problem that these controls cannot express, such as one on an uploaded table.
        """
        data = problem.dataset
        for name, entry in self.problems.items():
            if type(problem) is not entry.cls:
                continue
            fields = {entry.key(setting): value for setting, value in fields_of(problem).items()}
            fields |= self.more_values_of(problem)
            if data is None:  # its source has the name of the problem
                return self._choices(name, name) | fields
            for source_name, source in self._sources(name).items():
                if type(data) is source.cls:
                    return self._choices(name, source_name) | fields | fields_of(data, source.prefix)
        raise ValueError(f"the page has no controls for {problem.kind if data is None else data.kind}")

    @property
    def own_file(self) -> Mapping[str, str]:
        """The values of the controls, by name, that choose a visitor's own file; empty if the page takes no file."""
        for name, sources in self.sources.items():
            for source_name, source in sources.items():
                if source.upload is not None:  # the first problem that takes a file is chosen with it
                    is_for_all = name == ANY
                    control = self.source_name.format(name)
                    return {control: source_name} if is_for_all else self._choices(name, source_name)
        return {}

    def choose_own_file(self, panel: Panel) -> None:
        """Choose a visitor's own file, with the defaults of settings on it; for a callback."""
        values = self.own_file
        *_, control = values  # that of the source is the last one
        panel.set_values(values)
        self._swap(panel, control)

    def _go_back(self, panel: Panel) -> None:
        """Choose the first source, for each problem whose chosen source is a file that the visitor has removed."""
        for name, sources in self.sources.items():
            control = self.source_name.format(name)
            source = sources.get(st.session_state.get(panel.key(control), ""))
            if source is not None and source.upload is not None:
                first, *_ = sources
                panel.set_values({control: first})
                self._swap(panel, control)

    def _choices(self, name: str, source: str) -> dict[str, Any]:
        """Return the values of the controls, by name, that choose the problem `name` and its source.

        A choice with a single option has no control.
        """
        choices = {}
        is_chosen_as_source = ANY in self.sources and name == source  # a problem without data
        if self.menu is not None and not is_chosen_as_source:
            choices[self._menu(Selection(source)).name] = name
        if len(self._sources(name)) > 1:
            choices[self.source_name.format(name)] = source
        return choices

    def _sources(self, name: str) -> Mapping[str, Source]:
        """Return the sources, by name, of the rows of the problem `name`."""
        return self.sources.get(ANY) or self.sources.get(name, {})

    def _menu(self, selection: Selection) -> Menu:
        """Return the control that chooses the problem, which may depend on the data chosen before."""
        assert self.menu is not None
        return self.menu if isinstance(self.menu, Menu) else self.menu(selection)

    def _choose_problem(self, panel: Panel, selection: Selection) -> str:
        """Draw the choice of the problem, if there is one; return the name of the problem."""
        first, *_ = self.problems
        return first if self.menu is None else self._menu(selection).draw(panel)

    def _choose_source(self, panel: Panel, name: str) -> str:
        """Draw the choice of the source of the rows of the problem `name`; return its name, "" if it has no data."""
        titles = {source_name: source.title for source_name, source in self._sources(name).items()}
        if not titles:
            return ""
        first, *others = titles
        if not others:
            return first
        control = self.source_name.format(name)
        if not self.upload_defaults:
            return panel.choice(control, self.label, titles, first, self.help)
        swap = partial(self._swap, panel, control)
        source = panel.choice(control, self.label, titles, first, self.help, on_change=swap)
        st.session_state[panel.key(f"{control}_drawn")] = source  # the old source, for `_swap` after the next change
        return source

    def _swap(self, panel: Panel, control: str) -> None:
        """Move settings from their usual default to that on a file, or back, when the source changes; for a callback.

        A setting that the visitor has changed stays as it is. control : name of the control of the source.
        """
        was_upload = st.session_state.get(panel.key(f"{control}_drawn")) == UPLOAD
        is_upload = st.session_state.get(panel.key(control)) == UPLOAD
        if was_upload == is_upload:
            return
        for name, (usual, on_file) in self.upload_defaults.items():
            old_default, new_default = (on_file, usual) if was_upload else (usual, on_file)
            # The name of the setting is that of its control: see `upload_defaults`.
            if st.session_state.get(panel.key(name)) == old_default:
                st.session_state[panel.key(name)] = new_default
