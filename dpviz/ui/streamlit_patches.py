"""Workarounds for Streamlit bugs, most of them about requests that arrive at the wrong moment.

A request is a message of the browser that asks for the script of a page, or of one of its fragments, to run. It carries
the values of all controls.

1. If a request arrives after the script of a page has ended, and before its last messages have been sent, Streamlit
   starts the script again and drops those messages: the page stays half drawn, or a control keeps a value that a preset
   has replaced. The regular requests of a page that shows a run under way are such requests, too. Here a request waits
   until the messages have been sent, in the order of arrival.
2. The first request of a tab names its page by the address. If it is repeated while the first page is drawn, Streamlit
   takes it for a request of another page and drops the settings of a link. Here it asks for the page that it names.
3. A request after a visitor's change of one control also carries the browser's values of all others. If the server has
   set another control (a slider sets its number, a preset sets all) and the browser has not drawn that yet, its old
   value looks like a change back. Here the old value is ignored, and the newest one is sent again, if the browser only
   repeats its last value, or has one that the server had set meanwhile, while another control has really changed. A
   number counts as the visitor's after the time that a browser needs to draw: it may have been typed just before the
   change of the other control. For controls of which the browser has sent no value yet, see `changed_alone`.
4. Of two waiting requests Streamlit drops the first. Here each one is served before the next. A request of a fragment
   that arrives after the visitor has gone to another page would lead back to the page that was left, or clear the new
   one: it is dropped when its turn comes to be taken or, if the new page has begun by then, to be run.
5. For each connection from another web site, also one of `server.corsAllowedOrigins`, Streamlit asks a server elsewhere
   for the address of this one, and meanwhile answers no request. Here it does not ask. Connections that are not allowed
   are refused earlier, by `server.OwnOrigins`.
6. To read the value of one number or menu, Streamlit collects the values of all controls. Here it reads that one only.
7. When a visitor goes to another page, Streamlit tells the browser the settings of the new page, and that the old one
   has none, before the browser is at the new address: Back then leads to an old page without settings. Here only the
   new page sends its settings, with its name, by which `screen.js` adds one entry to the browser's history for each
   page. The first page of a visit sends them once, when it is drawn: until the browser has loaded `screen.js`, each
   message adds an entry.
8. A request carries the address of the browser, which Streamlit takes for the newest one. If the server has set
   controls since, and the browser has not drawn that yet, the address loses their values: a reload would show others.
   Here the address is corrected when a page has been drawn. Streamlit also removes the value of a control that is no
   longer drawn, at the end of the first drawing without it; here not, if the control belongs to a closed section.

The patches need private names of Streamlit. If one of them is missing, that patch and those after it are left
out, and the log of the server says so once: see `with_fallback`.
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
    from streamlit.runtime.scriptrunner import RerunData, ScriptRunContext, ScriptRunner
    from streamlit.runtime.state.query_params import QueryParams
    from streamlit.runtime.state.safe_session_state import SafeSessionState
    from streamlit.runtime.state.session_state import SessionState

T = TypeVar("T")
SOON, POLLS = 0.01, 200  # seconds between two checks whether the messages have been sent, and largest number of checks
DRAWS = 2.0  # seconds in which even a busy browser draws a message
_REPORTS = "streamlit_patches_reports"  # session key: the last report of every control, by Streamlit's name of it
_DRAWN = "streamlit_patches_drawn"  # session key: time when its page was fully drawn; infinity while it is drawn
_PAGE = "streamlit_patches_page"  # session key: address of its page
_UNSENT = "streamlit_patches_unsent"  # session key: true if settings wait for the first page to be drawn, else false
OF_PAGE = "of_page"  # query parameter in messages to the browser: the page that the settings belong to
_SETTABLE = {"bool_value", "double_value", "int_value", "string_array_value"}  # kinds of values that the server can set
_log = logging.getLogger(__name__)
_reported: set[str] = set()  # the missing names that the log has
_waiting: "WeakKeyDictionary[AppSession, list[ClientState | None]]" = WeakKeyDictionary()  # requests, first come first
_original: dict[str, Callable[..., None]] = {}  # Streamlit's own functions in place of which ours are called


def with_fallback(work: Callable[[], T], otherwise: T) -> T:
    """Return the result of `work`, which reads private names of Streamlit; `otherwise` if such a name is missing.

    A missing name is written to the log, once per process.
    """
    try:
        return work()
    # A name may be gone, or be a function with other parameters, or hold values of another form.
    except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
        if str(error) not in _reported:
            _reported.add(str(error))
            _log.warning("A workaround is left out, Streamlit %s lacks a name that it needs: %s", st.__version__, error)
        return otherwise


def script_context() -> "ScriptRunContext | None":
    """Return Streamlit's context of the running script; None outside a script."""
    return with_fallback(lambda: import_module("streamlit.runtime.scriptrunner").get_script_run_ctx(), otherwise=None)


def apply() -> None:
    """Patch Streamlit, once per process."""
    if not _original:
        with_fallback(_apply, otherwise=None)


def _apply() -> None:
    """Replace Streamlit's functions by those of this module. The numbers are those of the list at its top."""
    # 1, 2 and 4: requests wait for their turn. 3: old values are ignored.
    sessions = import_module("streamlit.runtime.app_session").AppSession
    states = import_module("streamlit.runtime.state.session_state").SessionState
    runners = import_module("streamlit.runtime.scriptrunner").ScriptRunner
    _original.update(request=sessions.request_rerun, set_widgets=states.set_widgets_from_proto, run=runners._run_script)
    sessions.request_rerun = wraps(sessions.request_rerun)(_request)
    runners._run_script = wraps(runners._run_script)(_run)
    states.set_widgets_from_proto = wraps(states.set_widgets_from_proto)(_set_widgets)
    # 5: nobody is asked for the address of this server.
    network: Any = import_module("streamlit.net_util")
    network.get_external_ip = wraps(network.get_external_ip)(lambda: None)
    network.get_internal_ip = wraps(network.get_internal_ip)(lambda: None)
    # 6: values are read one at a time.
    safe = import_module("streamlit.runtime.state.safe_session_state").SafeSessionState
    safe.filtered_state = property(partial(_Values, every=safe.filtered_state.fget))
    # 7: only the new page sends its settings.
    params = import_module("streamlit.runtime.state.query_params").QueryParams
    _original["send"] = params._send_query_param_msg
    params._send_query_param_msg = _send_settings
    params.populate_from_query_string = _without_sending(params.populate_from_query_string)
    switch: Any = import_module("streamlit.commands.execution_control")
    switch._set_query_params_for_switch = _without_sending(switch._set_query_params_for_switch)


@dataclass(frozen=True)
class _Values(Mapping[str, Any]):
    """Replacement of `SafeSessionState.filtered_state`: the values of all controls by name, read one at a time.

    state : the values. every : Streamlit's own function, which collects all of them.
    """

    state: "SafeSessionState"
    every: Callable[["SafeSessionState"], dict[str, Any]]

    def __getitem__(self, name: str) -> Any:
        return self.state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.every(self.state))

    def __len__(self) -> int:
        return len(self.every(self.state))


def _request(session: "AppSession", request: "ClientState | None") -> None:
    """Serve a request, if it is due; replaces `AppSession.request_rerun`, which is called in the event loop."""
    if not with_fallback(lambda: _queue_if_early(session, request), otherwise=False):
        _serve(session, request)


def _queue_if_early(session: "AppSession", request: "ClientState | None") -> bool:
    """Add a request to those that wait, and return true; return false if it is to be served now."""
    if request is not None:
        request.page_script_hash = _page_of(session, request)  # 2 in the list at the top
    if session in _waiting:
        _waiting[session].append(request)
        return True
    if _is_busy(session):
        _waiting[session] = [request]
        asyncio.get_running_loop().call_later(SOON, _serve_waiting, session, POLLS)
        return True
    return False


def _serve(session: "AppSession", request: "ClientState | None") -> None:
    """Have Streamlit serve a request, unless it is of a fragment of a page that the visitor has left."""
    if request is None or not with_fallback(lambda: _is_of_page_left(session, request), otherwise=False):
        _original["request"](session, request)


def _is_of_page_left(session: "AppSession", request: "ClientState") -> bool:
    """Return true if a fragment's request is for a page that the visitor has left: for another one than the page that
    is about to begin or, if there is none, than the present page."""
    if not request.fragment_id:
        return False
    page, runner = session._pages_manager.current_page_script_hash, session._scriptrunner
    if runner is not None and runner._requests._state.name == "RERUN":
        next_run = runner._requests._rerun_data
        if not next_run.fragment_id_queue:
            page = next_run.page_script_hash
    return request.page_script_hash != page


def _run(runner: "ScriptRunner", request: "RerunData") -> None:
    """Run a page, or fragments of a page unless another page has begun since the request of the fragments was taken.

    It replaces `ScriptRunner._run_script`.
    """

    def is_of_other_page() -> bool:
        current = runner._pages_manager.current_page_script_hash
        return bool(request.fragment_id_queue) and request.page_script_hash != current

    if not with_fallback(is_of_other_page, otherwise=False):
        _original["run"](runner, request)


def _set_widgets(state: "SessionState", message: "WidgetStates") -> None:
    """Take the browser's values of all controls, without those that are out of date.

    It replaces `SessionState.set_widgets_from_proto`, which is called before the callbacks of controls.
    """
    _original["set_widgets"](state, message)
    with_fallback(lambda: _restore_newer(state, message), otherwise=None)


def _restore_newer(state: "SessionState", message: "WidgetStates") -> None:
    """Restore the values of controls of which the browser sent old ones, as it had not drawn the newest ones yet.

    message : the browser's values of all controls, which Streamlit has taken already.
    """
    keys = state._key_id_mapper.id_key_mapping  # our keys of controls by Streamlit's names
    last: dict[str, _Report] = state._old_state.setdefault(_REPORTS, {})  # the last reports, by Streamlit's names
    # The server's values before this message, those that Streamlit has taken from it, and those that code sets.
    server_values, new_widgets, new_values = state._old_state, state._new_widget_state, state._new_session_state
    # The controls whose values differ from the server's, and those of them whose value may be an old one.
    changed = [control for control in message.widgets if state._widget_changed(control.id)]
    outdated = [control for control in changed if control.id in last and last[control.id].may_be_older(state, control)]
    seconds_since_drawn = time.monotonic() - server_values.get(_DRAWN, math.inf)  # -inf while the page is being drawn
    if len(outdated) == len(changed):  # nothing else has changed: the visitor has chosen the replaced value again
        outdated = []
    if seconds_since_drawn > DRAWS:
        # The browser has probably drawn. Only a number can come with another change, the click that leaves its field;
        # the other controls send each change at once.
        outdated = [control for control in outdated if _kind(control) != "double_value"]
    # If the browser's value of a slider is new to it and equals the server's, the browser has drawn that value, and
    # with it the number of the slider, which is drawn earlier: a number that differs is then the visitor's.
    changed_ids = {control.id for control in changed}
    new_to_it = [control for control in message.widgets if control.id in last and last[control.id].control != control]
    keys_up_to_date = {keys.get(control.id) for control in new_to_it if control.id not in changed_ids}
    outdated = [control for control in outdated if f"{keys.get(control.id)}_slider" not in keys_up_to_date]
    server_values[_DRAWN] = math.inf  # the page is drawn from now on
    reports = {control.id: _Report(control) for control in message.widgets}
    for control in outdated:
        reports[control.id].set_since = [*last[control.id].set_since, server_values.get(control.id)]
        key = keys.get(control.id)  # code sets values by this
        is_settable = _kind(control) in _SETTABLE or control.id in state._query_param_bound_widget_ids
        if key is not None and is_settable and control.id in server_values:
            del new_widgets[control.id]
            new_values[key] = server_values[control.id]  # set by code, it is sent to the browser again
    last.update(reports)


@dataclass
class _Report:
    """The browser's last report of a control, and the values that the server had set but the browser not drawn then."""

    control: "WidgetState"
    set_since: list[Any] = field(default_factory=list)

    def may_be_older(self, state: "SessionState", new: "WidgetState") -> bool:
        """Return true if the browser's new report may have a value from before the server's newest one.

        That is so if it repeats this last report, or has a value that the server had set earlier.
        """
        if _kind(new).endswith("trigger_value"):  # a press of a button, which has no earlier value
            return False
        return self.control == new or state._new_widget_state.get(new.id) in self.set_since


def _send_settings(params: "QueryParams") -> None:
    """Send the browser the settings of the address and, last, the name of the page that they belong to.

    It replaces `QueryParams._send_query_param_msg`.
    """
    if not with_fallback(lambda: _send_with_page(params), otherwise=False):
        _original["send"](params)


def _send_with_page(params: "QueryParams") -> bool:
    """Send the browser the settings with the name of the page, and return true; do nothing outside a script."""
    context = script_context()
    if context is None:
        return False
    page: Mapping[str, Any] = context.pages_manager.get_pages().get(context.page_script_hash, {})
    context.query_string = urlencode(params._query_params, doseq=True)  # as the function that this one replaces does
    if st.session_state.get(_UNSENT, True):  # the first page of the visit is not drawn yet: `finish_page` sends them
        st.session_state[_UNSENT] = True
        return True
    message = import_module("streamlit.proto.ForwardMsg_pb2").ForwardMsg()
    message.page_info_changed.query_string = urlencode(
        {**params._query_params, OF_PAGE: page.get("url_pathname", "")}, doseq=True
    )
    context.enqueue(message)
    return True


def _without_sending(change: Callable[..., None]) -> Callable[..., None]:
    """Return a function that does the same as `change`, but sends the browser nothing.

    change : a function of Streamlit that changes its first argument, the settings of a page that is not open yet;
    `begin_page` sends them when the page is open.
    """

    @wraps(change)
    def wrapper(params: Any, *args: Any) -> None:
        def note() -> None:  # all that the replaced function does, except sending
            context = script_context()
            if context is not None:
                context.query_string = urlencode(params._query_params, doseq=True)

        # An attribute of this object hides the method of the class, until it is deleted below.
        params._send_query_param_msg = lambda: with_fallback(note, otherwise=None)
        try:
            change(params, *args)
            # The page's name is no setting.
            with_fallback(lambda: params._query_params.pop(OF_PAGE, None), otherwise=None)
        finally:
            del params._send_query_param_msg

    return wrapper


def _with_settings(work: Callable[["QueryParams"], None]) -> None:
    """Call `work` with Streamlit's settings in the address; do nothing outside a script."""

    def call() -> None:
        context = script_context()
        if context is not None:
            with context.session_state.query_params() as params:
                work(params)

    with_fallback(call, otherwise=None)


def set_address(settings: Mapping[str, list[str]]) -> None:
    """Replace the settings in the address, before the running script draws its controls.

    Streamlit's own functions refuse to set those of controls that were drawn before. Such settings come when a browser
    names an earlier address again: by its button Back, or in a request from before it heard of the new address.
    """

    def set_all(params: "QueryParams") -> None:
        params.clear_with_no_forward_msg(preserve_embed=True)
        for name, values in settings.items():
            params.set_with_no_forward_msg(name, values[0] if len(values) == 1 else values)
        params.set_initial_query_params_from_current()
        params._send_query_param_msg()

    _with_settings(set_all)


def draws_whole_page() -> bool:
    """Return true if the running script draws all of a page, and not only fragments of it."""

    def is_whole() -> bool:
        context = script_context()
        return context is not None and not context.fragment_ids_this_run

    return with_fallback(is_whole, otherwise=False)


def begin_page(path: str) -> None:
    """Note that the page with the address `path` begins; send the browser its settings if another page was before."""
    if st.session_state.get(_PAGE, path) != path:
        _with_settings(lambda params: params._send_query_param_msg())
    st.session_state[_PAGE] = path


def finish_page(settings: Mapping[str, str | list[str]] | None = None, is_whole: bool = False) -> None:
    """Note the time at which the page has been drawn to its end, and correct the address if it has other settings.

    settings : the values of its controls that are not the default, by parameter of the address; None to leave the
    address as it is. is_whole : true at the end of the whole page; the first page of a visit then sends its settings.
    """

    def correct(params: "QueryParams") -> None:
        assert settings is not None
        bound = params._bindings_by_param
        outdated = [key for key in bound if not same_setting(params.get_all(key), settings.get(key, []))]
        for key in outdated:
            params._query_params.pop(key, None)
            if key in settings:
                params._query_params[key] = settings[key]
        if outdated:
            params._send_query_param_msg()

    if settings is not None:
        _with_settings(correct)
    if is_whole:
        are_unsent = st.session_state.get(_UNSENT, False)
        st.session_state[_UNSENT] = False
        if are_unsent:
            _with_settings(lambda params: params._send_query_param_msg())
    st.session_state[_DRAWN] = time.monotonic()


def unbind(key: str) -> None:
    """Free the address from a control that is no longer drawn, so that Streamlit does not remove its value there."""

    def free(params: "QueryParams") -> None:
        if params.is_bound(key):
            params.unbind_widget(params._bindings_by_param[key].widget_id)

    _with_settings(free)


def same_setting(text: str | list[str], other: str | list[str]) -> bool:
    """Return true if two texts or lists of texts in an address have the same values, in any order and spelling."""

    def values(text: str | list[str]) -> list[float | str]:
        texts = [text] if isinstance(text, str) else text
        return sorted(map(_comparable, texts), key=str)  # as texts, as a number has no order among words

    return values(text) == values(other)


def _comparable(text: str) -> float | str:
    """Return a number for a text that is one, else the text in lower case: the same for different spellings."""
    try:
        return float(text)
    except ValueError:
        return text.casefold()


def _kind(control: "WidgetState") -> str:
    """Return Streamlit's name for the type of a control's value, such as "double_value"; "None" for an empty one."""
    return str(control.WhichOneof("value"))


def changed_alone(key: str) -> bool:
    """Return true, in a callback of the control with this key, if no other control has changed at the same time.

    A visitor changes one control at a time. If several differ from the server's values, the browser may not have drawn
    the newest value of this one, and reports an old one as a change.
    """

    def is_alone() -> bool:
        context = script_context()
        if context is None:
            return True
        state = context.session_state._state
        keys = state._key_id_mapper.id_key_mapping
        return all(keys.get(name) == key for name in state._new_widget_state if state._widget_changed(name))

    return with_fallback(is_alone, otherwise=True)


def browser_has_other_number(key: str, value: float | None) -> bool:
    """Return true if the browser's last report of the control with this key has another number than `value`."""

    def number_differs() -> bool:
        context = script_context()
        if context is None:
            return False
        state = context.session_state._state
        last = state._old_state.get(_REPORTS, {}).get(state._key_id_mapper.get_id_from_key(key))
        return last is not None and _kind(last.control) == "double_value" and last.control.double_value != value

    return with_fallback(number_differs, otherwise=False)


def _page_of(session: "AppSession", request: "ClientState") -> str:
    """Return Streamlit's identifier of the page that a request is for.

    It is the one in the request, unless that is no page of the menu; then it is that of the page in its address.
    """
    pages = session._pages_manager.get_pages()
    main = session._pages_manager.main_script_hash  # `app.py`, with which a tab begins on any page
    if request.page_script_hash not in pages or request.page_script_hash == main:
        name = request.page_name or urlsplit(request.context_info.url).path.rpartition("/")[2]
        for key, page in pages.items():
            if name and page.get("url_pathname") == name:
                return key
    return request.page_script_hash


def _serve_waiting(session: "AppSession", polls: int) -> None:
    """Serve the first waiting request of a session, or check again later, at most `polls` times; then serve it anyway.

    The others then wait until that one has been served.
    """
    loop, waiting = asyncio.get_running_loop(), _waiting[session]
    if polls and with_fallback(lambda: _is_busy(session), otherwise=False):
        loop.call_later(SOON, _serve_waiting, session, polls - 1)
        return
    request = waiting.pop(0)
    if waiting:
        loop.call_later(SOON, _serve_waiting, session, POLLS)
    else:
        del _waiting[session]
    _serve(session, request)


def _is_busy(session: "AppSession") -> bool:
    """Return true if a request must wait: a new run of the script would now drop messages, or a visitor's change.

    The script has ended and its last messages are not sent yet, or it is about to run as a whole for a change that it
    has not read yet.
    """
    if session._scriptrunner is None:
        return False
    requests = session._scriptrunner._requests
    has_ended = requests._state.name == "STOP"
    unread = requests._rerun_data.widget_states if requests._state.name == "RERUN" else None
    has_unread_change = unread is not None and bool(unread.widgets)
    return has_ended or (has_unread_change and not requests._rerun_data.fragment_id_queue)
