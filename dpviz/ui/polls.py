"""Faults of Streamlit's, mended: what a request that comes in the wrong moment costs.

Where the script of a page has ended and its last messages have not left yet, as on a busy server, a request makes
Streamlit start another run and forget what the one before had still to say: a page stays half drawn, or a control
keeps a value that a preset has replaced. Fragments with `run_every` ask again and again, and hit that moment at last.
Here, requests wait until those messages have left, in their order.

Such a poll also says what the browser takes the controls for. Where it has not come to drawing the values that a preset
has set, they would be taken back. What a visitor changes is always a request of its own: here, a poll says nothing.

A tab that has not heard yet which page it shows names it by its address. If its first page takes long, as on a server
that has just been started, it may ask once more, and where the page has been drawn by then, Streamlit takes the request
for one of another page: settings that a link brought are dropped. Here, it is one of the page that it names.

A request that a visitor's change has caused also says what the browser takes all other controls for. Where it has not
come to drawing a value that was set from here (a slider sets its number, a preset sets all), that looks like a change
by the visitor, and would take it back. Here, what a control only says once more is no change beside one that is, nor
is what was set from here meanwhile, and the newest value is sent again. Before the browser has said anything of a
control: see `alone`. Once the browser must have drawn all, what it says is meant.

Of two requests that wait, Streamlit forgets the first: whoever types a number back and presses Run would only have
pressed Run, and a poll, which says nothing, would have undone a change. Here, each is heard before the next one.
"""

import asyncio
import math
import time
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import streamlit as st
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType
from streamlit.runtime.state.session_state import SessionState

SOON, LOOKS = 0.01, 200  # seconds between two looks at whether they have left, and how often it is looked
DRAWS = 2.0  # seconds in which a browser draws what was sent to it, also a busy one
_waiting: "WeakKeyDictionary[AppSession, list[ClientState | None]]" = WeakKeyDictionary()
_ask = AppSession.request_rerun
_tell = SessionState.set_widgets_from_proto
_HEARD = "polls_heard"  # in the session: what its browser has said of every control, and what was set from here since
_DRAWN = "polls_drawn"  # in the session: when its page was last drawn to its end, if it has been since it was begun
_SETTABLE = {"bool_value", "double_value", "int_value", "string_array_value"}  # what only such controls have


def mended() -> None:
    """For this process, once."""
    if AppSession.request_rerun is _ask:
        AppSession.request_rerun = _patient  # type: ignore[assignment, method-assign]
        SessionState.set_widgets_from_proto = _attentive  # type: ignore[assignment, method-assign]


@wraps(_ask)
def _patient(session: AppSession, asked: ClientState | None) -> None:
    """As Streamlit's, in whose event loop it is called."""
    if asked is not None:
        asked.page_script_hash = _page_of(session, asked)
        if asked.is_auto_rerun:
            asked.ClearField("widget_states")
            if _has_more_to_hear(session):
                return  # in its place; it comes again
    if session in _waiting:
        _waiting[session].append(asked)
    elif _is_busy(session):
        _waiting[session] = [asked]
        asyncio.get_running_loop().call_later(SOON, _later, session, LOOKS)
    else:
        _ask(session, asked)


@wraps(_tell)
def _attentive(state: SessionState, told: WidgetStates) -> None:
    """As Streamlit's, before it calls the controls' callbacks."""
    _tell(state, told)
    heard: dict[str, _Heard] = state._old_state.setdefault(_HEARD, {})
    keys = state._key_id_mapper.id_key_mapping
    changed = [control for control in told.widgets if state._widget_changed(control.id)]
    behind = [control for control in changed if control.id in heard and heard[control.id].before(state, control)]
    if len(behind) == len(changed) or time.monotonic() - state._old_state.get(_DRAWN, math.inf) > DRAWS:
        behind = []  # the visitor has gone back to what it was before it was set from here
    # A number is up to date where its slider, which is drawn after it, has come to what was set from here.
    news = {one.id for one in told.widgets if one.id in heard and heard[one.id].said != one}
    drawn = {keys.get(name) for name in news.difference(control.id for control in changed)}
    behind = [control for control in behind if f"{keys.get(control.id)}_slider" not in drawn]
    context = get_script_run_ctx()
    if context is not None and not context.fragment_ids_this_run:
        state._old_state[_DRAWN] = math.inf
    said = {control.id: _Heard(control) for control in told.widgets}
    for control in behind:
        said[control.id].since = [*heard[control.id].since, state._old_state.get(control.id)]
        key = keys.get(control.id)
        settable = _kind(control) in _SETTABLE or control.id in state._query_param_bound_widget_ids
        if key is not None and settable and control.id in state._old_state:
            del state._new_widget_state[control.id]
            state._new_session_state[key] = state._old_state[control.id]
    heard.update(said)


@dataclass
class _Heard:
    """What a browser has said of a control, and the values set from here that it had not drawn then."""

    said: WidgetState
    since: list[Any] = field(default_factory=list)

    def before(self, state: SessionState, control: WidgetState) -> bool:
        """Whether what it says now may be what it drew before the newest value came."""
        if _kind(control).endswith("trigger_value"):
            return False
        return self.said == control or state._new_widget_state.get(control.id) in self.since


def drawn() -> None:
    """The page has been drawn to its end."""
    st.session_state[_DRAWN] = time.monotonic()


def _kind(control: WidgetState) -> str:
    """Of its value; "None" of an empty one."""
    return str(control.WhichOneof("value"))


def alone(key: str) -> bool:
    """In a callback of the control of this key: whether it is all that the visitor has changed. If not, the browser has
    not drawn yet what it shows."""
    context = get_script_run_ctx()
    assert context is not None
    state = context.session_state._state
    keys = state._key_id_mapper.id_key_mapping
    return all(keys.get(name) == key for name in state._new_widget_state if state._widget_changed(name))


def _page_of(session: AppSession, asked: ClientState) -> str:
    """What Streamlit calls the page that a request is for; as the request says, where the menu does not know better."""
    pages = session._pages_manager.get_pages()
    if asked.page_script_hash not in pages or asked.page_script_hash == session._pages_manager.main_script_hash:
        name = asked.page_name or urlsplit(asked.context_info.url).path.rpartition("/")[2]
        for key, page in pages.items():
            if name and page.get("url_pathname") == name:
                return key
    return asked.page_script_hash


def _later(session: AppSession, looks: int) -> None:
    loop, waiting = asyncio.get_running_loop(), _waiting[session]
    if looks and _is_busy(session):
        loop.call_later(SOON, _later, session, looks - 1)
        return
    asked = waiting.pop(0)
    if waiting:
        loop.call_later(SOON, _later, session, LOOKS)
    else:
        del _waiting[session]
    _ask(session, asked)


def _is_busy(session: AppSession) -> bool:
    """Whether its script has ended, but not everything that it said has been passed on; or it is to be run as a whole,
    and has not heard yet for what."""
    runner = session._scriptrunner
    if runner is None:
        return False
    ended = runner._requests._state is ScriptRequestType.STOP
    return ended or (_has_more_to_hear(session) and not runner._requests._rerun_data.fragment_id_queue)


def _has_more_to_hear(session: AppSession) -> bool:
    """Whether its script has not come yet to what a visitor has changed last."""
    runner = session._scriptrunner
    if runner is None or runner._requests._state is not ScriptRequestType.RERUN:
        return False
    told = runner._requests._rerun_data.widget_states
    return told is not None and bool(told.widgets)
