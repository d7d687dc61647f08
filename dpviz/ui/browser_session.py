"""What a browser tab remembers of its last connection: after a reload its runs come back, and what is lost is named.

A session of Streamlit ends with its connection when the server was restarted, when the page is loaded again, or after
two minutes without one. The tab keeps who it was and what it had, in its own session storage: no data, and never sent
anywhere but here.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import streamlit as st

from dpviz.ui import visitors
from dpviz.ui.components import source
from dpviz.ui.visitors import Visitor

TAB = "tab"
RESTARTED = "The server was restarted."
LOADED = "The page was loaded again, or without a connection for too long."
_SERVER = uuid4().hex  # of this process: another one knows nothing of what this one had


@st.cache_resource
def _component() -> Any:
    return st.components.v2.component("dpviz_tab", html="<span></span>", js=source("tab.js"))


def remember() -> None:
    """Tell the tab who it is and what it has, and hear who it was; once per page, before the page."""
    visitor = visitors.here()
    _hear(visitor)
    files = [str(key) for key in st.session_state if str(key).endswith("_upload")]
    data = {
        "visitor": visitor.name,
        "server": _SERVER,
        "has": [*visitor.runs, *visitor.notes, *files],
        "heard": visitor.before,
    }
    nothing = lambda: None  # noqa: E731
    _component()(key=TAB, data=data, on_before_change=nothing, on_back_change=nothing, height=1)


def _hear(visitor: Visitor) -> None:
    """Take back what the tab had when it was another visitor, and note what is lost of it."""
    said = (st.session_state.get(TAB) or {}).get("before")
    name, server, had = (
        (said.get(key) for key in ("visitor", "server", "has")) if isinstance(said, Mapping) else [None] * 3
    )
    if not isinstance(name, str) or name == visitor.before or not isinstance(had, Sequence):
        return
    visitor.before = name
    if visitor.take_back(name):
        why = LOADED if server == _SERVER else RESTARTED
        visitor.lost = {key: why for key in had if isinstance(key, str) and key not in visitor.runs}
