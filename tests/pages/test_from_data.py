"""What a visitor takes from the own file instead of declaring it: every place of the page that speaks of privacy says
on what that then rests, until it is declared, or said to have been known beforehand."""

import csv
import io
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz.datasets import Upload
from dpviz.experiments.experiment import Experiment
from dpviz.numbers import short
from dpviz.privacy.events import Event, Laplace
from tests.confirming import confirmed
from tests.pages.reading import Load, metrics, run, text, words
from tests.pages.test_accelerated import upload as accelerated_upload
from tests.pages.test_mirror_uploads import KINDS, TABLES, people
from tests.pages.test_mirror_uploads import upload as mirror_upload
from tests.pages.test_nothing_but_releases import PREFIX, RANGES, edit

Files = dict[str, Callable[[], bytes]]
IF = "if these were known beforehand: "
READ = {
    **dict.fromkeys(PREFIX, ("the ranges of “age” and “income”",)),
    "groups": ("the ranges of “age” and “income”", "the groups in “region”", "the shares of the groups in “region”"),
    "losses": ("the range of “losses”", "the groups in “region”", "the shares of the groups in “region”"),
    "synthetic": ("the categories of “area”, “owned”, “age” and 1 more",),
}
# Claims that hold on no condition, in words as the pages have them.
UNCONDITIONAL = re.compile(
    r"\b(Private at|(run|method) is private at|are private at) |:green-badge\[:material/lock|As far as the guarantee"
)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    """What the download buttons of the page would deliver, by key; filled at every rerun."""
    found: Files = {}

    def keep(label: str, data: Callable[[], bytes], *, key: str, **_: object) -> None:
        found[key] = data

    monkeypatch.setattr(st, "download_button", keep)
    return found


def opened(load: Load, problem: str) -> tuple[AppTest, str]:
    """The page of an upload with nothing declared yet, and the prefix of the panel's keys."""
    if problem in KINDS:
        return mirror_upload(load, problem, TABLES[problem]()), f"mirror_{KINDS[problem]}"
    prefix = PREFIX[problem]
    few = {f"{prefix}_data": "Your own file", f"{prefix}_iterations": "4", f"{prefix}_file_replicates": "2"}
    few |= {"second_epsilon": "1"} if prefix == "second" else {}  # else red: an error says so
    app = load(problem, **few)
    app.file_uploader[0].upload(
        "mine.csv", pd.read_csv(io.BytesIO(people())).drop(columns="region").to_csv(index=False).encode(), "text/csv"
    )
    return confirmed(app.run()), f"{prefix}_users" if prefix == "tuning" else prefix


def filled(load: Load, problem: str) -> tuple[AppTest, str]:
    """With everything taken from the file."""
    app, panel = opened(load, problem)
    for name in ("fill", *["propose"] * (problem in ("groups", "losses"))):
        app.button(key=f"{panel}_upload_{name}").click().run()
    assert not app.exception and not app.error
    return app, panel


def badges(app: AppTest) -> set[str]:
    """The badges of what stands below the panel of the file."""
    return set(re.findall(r":(?:green|orange)-badge\[(?::material/\w+: )?([^\]]+)\]", text(app)))


@pytest.mark.parametrize("problem", READ)
def test_all_that_a_page_says_of_privacy_rests_on_what_was_read_from_the_file(
    load: Load, files: Files, problem: str
) -> None:
    prefix = PREFIX.get(problem, "mirror")
    app, _ = filled(load, problem)
    condition = f"{IF}{'; '.join(READ[problem])}"
    assert re.search(rf"Guarantee of (each|the) method: [^:]* {re.escape(condition)};", words(app).replace("\\", ""))
    app = run(app, press=f"{prefix}_run", job=f"{prefix}_job")
    said = words(app).replace("\\", "")
    assert not UNCONDITIONAL.search(said), UNCONDITIONAL.search(said)
    assert said.count(IF) >= 4, "the guarantee, its cards, what one run releases, the table of numbers"
    assert "private if known beforehand" in badges(app) and "private" not in badges(app)
    assert "no budget pays for: " + "; ".join(READ[problem]) in said, "the box of assumptions"
    assert not re.search("declared (bounds|ranges)|([Rr]anges|[Cc]ategories)[^.;:]* are declared", said), (
        "they were not"
    )
    for name, made in files.items():
        content = made().decode()
        if name.endswith(("_script", "_notebook")):
            assert condition in content.encode().decode("unicode_escape", "ignore") or condition in content, name
        if name.endswith("_settings"):
            assert '"from_data"' in content
        if name.endswith(("_model_csv", "_synthetic_csv")):
            assert condition in content, name
    for section in files[f"{prefix}_html"]().decode().split("<h2>")[1:]:
        chart, _, caption = section.partition("<figcaption>")
        if "Private only if known beforehand" in caption:
            assert "◉ private if known beforehand" in chart.replace("\\u25c9", "◉"), f"no frame says it: {chart[:60]}"
    taken = files[f"{prefix}_csv"]().decode()
    frame = pd.read_csv(io.StringIO(taken), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert condition in taken and all(column.endswith("_nonprivate") for column in [*frame][3:])

    for _ in range(2):  # one statement for each kind
        for button in [button for button in app.button if "_upload_knew_" in str(button.key)]:
            button.click().run()
    assert not app.exception and "taken from the data" not in text(app)
    app = run(app, press=f"{prefix}_run", job=f"{prefix}_job")
    assert IF not in words(app) and "private if known beforehand" not in badges(app)
    assert "known beforehand" not in files[f"{prefix}_csv"]().decode()


@pytest.mark.parametrize("problem", [problem for problem in READ if problem != "bayesian_optimization"])
def test_where_a_column_names_the_person_the_page_and_what_is_taken_away_protect_people(
    load: Load, files: Files, problem: str
) -> None:
    prefix, who, k = PREFIX.get(problem, "mirror"), "ask" if problem == "losses" else "age", 20
    app, panel = filled(load, problem)
    budget, rows = metrics(app)["Budget of each method"], {"losses": 100}.get(problem, 300)
    assert "the person." in words(app), "each row is protected, not the person"
    app.selectbox(key=f"{panel}_upload_person").set_value(who).run()
    app.number_input(key=f"{panel}_upload_rows_per_person").set_value(k).run()
    app = run(app, press=f"{prefix}_run", job=f"{prefix}_job")
    experiment: Experiment = app.session_state[f"{prefix}_job"].experiment
    unit, data = f"one person with up to {k} rows replaced", experiment.problem.dataset
    assert isinstance(data, Upload) and (data.person, data.rows_per_person, data.n) == (who, k, rows)
    said = words(app) + " ".join(metric.help for metric in app.metric)
    assert experiment.problem.unit == unit and said.count(unit) >= 2 and "not the person" not in said
    assert not re.search("(one|a) row replaced|replaced row is|a row was replaced", said)
    assert metrics(app)["Budget of each method"] == budget
    assert f"Planned with {experiment.row_budget.describe()} for one row" in said
    spent = pd.read_csv(io.StringIO(files[f"{prefix}_csv"]().decode()), comment="#").filter(regex="^spent_")
    if experiment.budget.currency is not None:
        assert spent.max().max() == pytest.approx(experiment.budget.limit, rel=1e-9)
    for name, made in files.items():
        content = made().decode()
        if name.endswith(("_csv", "_script", "_notebook")) and "settings" in content.lower():
            assert unit in content and "one row replaced" not in content, name


def test_what_is_typed_is_declared_and_the_rest_is_not(load: Load) -> None:
    app, _ = filled(load, "accelerated")
    first = dict([next(iter(RANGES.items()))])
    edit(app, "ranges", {"edited_rows": first})
    assert f"{IF}the range of “income”" in words(app).replace("\\", "")
    edit(app, "ranges", {"edited_rows": first | {1: {"lowest": -5.0}}})
    assert f"{IF}the range of “income”" in words(app).replace("\\", ""), "its other end is that of the file"
    edit(app, "ranges", {"edited_rows": first | {1: {"lowest": -5.0, "highest": 9000.0}}})
    assert IF not in words(app) and "taken from the data" not in text(app)
    app.button(key="accel_upload_fill").click().run()
    assert f"{IF}the ranges of “age” and “income”" in words(app).replace("\\", "")


def test_shares_that_were_proposed_do_not_become_declared_by_being_proposed_again(load: Load) -> None:
    app, panel = filled(load, "groups")
    app.button(key=f"{panel}_upload_propose").click().run()
    assert "the shares of the groups in “region”" in words(app)


def test_a_group_that_was_declared_stays_when_others_are_proposed(load: Load) -> None:
    app, panel = opened(load, "groups")
    edit(app, "members", {"added_rows": [{"group": "of no row", "share": 0.1}]})
    app.button(key=f"{panel}_upload_propose").click().run()
    (rows,) = (editor.value for editor in app.data_editor if "_members_" in editor.key)
    assert rows.set_index("group")["share"]["of no row"] == 0.1 and rows["share"].sum() == pytest.approx(1)


def test_an_estimated_smoothness_stays_one_under_another_name(load: Load) -> None:
    """Chosen as one's own value it is the same number: it was not typed."""
    app = load("accelerated", accel_smoothness_source="Estimated from data (not private)")
    app.button(key="accel_estimate").click().run()
    condition = f"{IF}the smoothness L"
    assert condition in words(app)
    app.selectbox(key="accel_smoothness_source").set_value("declared").run()
    assert not app.exception and condition in words(app) and "this L taken from the data" in text(app)
    app.button(key="accel_knew_smoothness").click().run()
    assert not app.exception and IF not in words(app)
    app.selectbox(key="accel_smoothness_source").set_value("estimated").run()
    app.button(key="accel_estimate").click().run()
    app.selectbox(key="accel_smoothness_source").set_value("declared").run()
    app.number_input(key="accel_smoothness").set_value(1.5).run()
    assert not app.exception and IF not in words(app)


def test_an_estimated_smoothness_is_not_bought_by_typing_a_cost(load: Load) -> None:
    app = accelerated_upload(load)
    app.selectbox(key="accel_smoothness_source").set_value("estimated").run()
    app.button(key="accel_estimate").click().run()
    app.selectbox(key="accel_smoothness_source").set_value("released").run()
    app.number_input(key="accel_smoothness_cost").set_value(0.01).run()
    assert not app.exception and not app.error
    assert f"{IF}the ranges of “a”, “b” and “c”; the smoothness L" in words(app).replace("\\", "")
    assert "the smoothness L" in next(note.value for note in app.markdown if "This link restores" in note.value)
    app.button(key="accel_release").click().run()
    assert not app.exception and "the smoothness L;" not in words(app), "a release takes the place of the estimate"


def test_an_estimate_that_came_by_a_link_stays_one_and_a_typed_number_becomes_none(load: Load) -> None:
    estimated = "Estimated from data (not private)"
    app = load("accelerated", accel_smoothness_source=estimated, accel_smoothness="0.3")
    app.selectbox(key="accel_smoothness_source").set_value("declared").run()
    assert not app.exception and f"{IF}the smoothness L" in words(app)
    app = load("accelerated", accel_smoothness_source="My own value")
    app.number_input(key="accel_smoothness").set_value(0.4).run()
    app.selectbox(key="accel_smoothness_source").set_value("estimated").run()
    assert f"{IF}the smoothness L" in words(app)
    app.selectbox(key="accel_smoothness_source").set_value("declared").run()
    assert not app.exception and app.number_input(key="accel_smoothness").value == 0.4 and IF not in words(app)


def test_a_smoothness_that_was_bought_stays_paid_for_under_another_name(load: Load) -> None:
    app = accelerated_upload(load)
    app.selectbox(key="accel_smoothness_source").set_value("released").run()
    app.button(key="accel_release").click().run()
    app.selectbox(key="accel_smoothness_source").set_value("declared").run()
    run(app, press="accel_run", job="accel_job")
    assert app.session_state["accel_job"].experiment.problem.facts().released
    assert "it stays paid for" in text(app)


def problem_costs(app: AppTest) -> tuple[Event, ...]:
    """What the plan of the page pays for before a run."""
    run(app, press="accel_run", job="accel_job")
    experiment: Experiment = app.session_state["accel_job"].experiment
    return experiment.problem.facts().released


def test_a_smoothness_that_was_bought_elsewhere_stays_paid_for_under_another_name(load: Load) -> None:
    """A link says what it cost; neither another name nor another number beside it changes that."""
    bought = {"accel_smoothness": "0.7", "accel_smoothness_cost": "0.3"}
    app = load("accelerated", accel_smoothness_source="Released privately", **bought)
    app.selectbox(key="accel_smoothness_source").set_value("declared").run()
    assert not app.exception and "it stays paid for, with ε_L = 0.3" in text(app)
    assert problem_costs(app) == (Laplace(0.3),)
    app.number_input(key="accel_smoothness").set_value(1.5).run()
    assert "stays paid for" not in text(app), "another value is no release"
    app.number_input(key="accel_smoothness").set_value(0.7).run()
    app.selectbox(key="accel_smoothness_source").set_value("released").run()
    app.number_input(key="accel_smoothness_cost").set_value(1e-6).run()  # what the next one would cost
    assert not app.exception and problem_costs(app) == (Laplace(0.3),)


def test_a_smoothness_that_was_typed_is_no_release(load: Load) -> None:
    """Its error bound rests on it: typed beside a cost it is still assumed."""
    app = load("accelerated", accel_smoothness_source="My own value")
    app.number_input(key="accel_smoothness").set_value(0.5).run()
    app.selectbox(key="accel_smoothness_source").set_value("released").run()
    app.number_input(key="accel_smoothness_cost").set_value(0.01).run()
    assert not app.exception and "This L is your own value and no release" in text(app)
    assert "**if L holds**" in text(app) and problem_costs(app) == ()


def test_the_link_of_an_own_file_says_that_it_holds_what_was_read_from_it(load: Load) -> None:
    app = accelerated_upload(load)
    assert "not private" not in next(note.value for note in app.markdown if "This link restores" in note.value)
    app.selectbox(key="accel_smoothness_source").set_value("estimated").run()
    app.button(key="accel_estimate").click().run()
    assert "the smoothness L" in next(note.value for note in app.markdown if "This link restores" in note.value)


# ------------------------------------------------------------------------------------------- what the first screen says


@pytest.mark.parametrize("problem", ["accelerated", "second_order", "zeroth_order", "groups"])
def test_the_first_number_is_the_accuracy_beside_that_of_the_majority_once_the_switch_is_on(
    load: Load, problem: str
) -> None:
    app, _ = filled(load, problem)
    prefix = PREFIX.get(problem, "mirror")
    assert next(box for box in app.expander if "mine" in box.label).proto.expanded, (
        "what was taken from the data is still to be seen"
    )
    run(app, press=f"{prefix}_run", job=f"{prefix}_job")
    assert not next(box for box in app.expander if "mine" in box.label).proto.expanded
    assert not [card for card in app.metric if "Accuracy of" in card.label] and " answering " not in words(app)
    app.toggle(key=f"{prefix}_diagnostics").set_value(True).run()
    assert not app.exception
    (card,) = [card for card in app.metric if "Accuracy of" in card.label]
    done = app.session_state[f"{prefix}_job"]
    label = card.label.removeprefix("Accuracy of ")
    lane = done.job.trace.arm_traces[label]
    right = float(np.median(done.experiment.problem.build(done.tables).correct_share(lane.output["x"])))
    assert lane.private and card.value == f"{short(100 * right)} %"
    bought = pd.read_csv(io.BytesIO(people()))["bought"]
    answer = "always" if (bought == "yes").mean() >= 0.5 else "never"
    most = bought.value_counts(normalize=True).max()
    (sentence,) = [note.value for note in app.markdown if " answering " in note.value]
    assert f"{answer} answering yes**, {short(100 * most)} %" in sentence and "**Not private**" in sentence
    assert ("No better" in sentence) == (right <= most)
    app.toggle(key=f"{prefix}_diagnostics").set_value(False).run()
    assert not [card for card in app.metric if "Accuracy of" in card.label] and " answering " not in words(app)


NAMES = {"age": "Age (years)", "income": "income €", "region": "*where* $a_b$"}


@pytest.mark.parametrize("problem", ["accelerated", "second_order", "zeroth_order", "groups"])
def test_columns_are_called_as_the_file_calls_them(load: Load, problem: str) -> None:
    table = pd.read_csv(io.BytesIO(people())).rename(columns=NAMES)
    table.insert(0, "id", np.arange(len(table)))
    prefix = PREFIX.get(problem, "mirror")
    panel = "mirror_groups" if problem == "groups" else prefix
    settings = {"mirror_problem": "Worst group loss", f"{panel}_data": "Your own file", f"{prefix}_iterations": "4"}
    app = load("mirror_descent" if problem == "groups" else problem, **settings)
    app.file_uploader[0].upload("my *file*.csv", table.to_csv(index=False).encode(), "text/csv").run()
    kinds = next(editor for editor in app.data_editor if "_kinds_" in editor.key).value.set_index("column")["holds"]
    assert kinds["id"] == "Left out" and kinds["Age (years)"] == "Numbers"
    assert any("tells rows apart" in note.value and note.value.count("id") for note in app.info)
    confirmed(app)
    app.selectbox(key=f"{panel}_upload_target").set_value("bought").run()
    if problem == "groups":
        app.selectbox(key=f"{panel}_upload_group").set_value(NAMES["region"]).run()
    confirmed(app)
    for name in ("fill", *["propose"] * (problem == "groups")):
        app.button(key=f"{panel}_upload_{name}").click().run()
    assert not app.exception
    assert app.multiselect(key=f"{panel}_upload_features").value == ["Age (years)", "income €"]
    said = words(app)
    shown = "the ranges of “Age (years)” and “income €”"
    assert f"{IF}{shown}" in said and r"\*where\*" in said
    for text_of in [*app.markdown, *app.caption, *app.info, *app.success, *app.warning]:
        assert "*where*" not in text_of.value and "$a_b$" not in text_of.value and "my *file*" not in text_of.value
