"""After a run on a user's file of the accelerated methods: what was released comes first, and the switch after it."""

import numpy as np
import pandas as pd
from streamlit.testing.v1 import AppTest

from dpviz.experiments.trace import Trace
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui.markdown import escape_name
from tests.confirming import confirmed
from tests.pages.reading import Load, chart, charts, run, table, text

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
    assert not app.exception and not app.toggle(key="accel_diagnostics").value
    app = run(app, press="accel_run", job="accel_job")
    assert "What one run releases" in text(app) and "it has travelled" in text(app)
    model = table(app, "column")
    assert model["column"].tolist() == ["age", "income", "(constant)"] and model["highest"][0] == 70.0
    trace: Trace = app.session_state["accel_job"].job.trace
    for label, lane in trace.arm_traces.items():
        np.testing.assert_allclose(model[label], lane.output["x"][0])
    assert "each value scaled from its range to [0, 1], the constant being 1" in text(app)
    assert not any("Excess loss" in alt for alt in charts(app))
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception and any("Excess loss" in alt for alt in charts(app))


def uploaded(load: Load, content: bytes, **settings: str) -> AppTest:
    app = load("accelerated", accel_data="Your own file", accel_iterations="5", accel_file_replicates="2", **settings)
    app.file_uploader[0].upload("mine.csv", content, "text/csv")
    confirmed(app.run())
    app.button(key="accel_upload_fill").click().run()
    assert not app.exception
    return app


def model(app: AppTest) -> LogisticRegression:
    """What the settings that can be saved say."""
    problem = run(app, press="accel_run", job="accel_job").session_state["accel_job"].experiment.problem
    assert isinstance(problem, LogisticRegression)
    return problem


def test_an_upload_has_a_constant_column_and_a_smaller_lambda_at_first(load: Load) -> None:
    found = model(uploaded(load, people()))
    assert (found.intercept, found.regularisation) == ("yes", 0.001)
    usual = LogisticRegression()
    assert (usual.intercept, usual.regularisation) == ("no", 0.01), "what is on the page for all other data"
    found = model(uploaded(load, people(), accel_intercept="No", accel_regularisation="0.02"))
    assert (found.intercept, found.regularisation) == ("no", 0.02)


def test_a_model_that_is_no_better_than_the_majority_is_said_to_be_none(load: Load) -> None:
    x = np.arange(400)
    frame = pd.DataFrame({"age": x % 70, "income": x % 11 * 500, "bought": np.where(x % 10 > 0, "no", "yes")})
    app = uploaded(load, frame.to_csv(index=False).encode())
    app = run(app, press="accel_run", job="accel_job")
    assert "No better than a constant guess" not in text(app), "the shares of the classes are not public"
    assert not any("majority" in name for frame in app.dataframe for name in frame.value)
    app.toggle(key="accel_diagnostics").set_value(True).run()
    guess, accuracy = (f"{name} (not private)" for name in ("Always guessing the majority", "Training accuracy"))
    found = table(app, guess)
    assert (found[guess] == 0.9).all() and (found[accuracy] <= 0.9).all()
    (warning,) = (warning for warning in app.warning if warning.title == "No better than a constant guess")
    assert "Always guessing the majority reaches 0.9" in warning.value and "**Not private**" in warning.value
    assert all(escape_name(label) in warning.value for label in found["Algorithm"])
    read = next(caption.value for caption in app.caption if "Medians of 2 runs" in caption.value)
    assert "**Not private**" in read and "Always guessing the majority" in read
    app.selectbox(key="accel_second").set_value("accuracy").run()
    assert "majority" not in "".join(app.selectbox(key="accel_second").options)
    assert "always guessing the majority" in str(chart(app, "Training accuracy")).lower()
