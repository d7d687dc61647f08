"""Opening and reading the budget planner, as its tests need it."""

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

Load = Callable[..., AppTest]
TABS = ("Noise", "A given noise", "Rows", "What accounting saves", "Start from the accuracy", "Split a budget")
SPLIT = TABS[-1]
SMALL = {"rows": "1000", "batch_fraction": "0.1"}  # the specification's example: n = 1000, m = 100, T = 100, C = 1


def planner(load: Load, tab: str = "Noise", **settings: str) -> AppTest:
    """The page with one tab open; settings by the names of their controls."""
    app = load("budget_planner", planner_tabs=tab, **{f"planner_{name}": value for name, value in settings.items()})
    if "planner_tabs" in app.session_state:  # a mistake beside the tabs leaves none
        assert app.session_state["planner_tabs"] == tab
    return app


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


def words(app: AppTest) -> str:
    """All text, without line breaks and bold marks."""
    text = " ".join(element.value for element in [*app.info, *app.markdown, *app.caption])
    return " ".join(text.replace("**", "").split())


def errors(app: AppTest) -> str:
    return " ".join(error.value for error in app.error)


def chart(app: AppTest, start: str) -> list[dict[str, Any]]:
    """The traces of the chart whose text alternative starts like this, with plain arrays."""
    (found,) = [chart for chart in app.get("plotly_chart") if chart.proto.alt.startswith(start)]
    traces = json.loads(found.proto.spec)["data"]
    return [trace | {axis: _array(trace[axis]) for axis in ("x", "y")} for trace in traces]


def curve(app: AppTest, start: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """One named line of that chart."""
    (trace,) = [trace for trace in chart(app, start) if (trace.get("name") or "").startswith(name)]
    return trace["x"], trace["y"]


def bars(app: AppTest, start: str) -> dict[str, float]:
    """The values of that bar chart by name."""
    (trace,) = chart(app, start)
    return dict(zip(trace["y"].tolist(), trace["x"].tolist(), strict=True))


def link(app: AppTest) -> dict[str, str]:
    """The settings in the address that the page offers to copy."""
    (address,) = [code.value for code in app.code if not code.value.startswith("from ")]
    return dict(parse_qsl(address.partition("?")[2]))


def program(app: AppTest) -> str:
    """The lines of "The same in Python"."""
    (found,) = [code.value for code in app.code if code.value.startswith("from ")]
    return found


def printed(app: AppTest, capsys: pytest.CaptureFixture[str]) -> str:
    """What the offered Python lines print."""
    capsys.readouterr()
    exec(program(app), {})
    return capsys.readouterr().out.strip()


def _array(values: Any) -> np.ndarray:
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return np.array(values)
