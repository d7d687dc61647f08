"""The planner's tab for analysts: what each analysis gets, why, and what is wrong with a table."""

import ast
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz.numbers import rounded_up, short_up
from dpviz.plots.planner_figures import RATES
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.statistics.analyses import Analyses, Count, Mean
from dpviz.privacy.statistics.noisy_means import protected_change
from tests.confirming import confirmed
from tests.formulas import formulas
from tests.pages.planner import ANALYSES, planner, printed, settings_of
from tests.pages.reading import Load, bars, curve, hinted, metrics, said, table, text, traces, words


def row(
    name: str,
    kind: str = "Count",
    lowest: float | None = None,
    highest: float | None = None,
    bins: float | None = None,
    level: float | None = None,
    share: float | None = 1.0,
    declared: str = "",
    accepted: float | None = None,
    typical: float | None = None,
    spread: float | None = None,
) -> list[Any]:
    return [name, kind, declared, lowest, highest, bins, level, share, accepted, typical, spread]


def analyses(load: Load, asked: Sequence[Sequence[Any]], **settings: str) -> AppTest:
    return planner(load, ANALYSES, analyses=json.dumps(asked), **settings)


def results(app: AppTest) -> pd.DataFrame:
    return table(app, "95 % error").set_index("Analysis")


EXAMPLE = [
    row("Old"),
    row("Income", "Mean", 0.0, 5000.0, share=2.0),
    row("Hours", "Sum", -10.0, 70.0),
    row("Region", "Histogram", bins=10.0),
]


def test_counts_sums_and_means_share_the_budget(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """ε = 1 in 5 parts, n = 1000: b = Δ/0.2, and Δ/0.4 for the mean; 95 % of Laplace noise lies within b ln 20."""
    app = analyses(load, EXAMPLE, epsilon="1", rows="1000")
    errors = bars(app, "95 % error of every analysis")  # 15 of 1,000 rows; of 5,000; of 80 for each row; 30 rows
    assert errors == pytest.approx({"Old": 1.5, "Income": 0.749, "Hours": 1.5, "Region": 3.0}, rel=2e-3)
    app = analyses(load, EXAMPLE, epsilon="1", rows="1000", question="Rows I need")
    found = results(app)
    assert found["Share"].tolist() == pytest.approx([0.2, 0.4, 0.2, 0.2])
    assert found["Sensitivity"].tolist() == pytest.approx([1.0, 5.0, 80.0, 2.0])
    assert found["95 % error"].tolist() == [15, 37.45, 1199.0, 30]  # 12.5 ln 20 and 400 ln 20, rounded up
    assert found["Standard deviation"]["Hours"] == pytest.approx(400 * math.sqrt(2))
    assert found["All at once"]["Region"] == math.ceil(10 * -math.log(1 - 0.95**0.1) - 0.5)
    assert found["Noise"]["Income"] == "Laplace, b = 12.5" and found["Costs"]["Income"] == "Laplace, ε = 0.4"
    assert bars(app, "Rows that every analysis needs")["Old"] == 300 == found["Rows needed"]["Old"]
    said_here = words(app)
    assert "b − a = 80" in said_here and "(b − a)/n = 5" in said_here and "two counts move by 1 each" in said_here
    assert "All together (ε = 1 was given)" in said_here and metrics(app)["Pure ε"] == "≤ 1"
    lines = [line.rsplit(" ", 2) for line in printed(app, capsys).splitlines()]
    assert [name for name, *_ in lines] == found.index.tolist()
    assert [float(error) for *_, error in lines] == pytest.approx(found["95 % error"].tolist(), rel=1e-3)


def test_the_picture_of_the_attacker_is_of_the_planned_analyses(load: Load) -> None:
    """Gaussian noise of μ = 1 in all, whatever the noisy means of the sidebar are; then one answer under pure ε."""
    settings = {"currency": "μ-GDP", "mu": "1", "noise": "Laplace", "iterations": "7"}
    app = analyses(load, EXAMPLE, **settings)
    marks = {trace["name"]: len(trace["x"]) for trace in traces(app, "Of 100 people")}
    assert marks == {"guessing: 50": 50, "also with the plan below (4 analyses): 20": 20, "never: 30": 30}
    assert "about at most 69.2 with the plan, 69.2 with anything of this guarantee" in words(app)
    app = analyses(load, EXAMPLE, attacker="Trade-off curve", **settings)
    _, missed = curve(app, "Lowest possible", "the plan below (4 analyses)")
    np.testing.assert_allclose(missed, closed_forms.gdp_tradeoff(1.0, RATES), atol=1e-6)
    assert "right in at most 69.2 of 100 cases" in words(app)
    said_here = words(app)
    assert "Ranges, bins, conditions and the number of rows are declared" in said_here and "2C/n" not in said_here
    (one,) = Analyses(statistics=(Count(),)).planned(PureDP(epsilon=1.0))
    for iterations in ("7", "100"):
        app = analyses(load, [row("Old")], epsilon="1", iterations=iterations, attacker="Trade-off curve")
        _, missed = curve(app, "Lowest possible", "the plan below (1 analysis)")
        np.testing.assert_allclose(missed, tradeoffs.tradeoff([one.event], RATES), atol=1e-6)
        assert "the noise below" not in str([trace.get("name") for trace in traces(app, "Lowest possible")])
    for wrong in ([], [row("Income", "Mean")], [row("Odd", "Magic")]):
        assert "the plan" not in str(traces(analyses(load, wrong), "Of 100 people")), "nothing is planned yet"


def test_a_link_restores_the_table_and_its_controls(load: Load) -> None:
    app = analyses(load, EXAMPLE[:2], analyses_noise="Gaussian", currency="(ε, δ)", relative="0.1")
    offered = settings_of(app)
    assert json.loads(offered["planner_analyses"]) == EXAMPLE[:2]
    assert offered["planner_analyses_noise"] == "Gaussian" and offered["planner_relative"] == "0.1"
    again = load("budget_planner", **offered)
    assert settings_of(again) == offered and results(again).equals(results(app))
    elsewhere = load("budget_planner", **{**offered, "planner_section": "Solve for"})
    assert settings_of(elsewhere) == {**offered, "planner_section": "Solve for"}
    assert "planner_analyses" not in settings_of(planner(load, ANALYSES))


def test_a_page_that_is_loaded_again_has_the_table_that_was_edited(load: Load) -> None:
    app = planner(load, ANALYSES)
    assert "planner_analyses" not in app.query_params
    app.button(key="planner_analyses_remove").click().run()
    address = app.query_params["planner_analyses"]
    assert address == settings_of(app)["planner_analyses"]
    again = load("budget_planner", planner_section=ANALYSES, planner_analyses=address)
    assert results(again).equals(results(app)) and len(results(app)) == 4
    app.button(key="planner_analyses_undo").click().run()
    assert "planner_analyses" not in app.query_params


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        ([row("Wide", "Sum", -1e308, 1e400)], {}, "Wide: Lowest value must be between"),
        ([row("N" * 999)], {}, "at most 60 letters, not a text of 999 letters"),
        ([row("Odd", "Magic")], {}, "Choose a kind for Odd"),
        ([row("Up", "Mean", 3.0, 2.0)], {}, "Up: Mean: the lowest value must be below the highest"),
        ([row("Thin", "Sum", 0.0, 5e-324)], {}, "Thin: Sum: the range is too narrow to compute with"),
        ([row("Bins", "Histogram", bins=2.5)], {}, "Bins: Bins must be a whole number"),
        ([row("Old", share=-1.0)], {}, "Old: Share must be between"),
        ([row("Old")], {"analyses_noise": "Gaussian"}, "Gaussian noise never gives pure ε-DP"),
        ([row("Old")], {"currency": "Attack bound"}, "not as Attack bound"),
        ([row("Old", declared="> 3")], {}, "Old: Begin with the column"),
        ([row("Age", "Histogram", declared="0; 9; 3")], {}, "Age: Histogram: every cut point must be larger"),
    ],
)
def test_a_mistake_is_a_sentence(load: Load, rows: list[list[Any]], settings: dict[str, str], sentence: str) -> None:
    app = analyses(load, rows, **settings)
    assert sentence in said(app) and len(app.error) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "{}",
        "[[]]",
        '["abcdefgh"]',
        "[[1,2,3,4,5,6,7,8]]",
        "[[[1],{},[],NaN,1e999,[],null,2]]",
        '[["Odd","Magic",7,true,{},[1],true,false]]',
        "[" * 9999,
    ],
)
def test_a_table_that_cannot_be_read_is_never_a_traceback(load: Load, text: str) -> None:
    app = planner(load, ANALYSES, analyses=text)
    assert app.warning or app.error


def test_hostile_names_run_nowhere(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))
    app = analyses(load, [row("=HYPERLINK(1)"), row("x;=1", "Mean", 0.0, 1.0), row("<img src=x>*b*$a$")])
    assert not app.error and not formulas(results(app).to_csv())
    assert not formulas(files["planner_chart_errors_csv"]().decode())
    assert [editor.value["analysis"].tolist()[:2] for editor in app.data_editor] == [["HYPERLINK(1)", "x;1"]]
    assert r"\<img src\=x\>\*b\*\$a\$" in " ".join(markdown.value for markdown in app.markdown)


def test_of_a_file_only_names_and_the_number_of_rows_are_taken(load: Load) -> None:
    """Not even whether a column holds numbers: what it is asked for and its range are said by the visitor. A number in
    the first row may be a person's, and names stand in the address."""
    app = analyses(load, [row("Old")])
    persons = ("1985", "72.000,50", "+49 30 1234567", "12/03/1985", "10:30")
    data = f"income;=1,=SUM(A1);town;{';'.join(persons)}\n" + "\n".join(
        f"{60_000 + k};{k};T{k};{';'.join('abcde')}" for k in range(40)
    )
    confirmed(app.file_uploader[0].upload("mine.csv", data.encode(), "text/csv").run())
    assert app.session_state["planner_upload"].frame.shape == (40, 0)
    named = ["income", "=1,=SUM(A1)", "town"]
    assert app.multiselect(key="planner_columns").options == [*named, *(f"Column {place}" for place in range(4, 9))]
    app.multiselect(key="planner_columns").set_value(["income", "=1,=SUM(A1)"]).run()
    app.button(key="planner_columns_add").click().run()
    assert not app.exception and app.number_input(key="planner_rows").value == 40
    assert "of income, 1,=SUM(A1): from what you know beforehand" in hinted(app)
    offered = settings_of(app)
    wanted = [row("Old"), row("income", "Mean", declared="income"), row("1,=SUM(A1)", "Mean", declared='"=1,=SUM(A1)"')]
    assert json.loads(offered["planner_analyses"]) == wanted and offered["planner_rows"] == "40"
    assert not any(text in str(offered) for text in ("6000", "T39", "mine"))
    # The next of its columns comes below, and what was added stays.
    app.multiselect(key="planner_columns").set_value(["town"]).run()
    app.selectbox(key="planner_columns_kind").set_value("Histogram").run()
    app.button(key="planner_columns_add").click().run()
    assert json.loads(settings_of(app)["planner_analyses"]) == [*wanted, row("town", "Histogram", declared="town:")]


def test_what_is_proposed_from_a_file_is_marked_everywhere_until_the_visitor_knew_it(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, Callable[[], Any]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))

    def is_marked() -> set[bool]:
        taken_away = [files[f"planner_{name}"]() for name in ("report", "notebook", "opendp", "html")]
        (link,) = (markdown.value for markdown in app.markdown if "This link" in markdown.value)
        texts = [words(app), link, " ".join(results(app)["Asked"]), *map(str, taken_away)]
        return {"read from the data" in text for text in texts}

    app = analyses(load, [row("Old")])
    south = '"so;uth"'
    data = "town;age\n" + "\n".join(f"{'north' if k % 2 else south};{20 + k}" for k in range(50))
    confirmed(app.file_uploader[0].upload("mine.csv", data.encode(), "text/csv").run())
    assert is_marked() == {False} and app.session_state["planner_upload"].frame.shape == (50, 0)
    app.toggle(key="planner_columns_values").set_value(True).run()
    for kind, names, by in (("Histogram", ["town", "age"], None), ("Count", ["age"], "town")):
        app.selectbox(key="planner_columns_kind").set_value(kind).run()
        if by:
            app.selectbox(key="planner_columns_by").set_value(by).run()
        app.multiselect(key="planner_columns").set_value(names).run()
        app.button(key="planner_columns_add").click().run()
    keys = f"{south}; north"
    lines = [f"town: {keys}", "age: 20; 25; 30; 35; 40; 45; 50; 55; 60; 65; 70", f"age >= 45 by town: {keys}"]
    rows = json.loads(settings_of(app)["planner_analyses"])
    assert [line for _, _, line, *_ in rows] == ["", *(f"from the data: {line}" for line in lines)]
    assert not app.error and is_marked() == {True}
    app.button(key="planner_analyses_knew").click().run()
    assert [line for _, _, line, *_ in json.loads(settings_of(app)["planner_analyses"])] == ["", *lines]
    assert is_marked() == {False}
    app.toggle(key="planner_columns_values").set_value(False).run()
    assert app.session_state["planner_upload"].frame.shape == (50, 0)


def test_the_columns_of_a_file_take_the_place_of_the_example(load: Load) -> None:
    app = planner(load, ANALYSES)
    data = ",".join(f"c{k}" for k in range(25)) + "\n" + "\n".join([",".join(["1"] * 25)] * 30)
    confirmed(app.file_uploader[0].upload("mine.csv", data.encode(), "text/csv").run())
    for first, last in ((0, 15), (15, 25)):
        app.multiselect(key="planner_columns").set_value([f"c{k}" for k in range(first, last)]).run()
        app.selectbox(key="planner_columns_kind").set_value("Count").run()
        app.button(key="planner_columns_add").click().run()
    assert results(app).index.tolist() == [f"c{k}" for k in range(20)]
    assert "Only the first 20 rows count." in said(app)


def test_rows_are_duplicated_and_removed_and_every_change_can_be_undone(load: Load) -> None:
    app = analyses(load, EXAMPLE[:3])
    steps = [["Old", "Income", "Hours"]]
    assert app.button(key="planner_analyses_undo").disabled

    def press(name: str, row: int | None = None) -> list[str]:
        if row is not None:
            app.selectbox(key="planner_analyses_row").set_value(row).run()
        app.button(key=f"planner_analyses_{name}").click().run()
        assert not app.exception
        found = json.loads(settings_of(app)["planner_analyses"])
        assert [name for name, *_ in found] == results(app).index.tolist()
        return results(app).index.tolist()

    steps.append(press("duplicate", 1))
    assert steps[-1] == ["Old", "Income", "Income (copy)", "Hours"]
    assert json.loads(settings_of(app)["planner_analyses"])[2][1:] == EXAMPLE[1][1:]
    steps.append(press("remove", 3))
    assert steps[-1] == ["Old", "Income", "Income (copy)"]
    steps.append(press("remove", 0))
    assert steps[-1] == ["Income", "Income (copy)"]
    for before in reversed(steps[:-1]):
        assert press("undo") == before
    assert press("undo") == steps[0] and [toast.value for toast in app.toast] == ["All changes are undone."]
    for _ in range(3):
        app.button(key="planner_analyses_remove").click().run()
    assert "Add a row" in hinted(app) and app.button(key="planner_analyses_remove").disabled
    assert press("undo") == ["Hours"]
    added = [{"kind": "Count"}]  # without a name
    app.session_state[app.data_editor[0].key] = {"edited_rows": {}, "added_rows": added, "deleted_rows": []}
    app.run()
    app.selectbox(key="planner_analyses_row").set_value(1).run()
    app.button(key="planner_analyses_duplicate").click().run()
    assert not app.exception and results(app).index.tolist() == ["Hours", "Analysis", "(copy)"]


def test_the_notebook_and_the_report_have_the_numbers_of_the_page(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))
    app = analyses(
        load, [*EXAMPLE, row("Median", "Quantile", 0.0, 99.0)], currency="ρ-zCDP", rho="0.02", relative="0.1"
    )
    names: dict[str, Any] = {}
    for cell in json.loads(files["planner_notebook"]())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    computed, shown = names["table"].set_index("analysis"), results(app)
    columns = {"error": "95 % error", "largest_error": "All at once", "standard_deviation": "Standard deviation"}
    columns |= {"sensitivity": "Sensitivity", "share": "Share", "rows_needed": "Rows needed", "asked": "Asked"}
    for own, theirs in columns.items():
        exact = "error" not in own  # errors have four digits, rounded up
        pd.testing.assert_series_equal(
            computed[own], shown[theirs], check_names=False, check_dtype=False, check_exact=exact, rtol=1.1e-3
        )
    assert short_up(names["total"].values["epsilon_at_delta"]) in metrics(app)["ε at δ = 10⁻⁶"]
    report = files["planner_report"]().decode()
    assert all(f"off by at most {short_up(error)}" in report for error in computed["error"])


def test_declared_columns_conditions_and_bins_are_in_the_plan_and_in_the_link(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        row("Old", declared="age >= 65"),
        row("Region", "Histogram", declared='region: north; "so;uth"; "=east"'),
        row("Age", "Histogram", declared="-10; 0; 10"),
        row("Income", "Mean", 0.0, 9.0, declared="net income"),
    ]
    app = analyses(load, asked)
    words_of = results(app)["Asked"]
    assert "“age” ≥ 65" in words_of["Old"] and "“net income”" in words_of["Income"]
    assert "3 keys, declared: “north”, “so;uth”, “=east”" in words_of["Region"]
    assert "2 ranges, declared, cut at -10, 0, 10" in words_of["Age"]
    assert printed(app, capsys).count("\n") == 3  # the program in Python declares the same
    assert results(load("budget_planner", **settings_of(app))).equals(results(app))


def test_a_statistic_of_each_group_is_declared_in_its_line(
    load: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ε = 1 in 3 parts, n = 1000, of a row that may go from one group to another: sensitivities of 2 and of 2 · 50; a
    mean of 500 rows is off by 4.113 · 2 · 50 · 3/500."""
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))
    asked = [
        row("Old", declared="age >= 65 by sex: f; m"),
        row("Hours", "Sum", -10.0, 50.0, declared="by sex: f; m"),
        row("Age", "Mean", 0.0, 50.0, declared="by sex: f; m"),
    ]
    app = analyses(load, asked, epsilon="1", rows="1000")
    computed = results(app)
    assert computed["Sensitivity"].tolist() == pytest.approx([2.0, 100.0, 100.0])
    assert computed["95 % error"]["Age"] == pytest.approx(4.113 * 300 / 500, rel=1e-3)
    assert (computed["All at once"] > computed["95 % error"]).all() and "of “sex”, declared: “f”, “m”" in computed[
        "Asked"
    ]["Hours"]
    assert printed(app, capsys).count("\n") == 2 and "leaves one group and enters another" in words(app)
    names: dict[str, Any] = {}
    for cell in json.loads(files["planner_notebook"]())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["table"]["error"].tolist() == pytest.approx(computed["95 % error"].tolist(), rel=1e-3)
    assert [len(answer) for answer in names["rehearsal"]["released"]] == [2, 2, 2]
    assert "for 2 groups of equal size" in files["planner_report"]().decode()
    assert "GROUPS" in files["planner_opendp"]().decode()
    refused = analyses(load, [row("Age", "Quantile", 0.0, 9.0, declared="age by sex: f; m")])
    assert "no quantile" in said(refused)


def test_the_program_for_opendp_is_on_the_page_and_meets_the_budget_by_the_count_that_is_chosen(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))
    settings = {"currency": "(ε, δ)", "epsilon": "1", "delta": "1e-6", "analyses_noise": "Gaussian"}

    def costs(app: AppTest) -> float:
        program = files["planner_opendp"]().decode()
        assert program.strip() in [code.value for code in app.code]
        assigned = {node.targets[0].id: node.value for node in ast.parse(program).body if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]
        statistics = ast.literal_eval(assigned["STATISTICS"])
        assert [s["planned"] for s in statistics.values()] == results(app)["Standard deviation"].tolist()
        return math.fsum(s["cost"] for s in statistics.values())

    app = analyses(load, EXAMPLE, **settings)
    rho = closed_forms.zcdp_rho(1.0, 1e-6)
    assert costs(app) == pytest.approx(rho, rel=1e-8) and "OpenDP's own count" in words(app)
    app.segmented_control(key="planner_counting").set_value("dpviz").run()
    assert costs(app) > 1.05 * rho and "by dpviz's count" in words(app)
    assert settings_of(app)["planner_counting"] == "dpviz's"
    app = analyses(load, EXAMPLE, currency="μ-GDP", mu="1")
    assert costs(app) == pytest.approx(0.5) and "does not count in μ" in words(app)


@pytest.mark.parametrize("kind", ["Mean", "Magic"])
def test_what_is_said_of_a_name_is_no_markup(load: Load, kind: str) -> None:
    """A picture in a link's table would be fetched from a stranger by everybody who opens the link."""
    app = analyses(load, [row("![x](http://e.example/a.png) $x$", kind), row("Old", "Count")])
    (message,) = [found.value for found in [*app.error, *app.info] if "a.png" in found.value.replace("\u2060", "")]
    assert r"\!\[x\](http" in message and r"\$x\$" in message


def protected(app: AppTest) -> str:
    """Who is protected, as said at the top."""
    return next(caption.value for caption in app.caption if "Who is protected" in caption.value)


def test_analyses_have_neighbours_of_their_own(load: Load) -> None:
    """They use all rows, so the batches of the noisy means do not matter; whether n is public does."""
    for settings in ({}, {"sampling": "Poisson"}):
        app = analyses(load, [row("count")], **settings)
        assert protected(app).endswith(f"**Who is protected: replace-one.** {protected_change('replace-one')}")
    app.segmented_control(key="planner_analyses_relation").set_value("add/remove-one").run()
    change = protected_change("add/remove-one")
    assert protected(app).endswith(f"**Who is protected: add/remove-one.** {change}")
    assert settings_of(app)["planner_analyses_relation"] == "Secret" and "in the data or not" in words(app)
    broken = analyses(load, [row("x", "Magic")], analyses_relation="Secret")
    assert protected(broken).endswith(change), "also of a table with a mistake"
    nothing_planned = planner(load, "Budget", analyses_relation="Secret")
    assert "Who is protected: add/remove-one" in protected(nothing_planned) and "data or not" in words(nothing_planned)
    other = planner(load, "Noise", analyses_relation="Secret")
    assert "Who is protected: replace-one" in protected(other)
    assert "The answer above holds under add/remove-one" in protected(other)


def test_where_the_number_of_rows_is_secret_it_is_an_assumption(
    load: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ε = 1 in 5 parts, n = 1000: the scale is max(|a|, |b|)/0.2 of the sum, 1/0.2 of a bin, and s = 5000/0.4 of the
    mean, whose error is 4.113 s/n; and all that is taken away says so."""
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))
    app = analyses(load, EXAMPLE, epsilon="1", rows="1000", analyses_relation="Secret")
    computed = results(app)
    assert computed["Sensitivity"].tolist() == pytest.approx([1.0, 5000.0, 70.0, 1.0])
    assert computed["95 % error"]["Income"] == pytest.approx(4.113 * 12.5, rel=1e-3)
    assert computed["95 % error"]["Region"] == 15 and math.isnan(computed["Standard deviation"]["Income"])
    lines = [line.rsplit(" ", 2) for line in printed(app, capsys).splitlines()]
    assert [float(error) for *_, error in lines] == pytest.approx(computed["95 % error"].tolist(), rel=1e-3)
    names: dict[str, Any] = {}
    for cell in json.loads(files["planner_notebook"]())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["table"]["error"].tolist() == pytest.approx(computed["95 % error"].tolist(), rel=1e-3)
    report, program = files["planner_report"]().decode(), files["planner_opendp"]().decode()
    assert "unit_of(contributions=ROWS_PER_PERSON)" in program
    for page in (words(app), report, program):
        assert "rows is secret" in page and "number of rows is public" not in page and "which is public" not in page
    assert "about 1,000 rows" in report and "one row added or removed" in report


def test_of_a_file_whose_number_of_rows_is_secret_only_names_are_taken(load: Load) -> None:
    app = analyses(load, [row("Old")], analyses_relation="Secret", rows="5000")
    data = "income,town\n" + "\n".join(f"{60_000 + k},T{k}" for k in range(40))
    confirmed(app.file_uploader[0].upload("mine.csv", data.encode(), "text/csv").run())
    app.multiselect(key="planner_columns").set_value(["income"]).run()
    assert app.button(key="planner_columns_add").label == "Add to the table"
    app.button(key="planner_columns_add").click().run()
    assert not app.exception and app.number_input(key="planner_rows").value == 5000


def test_whether_the_budget_is_enough_stands_first_whichever_tab_is_open(load: Load) -> None:
    app = load("budget_planner", planner_section="Solve for")
    assert "**Yes**: at ε = 2, 10,000 rows are enough for an error of 5 %" in text(app)
    few = analyses(load, [row("Few", share=1e-3), row("Age", "Mean", 0.0, 50.0)], epsilon="1", rows="1000")
    assert "**No**" in text(few) and "needs more rows: “Few” 59," in text(
        few
    )  # a table of 1,000 rows has no such count
    app.number_input(key="planner_rows").set_value(500).run()
    assert "**No**: at ε = 2, an error of 5 % (95 % confidence) needs more rows: “Age\\, median” 774." in text(app)


def test_the_errors_that_are_accepted_give_the_budget_and_its_shares(load: Load) -> None:
    """Pure ε: ln 20/3.5 for a count of error 3, (ln 20) 0.05/25 for the mean; a click takes both."""
    asked = [row("Old", accepted=3.0), row("Age", "Mean", 0.0, 50.0, accepted=0.025)]
    app = analyses(load, asked, epsilon="0.5", rows="1000")
    assert "**No**: at ε = 0.5, “Old” is off by up to 12, not 3; “Age” is off by up to 0.6, not 0.025" in text(app)
    needed = math.log(20) / 3.5 + math.log(20) * 0.05 / 0.025
    assert f"The least for it is ε = {rounded_up(needed):g}, in the best shares." in text(app)
    app.button(key="planner_smallest").click().run()
    assert "for an error of" not in text(analyses(load, [asked[0], row("Age", "Mean", 0.0, 50.0)], epsilon="6.85"))
    assert "**Yes**: at ε = 6.85, 1,000 rows are enough for these errors" in text(app)
    errors = results(app)["95 % error"]
    assert errors["Old"] == 3 and errors["Age"] == pytest.approx(0.025, rel=2e-3)
    # Laplace noise has the smaller standard deviation here, and the larger 95 % error.
    app = analyses(load, [row("Age", "Mean", 0.0, 50.0, accepted=0.0275)], currency="μ-GDP", rows="1000")
    app.button(key="planner_smallest").click().run()
    assert "**Yes**" in text(app) and results(app)["95 % error"]["Age"] <= 0.0275
    impossible = analyses(load, [row("Age", "Mean", 0.0, 50.0, accepted=1e-9)], rows="1000")
    assert "Accept larger ones" in words(impossible) and not impossible.exception


def test_errors_are_told_apart_by_where_they_come_from(load: Load) -> None:
    asked = [row("Age", "Mean", 0.0, 50.0, typical=45.0, spread=10.0), row("Income", "Sum", 0.0, 9.0)]
    app = analyses(load, asked, epsilon="1", rows="1000", question="Sources")
    sources = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in traces(app, "Error of every")}
    mean = Mean(highest=50.0, typical=45.0, spread=10.0)
    assert sources["sample"]["Age"] == pytest.approx(2 * mean.sampling_error(1000), rel=1e-5)
    assert sources["clipping"] == pytest.approx({"Age": -2 * (mean.clipping_bias(1000) or 0), "Income": 0}, rel=1e-5)
    assert sources["noise"]["Age"] == pytest.approx(100 * math.log(20) * 2 / 1000, rel=1e-5)
    assert "Without a typical value and a spread, clipping of Income is unknown" in words(app)
