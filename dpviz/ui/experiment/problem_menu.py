"""The menu of problems and data: one declaration per page, from which the controls and their inverse follow."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets.base import NO_TABLES, DataSpecification
from dpviz.datasets.synthetic import LatentGame
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.specification import Specification
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment.controls import fields_of
from dpviz.ui.uploads import file

ANY = ""  # in place of the name of a problem: the same data sets go with all of them
UPLOAD = "upload"
Generator = type[DataSpecification[Any, Any]] | type[LatentGame]
Upload = Callable[[str], tuple[Specification | None, Mapping[str, np.ndarray]]]


def settings(cls: type[Specification], without: Collection[str] = ()) -> list[str]:
    """Return the names of the settings of a class of specification, but those in `without`."""
    return [control.name for control in cls.controls() if control.name not in without]


@dataclass(frozen=True)
class Menu:
    """A choice of one among options (value -> label). One option alone is no choice: then only `help` is shown.

    name : of the control, which is part of the address.
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
class Problem:
    """A kind of problem, and the keys and positions of its controls.

    prefix : of the keys of its controls, but of those that are `shared` with other problems of the page.
    first : settings that are drawn with those of the data. groups : others, by the title of their expander.
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
        """Draw the controls of the settings `names`; return their values. defaults : in place of the declared ones."""
        controls = {control.name: control for control in self.cls.controls()}
        drawn = {name: replace(controls[name], default=defaults.get(name, controls[name].default)) for name in names}
        return {name: panel.control(control, self.key(name)) for name, control in drawn.items()}


@dataclass(frozen=True)
class Source:
    """A source of rows; with a title alone, it selects a problem of the same name that has no data set.

    cls : a generator; the keys of its controls begin with `prefix`. upload : `(page)` to the data set of a visitor's
    own file, None until it is ready, and its arrays.
    """

    title: str
    cls: Generator | None = None
    prefix: str = ""
    upload: Upload | None = None


def generators(classes: Mapping[str, Generator], prefix: str = "") -> dict[str, Source]:
    """Return sources for generators by their names in the address; the keys of their controls begin with `prefix` and
    this name."""
    return {name: Source(cls.title, cls, f"{prefix}{name}_") for name, cls in classes.items()}


@dataclass(frozen=True)
class Selection:
    """The choices of the data controls.

    source : its name. name, kind : of the problem; empty, and of any kind, while it is chosen later.
    values : settings of the problem that were drawn with the data. data : a generator and its settings. upload : the
    data set of a file, None until it is ready. uploaded : true if the data are the visitor's own file. tables : the
    file's arrays. leads : true if one of the data controls replaces the steps above the picture.
    """

    source: str = ""
    name: str = ""
    kind: type[ProblemSpecification] = ProblemSpecification  # type: ignore[type-abstract]
    values: Mapping[str, Any] = field(default_factory=dict)
    data: Settings[Any] | None = None
    upload: Specification | None = None
    uploaded: bool = False
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    leads: bool = False


@dataclass(frozen=True)
class Draft:
    """A problem that is about to be built, with the data, budget and seed for the release of a private fact."""

    panel: Panel
    cls: type[ProblemSpecification]
    values: Mapping[str, Any]
    tables: Mapping[str, np.ndarray]
    budget: Settings[Budget]
    seed: int | None


def _nothing(*_: Any) -> dict[str, Any]:
    """Return no further controls or values."""
    return {}


def _values(draft: Draft) -> Mapping[str, Any]:
    """Return the values as they were set."""
    return draft.values


@dataclass(frozen=True, kw_only=True)
class ProblemMenu:
    """The choice of problem and data on a page.

    problems : by their names in the address. menu : the choice among them. sources : by the name of a problem, the
    sources of its rows, the first by default; under `ANY` those of all problems, and then the source is chosen first.
    source_name : of the control of the source, "{}" being the problem; label, help : of that control.
    expanders : titles of the expanders of the problem's settings, below the data; "" is a container without one. The
    problem is built in the last of them. data_settings, expanded : the expander of the settings of the data.
    leading : a setting of the data that takes the place of the steps above the picture.
    upload_defaults : settings whose default is another one for the visitor's own file: the usual one, and that one.

    Hooks: more : `(panel, kind of problem, values)`, draws controls below the last settings and returns their
    values. complete : returns the values from which a draft is built. more_of : the inverse of `more`, for values
    that no control declares.
    """

    problems: Mapping[str, Problem]
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
    more: Callable[[Panel, type[ProblemSpecification], Mapping[str, Any]], Mapping[str, Any]] = _nothing
    complete: Callable[[Draft], Mapping[str, Any]] = _values
    more_of: Callable[[ProblemSpecification], Mapping[str, Any]] = _nothing

    def choose(self, panel: Panel, main: DeltaGenerator, lead: int) -> Selection:
        """Draw the choice of the data, and of the problem where that comes first. An upload is drawn in `main`.

        lead : the column above the picture of the setting that leads.
        """
        if file.removed():
            self._go_back(panel)
        name = "" if ANY in self.sources else self._problem(panel, Selection())
        source = self._source(panel, name)
        name = source if source in self.problems else name
        problem = self.problems.get(name, Problem(Selection.kind))
        origin, upload, tables = self._sources(name).get(source, Source("")), None, NO_TABLES
        if origin.upload is not None:
            with main:
                upload, tables = origin.upload(panel.page)
        names = [] if origin.cls is None else settings(origin.cls)
        data, plain = None, [setting for setting in names if setting != self.leading]
        with st.expander(self.data_settings, expanded=self.expanded) if problem.first or names else st.container():
            values = problem.draw(panel, problem.first, {})
            if origin.cls is not None:
                fields = panel.specification(origin.cls, plain, prefix=origin.prefix)
                if names != plain:
                    (leading,) = (control for control in origin.cls.controls() if control.name == self.leading)
                    panel.lead(lead, leading, fields, prefix=origin.prefix)
                data = Settings(origin.cls, fields)
            if name and not self.expanders:
                values |= self.more(panel, problem.cls, values)
        uploaded = origin.upload is not None
        return Selection(source, name, problem.cls, values, data, upload, uploaded, tables, leads=names != plain)

    def build(
        self, panel: Panel, chosen: Selection, budget: Settings[Budget], seed: int | None
    ) -> Callable[[], ProblemSpecification] | None:
        """Draw the problem's controls in their expanders; return a function that builds the problem, None without data.

        The function uses the present values of leading settings.

        The last of the controls that make an experiment: raises UserError for any mistake in them.
        """
        name, values = chosen.name, dict(chosen.values)
        uploaded_defaults = {name: default for name, (_, default) in self.upload_defaults.items()}
        defaults = uploaded_defaults if chosen.uploaded else {}
        container: AbstractContextManager[Any] = nullcontext()
        for title in self.expanders:
            container = st.expander(title) if title else st.container()
            with container:
                name = name or self._problem(panel, chosen)
                values |= self.problems[name].draw(panel, self.problems[name].groups.get(title, ()), defaults)
        cls = self.problems[name].cls
        with container:
            if self.expanders:
                values |= self.more(panel, cls, values)
            panel.check()
            data = chosen.upload if chosen.data is None else chosen.data.build()
            if data is None and chosen.uploaded:
                return None
            if data is not None:
                values["data"] = data
            with in_place(go_on=False) if self.expanders else nullcontext():
                completed = dict(self.complete(Draft(panel, cls, values, chosen.tables, budget, seed)))
                Settings(cls, completed).build()  # draws the error of values that do not go together

        def build() -> ProblemSpecification:
            present = completed if chosen.data is None else {**completed, "data": chosen.data.build()}
            return Settings(cls, present).build()

        return build

    def settings_of(self, problem: ProblemSpecification) -> dict[str, Any]:
        """Return the controls that rebuild a problem: the inverse of `choose` and `build`.

        Raises ValueError for a problem that the page cannot express, such as one on an uploaded table.
        """
        data = problem.dataset
        for name, declared in self.problems.items():
            if type(problem) is not declared.cls:
                continue
            fields = {declared.key(setting): value for setting, value in fields_of(problem).items()}
            fields |= self.more_of(problem)
            if data is None:
                return self._choices(name, name) | fields
            for source, origin in self._sources(name).items():
                if type(data) is origin.cls:
                    return self._choices(name, source) | fields | fields_of(data, origin.prefix)
        raise ValueError(f"the page has no controls for {problem.kind if data is None else data.kind}")

    @property
    def own_file(self) -> Mapping[str, str]:
        """The values of the controls that lead to a visitor's own file."""
        files = ((name, key) for name, sources in self.sources.items() for key in sources if sources[key].upload)
        name, source = next(files, ("", ""))
        if not source:
            return {}
        return {self.source_name.format(name): source} if name == ANY else self._choices(name, source)

    def _go_back(self, panel: Panel) -> None:
        """Select the first source of the page in place of a file that was removed."""
        for name, sources in self.sources.items():
            key = self.source_name.format(name)
            source = sources.get(st.session_state.get(panel.key(key), ""))
            if source is not None and source.upload is not None:
                panel.write({key: next(iter(sources))})

    def _choices(self, name: str, source: str) -> dict[str, Any]:
        """Return the values of the menus that choose a problem and a source."""
        choices = {}
        if self.menu is not None and (ANY not in self.sources or name != source):
            choices[self._menu(Selection(source)).name] = name
        if len(self._sources(name)) > 1:
            choices[self.source_name.format(name)] = source
        return choices

    def _sources(self, name: str) -> Mapping[str, Source]:
        return self.sources.get(ANY) or self.sources.get(name, {})

    def _menu(self, chosen: Selection) -> Menu:
        assert self.menu is not None
        return self.menu if isinstance(self.menu, Menu) else self.menu(chosen)

    def _problem(self, panel: Panel, chosen: Selection) -> str:
        return next(iter(self.problems)) if self.menu is None else self._menu(chosen).draw(panel)

    def _source(self, panel: Panel, name: str) -> str:
        """Draw the choice of the source of the rows; return its name, "" for a problem without data."""
        titles = {source: origin.title for source, origin in self._sources(name).items()}
        first = next(iter(titles), "")
        if len(titles) < 2:
            return first
        control = self.source_name.format(name)
        if not self.upload_defaults:
            return panel.choice(control, self.label, titles, first, self.help)
        swap = partial(self._swap, panel, control)
        source = panel.choice(control, self.label, titles, first, self.help, on_change=swap)
        st.session_state[f"{panel.key(control)}_drawn"] = source
        return source

    def _swap(self, panel: Panel, control: str) -> None:
        """Give settings at the default of the previous kind of source the default of the new one; for a callback."""
        was_upload, is_upload = (
            st.session_state.get(panel.key(key)) == UPLOAD for key in (f"{control}_drawn", control)
        )
        for name, defaults in self.upload_defaults.items():
            if was_upload != is_upload and st.session_state.get(panel.key(name)) == defaults[was_upload]:
                st.session_state[panel.key(name)] = defaults[is_upload]
