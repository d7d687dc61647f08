import numpy as np
import pytest

from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.results import final_table
from dpviz.experiments.trace import Trace
from dpviz.plots.elements.style import ArmStyle, arm_styles
from dpviz.plots.run_figures import convergence
from dpviz.problems.base import Metric

GAP = Metric("objective_gap", "Excess loss F(x_t) - F*", scale="log")
STYLES = {"a": ArmStyle("#0072B2", "solid")}


def made(*rows: list[float], metric: Metric = GAP) -> Trace:
    """A trace of one arm with these values (R,) at iterations 0, 1, ..."""
    trace = Trace({"a": (metric,)})
    for t, row in enumerate(rows):
        trace.arm_traces["a"].append(Snapshot(t, {"x": np.zeros((len(row), 1))}), {metric.name: np.array(row)}, 0.0)
    return trace


def notes(figure) -> str:
    return " ".join(note.text for note in figure.layout.annotations if not note.name)


def test_median_and_band_are_the_quantiles_over_the_replicates(experiment, trace) -> None:
    figure = convergence(trace, "objective_gap", arm_styles(experiment.arms), bands="all")
    lines = {line.name.partition(", stops")[0]: line for line in figure.data if line.name}
    assert list(lines) == [arm.label for arm in experiment.arms]
    bands = [line for line in figure.data if not line.name and line.mode == "lines"]
    assert len(bands) == 2 * 6  # private arms only: noise-free replicates agree
    iterations, values = trace.series("DP-GD", "objective_gap")
    np.testing.assert_array_equal(lines["DP-GD"].x, iterations)
    np.testing.assert_allclose(lines["DP-GD"].y, np.median(values, axis=1), rtol=1e-6)
    np.testing.assert_allclose(bands[0].y, np.quantile(values, 0.1, axis=1), rtol=1e-6)
    np.testing.assert_allclose(bands[1].y, np.quantile(values, 0.9, axis=1), rtol=1e-6)
    assert figure.layout.yaxis.type == "log"  # as the metric declares


def reads_raw_data(figure) -> bool:
    return any(note.text == "◉ not private: reads the raw data" for note in figure.layout.annotations)


def test_the_frame_says_what_is_not_private(experiment, trace) -> None:
    styles = arm_styles(experiment.arms)
    assert reads_raw_data(convergence(trace, "objective_gap", styles))
    assert reads_raw_data(convergence(trace, "objective_gap", styles, bands="panels"))
    released = convergence(trace.visible(diagnostics=False), "distance", styles)
    assert not reads_raw_data(released) and "GD" not in {line.name for line in released.data}
    for bands in ("best", "panels"):
        mixed = convergence(trace, "distance", styles, bands=bands)
        assert not reads_raw_data(mixed)
        said = " ".join(note.text.replace("<br>", " ") for note in mixed.layout.annotations)
        assert "◉ not private: " + "; ".join(arm.label for arm in experiment.arms if arm.reference) in said
    assert reads_raw_data(convergence(trace.only(["GD, no privacy"]), "distance", styles)), "nothing but a reference"


def test_against_privacy_spent_references_are_left_out(experiment, trace) -> None:
    plans = experiment.plans()
    figure = convergence(
        trace,
        "objective_gap",
        arm_styles(experiment.arms),
        positions={label: plan.spent("epsilon") for label, plan in plans.items()},
        x_title="Cumulative ε",
    )
    lines = {line.name: line for line in figure.data if line.name}
    assert list(lines) == ["DP-GD", "DP-HB", "DP-NAG", "DP-NAG-opt", "DP-MASG", "DP-MASG-opt"]
    iterations, _ = trace.series("DP-NAG-opt", "objective_gap")
    np.testing.assert_allclose(lines["DP-NAG-opt"].x, plans["DP-NAG-opt"].spent("epsilon")[iterations], rtol=1e-6)
    assert figure.layout.xaxis.title.text == "Cumulative ε"


def test_one_band_that_of_the_method_that_ends_best_whatever_is_drawn(experiment, trace) -> None:
    styles = arm_styles(experiment.arms)
    ends = {label: np.median(trace.series(label, "objective_gap")[1][-1]) for label in trace.arm_traces}
    best = min((label for label in ends if trace.arm_traces[label].private), key=ends.__getitem__)
    for metric in ("objective_gap", "distance"):  # of all charts of a run, the same method's
        figure = convergence(trace, metric, styles)
        low, high = (line for line in figure.data if not line.name and line.fill in (None, "tonexty") and not line.text)
        assert low.legendgroup == high.legendgroup == best and f"band: {best}" in notes(figure)
        start, end = figure.layout.yaxis.range
        edges = np.concatenate([low.y, high.y])
        drawn = np.log10(edges) if figure.layout.yaxis.type == "log" else edges
        assert start < drawn.min() and drawn.max() < end


@pytest.mark.parametrize(("better", "best"), [("lower", "a"), ("higher", "c"), ("", None)])
def test_the_best_method_and_step_are_those_of_the_metric_s_own_direction(experiment, better, best) -> None:
    metric = Metric("share", "Share", headline=1, better=better)
    trace = Trace(dict.fromkeys("abc", (metric,)))
    for level, label in enumerate("abc"):
        for t in range(2):
            values = {"share": np.array([level, level + 0.5]) * t}
            trace.arm_traces[label].append(Snapshot(t, {"x": np.zeros((2, 1))}), values, 0.0)
    figure = convergence(trace, "share", dict.fromkeys("abc", ArmStyle("#0072B2", "solid")))
    assert (f"band: {best}" in notes(figure)) if best else "band:" not in notes(figure)
    table = final_table(trace, dict.fromkeys("abc", experiment.plans()["DP-NAG"]))
    assert list(table["best_step"])[1:] == [1.0 if better == "higher" else 0.0] * 2


def test_diverged_replicates_count_with_their_last_value() -> None:
    figure = convergence(made([1.0, 1.0, 1.0], [0.5, 0.5, 7.0], [0.2, 0.2, np.nan]), "objective_gap", STYLES)
    _, high, median = figure.data
    np.testing.assert_allclose(median.y, [1.0, 0.5, 0.2])
    assert high.y[-1] == pytest.approx(np.quantile([0.2, 0.2, 7.0], 0.9))
    exploded = convergence(made([1.0, 1.0], [1e200, np.inf]), "objective_gap", STYLES)
    assert "values above 10¹² shown at 10¹²" in notes(exploded)


def test_a_row_that_is_being_written_is_not_read_yet() -> None:
    trace = made([1.0, 2.0], [0.5, 0.6])
    trace.arm_traces["a"].values["objective_gap"].append(np.array([9.0, 9.0]))  # the iteration number comes last
    figure = convergence(trace, "objective_gap", STYLES)
    assert all(len(line.x) == 2 for line in figure.data)
