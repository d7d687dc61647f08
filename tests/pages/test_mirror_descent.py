"""The page of private games: problems, currencies, presets, tabs, links, runs on data of its own."""

import io
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz.experiments.preset import Preset
from dpviz.families.mirror_descent import measure, presets
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.specification import Control
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.mirror_descent import problem as game_controls
from tests.pages.mirror import PAGE, SMALL_GAME, TINY, open_problem
from tests.pages.reading import Load, all_methods, chart, charts, choose, lines, link, pictures, run, said, table, text

PROBLEMS = pytest.mark.parametrize("problem", game_controls.PROBLEMS)
GAMES = ("matrix", "quadratic", "curved", "groups", "losses")


# ------------------------------------------------------------------------------------------------------------- the plan


def test_the_plan_is_there_before_anything_runs(load: Load) -> None:
    app = load(PAGE, mirror_references="true")
    assert app.title[0].value == "Private games" and not app.error and not app.warning
    assert app.selectbox(key="mirror_preset").value == presets.PRESETS[0].name
    assert presets.PRESETS[0].look_for in text(app)
    assert [metric.value for metric in app.metric][:2] == ["ε = 1, δ = 10⁻⁶", "ε ≤ 1"]
    assert app.metric[2].label == "Per round, bounded range η" and "tells a replaced row" in text(app)
    assert pictures(app) == 4 and "mirror_job" not in app.session_state
    assert lines(app, "Privacy spent") == {"Vertex sampling", "DP-SGDA", "Gaussian mirror descent", "Two draws"}
    assert "Prefer " in text(app) and "expect an error of about" in text(app)
    assert "*Versions.*" in text(app) and "saddle point" in text(app)


@PROBLEMS
def test_every_problem_plans_in_every_currency_and_says_what_is_left_out(load: Load, problem: str) -> None:
    app = open_problem(load, problem)
    all_methods(app)
    chosen = set(app.pills[0].value)
    for currency in CURRENCIES:
        choose(app, "currency", currency)
        assert not app.error and len(app.metric) == 4 and pictures(app) == 4, currency
        planned, refused = lines(app, "Privacy spent"), {label for label in chosen if label in said(app)}
        assert chosen <= planned | refused and planned & chosen, currency
        assert ("As in the paper" in refused) == ("As in the paper" in chosen and currency != "approximate")
        assert ("never gives pure ε-DP" in said(app)) == (currency == "pure")


def test_no_method_has_a_plan_or_none_is_chosen(load: Load) -> None:
    app = load(PAGE, mirror_currency=PureDP.name, mirror_methods_game=["DP-SGDA", "Gaussian mirror descent"])
    assert "never gives pure ε-DP" in said(app) and not charts(app) and app.button(key="mirror_run").disabled
    app.pills(key="mirror_methods_game").set_value([]).run()
    assert not app.exception and "No method is chosen" in said(app)
    app.pills(key="mirror_methods_game").set_value(["Vertex sampling"]).run()
    assert not app.exception and not app.error and pictures(app) == 4


@pytest.mark.parametrize("preset", presets.PRESETS[1:], ids=lambda preset: preset.name)
def test_a_preset_sets_every_control_says_what_to_look_for_and_has_a_link(load: Load, preset: Preset) -> None:
    app = load(PAGE)
    app.selectbox(key="mirror_preset").set_value(preset.name).run()
    assert not app.exception and not app.error and not app.warning
    assert app.selectbox(key="mirror_preset").value == preset.name  # so the controls rebuild exactly its experiment
    assert preset.look_for in text(app) and preset.reported in text(app) and pictures(app) == 4

    offered = parse_qs(link(app).partition("?")[2])
    assert set(app.query_params) == set(offered)  # what a reload keeps, also of controls that were not shown before
    again = load(PAGE, **{"mirror_references": "true"} | offered)
    assert again.selectbox(key="mirror_preset").value == preset.name and link(again) == link(app)


def test_the_link_restores_what_no_preset_has(load: Load) -> None:
    app = open_problem(load, "polytope")
    choose(app, "polytope_shape", "own")
    app.text_area(key="mirror_vertices").set_value("0 0\n1,0\n0 1\n2 2").run()
    app.number_input(key="mirror_seed").set_value(7).run()
    again = load(PAGE, **parse_qs(link(app).partition("?")[2]))
    assert again.text_area(key="mirror_vertices").value == "0 0\n1,0\n0 1\n2 2" and link(again) == link(app)
    assert again.number_input(key="mirror_seed").value == 7 and "4 vertices" in text(again)
    assert [metric.value for metric in again.metric] == [metric.value for metric in app.metric]


@pytest.mark.parametrize("value", ["1e400", "abc", "-5", "nan", "<script>"])
def test_a_hostile_link_gives_a_page(load: Load, value: str) -> None:
    names = {
        *owned(list(presets.METHODS)),
        "epsilon",
        "problem",
        "methods_game",
        "seed",
        "replicates",
        "vertices",
        "quadratic_latent_rows",
        "tabs",
    }
    load(PAGE, **{f"mirror_{name}": value for name in names})


# --------------------------------------------------------------------------------------------------------- every number


def owned(methods: Sequence[str]) -> dict[str, Control]:
    """The settings of these methods, by name."""
    return {control.name: control for name in methods for control in type(presets.METHODS[name]).controls()}


def controls_of(app: AppTest) -> set[str]:
    """Names of the methods' settings that have a control on the page."""
    keys = {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control]}
    return {name for name in owned(list(presets.METHODS)) if f"mirror_{name}" in keys}


def test_every_setting_of_every_method_that_is_chosen_has_a_control(load: Load) -> None:
    seen: set[str] = set()
    for problem in ("matrix", "synthetic", "regression"):
        offered, default = presets.offered(game_controls.PROBLEMS[problem])
        app = open_problem(load, problem)
        one_player = {"share_x", "split"} if problem != "matrix" else set()  # whose budget is not shared
        one_player |= {"draws_y"} if problem == "regression" else set()
        assert controls_of(app) == set(owned(default)) - one_player
        assert controls_of(all_methods(app)) == set(owned(offered)) - one_player
        seen |= set(owned(offered))
    assert seen == set(owned(list(presets.METHODS)))


def test_settings_that_do_not_apply_have_no_control(load: Load) -> None:
    app = open_problem(load, "synthetic", mirror_methods_synthetic=["Gaussian marginals"])
    assert controls_of(app) == {"fitting_rounds"} and not app.error and len(app.metric) == 4
    app.toggle(key="mirror_references").set_value(True).run()
    assert not app.exception and controls_of(app) == {"fitting_rounds"}  # the reference is tuned, not set
    app = load(PAGE, mirror_methods_game=["DP-SGDA"], mirror_currency=ZeroConcentratedDP.name)
    assert controls_of(app) == {"gradient_rounds", "batching", "euclidean_step", "split", "share_x"}
    app.pills(key="mirror_methods_game").set_value(["DP-SGDA", "Vertex sampling"]).run()
    assert not app.exception and "draws" in controls_of(app) and "accounting" not in controls_of(app)
    choose(app, "currency", "approximate")
    assert "accounting" in controls_of(app)
    app = open_problem(load, "regression", mirror_methods_learning=["Anytime"])
    assert "theorem" in controls_of(app)
    choose(app, "currency", "pure")
    assert "theorem" not in controls_of(app) and not app.error


@pytest.mark.parametrize("problem", ["matrix", "synthetic", "regression"])
def test_both_ends_of_every_setting_give_a_plan_or_a_sentence(load: Load, problem: str) -> None:
    """Settings of games in the matrix game; in the others those that games do not have."""
    offered, _ = presets.offered(game_controls.PROBLEMS[problem])
    classes = {type(presets.METHODS[name]): name for name in reversed(offered)}  # one of each: settings are a class's
    app = open_problem(load, problem)
    app.pills[0].set_value(list(classes.values())).run()
    controls = owned(offered)
    if problem != "matrix":
        games, _ = presets.offered(game_controls.PROBLEMS["matrix"])
        controls = {name: control for name, control in controls.items() if name not in owned(games)}
    for name, control in controls.items():
        for value in control.options or (control.low, control.high):
            if control.options:
                choose(app, name, str(value))
            else:
                app.number_input(key=f"mirror_{name}").set_value(float(value)).run()
            assert not app.exception and (len(app.metric) == 4 or app.error), (name, value)
        if control.options:
            choose(app, name, "method" if name in presets.BY_NAME else control.default)
        else:  # takes effect with the next setting
            back = None if control.default is None else float(control.default)
            app.number_input(key=f"mirror_{name}").set_value(back)
    app.run()
    assert not app.exception and not app.error


@PROBLEMS
def test_both_ends_of_every_number_of_the_problem(load: Load, problem: str) -> None:
    cls, app = game_controls.PROBLEMS[problem], open_problem(load, problem)
    app.pills[0].set_value(app.pills[0].value[:1]).run()  # one method: it is the problem that changes
    own = [(f"{problem}_{control.name}", control) for control in cls.controls()]
    for source, kind in game_controls.SOURCES.get(problem, {"": None}).items():
        if problem in game_controls.UPLOADS:
            choose(app, f"{problem}_data", source)
        controls = [(f"{problem}_{source}_{c.name}", c) for c in kind.controls()] if kind else []
        once, own = own, []  # the problem's own numbers with the first source of its data
        for name, control in once + controls:
            if control.low is None or control.options:
                continue
            for value in (control.low, control.high):
                app.number_input(key=f"mirror_{name}").set_value(float(value)).run()
                assert not app.exception and (len(app.metric) == 4 or app.error), (name, value)
            app.number_input(key=f"mirror_{name}").set_value(float(control.default or 0.0))  # with the next number
        app.run()
        assert not app.exception and not app.error and len(app.metric) == 4, source


@pytest.mark.parametrize("cls", [PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP], ids=lambda cls: cls.__name__)
def test_both_ends_of_every_budget(load: Load, cls: type) -> None:
    app = load(PAGE, mirror_currency=cls.name)  # type: ignore[attr-defined]
    for control in cls.controls():  # type: ignore[attr-defined]
        for value in (control.low, control.high):
            app.number_input(key=f"mirror_{control.name}").set_value(value).run()
            assert not app.exception and not app.error and len(app.metric) == 4


@pytest.mark.parametrize("key", ["quadratic_latent_rows", "epsilon", "iterations", "stop_level", "replicates"])
def test_a_mistake_hides_no_other_control(load: Load, key: str) -> None:
    app = all_methods(load(PAGE, mirror_seed="7"))
    before = {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]}
    app.number_input(key=f"mirror_{key}").set_value(-5.0).run()
    assert not app.exception and said(app).count("must be between") == 2 and not app.metric
    assert {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]} == before
    assert app.number_input(key="mirror_seed").value == 7


# ---------------------------------------------------------------------------------------------- settings that cannot be


def test_a_single_pass_needs_a_row_for_every_round(load: Load) -> None:
    app = load(PAGE, mirror_quadratic_latent_rows="50", mirror_batching="Single pass")
    assert "A single pass over 50 rows allows at most 50 rounds" in said(app)
    app.number_input(key="mirror_iterations").set_value(50).run()
    assert not app.exception and not app.error


def test_the_units_of_the_bias_reduced_oracle_must_fit_into_the_rows(load: Load) -> None:
    app = load(PAGE, mirror_methods_game=["Vertex sampling", "Bias-reduced"], mirror_rows_per_draw="1000")
    assert "Left out: Bias-reduced U = 64 units of B = 1,000 rows need more than n = 5,000 rows" in said(app)
    assert not app.error and lines(app, "Privacy spent") == {"Vertex sampling"}


def test_a_payoff_matrix_that_is_too_large_is_left_out(load: Load) -> None:
    sizes = {f"mirror_matrix_latent_strategies_{player}": "10000" for player in "xy"}
    app = open_problem(load, "matrix", mirror_methods_game=["Vertex sampling", "Noisy matrix"], **sizes)
    assert "Left out: Noisy matrix" in said(app) and "too large" in said(app) and not app.error


@pytest.mark.parametrize(
    ("vertices", "sentence"),
    [
        ("a b\n1 2", "These vertices cannot be read"),
        ("0,0; 1,1", "These vertices cannot be read"),
        ("", "needs 2 to 1,000 vertices"),
        ("1 2\n1 2", "at least 0.001"),
        ("1 2\n3", "equally many coordinates"),
        ("0 0\n1 1e400", "finite"),
        ("0 0\n200 1", "between -100 and 100"),
    ],
)
def test_vertices_that_make_no_polytope_get_a_sentence(load: Load, vertices: str, sentence: str) -> None:
    app = open_problem(load, "polytope", mirror_polytope_shape="My own vertices")
    assert not app.error and "3 vertices" in text(app)
    before = {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]}
    app.text_area(key="mirror_vertices").set_value(vertices).run()
    assert not app.exception and sentence in said(app) and not app.metric
    assert {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]} == before


def test_a_long_run_is_announced_and_too_long_a_run_refused(load: Load) -> None:
    sizes = {"mirror_regression_rows": "10000", "mirror_regression_dimension": "2000", "mirror_replicates": "200"}
    sizes |= {"mirror_iterations": "1024", "mirror_chosen_vertices": "1024"}
    app = open_problem(load, "regression", **sizes, mirror_methods_learning=["Vertex sampling", "Frank-Wolfe"])
    assert "would take about" in said(app) and app.button(key="mirror_run").disabled and "repeats" in said(app)


# ------------------------------------------------------------------------------------------------------------- the runs


@PROBLEMS
def test_every_method_runs_and_shows_what_came_out(load: Load, problem: str) -> None:
    app = run(all_methods(open_problem(load, problem, **TINY)))
    table, found = app.dataframe[-1].value, charts(app)
    experiment = app.session_state["mirror_job"].job.experiment
    assert experiment.arms == measure.arms_at_defaults(type(experiment.problem), 4), "what the advice was measured with"
    assert list(table["Algorithm"]) == app.pills[0].value and {"Steps", "Best step", "Time [s]"} <= set(table.columns)
    assert table["Spent ε at δ = 10⁻⁶"].max() == pytest.approx(1.0, rel=1e-3)
    assert table["Spent ε at δ = 10⁻⁶"].max() <= 1.0 and "ε at δ = 10⁻⁶" not in table
    assert any(alt.startswith("Stacked shares of the vertices of player x") for alt in found)
    assert any("player y" in alt for alt in found) == (problem in (*GAMES, "synthetic"))
    assert any(alt.startswith("Loss of every group") for alt in found) == (problem in ("groups", "losses"))
    assert any("marginal cell" in alt for alt in found) == (problem == "synthetic")
    assert any("On private data" in info.value for info in app.info) and "Not private" in text(app)
    assert len(app.error) == 0 and len(app.warning) == 0


def test_strategies_that_have_names_show_them(load: Load) -> None:
    app = run(open_problem(load, "losses", **TINY))
    assert any(name.startswith("strategy ") for name in lines(app, "Stacked shares of the vertices of player x"))
    assert "group 1" in lines(app, "Stacked shares of the vertices of player y")
    app = run(open_problem(load, "groups", **TINY))
    assert lines(app, "Stacked shares of the vertices of player y") == {"group 1", "group 2", "group 3"}


def test_the_pictures_follow_their_method(load: Load) -> None:
    app = run(open_problem(load, "groups", **TINY))
    before = chart(app, "Loss of every group")
    choose(app, "groups_of", "DP-SGDA")
    assert chart(app, "Loss of every group") != before and "released model of DP-SGDA. Median of 2 runs" in text(app)
    choose(app, "strategies_of", "Gaussian mirror descent")
    choose(app, "axis", "spent")
    assert any("against privacy spent" in alt for alt in charts(app))
    assert not any(widget.key == "mirror_overlay" for widget in app.segmented_control)  # the bound says nothing here


def test_a_bound_that_says_something_can_be_compared_with_the_run(load: Load) -> None:
    small = {"mirror_matrix_latent_rows": "200", "mirror_matrix_latent_strategies_x": "10"}
    small |= {"mirror_matrix_latent_strategies_y": "12", "mirror_iterations": "16", "mirror_replicates": "2"}
    small |= {"mirror_methods_game": ["Vertex sampling", "As in the paper", "DP-SGDA"]}
    app = run(open_problem(load, "matrix", **small))
    choose(app, "overlay", "bound")
    assert "Vertex sampling, bound" in lines(app, "Duality gap against")
    assert "As in the paper: the bound says nothing, the gap cannot exceed 2" in str(chart(app, "Upper bound on"))
    app.number_input(key="mirror_epsilon").set_value(0.05).run()
    assert not app.exception and "Whatever T, the bound of vertex sampling says nothing here" in text(app)
    assert "a quarter of T*" not in text(app) and "Noise of the other methods" in text(app)
    app.pills(key="mirror_methods_game").set_value(["Vertex sampling"]).run()
    assert not app.exception and "Whatever T, the bound says nothing" in text(app)


def test_references_without_privacy_run_beside_the_private_methods(load: Load) -> None:
    app = run(load(PAGE, mirror_references="true", **TINY, **SMALL_GAME))
    table = app.dataframe[-1].value.set_index("Algorithm")
    assert pd.isna(table.loc[presets.REFERENCE].iloc[-2]) and len(table) == 5


def test_results_stay_when_settings_change_and_say_so(load: Load) -> None:
    app = run(load(PAGE, **TINY, **SMALL_GAME))
    choose(app, "problem", "synthetic")
    assert "Settings changed since this run" in text(app) and app.dataframe[-1].value["Steps"].iloc[0] == 4


def test_stop_keeps_what_was_computed_even_while_settings_are_wrong(load: Load) -> None:
    app = open_problem(load, "quadratic", mirror_iterations="1024", mirror_gradient_rounds="1024")
    app.button(key="mirror_run").click().run()
    job = app.session_state["mirror_job"].job
    while job.trace is None or job.progress < 0.001:
        app.run()
        assert not app.exception and job.active
    app.number_input(key="mirror_epsilon").set_value(-1.0).run()
    assert not app.exception and app.button(key="mirror_run").disabled and not app.button(key="mirror_stop").disabled
    app.button(key="mirror_stop").click().run()
    while job.active:
        app.run()
        assert not app.exception
    app.run()
    assert not app.exception and job.state == "stopped"
    assert 0 < app.dataframe[-1].value["Steps"].max() <= 1024


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], bytes]]:
    """What the download buttons deliver, by key."""
    found: dict[str, Callable[[], bytes]] = {}

    def keep(label: str, data: Callable[[], bytes], *, key: str, **_: object) -> None:
        found[key] = data

    monkeypatch.setattr(st, "download_button", keep)
    return found


def test_every_method_offers_a_synthetic_table_of_the_size_asked_for(
    load: Load, files: dict[str, Callable[[], bytes]]
) -> None:
    app = run(open_problem(load, "synthetic", **TINY))
    columns = MarginalQueries().data.facts().columns
    compared = table(app, "of which: rows")
    assert list(compared["Method"]) == ["Synthetic histogram", "Synthetic rows", "MWEM", "Gaussian marginals"]
    assert "Rows with “other”" not in compared  # no list of this survey has it
    for label in compared["Method"]:
        choose(app, "table_of", label)
        made = pd.read_csv(io.BytesIO(files["mirror_synthetic_csv"]()), dtype=str)
        assert len(made) == 10_000 and list(made) == [name for name, _ in columns]
        assert all(set(made[name]) <= set(categories) for name, categories in columns)
        assert f"10,000 rows of {label}" in text(app) and "the data are public" in text(app)
    app.number_input(key="mirror_table_rows").set_value(63).run()
    assert not app.exception and len(pd.read_csv(io.BytesIO(files["mirror_synthetic_csv"]()))) == 63
    assert (table(app, "of which: rows")["of which: rows"] > compared["of which: rows"]).all()
    app.number_input(key="mirror_table_rows").set_value(0).run()
    assert not app.exception and "must be between 1 and" in said(app)
    assert len(app.dataframe[-1].value) == 4  # the final numbers are still there


def test_the_error_beside_the_rows_is_that_of_the_table(load: Load, files: dict[str, Callable[[], bytes]]) -> None:
    """The diagnostic names the worst cell of the very file; the bound from public numbers holds for noisy tables."""
    app = run(open_problem(load, "synthetic", mirror_fitting_rounds="200", **TINY))
    compared = table(app, "of which: rows").set_index("Method")
    assert compared["Worst error, at most about"].notna().to_dict()["Gaussian marginals"]
    line = compared.loc["Gaussian marginals"]
    assert line["Worst error (not private)"] < line["Worst error, at most about"] < 0.05
    assert "10,000 rows of Gaussian marginals. Worst error at most about" in text(app)  # the best is offered first
    worst = table(app, "Worst cell").iloc[0]
    made = pd.read_csv(io.BytesIO(files["mirror_synthetic_csv"]()), dtype=str)
    inside = np.ones(len(made), dtype=bool)
    for part in worst["Worst cell"].split(", "):
        name, category = part.split("=")
        inside &= (made[name] == category).to_numpy()
    assert worst["Share in the table"] == pytest.approx(inside.mean())
    assert worst["Error"] == pytest.approx(abs(inside.mean() - worst["True share"]))
    assert worst["Error"] == pytest.approx(line["Worst error (not private)"])
    choose(app, "table_of", "Synthetic rows")
    assert "released 4 drawn rows" in text(app) and "The table of Gaussian marginals promises less" in text(app)
    assert "No useful bound on its error is known" in text(app)
