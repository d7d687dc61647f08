"""After a run on a user's file of the accelerated methods: what was released comes first, and the switch after it."""

import numpy as np
import pandas as pd

from dpviz.experiments.trace import Trace
from tests.confirming import confirmed
from tests.pages.reading import Load, charts, run, table, text

SETTINGS = {"accel_iterations": "5", "accel_replicates": "2", "accel_intercept": "Yes"}


def people() -> bytes:
    x = np.arange(300)
    frame = pd.DataFrame({"age": x % 70, "income": x % 11 * 500, "bought": np.where(x % 70 > 30, "yes", "no")})
    return frame.to_csv(index=False).encode()


def test_the_released_model_comes_first_and_the_switch_after_it(load: Load) -> None:
    app = load("accelerated", accel_data="Your own file", **SETTINGS)
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    confirmed(app.run())
    app.button(key="accel_upload_fill").click().run()
    assert not app.exception and not any(toggle.key == "accel_diagnostics" for toggle in app.toggle)
    app = run(app, press="accel_run", job="accel_job")
    assert "What one run releases" in text(app) and "it has travelled" in text(app)
    model = table(app, "column")
    assert model["column"].tolist() == ["age", "income", "(constant)"] and model["highest"][0] == 70.0
    trace: Trace = app.session_state["accel_job"].job.trace
    for label, lane in trace.lanes.items():
        np.testing.assert_allclose(model[label], lane.output["x"][0])
    assert "each value scaled from its declared range to [0, 1], the constant being 1" in text(app)
    assert not any("Excess loss" in alt for alt in charts(app))
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception and any("Excess loss" in alt for alt in charts(app))


def test_public_data_show_their_curves_first(load: Load) -> None:
    app = run(load("accelerated", accel_uniform_rows="500", **SETTINGS), press="accel_run", job="accel_job")
    assert "What one run releases" not in text(app) and not any("diagnostics" in str(t.key) for t in app.toggle)
