"""Links that restore the settings of a page.

There is a full link, with every setting that is not the default, and a short one for a slide, in which the settings are
packed or replaced by the name of a preset. Both can open the page as it is, for a lecture hall, or in another web page.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

import streamlit as st

from dpviz.compare.pins import compress, decompress, join_links
from dpviz.errors import UserError
from dpviz.ui import appearance, components, streamlit_patches
from dpviz.ui.controls import UNREAD, Panel

EMBED = "embed"  # query parameter of Streamlit
# Query parameters: all settings as one compressed text, a preset by its name, a pin, and several pins as one text.
PACKED, PRESET, PIN, PINS = "s", "preset", "pin", "pins"
LESSON = "from_lesson"  # session key: name in addresses of the lesson that opened the page
AS_IT_IS = "As it is"
USES: Mapping[str, Mapping[str, str]] = {
    AS_IT_IS: {},
    "Lecture hall": {appearance.PRESENT: "1"},
    "Another web page": {EMBED: "true"},
    "Picture alone": {EMBED: "true", appearance.ONLY: appearance.PICTURE},
}
USE_HELP = (
    "For a lecture hall: larger type, no sidebar. In another web page: without menus, for an iframe; the picture with "
    "its number fits into 700 × 500."
)
_IS_DAMAGED = "link_is_damaged"  # session key: the packed link with which the visitor came could not be read
MAX_SETTINGS = 300  # largest number of settings in a packed link
WORTH = 0.9  # a short link is offered if it is shorter than this share of the full one
_NAME = re.compile(r"[a-z][a-z0-9_]{0,80}")  # of a setting
NO_SETTINGS = {PACKED, PRESET, PIN, PINS, appearance.PRESENT, appearance.ONLY, EMBED}  # parameters that are no settings

Query = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class PresetLink:
    """A preset in a link. slug : its name there. sets : the query parameters that it stands for."""

    slug: str
    sets: Collection[str]


def back_to_lesson() -> None:
    """Draw a link back to the lesson, on a page that a lesson has opened."""
    slug = st.session_state.get(LESSON)
    if slug:
        address = {"lesson": slug, "step": "4"}  # the last step, which explains what this page has shown
        st.page_link("pages/learn.py", label="Back to the lesson", icon=":material/arrow_back:", query_params=address)


def show(panel: Panel, preset: PresetLink | None = None, facts_read: Collection[str] = ()) -> None:
    """Draw the menu with the links that restore the controls, to copy; call it when all controls have been drawn.

    preset : the preset whose settings the page has, None if there is none. facts_read : names of the facts in the
    settings that were read from the data.
    """
    with st.popover("Copy link", icon=":material/link:", key=panel.key("link"), type="tertiary"):
        contents = (
            f"**Not private**: read from the data: {'; '.join(facts_read)}." if facts_read else "It holds no data."
        )
        st.markdown(f"This link restores every control of this page. It holds settings only. {contents}")
        selected = st.segmented_control(
            "Open it", list(USES), default=AS_IT_IS, required=True, key=panel.key("link_use"), help=USE_HELP
        )
        use = USES[selected or AS_IT_IS]  # `or` for the type checker: an option is required
        full = _address({**panel.query, **use})
        st.code(full, language=None, wrap_lines=True)
        components.copy(full, panel.key("link_copy"), "Copy")
        brief = short({**panel.query, **use}, preset)
        if len(brief) < WORTH * len(full):
            st.caption("The same, short enough for a slide:")
            st.code(brief, language=None, wrap_lines=True)
            components.copy(brief, panel.key("link_copy_short"), "Copy short link")


def address(panel: Panel) -> str:
    """Return the full link to a page, with all settings that are not the default."""
    return _address(panel.query)


def short(query: Query, preset: PresetLink | None) -> str:
    """Return the shortest link with the meaning of these query parameters.

    Several pins become one text. The settings may be packed, or replaced by the name of `preset`, if that is not None.
    """
    pins = query.get(PIN)
    if isinstance(pins, list) and len(pins) > 1:
        without_pins = {name: value for name, value in query.items() if name != PIN}
        query = without_pins | {PINS: join_links(pins)}
    others = {name: value for name, value in query.items() if name in NO_SETTINGS}
    settings = {name: value for name, value in query.items() if name not in NO_SETTINGS}
    queries: list[Query] = [query]
    if settings:
        queries.append({PACKED: compress(urlencode(settings, doseq=True)), **others})
    if preset is not None:
        not_in_preset = {name: value for name, value in query.items() if name not in preset.sets}
        queries.append({PRESET: preset.slug, **not_in_preset})
    return min(map(_address, queries), key=len)


def expand() -> None:
    """Replace the packed link in the address by its settings, before any control is drawn; draw a warning if it cannot
    be read. Does nothing for other addresses."""
    if st.session_state.pop(_IS_DAMAGED, False):
        st.warning("This link could not be read. Copy all of it, or set what you need.", icon=UNREAD)
    packed = st.query_params.get(PACKED)
    if packed is None:
        return
    try:
        settings = unpacked(packed)
    except UserError:
        del st.query_params[PACKED]
        st.session_state[_IS_DAMAGED] = True
        st.rerun()  # the next run draws the warning: on a fresh server `navigation` drops what this run draws
    others = {name: st.query_params.get_all(name) for name in st.query_params if name in NO_SETTINGS - {PACKED}}
    streamlit_patches.set_address({**settings, **others})


def unpacked(packed: str) -> dict[str, list[str]]:
    """Return the values of the settings in a packed link, by name. Raises UserError for any other text."""
    try:
        settings = parse_qs(
            decompress(packed), keep_blank_values=True, strict_parsing=True, max_num_fields=MAX_SETTINGS
        )
    except UserError:  # it is a ValueError, too
        raise
    except ValueError:
        raise UserError("This is no list of settings.") from None
    if not all(_NAME.fullmatch(name) and name not in NO_SETTINGS for name in settings):
        raise UserError("It names what is no setting.")
    return settings


def _address(query: Query) -> str:
    """Return the address of the present page with other query parameters."""
    base = (st.context.url or "").split("?")[0].split("#")[0]
    return base + ("?" + urlencode(query, doseq=True) if query else "")
