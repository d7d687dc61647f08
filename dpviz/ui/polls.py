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
by the visitor, and would take it back. Here, what a control only says once more is no change beside one that is, and
the value set from here is sent again. Before the browser has said anything of a control: see `alone`.
"""

import asyncio
from functools import wraps
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType
from streamlit.runtime.state.session_state import SessionState

SOON, LOOKS = 0.01, 200  # seconds between two looks at whether they have left, and how often it is looked
_waiting: "WeakKeyDictionary[AppSession, list[ClientState | None]]" = WeakKeyDictionary()
_ask = AppSession.request_rerun
_tell = SessionState.set_widgets_from_proto
_SAID = "polls_said"  # in the session: what its browser has said last of every control
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
    if session in _waiting:
        _waiting[session].append(asked)
    elif _has_more_to_say(session):
        _waiting[session] = [asked]
        asyncio.get_running_loop().call_later(SOON, _later, session, LOOKS)
    else:
        _ask(session, asked)


@wraps(_tell)
def _attentive(state: SessionState, told: WidgetStates) -> None:
    """As Streamlit's, before it calls the controls' callbacks."""
    _tell(state, told)
    said: dict[str, WidgetState] = state._old_state.setdefault(_SAID, {})
    changed = [control for control in told.widgets if state._widget_changed(control.id)]
    repeated = [one for one in changed if said.get(one.id) == one and not _kind(one).endswith("trigger_value")]
    said.update({control.id: control for control in told.widgets})
    if len(repeated) == len(changed):
        return  # the visitor has gone back to what it was before it was set from here
    for control in repeated:
        key = state._key_id_mapper.id_key_mapping.get(control.id)
        settable = _kind(control) in _SETTABLE or control.id in state._query_param_bound_widget_ids
        if key is not None and settable and control.id in state._old_state:
            del state._new_widget_state[control.id]
            state._new_session_state[key] = state._old_state[control.id]


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
    if looks and _has_more_to_say(session):
        asyncio.get_running_loop().call_later(SOON, _later, session, looks - 1)
        return
    for asked in _waiting.pop(session):
        _ask(session, asked)


def _has_more_to_say(session: AppSession) -> bool:
    """Whether its script has ended, but not everything that it said has been passed on."""
    runner = session._scriptrunner
    return runner is not None and runner._requests._state is ScriptRequestType.STOP
