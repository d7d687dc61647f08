"""Parts of pages that are drawn in the browser by code of our own: charts that move in place, a button that copies,
terms that say what they mean.

`st.plotly_chart` takes a chart away and draws a new one, two or three times, whenever its data change: the live picture
must not blink, and a slider with five charts must not lag. The library is the part of plotly.js that our charts need, a
third of what the installed plotly package ships, from npm's plotly.js-cartesian-dist-min; a tab fetches it once.
"""

import hashlib
import json
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple

import streamlit as st
from plotly.io.json import to_json_plotly
from streamlit.components.v1 import declare_component

from dpviz import resources
from dpviz.plots.elements.style import NOT_PRIVATE, PLOT_CONFIG
from dpviz.plots.elements.typeset import printed
from dpviz.ui.terms import TERMS

_SERVED = "served"  # the folder whose files a tab fetches once; another version, another address
_LIBRARY = f"component/{__name__}.{_SERVED}/plotly-cartesian-4.1.1.min.js"


def source(name: str) -> str:
    """A file of this folder."""
    return resources.text(__package__, name)


def style(name: str, **values: object) -> None:
    """Draw the page by a style sheet of this folder, in which `$name` stands for a value."""
    st.html(f"<style>\n{Template(source(name)).substitute(values)}</style>")


def part(name: str, html: str, **options: Any) -> Any:
    """A part of a page, from the files of its name in this folder; to be declared once per process."""
    return st.components.v2.component(
        f"dpviz_{name}", **{"html": html, "css": source(f"{name}.css"), "js": source(f"{name}.js"), **options}
    )


@cache
def _served(name: str, html: str) -> tuple[Any, str]:
    """A part of a page whose code, in the folder of this name, the server sends once; and the address of that code."""
    declare_component(_SERVED, path=Path(__file__).parent / _SERVED)  # never drawn: it serves the files
    version = hashlib.sha256(source(f"{_SERVED}/{name}.js").encode()).hexdigest()[:8]
    component = st.components.v2.component(f"dpviz_{name}", html=html, js=source("loader.js"), isolate_styles=False)
    return component, f"component/{__name__}.{_SERVED}/{name}.js?{version}"


def _plot(
    key: str, height: int, *, callbacks: Mapping[str, Callable[[], None]] = MappingProxyType({}), **data: Any
) -> None:
    component, module = _served("plot", '<div class="dpviz-plot" role="figure"></div>')
    fixed = {"height": height, "module": module, "library": _LIBRARY, "dark": NOT_PRIVATE["dark"]}
    component(key=key, data={**data, **fixed}, height=height, **callbacks)


def drawing(figure: dict[str, Any], handles: Mapping[str, Any]) -> dict[str, Any]:
    """What a browser draws of a figure, given as plain values: as JSON, with its height in pixels. handles : as of a
    `Chart`."""
    drawn = printed(figure) | ({"handles": handles} if handles else {})
    drawn["layout"].pop("template", None)  # plotly's own look, 7 kB; in the browser, the page's takes its place
    return {"figure": to_json_plotly(drawn), "height": int(drawn["layout"]["height"])}


class Leads(NamedTuple):
    """Values of the controls above a page's pictures, by title; and a name of all settings, which differs where any
    setting does."""

    values: Mapping[str, str]
    settings: str


class Handles(NamedTuple):
    """What the handles of a figure set: its title, the last turn that was heard of, and what is called when they are
    let go; `st.session_state[key]["handles"]` is {"values", "turn"} then."""

    title: str
    turn: int
    on_move: Callable[[], None]


def plot(
    drawing: dict[str, Any],
    key: str,
    alt: str,
    pale: bool = False,
    group: str = "",
    leads: Leads | None = None,
    handles: Handles | None = None,
) -> None:
    """Draw a figure, or move the one of this key to the new data; zoom and hidden lines stay.

    alt : what it shows, for those who cannot see it. pale : drawn faint. group : of figures with one pointer, as far as
    their horizontal axes have the same title. leads : the settings that a figure is of: when one of these controls is
    moved, the lines before stay, pale, and the vertical axis holds both. handles : on its lines, while it has some.
    """
    of: dict[str, Any] = {} if leads is None or pale else {"leads": leads.values, "settings": leads.settings}
    callbacks = {}
    if handles is not None:
        of["handles"] = {"title": handles.title, "turn": handles.turn}
        callbacks = {"on_handles_change": handles.on_move}
    of |= {"alt": alt, "config": dict(PLOT_CONFIG), "pale": pale, "group": group, "name": key}
    _plot(key, **drawing, **of, callbacks=callbacks)


def awaited(key: str) -> None:
    """The place of the figure of this key, before there is one: the tab fetches the library while nothing else happens,
    which would take longer than the first picture."""
    _plot(key, 1)


def slider(
    key: str,
    title: str,
    help: str,
    texts: Sequence[str],
    index: int,
    *,
    turn: int,
    group: str,
    on_press: Callable[[], None],
    on_move: Callable[[], None],
) -> None:
    """A slider over stops with these texts, drawn at `index`, whose `stops` a browser draws while it is dragged.

    on_press : called when it is pressed and the browser has no stops of it, which `stops` is to send then. on_move :
    called when it is let go at another stop; `st.session_state[key]["move"]` is {"index", "turn"}.
    turn : the last one that was heard of. group : of the charts that `stops` draws.
    """
    component, module = _served(
        "slider",
        '<div class="dpviz-slider"><label></label><button type="button">?</button><div popover></div>'
        '<input type="range" min="0" step="1"><output aria-hidden="true"></output></div>',
    )
    data = {"title": title, "help": help, "texts": texts, "index": index, "turn": turn, "group": group}
    data |= {"name": key, "module": module}
    component(key=key, data=data, on_press_change=on_press, on_move_change=on_move)


def stops(key: str, group: str, settings: str, packed: str = "") -> None:
    """Tell the browser which settings the page has, by a name of theirs, and send it the stops of a slider, if any.

    packed : as `pack_stops` gives them. The browser draws stops only while the settings are those of one of them.
    """
    component, module = _served("stops", "<i></i>")
    component(key=key, data={"packed": packed, "group": group, "settings": settings, "module": module}, height=1)


def pack_stops(slider: str, settings: Sequence[str], lines: Sequence[str], charts: Mapping[str, Sequence[str]]) -> str:
    """The guarantee and the charts of a page at every stop of a slider, compressed, as text.

    slider : its key. settings : (stops,) a name for the page's settings at each. lines : (stops,) the guarantee, in
    words. charts : (stops,) figures as JSON, by the key that they are drawn with.
    """
    text = json.dumps({"slider": slider, "settings": settings, "lines": lines, "charts": charts})
    return b64encode(zlib.compress(text.encode())).decode()


def look(key: str, seconds: float, on_look: Callable[[], None]) -> None:
    """Have the part of the page that this stands in drawn again after so many seconds; first, `on_look` is called."""
    component, module = _served("look", "<i></i>")
    component(
        key=key, data={"wait": seconds, "turn": time.monotonic(), "module": module}, height=1, on_look_change=on_look
    )


@cache
def _copy() -> Any:
    return part(
        "copy",
        '<div class="row"><button type="button"></button><span class="said" role="status"></span></div>'
        '<textarea hidden readonly rows="3" aria-label="Text to copy"></textarea>',
    )


def copy(text: str, key: str, label: str) -> None:
    """A button that copies a text to the clipboard and says so, or selects it where the browser forbids that."""
    _copy()(key=key, data={"text": text, "label": label})


@cache
def _words() -> Any:
    told = [{name: getattr(term, name) for name in ("name", "sentence", "formula", "said")} for term in TERMS.values()]
    return part(
        "words",
        '<button type="button" class="open" popovertarget="panel">Words</button>'
        '<div id="panel" class="panel" popover role="dialog" aria-label="Words of this page"><dl></dl>'
        '<button type="button" class="all">All words</button></div>',
        js=f"const TERMS = {json.dumps(told, ensure_ascii=False)};\n{source('words.js')}",
    )


def words(key: str, on_all: Callable[[], None]) -> bool:
    """Mark the terms of the glossary where they stand on the page, so that a press says what they mean, and draw a
    button with all that the page uses. True when somebody asks for the whole list, after `on_all`."""
    return bool(_words()(key=key, data={}, on_all_change=on_all).all)
