"""Opening the page of private games, as its tests need it."""

from streamlit.testing.v1 import AppTest

from dpviz.ui.mirror_descent import page as games_page
from tests.pages.reading import Load

PAGE = "mirror_descent"
TINY = {"mirror_iterations": "4", "mirror_replicates": "2", "mirror_file_replicates": "2"}
SMALL_GAME = {
    "mirror_quadratic_latent_rows": "200",
    "mirror_quadratic_latent_strategies_x": "10",
    "mirror_quadratic_latent_strategies_y": "12",
}
DIAGNOSTICS = ("Duality gap", "Excess loss", "Worst query error", "Highest mean loss", "Loss of every", "marginal cell")


def open_problem(load: Load, problem: str, **settings: str | list[str]) -> AppTest:
    app = load(PAGE, mirror_problem=games_page.PROBLEMS[problem].title, **settings)
    assert app.selectbox(key="mirror_problem").value == problem
    return app


def open_tab(app: AppTest, tab: str) -> AppTest:
    app.session_state["mirror_tabs"] = tab
    app.run()
    assert not app.exception
    return app
