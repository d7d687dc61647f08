"""The page of private games before a run: its advice, and the closer looks in its tabs; and the verdict after one."""

import pytest

from dpviz.privacy.budgets import PureDP, ZeroConcentratedDP
from tests.pages.mirror import PAGE, SMALL_GAME, TINY, open_problem, open_tab
from tests.pages.reading import Load, chart, charts, lines, run, said, text

TABS = (
    "Gap against dimension",
    "Accounting",
    "Where the budget goes",
    "Rows for a target",
    "Bias of few draws",
    "The paper's bound",
    "The paper's table",
)


def test_pure_privacy_recommends_nothing_that_it_does_not_allow(load: Load) -> None:
    app = load(PAGE, mirror_currency=PureDP.name)
    assert "Left out: DP-SGDA, Gaussian mirror descent" in said(app)
    assert not any("Gaussian mirror descent" in info.value for info in app.info)
    assert any(info.value.startswith("Prefer ") for info in app.info)


def test_after_a_run_it_is_said_who_might_as_well_not_have_played(load: Load) -> None:
    app = open_problem(load, "losses", mirror_methods_game=["Vertex sampling", "Bias-reduced"])
    (verdict,) = (info.value for info in run(app).info if "On private data" in info.value)
    assert verdict.startswith("Vertex sampling has the smallest error here")
    assert "Not shown to be better than not playing (uniform play: 0.155): Bias-reduced." in verdict
    app.pills(key="mirror_methods_game").set_value(["Bias-reduced"]).run()
    (verdict,) = (info.value for info in run(app).info if "On private data" in info.value)
    assert verdict.startswith("No method is shown to do better than not playing here (uniform play: 0.155)")


# ------------------------------------------------------------------------------------------------------------- the tabs


@pytest.mark.parametrize("problem", ["matrix", *(pytest.param(name) for name in ("regression", "groups", "synthetic"))])
def test_closer_looks_are_drawn_only_while_open_and_in_every_currency(load: Load, problem: str) -> None:
    app = open_problem(load, problem)
    for tab in TABS:
        open_tab(app, tab)
        assert not app.error and not any(alt.startswith("Range of one draw") for alt in charts(app))
    for currency in (PureDP, ZeroConcentratedDP):
        app = open_problem(load, problem, mirror_currency=currency.name)
        for tab in TABS[1:]:
            assert not open_tab(app, tab).error


def test_what_accounting_saves_names_the_accountants_and_the_cost_of_the_papers_step(load: Load) -> None:
    app = open_tab(load(PAGE, mirror_methods_game=["Vertex sampling", "As in the paper"]), "Accounting")
    (bars,) = (trace for trace in chart(app, "ε of the paper's step")["data"] if trace["type"] == "bar")
    assert any("Bias" not in alt and "position in the single pass" in alt for alt in charts(app))
    assert len(bars["y"]) == 4 and "Single pass, T = 64, the paper's step τ = 0.082" in text(app)
    assert {"zCDP", "Gaussian DP"} <= lines(app, "ε spent after each round")
    theorem = {"mirror_parameters": "Theorem 4.1, quadratic", "mirror_iterations": "1024"}
    app = open_tab(open_problem(load, "matrix", **theorem), "Accounting")
    assert "Single pass, T = 398, the paper's step" in text(app), "the rounds of the plan"


def test_the_bias_follows_the_number_of_vertices(load: Load) -> None:
    app = open_tab(load(PAGE), "Bias of few draws")
    before = chart(app, "Measured sampling bias")
    app.number_input(key="mirror_maurey_d").set_value(2).run()
    assert not app.exception and chart(app, "Measured sampling bias") != before


def test_the_sweep_over_dimensions_draws_slopes(load: Load) -> None:
    app = open_tab(load(PAGE, **SMALL_GAME, **TINY, mirror_sweep_longest="up to 100"), "Gap against dimension")
    assert "3 points on 5 data sets, 2 runs of each" in text(app) and "Left out" not in said(app)
    run(app, press="mirror_sweep_run", job="mirror_sweep_job")
    names = lines(app, "Duality gap against the number of strategies")
    assert sum("slope" in name and "±" in name for name in names) == 4 and "budget of its own" in text(app)
    laws = app.dataframe[0].value
    assert len(laws) == 4 and laws["p in c d^p"].str.contains("±").all() and laws["Fits better"].str.contains("5").all()
    app.number_input(key="mirror_epsilon").set_value(2.0).run()
    assert not app.exception and "Settings changed since this sweep" in text(app)
    app.number_input(key="mirror_sweep_data_sets").set_value(0.0).run()
    assert not app.exception and "Data sets must be between 1 and 20" in said(app)
    assert app.button(key="mirror_sweep_run").disabled
    app = open_tab(open_problem(load, "groups"), "Gap against dimension")
    assert "Choose the matrix game or the quadratic game" in text(app)
