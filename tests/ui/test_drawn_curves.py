"""What the browser says of a drawn curve is taken only if it is one."""

from typing import Any

import pytest
import streamlit as st

from dpviz.ui import components


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"values": "123"},
        {"values": [0.1, 0.2]},
        {"values": [0.1, 0.2, "x"]},
        {"values": [0.1, 0.2, float("nan")]},
        {"values": {"0": 1}},
    ],
)
def test_anything_else_is_no_curve(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    monkeypatch.setattr(st, "session_state", {"sheet": said})
    assert components.sheet_heights("sheet", 3) is None


def test_places_beyond_the_frame_are_at_its_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {"sheet": {"values": [-3, 0.5, 1e300]}})
    assert components.sheet_heights("sheet", 3) == (0.0, 0.5, 1.0)
