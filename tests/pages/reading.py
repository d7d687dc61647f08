"""What a visitor reads on a page, whichever it is: words, cards, charts, tables, links; and pressing Run."""

import base64
import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from tests.films import unpacked

Load = Callable[..., AppTest]


# ---------------------------------------------------------------------------------------------------------------- words


def text(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption, *app.info, *app.success, *app.subheader])


def words(app: AppTest) -> str:
    """The same without line breaks and bold marks."""
    return " ".join(text(app).replace("**", "").split())


def said(app: AppTest) -> str:
    """Errors and warnings with their titles."""
    return " ".join(f"{getattr(error.proto, 'title', '')} {error.value}" for error in [*app.error, *app.warning])


def hinted(app: AppTest) -> str:
    """Hints at what to do next, with their titles."""
    return " ".join(f"{getattr(hint.proto, 'title', '')} {hint.value}" for hint in app.info)


def link(app: AppTest) -> str:
    """The address that restores the page."""
    return next(code.value for code in app.code if "\n" not in code.value and not code.value.startswith("from "))


# -------------------------------------------------------------------------------------------------------------- numbers


def metrics(app: AppTest) -> dict[str, str]:
    """The cards by their label; of two with the same label, the last."""
    return {metric.label: metric.value for metric in app.metric}


def number(text: str) -> float:
    """The number on a card: "≤ 0.462" is 0.462, "1.2×10⁻⁶" is 1.2e-6."""
    plain = text.removeprefix("≤").replace(",", "").strip()
    mantissa, _, exponent = plain.rpartition("10")
    if not exponent or exponent[0] not in "⁻¹²³⁴⁵⁶⁷⁸⁹":
        return float(plain)
    return float(f"{mantissa.rstrip('×') or 1}e{exponent.translate(str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789'))}")


def typed(app: AppTest, part: str) -> list[Any]:
    """The inputs of a table of numbers, from its first row on."""
    return [box for box in app.number_input if re.fullmatch(rf"{part}_\d+_\d+", box.key or "")]


def type_into(app: AppTest, part: str, numbers: Mapping[int, float]) -> AppTest:
    """Type numbers into rows of such a table."""
    for row, value in numbers.items():
        typed(app, part)[row].set_value(value)
    app.run()
    assert not app.exception and not app.error
    return app


def table(app: AppTest, column: str) -> pd.DataFrame:
    """The first table on the page that has this column."""
    return next(frame.value for frame in app.dataframe if column in frame.value)


# --------------------------------------------------------------------------------------------------------------- charts


def charts(app: AppTest) -> dict[str, dict[str, Any]]:
    """Specifications of all charts below the live pictures, by text alternative."""
    return dict(drawn(app, lambda key: "_hero" not in key and not key.endswith("_walk")))


def drawn(app: AppTest, key: Callable[[str], bool] = lambda key: True) -> list[tuple[str, dict[str, Any]]]:
    """The text alternative and the specification of all charts, or of those with such a key."""
    parts = [part.proto for part in app.get("bidi_component") if part.proto.component_name == "dpviz_plot"]
    found = [json.loads(part.json) for part in parts if key(part.id)]
    assert all(one["alt"] for one in found if "figure" in one)
    return [(one["alt"], json.loads(one["figure"])) for one in found if "figure" in one]


def pictured(app: AppTest) -> str:
    """The text alternatives of the live pictures."""
    return " ".join(alt for alt, _ in drawn(app, lambda key: "_hero" in key))


def pictures(app: AppTest) -> int:
    """The charts on the page, and the sentences in place of those that have nothing to draw."""
    return len(charts(app)) + sum(info.icon == ":material/block:" for info in app.info)


def chart(app: AppTest, start: str) -> dict[str, Any]:
    """The chart whose text alternative starts like this."""
    return next(spec for alt, spec in charts(app).items() if alt.startswith(start))


def y_title(figure: dict[str, Any]) -> str:
    """The title of a chart's vertical axis, which stands upright above the frame."""
    return next(note["text"] for note in figure["layout"]["annotations"] if note.get("name") == "title")


def lines(app: AppTest, start: str) -> set[str]:
    """The names of the lines of that chart."""
    found = [trace for trace in chart(app, start)["data"] if trace.get("name")]
    return {name for trace in found for name in trace.get("meta") or [trace["name"]]}


def traces(app: AppTest, start: str) -> list[dict[str, Any]]:
    """What that chart draws, with plain arrays."""
    return [trace | {axis: array(trace[axis]) for axis in ("x", "y")} for trace in chart(app, start)["data"]]


def curve(app: AppTest, start: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """One named line of that chart, which may be drawn as one with others that coincide with it."""
    (trace,) = [trace for trace in traces(app, start) if any(one.startswith(name) for one in _names(trace))]
    return trace["x"], trace["y"]


def _names(trace: dict[str, Any]) -> list[str]:
    return trace.get("meta") or [trace.get("name") or ""]


def bars(app: AppTest, start: str) -> dict[str, float]:
    """The values of that bar chart by name."""
    (trace,) = traces(app, start)
    return dict(zip(trace["y"].tolist(), trace["x"].tolist(), strict=True))


def array(values: Any) -> np.ndarray:
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return np.array(values)


def clouds(app: AppTest) -> list[dict[str, Any]]:
    """The films of moving runs on the page, as the browser unpacks them."""
    parts = [part.proto for part in app.get("bidi_component") if part.proto.component_name == "dpviz_cloud"]
    return [unpacked(part.bytes) for part in parts]


# ----------------------------------------------------------------------------------------------------------------- acts


def choose(app: AppTest, name: str, value: str) -> AppTest:
    """Set a choice by its key without the page's prefix, whether it is drawn as a menu or side by side."""
    found = [*app.selectbox, *app.segmented_control]
    next(widget for widget in found if (widget.key or "").partition("_")[2] == name).set_value(value).run()
    assert not app.exception
    return app


def say(app: AppTest, component: str, event: str, value: Any) -> AppTest:
    """Let a component of ours, by the end of its key, tell the server of an event, as a browser does."""
    (part,) = [part.proto for part in app.get("bidi_component") if part.proto.id.endswith(component)]
    states = app._tree.get_widget_states()
    payload = json.dumps([{"event": event, "value": value}])
    states.widgets.append(WidgetState(id=_make_trigger_id(part.id, "events"), json_trigger_value=payload))
    app._run(states)
    assert not app.exception
    return app


def stops(app: AppTest) -> dict[str, Any]:
    """The stops of a slider that the page has just sent, as the browser unpacks them."""
    (part,) = [part.proto for part in app.get("bidi_component") if part.proto.component_name == "dpviz_stops"]
    data = json.loads(part.json)
    sent = json.loads(zlib.decompress(base64.b64decode(data["packed"]))) if data["packed"] else {}
    return {"now": data["settings"], **sent}


def all_methods(app: AppTest) -> AppTest:
    """Choose every method that is offered."""
    (pills,) = app.pills
    pills.set_value(list(pills.options)).run()
    assert not app.exception
    return app


def run(app: AppTest, until: str = "done", press: str | None = None, job: str | None = None) -> AppTest:
    """Press Run (or the sweep's, by the keys of button and job), look at the page meanwhile, and wait for the end."""
    press = press or next(button.key for button in app.button if (button.key or "").endswith("_run"))
    app.button(key=press).click().run()
    assert not app.exception
    started = app.session_state[job or press.replace("_run", "_job")].job
    if started.active:
        app.run()
        assert not app.exception
        started.wait(300.0)
    app.run()
    assert not app.exception and started.state == until, started.message
    return app
