"""Figures of groups: true means beside what the game weighs, groups without rows left out, never colour alone."""

import numpy as np

from dpviz.families.mirror_descent.figures import group_losses


def test_every_group_shows_its_true_mean_beside_the_weighed_one() -> None:
    means = np.array([[0.1, 0.3], [0.2, 0.5], [0.3, 0.4]])
    weighed = means * [2.0, 0.1]
    figure = group_losses(["a", "b"], means, weighed, np.array([0.05, 0.06]), np.array([0.25, 0.35])).figure
    assert all(np.isfinite(trace.y).all() for trace in figure.data)
    ours, seen, fairest, average = figure.data
    assert [trace.name for trace in figure.data] == [
        "mean loss",
        "as the game weighs it",
        "fairest, without privacy",
        "best on average, without privacy",
    ]
    np.testing.assert_allclose(ours.y, [0.2, 0.4])
    np.testing.assert_allclose(seen.y, [0.4, 0.04])
    np.testing.assert_allclose([*fairest.y, *average.y], [0.05, 0.06, 0.25, 0.35], rtol=1e-6)
    np.testing.assert_allclose([ours.error_y.array, ours.error_y.arrayminus], 0.08, rtol=1e-5)
    assert list(ours.x) == ["a", "b"] and {trace.y.dtype for trace in figure.data} == {np.dtype(np.float32)}
    assert len({trace.marker.pattern.shape for trace in figure.data}) == 4  # never colour alone
    assert figure.layout.annotations[-1].name == "not private" and figure.layout.barmode == "group"


def test_one_run_has_no_band_and_a_group_without_rows_no_bar() -> None:
    nan = np.nan
    means, models = np.array([[0.1, nan, 0.2]]), np.array([0.1, nan, 0.1])
    figure = group_losses(["a", "b", "other"], means, np.array([[0.2, 0.0, 0.1]]), models, models).figure
    assert all(np.isfinite(trace.y).all() for trace in figure.data)
    assert all(list(trace.x) == ["a", "other"] and len(trace.y) == 2 for trace in figure.data)
    assert figure.data[0].error_y.array is None
    assert "one run; results vary" in " ".join(note.text for note in figure.layout.annotations if not note.name)
