"""Links that restore a page: in full, short enough for a slide, for a lecture hall, or for another web page."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

import streamlit as st

from dpviz.compare.pins import pack, together, unpack
from dpviz.errors import UserError
from dpviz.ui import components, presenting
from dpviz.ui.controls import Panel

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

EMBED = "embed"  # a query parameter of Streamlit
PACKED, PRESET, PIN, PINS = "s", "preset", "pin", "pins"  # names in an address; PINS holds several pins as one text
LESSON = "from_lesson"  # session key: address of the lesson that opened the page
AS_IT_IS = "As it is"
USES: Mapping[str, Mapping[str, str]] = {
    AS_IT_IS: {},
    "Lecture hall": {presenting.NAME: "1"},
    "Another web page": {EMBED: "true"},
    "Picture alone": {EMBED: "true", presenting.ONLY: presenting.PICTURE},
}
USE_HELP = (
    "For a lecture hall: larger type, no sidebar. In another web page: without menus, for an iframe; the picture with "
    "its number fits into 700 × 500."
)
MAX_SETTINGS = 300  # in a packed link
WORTH = 0.9  # share of the full link's length above which a short link is of no use
_NAME = re.compile(r"[a-z][a-z0-9_]{0,80}")
_OTHERS = {PACKED, PRESET, PIN, PINS, presenting.NAME, presenting.ONLY, EMBED}  # never packed

Query = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Named:
    """A preset: its name in a link, and the query parameters that it sets."""

    slug: str
    sets: Collection[str]


def back_to_lesson() -> None:
    """Draw the way back to the lesson, on a page that a lesson has opened."""
    if slug := st.session_state.get(LESSON):
        address = {"lesson": slug, "step": "4"}
        st.page_link("pages/learn.py", label="Back to the lesson", icon=":material/arrow_back:", query_params=address)


def show(panel: Panel, preset: Named | None = None, read: Collection[str] = ()) -> None:
    """Draw the address that restores the controls, to copy; call it when all controls have been drawn.

    preset : the preset whose settings the page has, if any. read : settings that were read from the data, in words.
    """
    with st.popover("Copy link", icon=":material/link:", key=panel.key("link"), type="tertiary"):
        contents = f"**Not private**: read from the data was {'; '.join(read)}." if read else "It holds no data."
        st.markdown(f"This link restores every control of this page. It holds settings only. {contents}")
        selected = st.segmented_control(
            "Open it", list(USES), default=AS_IT_IS, required=True, key=panel.key("link_use"), help=USE_HELP
        )
        use = USES[selected or AS_IT_IS]
        full = _address({**panel.query, **use})
        st.code(full, language=None, wrap_lines=True)
        components.copy(full, panel.key("link_copy"), "Copy")
        brief = short({**panel.query, **use}, preset)
        if len(brief) < WORTH * len(full):
            st.caption("The same, short enough for a slide:")
            st.code(brief, language=None, wrap_lines=True)
            components.copy(brief, panel.key("link_copy_short"), "Copy short link")


def address(panel: Panel) -> str:
    """Return the page's address with all settings that are not the default."""
    return _address(panel.query)


def short(query: Query, preset: Named | None) -> str:
    """Return the shortest equivalent address: with the name of a preset, or packed settings; several pins as one."""
    pins = query.get(PIN, ())
    if len(pins) > 1 and not isinstance(pins, str):
        query = {name: query[name] for name in query if name != PIN} | {PINS: together(pins)}
    others = {name: value for name, value in query.items() if name in _OTHERS}
    settings = {name: value for name, value in query.items() if name not in _OTHERS}
    queries: list[Query] = [query]
    if settings:
        queries.append({PACKED: pack(urlencode(settings, doseq=True)), **others})
    if preset is not None:
        queries.append({PRESET: preset.slug, **{name: query[name] for name in query if name not in preset.sets}})
    return min(map(_address, queries), key=len)


def expand(page: "StreamlitPage") -> None:
    """Open the page with the settings of a packed link in place of the link; say so if it cannot be read."""
    packed = st.query_params.get(PACKED)
    if packed is None:
        return
    try:
        settings = _settings(unpack(packed))
    except UserError:
        del st.query_params[PACKED]
        st.warning("This link could not be read. Copy all of it, or set what you need.", icon=":material/link_off:")
        return
    others = {name: st.query_params.get_all(name) for name in st.query_params if name in _OTHERS - {PACKED}}
    st.switch_page(page, query_params={**settings, **others})


def _settings(text: str) -> dict[str, list[str]]:
    """Return names and values of a packed link. Raises UserError for any other text."""
    try:
        settings = parse_qs(text, keep_blank_values=True, strict_parsing=True, max_num_fields=MAX_SETTINGS)
    except ValueError:
        raise UserError("This is no list of settings.") from None
    if not all(_NAME.fullmatch(name) and name not in _OTHERS for name in settings):
        raise UserError("It names what is no setting.")
    return settings


def _address(query: Query) -> str:
    base = (st.context.url or "").split("?")[0].split("#")[0]
    return base + ("?" + urlencode(query, doseq=True) if query else "")
