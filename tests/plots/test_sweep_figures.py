import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import GradientDescent, HeavyBall, Nesterov
from dpviz.plots.elements.lines import VerticalLine
from dpviz.plots.elements.style import HUES, arm_styles
from dpviz.plots.sweep_figures import along_budget, metric_by_setting
from dpviz.problems.base import Metric
from dpviz.sweeps.sweep_result import PointKey, PointRuns, SweepResult

GAP = Metric("gap", "Duality gap", scale="log")
SIZES = (10.0, 100.0, 1000.0)
ARMS = {
    label: Arm(label=label, algorithm=algorithm)
    for label, algorithm in (("a", GradientDescent()), ("b", HeavyBall()), ("c", Nesterov()))
}


def add(result: SweepResult, label: str, setting: float, samples: np.ndarray, data_seed: int | None = None) -> None:
    """One more point of an arm."""
    curve = result.curves[label]
    curve.add(PointRuns(PointKey(len(curve.point_runs), setting, data_seed=data_seed), samples))


def made(metric: Metric = GAP, spread: float = 0.2, replicates: int = 9, **medians: tuple[float, ...]) -> SweepResult:
    """A result with these medians of arms "a", "b", ..., at the first sizes."""
    result = SweepResult([ARMS[label] for label in medians], metric.name, len(SIZES))
    result.metric = metric
    for label, heights in medians.items():
        for size, height in zip(SIZES, heights, strict=False):
            add(result, label, size, height * np.exp(spread * np.linspace(-1, 1, replicates)))
    return result


def drawn(result: SweepResult, **settings: object) -> go.Figure:
    return metric_by_setting(result, "Dimension d", symbol="d", **settings)


def notes(figure: go.Figure) -> list[str]:
    """Small print, without the line about the band."""
    lines = [line for note in figure.layout.annotations if not note.name for line in note.text.split("<br>")]
    return [line for line in lines if not line.startswith("band: ")]


def reads_raw_data(figure: go.Figure) -> bool:
    return any(note.name == "not private" for note in figure.layout.annotations)


def named(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.legendgroup: trace for trace in figure.data if trace.name}


def test_medians_have_markers_and_a_band_from_10_to_90_percent() -> None:
    result = made(a=(0.1, 0.2, 0.4), b=(0.5, 0.6, 0.7))
    figure = drawn(result)
    line = named(figure)["a"]
    assert line.mode == "lines+markers" and line.line.color == HUES[0]
    np.testing.assert_array_equal(line.x, SIZES)
    np.testing.assert_allclose(line.y, [0.1, 0.2, 0.4], rtol=1e-6)
    low, high = (trace for trace in figure.data if trace.legendgroup == "a" and not trace.name)
    for edge, share in ((low, 0.1), (high, 0.9)):
        expected = [np.quantile(found, share) for found in result.series("a")[1]]
        np.testing.assert_allclose(edge.y, expected, rtol=1e-6)
        assert edge.mode == "lines" and edge.hoverinfo == "skip"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.title.text == "Dimension d"
    assert figure.layout.yaxis.title.text == "Duality gap" and reads_raw_data(figure) and notes(figure) == []


def over_data_sets(*crossings: float) -> SweepResult:
    """Arms a, level, and b, which crosses it at one place on every data set."""
    result = made(a=(), b=())
    for seed, place in enumerate(crossings):
        for size in SIZES:
            for label, height in (("a", 0.2), ("b", 0.2 * (size / place) ** 0.6)):
                add(result, label, size, height * np.exp(0.1 * np.linspace(-1, 1, 9)), seed)
    return result


def test_a_crossing_is_an_interval_over_the_data_sets_and_those_without_one_are_counted() -> None:
    figure = drawn(over_data_sets(5000.0, 807.0, 910.0, 700.0, 500.0))
    assert notes(figure) == ["b is better than a below d ≈ 500 to 910 in 4 of 5 data sets; b throughout in 1"]
    mark = figure.data[-1]
    assert list(mark.text) == ["d ≈ 500 to 910"] and mark.x == pytest.approx([(700 + 807) / 2], rel=1e-3)
    assert mark.x - mark.error_x.arrayminus == pytest.approx([500], rel=1e-3)
    assert mark.x + mark.error_x.array == pytest.approx([910], rel=1e-3)
    same = drawn(over_data_sets(100.0, 100.0))
    assert notes(same) == ["b is better than a below d ≈ 100 in 2 of 2 data sets"]
    assert same.data[-1].error_x.array is None


def test_without_diagnostics_only_what_is_released_is_drawn() -> None:
    told = Metric("told", "What was told", released=True)
    result = made(told, a=(0.1, 0.2, 0.4), b=(0.5, 0.6, 0.7))
    result.curves["a"].privacy = "private"
    assert reads_raw_data(drawn(result)), "an arm has no privacy"
    figure = drawn(result.visible(False))
    assert set(named(figure)) == {"a"} and figure.layout.yaxis.title.text == "What was told"
    assert notes(drawn(made(a=(0.1, 0.2, 0.4)).visible(False))) == ["Nothing here is released."]


def samples(result: SweepResult, *more: tuple[str, float, float]) -> SweepResult:
    """The result, with more points (arm, size, value) that have no noise."""
    for label, size, height in more:
        add(result, label, size, np.full(9, height))
    return result


LEVEL = (0.1, 0.1, 0.1)
TEN = 10.0 ** (1 + 1 / 1.5)


@pytest.mark.parametrize(
    ("result", "crossings", "words"),
    [
        (made(a=LEVEL, b=(0.01, 0.1 * 10**0.5, 1.0)), [TEN], ["b is better than a below d ≈ 46"]),
        (
            made(a=LEVEL, b=(0.05, 0.2, 0.05)),
            [10**1.5, 10**2.5],
            ["a is better than b from d ≈ 32 to 320", "b is better than a from d ≈ 320 on"],
        ),
        (
            samples(made(a=(1.0, 1.0, 1.0), b=(0.5, 2.0, 0.5)), ("a", 1e4, 1.0), ("b", 1e4, 2.0)),
            [],
            ["a and b: 3 crossings, no clear order"],
        ),
        (samples(made(a=LEVEL, b=(0.01,)), ("b", 1000.0, 1.0)), [100.0], ["b is better than a below d ≈ 100"]),
        (over_data_sets(100.0, 100.0), [100.0], ["b is better than a below d ≈ 100 in 2 of 2 data sets"]),
        (
            over_data_sets(5e3, 7e3, 910.0),
            [],
            ["b is better than a throughout in 2 of 3 data sets; b below d ≈ 910 in 1"],
        ),
        (over_data_sets(5e3, 7e3), [], []),
    ],
    ids=["once", "twice", "often", "where both have results", "data sets", "in few data sets", "in no data set"],
)
def test_crossings_are_where_the_curves_cross(result: SweepResult, crossings: list[float], words: list[str]) -> None:
    figure = drawn(result)
    marks = [place for trace in figure.data if trace.mode == "markers+text" for place in trace.x]
    assert marks == pytest.approx(crossings, rel=0.02) and notes(figure) == words


def test_slopes_have_their_error_and_over_data_sets_their_interval() -> None:
    assert named(drawn(made(spread=0.0, a=(0.1, 0.2, 0.4))))["a"].name == "a, slope 0.30"
    assert named(drawn(made(a=(0.1, 0.2))))["a"].name == "a", "two points always lie on a line"
    several = [("a", size, 0.1 * size**slope) for slope in (0.2, 0.3, 0.4) for size in SIZES]
    result = made(a=(), b=())
    for seed in range(3):
        for label, size, height in several[3 * seed : 3 * seed + 3]:
            add(result, label, size, np.full(4, height), seed)
    assert named(drawn(result))["a"].name == "a, slope 0.30 ± 0.25"  # 4.30 × 0.1/√3


def test_along_the_budget_no_line_leads_over_budgets_that_are_missing() -> None:
    """And the axis, with the present budget on it, is there before the points."""
    some = made(b=(2.0, 1.0))
    for finished, mode in ((2, "markers"), (3, "lines+markers")):
        some.done = ((None, False),) * finished
        drawing = along_budget(
            some,
            arm_styles([*some.arms, ARMS["c"]]),
            "Privacy budget ε",
            [VerticalLine(50.0, "here")],
            (SIZES[0], SIZES[-1]),
            level=("c", 0.5),
        )
        modes = {trace["name"]: trace["mode"] for trace in drawing["data"] if trace.get("name")}
        assert modes == {"c": "lines", "b": mode}, "the level has no dots"
        low, high = drawing["layout"]["xaxis"]["range"]
        assert low < 1 and high > 3
        (mark,) = [shape for shape in drawing["layout"]["shapes"] if shape.get("name") == "vertical"]
        assert mark["x0"] == mark["x1"] == 50.0
