"""Widgets from declared ranges: a Specification says what can be set, this module draws it.

A number is a slider for dragging and an input for the exact value. The input holds the value and is part of the
address; the slider shows the same value, also where it lies between the points of its grid, and writes the input.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitAPIException

from dpviz.errors import NotYet, UserError
from dpviz.numbers import short
from dpviz.specification import Control, Specification, address_text, sentences, several_between
from dpviz.ui import components, streamlit_patches
from dpviz.ui.markdown import sentence

S = TypeVar("S", bound=Specification)
T = TypeVar("T")
Bind = Literal["query-params"] | None  # how a control is bound to the address

LOG_POINTS = 45  # at most, on a logarithmic slider
LINEAR_POINTS = 60
# Round numbers within a decade, from fine to coarse: a slider takes the finest that keeps it short enough.
MANTISSAS = (
    (1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
)
WHOLE = "draw_the_whole_page"  # in the session: controls were set from code, also such as are not drawn again alone
SECTIONS = "What stands below. The link of the page remembers it."
SEGMENTS = 5  # the most options that a segmented control shows
SEGMENTS_LENGTH = 30  # characters of their labels that fit side by side in the sidebar


@dataclass(frozen=True)
class Settings(Generic[S]):
    """What was set for a Specification, to be built when all controls have been drawn: a mistake must hide none."""

    cls: type[S]
    values: Mapping[str, Any]

    def build(self) -> S:
        """The Specification; raises UserError if the values do not go together."""
        with sentences(self.cls):
            return self.cls(**self.values)


@dataclass(frozen=True)
class Lead:
    """A number that stands above the picture: drawn after the other controls, and again without them. Or several
    numbers, which the handles of a chart set.

    place : in their order. name : of its control. into : takes its value, by the name of its setting. empty : as in
    `Panel.number`.
    """

    place: int
    control: Control
    name: str
    into: dict[str, Any]
    empty: str

    @property
    def value(self) -> Any:
        """Its value now."""
        return self.into[self.control.name]


class Panel:
    """The controls of one page in one rerun.

    page : prefix of all keys, which are also the names in the address.
    query : the address that restores what was set, without defaults; complete after the last control was drawn.
    titles : the visible labels of the controls drawn so far, by name.
    mistakes : sentences about numbers out of range, each also shown at its control.
    unread : titles of the controls for which the address that the visitor came with had no value.
    leads : the numbers that are drawn above the picture. reads_leads : whether another control shows what follows from
    one of these.
    """

    def __init__(self, page: str) -> None:
        self.page = page
        self.query: dict[str, str | list[str]] = {}
        self.titles: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.unread: list[str] = []
        self.leads: list[Lead] = []
        self.reads_leads = False
        self._given: dict[str, tuple[list[str], list[str]]] = {}
        self._written: set[str] = set()

    def key(self, name: str) -> str:
        """The key of a control: `<page>_<name>`."""
        return f"{self.page}_{name}"

    def copy(self) -> "Panel":
        """For a part of the page that is drawn again without the controls drawn so far."""
        panel = copy(self)
        panel.query, panel.titles, panel._given = dict(self.query), dict(self.titles), dict(self._given)
        panel.mistakes, panel.unread = list(self.mistakes), list(self.unread)
        return panel

    def lead(
        self, place: int, control: Control, into: dict[str, Any], *, prefix: str = "", empty: str = "by theory"
    ) -> None:
        """Let a number be drawn above the picture; until then its value is the one that it will be drawn with.

        Arguments as the fields of `Lead`; into takes the value under the control's name, without the prefix.
        """
        key = self.key(prefix + control.name)
        value: Any = st.session_state.get(key, control.default)
        if control.count:
            value = _read_numbers(st.session_state.get(key, st.query_params.get(key, address_text(control.default))))
            value = control.default if mistake(control, value) else value
        elif key not in st.session_state and key in st.query_params:
            with suppress(ValueError):
                value = float(st.query_params[key])
        into[control.name] = _whole(value) if control.type is int else value
        self.leads.append(Lead(place, control, prefix + control.name, into, empty))

    def draw_leads(self) -> None:
        """Draw the numbers above the picture, and pass their values on."""
        for lead in sorted(self.leads, key=lambda lead: lead.place):
            filled = st.session_state.get(self.key(lead.name), lead.value) is not None
            with st.container(key=self.key(f"lead_{lead.name}")):
                lead.into[lead.control.name] = (
                    self.numbers(lead.control, lead.name)
                    if lead.control.count
                    else self.number(lead.control, lead.name, empty=lead.empty, filled=filled, leads=True)
                )

    def led(self) -> list[Any]:
        """The values of the numbers above the picture."""
        return [lead.value for lead in self.leads]

    def lead_texts(self) -> dict[str, str]:
        """The same in words, such as "ε = 2", by the titles of the controls."""
        return {lead.control.title: _words(lead) for lead in self.leads}

    def handles(self, key: str) -> components.Handles | None:
        """What the handles of the chart with this key set: the several numbers that lead, if some do."""
        lead = next((lead for lead in self.leads if lead.control.count), None)
        if lead is None:
            return None
        control, name, turn = lead.control, self.key(lead.name), self.key(f"{lead.name}_turn")

        def move() -> None:
            match st.session_state[key]["handles"]:
                case {"values": [*values], "turn": int(moved)} if all(isinstance(one, int | float) for one in values):
                    if not mistake(control, tuple(values)):
                        st.session_state[name], st.session_state[turn] = address_text(tuple(values)), moved

        return components.Handles(control.title, st.session_state.get(turn, 0), move)

    def specification(self, cls: type[Specification], names: Sequence[str], prefix: str = "") -> dict[str, Any]:
        """Draw the controls `names` of a Specification; their values by field name. Keys: `<page>_<prefix><field>`."""
        declared = {control.name: control for control in cls.controls()}
        return {name: self.control(declared[name], prefix + name) for name in names}

    def control(self, control: Control, name: str) -> Any:
        """Draw one control under the given name and return its value."""
        if control.options:
            return self.choice(name, control.title, control.options, control.default, control.help)
        if control.type is bool:
            return self.switch(name, control.title, control.default, control.help)
        return self.numbers(control, name) if control.count else self.number(control, name)

    def number(
        self,
        control: Control,
        name: str,
        *,
        disabled: bool = False,
        empty: str = "by theory",
        slider: bool = True,
        filled: bool = False,
        leads: bool = False,
        on_change: Callable[[], None] | None = None,
    ) -> float | int | None:
        """Slider and input; only an input where a value is optional, the range is that of a seed, or without `slider`.

        empty : what an optional value is while nothing is entered. filled : an optional value is entered, and has a
        slider, too. leads : whether the picture below follows its slider. on_change : of an input alone.
        """
        points = grid(control) if slider and (filled or not control.optional) else ()
        if not points:
            value = self._input(control, name, disabled=disabled, placeholder=empty, on_change=on_change)
        else:
            # Number first, as the slider shows its value; `shell.css` shows them the other way round.
            with st.container(horizontal=True, gap="small", vertical_alignment="bottom", wrap=False):
                value = self._input(control, name, beside_slider=True, placeholder=empty)
                if value is not None or not control.optional:
                    (self._leading_slider if leads else self._slider)(control, name, points, value)
        self._show_mistake(control, value)
        return value

    def numbers(self, control: Control, name: str) -> tuple[float, ...] | None:
        """Several numbers, as a text with commas between them. Handles set it: `shell.css` does not show it, and the
        browser keeps it in the address."""
        key, default = self.key(name), address_text(control.default)
        given = st.query_params.get(key, default)
        is_unread = key not in st.session_state and bool(mistake(control, _read_numbers(given)))
        if is_unread:  # nothing on the page could mend it
            del st.query_params[key]
            self.unread.append(control.title)
        bind = self._begin(name, control.title, default, str, may_be_empty=True)
        bind = None if is_unread else bind
        said = st.text_input(control.title, value=default, key=key, help=control.help, bind=bind)
        self._end(name)
        value = _read_numbers(said)
        if value != control.default:
            self.query[key] = said
        self._show_mistake(control, value)
        return value

    def _show_mistake(self, control: Control, value: float | int | tuple[float, ...] | None) -> None:
        problem = mistake(control, value)
        if problem:
            st.error(problem)
            self.mistakes.append(problem)

    def _input(
        self, control: Control, name: str, *, beside_slider: bool = False, placeholder: str = "", **options: Any
    ) -> float | int | None:
        default: Any = None if control.default is None else float(control.default)
        key = self.key(name)
        if beside_slider and key in st.session_state and streamlit_patches.differs(key, st.session_state[key]):
            st.session_state[key] = st.session_state[key]  # sent once more: what its slider set may be lost on the way

        def draw(bind: Bind) -> float | int | None:
            value = st.number_input(
                f"{control.title}, exact value" if beside_slider else control.title,
                value=default,
                step=_step(control),
                format="%.10g"
                if control.type is int
                else "%.4g",  # a whole number is a float here: so 1e400 cannot crash
                key=self.key(name),
                help=None if beside_slider else control.help,
                label_visibility="collapsed" if beside_slider else "visible",
                placeholder=placeholder if control.optional else None,
                bind=bind,
                **options,
            )
            return _whole(value) if control.type is int else value

        return self._bound(name, control.title, default, draw, _number_text, may_be_empty=control.optional)

    def again(self, control: Control, value: float) -> None:
        """The slider of a number that has been drawn elsewhere, once more; moving it moves that one."""
        self._slider(control, control.name, grid(control), value, "again")

    def _slider(
        self, control: Control, name: str, points: tuple[float, ...], value: float | None, place: str = "slider"
    ) -> None:
        key = self.key(f"{name}_{place}")
        points, shown = self._points(control, name, points, value)
        if st.session_state.get(key) != shown:
            st.session_state[key] = shown
        # A value that is set from here is sent once, and lost if the page is drawn again at that moment; what the
        # slider was born with is sent every time.
        born = st.session_state.setdefault(f"{key}_born", shown)
        st.select_slider(
            control.title,
            options=points,
            value=born if born in points else shown,
            key=key,
            format_func=_point_text(points),
            help=control.help,
            on_change=_copy,
            args=(key, self.key(name)),
        )

    def _points(
        self, control: Control, name: str, points: tuple[float, ...], value: float | None
    ) -> tuple[tuple[float, ...], float]:
        """The stops of a slider, with a value of its own between those of the grid, and the one that it is at."""
        own = self.key(f"{name}_own")
        if value is not None and value not in points and not mistake(control, value):
            st.session_state[own] = value  # stays among the points: they must not move while the slider is dragged
        points = with_value(points, st.session_state.get(own))
        return points, nearest(points, control.default if value is None else value)

    def _leading_slider(self, control: Control, name: str, points: tuple[float, ...], value: float | None) -> None:
        """A slider whose stops the browser draws while it is dragged."""
        key, turn = self.key(f"{name}_slider"), self.key(f"{name}_turn")
        points, shown = self._points(control, name, points, value)

        def move() -> None:
            match st.session_state[key]["move"]:
                case {"index": int(index), "turn": int(moved)} if 0 <= index < len(points):
                    st.session_state[self.key(name)], st.session_state[turn] = float(points[index]), moved

        def press() -> None:
            st.session_state[self.key("pressed")] = name, points

        components.slider(
            key,
            control.title,
            control.help,
            [point_texts(points)[point] for point in points],
            points.index(shown),
            turn=st.session_state.get(turn, 0),
            group=self.page,
            on_press=press,
            on_move=move,
        )

    def choice(
        self,
        name: str,
        label: str,
        options: Mapping[str, str],
        default: str,
        help: str,
        *,
        on_change: Callable[[], None] | None = None,
        bar: bool = False,
        above: bool = False,
    ) -> str:
        """One of `options` (value -> label): side by side if they are few and short, else a menu. bar : side by side in
        any case, and over the whole width, and none need be chosen. above : side by side above what they are about,
        without the label."""
        text, values = {"": "", **options}.__getitem__, list(options)
        shared: Any = {"format_func": text, "key": self.key(name), "help": help, "on_change": on_change}

        def draw(bind: Bind) -> str:
            if bar:
                look: Any = {"label_visibility": "collapsed", "width": "stretch"}
                return st.segmented_control(label, values, default=default or None, bind=bind, **shared, **look) or ""
            if above or (len(options) <= SEGMENTS and sum(map(len, options.values())) <= SEGMENTS_LENGTH):
                look = {"label_visibility": "collapsed" if above else "visible"}
                return st.segmented_control(label, values, default=default, required=True, bind=bind, **shared, **look)
            return st.selectbox(label, values, index=values.index(default), bind=bind, **shared)

        return self._bound(name, label, default, draw, text, may_be_empty=bar)

    def sections(self, parts: Mapping[str, Callable[[], None]], first: str = "", keeps: bool = False) -> None:
        """The sections of a page, by their titles: a bar, and the one that is open; only that one is computed.

        first : that is open at first. keeps : whether what was set in the others stays, in the address, too.
        """
        outside = set(map(self.key, self.titles))
        for name in self.opened(parts, first):
            self.heard(name)
            parts[name]()
        if keeps:
            self._keep(outside)

    def heard(self, title: str) -> None:
        """A heading for those who hear the page: what follows says it to those who see it."""
        with st.container(key=self.key(f"heard_{title}")):
            st.header(title, anchor=False)

    def opened(self, titles: Iterable[str], first: str = "") -> Sequence[str]:
        """Draw the bar of sections; the one that is open, if one is."""
        chosen = self.choice("section", "Section", {title: title for title in titles}, first, SECTIONS, bar=True)
        return (chosen,) if chosen else ()

    def shows(self, section: str) -> bool:
        """Whether this section is open, once the bar was drawn."""
        return bool(st.session_state.get(self.key("section")) == section)

    def peek(self, control: Control, name: str) -> Any:
        """What a choice or a number is set to, drawn or not."""
        key = self.key(name)
        if key in st.session_state:
            value = st.session_state[key]
            return _whole(value) if control.type is int else value
        said = st.query_params.get(key)
        if said is not None and not control.options:
            with suppress(ValueError):
                return _whole(float(said)) if control.type is int else float(said)
        return next((value for value, label in (control.options or {}).items() if label == said), control.default)

    def _keep(self, outside: Collection[str]) -> None:
        """Keep in the address what was set in controls of sections that are not drawn now. outside : keys of others."""
        drawn, key = set(map(self.key, self.titles)), self.key("kept")
        if key not in st.session_state:
            came = (name for name in st.query_params if name.startswith(f"{self.page}_") and name not in outside)
            st.session_state[key] = {name: st.query_params.get_all(name) for name in came}
        kept: dict[str, str | list[str]] = st.session_state[key]
        for name in drawn.difference(outside):
            kept.pop(name, None)
            if name in self.query:
                kept[name] = self.query[name]
        for name in kept.keys() - drawn:
            self.query[name] = kept[name]
            with suppress(StreamlitAPIException):  # where it was drawn just now, Streamlit keeps it this once
                st.query_params[name] = kept[name]

    def named(self, name: str, label: str, options: Iterable[str], help: str, first: str = "") -> str:
        """One of `options`, shown as they are; at first `first`, else the first of them, which also stands in for one
        that is no longer among them."""
        titles = {option: option for option in options}
        usual = first or next(iter(titles))
        chosen = self.choice(name, label, titles, usual, help)
        return chosen if chosen in titles else usual

    def switch(self, name: str, label: str, default: bool, help: str) -> bool:
        """On or off; the label says what "on" means."""

        def draw(_: Bind) -> bool:
            return st.toggle(label, value=default, key=self.key(name), help=help, bind="query-params")

        return self._bound(name, label, default, draw, lambda value: str(value).lower())

    def text(self, name: str, label: str, default: str, help: str) -> str:
        """A few lines of text."""

        def draw(_: Bind) -> str:
            return st.text_area(label, value=default, key=self.key(name), help=help, bind="query-params")

        return self._bound(name, label, default, draw, str, may_be_empty=True)

    def several(self, name: str, label: str, options: Sequence[str], default: Sequence[str], help: str) -> list[str]:
        """Any number of `options`, in their own order."""
        start, key = [option for option in options if option in default], self.key(name)

        def draw(_: Bind) -> list[str]:
            chosen = st.pills(
                label, options, selection_mode="multi", default=start, key=key, help=help, bind="query-params"
            )
            return [option for option in options if option in chosen]

        return self._bound(name, label, start, draw, list, may_be_empty=True)

    def check(self) -> None:
        """Raise UserError if a number drawn so far is out of range."""
        led = (mistake(lead.control, lead.value) for lead in self.leads)
        if mistakes := dict.fromkeys(filter(None, (*self.mistakes, *led))):
            raise UserError(" ".join(mistakes))

    def write(self, settings: Mapping[str, Any]) -> None:
        """Set controls from code, before they are drawn: in a callback, or at the top of a page."""
        for name, value in settings.items():
            is_count = isinstance(value, int) and not isinstance(value, bool)
            value = address_text(value) if isinstance(value, tuple) else value
            st.session_state[self.key(name)] = float(value) if is_count else value
            self._written.add(self.key(name))
        st.session_state[WHOLE] = True

    def say_unread(self) -> None:
        """Tell who came with an address of which something could not be used; when all controls have been drawn."""
        if self.unread:
            *first, last = self.unread
            said = f"Part of this link could not be read. Check {', '.join(first)}{' and ' * bool(first)}{last}."
            st.toast(said, icon=":material/link_off:", duration="long")

    def _bound(
        self,
        name: str,
        title: str,
        default: T,
        draw: Callable[[Bind], T],
        text: Callable[[Any], str | list[str]],
        *,
        may_be_empty: bool = False,
    ) -> T:
        """The value of a control that the address restores, as drawn by `draw`; text : the value in the address."""
        value = draw(self._begin(name, title, default, text, may_be_empty))
        self._end(name)
        if value != default:
            self.query[self.key(name)] = text(value)
        return value

    def _begin(
        self, name: str, title: str, default: Any, text: Callable[[Any], str | list[str]], may_be_empty: bool = False
    ) -> Bind:
        """Before a control is drawn: note its title, and put what was written to it into the address.

        Streamlit does that only for a control that has been drawn before, and for such a one refuses that we do it.
        Returns how the control is bound to the address: not at first, where that holds an empty value for one that
        has always some; some would be drawn without any.
        """
        self.titles[name] = title
        key = self.key(name)
        if key in self._written and (value := st.session_state[key]) != default:
            with suppress(StreamlitAPIException):
                st.query_params[key] = text(value)
        self._written.discard(key)
        if key not in st.session_state and key in st.query_params:
            given, usual = st.query_params.get_all(key), text(default)
            self._given[key] = (given, usual) if isinstance(usual, list) else (given[-1:], [usual])
            if not may_be_empty and not given[-1]:
                del st.query_params[key]
                return None
        return "query-params"

    def _end(self, name: str) -> None:
        """After a control was drawn: what Streamlit has left of its value in the address, it could use."""
        key = self.key(name)
        if key in self._given:
            given, usual = self._given[key]
            if not _same(given, st.query_params.get_all(key) if key in st.query_params else usual):
                self.unread.append(self.titles[name])


@dataclass
class Part(ABC):
    """All of a page but its sidebar, which a change of its own controls draws again alone.

    aside : the controls as the sidebar has left them. panel : these, and those that are drawn here. led : the values of
    the numbers above the picture when the sidebar was drawn. again : whether it is drawn without the sidebar now.
    """

    aside: Panel
    panel: Panel = field(init=False)
    led: Sequence[Any] = field(init=False)
    again: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.led = self.aside.led()

    def show(self) -> None:
        """Draw it, and have it drawn again."""
        st.fragment(self._drawn, key=self.aside.key("whole"))()

    @abstractmethod
    def draw(self) -> None:
        """Draw it once."""

    def draw_leads(self, all_read: bool = False) -> None:
        """Draw the numbers above the picture. If the sidebar shows what follows from them, or `all_read`, the whole
        page is drawn where they have changed."""
        with st.container(key=self.panel.key("leads"), horizontal=True, gap="medium", vertical_alignment="bottom"):
            self.panel.draw_leads()
        if self.again and (self.panel.reads_leads or all_read) and self.panel.led() != self.led:
            st.rerun()

    def _drawn(self) -> None:
        """Draw it, or the whole page if that is to change as well."""
        asked = st.session_state.get(WHOLE)
        if self.again and asked:
            st.rerun()
        self.panel = self.aside.copy()
        self.draw()
        self.again = True
        if asked:
            del st.session_state[WHOLE]
        streamlit_patches.page_drawn()


@contextmanager
def in_place(place: DeltaGenerator | None = None, go_on: bool = True) -> Iterator[None]:
    """Show a UserError raised inside as a message at `place` (or here); go on after the block, or raise it again.

    It may quote names of a link or a file, so all of it is plain text.
    """
    try:
        yield
    except UserError as error:
        show = (place or st).info if isinstance(error, NotYet) else (place or st).error
        show(sentence(str(error)), title=sentence(error.title))
        if not go_on:
            raise


def mistake(control: Control, value: float | int | tuple[float, ...] | None) -> str:
    """What is wrong with a number, or with several, in a sentence; empty if nothing is."""
    if control.count:
        low, high = control.each
        if isinstance(value, tuple) and len(value) == control.count and all(low <= x <= high for x in value):
            return ""
        return f"{control.label} {several_between(control)}, with commas between them."
    assert not isinstance(value, tuple)
    if value is None:
        return "" if control.optional else f"{control.label} needs a number."
    if control.low is not None and control.high is not None and not control.low <= value <= control.high:
        return f"{control.label} must be between {short(control.low, 6)} and {short(control.high, 6)}."
    if control.type is int and not isinstance(value, int):
        return f"{control.label} must be a whole number."
    return ""


def grid(control: Control) -> tuple[float, ...]:
    """The slider's points: round numbers, 1-2-5 where they are whole; both ends and the default are among them.

    Empty for a range so wide that a slider is of no use (a seed).
    """
    low, high = control.low, control.high
    if low is None or high is None:
        return ()
    is_count = control.type is int
    if control.scale == "log":
        points = _decades(low, high, MANTISSAS[-1]) if is_count else _log_points(low, high)
    elif is_count and high - low > 1000:
        return ()
    else:
        count = min(LINEAR_POINTS, int(high - low)) if is_count else LINEAR_POINTS
        points = [round(x) if is_count else float(f"{x:.3g}") for x in np.linspace(low, high, count + 1)]
    ends = [low, high] if control.default is None else [low, high, control.default]
    kind = int if is_count else float
    return tuple(sorted({kind(x) for x in [*points, *ends] if low <= x <= high}))


def with_value(points: tuple[float, ...], value: float | None) -> tuple[float, ...]:
    """The grid points and, if there is one and it lies between them, a value of its own."""
    return points if value is None or value in points else tuple(sorted((*points, value)))


@lru_cache(maxsize=1000)
def point_texts(points: tuple[float, ...]) -> Mapping[float, str]:
    """The points as a slider shows them: with three digits where these say it all, else with as many as tell it from
    the others."""
    points_by_text: dict[str, float] = {}
    for point in sorted(points, key=lambda point: float(f"{point:.3g}") != point):
        texts = (short(point, digits) for digits in range(3, 18))
        points_by_text[next(text for text in texts if text not in points_by_text)] = point
    return {point: text for text, point in points_by_text.items()}


def _point_text(points: tuple[float, ...]) -> Callable[[float], str]:
    """The text of a point; of a former point, too: Streamlit asks for it where one page is cut short by the next."""
    texts = point_texts(points)
    return lambda point: texts.get(point) or short(point, 17)


def nearest(points: Sequence[float], value: float) -> float:
    """The grid point nearest to a value; by ratio, where all points are positive."""
    if points[0] > 0:
        return min(points, key=lambda x: abs(math.log(x / max(value, points[0] / 10))))
    return min(points, key=lambda x: abs(x - value))


def _log_points(low: float, high: float) -> list[float]:
    candidates = [_decades(low, high, mantissas) for mantissas in MANTISSAS]
    return next((points for points in candidates if len(points) <= LOG_POINTS), candidates[-1])


def _decades(low: float, high: float, mantissas: Sequence[float]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    points = [float(f"{mantissa}e{power}") for power in powers for mantissa in mantissas]
    return [point for point in points if low <= point <= high]


def _step(control: Control) -> float:
    """What one press of the input's plus adds."""
    if control.type is int:
        return 1.0
    if control.scale == "log" and control.default:
        return float(10.0 ** (math.floor(math.log10(control.default)) - 1))
    return 0.01


def _number_text(value: float | None) -> str:
    return "" if value is None else repr(value)


def _words(lead: Lead) -> str:
    """The value of a number above the picture with its symbol; of several numbers, their shape."""
    if isinstance(lead.value, tuple):
        return f"shape {' '.join(map(short, lead.value))}"
    return f"{lead.control.symbol or lead.control.label} = {lead.empty if lead.value is None else short(lead.value)}"


def _read_numbers(text: str) -> tuple[float, ...] | None:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        return None


def _same(given: Sequence[str], left: Sequence[str]) -> bool:
    """Whether two lists of an address say the same, in any order; numbers however they are written."""
    return sorted(map(_read, given), key=str) == sorted(map(_read, left), key=str)


def _read(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.casefold()


def _whole(value: float | None) -> float | int | None:
    return int(value) if value is not None and float(value).is_integer() else value


def _copy(source: str, target: str) -> None:
    st.session_state[target] = float(st.session_state[source])
