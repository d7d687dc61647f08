"""Whether a server draws its start page, asked as a browser does: a container's health check.

`/_stcore/health` says that a server listens, not that its pages can be drawn. Here a page is opened over the websocket,
and read until its script has ended. Streamlit itself is not imported: that takes longer than the check.
"""

import importlib
import os
import socket
import sys
import types
from importlib.util import find_spec
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Subprotocol

SECONDS = 20.0  # for each answer


def main() -> int:
    """The exit code: 0 for a server whose start page is drawn, 1 with a line that says why not."""
    at = os.environ.get
    name = next(iter(at("STREAMLIT_SERVER_ALLOWED_HOSTS", "").split()), "127.0.0.1").replace("*", "health")
    port, path = int(at("STREAMLIT_SERVER_PORT", "8501")), at("STREAMLIT_SERVER_BASE_URL_PATH", "").strip("/")
    try:
        wrong = _wrong(f"ws://{name}:{port}/" + f"{path}/_stcore/stream".lstrip("/"), port)
    except (OSError, WebSocketException) as error:
        wrong = f"No page can be opened: {error}"
    if wrong:
        print(wrong, file=sys.stderr)
    return int(bool(wrong))


def _wrong(address: str, port: int) -> str:
    """What is wrong with the page that this machine's port has for an address; nothing, if it is drawn to its end."""
    back, forward = _messages()
    here, say = socket.create_connection(("127.0.0.1", port), SECONDS), [Subprotocol("streamlit")]
    with connect(address, sock=here, proxy=None, subprotocols=say, max_size=None, open_timeout=SECONDS) as connection:
        connection.send(back.BackMsg(rerun_script={"query_string": ""}).SerializeToString())
        while True:
            message = forward.ForwardMsg.FromString(connection.recv(timeout=SECONDS))
            kind = message.WhichOneof("type")
            if kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
                return "The start page raises an exception: the log of the server says which."
            if kind == "script_finished":
                finished = forward.ForwardMsg.ScriptFinishedStatus.Name(message.script_finished)
                return "" if finished == "FINISHED_SUCCESSFULLY" else f"The script of the start page: {finished}"


def _messages() -> tuple[Any, Any]:
    """Streamlit's messages to a server and from it, without the rest of Streamlit."""
    found = find_spec("streamlit")
    assert found is not None
    package = types.ModuleType("streamlit")
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules.setdefault("streamlit", package)
    names = "streamlit.proto.BackMsg_pb2", "streamlit.proto.ForwardMsg_pb2"
    return importlib.import_module(names[0]), importlib.import_module(names[1])


if __name__ == "__main__":
    sys.exit(main())
