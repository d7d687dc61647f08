"""All runs as dots that move in a plane: on public data that have one, and never of a visitor's file."""

import numpy as np
import pytest

from dpviz.experiments.trace import Trace
from dpviz.ui.experiment import texts
from tests.pages.reading import Load, clouds, run, text
from tests.pages.test_accelerated import upload

BENCH = {
    "accel_face": "Cloud",
    "accel_data": "Quadratic test bench",
    "accel_iterations": "12",
    "accel_replicates": "30",
}


def test_each_private_method_has_its_runs_with_theory_and_what_they_would_be_without_privacy(load: Load) -> None:
    app = run(load("accelerated", accel_references="true", **BENCH), press="accel_run", job="accel_job")
    (film,) = clouds(app)
    trace: Trace = app.session_state["accel_job"].job.trace
    assert film["steps"] == list(range(13)) and film["metric"] == "excess loss"
    assert [walk["label"] for walk in film["walks"]] == ["DP-GD", "DP-NAG", "DP-NAG-opt"]
    assert "Flattest direction" in film["x"]["title"] and film["ground"] and not film["raw"]
    assert [walk["without"] for walk in film["walks"]] == ["GD, no privacy", *["NAG, no privacy"] * 2]
    held = []
    for walk in film["walks"]:
        points, (x, y, a, b) = walk["points"][walk["last"]], walk["region"][walk["last"]]
        held.append(((((points - [x, y]) / [a, b]) ** 2).sum(axis=1) <= 1).mean())
        assert walk["runs"] == 30 and walk["plain"] == 1  # without privacy all runs are the same
        assert [walk["spent"][at].replace("\u00a0", " ") for at in (0, -1)] == ["ε = 0 spent", "ε = 2 spent"]
        last = np.median(trace.last(walk["label"], "objective_gap"))
        assert float(walk["median"][-1]) == pytest.approx(last, rel=0.01)
    assert np.mean(held) == pytest.approx(0.9, abs=0.1)  # 90 runs: three standard errors are 0.095
    assert "**Not private**, since they read the raw data, which are public here: the grey rings and the" in text(app)


def test_of_many_methods_three_have_a_panel(load: Load) -> None:
    methods = ["DP-GD", "DP-HB", "DP-NAG", "DP-MASG"]
    app = run(load("accelerated", accel_methods=methods, **BENCH), press="accel_run", job="accel_job")
    (film,) = clouds(app)
    assert (
        len(film["walks"]) == 3
        and texts.CLOUD_LEFT_OUT in text(app)
        and not any(walk["plain"] for walk in film["walks"])
    )


def test_a_file_has_no_cloud(load: Load) -> None:
    app = run(upload(load, accel_face="Cloud"), press="accel_run", job="accel_job")
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception and not clouds(app)
