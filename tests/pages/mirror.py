"""Reading and running the page of private games, as its tests need it."""

import json
import time
from collections.abc import Callable

import pandas as pd
from streamlit.testing.v1 import AppTest

from dpviz.ui.mirror_descent import problem as game_controls

Load = Callable[..., AppTest]
PAGE = "mirror_descent"
TINY = {"mirror_iterations": "4", "mirror_replicates": "2"}
SMALL_GAME = {
    "mirror_quadratic_latent_rows": "200",
    "mirror_quadratic_latent_strategies_x": "10",
    "mirror_quadratic_latent_strategies_y": "12",
}
DIAGNOSTICS = ("Duality gap", "Excess loss", "Worst query error", "Highest mean loss", "Loss of every", "marginal cell")


def said(app: AppTest) -> str:
    """Errors and warnings with their titles."""
    return " ".join(f"{getattr(error.proto, 'title', '')} {error.value}" for error in [*app.error, *app.warning])


def hinted(app: AppTest) -> str:
    """Hints at what to do next, with their titles."""
    return " ".join(f"{getattr(hint.proto, 'title', '')} {hint.value}" for hint in app.info)


def text(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption, *app.info, *app.success, *app.subheader])


def charts(app: AppTest) -> dict[str, dict]:
    """Specifications of all charts below the live picture, by text alternative."""
    found = [chart for chart in app.get("plotly_chart") if "_hero" not in chart.proto.id]
    assert all(chart.proto.alt for chart in found)
    return {chart.proto.alt: json.loads(chart.proto.spec) for chart in found}


def pictures(app: AppTest) -> int:
    """The charts on the page, and the sentences in place of those that have nothing to draw."""
    return len(charts(app)) + sum(info.icon == ":material/block:" for info in app.info)


def chart(app: AppTest, start: str) -> dict:
    return next(spec for alt, spec in charts(app).items() if alt.startswith(start))


def lines(app: AppTest, start: str) -> set[str]:
    """The named lines of the chart whose text alternative starts like this."""
    return {trace["name"] for trace in chart(app, start)["data"] if trace.get("name")}


def choose(app: AppTest, name: str, value: str) -> AppTest:
    """Set a choice, whether it is drawn as a menu or side by side."""
    found = [*app.selectbox, *app.segmented_control]
    next(widget for widget in found if widget.key == f"mirror_{name}").set_value(value).run()
    assert not app.exception
    return app


def table(app: AppTest, column: str) -> pd.DataFrame:
    """The first table on the page that has this column."""
    return next(frame.value for frame in app.dataframe if column in frame.value)


def all_methods(app: AppTest) -> AppTest:
    """Choose every method that is offered."""
    (pills,) = app.pills
    pills.set_value(list(pills.options)).run()
    assert not app.exception
    return app


def run(app: AppTest, until: str = "done", press: str = "mirror_run", job: str = "mirror_job") -> AppTest:
    """Press Run (or the sweep's) and poll until the job has ended."""
    app.button(key=press).click().run()
    assert not app.exception
    end = time.monotonic() + 30.0
    started = app.session_state[job].job
    while started.active and time.monotonic() < end:
        app.run()
        assert not app.exception
    app.run()
    assert not app.exception and started.state == until, started.message
    return app


def link(app: AppTest) -> str:
    """The address that restores the page."""
    return next(code.value for code in app.code if "mirror_" in code.value)


def open_problem(load: Load, problem: str, **settings: str | list[str]) -> AppTest:
    app = load(PAGE, mirror_problem=game_controls.PROBLEMS[problem].title, **settings)
    assert app.selectbox(key="mirror_problem").value == problem
    return app


def open_tab(app: AppTest, tab: str) -> AppTest:
    app.session_state["mirror_tabs"] = tab
    app.run()
    assert not app.exception
    return app
