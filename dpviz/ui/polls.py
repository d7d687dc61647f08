"""A fault of Streamlit's, mended: a poll that comes just after a page was drawn costs the end of that page.

Fragments with `run_every` let the browser ask again and again. Where the script of a page has ended and its last
messages have not left yet, as on a server with many visitors, such a request makes Streamlit start another run and
forget what the one before had still to say. Here, it is the request that is forgotten: another one follows.
"""

from functools import wraps

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType


def mended() -> None:
    """For this process, once."""
    ask = AppSession.request_rerun
    if hasattr(ask, "__wrapped__"):
        return

    @wraps(ask)
    def patient(session: AppSession, asked: ClientState | None) -> None:
        runner = session._scriptrunner
        ending = runner is not None and runner._requests._state is ScriptRequestType.STOP
        if asked is None or not asked.is_auto_rerun or not ending:
            ask(session, asked)

    AppSession.request_rerun = patient  # type: ignore[assignment, method-assign]
