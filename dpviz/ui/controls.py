"""The controls of a page, drawn from the settings that a Specification declares: their names, ranges and defaults.

A number has a slider for dragging and an input for the exact value. The input holds the value and is part of the
address; the slider shows the same value, even between the points of its grid, and sets the input.

A few numbers lead: they are drawn above the picture of the page, in the part that is drawn again without the sidebar.
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

from dpviz.errors import MissingInput, UserError
from dpviz.numbers import short
from dpviz.specification import Control, Specification, address_text, between, several_between
from dpviz.ui import components, streamlit_patches
from dpviz.ui.markdown import escape_sentence

S = TypeVar("S", bound=Specification)
T = TypeVar("T")
Bind = Literal["query-params"] | None  # argument of Streamlit: whether a control is bound to the address

LOG_POINTS = 45  # largest number of points of a logarithmic slider
LINEAR_POINTS = 60  # number of intervals of a linear slider
# Round numbers within a decade, from fine to coarse: a slider takes the finest with at most LOG_POINTS points.
MANTISSAS = (
    (1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
)
# Session key: the whole page has to be drawn, as controls were set from code, also outside the part that was asked for.
WHOLE = "draw_the_whole_page"
UNREAD = ":material/link_off:"  # icon of each message that a part of an address could not be used
SECTIONS = "What stands below. The link of the page remembers it."
SEGMENTS = 5  # largest number of options in a segmented control
SEGMENTS_LENGTH = 30  # largest number of characters of all their labels, which fit side by side in the sidebar


@dataclass(frozen=True)
class Settings(Generic[S]):
    """The values of the controls of a Specification, which is built only when all controls have been drawn.

    So a mistake in one of them hides none in another.
    """

    cls: type[S]
    values: Mapping[str, Any]

    def build(self) -> S:
        """Return the Specification with these values. Raises UserError if they do not go together, or one is outside
        of the range of its slider, which bounds the work of the server."""
        specification = self.cls(**self.values)
        specification.check_ranges()
        return specification


@dataclass(frozen=True)
class Lead:
    """A leading control: a number that is drawn above the picture, or several numbers that the handles of a chart set.

    It is drawn after all other controls, and again without them when the picture is drawn again.

    position : its place in the order of the leading controls. name : name of the control, with which its key ends.
    into : the values of a specification by setting, among which the control writes its own. empty : text in the input
    of a number without an entry.
    """

    position: int
    control: Control
    name: str
    into: dict[str, Any]
    empty: str

    @property
    def value(self) -> Any:
        """The present value."""
        return self.into[self.control.name]


class Panel:
    """The controls of a page during one drawing of it.

    page : prefix of all keys, which are also the names of the controls in the address.
    query : the values of the controls that differ from their defaults, as texts in the address by key; complete after
    the last control was drawn.
    titles : the labels of the controls drawn so far, by name.
    mistakes : sentences about numbers out of range, each of which is also drawn at its control.
    unread : labels of the controls whose value in the address with which the visitor came could not be used.
    leads : the leading controls. reads_leads : true if another control shows a consequence of one of them.
    """

    def __init__(self, page: str) -> None:
        self.page = page
        self.query: dict[str, str | list[str]] = {}
        self.titles: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.unread: list[str] = []
        self.leads: list[Lead] = []
        self.reads_leads = False
        # By key: a control's values in the address before it was first drawn, and its default in the same form.
        self._given: dict[str, tuple[list[str], list[str]]] = {}
        self._written: set[str] = set()  # keys of the controls that code has set, and that are not drawn yet

    def key(self, name: str) -> str:
        """Return the key of a control: `<page>_<name>`."""
        return f"{self.page}_{name}"

    def copy(self) -> "Panel":
        """Return a copy for a part of the page that is drawn again, which adds its controls to those drawn so far."""
        panel = copy(self)  # with the same `leads`: all of them were noted before
        panel.query, panel.titles, panel._given = dict(self.query), dict(self.titles), dict(self._given)
        panel.mistakes, panel.unread = list(self.mistakes), list(self.unread)
        return panel

    def add_lead(
        self, position: int, control: Control, into: dict[str, Any], *, prefix: str = "", empty: str = "by theory"
    ) -> None:
        """Note a control as a leading one, which `draw_leads` draws later; write the value it will have into `into`.

        prefix : put before the control's name in its key, not in `into`. Other arguments are the fields of `Lead`.
        """
        # The control is not drawn yet, so its value is read where Streamlit will find it: in the session, or else in
        # the address. If the text in the address is no number, drawing the control will tell the visitor.
        key = self.key(prefix + control.name)
        value: Any = control.default
        if control.count:
            numbers = _read_numbers(st.session_state.get(key, st.query_params.get(key, "")))
            if not input_error(control, numbers):
                value = numbers
        elif key in st.session_state:
            value = st.session_state[key]
        elif key in st.query_params:
            with suppress(ValueError):
                number = float(st.query_params[key])
                if math.isfinite(number):  # in place of infinity and nan, Streamlit takes the default
                    value = number
        into[control.name] = _int_if_whole(value) if control.type is int else value
        self.leads.append(Lead(position, control, prefix + control.name, into, empty))

    def draw_leads(self) -> None:
        """Draw the leading controls, and write each value into the mapping `into` of its `Lead`."""
        for lead in sorted(self.leads, key=lambda lead: lead.position):
            is_filled = st.session_state.get(self.key(lead.name), lead.value) is not None
            with st.container(key=self.key(f"lead_{lead.name}")):
                if lead.control.count:
                    value: Any = self.numbers(lead.control, lead.name)
                else:
                    value = self.number(lead.control, lead.name, empty=lead.empty, is_filled=is_filled, is_leading=True)
            lead.into[lead.control.name] = value

    def lead_values(self) -> list[Any]:
        """Return the values of the leading controls."""
        return [lead.value for lead in self.leads]

    def lead_texts(self) -> dict[str, str]:
        """Return the values of the leading controls as texts, by the labels of these controls.

        Such a text is "ε = 2" or, for several numbers, which are the shape of a schedule, "shape 1 0.5".
        """
        texts = {}
        for lead in self.leads:
            if isinstance(lead.value, tuple):
                text = f"shape {' '.join(map(short, lead.value))}"
            else:
                value = lead.empty if lead.value is None else short(lead.value)
                text = f"{lead.control.symbol or lead.control.label} = {value}"
            texts[lead.control.title] = text
        return texts

    def handles(self, key: str) -> components.Handles | None:
        """Return the handles of the chart with this key, which set the leading control of several numbers.

        Return None if no leading control has several numbers.
        """
        lead = next((lead for lead in self.leads if lead.control.count), None)
        if lead is None:
            return None
        # The turn is the browser's number of its last move, sent back so that it can tell old values from new ones.
        control, control_key, turn_key = lead.control, self.key(lead.name), self.key(f"{lead.name}_turn")

        def move() -> None:
            match st.session_state[key]["handles"]:  # a message of the browser, which may have any form
                case {"values": [*values], "turn": int(turn)} if all(isinstance(x, int | float) for x in values):
                    if not input_error(control, tuple(values)):
                        st.session_state[control_key] = address_text(tuple(values))
                        st.session_state[turn_key] = turn

        return components.Handles(control.title, st.session_state.get(turn_key, 0), move)

    def draw_controls(self, cls: type[Specification], names: Sequence[str], prefix: str = "") -> dict[str, Any]:
        """Draw the controls of the settings `names` of a Specification; return their values by setting.

        Their keys are `<page>_<prefix><setting>`.
        """
        declared = {control.name: control for control in cls.controls()}
        return {name: self.control(declared[name], prefix + name) for name in names}

    def control(self, control: Control, name: str) -> Any:
        """Draw a control of any type under the name `name`; return its value."""
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
        is_filled: bool = False,
        is_leading: bool = False,
        on_change: Callable[[], None] | None = None,
    ) -> float | int | None:
        """Draw a number with slider and input; return it, None for an optional one that is empty.

        There is no slider for an optional number, unless it `is_filled`, nor for a range so wide that a slider is of no
        use.

        empty : text in an empty input, which says what an optional number then means. slider : false to draw only the
        input. is_filled : true if an optional number had an entry before this drawing. is_leading : true if the picture
        follows the slider while it is dragged. disabled, on_change : of an input without slider.
        """
        points = grid(control) if slider and (is_filled or not control.optional) else ()
        if not points:
            value = self._input(control, name, disabled=disabled, placeholder=empty, on_change=on_change)
        else:
            # The input is drawn first, as the slider shows its value; `shell.css` shows them the other way round.
            with st.container(horizontal=True, gap="small", vertical_alignment="bottom", wrap=False):
                value = self._input(control, name, beside_slider=True, placeholder=empty)
                if value is not None or not control.optional:  # an optional number may have lost its entry just now
                    draw_slider = self._leading_slider if is_leading else self._slider
                    draw_slider(control, name, points, value)
        self._show_mistake(control, value)
        return value

    def numbers(self, control: Control, name: str) -> tuple[float, ...] | None:
        """Draw a control of several numbers, which is a text with commas between them; return the numbers.

        Return None if a part of the text is no number. `shell.css` hides the text, as the handles of a chart set it: it
        is drawn because the browser then keeps it in the address.
        """
        key, default = self.key(name), address_text(control.default)
        given = st.query_params.get(key, default)
        is_unread = key not in st.session_state and bool(input_error(control, _read_numbers(given)))
        if is_unread:  # the default instead, as the visitor could not correct a text that is hidden
            del st.query_params[key]
            self.unread.append(control.title)
        bind = self._prepare_bind(name, control.title, default, str, may_be_empty=True)
        if is_unread:  # Streamlit would still give a bound control the text with which the visitor came
            bind = None
        text = st.text_input(control.title, value=default, key=key, help=control.help, bind=bind)
        self._note_unread(name)
        value = _read_numbers(text)
        if value != control.default:
            self.query[key] = text
        self._show_mistake(control, value)
        return value

    def _show_mistake(self, control: Control, value: float | int | tuple[float, ...] | None) -> None:
        """Draw a sentence on what is wrong with the value of a control, and note it; do nothing if it is right."""
        problem = input_error(control, value)
        if problem:
            st.error(problem)
            self.mistakes.append(problem)

    def _input(
        self, control: Control, name: str, *, beside_slider: bool = False, placeholder: str = "", **options: Any
    ) -> float | int | None:
        """Draw the input of a number; return the number, None if it is empty.

        In a control of whole numbers, any other number is returned as a float, so that `input_error` finds it.

        placeholder : text in an empty input. options : further arguments of `st.number_input`.
        """
        default: Any = None if control.default is None else float(control.default)
        key = self.key(name)
        has_value = beside_slider and key in st.session_state
        if has_value and streamlit_patches.browser_has_other_number(key, st.session_state[key]):
            st.session_state[key] = st.session_state[key]  # sent again: the value that its slider set may be lost

        def draw(bind: Bind) -> float | int | None:
            value = st.number_input(
                f"{control.title}, exact value" if beside_slider else control.title,
                value=default,
                step=_step(control),
                # A whole number is a float for Streamlit, too: as an integer, 1e400 in an address would crash.
                format="%.10g" if control.type is int else "%.4g",
                key=self.key(name),
                help=None if beside_slider else control.help,
                label_visibility="collapsed" if beside_slider else "visible",
                placeholder=placeholder if control.optional else None,
                bind=bind,
                **options,
            )
            return _int_if_whole(value) if control.type is int else value

        def text(value: float | int | None) -> str:
            return "" if value is None else repr(value)

        return self._bound(name, control.title, default, draw, text, may_be_empty=control.optional)

    def second_slider(self, control: Control, value: float) -> None:
        """Draw the slider of a number a second time, elsewhere on the page; it sets the same control."""
        self._slider(control, control.name, grid(control), value, suffix="again")

    def _slider(
        self, control: Control, name: str, points: tuple[float, ...], value: float | None, suffix: str = "slider"
    ) -> None:
        """Draw the slider of a number, which sets the input when it is moved.

        points : of the grid. value : the number, None if it is empty. suffix : ending of the slider's key.
        """
        key = self.key(f"{name}_{suffix}")
        stops, stop = self._stops(control, name, points, value)
        if st.session_state.get(key) != stop:
            st.session_state[key] = stop
        # Streamlit sends a value that is set in the session only once; it is lost if the page is drawn again just then.
        # The argument `value` is sent every time, but must never change: it is the stop of the first drawing.
        first_stop = st.session_state.setdefault(f"{key}_born", stop)
        texts = point_texts(stops)
        st.select_slider(
            control.title,
            options=stops,
            value=first_stop if first_stop in stops else stop,  # the grid may be another one
            key=key,
            # When one rerun interrupts another, Streamlit may ask for the text of a point of an earlier grid.
            format_func=lambda point: texts.get(point) or short(point, 17),
            help=control.help,
            on_change=_copy,
            args=(key, self.key(name)),
        )

    def _stops(
        self, control: Control, name: str, points: tuple[float, ...], value: float | None
    ) -> tuple[tuple[float, ...], float]:
        """Return the stops of a slider, and the stop at which it is now.

        The stops are `points`, those of the grid, and the last number that was between them. value : the number, None
        if it is empty: then the slider is at the default.
        """
        extra_key = self.key(f"{name}_own")
        if value is not None and value not in points and not input_error(control, value):
            st.session_state[extra_key] = value  # stays a stop, because stops must not move while the slider is dragged
        extra = st.session_state.get(extra_key)
        if extra is not None and extra not in points:
            points = tuple(sorted((*points, extra)))
        return points, nearest(points, control.default if value is None else value)

    def _leading_slider(self, control: Control, name: str, points: tuple[float, ...], value: float | None) -> None:
        """Draw the slider of a leading number, at whose stops the browser draws the plan while it is dragged.

        The arguments are those of `_slider`.
        """
        key, turn_key = self.key(f"{name}_slider"), self.key(f"{name}_turn")
        stops, stop = self._stops(control, name, points, value)

        def move() -> None:
            message = (st.session_state.get(key) or {}).get("move")  # of the browser, so it may have any form
            match message:
                case {"index": int(index), "turn": int(turn)} if 0 <= index < len(stops):
                    st.session_state[self.key(name)] = float(stops[index])
                    st.session_state[turn_key] = turn

        def press() -> None:
            st.session_state[self.key("pressed")] = name, stops  # the page then sends the plan at these stops

        # `turn` is the browser's number of its last move, sent back so that it can tell an old value from a new one.
        components.slider(
            key,
            control.title,
            control.help,
            texts=[point_texts(stops)[point] for point in stops],
            index=stops.index(stop),
            turn=st.session_state.get(turn_key, 0),
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
        """Draw a choice of one of `options`, labels by value; return the value.

        The options are side by side if they are few and short, and else a menu.

        bar : true to draw them side by side over the whole width; then none may be chosen, which returns "".
        above : true to draw them side by side above their subject, without the label of the choice.
        """
        labels = {"": "", **options}  # "" is the value of a bar in which none is chosen
        values = list(options)
        shared: Any = {"format_func": labels.__getitem__, "key": self.key(name), "help": help, "on_change": on_change}

        def draw(bind: Bind) -> str:
            if bar:
                style: Any = {"label_visibility": "collapsed", "width": "stretch"}
                return st.segmented_control(label, values, default=default or None, bind=bind, **shared, **style) or ""
            is_short = len(options) <= SEGMENTS and sum(map(len, options.values())) <= SEGMENTS_LENGTH
            if above or is_short:
                style = {"label_visibility": "collapsed" if above else "visible"}
                return st.segmented_control(label, values, default=default, required=True, bind=bind, **shared, **style)
            return st.selectbox(label, values, index=values.index(default), bind=bind, **shared)

        return self._bound(name, label, default, draw, labels.__getitem__, may_be_empty=bar)

    def sections(self, parts: Mapping[str, Callable[[], None]], first: str = "", keeps: bool = False) -> None:
        """Draw the bar of a page's sections, and the open section; no other one is computed.

        parts : functions that draw a section, by its title. first : title of the section that is open at first.
        keeps : true to keep the values of the controls of closed sections, also in the address.
        """
        outside = set(map(self.key, self.titles))  # keys of the controls drawn before the sections
        for title in self.open_sections(parts, first):
            self.hidden_heading(title)
            parts[title]()
        if keeps:
            self._keep_closed(outside)

    def hidden_heading(self, title: str) -> None:
        """Draw a heading that only screen readers read: on the screen, the content below makes it unnecessary."""
        with st.container(key=self.key(f"heard_{title}")):
            st.header(title, anchor=False)

    def open_sections(self, titles: Iterable[str], first: str = "") -> Sequence[str]:
        """Draw the bar of sections; return the title of the open one in a sequence, empty if none is open."""
        section = self.choice("section", "Section", {title: title for title in titles}, first, SECTIONS, bar=True)
        return (section,) if section else ()

    def shows(self, section: str) -> bool:
        """Return true if this section is open; it is known once the bar was drawn."""
        return bool(st.session_state.get(self.key("section")) == section)

    def peek(self, control: Control, name: str) -> Any:
        """Return the value of a choice or a number: before it is drawn, that of the address, or else its default."""
        key = self.key(name)
        if key in st.session_state:
            value = st.session_state[key]
            return _int_if_whole(value) if control.type is int else value
        text = st.query_params.get(key, "")
        if control.options:  # an address has the label of an option
            return {label: value for value, label in control.options.items()}.get(text, control.default)
        with suppress(ValueError):
            return _int_if_whole(float(text)) if control.type is int else float(text)
        return control.default

    def _keep_closed(self, outside: Collection[str]) -> None:
        """Keep the values of the controls of closed sections in the address, from which Streamlit removes them.

        outside : keys of the controls that belong to no section.
        """
        drawn_keys, stored_key = set(map(self.key, self.titles)), self.key("kept")
        if stored_key not in st.session_state:  # at first, all sections have the values of the visitor's address
            keys = [key for key in st.query_params if key.startswith(f"{self.page}_") and key not in outside]
            st.session_state[stored_key] = {key: st.query_params.get_all(key) for key in keys}
        stored: dict[str, str | list[str]] = st.session_state[stored_key]
        for key in drawn_keys.difference(outside):  # the open section
            stored.pop(key, None)
            if key in self.query:
                stored[key] = self.query[key]
        for key in stored.keys() - drawn_keys:  # the closed sections
            self.query[key] = stored[key]
            streamlit_patches.unbind(key)
            with suppress(StreamlitAPIException):  # Streamlit refuses this if the patch behind `unbind` is left out
                st.query_params[key] = stored[key]

    def one_of(self, name: str, label: str, options: Iterable[str], help: str, first: str = "") -> str:
        """Draw a choice of one of `options`, which are their own labels; return the option.

        At first, and when the chosen option no longer exists, it is `first`, or else the first of the options.
        """
        titles = {option: option for option in options}
        default = first or next(iter(titles))
        selected = self.choice(name, label, titles, default, help)
        return selected if selected in titles else default

    def switch(self, name: str, label: str, default: bool, help: str) -> bool:
        """Draw a switch, whose label says what "on" means; return true if it is on."""

        def draw(bind: Bind) -> bool:
            return st.toggle(label, value=default, key=self.key(name), help=help, bind=bind)

        return self._bound(name, label, default, draw, lambda value: str(value).lower())

    def text(self, name: str, label: str, default: str, help: str) -> str:
        """Draw an input for a text of a few lines; return the text."""

        def draw(bind: Bind) -> str:
            return st.text_area(label, value=default, key=self.key(name), help=help, bind=bind)

        return self._bound(name, label, default, draw, str, may_be_empty=True)

    def several(self, name: str, label: str, options: Sequence[str], default: Sequence[str], help: str) -> list[str]:
        """Draw a choice of any number of `options`; return the chosen ones in the order of `options`."""
        default_options = [option for option in options if option in default]

        def draw(bind: Bind) -> list[str]:
            selected = st.pills(
                label,
                options,
                selection_mode="multi",
                default=default_options,
                key=self.key(name),
                help=help,
                bind=bind,
            )
            return [option for option in options if option in selected]

        # A parameter of the address with an empty text means that none is chosen; without the parameter, the default.
        return self._bound(name, label, default_options, draw, lambda selected: selected or "", may_be_empty=True)

    def check(self) -> None:
        """Raise UserError if a number that was drawn so far, or a leading one, is out of range."""
        all_mistakes = [*self.mistakes, *(input_error(lead.control, lead.value) for lead in self.leads)]
        different_mistakes = list(dict.fromkeys(filter(None, all_mistakes)))
        if different_mistakes:
            raise UserError(" ".join(different_mistakes))

    def set_values(self, settings: Mapping[str, Any]) -> None:
        """Set the values of controls, by name, from code; call it before they are drawn, or in a callback."""
        for name, value in settings.items():
            if isinstance(value, tuple):
                value = address_text(value)  # the control of several numbers is a text
            elif isinstance(value, int) and not isinstance(value, bool):
                value = float(value)  # the input of a whole number is one of a float
            st.session_state[self.key(name)] = value
            self._written.add(self.key(name))
        st.session_state[WHOLE] = True

    def say_unread(self) -> None:
        """Tell the visitor which parts of the address could not be used, if any; call it after all controls."""
        if self.unread:
            *first, last = self.unread
            labels = f"{', '.join(first)} and {last}" if first else last
            sentence = f"Part of this link could not be read. Check {labels}."
            st.toast(sentence, icon=UNREAD, duration="long")

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
        """Draw a control that the address restores; return its value, and note it in `query` if it is not the default.

        draw : draws the control and returns its value; its argument is `bind` of Streamlit's controls.
        text : returns the form of a value in the address.
        may_be_empty : true if the control can have no value, or ignores an empty one in the address.
        """
        value = draw(self._prepare_bind(name, title, default, text, may_be_empty))
        self._note_unread(name)
        if value != default:
            self.query[self.key(name)] = text(value)
        return value

    def _prepare_bind(
        self, name: str, title: str, default: Any, text: Callable[[Any], str | list[str]], may_be_empty: bool = False
    ) -> Bind:
        """Prepare the drawing of a control; return "query-params" if it is bound to the address, else None.

        A control that is never empty is not bound while the address has an empty value for it: Streamlit would draw
        some controls without any value then. The title is noted for messages, and for `_note_unread` the value in the
        address. The arguments are those of `_bound`.
        """
        self.titles[name] = title
        key = self.key(name)
        if key in self._written and st.session_state[key] != default:
            # Streamlit itself writes a control that was drawn before into the address, and refuses that we do.
            with suppress(StreamlitAPIException):
                st.query_params[key] = text(st.session_state[key])
        self._written.discard(key)
        if key not in st.session_state and key in st.query_params:
            given, default_text = st.query_params.get_all(key), text(default)
            if isinstance(default_text, list):  # a control of several values
                self._given[key] = given, default_text
            else:  # of one value, which is the last of several in the address
                self._given[key] = given[-1:], [default_text]
            if not may_be_empty and not given[-1]:
                del st.query_params[key]
                return None
        return "query-params"

    def _note_unread(self, name: str) -> None:
        """Note a control as unread if Streamlit, when it drew it, has changed or removed its value in the address.

        Streamlit also removes a value that is the default; that is no loss.
        """
        key = self.key(name)
        if key in self._given:
            given, default = self._given[key]
            remaining = st.query_params.get_all(key) if key in st.query_params else default
            if not streamlit_patches.same_setting(given, remaining):
                self.unread.append(self.titles[name])


@dataclass
class PageBody(ABC):
    """All of a page except its sidebar. When one of its own controls changes, only this part is drawn again.

    A subclass draws it in `draw`, with `draw_leads` for the leading controls.

    sidebar_panel : the panel with the controls of the sidebar. panel : a copy that also has the controls of this part.
    lead_values : those of the leading controls when the sidebar was drawn.
    is_redraw : true if this part is now drawn without the sidebar.
    """

    sidebar_panel: Panel
    panel: Panel = field(init=False)
    lead_values: Sequence[Any] = field(init=False)
    is_redraw: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.lead_values = self.sidebar_panel.lead_values()

    def show(self) -> None:
        """Draw this part, as a Streamlit fragment."""
        st.fragment(self._draw_fragment, key=self.sidebar_panel.key("whole"))()

    @abstractmethod
    def draw(self) -> None:
        """Draw the contents of this part."""

    def draw_leads(self, all_read: bool = False) -> None:
        """Draw the leading controls.

        If one has changed and the sidebar shows a consequence of it, the whole page is drawn again. all_read : true if
        the sidebar shows a consequence of every leading control.
        """
        with st.container(key=self.panel.key("leads"), horizontal=True, gap="medium", vertical_alignment="bottom"):
            self.panel.draw_leads()
        has_changed = self.panel.lead_values() != self.lead_values
        if self.is_redraw and has_changed and (self.panel.reads_leads or all_read):
            st.rerun()

    def _draw_fragment(self) -> None:
        """Draw this part, or the whole page if a callback has also changed controls of the sidebar."""
        must_draw_whole = st.session_state.get(WHOLE)
        if self.is_redraw and must_draw_whole:
            st.rerun()
        self.panel = self.sidebar_panel.copy()
        self.draw()
        self.is_redraw = True
        if must_draw_whole:  # and this was the drawing of the whole page
            del st.session_state[WHOLE]
        streamlit_patches.finish_page(self.panel.query)


@contextmanager
def draw_errors(container: DeltaGenerator | None = None, go_on: bool = True) -> Iterator[None]:
    """Draw a UserError that is raised in the block as a message; then go on after the block.

    Its text may quote names of a link or a file, so `escape_sentence` escapes all that Markdown would read. A
    MissingInput waits for a choice of the visitor, so it is drawn as information.

    container : of the message; None for the present place. go_on : false to raise the error again.
    """
    try:
        yield
    except UserError as error:
        area = container or st
        draw = area.info if isinstance(error, MissingInput) else area.error
        draw(escape_sentence(str(error)), title=escape_sentence(error.title))
        if not go_on:
            raise


def input_error(control: Control, value: float | int | tuple[float, ...] | None) -> str:
    """Return a sentence on what is wrong with the value of a control, a number or several; "" if it is right."""
    if control.count:
        low, high = control.each
        if isinstance(value, tuple) and len(value) == control.count and all(low <= x <= high for x in value):
            return ""
        return f"{control.label} {several_between(control)}, with commas between them."
    assert not isinstance(value, tuple)
    if value is None:
        return "" if control.optional else f"{control.label} needs a number."
    if control.low is not None and control.high is not None and not control.low <= value <= control.high:
        return f"{control.label} must be {between(control.low, control.high)}."
    if control.type is int and not isinstance(value, int):
        return f"{control.label} must be a whole number."
    return ""


def grid(control: Control) -> tuple[float, ...]:
    """Return the points of a number's slider, in ascending order: round numbers, both ends, and the default.

    On a logarithmic scale whole numbers are 1, 2 or 5 times a power of ten. Return () for a number without a range, or
    with one so wide that a slider is of no use, as that of a seed.
    """
    low, high = control.low, control.high
    if low is None or high is None:
        return ()
    is_count = control.type is int
    if control.scale == "log":
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for mantissas in MANTISSAS[-1:] if is_count else MANTISSAS:
            # Parsed, as a product with a power of ten may be one digit off.
            numbers = [float(f"{mantissa}e{power}") for power in powers for mantissa in mantissas]
            points = [number for number in numbers if low <= number <= high]
            if len(points) <= LOG_POINTS:  # the finest; if none has so few, the last and coarsest one is taken
                break
    elif is_count and high - low > 1000:  # more than 16 numbers from one stop to the next: a seed
        return ()
    else:
        count = min(LINEAR_POINTS, int(high - low)) if is_count else LINEAR_POINTS
        points = [round(x) if is_count else float(f"{x:.3g}") for x in np.linspace(low, high, count + 1)]
    ends = [low, high] if control.default is None else [low, high, control.default]
    kind = int if is_count else float
    return tuple(sorted({kind(x) for x in [*points, *ends] if low <= x <= high}))


@lru_cache(maxsize=1000)
def point_texts(points: tuple[float, ...]) -> Mapping[float, str]:
    """Return the texts of a slider's points, by point; no two are the same.

    They have three digits, or more where another point has that text. Points that three digits give exactly come first,
    so that they keep their short texts.
    """
    point_by_text: dict[str, float] = {}
    exact_first = sorted(points, key=lambda point: float(f"{point:.3g}") != point)
    for point in exact_first:
        texts = (short(point, digits) for digits in range(3, 18))
        free_text = next(text for text in texts if text not in point_by_text)
        point_by_text[free_text] = point
    return {point: text for text, point in point_by_text.items()}


def nearest(points: Sequence[float], value: float) -> float:
    """Return the point closest to a value; if all points are positive, the one with the smallest ratio.

    points : in ascending order.
    """
    if points[0] > 0:  # a value far below the first point, or not positive, counts as a tenth of that point
        return min(points, key=lambda x: abs(math.log(x / max(value, points[0] / 10))))
    return min(points, key=lambda x: abs(x - value))


def _step(control: Control) -> float:
    """Return the number that one press of the input's plus adds.

    On a logarithmic scale it is a tenth of the power of ten at or below the default, on a linear one 0.01.
    """
    if control.type is int:
        return 1.0
    if control.scale == "log" and control.default:
        return float(10.0 ** (math.floor(math.log10(control.default)) - 1))
    return 0.01


def _read_numbers(text: str) -> tuple[float, ...] | None:
    """Return the numbers of a text with commas between them; None if a part of it is no number."""
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        return None


def _int_if_whole(value: float | None) -> float | int | None:
    """Return an int for a float that is a whole number; any other value as it is."""
    return int(value) if value is not None and float(value).is_integer() else value


def _copy(source: str, target: str) -> None:
    """Copy the value of the slider with the key `source` to the input with the key `target`; for a callback."""
    st.session_state[target] = float(st.session_state[source])
