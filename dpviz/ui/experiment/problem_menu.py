"""The menu of what is minimised, on which data: one declaration per page, from which the controls and their inverse
follow."""

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
    """The names of what can be set of a kind of specification."""
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
        """Draw the control; the option that is chosen."""
        if len(self.options) == 1:
            st.caption(self.help)
            return self.default
        return panel.choice(self.name, self.label, self.options, self.default, self.help)


@dataclass(frozen=True)
class Problem:
    """A kind of problem, and the keys and places of its controls.

    prefix : of the keys of its controls, but of those that are `shared` with other problems of the page.
    first : settings that are drawn with those of the data. groups : others, by the title of their expander.
    """

    cls: type[ProblemSpecification]
    prefix: str = ""
    shared: Collection[str] = ()
    first: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def key(self, name: str) -> str:
        """The name of a setting's control."""
        return name if name in self.shared else self.prefix + name

    def draw(self, panel: Panel, names: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Draw the controls of settings; their values. defaults : in place of the declared ones."""
        declared = {control.name: control for control in self.cls.controls()}
        usual = {name: replace(declared[name], default=defaults.get(name, declared[name].default)) for name in names}
        return {name: panel.control(control, self.key(name)) for name, control in usual.items()}


@dataclass(frozen=True)
class Source:
    """Where the rows come from; with a title alone, it stands for a problem of the same name that has no data set.

    cls : a generator; the keys of its controls begin with `prefix`. upload : `(page)` to the data set of a visitor's
    own file, None until it is ready, and its arrays.
    """

    title: str
    cls: Generator | None = None
    prefix: str = ""
    upload: Upload | None = None


def generators(classes: Mapping[str, Generator], prefix: str = "") -> dict[str, Source]:
    """Generators by their names in the address, with which the keys of their controls begin, behind `prefix`."""
    return {name: Source(cls.title, cls, f"{prefix}{name}_") for name, cls in classes.items()}


@dataclass(frozen=True)
class Selection:
    """What the data controls chose.

    source : its name. name, kind : of the problem; empty, and of any kind, while it is chosen later.
    values : settings of the problem that were drawn with the data. data : a generator and its settings. upload : the
    data set of a file, None until it is ready. uploaded : whether the data are the visitor's own file. tables : the
    file's arrays. leads : whether one of the data controls took the place of the steps above the picture.
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
    """A problem that is about to be built, and what a private fact of it may be bought with."""

    panel: Panel
    cls: type[ProblemSpecification]
    values: Mapping[str, Any]
    tables: Mapping[str, np.ndarray]
    budget: Settings[Budget]
    seed: int | None


def _nothing(*_: Any) -> dict[str, Any]:
    """No further controls."""
    return {}


def _values(draft: Draft) -> Mapping[str, Any]:
    """The values as they were set."""
    return draft.values


@dataclass(frozen=True, kw_only=True)
class ProblemMenu:
    """What a page minimises.

    problems : by their names in the address. menu : the choice among them. sources : by the name of a problem, where
    its rows may come from, the first at first; of `ANY` for all problems, and then the source is chosen before.
    source_name : of the control of the source, "{}" being the problem; label, help : of that control.
    expanders : titles of those in which the problem's settings stand, below the data; "" is a place without one. The
    problem is built in the last of them. data_settings, expanded : the expander of the settings of the data.
    leading : a setting of the data that takes the place of the steps above the picture.
    upload_defaults : settings whose default is another one for the visitor's own file: the usual one, and that one.

    Hooks: more : `(panel, kind of problem, values)`, draws controls below the last settings; their values. complete :
    the values that a draft is built from. more_of : the inverse of `more`, of what no control declares.
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
        """Choose the data, and the problem where that comes first. An upload is drawn in `main`.

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
        """What builds the problem, from the present values of leading settings, too; and, in expanders, its controls.
        None if there are no data yet.

        The last of the controls that make an experiment: raises UserError for any mistake in them.
        """
        name, values = chosen.name, dict(chosen.values)
        defaults = {name: own for name, (_, own) in self.upload_defaults.items()} if chosen.uploaded else {}
        place: AbstractContextManager[Any] = nullcontext()
        for title in self.expanders:
            place = st.expander(title) if title else st.container()
            with place:
                name = name or self._problem(panel, chosen)
                values |= self.problems[name].draw(panel, self.problems[name].groups.get(title, ()), defaults)
        cls = self.problems[name].cls
        with place:
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
                Settings(cls, completed).build()  # what does not go together is said here

        def built() -> ProblemSpecification:
            now = completed if chosen.data is None else {**completed, "data": chosen.data.build()}
            return Settings(cls, now).build()

        return built

    def settings_of(self, problem: ProblemSpecification) -> dict[str, Any]:
        """The controls that rebuild a problem: the inverse of `choose` and `build`.

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
        """The choices that lead to a visitor's own file."""
        files = ((name, key) for name, every in self.sources.items() for key in every if every[key].upload)
        name, source = next(files, ("", ""))
        if not source:
            return {}
        return {self.source_name.format(name): source} if name == ANY else self._choices(name, source)

    def _go_back(self, panel: Panel) -> None:
        """From a file that was removed to what its page begins with."""
        for name, every in self.sources.items():
            key = self.source_name.format(name)
            chosen = every.get(st.session_state.get(panel.key(key), ""))
            if chosen is not None and chosen.upload is not None:
                panel.write({key: next(iter(every))})

    def _choices(self, name: str, source: str) -> dict[str, Any]:
        """The controls of the menus that choose a problem and a source."""
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
        """Where the rows come from; empty for a problem without data."""
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
        """The source was changed by hand: settings at the default of the one kind of source take the other's."""
        before, after = (st.session_state.get(panel.key(key)) == UPLOAD for key in (f"{control}_drawn", control))
        for name, defaults in self.upload_defaults.items():
            if before != after and st.session_state.get(panel.key(name)) == defaults[before]:
                st.session_state[panel.key(name)] = defaults[after]
