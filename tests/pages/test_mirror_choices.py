"""The page of private games: where the budget goes, rows for a target, the paper's bound and table, few draws."""

from typing import Any

import pytest

from dpviz.families.mirror_descent import presets
from dpviz.families.mirror_descent.bounds import compare_splits
from dpviz.numbers import short
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP
from dpviz.problems.games.group_loss import GroupLoss
from tests.pages.mirror import PAGE, SMALL_GAME, TINY, open_problem, open_tab
from tests.pages.reading import Load, chart, charts, lines, link, run, table, text, type_into, typed

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
CERTIFIED = ["Vertex sampling", "Vertex sampling, certified"]


def test_what_the_budget_can_be_split_into_depends_on_the_game(load: Load) -> None:
    budget = "Where the budget goes"
    drawn = {
        problem: {
            what
            for what in ("the split decides", "a certificate adds", "Error of the smallest share")
            if any(what in alt for alt in charts(open_tab(open_problem(load, problem), budget)))
        }
        for problem in ("matrix", "groups", "losses", "regression")
    }
    assert drawn["matrix"] == {"the split decides", "a certificate adds"} and not drawn["regression"]
    assert drawn["groups"] == {"the split decides", "Error of the smallest share"} and len(drawn["losses"]) == 3
    assert "nothing else to buy" in text(open_tab(open_problem(load, "regression"), budget))


def test_the_best_split_is_taken_instead_of_a_share(load: Load) -> None:
    app = open_problem(load, "groups", mirror_methods_game=["Vertex sampling"])
    assert app.number_input(key="mirror_share_x").value == 0.5
    app = open_tab(app, "Where the budget goes")
    assert "Best split: φ = 0.79 for x" in text(app)
    app.segmented_control(key="mirror_split").set_value("bound").run()
    assert not app.exception and not any(box.key == "mirror_share_x" for box in app.number_input)
    assert "chosen 0.79" in str(chart(app, "Part of the bound on the gap that the split")["layout"])


def test_a_split_of_ones_own_is_told_at_once(load: Load) -> None:
    """Slider and table set the same share, of which the page says what it is worth; so do the splits to start from."""
    app = open_tab(open_problem(load, "groups"), "Where the budget goes")
    method = presets.METHODS["DP-SGDA"]

    def told(**settings: Any) -> None:
        split_of = compare_splits(one := method.replaced(**settings), one.plan(GroupLoss().facts(), BUDGET))
        assert split_of is not None
        row = table(app, "Best share of x").set_index("Method").loc["DP-SGDA"]
        numbers = [split_of.yours, split_of.even, split_of.best, split_of.best_share]
        assert [float(row[name]) for name in ("Yours", "Even", "Best", "Best share of x")] == pytest.approx(
            numbers, rel=0.01
        )
        assert row["Player x"] == f"σ = {short(split_of.amounts[0])}"

    told()
    app.select_slider(key="mirror_share_x_again").set_value(0.8).run()
    assert app.number_input(key="mirror_share_x").value == 0.8 and "mirror_share_x=0.8" in link(app)
    told(share_x=0.8)
    type_into(app, "mirror_share_x_table", {1: 70.0})
    assert app.number_input(key="mirror_share_x").value == 0.3
    assert [box.value for box in typed(app, "mirror_share_x_table")] == [30.0, 70.0]  # the other player has the rest
    type_into(app, "mirror_share_x_table", {0: 64.0})
    told(share_x=0.64)
    app.button(key="mirror_split_Best by the bound").click().run()
    told(split="bound")
    assert not typed(app, "mirror_share_x_table") and "Every method takes the split" in text(app)
    app.button(key="mirror_split_Even").click().run()
    told()
    assert app.number_input(key="mirror_share_x").value == 0.5 and not app.exception and not app.error
    assert "mirror_job" not in app.session_state


def test_a_certificate_is_released_at_the_end_and_said(load: Load) -> None:
    app = load(PAGE, **SMALL_GAME, **TINY, mirror_methods_game=CERTIFIED)
    assert app.number_input(key="mirror_certificate_share").value == 0.05
    app = run(app)
    (found,) = (message.value for message in app.success if "certified, first run" in message.value)
    assert "with 95 % confidence" in found
    groups = open_problem(load, "groups")
    assert not any("certified" in option for option in groups.pills(key="mirror_methods_game").options)


@pytest.mark.parametrize("currency", [None, PureDP, GaussianDP])
def test_rows_for_a_target_gap_follow_the_target(load: Load, currency: type[Budget] | None) -> None:
    settings = {} if currency is None else {"mirror_currency": currency.name}
    app = open_tab(load(PAGE, **settings), "Rows for a target")
    assert not app.error and "bound, best T: not in reach" in text(app)
    assert "Sampling alone can cost 4 in the bound" in text(app)  # one draw: 2 L₁ for each player
    if currency is not GaussianDP:  # measured under (ε, δ) and pure ε; others by their ρ
        assert "Vertex sampling" in lines(app, "Expected gap against the number of rows")
    app = open_tab(open_problem(load, "matrix", **settings), "Rows for a target")
    app.number_input(key="mirror_target_gap").set_value(0.5).run()
    few = text(app)
    app.number_input(key="mirror_target_gap").set_value(0.25).run()
    assert not app.exception and "Rows needed: bound, best T: " in few and few != text(app)


def test_the_papers_bound_stands_beside_ours(load: Load) -> None:
    app = open_tab(load(PAGE), "The paper's bound")
    assert {"direct, single pass", "of which Lemma 4.2"} <= lines(app, "Bound on the gap against the rounds")
    assert "direct, all rows (gap on the data)" in text(app)
    app = open_tab(load(PAGE, mirror_currency=PureDP.name), "The paper's bound")
    assert not app.error and "The paper states its bound for (ε, δ)-DP" in text(app)
    assert "both read data" in text(open_tab(open_problem(load, "synthetic"), "The paper's bound"))


def test_the_papers_table_has_what_was_known_before(load: Load) -> None:
    table = open_tab(load(PAGE), "The paper's table").dataframe[0].value.set_index("Result")
    assert (table["Known before"].drop("Lower bound") > 0).all() and table["By"].str.contains("Boob").any()
    (row,) = open_tab(open_problem(load, "synthetic"), "The paper's table").dataframe[0].value.to_dict("records")
    assert row["Result"] == "Theorem G.1" and row["T"] == 1380
    assert row["Known before"] == pytest.approx(row["Rate"]) and "Hardt" in row["By"]


def test_few_draws_are_looked_at_in_four_ways(load: Load) -> None:
    app = open_tab(open_problem(load, "groups"), "Bias of few draws")
    for seen, alt in (
        ("This game's gradients", "Measured bias of the gradients"),
        ("Their spread", "Mean squared largest error"),
        ("Rare events", "Probability that drawn vertices"),
    ):
        app.selectbox(key="mirror_maurey_of").set_value(seen).run()
        assert not app.exception and lines(app, alt)
    app = open_tab(load(PAGE), "Bias of few draws")
    app.selectbox(key="mirror_maurey_of").set_value("This game's gradients").run()
    assert "Gradients are linear here" in text(app)
