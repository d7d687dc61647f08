"""Parts of pages that our own code draws in the browser: charts that move in place, sliders, a button that copies,
dots that move in a plane, and a sheet to draw a curve on; those of other modules are declared by `declare_part`.

`st.plotly_chart` removes a chart and draws a new one, two or three times, whenever its data change. But the picture of
a run must not blink, and a slider with five charts must not lag. The library is the part of plotly.js that our charts
need, a third of what the installed plotly package ships, from npm's plotly.js-cartesian-dist-min; a tab fetches it
once.

The browser reports a move of a control with a turn, which is the number of that move. The server sends back the turn of
the last move that it knows, so that the browser can tell an old value from a new one.
"""

import hashlib
import json
import math
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
from dpviz.plots.elements.sheets import Sheet
from dpviz.plots.elements.style import NOT_PRIVATE, browser_figure, with_subscripts

_SERVED = "served"  # folder of files that a tab fetches once; each version has its own address
_LIBRARY = f"component/{__name__}.{_SERVED}/plotly-cartesian-4.1.1.min.js"


def asset_text(name: str) -> str:
    """Return the text of a file in this folder."""
    return resources.text(__package__, name)


def apply_style(name: str, **values: object) -> None:
    """Apply a style sheet of this folder to the page. values : the value of `name` replaces `$name` in the sheet."""
    st.html(f"<style>\n{Template(asset_text(name)).substitute(values)}</style>")


def declare_part(name: str, html: str, **options: Any) -> Any:
    """Declare a part of pages to Streamlit, from the script and style sheet called `name` in this folder; return it.

    Call this once per process. html : of the part. options : arguments of Streamlit's `component`, which replace ours.
    """
    return st.components.v2.component(
        f"dpviz_{name}", **{"html": html, "css": asset_text(f"{name}.css"), "js": asset_text(f"{name}.js"), **options}
    )


@cache
def declare_script(name: str) -> Any:
    """Declare an invisible part of pages that is a script, `name`.js in this folder; return it."""
    return st.components.v2.component(f"dpviz_{name}", html="<span></span>", js=asset_text(f"{name}.js"))


@cache
def _declare_served(name: str, html: str) -> tuple[Any, str]:
    """Declare a part of pages whose script, `name`.js in the folder `_SERVED`, a tab fetches once.

    Return the part, which imports its script from an address in its data, and that address, which changes with the
    script.
    """
    declare_component(_SERVED, path=Path(__file__).parent / _SERVED)  # never drawn: it has Streamlit serve the folder
    version = hashlib.sha256(asset_text(f"{_SERVED}/{name}.js").encode()).hexdigest()[:8]
    component = st.components.v2.component(f"dpviz_{name}", html=html, js=asset_text("loader.js"), isolate_styles=False)
    return component, f"component/{__name__}.{_SERVED}/{name}.js?{version}"


def _plot(
    key: str, height: int, *, callbacks: Mapping[str, Callable[[], None]] = MappingProxyType({}), **data: Any
) -> None:
    """Draw the part for figures. height : in pixels. data, callbacks : of the part, beyond those of all figures."""
    component, module = _declare_served("plot", '<div class="dpviz-plot" role="figure"></div>')
    # `dark` is the colour of the mark "not private" on dark pages; figures are built with that of light ones.
    fixed = {"height": height, "module": module, "library": _LIBRARY, "dark": NOT_PRIVATE["dark"]}
    component(key=key, data={**data, **fixed}, height=height, **callbacks)


def figure_data(figure: dict[str, Any], handles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with which the browser draws a figure: its JSON, and its height in pixels.

    figure : as plain values. handles : those of its `Chart`.
    """
    result = browser_figure(figure) | ({"handles": handles} if handles else {})  # `browser_figure` returns a copy
    result["layout"].pop("template", None)  # plotly's own style, 7 kB; the browser uses the page's instead
    return {"figure": to_json_plotly(result), "height": int(result["layout"]["height"])}


class Leads(NamedTuple):
    """Values of the controls above a page's charts, by title; and a text that identifies the page's settings."""

    values: Mapping[str, str]
    settings: str


class Handles(NamedTuple):
    """The handles of a figure, with which a visitor sets a control of several numbers.

    title : of the control. turn : number of the last move that the server knows of. on_move : is called when a handle
    is released; `st.session_state[key of the figure]["handles"]` is then {"values": …, "turn": …}.
    """

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
    """Draw a figure, or move the lines of the figure with this key to the new data; zoom and hidden lines stay.

    drawing : result of `figure_data`. alt : text alternative. pale : true to draw it faint.
    group : name of a group of figures in which a pointer marks the same value on all horizontal axes of the same title.
    leads : the values of the leading controls; when one of them has moved, the old lines stay, pale, and the vertical
    axis has room for both. handles : of its lines, None if it has none.
    """
    # A pale figure is of earlier settings than `leads` are.
    data: dict[str, Any] = {} if leads is None or pale else {"leads": leads.values, "settings": leads.settings}
    callbacks = {}
    if handles is not None:
        data["handles"] = {"title": handles.title, "turn": handles.turn}
        callbacks = {"on_handles_change": handles.on_move}
    _plot(key, **drawing, **data, alt=alt, pale=pale, group=group, name=key, callbacks=callbacks)


def figure_placeholder(key: str) -> None:
    """Draw an empty part in the place of the figure with this key, before there is one.

    Meanwhile the tab fetches the plotting library, which may take longer than the computation of the first figure.
    """
    _plot(key, height=1)  # the least that a part can have


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
    """Draw a slider; while it is dragged, the browser draws the charts that the page has sent for each stop.

    title, help : of the slider. texts : of its stops. index : number of the stop at which it is.
    turn : number of the last move that the server knows of. group : name of the group of the charts.
    on_press : is called when the slider is pressed and the browser lacks the charts; the page then sends them by
    `stops`. on_move : is called when it is released at another stop; `st.session_state[key]["move"]` is then
    {"index": …, "turn": …}.
    """
    component, module = _declare_served(
        "slider",
        '<div class="dpviz-slider"><label></label><button type="button">?</button><div popover></div>'
        '<input type="range" min="0" step="1"><output aria-hidden="true"></output></div>',
    )
    data = {"title": title, "help": help, "texts": texts, "index": index, "turn": turn, "group": group}
    data |= {"name": key, "module": module}
    component(key=key, data=data, on_press_change=on_press, on_move_change=on_move)


def stops(key: str, group: str, settings: str, packed: str = "") -> None:
    """Tell the browser which settings the page has, and send it the charts at the stops of a slider, if there are any.

    group : name of the group of the charts. settings : text that identifies the page's settings; the browser uses the
    charts only while it is the text of one of the stops. packed : result of `pack_stops`, "" for none.
    """
    component, module = _declare_served("stops", "<i></i>")
    component(key=key, data={"packed": packed, "group": group, "settings": settings, "module": module}, height=1)


def pack_stops(
    slider: str, settings: Sequence[str], guarantees: Sequence[str], charts: Mapping[str, Sequence[str]]
) -> str:
    """Return the guarantee and the charts of a page at every stop of a slider as one compressed text.

    slider : key of the slider. settings : for each stop, the text that identifies the page's settings there.
    guarantees : for each stop, the guarantee as text. charts : by key of a chart, the figure at each stop as JSON.
    """
    text = json.dumps({"slider": slider, "settings": settings, "lines": guarantees, "charts": charts})
    return b64encode(zlib.compress(text.encode())).decode()


def redraw_after(key: str, seconds: float, on_request: Callable[[], None]) -> None:
    """Have the surrounding fragment of the page drawn again after `seconds`, and `on_request` called before that."""
    component, module = _declare_served("poll", "<i></i>")
    turn = time.monotonic()  # another number at each drawing, so that the browser waits anew
    component(key=key, data={"wait": seconds, "turn": turn, "module": module}, height=1, on_poll_change=on_request)


def copy(text: str, key: str, label: str) -> None:
    """Draw a button that copies a text to the clipboard and says so, or selects it where the browser forbids that."""
    component, module = _declare_served(
        "copy",
        '<div class="dpviz-copy"><button type="button"></button><span class="said" role="status"></span>'
        '<textarea hidden readonly rows="3" aria-label="Text to copy"></textarea></div>',
    )
    component(key=key, data={"text": text, "label": label, "module": module})


@cache
def _cloud() -> Any:
    return declare_part("cloud", '<div class="cloud"></div>')


def draw_cloud(key: str, animation: bytes) -> None:
    """Draw an animation, made by `plots.clouds.animation_bytes`; a new one of the same key goes on at the same step.

    The browser has all of it: a visitor plays, pauses and steps through it without a request to the server.
    """
    _cloud()(key=key, data=animation)


@cache
def _sheet() -> Any:
    return declare_part("curve", '<div class="curve"></div>')


def draw_sheet(key: str, sheet: Sheet, heights: Sequence[float], label: str, on_move: Callable[[], None]) -> None:
    """Draw a sheet with axes on which a visitor draws a curve by its handles, with a pointer or the keyboard.

    At first the handles are at `heights`, which are shares of the sheet's height from 0 to 1. Later they are where the
    visitor moved them, as the browser may know of moves that have not reached the server.

    label : text alternative. on_move : is called when a handle has moved; `sheet_heights` then returns the new heights.
    """
    data = {
        "height": sheet.height,
        "margin": sheet.margin,
        "x": {"title": with_subscripts(sheet.x.title), "ticks": sheet.x.ticks},
        "y": {"title": with_subscripts(sheet.y.title), "ticks": sheet.y.ticks}
        | {"low": sheet.y.low, "high": sheet.y.high, "log": sheet.y.log},
        "known": sheet.known,  # points of the curve that is there already
        "start": sheet.start,  # first point of the visitor's curve; None: it begins at the first handle
        "handles": list(sheet.handles),
        "labels": [f"{sheet.x.title} {text}" for text in sheet.handle_texts],
        "values": list(heights),
        "label": label,
    }
    _sheet()(key=key, data=data, on_values_change=on_move, height=sheet.height)


def sheet_heights(key: str, count: int) -> tuple[float, ...] | None:
    """Return the heights of the `count` handles of the sheet with this key, as shares of its height from 0 to 1.

    Return None if the browser has not sent as many finite numbers.
    """
    heights = (st.session_state.get(key) or {}).get("values")
    if not isinstance(heights, Sequence) or isinstance(heights, str) or len(heights) != count:
        return None
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in heights):
        return None
    return tuple(min(1.0, max(0.0, float(value))) for value in heights)
