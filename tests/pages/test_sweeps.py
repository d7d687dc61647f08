"""The sweep of the families' pages: what can be varied, what it shows, what it says on a file of one's own."""

from streamlit.testing.v1 import AppTest

from tests.pages.reading import Load, chart, charts, choose, lines, link, run, said, text
from tests.pages.test_released_model import people, uploaded

ACCELERATED = {"accel_uniform_rows": "500", "accel_iterations": "5", "accel_replicates": "2"}


def opened(load: Load, page: str, **settings: str | list[str]) -> AppTest:
    app = load(page, **settings)
    app.session_state[f"{'accel' if page == 'accelerated' else 'mirror'}_section"] = "Sweep"
    app.run()
    assert not app.exception
    return app


def offered(app: AppTest, name: str) -> list[str]:
    (menu,) = [menu for menu in app.selectbox if menu.key == name]
    return menu.options


def test_a_sweep_over_the_budget_draws_the_frontier_with_slopes(load: Load) -> None:
    app = opened(load, "accelerated", **ACCELERATED, accel_vary_epsilon_values="3")
    assert "3 points, 2 runs of each." in text(app) and "against privacy budget" not in " ".join(charts(app))
    run(app, press="accel_vary_sweep_run", job="accel_vary_sweep_job")
    names = lines(app, "Excess loss F(x_t) - F* against privacy budget, one line per method")
    assert {name.partition(",")[0] for name in names} == {"DP-GD", "DP-NAG", "DP-NAG-opt"}
    assert all("slope" in name for name in names)
    assert list(app.dataframe[-1].value["Method"]) == ["DP-GD", "DP-NAG", "DP-NAG-opt"]
    assert "**Not private**: it reads the raw data, which are public here." in text(app)
    assert "-badge[:material/visibility: not private]" in text(app) and "-badge[:material/lock: private]" not in text(
        app
    )
    app.number_input(key="accel_vary_epsilon_to").set_value(10.0).run()
    assert "Settings changed since this sweep" in text(app) and "accel_vary_epsilon_to=10.0" in link(app)


def test_a_sweep_on_a_file_shows_no_more_of_it_beside_other_data(load: Load) -> None:
    app = uploaded(load, people(), accel_references="true", accel_vary_epsilon_values="2")
    app.session_state["accel_section"] = "Sweep"
    run(app.run(), press="accel_vary_sweep_run", job="accel_vary_sweep_job")
    chart_start = "Distance travelled ‖x_t - x_0‖ against privacy budget"
    released = lines(app, chart_start)
    choose(app, "data", "uniform")  # public data, of which all may be seen
    assert len(released) == 3 and lines(app, chart_start) == released


def test_two_settings_make_a_map_of_each_method_and_the_curves_of_each_row(load: Load) -> None:
    settings = {"accel_vary_second": "Rows n", "accel_vary_epsilon_values": "3", "accel_vary_data_rows_values": "2"}
    app = opened(load, "accelerated", **ACCELERATED, **settings)
    assert "Privacy budget ε" not in offered(app, "accel_vary_second"), "what is varied already"
    assert "6 points, 2 runs of each" in text(app)
    run(app, press="accel_vary_sweep_run", job="accel_vary_sweep_job")
    map = chart(app, "Excess loss F(x_t) - F* at every pair of values, one map per method")
    assert [panel["name"] for panel in map["data"]] == ["DP-GD", "DP-NAG", "DP-NAG-opt"]
    assert len(lines(app, "Excess loss F(x_t) - F* against privacy budget at n = 1,000")) == 3
    choose(app, "vary_at", "100000.0")
    assert len(lines(app, "Excess loss F(x_t) - F* against privacy budget at n = 100,000")) == 3


def test_what_is_no_sweep_is_said_in_a_sentence(load: Load) -> None:
    app = opened(load, "accelerated", **ACCELERATED, accel_vary_epsilon_to="0.1")
    assert "“From” must be below “To”" in said(app) and app.button(key="accel_vary_sweep_run").disabled
    app.number_input(key="accel_vary_epsilon_to").set_value(1000.0).run()
    assert "To must be between 0.01 and 50." in said(app) and len(app.error) == 1
    app.number_input(key="accel_vary_epsilon_to").set_value(20.0).run()
    app.number_input(key="accel_vary_epsilon_values").set_value(24.0).run()
    app.number_input(key="accel_vary_data_sets").set_value(20.0).run()
    assert "This sweep has 480 points; a page takes at most 200." in said(app)
