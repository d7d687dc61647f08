"""Parts of pages drawn in the browser by our own code: charts that move in place, a button that copies, terms that
explain themselves.

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
from dpviz.plots.elements.style import NOT_PRIVATE, printed
from dpviz.ui.terms import TERMS

_SERVED = "served"  # folder of files that a tab fetches once; each version has its own address
_LIBRARY = f"component/{__name__}.{_SERVED}/plotly-cartesian-4.1.1.min.js"


def source(name: str) -> str:
    """Return the text of a file in this folder."""
    return resources.text(__package__, name)


def style(name: str, **values: object) -> None:
    """Apply a style sheet of this folder to the page. values : by name, replace `$name` in the sheet."""
    st.html(f"<style>\n{Template(source(name)).substitute(values)}</style>")


def part(name: str, html: str, **options: Any) -> Any:
    """Declare a part of a page, from the script and style sheet called `name` in this folder; call it once per
    process."""
    return st.components.v2.component(
        f"dpviz_{name}", **{"html": html, "css": source(f"{name}.css"), "js": source(f"{name}.js"), **options}
    )


@cache
def _served(name: str, html: str) -> tuple[Any, str]:
    """Declare a part whose code, `name`.js in the folder `_SERVED`, a tab fetches once; return it, and the code's
    address."""
    declare_component(_SERVED, path=Path(__file__).parent / _SERVED)  # never drawn: it serves the folder
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
    """Return what the browser needs of a figure, given as plain values: its JSON, and its height in pixels. handles :
    as of a `Chart`."""
    result = printed(figure) | ({"handles": handles} if handles else {})
    result["layout"].pop("template", None)  # plotly's own style, 7 kB; the browser uses the page's instead
    return {"figure": to_json_plotly(result), "height": int(result["layout"]["height"])}


class Leads(NamedTuple):
    """Values of the controls above a page's charts, by title; and a text that identifies the page's settings."""

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
    """Draw a figure, or move the figure of this key to the new data; zoom and hidden lines stay.

    alt : text alternative.
    pale : whether it is drawn faint.
    group : of figures that share a pointer, as far as their horizontal axes have the same title.
    leads : the settings of the figure: when one of these controls is moved, the old lines stay, pale, and the vertical
        axis holds both.
    handles : of its lines, if it has some.
    """
    data: dict[str, Any] = {} if leads is None or pale else {"leads": leads.values, "settings": leads.settings}
    callbacks = {}
    if handles is not None:
        data["handles"] = {"title": handles.title, "turn": handles.turn}
        callbacks = {"on_handles_change": handles.on_move}
    _plot(key, **drawing, **data, alt=alt, pale=pale, group=group, name=key, callbacks=callbacks)


def awaited(key: str) -> None:
    """Hold the place of the figure of this key before there is one.

    Meanwhile the tab fetches the plotting library, which would take longer than the first chart.
    """
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
    """Draw a slider over stops with these texts, at stop `index`, whose charts the browser draws while it is dragged.

    on_press : called when it is pressed and the browser lacks its stops, which the page then sends by `stops`.
    on_move : called when it is released at another stop; `st.session_state[key]["move"]` is {"index", "turn"}.
    turn : number of the last move that the server knows of. group : of the charts that the stops draw.
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
    """Tell the browser which settings the page has, and send it the stops of a slider, if any.

    settings : text that identifies the page's settings. packed : result of `pack_stops`. The browser draws stops only
        while the settings are those of one of them.
    """
    component, module = _served("stops", "<i></i>")
    component(key=key, data={"packed": packed, "group": group, "settings": settings, "module": module}, height=1)


def pack_stops(slider: str, settings: Sequence[str], lines: Sequence[str], charts: Mapping[str, Sequence[str]]) -> str:
    """Return the guarantee and the charts of a page at every stop of a slider, compressed, as text.

    slider : key of the slider. settings : (stops,) texts that identify the page's settings.
    lines : (stops,) the guarantee in words. charts : (stops,) figures as JSON, by the key that they are drawn with.
    """
    text = json.dumps({"slider": slider, "settings": settings, "lines": lines, "charts": charts})
    return b64encode(zlib.compress(text.encode())).decode()


def look(key: str, seconds: float, on_look: Callable[[], None]) -> None:
    """Have the surrounding part of the page drawn again after `seconds`; call `on_look` before that."""
    component, module = _served("look", "<i></i>")
    component(
        key=key, data={"wait": seconds, "turn": time.monotonic(), "module": module}, height=1, on_look_change=on_look
    )


def copy(text: str, key: str, label: str) -> None:
    """Draw a button that copies a text to the clipboard and says so, or selects it where the browser forbids that."""
    component, module = _served(
        "copy",
        '<div class="dpviz-copy"><button type="button"></button><span class="said" role="status"></span>'
        '<textarea hidden readonly rows="3" aria-label="Text to copy"></textarea></div>',
    )
    component(key=key, data={"text": text, "label": label, "module": module})


@cache
def _words() -> Any:
    terms = [{name: getattr(term, name) for name in ("name", "sentence", "formula", "said")} for term in TERMS.values()]
    return part(
        "words",
        '<button type="button" class="open" popovertarget="panel">Words</button>'
        '<div id="panel" class="panel" popover role="dialog" aria-label="Words of this page"><dl></dl>'
        '<button type="button" class="all">All words</button></div>',
        js=f"const TERMS = {json.dumps(terms, ensure_ascii=False)};\n{source('words.js')}",
    )


def words(key: str, on_all: Callable[[], None]) -> bool:
    """Mark the terms of the glossary on the page, each with its meaning, and draw a button with all that the page uses.

    Return True when the visitor asks for the whole list; before that, `on_all` is called.
    """
    return bool(_words()(key=key, data={}, on_all_change=on_all).all)
