"""No label at the end of a line lies on another or leaves the chart: for the methods of every preset of every page,
ending anywhere, at the widths that charts have on screens of 1400, 1024 and 390 pixels."""

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.preset import Preset
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.labels import NAME, compact
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import ALONE, HEIGHT, TEXT, ArmStyle, arm_styles
from dpviz.ui import families

# Pixels of charts: alone and two by two beside the menu at 1400; stacked, or two by two, at 1024; on a phone.
WIDE = {"alone": (560.0, ALONE), "beside": (430.0, HEIGHT)}
NARROW = {"stacked": (390.0, HEIGHT), "phone": (340.0, HEIGHT)}
CHARACTER = 0.54 * TEXT  # mean width; `tests/browser/test_every_page.py` measures real ones
PRESETS = [preset for family in families.FAMILIES for preset in family.page().presets]
NUMBERS = {"apart": (1.0, 0.3, 0.1, 0.04), "close": (0.5, 0.501, 0.4999, 0.5003), "tiny": (0.3, 6.36e-10, 0.2, 0.31)}


def curves(styles: Mapping[str, ArmStyle], ends: tuple[float, ...], log_y: bool, height: int) -> go.Figure:
    """Lines of these methods that end at these numbers, each at another step."""
    lines = []
    for i, (label, look) in enumerate(styles.items()):
        x = np.arange(101)[: 101 - 23 * (i % 4)]
        lines.append(Line(x, np.geomspace(1.0, ends[i % 4] * (1 + 0.001 * i), len(x)), label, look))
    return line_figure(lines, Axes("Step t", "Loss", log_y=log_y), height=height)


def check(figure: go.Figure, width: float) -> None:
    layout = figure.layout
    frame = width - layout.margin.l - layout.margin.r
    height = layout.height - layout.margin.t - layout.margin.b
    assert frame >= 90 and height >= 150
    span = [np.inf, -np.inf]
    for trace in figure.data:
        span = [min(span[0], *trace.x), max(span[1], *trace.x)]
    boxes = []
    for note in layout.annotations:
        if note.name != NAME:
            continue
        lines = re.sub("</?b>", "", note.text).split("<br>")
        if note.xref == "paper":
            left, middle = note.x * frame, (1 - note.y) * height
        else:
            (low, high), log = layout.yaxis.range, layout.yaxis.type == "log"
            assert not log or note.y <= high, "inside, its place is in powers of ten"
            left = (note.x - span[0]) / (span[1] - span[0]) * frame
            middle = (1 - (min(high, max(low, note.y)) - low) / (high - low)) * height - note.yshift
        left += note.xshift
        assert note.font.size >= 13
        right, half = left + CHARACTER * max(map(len, lines)), 0.6 * TEXT * len(lines)
        assert right <= frame + layout.margin.r, note.text
        boxes.append((middle - half, middle + half, left, right, note.text))
    boxes.sort()
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = other[0] >= one[1] - 0.5 or other[2] >= one[3] or one[2] >= other[3]
            assert apart, (one, other)
    assert all(one[0] <= other[0] for one, other in pairwise(boxes))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_labels_of_the_methods_of_a_preset_lie_apart(preset: Preset) -> None:
    styles = dict(list(arm_styles(preset.experiment.arms).items())[:6])
    for ends, log_y in zip(NUMBERS.values(), (True, True, False), strict=True):
        for width, height in WIDE.values():
            check(curves(styles, ends, log_y, height), width)
        for width, height in NARROW.values():
            check(compact(curves(styles, ends, log_y, height)), width)
