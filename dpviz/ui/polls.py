"""Two faults of Streamlit's, mended: what a request that comes in the wrong moment costs.

Where the script of a page has ended and its last messages have not left yet, as on a busy server, a request makes
Streamlit start another run and forget what the one before had still to say: a page stays half drawn, or a control
keeps a value that a preset has replaced. Fragments with `run_every` ask again and again, and hit that moment at last.
Here, requests wait until those messages have left, in their order.

Such a poll also says what the browser takes the controls for. Where it has not come to drawing the values that a preset
has set, they would be taken back. What a visitor changes is always a request of its own: here, a poll says nothing.
"""

import asyncio
from functools import wraps
from weakref import WeakKeyDictionary

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType

SOON, LOOKS = 0.01, 200  # seconds between two looks at whether they have left, and how often it is looked
_waiting: "WeakKeyDictionary[AppSession, list[ClientState | None]]" = WeakKeyDictionary()
_ask = AppSession.request_rerun


def mended() -> None:
    """For this process, once."""
    if AppSession.request_rerun is _ask:
        AppSession.request_rerun = _patient  # type: ignore[assignment, method-assign]


@wraps(_ask)
def _patient(session: AppSession, asked: ClientState | None) -> None:
    """As Streamlit's, in whose event loop it is called."""
    if asked is not None and asked.is_auto_rerun:
        asked.ClearField("widget_states")
    if session in _waiting:
        _waiting[session].append(asked)
    elif _has_more_to_say(session):
        _waiting[session] = [asked]
        asyncio.get_running_loop().call_later(SOON, _later, session, LOOKS)
    else:
        _ask(session, asked)


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
