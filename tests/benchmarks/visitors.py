"""Visitors without a browser: they speak to a server over a websocket as Streamlit's page does.

What a page would send is sent (the value of a control, a press, the polls that the server asks for, the address); what
it would draw is only counted. So twenty visitors cost this machine little, and what they wait for is the server.
"""

import asyncio
import json
import time
import zlib
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

from dpviz.ui.streamlit_patches import OF_PAGE

PATIENCE = 120.0  # seconds after which a visitor gives up


@dataclass(frozen=True)
class Stops:
    """A slider of ours: its texts, and the last move that the server has heard of."""

    id: str
    name: str
    options: list[str]
    turn: int


class Visitor:
    """One session on a server.

    page : the address's last part, such as "accelerated". query : the settings in the address.
    controls : what the page has, by label; exceptions : what it has shown of mistakes of ours.
    """

    def __init__(self, url: str, page: str, **query: str) -> None:
        self._url, self.page, self.query = url, page, dict(query)
        self.controls: dict[str, Any] = {}
        self.texts: dict[tuple[int, ...], str] = {}
        self.exceptions: list[str] = []
        self.polls = 0
        self.begun = self.drawn = 0  # how often the page was begun, and which of these was the last to be finished
        self.messages = self.bytes = 0  # that have come
        self._fragments: dict[str, str] = {}  # the part of the page that a control belongs to, by the control's name
        self._scripts: dict[str, str] = {}  # the hash of every page
        self._script = ""
        self._states: dict[str, WidgetState] = {}
        self._polling: dict[str, asyncio.Task[None]] = {}
        self._lost = False
        self._last: str | None = None  # kind of message
        self._held: tuple[str, list[str]] = "", []  # the slider of which it has all stops, and their settings
        self._now = ""  # the settings of the page
        self._news = asyncio.Condition()

    async def __aenter__(self) -> Self:
        """Connect and see the page drawn once."""
        server = urlsplit(self._url)
        self._socket: ClientConnection = await connect(
            f"ws://{server.netloc}/_stcore/stream",
            subprotocols=["streamlit", "none"],  # type: ignore[list-item]  # any text is a subprotocol
            origin=self._url,  # type: ignore[arg-type]
            max_size=None,
            compression=None,
            ping_interval=None,
        )
        self._reader = asyncio.create_task(self._read())
        await self.ask_by_address()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the tab."""
        self._stop_polling()
        self._reader.cancel()
        await self._socket.close()

    async def move(self, label: str, text: str) -> float:
        """Drag a slider to one of its options; returns the seconds from the release until the page was drawn."""
        slider = self.controls[label]
        if isinstance(slider, Stops):
            if not (self._held[0] == slider.name and self._now in self._held[1]):  # else the browser has its stops
                pressed = WidgetState(id=_make_trigger_id(slider.id, "events"))
                pressed.json_trigger_value = json.dumps([{"event": "press", "value": True}])
                await self._drawn(
                    lambda message: message.rerun_script.widget_states.widgets.append(pressed), control=slider.id
                )
            event = {"event": "move", "value": {"index": slider.options.index(text), "turn": slider.turn + 1}}
            let_go = WidgetState(id=_make_trigger_id(slider.id, "events"), json_trigger_value=json.dumps([event]))
            return await self._drawn(
                lambda message: message.rerun_script.widget_states.widgets.append(let_go), control=slider.id
            )
        state = WidgetState(id=slider.id)
        state.string_array_value.data.append(text)
        self._states[slider.id] = state
        return await self._drawn(control=slider.id)

    async def choose(self, label: str, text: str) -> float:
        """Choose one of several options, after which the page may have other sliders; returns the seconds until it was
        drawn."""
        self.still_shows(label, [text])
        self.controls = {name: one for name, one in self.controls.items() if not isinstance(one, Stops)}
        return await self._drawn(control=self.controls[label].id)

    async def enter(self, label: str, value: float) -> float:
        """Type a number into a field; returns the seconds until the page was drawn."""
        field = self.controls[label]
        self._states[field.id] = WidgetState(id=field.id, double_value=value)
        self.query[field.query_param_key or label] = f"{value:g}"
        return await self._drawn(control=field.id)

    def still_shows(self, label: str, value: float | str | list[str]) -> None:
        """A menu, a number or a slider shows this, whatever the page has set it to since; said with every request."""
        control = self.controls[label]
        kinds = {str: "string_value", list: "string_array_value"}
        said = {kinds.get(type(value), "double_value"): {"data": value} if isinstance(value, list) else value}
        self._states[control.id] = WidgetState(id=control.id, **said)  # type: ignore[arg-type]

    async def press(self, label: str) -> float:
        """Press a button; returns the seconds until the page was drawn."""
        pressed = WidgetState(id=self.controls[label].id, trigger_value=True)
        return await self._drawn(
            lambda message: message.rerun_script.widget_states.widgets.append(pressed), control=pressed.id
        )

    async def go_to(self, page: str) -> float:
        """Choose another page in the menu; returns the seconds until it was drawn."""
        self.page, self.query, self._script = page, {}, self._scripts[page]
        self._states.clear()
        self.controls.clear()
        self.texts.clear()
        return await self._drawn()

    async def ask_by_address(self) -> float:
        """Ask as a tab that has not on_progress yet which page it shows; returns the seconds until it was drawn."""
        self._script = ""
        return await self._drawn(lambda message: setattr(message.rerun_script, "page_name", self.page))

    async def until(self, seen: Callable[[Self], bool], seconds: float = PATIENCE) -> float:
        """Wait until something is there; returns the seconds that it took."""
        began = time.perf_counter()
        try:
            async with self._news, asyncio.timeout(seconds):
                await self._news.wait_for(lambda: self._lost or seen(self))
        except TimeoutError:
            on_progress = (
                f"page {self.drawn} of {self.begun} was drawn, {self.polls} polls were sent, last: {self._last}"
            )
            raise TimeoutError(f"not within {seconds:g} s; {on_progress}") from None
        if self._lost:
            raise ConnectionError("the server has closed the connection, or said what is not understood")
        return time.perf_counter() - began

    def says(self, words: str) -> bool:
        """Whether any text or progress bar of the page has these words."""
        return any(words in text for text in self.texts.values())

    async def _drawn(self, more: Callable[[BackMsg], object] = lambda message: None, control: str = "") -> float:
        """Ask for the page, or the part of it that a control belongs to, and wait until its script has come to its
        end."""
        message, before = self._rerun(), self.begun
        message.rerun_script.fragment_id = self._fragments.get(control, "")
        more(message)
        began = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        await self.until(lambda visitor: visitor.drawn > before)  # not one that was under way already
        return time.perf_counter() - began

    def _rerun(self) -> BackMsg:
        message = BackMsg()
        asked = message.rerun_script
        asked.query_string = urlencode(self.query)
        asked.page_script_hash = self._script
        asked.context_info.timezone = "UTC"
        asked.context_info.url = f"{self._url}/{self.page}"
        asked.widget_states.widgets.extend(self._states.values())
        return message

    async def _read(self) -> None:
        try:
            async for data in self._socket:
                message = ForwardMsg.FromString(data)  # type: ignore[arg-type]  # never text
                self.messages += 1
                self.bytes += len(data)
                self._on_progress(message)
                async with self._news:
                    self._news.notify_all()
        finally:
            self._lost = True
            async with self._news:
                self._news.notify_all()

    def _on_progress(self, message: ForwardMsg) -> None:
        self._last = message.WhichOneof("type")
        match self._last:
            case "new_session":
                fragments = message.metadata.run.fragment_ids
                if not fragments:  # the whole page is drawn
                    self._stop_polling()
                    self.texts.clear()
                if not self._polling.keys() & set(fragments):  # else it was asked for by a poll
                    self.begun += 1
            case "navigation":
                self._script = message.navigation.page_script_hash
                for page in message.navigation.app_pages:
                    self._scripts["" if page.is_default else page.url_pathname] = page.page_script_hash
            case "page_info_changed":
                self.query = dict(parse_qsl(message.page_info_changed.query_string))
                self.query.pop(OF_PAGE, None)
            case "delta" if message.delta.WhichOneof("type") == "add_block":
                path = tuple(message.metadata.delta_path)
                self.texts = {at: text for at, text in self.texts.items() if at[: len(path)] != path}
            case "delta" if message.delta.WhichOneof("type") == "new_element":
                self._element(message)
            case "script_finished" if message.script_finished in (
                ForwardMsg.FINISHED_SUCCESSFULLY,
                ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
            ):
                self.drawn = self.begun

    def _element(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        kind = str(element.WhichOneof("type"))
        found = getattr(element, kind)
        match kind:
            case "exception":
                self.exceptions.append(found.message)
            case "markdown" | "alert":
                self.texts[tuple(message.metadata.delta_path)] = found.body
            case "bidi_component" if found.component_name == "dpviz_slider":
                data = json.loads(found.json)
                self.controls[data["title"]] = Stops(found.id, data["name"], data["texts"], data["turn"])
                self._fragments[found.id] = message.delta.fragment_id
            case "bidi_component" if found.component_name == "dpviz_stops":
                data = json.loads(found.json)
                self._now = data["settings"]
                if data["packed"]:
                    stops = json.loads(zlib.decompress(b64decode(data["packed"])))
                    self._held = stops["slider"], stops["settings"]
            case "bidi_component" if found.component_name == "dpviz_poll":
                self._poll(found.id, json.loads(found.json), message.delta.fragment_id)
            case "progress":
                self.texts[tuple(message.metadata.delta_path)] = found.text
            case "slider" | "number_input" | "button" | "checkbox" | "selectbox" | "button_group":
                self.controls[found.label] = found
                self._fragments[found.id] = message.delta.fragment_id
                if kind in ("slider", "number_input") and found.set_value:
                    self._states.pop(found.id, None)  # the page has another value now
                if kind == "number_input" and found.set_value:
                    self.query[found.query_param_key] = f"{found.value:g}"

    def _poll(self, component: str, data: dict[str, Any], fragment: str) -> None:
        """Ask for news once, after the time that the page names."""

        async def once() -> None:
            await asyncio.sleep(data["wait"])
            message = self._rerun()
            message.rerun_script.fragment_id = fragment
            trigger = json.dumps([{"event": "poll", "value": data["turn"]}])
            name = _make_trigger_id(component, "events")
            message.rerun_script.widget_states.widgets.append(WidgetState(id=name, json_trigger_value=trigger))
            self.polls += 1
            await self._socket.send(message.SerializeToString())

        if fragment in self._polling:
            self._polling.pop(fragment).cancel()
        self._polling[fragment] = asyncio.create_task(once())

    def _stop_polling(self) -> None:
        for task in self._polling.values():
            task.cancel()
        self._polling.clear()
