"""Who is here, over Streamlit's own runtime: tabs that are closed, connections that come back, sessions that end."""

import asyncio
import gc
import inspect
import re
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime import Runtime, RuntimeConfig
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests, ScriptRequestType
from streamlit.runtime.session_manager import SessionClient
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import SessionState
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.web.server.starlette.starlette_websocket import _is_origin_allowed

from dpviz.ui import browser_session, streamlit_patches, visitors
from dpviz.ui.visitors import Visitor
from tests import waiting
from tests.apart import apart

pytestmark = pytest.mark.slow  # real processes and clocks

PATIENCE = 20.0
# Read on busy servers only.
RARELY_READ = {
    "_query_param_bound_widget_ids",
    "_rerun_data",
    "fragment_id_queue",
    "main_script_hash",
}  # on busy servers
PAGE = f"from {__name__} import page; page()"
here: list[weakref.ref[Visitor]] = []  # those for whom a page was drawn, in that order
abandoned: list["weakref.ref[Run]"] = []
wanted: list[int] = []  # what the page sets its slider to
noted: list[int] = []  # what the polls of the page found there


class Run:
    """What a page keeps of a run, with the rows of a file."""

    def __init__(self, returns: bool = True) -> None:
        self.returns = returns

    def abandon(self) -> None:
        abandoned.append(weakref.ref(self))

    def let_go(self, tables: Collection[str]) -> None: ...


def page() -> None:
    """The script of the toy app."""
    visitor = visitors.here()
    visitor.drawn()
    if "toy_job" not in st.session_state:
        visitor.keep("toy_job", Run())
    here.append(weakref.ref(visitor))
    if wanted:
        st.session_state["toy_number"] = wanted.pop()
    st.slider("Number", 0, 20, key="toy_number")
    st.fragment(lambda: noted.append(st.session_state["toy_number"]), run_every=3600.0)()


class Client(SessionClient):
    """A browser that looks at nothing but whether all of the page has come."""

    def __init__(self) -> None:
        self.drawn = 0
        self.poll = BackMsg()
        self.slider = ""

    def write_forward_msg(self, msg: Any) -> None:
        match msg.WhichOneof("type"):
            case "script_finished" if msg.script_finished == msg.FINISHED_SUCCESSFULLY:
                self.drawn += 1
            case "delta" if msg.delta.new_element.WhichOneof("type") == "slider":
                self.slider = msg.delta.new_element.slider.id
            case "auto_rerun":
                asked = self.poll.rerun_script
                asked.fragment_id, asked.is_auto_rerun = msg.auto_rerun.fragment_id, True

    client_context: Any = None


@dataclass
class Server:
    """A Streamlit runtime in the loop of the test."""

    runtime: Runtime
    files: MemoryUploadedFileManager
    clients: dict[str, Client] = field(default_factory=dict)  # by session, as it is connected now

    async def connect(self, session: str | None = None) -> str:
        """Open a tab, or let one come back, without drawing anything."""
        client = Client()
        found = self.runtime.connect_session(client, {}, existing_session_id=session)
        self.clients[found] = client
        return found

    def ask(self, session: str) -> None:
        """Ask for the page, as a control does that was moved."""
        message = BackMsg()
        message.rerun_script.query_string = ""
        self.runtime.handle_backmsg(session, message)

    async def draw(self, session: str) -> Visitor:
        """Draw the page in a tab."""
        before, drawn = len(here), self.clients[session].drawn
        self.ask(session)
        await until(lambda: len(here) > before and self.clients[session].drawn > drawn)
        visitor = here[-1]()
        assert visitor is not None
        return visitor


async def until(true: Callable[[], bool]) -> None:
    """Wait for a condition."""
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[..., Coroutine]], None]]:
    """Plays a scene on a server of its own; sessions without a connection are kept for a second."""
    here.clear()
    abandoned.clear()
    monkeypatch.setattr(visitors, "GRACE", 0.2)
    monkeypatch.setattr(visitors, "BEAT", 0.02)
    monkeypatch.setattr(Runtime, "_instance", None)
    script = tmp_path / "toy.py"
    script.write_text(PAGE)
    kept = config.get_option("server.disconnectedSessionTTL")
    config.set_option("server.disconnectedSessionTTL", 1)

    async def played(scene: Callable[[Server], Coroutine[Any, Any, None]]) -> None:
        files = MemoryUploadedFileManager("/upload")
        storage = MemorySessionStorage(ttl_seconds=60)  # longer: this machine may be slow
        runtime = Runtime(RuntimeConfig(str(script), MemoryMediaFileStorage("/media"), files, session_storage=storage))
        await runtime.start()
        try:
            await scene(Server(runtime, files))
        finally:
            runtime.stop()
            await runtime.stopped

    yield lambda scene: apart(played(scene))
    config.set_option("server.disconnectedSessionTTL", kept)


def ended() -> list[Run | None]:
    return [run() for run in abandoned]


def run_of(visitor: Visitor) -> Run:
    run = visitor.runs["toy_job"]
    assert isinstance(run, Run)
    return run


@pytest.mark.slow
def test_a_closed_tab_ends_its_run_and_then_its_session(server) -> None:
    """No other visitor comes meanwhile: nothing but the clock removes what was uploaded."""

    async def scene(server: Server) -> None:
        session = await server.connect()
        left = weakref.ref(await server.draw(session))
        run = weakref.ref(run_of(left()))
        assert not abandoned
        server.files.add_file(session, UploadedFileRec("1", "rows.csv", "text/csv", b"1,2,3"))
        server.runtime.disconnect_session(session)
        await until(lambda: bool(abandoned))
        gc.disable()  # the session must not need it
        await until(lambda: left() is None and run() is None)
        assert not server.files.get_files(session, ["1"])

    try:
        server(scene)
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_session_that_ends_before_its_visitor_counts_as_gone_takes_its_run_along(server, monkeypatch) -> None:
    async def scene(server: Server) -> None:
        monkeypatch.setattr(visitors, "GRACE", 60.0)  # an operator may keep sessions for less than that
        session = await server.connect()
        await server.draw(session)
        server.runtime.disconnect_session(session)
        await until(lambda: bool(abandoned))

    server(scene)


@pytest.mark.parametrize("redraw", [True, False], ids=["drawn again", "not drawn again"])
def test_a_connection_that_comes_back_keeps_the_run(server, monkeypatch: pytest.MonkeyPatch, redraw: bool) -> None:
    """Streamlit does not draw a page again where nothing was under way."""

    async def looks() -> None:
        await asyncio.sleep(5 * visitors.BEAT)

    async def scene(server: Server) -> None:
        session = await server.connect()
        visitor = await server.draw(session)
        monkeypatch.setattr(visitors, "GRACE", 60.0)
        config.set_option("server.disconnectedSessionTTL", 60)  # until it comes back
        server.runtime.disconnect_session(session)
        await looks()
        assert await server.connect(session) == session
        monkeypatch.setattr(visitors, "GRACE", 1e-9)  # who were taken for absent now would have left
        if redraw:
            assert await server.draw(session) is visitor
        await looks()
        assert not abandoned
        server.runtime.disconnect_session(session)
        await until(lambda: bool(abandoned))

    server(scene)


def test_a_tab_that_is_loaded_again_has_its_runs_back_and_robs_nobody(server, monkeypatch) -> None:
    async def scene(server: Server) -> None:
        session = await server.connect()
        before, after = await server.draw(session), await server.draw(await server.connect())
        public, private = Run(), Run(returns=False)
        before.runs |= {"public_job": public, "private_job": private}
        before.notes |= {"said": 1, "both": 1}
        after.notes["both"] = 2
        said = {"visitor": before.name, "server": browser_session._SERVER, "has": ["public_job"]}
        with monkeypatch.context() as patch:
            patch.setattr(st, "session_state", {browser_session.KEY: {"before": said}})
            browser_session._hear(after)  # still there: a tab that was duplicated
        assert after.runs.keys() == {"toy_job"} and before.runs.keys() > {"public_job"} and not after.lost
        server.runtime.disconnect_session(session)
        after.take_back("somebody else")
        after.take_back(before.name)
        assert after.runs["public_job"] is public and not before.runs
        assert after.notes == {"said": 1, "both": 2}
        monkeypatch.setattr(visitors, "GRACE", 1e-9)
        await asyncio.sleep(5 * visitors.BEAT)
        assert public not in ended() and private in ended() and run_of(after) not in ended()

    server(scene)


@pytest.mark.parametrize("by_itself", [True, False], ids=["poll", "control"])
def test_what_is_asked_just_after_a_page_was_drawn_costs_nothing_of_it(server, by_itself: bool) -> None:
    """Without the patches, the page never comes to its end: the loop of the server was busy with other visitors."""

    async def scene(server: Server) -> None:
        streamlit_patches.apply()
        session = await server.connect()
        await server.draw(session)
        server.ask(session)
        runner = server.runtime._session_mgr.get_session_info(session).session._scriptrunner
        waiting.until(lambda: runner._requests._state is ScriptRequestType.STOP)  # and nothing of it has left
        if by_itself:
            server.runtime.handle_backmsg(session, server.clients[session].poll)
        else:
            server.ask(session)
        await until(lambda: server.clients[session].drawn == (2 if by_itself else 3))

    server(scene)


def test_a_poll_takes_back_no_value_that_the_page_has_set(server) -> None:
    """The browser asks again before it has drawn what came: it still says the old value."""

    async def scene(server: Server) -> None:
        streamlit_patches.apply()
        session = await server.connect()
        wanted.append(10)
        await server.draw(session)
        client, found = server.clients[session], len(noted)
        said = client.poll.rerun_script.widget_states.widgets.add()
        said.id, said.double_array_value.data[:] = client.slider, [2.0]
        server.runtime.handle_backmsg(session, client.poll)
        await until(lambda: len(noted) > found)
        assert noted[-1] == 10

    server(scene)


@pytest.mark.parametrize("by_itself", [True, False], ids=["poll", "control"])
def test_what_the_visitor_has_changed_is_heard_before_what_comes_next(
    server, by_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script has not come to the change yet, and Streamlit would make one request of both."""
    held, ready, tell = threading.Event(), ScriptRequests.on_scriptrunner_ready, SessionState.on_script_will_rerun
    on_progress: list[float] = []

    def told(state: SessionState, states: WidgetStates, **how: Any) -> None:
        on_progress.extend(one.double_array_value.data[0] for one in states.widgets)
        tell(state, states, **how)

    async def scene(server: Server) -> None:
        streamlit_patches.apply()
        session = await server.connect()
        await server.draw(session)
        client = server.clients[session]
        await until(lambda: server.runtime._session_mgr.get_session_info(session).session._scriptrunner is None)
        monkeypatch.setattr(ScriptRequests, "on_scriptrunner_ready", lambda asked: held.wait(PATIENCE) and ready(asked))
        monkeypatch.setattr(SessionState, "on_script_will_rerun", told)
        changes = [BackMsg(), BackMsg()]
        for change, value in zip(changes, (7.0, 9.0), strict=True):
            said = change.rerun_script.widget_states.widgets.add()
            said.id, said.double_array_value.data[:] = client.slider, [value]
        server.runtime.handle_backmsg(session, changes[0])
        server.runtime.handle_backmsg(session, client.poll if by_itself else changes[1])
        held.set()
        await until(lambda: noted[-1] == (7 if by_itself else 9))
        assert on_progress == ([7.0] if by_itself else [7.0, 9.0])

    server(scene)


@pytest.mark.parametrize(("ago", "holds"), [(0.1, 3.0), (10.0, 1.0)], ids=["just drawn", "drawn long ago"])
def test_what_a_browser_says_once_more_is_meant_when_it_must_have_drawn_all(ago: float, holds: float) -> None:
    """A number typed back and another control, in one request."""
    streamlit_patches.apply()
    state = SessionState()
    for key in ("number", "other"):
        state.register_widget(
            WidgetMetadata(f"$$ID-{key}-{key}", lambda value: value or 0.0, float, value_type="double_value"), key
        )

    def told(other: float) -> None:
        state._compact_state()
        said = {"number": 1.0, "other": other}
        streamlit_patches._set_widgets(
            state, WidgetStates(widgets=[{"id": f"$$ID-{key}-{key}", "double_value": x} for key, x in said.items()])
        )

    told(0.0)
    state["number"], state[streamlit_patches._DRAWN] = 3.0, time.monotonic() - ago
    told(1.0)
    assert (state["number"], state["other"]) == (holds, 1.0)


def test_another_web_site_is_refused_without_asking_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_: pytest.fail(f"{asked[0]} is asked"))
    streamlit_patches.apply()
    assert not _is_origin_allowed("https://elsewhere.example", "127.0.0.1:8501")
    assert _is_origin_allowed("http://127.0.0.1:8501", "127.0.0.1:8501")


def _private_names() -> list[str]:
    """What `streamlit_patches` reads of Streamlit although it is not documented: attributes and modules."""
    source = Path(streamlit_patches.__file__).read_text()
    undocumented = "id_key_mapping|get_pages|main_script_hash|page_script_hash|fragment_ids_this_run|fragment_id_queue"
    undocumented += "|is_auto_rerun|request_rerun|set_widgets_from_proto|get_external_ip"
    attributes = re.findall(rf"(?<=\.)(?:_[a-z]\w+|{undocumented})", source)
    return sorted({*attributes, *re.findall(r'import_module\("([\w.]+)"\)(?=\.)', source), "get_script_run_ctx"})


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", _private_names())
def test_a_name_that_streamlit_renames_costs_a_workaround_and_not_the_page(
    name: str, server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = Path(streamlit_patches.__file__).read_text()
    renamed = ModuleType("streamlit_patches_renamed")
    monkeypatch.setitem(sys.modules, renamed.__name__, renamed)
    exec(re.sub(rf"(?<=[.\"]){re.escape(name)}\b", f"{name}_renamed", source), vars(renamed))
    for owner, method in ((AppSession, "request_rerun"), (SessionState, "set_widgets_from_proto")):
        monkeypatch.setattr(owner, method, inspect.unwrap(getattr(owner, method)))
    renamed.apply()

    async def scene(server: Server) -> None:
        session = await server.connect()
        await server.draw(session)
        changed = BackMsg()
        said = changed.rerun_script.widget_states.widgets.add()
        said.id, said.double_array_value.data[:] = server.clients[session].slider, [7.0]
        server.runtime.handle_backmsg(session, changed)
        await until(lambda: noted[-1] == 7)
        server.runtime.handle_backmsg(session, server.clients[session].poll)
        await server.draw(session)
        assert noted[-1] == 7

    server(scene)
    reports = [record.getMessage() for record in caplog.records if "workaround is left out" in record.getMessage()]
    assert len(reports) == len(set(reports))
    assert any(f"{name}_renamed" in report for report in reports) or name in RARELY_READ, reports


GONE = {"visitor": "me before", "server": "another", "has": ["toy_job", "toy_upload", "kept_job", ["x"], None]}


@pytest.mark.parametrize("said", [None, 7, "x", {}, {"visitor": ["x"]}, {"visitor": "x", "has": 7}, GONE], ids=str)
def test_a_tab_is_told_what_it_has_lost_whatever_it_says(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {browser_session.KEY: {"before": said}})
    visitor = Visitor("session")
    visitor.runs["kept_job"] = Run()
    browser_session._hear(visitor)
    gone = ("toy_job", "toy_upload") if said is GONE else ()
    assert visitor.lost == dict.fromkeys(gone, browser_session.RESTARTED)
    visitor.keep("toy_job", Run())  # it runs again: nothing is to be said of it
    browser_session._hear(visitor)
    assert visitor.lost.keys() == set(gone) - {"toy_job"}


def test_looks_at_runs_are_a_few_a_second_whatever_the_number_of_tabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others come again; a change is always served."""

    class Session:
        _scriptrunner = None
        _pages_manager = SimpleNamespace(get_pages=dict, main_script_hash="")

    now, tabs = [100.0], [Session() for _ in range(20)]
    monkeypatch.setattr(streamlit_patches, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(streamlit_patches, "_served", deque(maxlen=7))
    look, change, served = ClientState(is_auto_rerun=True), ClientState(), 0
    for number in range(200):
        now[0] += 0.01
        served += streamlit_patches._is_due(tabs[number % 20], look)  # type: ignore[arg-type]
        assert streamlit_patches._is_due(tabs[number % 20], change)  # type: ignore[arg-type]
    assert served == 14
