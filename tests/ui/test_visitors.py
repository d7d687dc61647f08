"""Who is here, over Streamlit's own runtime: tabs that are closed, connections that come back, sessions that end."""

import asyncio
import gc
import inspect
import re
import socket
import sys
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import streamlit as st
from streamlit import config
from streamlit.commands import execution_control
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.runtime import Runtime, RuntimeConfig
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.session_manager import SessionClient
from streamlit.runtime.state.query_params import QueryParams
from streamlit.runtime.state.session_state import SessionState
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.web.server.starlette.starlette_websocket import _is_origin_allowed

from dpviz.ui import streamlit_patches, visitors
from dpviz.ui.experiment.run import draw_repeatedly
from dpviz.ui.visitors import Visitor
from tests.apart import apart

pytestmark = pytest.mark.slow  # real processes and clocks

PATIENCE = 20.0
# Read on busy servers only.
RARELY_READ = {
    "streamlit.proto.ForwardMsg_pb2",
    "current_page_script_hash",  # for parts of pages only
    "fragment_ids_this_run",
    "get_id_from_key",
    "_bindings_by_param",
    "_query_param_bound_widget_ids",
    "_requests",
    "_state",
    "_rerun_data",
    "fragment_id_queue",
    "main_script_hash",
    "get_script_run_ctx",
    "streamlit.runtime.scriptrunner",
}  # on busy servers
PAGE, TWO_PAGES, POLLED, PRESET = (
    f"from {__name__} import {name}; {name}()" for name in ("page", "two_pages", "polled_page", "page_of_preset")
)
BUSY = 3.0  # seconds: more than a request waits for its turn
here: list[weakref.ref[Visitor]] = []  # those for whom a page was drawn, in that order
abandoned: list["weakref.ref[Run]"] = []
noted: list[int] = []  # values that the page was drawn with


class Run:
    """What a page keeps of a run, with the rows of a file."""

    def __init__(self, returns: bool = True) -> None:
        self.is_restorable = returns

    def abandon(self) -> None:
        abandoned.append(weakref.ref(self))

    def forget_tables(self, tables: Collection[str]) -> None: ...


def page() -> None:
    """The script of the toy app."""
    visitor = visitors.current()
    visitor.note_drawing()
    if "toy_job" not in st.session_state:
        visitor.keep("toy_job", Run())
    here.append(weakref.ref(visitor))
    st.slider("Number", 0, 20, key="toy_number")
    noted.append(st.session_state["toy_number"])


def two_pages() -> None:
    """The script of a toy app with two pages; a button of the first leads to the second."""

    def first() -> None:
        goes_on = st.button("Go on")
        st.fragment(lambda: st.slider("First", 0, 9))()
        noted.append(len(noted))
        time.sleep(BUSY)  # computes: Streamlit looks for no request meanwhile
        if goes_on:
            st.switch_page(pages[1])

    def second() -> None:
        st.slider("Second", 0, 9)
        time.sleep(BUSY)

    pages = [st.Page(first, title="first"), st.Page(second, title="second")]
    st.navigation(pages).run()


def polled_page() -> None:
    """The script of a toy app whose polls have a part drawn: its own, or later one of another page, which is gone."""
    noted.append(st.slider("Number", 0, 20))
    st.fragment(lambda: None, key="toy_whole")()

    def look() -> None:
        if noted[-1] == 0:
            st.rerun("toy_whole")
        noted.append(-1)
        st.rerun("other_whole")

    draw_repeatedly("toy_poll", lambda: 60.0, look)


def page_of_preset() -> None:
    """The script of a toy app whose controls set themselves in the address."""
    for name in "abc":
        st.query_params[name] = "1"
    streamlit_patches.finish_page(is_whole=True)


class Client(SessionClient):
    """A browser that looks at the sliders and the button, and whether all of the page has come."""

    def __init__(self) -> None:
        self.drawn = 0
        self.slider = self.button = self.poll = self.fragment = ""
        self.page, self.pages = "", dict[str, str]()  # Streamlit's names: of the page, and of all by title
        self.labels: list[str] = []  # of the sliders that are on the page
        self.addresses: list[str] = []  # settings, as the page sent them

    def write_forward_msg(self, msg: Any) -> None:
        match msg.WhichOneof("type"):
            case "new_session":
                if msg.new_session.page_script_hash != self.page or not msg.metadata.run.fragment_ids:
                    self.labels.clear()  # as a browser does
                self.page = msg.new_session.page_script_hash
            case "navigation":
                self.page = msg.navigation.page_script_hash
                self.pages = {page.page_name: page.page_script_hash for page in msg.navigation.app_pages}
            case "page_info_changed":
                self.addresses.append(msg.page_info_changed.query_string)
            case "script_finished" if msg.script_finished == msg.FINISHED_SUCCESSFULLY:
                self.drawn += 1
            case "delta" if msg.delta.new_element.WhichOneof("type") == "slider":
                self.slider, self.fragment = msg.delta.new_element.slider.id, msg.delta.fragment_id
                self.labels.append(msg.delta.new_element.slider.label)
            case "delta" if msg.delta.new_element.WhichOneof("type") == "button":
                self.button = msg.delta.new_element.button.id
            case "delta" if msg.delta.new_element.WhichOneof("type") == "bidi_component":
                self.poll, self.fragment = msg.delta.new_element.bidi_component.id, msg.delta.fragment_id
            case "delta" if msg.delta.new_element.WhichOneof("type") == "exception":
                self.labels.append("exception")

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

    async def open(self) -> tuple[str, Client]:
        """Open a tab and draw its first page; return the name of its session, and its browser."""
        session = await self.connect()
        self.ask(session)
        client = self.clients[session]
        await until(lambda: client.drawn == 1)
        return session, client

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
    monkeypatch.setattr(PagesManager, "uses_pages_directory", None)  # what an earlier app of this process has
    script = tmp_path / "toy.py"
    kept = config.get_option("server.disconnectedSessionTTL")
    config.set_option("server.disconnectedSessionTTL", 1)

    async def played(scene: Callable[[Server], Coroutine[Any, Any, None]], source: str) -> None:
        script.write_text(source)
        files = MemoryUploadedFileManager("/upload")
        storage = MemorySessionStorage(ttl_seconds=60)  # longer: this machine may be slow
        runtime = Runtime(RuntimeConfig(str(script), MemoryMediaFileStorage("/media"), files, session_storage=storage))
        await runtime.start()
        try:
            await scene(Server(runtime, files))
        finally:
            runtime.stop()
            await runtime.stopped

    yield lambda scene, source=PAGE: apart(played(scene, source))
    config.set_option("server.disconnectedSessionTTL", kept)


@pytest.mark.parametrize("way", ["menu", "button"])
def test_a_fragment_of_the_page_that_is_left_leads_nowhere(server, way: str) -> None:
    """It led back to that page, or cleared the new one."""
    streamlit_patches.apply()

    async def scene(server: Server) -> None:
        session = await server.connect()
        client = server.clients[session]

        def ask(page: str, fragment: str = "", pressed: str = "") -> None:
            message = BackMsg()
            message.rerun_script.page_script_hash = client.pages.get(page, "")
            message.rerun_script.fragment_id = fragment
            if pressed:
                message.rerun_script.widget_states.widgets.add(id=pressed, trigger_value=True)
            server.runtime.handle_backmsg(session, message)

        ask("")
        await until(lambda: client.drawn == 1)
        runs = len(noted)
        ask("first", pressed=client.button if way == "button" else "")
        await until(lambda: len(noted) > runs)  # the first page is being drawn, and computes
        if way == "menu":
            ask("second")
            await asyncio.sleep(BUSY * 0.8)
        else:
            time.sleep(BUSY * 1.2)  # until the script is on the second page; this loop has not heard of it
        ask("first", fragment=client.fragment)
        await until(lambda: client.drawn == 2)
        await asyncio.sleep(0.5)
        assert client.page == client.pages["second"] and client.labels == ["Second"]

    server(scene, TWO_PAGES)


def test_a_fragment_is_served_while_the_tab_draws_its_first_page(server) -> None:
    """It was taken for one of another page, and dropped."""
    streamlit_patches.apply()

    async def scene(server: Server) -> None:
        session = await server.connect()
        client = server.clients[session]
        server.ask(session)
        await until(lambda: bool(client.fragment))
        message = BackMsg()
        message.rerun_script.page_script_hash = client.pages["first"]
        message.rerun_script.fragment_id = client.fragment
        server.runtime.handle_backmsg(session, message)
        await until(lambda: client.labels == ["First", "First"])

    server(scene, TWO_PAGES)


def test_a_poll_that_is_served_with_a_change_of_the_page_takes_nothing_from_it(server) -> None:
    """A part of the page was drawn instead of all, without the change; or an error, if that part was gone."""
    streamlit_patches.apply()

    async def scene(server: Server) -> None:
        session, client = await server.open()
        message = BackMsg()  # as Streamlit makes it of both, if the poll has waited for the script
        changed, poll = (message.rerun_script.widget_states.widgets.add() for _ in range(2))
        changed.id, changed.double_array_value.data[:] = client.slider, [7.0]
        poll.id, poll.json_trigger_value = _make_trigger_id(client.poll, "events"), '[{"event": "poll", "value": 1}]'
        server.runtime.handle_backmsg(session, message)
        await until(lambda: noted[-1] == 7)
        await until(lambda: client.drawn == 2)
        del message.rerun_script.widget_states.widgets[0]
        message.rerun_script.page_script_hash, message.rerun_script.fragment_id = client.page, client.fragment
        server.runtime.handle_backmsg(session, message)
        await until(lambda: noted[-1] == -1)
        await asyncio.sleep(0.2)
        assert "exception" not in client.labels

    server(scene, POLLED)


def test_the_first_page_of_a_visit_sends_its_address_once(server) -> None:
    """Each message added an entry to the browser's history, until the browser had loaded `screen.js`."""
    streamlit_patches.apply()

    async def scene(server: Server) -> None:
        session, client = await server.open()
        assert client.addresses == ["a=1&b=1&c=1&of_page="]
        server.ask(session)
        await until(lambda: client.drawn == 2)
        assert len(client.addresses) > 1  # later ones are sent at once

    server(scene, PRESET)


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


def test_a_tab_that_is_loaded_again_has_its_runs_back_and_robs_nobody(server, monkeypatch) -> None:
    async def scene(server: Server) -> None:
        session = await server.connect()
        before, after = await server.draw(session), await server.draw(await server.connect())
        public, private = Run(), Run(returns=False)
        before.runs |= {"public_job": public, "private_job": private}
        before.notes |= {"said": 1, "both": 1}
        after.notes["both"] = 2
        said = {"visitor": before.name, "server": visitors._SERVER, "has": ["public_job"]}
        with monkeypatch.context() as patch:
            patch.setattr(st, "session_state", {visitors.TAB: {"before": said}})
            visitors._read_report(after)  # still there: a tab that was duplicated
        assert after.runs.keys() == {"toy_job"} and before.runs.keys() > {"public_job"} and not after.lost
        server.runtime.disconnect_session(session)
        after.take_back("somebody else")
        after.take_back(before.name)
        assert after.runs["public_job"] is public and not before.runs
        assert after.notes == {"said": 1, "both": 2}
        monkeypatch.setattr(visitors, "GRACE", 1e-9)
        await until(lambda: private in ended())
        assert public not in ended() and run_of(after) not in ended()

    server(scene)


def test_another_web_site_is_refused_without_asking_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Streamlit itself, too, if it comes to that."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_: pytest.fail(f"{asked[0]} is asked"))
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("a socket is opened"))
    streamlit_patches.apply()
    assert not _is_origin_allowed("https://elsewhere.example", "127.0.0.1:8501")
    assert not _is_origin_allowed("http://elsewhere.example", "elsewhere.example")  # a name that was bound anew
    assert _is_origin_allowed("http://127.0.0.1:8501", "127.0.0.1:8501")


def _private_names() -> list[str]:
    """What `streamlit_patches` reads of Streamlit although it is not documented: attributes and modules."""
    source = Path(streamlit_patches.__file__).read_text()
    undocumented = "id_key_mapping|get_pages|main_script_hash|page_script_hash|fragment_ids_this_run|fragment_id_queue"
    undocumented += "|get_id_from_key|request_rerun|set_widgets_from_proto|get_external_ip|get_internal_ip"
    undocumented += "|current_page_script_hash"
    attributes = re.findall(rf"(?<=\.)(?:_[a-z]\w+|{undocumented})", source)
    return sorted({*attributes, *re.findall(r'import_module\("([\w.]+)"\)(?=\.)', source), "get_script_run_ctx"})


PATCHED: tuple[tuple[Any, str], ...] = (
    (AppSession, "request_rerun"),
    (ScriptRunner, "_run_script"),
    (SessionState, "set_widgets_from_proto"),
    (QueryParams, "_send_query_param_msg"),
    (QueryParams, "populate_from_query_string"),
    (execution_control, "_set_query_params_for_switch"),
)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", _private_names())
def test_a_name_that_streamlit_renames_costs_a_workaround_and_not_the_page(
    name: str, server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = Path(streamlit_patches.__file__).read_text()
    renamed = ModuleType("streamlit_patches_renamed")
    monkeypatch.setitem(sys.modules, renamed.__name__, renamed)
    exec(re.sub(rf"(?<=[.\"]){re.escape(name)}\b", f"{name}_renamed", source), vars(renamed))
    for owner, method in PATCHED:
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
        await server.draw(session)
        assert noted[-1] == 7

    server(scene)
    reports = [record.getMessage() for record in caplog.records if "workaround is left out" in record.getMessage()]
    assert len(reports) == len(set(reports))
    assert any(f"{name}_renamed" in report for report in reports) or name in RARELY_READ, reports


GONE = {"visitor": "me before", "server": "another", "has": ["toy_job", "toy_upload", "kept_job", ["x"], None]}


@pytest.mark.parametrize("said", [None, 7, "x", {}, {"visitor": ["x"]}, {"visitor": "x", "has": 7}, GONE], ids=str)
def test_a_tab_is_told_what_it_has_lost_whatever_it_says(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {visitors.TAB: {"before": said}})
    visitor = Visitor("session")
    visitor.runs["kept_job"] = Run()
    visitors._read_report(visitor)
    gone = ("toy_job", "toy_upload") if said is GONE else ()
    assert visitor.lost == dict.fromkeys(gone, visitors.RESTARTED)
    visitor.keep("toy_job", Run())  # it runs again: nothing is to be said of it
    visitors._read_report(visitor)
    assert visitor.lost.keys() == set(gone) - {"toy_job"}
