"""Widgets from declared ranges: a Specification declares what can be set, this module draws it.

A number is a slider for dragging and an input for the exact value. The input holds the value and is part of the
address; the slider shows the same value, even between the points of its grid, and sets the input.
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

LOG_POINTS = 45  # largest number on a logarithmic slider
LINEAR_POINTS = 60
# Round numbers within a decade, from fine to coarse: a slider takes the finest that keeps it short enough.
MANTISSAS = (
    (1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
)
WHOLE = "draw_the_whole_page"  # session key: controls were set from code, maybe outside the part drawn again alone
SECTIONS = "What stands below. The link of the page remembers it."
SEGMENTS = 5  # largest number of options in a segmented control
SEGMENTS_LENGTH = 30  # largest number of characters of their labels that fit side by side in the sidebar


@dataclass(frozen=True)
class Settings(Generic[S]):
    """Values for a Specification, built only when all controls have been drawn, so that no mistake hides another."""

    cls: type[S]
    values: Mapping[str, Any]

    def build(self) -> S:
        """Return the Specification; raise UserError if the values do not go together."""
        with sentences(self.cls):
            return self.cls(**self.values)


@dataclass(frozen=True)
class Lead:
    """A number above the picture: drawn after the other controls, and again without them; or several numbers, which
    the handles of a chart set.

    position : in the order of these numbers. name : of the control's key. into : gets the value, by the name of its
        setting.
    empty : as in `Panel.number`.
    """

    position: int
    control: Control
    name: str
    into: dict[str, Any]
    empty: str

    @property
    def value(self) -> Any:
        """Present value."""
        return self.into[self.control.name]


class Panel:
    """The controls of one page in one rerun.

    page : prefix of all keys, which are also the names in the address.
    query : settings of the address without defaults; complete after the last control was drawn.
    titles : the visible labels of the controls drawn so far, by name.
    mistakes : sentences about numbers out of range, each also shown at its control.
    unread : titles of the controls whose value in the visitor's first address could not be used.
    leads : the numbers above the picture. reads_leads : whether another control shows a consequence of one of them.
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
        """Return the key of a control: `<page>_<name>`."""
        return f"{self.page}_{name}"

    def copy(self) -> "Panel":
        """Return a copy for a part of the page that is drawn again without the controls drawn so far."""
        panel = copy(self)
        panel.query, panel.titles, panel._given = dict(self.query), dict(self.titles), dict(self._given)
        panel.mistakes, panel.unread = list(self.mistakes), list(self.unread)
        return panel

    def lead(
        self, position: int, control: Control, into: dict[str, Any], *, prefix: str = "", empty: str = "by theory"
    ) -> None:
        """Let a number be drawn above the picture; until then, use the value that it will be drawn with.

        Arguments as the fields of `Lead`; `into` gets the value under the control's name, without the prefix.
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
        self.leads.append(Lead(position, control, prefix + control.name, into, empty))

    def draw_leads(self) -> None:
        """Draw the numbers above the picture, and pass their values on."""
        for lead in sorted(self.leads, key=lambda lead: lead.position):
            is_filled = st.session_state.get(self.key(lead.name), lead.value) is not None
            with st.container(key=self.key(f"lead_{lead.name}")):
                lead.into[lead.control.name] = (
                    self.numbers(lead.control, lead.name)
                    if lead.control.count
                    else self.number(lead.control, lead.name, empty=lead.empty, filled=is_filled, leads=True)
                )

    def led(self) -> list[Any]:
        """Return the values of the numbers above the picture."""
        return [lead.value for lead in self.leads]

    def lead_texts(self) -> dict[str, str]:
        """Return the numbers above the picture in words, such as "ε = 2", by the titles of their controls."""
        return {lead.control.title: _words(lead) for lead in self.leads}

    def handles(self, key: str) -> components.Handles | None:
        """Return what the handles of the chart with this key set: the several numbers that lead; None without."""
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
        """Draw the controls `names` of a Specification; return values by field name. Keys: `<page>_<prefix><field>`."""
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
        """Draw slider and input; only an input for an optional value, a range like a seed's, or without `slider`.

        empty : placeholder, the meaning of an optional value without entry. filled : whether an optional value is
            entered and so has a slider, too. leads : whether the picture below follows the slider. on_change : callback
            of an input without slider.
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
        """Draw several numbers as a text with commas between them; return them, None if the text has other parts.

        Handles set it: `shell.css` does not show it, and the browser keeps it in the address.
        """
        key, default = self.key(name), address_text(control.default)
        given = st.query_params.get(key, default)
        is_unread = key not in st.session_state and bool(mistake(control, _read_numbers(given)))
        if is_unread:  # nothing on the page could mend it
            del st.query_params[key]
            self.unread.append(control.title)
        bind = self._begin(name, control.title, default, str, may_be_empty=True)
        bind = None if is_unread else bind
        text = st.text_input(control.title, value=default, key=key, help=control.help, bind=bind)
        self._end(name)
        value = _read_numbers(text)
        if value != control.default:
            self.query[key] = text
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
            st.session_state[key] = st.session_state[key]  # send it again: the value that its slider set may be lost

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
        """Draw the slider of a number a second time; moving it sets the same control."""
        self._slider(control, control.name, grid(control), value, "again")

    def _slider(
        self, control: Control, name: str, points: tuple[float, ...], value: float | None, suffix: str = "slider"
    ) -> None:
        key = self.key(f"{name}_{suffix}")
        points, point = self._points(control, name, points, value)
        if st.session_state.get(key) != point:
            st.session_state[key] = point
        # A value that is set here is sent once, and lost if the page is drawn again at that moment; the first value of
        # the slider is sent every time.
        first = st.session_state.setdefault(f"{key}_born", point)
        st.select_slider(
            control.title,
            options=points,
            value=first if first in points else point,
            key=key,
            format_func=_point_text(points),
            help=control.help,
            on_change=_copy,
            args=(key, self.key(name)),
        )

    def _points(
        self, control: Control, name: str, points: tuple[float, ...], value: float | None
    ) -> tuple[tuple[float, ...], float]:
        """Return the stops of a slider, with the exact value if it is between those of the grid, and the present
        stop."""
        extra_key = self.key(f"{name}_own")
        if value is not None and value not in points and not mistake(control, value):
            st.session_state[extra_key] = value  # stays a stop, because stops must not move while the slider is dragged
        points = with_value(points, st.session_state.get(extra_key))
        return points, nearest(points, control.default if value is None else value)

    def _leading_slider(self, control: Control, name: str, points: tuple[float, ...], value: float | None) -> None:
        """Draw a slider whose stops the browser draws while it is dragged."""
        key, turn = self.key(f"{name}_slider"), self.key(f"{name}_turn")
        points, point = self._points(control, name, points, value)

        def move() -> None:
            match st.session_state[key]["move"]:
                case {"index": int(index), "turn": int(new_turn)} if 0 <= index < len(points):
                    st.session_state[self.key(name)], st.session_state[turn] = float(points[index]), new_turn

        def press() -> None:
            st.session_state[self.key("pressed")] = name, points

        components.slider(
            key,
            control.title,
            control.help,
            [*map(point_texts(points).__getitem__, points)],
            points.index(point),
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
        """Draw one of `options` (value -> label): side by side if they are few and short, else a menu; return the
        value.

        bar : side by side in any case, over the whole width, and optional ("" for none).
        above : side by side above their subject, without the label.
        """
        text, values = {"": "", **options}.__getitem__, list(options)
        shared: Any = {"format_func": text, "key": self.key(name), "help": help, "on_change": on_change}

        def draw(bind: Bind) -> str:
            if bar:
                style: Any = {"label_visibility": "collapsed", "width": "stretch"}
                return st.segmented_control(label, values, default=default or None, bind=bind, **shared, **style) or ""
            if above or (len(options) <= SEGMENTS and sum(map(len, options.values())) <= SEGMENTS_LENGTH):
                style = {"label_visibility": "collapsed" if above else "visible"}
                return st.segmented_control(label, values, default=default, required=True, bind=bind, **shared, **style)
            return st.selectbox(label, values, index=values.index(default), bind=bind, **shared)

        return self._bound(name, label, default, draw, text, may_be_empty=bar)

    def sections(self, parts: Mapping[str, Callable[[], None]], first: str = "", keeps: bool = False) -> None:
        """Draw the sections of a page, by their titles: a bar, and the open section; only that one is computed.

        first : title of the section that is open at first. keeps : whether the settings of the other sections stay, in
            the address, too.
        """
        outside = set(map(self.key, self.titles))
        for name in self.opened(parts, first):
            self.heard(name)
            parts[name]()
        if keeps:
            self._keep(outside)

    def heard(self, title: str) -> None:
        """Draw a heading for screen readers only: on the screen, the content below makes it unnecessary."""
        with st.container(key=self.key(f"heard_{title}")):
            st.header(title, anchor=False)

    def opened(self, titles: Iterable[str], first: str = "") -> Sequence[str]:
        """Draw the bar of sections; return the open one, or nothing, as a sequence."""
        section = self.choice("section", "Section", {title: title for title in titles}, first, SECTIONS, bar=True)
        return (section,) if section else ()

    def shows(self, section: str) -> bool:
        """Return whether this section is open, once the bar was drawn."""
        return bool(st.session_state.get(self.key("section")) == section)

    def peek(self, control: Control, name: str) -> Any:
        """Return the value of a choice or a number, drawn or not."""
        key = self.key(name)
        if key in st.session_state:
            value = st.session_state[key]
            return _whole(value) if control.type is int else value
        text = st.query_params.get(key)
        if text is not None and not control.options:
            with suppress(ValueError):
                return _whole(float(text)) if control.type is int else float(text)
        return next((value for value, label in (control.options or {}).items() if label == text), control.default)

    def _keep(self, outside: Collection[str]) -> None:
        """Keep in the address the settings of sections that are not drawn now. outside : keys of controls of no
        section."""
        drawn_keys, key = set(map(self.key, self.titles)), self.key("kept")
        if key not in st.session_state:
            names = (name for name in st.query_params if name.startswith(f"{self.page}_") and name not in outside)
            st.session_state[key] = {name: st.query_params.get_all(name) for name in names}
        stored: dict[str, str | list[str]] = st.session_state[key]
        for name in drawn_keys.difference(outside):
            stored.pop(name, None)
            if name in self.query:
                stored[name] = self.query[name]
        for name in stored.keys() - drawn_keys:
            self.query[name] = stored[name]
            with suppress(StreamlitAPIException):  # a control of the last drawing: Streamlit keeps its value this once
                st.query_params[name] = stored[name]

    def named(self, name: str, label: str, options: Iterable[str], help: str, first: str = "") -> str:
        """Draw one of `options` as they are; return it.

        At first `first`, else the first option, which also replaces a selected option that no longer exists.
        """
        titles = {option: option for option in options}
        usual = first or next(iter(titles))
        selected = self.choice(name, label, titles, usual, help)
        return selected if selected in titles else usual

    def switch(self, name: str, label: str, default: bool, help: str) -> bool:
        """Draw a switch, whose label says what "on" means; return whether it is on."""

        def draw(_: Bind) -> bool:
            return st.toggle(label, value=default, key=self.key(name), help=help, bind="query-params")

        return self._bound(name, label, default, draw, lambda value: str(value).lower())

    def text(self, name: str, label: str, default: str, help: str) -> str:
        """Draw a few lines of text; return them."""

        def draw(_: Bind) -> str:
            return st.text_area(label, value=default, key=self.key(name), help=help, bind="query-params")

        return self._bound(name, label, default, draw, str, may_be_empty=True)

    def several(self, name: str, label: str, options: Sequence[str], default: Sequence[str], help: str) -> list[str]:
        """Draw a choice of any number of `options`; return them in their own order."""
        start, key = [option for option in options if option in default], self.key(name)

        def draw(_: Bind) -> list[str]:
            selected = st.pills(
                label, options, selection_mode="multi", default=start, key=key, help=help, bind="query-params"
            )
            return [option for option in options if option in selected]

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
        """Tell a visitor whose address had an unusable part; called when all controls have been drawn."""
        if self.unread:
            *first, last = self.unread
            sentence = f"Part of this link could not be read. Check {', '.join(first)}{' and ' * bool(first)}{last}."
            st.toast(sentence, icon=":material/link_off:", duration="long")

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
        """Return the value of a control that the address restores, as drawn by `draw`. text : returns the value's
        form in the address."""
        value = draw(self._begin(name, title, default, text, may_be_empty))
        self._end(name)
        if value != default:
            self.query[self.key(name)] = text(value)
        return value

    def _begin(
        self, name: str, title: str, default: Any, text: Callable[[Any], str | list[str]], may_be_empty: bool = False
    ) -> Bind:
        """Prepare the drawing of a control: note its title, and put a value set by `write` into the address.

        Streamlit does the latter only for a control that has been drawn before, and then refuses that we do it.
        Returns how the control is bound to the address: not bound at first if the address has an empty value for a
        control that always has one, because Streamlit would draw some of these without any value.
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
        """Note a control as unread if Streamlit, having drawn it, has dropped its value from the address."""
        key = self.key(name)
        if key in self._given:
            given, usual = self._given[key]
            if not _same(given, st.query_params.get_all(key) if key in st.query_params else usual):
                self.unread.append(self.titles[name])


@dataclass
class Part(ABC):
    """All of a page but its sidebar, which a change of its own controls draws again alone.

    aside : the controls that the sidebar has drawn. panel : these, and those that are drawn here.
    led : values of the numbers above the picture when the sidebar was drawn.
    again : whether it is now drawn without the sidebar.
    """

    aside: Panel
    panel: Panel = field(init=False)
    led: Sequence[Any] = field(init=False)
    again: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.led = self.aside.led()

    def show(self) -> None:
        """Draw it, as a fragment that its own controls draw again."""
        st.fragment(self._draw_again, key=self.aside.key("whole"))()

    @abstractmethod
    def draw(self) -> None:
        """Draw it once."""

    def draw_leads(self, all_read: bool = False) -> None:
        """Draw the numbers above the picture.

        If they have changed, the whole page is drawn if the sidebar shows a consequence of them, or with `all_read`.
        """
        with st.container(key=self.panel.key("leads"), horizontal=True, gap="medium", vertical_alignment="bottom"):
            self.panel.draw_leads()
        if self.again and (self.panel.reads_leads or all_read) and self.panel.led() != self.led:
            st.rerun()

    def _draw_again(self) -> None:
        """Draw it, or the whole page if other parts of the page have to change as well."""
        must_draw_whole = st.session_state.get(WHOLE)
        if self.again and must_draw_whole:
            st.rerun()
        self.panel = self.aside.copy()
        self.draw()
        self.again = True
        if must_draw_whole:
            del st.session_state[WHOLE]
        streamlit_patches.page_drawn()


@contextmanager
def in_place(container: DeltaGenerator | None = None, go_on: bool = True) -> Iterator[None]:
    """Show a UserError raised inside as a message in `container` (or here); go on after the block, or raise it again.

    The error may quote names of a link or a file, so all of it is plain text.
    """
    try:
        yield
    except UserError as error:
        show = (container or st).info if isinstance(error, NotYet) else (container or st).error
        show(sentence(str(error)), title=sentence(error.title))
        if not go_on:
            raise


def mistake(control: Control, value: float | int | tuple[float, ...] | None) -> str:
    """Return a sentence on what is wrong with a number, or with several; "" if nothing is."""
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
    """Return the slider's points: round numbers, 1-2-5 where they are whole, with both ends and the default.

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
    """Return the grid points with `value` among them, if there is one."""
    return points if value is None or value in points else tuple(sorted((*points, value)))


@lru_cache(maxsize=1000)
def point_texts(points: tuple[float, ...]) -> Mapping[float, str]:
    """Return the texts of a slider's points: three digits where these are exact, else enough to tell points apart."""
    points_by_text: dict[str, float] = {}
    for point in sorted(points, key=lambda point: float(f"{point:.3g}") != point):
        texts = (short(point, digits) for digits in range(3, 18))
        points_by_text[next(text for text in texts if text not in points_by_text)] = point
    return {point: text for text, point in points_by_text.items()}


def _point_text(points: tuple[float, ...]) -> Callable[[float], str]:
    """Return a function for the text of a point; also of an old point: Streamlit needs it where one rerun interrupts
    another."""
    texts = point_texts(points)
    return lambda point: texts.get(point) or short(point, 17)


def nearest(points: Sequence[float], value: float) -> float:
    """Return the grid point nearest to a value; by ratio where all points are positive."""
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
    """Return what one press of the input's plus adds."""
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


def _same(given: Sequence[str], remaining: Sequence[str]) -> bool:
    """Return whether two lists of an address are equal in any order; numbers may be written differently."""
    return sorted(map(_read, given), key=str) == sorted(map(_read, remaining), key=str)


def _read(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.casefold()


def _whole(value: float | None) -> float | int | None:
    return int(value) if value is not None and float(value).is_integer() else value


def _copy(source: str, target: str) -> None:
    st.session_state[target] = float(st.session_state[source])
