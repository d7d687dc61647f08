"""The page of private games: problems, currencies, presets, tabs, links, runs on data of its own."""

import io
import json
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import streamlit as st

from dpviz.problems.games.marginals import MarginalQueries
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.mirror_descent import page as games_page
from tests.families.mirror_descent import measure
from tests.pages.mirror import TINY, open_problem
from tests.pages.reading import (
    Load,
    all_methods,
    chart,
    charts,
    choose,
    drawn,
    lines,
    link,
    pictures,
    run,
    said,
    table,
    text,
)

PROBLEMS = pytest.mark.parametrize("problem", games_page.PROBLEMS)
GAMES = ("matrix", "quadratic", "curved", "groups", "losses")


# ------------------------------------------------------------------------------------------------------------- the plan


@PROBLEMS
def test_every_problem_plans_in_every_currency_and_says_what_is_left_out(load: Load, problem: str) -> None:
    app = open_problem(load, problem)
    all_methods(app)
    chosen = set(app.pills[0].value)
    for currency in CURRENCIES:
        choose(app, "currency", currency)
        assert not app.error and len(app.metric) == 4 and pictures(app) == 4, currency
        spent = "ε spent" if currency == "approximate" else "Privacy spent"
        planned, refused = lines(app, spent), {label for label in chosen if label in said(app)}
        assert chosen <= planned | refused and planned & chosen, currency
        ((_, noise),) = drawn(app, lambda key: key.endswith("hero_noise"))
        noisy = [name for trace in noise["data"] if trace.get("name") for name in trace.get("meta") or [trace["name"]]]
        assert all(any(line.startswith(label) for line in noisy) for label in chosen - refused), currency
        assert ("As in the paper" in refused) == ("As in the paper" in chosen and currency != "approximate")
        assert ("never gives pure ε-DP" in said(app)) == (currency == "pure")


def test_the_assumptions_are_those_of_every_method(load: Load) -> None:
    app = load("mirror_descent", mirror_methods_game=["Vertex sampling", "Single pass", "As in the paper"])
    box = next(element.value for element in app.markdown if element.value.startswith("- **Who is protected."))
    _, batches, composition, *_ = box.splitlines()
    assert "Single pass and As in the paper: each round" in batches and "The others use all rows" in batches
    assert "As in the paper: counted as the paper does" in composition and "η²/8" in composition
    app = load("mirror_descent", mirror_methods_game=["As in the paper"], mirror_references="true")
    box = next(element.value for element in app.markdown if element.value.startswith("- **Who is protected."))
    assert "The others" not in box and "counted as the paper does" in box and "η²/8" not in box


def test_a_number_that_does_not_move_with_a_slider_says_what_does(load: Load) -> None:
    app = run(load("mirror_descent", preset="find-the-needle-two-draws"))
    label, value = app.metric[0].label, app.metric[0].value
    assert label == "Two draws ends at" and " moved " not in text(app)
    run(app.number_input(key="mirror_iterations").set_value(8).run())
    assert (app.metric[0].label, app.metric[0].value) == (label, value)
    assert "Steps T moved only Vertex sampling, As in the paper." in text(app)


# --------------------------------------------------------------------------------------------------------- every number


@PROBLEMS
def test_both_ends_of_every_number_of_the_problem(load: Load, problem: str) -> None:
    cls, app = games_page.PROBLEMS[problem], open_problem(load, problem)
    app.pills[0].set_value(app.pills[0].value[:1]).run()  # one method: it is the problem that changes
    own = [(f"{problem}_{control.name}", control) for control in cls.controls()]
    for source, kind in games_page.SOURCES.get(problem, {"": None}).items():
        if problem in games_page.UPLOADS:
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


# ---------------------------------------------------------------------------------------------- settings that cannot be


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
    assert not app.error and ", d = 3." in text(app)
    before = {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]}
    app.text_area(key="mirror_vertices").set_value(vertices).run()
    assert not app.exception and sentence in said(app) and not app.metric
    assert {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]} == before


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


def test_a_bound_that_says_something_can_be_compared_with_the_run(load: Load) -> None:
    small = {"mirror_matrix_latent_rows": "200", "mirror_matrix_latent_strategies_x": "10"}
    small |= {"mirror_matrix_latent_strategies_y": "12", "mirror_iterations": "16", "mirror_replicates": "2"}
    small |= {"mirror_methods_game": ["Vertex sampling", "As in the paper", "DP-SGDA"]}
    app = run(open_problem(load, "matrix", **small))
    choose(app, "overlay", "bound")
    assert "Vertex sampling, bound" in lines(app, "Duality gap against")
    assert "As in the paper: the bound says nothing, the gap cannot exceed 2" in str(chart(app, "Upper bound on"))
    app.number_input(key="mirror_epsilon").set_value(0.05).run()
    assert not app.exception and "Whatever T, the bound says nothing" in text(app)
    assert "a quarter of T*" not in text(app)


@pytest.mark.one_section
def test_the_steps_say_whose_they_are_and_the_mixed_strategies_are_one_press_away(load: Load) -> None:
    app = load("mirror_descent", mirror_follow="false", mirror_iterations="8", mirror_replicates="2")
    (slider,) = [part.proto for part in app.get("bidi_component") if part.proto.id.endswith("mirror_iterations_slider")]
    assert "Of Vertex sampling." in json.loads(slider.json)["help"]
    assert "Steps T: Vertex sampling. Other steps: DP-SGDA 10, Gaussian mirror descent 256, Two draws 2." in text(app)
    theorem = load("mirror_descent", preset="theorem-4-2-first-order", mirror_follow="false")
    assert "Fewer steps than T: Single pass 122, As in the paper 122." in text(theorem)
    mixed_at = []
    for epsilon in (0.3, 0.9):  # why another method may win: the smaller budget changes the noise alone
        app.number_input(key="mirror_epsilon").set_value(epsilon).run()
        numbers = re.findall(r"([A-Z][\w -]+) ([\d,]+) \(([\d.]+)\)", text(app))
        mixed_at.append({label: (int(count), float(noise)) for label, count, noise in numbers})
    assert [count for count, _ in mixed_at[0].values()] == [1, 8, 300] and mixed_at[0].keys() == mixed_at[1].keys()
    for less, more in zip(*(by_label.values() for by_label in mixed_at), strict=True):
        assert less[0] == more[0] and less[1] > more[1]
    run(app)
    app.segmented_control(key="mirror_face").set_value("Strategies").run()
    ((alt, picture),) = drawn(app, lambda key: key.endswith("mirror_hero_further"))
    mixed = {trace["name"]: trace for trace in picture["data"] if trace.get("name")}
    assert "heaviest" in alt and mixed.keys() >= {"Vertex sampling", "DP-SGDA", "Two draws, y"}
    assert "mirror_face=Strategies" in link(app) and "publishing all 8 would compose" in text(
        app
    )  # two runs of four methods


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
