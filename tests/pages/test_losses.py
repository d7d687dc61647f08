"""Losses on the page of the accelerated methods, a number to predict, and what the clip reaches."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.exports.export import to_script
from dpviz.numbers import short
from dpviz.problems.linear.linear_models import LeastSquares
from tests.confirming import confirmed
from tests.pages.reading import Load, charts, run, said, table, text

TINY = {"accel_iterations": "5", "accel_replicates": "2", "accel_methods": ["DP-GD", "DP-NAG-opt"]}


def options(app: AppTest, key: str) -> list[str]:
    return next(list(control.options) for control in app.segmented_control if control.key == key)


def has(app: AppTest, key: str) -> bool:
    return any(control.key == key for control in app.segmented_control)


def problem(app: AppTest) -> object:
    return app.session_state["accel_job"].experiment.problem


@pytest.mark.parametrize("source", ["estimated", "released"])
def test_the_smoothness_of_another_loss_can_be_computed(load: Load, source: str) -> None:
    words = {"estimated": "Estimated from data (not private)", "released": "Released privately"}
    app = load("accelerated", accel_loss="Huber", accel_uniform_rows="500", accel_smoothness_source=words[source])
    app.button(key=f"accel_{'estimate' if source == 'estimated' else 'release'}").click().run()
    assert not app.exception and not app.error
    assert 1.0 < app.number_input(key="accel_smoothness").value <= 10.02


def flats() -> pd.DataFrame:
    x = np.arange(300)
    area = np.resize(["north", "south", "east"], 300)
    return pd.DataFrame({"size": 20 + x % 80, "area": area, "rent": 5.0 * (x % 80) + 100 * (area == "north")})


def number_from_a_file(load: Load, **settings: str) -> AppTest:
    app = load("accelerated", accel_data="Your own file", **TINY, **settings)
    app.file_uploader[0].upload("flats.csv", flats().to_csv(index=False).encode(), "text/csv")
    confirmed(app.run())
    app.selectbox(key="accel_upload_target").set_value("rent")
    next(control for control in app.segmented_control if control.key == "accel_upload_kind").set_value("number")
    app.run()
    app.multiselect(key="accel_upload_lists").set_value(["area"]).run()
    app.button(key="accel_upload_fill_lists").click().run()
    app.button(key="accel_upload_fill").click().run()
    assert not app.exception and not app.error, said(app)
    return app


def test_a_number_is_learned_from_a_file_with_texts_and_the_model_says_how_to_predict(load: Load) -> None:
    app = number_from_a_file(load, accel_scaling="[-½, ½]", accel_intercept="Yes", accel_clip="1.75")
    assert "categories taken from the data: not private" in text(app)
    app = run(app, press="accel_run", job="accel_job")
    found = problem(app)
    assert isinstance(found, LeastSquares) and found.facts().d == 1 + 4 + 1
    model = table(app, "column")
    assert model["column"].tolist() == [
        "size",
        *(f"area: {name}" for name in ("east", "north", "south", "other")),
        "(constant)",
    ]
    assert "The prediction for a row is 250 + 250 × the sum of coefficient × value" in text(app)
    assert "a category being 1 in its rows and 0 elsewhere, the constant being ½" in text(app)
    assert "**The clip**" not in text(app) and not any("Excess" in alt for alt in charts(app))
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception and any("Excess squared loss" in alt for alt in charts(app))
    share = found.build(app.session_state["accel_job"].tables).clipped_share
    assert 0 < share < 1 and f"**The clip** C = 1.75 reaches {short(100 * share)} % of the rows" in text(app)
    assert "read_table" in to_script(app.session_state["accel_job"].experiment)


@pytest.mark.parametrize("clipping", ["Gradients", "Feature rows"])
def test_the_share_that_the_clip_reaches_stands_below_a_run_as_not_private(load: Load, clipping: str) -> None:
    settings = {"accel_clip": "4.8", "accel_clipping": clipping, "accel_uniform_rows": "500", **TINY}
    app = run(load("accelerated", **settings), press="accel_run", job="accel_job")
    built = problem(app).build()  # type: ignore[attr-defined]
    share = built.clipped_share if clipping == "Gradients" else built.shortened_share
    assert 0 < share < 1 and f"**The clip** C = 4.8 reaches {short(100 * share)} % of the rows" in text(app)
    assert text(app).count("not private") >= 1


def test_a_clip_that_is_longer_than_any_gradient_reaches_no_row(load: Load) -> None:
    settings = {"accel_loss": "Huber", "accel_clip": "4", "accel_uniform_rows": "500", **TINY}
    app = run(load("accelerated", **settings), press="accel_run", job="accel_job")
    assert "**The clip** C = 4 reaches no row." in text(app)
