"""Workarounds for Streamlit bugs, most of them about requests that arrive at the wrong moment.

1. After the script of a page has ended, and before its last messages have left, a request starts another run and drops
   those messages: the page stays half drawn, or a control keeps a value that a preset has replaced. Polls of a running
   run are such requests, too. Here a request waits until the messages have left, in order.
2. The first request of a tab names its page by the address. If it is repeated while the first page is drawn, Streamlit
   takes it for a request of another page and drops the settings of a link. Here it is a request of the page it names.
3. A request that a visitor's change has caused carries the old values of all other controls, too. Where the browser has
   not drawn a value set by the server yet (a slider sets its number, a preset sets all), this looks like a change back.
   Here a value that is only repeated does not count as a change next to one that does, nor does a value that the server
   had set meanwhile, and the newest value is sent again (see `alone` for controls of which the browser has said nothing
   yet). After the time that a browser needs to draw, every value counts as the visitor's.
4. Of two waiting requests Streamlit drops the first. Here each one is served before the next. A fragment's request that
   follows the change to another page would lead back to the page that has been left. Here it is dropped.
5. For each connection from another web site, also one of `server.corsAllowedOrigins`, Streamlit asks a server elsewhere
   for the address of this one, and meanwhile answers no request. Here it does not ask. Connections that are not allowed
   are refused earlier, by `server.origins`.
6. Before it draws a number or a menu, Streamlit collects the values of all controls to read one. Here it reads that
   one only.
7. Streamlit tells the browser the settings of a new page, and that the old one has none, before the browser is at the
   new address: Back then leads to an old page without settings. Here the new page tells its own, with its name, by
   which `screen.js` adds one entry to the browser's history for each page.

The patches need private names of Streamlit. Where one of them is missing, Streamlit stays as it is, and the log of the
server says so once: see `guarded`.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit
from weakref import WeakKeyDictionary

import streamlit as st

if TYPE_CHECKING:
    from streamlit.proto.ClientState_pb2 import ClientState
    from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
    from streamlit.runtime.app_session import AppSession
    from streamlit.runtime.scriptrunner import ScriptRunContext
    from streamlit.runtime.state.query_params import QueryParams
    from streamlit.runtime.state.safe_session_state import SafeSessionState
    from streamlit.runtime.state.session_state import SessionState

T = TypeVar("T")
SOON, POLLS = 0.01, 200  # seconds between two checks whether the messages have left, and largest number of checks
DRAWS = 2.0  # seconds in which even a busy browser draws what was sent to it
_SAID = "streamlit_patches_said"  # session key: the last message about every control, and values set since
_DRAWN = "streamlit_patches_drawn"  # session key: time when its page was fully drawn; infinity while it is drawn
_PAGE = "streamlit_patches_page"  # session key: address of its page
OF_PAGE = "of_page"  # query parameter in messages to the browser: the page that the settings belong to
_SETTABLE = {"bool_value", "double_value", "int_value", "string_array_value"}  # kinds of values that the server can set
_log = logging.getLogger(__name__)
_reported: set[str] = set()
_waiting: "WeakKeyDictionary[AppSession, list[ClientState | None]]" = WeakKeyDictionary()
_last_page: "WeakKeyDictionary[AppSession, tuple[str, float]]" = WeakKeyDictionary()  # left last, and the time
_original: dict[str, Callable[..., None]] = {}


def guarded(work: Callable[[], T], otherwise: T) -> T:
    """Return the result of `work`, which reads private names of Streamlit; `otherwise` where such a name is missing.

    A missing name is reported to the log once per process.
    """
    try:
        return work()
    except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
        if str(error) not in _reported:
            _reported.add(str(error))
            _log.warning("A workaround is left out, Streamlit %s lacks a name that it needs: %s", st.__version__, error)
        return otherwise


def script_context() -> "ScriptRunContext | None":
    """Return Streamlit's context of the script that calls; None outside a script."""
    return guarded(lambda: import_module("streamlit.runtime.scriptrunner").get_script_run_ctx(), None)


def apply() -> None:
    """Patch Streamlit, once per process."""
    if not _original:
        guarded(_apply, None)


def _apply() -> None:
    sessions = import_module("streamlit.runtime.app_session").AppSession
    states = import_module("streamlit.runtime.state.session_state").SessionState
    _original.update(request=sessions.request_rerun, set_widgets=states.set_widgets_from_proto)
    sessions.request_rerun = wraps(sessions.request_rerun)(_request)
    states.set_widgets_from_proto = wraps(states.set_widgets_from_proto)(_set_widgets)
    network: Any = import_module("streamlit.net_util")
    network.get_external_ip = wraps(network.get_external_ip)(lambda: None)
    network.get_internal_ip = wraps(network.get_internal_ip)(lambda: None)
    safe = import_module("streamlit.runtime.state.safe_session_state").SafeSessionState
    safe.filtered_state = property(partial(_Values, every=safe.filtered_state.fget))
    params = import_module("streamlit.runtime.state.query_params").QueryParams
    _original["send"] = params._send_query_param_msg
    params._send_query_param_msg = _send_settings
    params.populate_from_query_string = _silent(params.populate_from_query_string)
    switch: Any = import_module("streamlit.commands.execution_control")
    switch._set_query_params_for_switch = _silent(switch._set_query_params_for_switch)


@dataclass(frozen=True)
class _Values(Mapping[str, Any]):
    """Replacement of `SafeSessionState.filtered_state`: values by name, collected only in a loop over all of them."""

    state: "SafeSessionState"
    every: Callable[["SafeSessionState"], dict[str, Any]]

    def __getitem__(self, name: str) -> Any:
        return self.state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.every(self.state))

    def __len__(self) -> int:
        return len(self.every(self.state))


def _request(session: "AppSession", request: "ClientState | None") -> None:
    """Replace `AppSession.request_rerun`; called in the session's event loop."""
    if guarded(lambda: _is_due(session, request), True):
        _original["request"](session, request)


def _is_due(session: "AppSession", request: "ClientState | None") -> bool:
    """Return whether to serve a request now. Others wait, or are dropped."""
    if request is not None:
        request.page_script_hash = _page_of(session, request)
        if _is_of_page_left(session, request):
            return False
    if session in _waiting:
        _waiting[session].append(request)
        return False
    if not _is_busy(session):
        return True
    _waiting[session] = [request]
    asyncio.get_running_loop().call_later(SOON, _later, session, POLLS)
    return False


def _is_of_page_left(session: "AppSession", request: "ClientState") -> bool:
    """Return whether a fragment requests a page that the visitor has left, or leaves by the previous request."""
    current, now = session._client_state.page_script_hash, time.monotonic()
    if request.fragment_id:
        page, since = _last_page.get(session, ("", -math.inf))
        return request.page_script_hash != current or (page == current and now - since < DRAWS)
    if request.page_script_hash != current:
        _last_page[session] = current, now
    else:
        _last_page.pop(session, None)
    return False


def _set_widgets(state: "SessionState", message: "WidgetStates") -> None:
    """Replace `SessionState.set_widgets_from_proto`, which is called before the controls' callbacks."""
    _original["set_widgets"](state, message)
    guarded(lambda: _keep_newer(state, message), None)


def _keep_newer(state: "SessionState", message: "WidgetStates") -> None:
    """Undo the browser's message about controls whose newest value it had not drawn."""
    last: dict[str, _Said] = state._old_state.setdefault(_SAID, {})
    keys = state._key_id_mapper.id_key_mapping
    new_widgets, new_values = state._new_widget_state, state._new_session_state
    changed = [control for control in message.widgets if state._widget_changed(control.id)]
    behind = [control for control in changed if control.id in last and last[control.id].may_be_older(state, control)]
    if len(behind) == len(changed) or time.monotonic() - state._old_state.get(_DRAWN, math.inf) > DRAWS:
        behind = []  # the visitor has gone back to the value that the server had replaced
    # A number is up to date where its slider, which is drawn after it, has the value that the server set.
    news = {control.id for control in message.widgets if control.id in last and last[control.id].control != control}
    up_to_date = {keys.get(name) for name in news.difference(control.id for control in changed)}
    behind = [control for control in behind if f"{keys.get(control.id)}_slider" not in up_to_date]
    state._old_state[_DRAWN] = math.inf
    current = {control.id: _Said(control) for control in message.widgets}
    for control in behind:
        current[control.id].set_since = [*last[control.id].set_since, state._old_state.get(control.id)]
        key = keys.get(control.id)
        is_settable = _kind(control) in _SETTABLE or control.id in state._query_param_bound_widget_ids
        if key is not None and is_settable and control.id in state._old_state:
            del new_widgets[control.id]
            new_values[key] = state._old_state[control.id]
    last.update(current)


@dataclass
class _Said:
    """A browser's last message about a control, and the values set by the server that it had not drawn then."""

    control: "WidgetState"
    set_since: list[Any] = field(default_factory=list)

    def may_be_older(self, state: "SessionState", control: "WidgetState") -> bool:
        """Return whether the browser's new message may be a value that it drew before the newest value came."""
        if _kind(control).endswith("trigger_value"):
            return False
        return self.control == control or state._new_widget_state.get(control.id) in self.set_since


def _send_settings(params: "QueryParams") -> None:
    """Replace `QueryParams._send_query_param_msg`: send the settings of the address and, last, the page that they
    belong to."""
    if not guarded(lambda: _tell_settings(params), False):
        _original["send"](params)


def _tell_settings(params: "QueryParams") -> bool:
    """Send the settings to the browser; return False outside a script."""
    context = script_context()
    if context is None:
        return False
    page: Mapping[str, Any] = context.pages_manager.get_pages().get(context.page_script_hash, {})
    context.query_string = urlencode(params._query_params, doseq=True)
    message = import_module("streamlit.proto.ForwardMsg_pb2").ForwardMsg()
    message.page_info_changed.query_string = urlencode(
        {**params._query_params, OF_PAGE: page.get("url_pathname", "")}, doseq=True
    )
    context.enqueue(message)
    return True


def _silent(change: Callable[..., None]) -> Callable[..., None]:
    """Return `change`, a change of settings for a page that is not open yet, without its message: `page_begun` sends
    that.

    change : its first argument holds the settings.
    """

    @wraps(change)
    def wrapper(params: Any, *args: Any) -> None:
        def note() -> None:
            if context := script_context():
                context.query_string = urlencode(params._query_params, doseq=True)

        params._send_query_param_msg = lambda: guarded(note, None)
        try:
            change(params, *args)
            guarded(lambda: params._query_params.pop(OF_PAGE, None), None)
        finally:
            del params._send_query_param_msg

    return wrapper


def page_begun(path: str) -> None:
    """Tell the browser the settings of the page with this address, if the previous page was another one."""

    def tell() -> None:
        if context := script_context():
            with context.session_state.query_params() as params:
                params._send_query_param_msg()

    if st.session_state.get(_PAGE, path) != path:
        guarded(tell, None)
    st.session_state[_PAGE] = path


def page_drawn() -> None:
    """Note that the page has been drawn to its end."""
    st.session_state[_DRAWN] = time.monotonic()


def _kind(control: "WidgetState") -> str:
    """Return the kind of a control's value; "None" of an empty one."""
    return str(control.WhichOneof("value"))


def alone(key: str) -> bool:
    """Return, in a callback of the control with this key, whether it is the only change of the visitor.

    If not, the browser has not drawn yet what it shows.
    """

    def is_alone() -> bool:
        context = script_context()
        if context is None:
            return True
        state = context.session_state._state
        keys = state._key_id_mapper.id_key_mapping
        return all(keys.get(name) == key for name in state._new_widget_state if state._widget_changed(name))

    return guarded(is_alone, True)


def differs(key: str, value: float | None) -> bool:
    """Return whether the browser's last message has another number than `value` for the control with this key."""

    def number_differs() -> bool:
        context = script_context()
        if context is None:
            return False
        state = context.session_state._state
        last = state._old_state.get(_SAID, {}).get(state._key_id_mapper.get_id_from_key(key))
        return last is not None and _kind(last.control) == "double_value" and last.control.double_value != value

    return guarded(number_differs, False)


def _page_of(session: "AppSession", request: "ClientState") -> str:
    """Return Streamlit's name of the page that a request is for: the request's own or, where that is no page of the
    menu, the page named in its address."""
    pages = session._pages_manager.get_pages()
    if request.page_script_hash not in pages or request.page_script_hash == session._pages_manager.main_script_hash:
        name = request.page_name or urlsplit(request.context_info.url).path.rpartition("/")[2]
        for key, page in pages.items():
            if name and page.get("url_pathname") == name:
                return key
    return request.page_script_hash


def _later(session: "AppSession", polls: int) -> None:
    loop, waiting = asyncio.get_running_loop(), _waiting[session]
    if polls and guarded(lambda: _is_busy(session), False):
        loop.call_later(SOON, _later, session, polls - 1)
        return
    request = waiting.pop(0)
    if waiting:
        loop.call_later(SOON, _later, session, POLLS)
    else:
        del _waiting[session]
    _original["request"](session, request)


def _is_busy(session: "AppSession") -> bool:
    """Return whether the session's script has messages left to send after its end, or is to run as a whole for a
    change that it has not read yet."""
    runner = session._scriptrunner
    if runner is None:
        return False
    has_ended = runner._requests._state.name == "STOP"
    return has_ended or (_has_unheard_change(session) and not runner._requests._rerun_data.fragment_id_queue)


def _has_unheard_change(session: "AppSession") -> bool:
    """Return whether the session's script has not read yet what the visitor changed last."""
    runner = session._scriptrunner
    if runner is None or runner._requests._state.name != "RERUN":
        return False
    message = runner._requests._rerun_data.widget_states
    return message is not None and bool(message.widgets)
