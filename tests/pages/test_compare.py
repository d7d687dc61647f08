"""The page that compares pins: empty, with pins of a link, of any families, and what it says of files of one's own."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.compare import pins
from dpviz.compare.pins import Pin
from dpviz.datasets import UploadedTable
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.summary import summary
from dpviz.families.accelerated import presets
from dpviz.families.mirror_descent.presets import PRESETS as GAMES
from dpviz.numbers import short
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui import families
from dpviz.ui.experiment.pins import PagePin
from dpviz.ui.markdown import escape_name
from tests.pages.reading import Load, chart, choose, lines, metrics, run, table, text
from tests.pages.test_pins import TINY, linked, press

STEEP = Pin("Steep", presets.PRESETS[0].experiment.replaced(replicates=2))
GAME = Pin("Game", GAMES[0].experiment.replaced(replicates=2))


def computed(app: AppTest) -> AppTest:
    """Wait for the lines of pins that came without any."""
    for prefix in ("accel", "mirror", "compare_example"):
        if f"{prefix}_pins" in app.session_state:
            keys = [f"{prefix}_pin_{pinned.key}_job" for pinned in app.session_state[f"{prefix}_pins"]]
            for key in (key for key in keys if key in app.session_state):
                app.session_state[key].job.wait(300.0)
    app.run()
    assert not app.exception
    return app


@pytest.fixture
def both(load: Load) -> AppTest:
    return computed(load("compare", pin=[STEEP.to_link(), GAME.to_link()]))


def test_without_pins_the_page_says_how_to_pin_and_compares_two_presets(load: Load) -> None:
    app = computed(load("compare"))
    assert "Nothing is pinned yet" in text(app) and "Pin this run" in text(app)
    first = families.FAMILIES[:2]
    assert list(table(app, "Guarantee")["Run"]) == [family.title for family in first]
    assert len(lines(app, "Share of the start along Step t")) == 2
    assert [family.page().presets[0].experiment for family in first] == [
        pinned.pin.experiment for pinned in app.session_state["compare_example_pins"]
    ]
    assert [link.proto.label for link in app.get("page_link")] == [family.title for family in families.FAMILIES]
    assert not app.get("pills") and "Copy link" not in text(app)
    shares = table(app, "Guarantee").set_index("Run")["Share of the start"].sort_values()
    assert metrics(app)["Lowest in the end, of different problems"] == short(shares.iloc[0])
    budgets = {family.title: family.page().presets[0].experiment.guarantee for family in first}
    best, other = (f"{name} ({escape_name(budgets[name])})" for name in shares.index)
    assert f"**{best}**, by " in text(app) and f"Then {other} {short(shares.iloc[1])}." in text(app)


def test_pins_of_two_families_stand_side_by_side_on_common_axes(both: AppTest) -> None:
    drawn = lines(both, "Share of the start along Step t")
    assert len(drawn) == 2 and {name.split(":")[0] for name in drawn} == {"Steep", "Game"}
    both.selectbox(key="compare_axis").set_value("privacy").run()
    assert not both.exception and chart(both, "Share of the start along Privacy used, ρ (zCDP)")
    assert "never the other way round" in text(both) and "Not private" in text(both)
    both.segmented_control(key="compare_methods").set_value("all").run()
    assert "lack such an axis or number: Steep\\: GD\\, no privacy; Steep\\: NAG\\, no privacy" in text(both)
    both.segmented_control(key="compare_methods").set_value("best").run()
    choose(both, "currency", "at_delta")
    assert chart(both, "Share of the start along Privacy used, ε at δ = 10⁻⁶")
    both.selectbox(key="compare_metric").set_value("duality_gap").run()
    assert {name.split(":")[0] for name in lines(both, "Duality gap along")} == {"Game"}
    assert "Not drawn, as they lack such an axis or number: Steep." in text(both)


def test_pins_are_those_of_the_pages_with_names_that_can_be_told_apart(load: Load) -> None:
    app = press(run(load("accelerated", **TINY)), "accel_pin")
    app.switch_page("pages/compare.py").run()
    assert not app.exception and len(lines(app, "Share of the start")) == 1
    assert linked(app) == [app.session_state["accel_pins"][0].pin.to_link()]
    same = Pin("Pin 1", GAME.experiment)
    upload = next(field for field in app.file_uploader if field.label == "Pins from a file")
    computed(upload.upload("pins.json", pins.to_file([same]).encode(), "application/json").run())
    assert [pinned.pin for pinned in app.session_state["mirror_pins"]] == [same]
    assert {name.split(":")[0] for name in lines(app, "Share of the start")} == {"Pin 1 1", "Pin 1 2"}
    remove = next(
        button.key for button in app.button if button.key.startswith("mirror_pin") and button.label == "Remove"
    )
    press(app, remove)
    assert {name.split(":")[0] for name in lines(app, "Share of the start")} == {"Pin 1"}


def test_runs_with_names_like_each_other_or_like_a_column_are_told_apart(load: Load) -> None:
    small = [STEEP.experiment.replaced(replicates=1, seed=seed) for seed in range(3)]
    for names, shown in (
        (("A", "A", "A 1"), ("A 2", "A 3", "A 1")),
        (("Setting", "=A", "A"), ("Setting 1", "=A", "A")),
    ):
        links = [Pin(name, experiment).to_link() for name, experiment in zip(names, small, strict=True)]
        app = computed(load("compare", pin=links))
        assert {line.split(":")[0] for line in lines(app, "Share of the start")} == set(shown)
        settings = table(app, "Setting").set_index("Setting")
        assert settings.loc["Seed"].tolist() == [str(seed) for seed in range(3)]


def test_a_renamed_run_stays_chosen_and_its_name_is_no_markup(load: Load) -> None:
    app = computed(load("compare", pin=[STEEP.to_link(), GAME.to_link()]))
    runs = app.pills(key="compare_runs_2")
    runs.set_value(runs.value[:1]).run()
    next(field for field in app.text_input if field.value == "Steep").set_value("www.e.co *a*").run()
    assert {line.split(":")[0] for line in lines(app, "Share of the start")} == {"www.e.co *a*"}
    assert "www\u2060\\.e\u2060\\.co \\*a\\*" in text(app)
    app.pills(key="compare_runs_2").set_value([]).run()
    assert not app.exception and "Choose at least one run" in text(app)


def test_a_hostile_link_gets_a_sentence_and_the_page_works(load: Load) -> None:
    app = load("compare", pin=["%00<script>", "x" * 20_000], compare_axis="passes", compare_delta="nan")
    assert "A pin was left out." in " ".join(warning.value for warning in app.warning)
    assert "Nothing is pinned yet" in text(app) and "pin" not in app.query_params


def test_a_pin_with_a_method_of_another_name_says_that_its_page_cannot_set_it(load: Load) -> None:
    arms = (STEEP.experiment.arms[0].replaced(label="Mine"), *STEEP.experiment.arms[1:])
    app = computed(load("compare", pin=[Pin("Other", STEEP.experiment.replaced(arms=arms)).to_link()]))
    next(button for button in app.button if button.label.startswith("Open ")).click().run()
    assert not app.exception and "no controls for all of these settings" in text(app)


@pytest.mark.parametrize(
    ("seed", "sentence"),
    [
        (None, "Private, each repeat of each method at its own budget. Publishing all of them would compose."),
        (3, "**Private only if the seed stays secret**: Mine if nobody learns the seed."),
    ],
    ids=["fresh", "seeded"],
)
def test_a_run_on_a_file_of_ones_own_shows_its_diagnostics_only_while_they_are_switched_on(
    load: Load, seed: int | None, sentence: str
) -> None:
    data = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("income",))
    table = np.column_stack([np.linspace(0, 1, 40), np.tile([-1.0, 1.0], 20)])
    arms = presets.arms(["DP-GD"], references=True, iterations=4)
    mine = Experiment(problem=LogisticRegression(data=data), arms=arms, replicates=2, seed=seed)
    app = load("compare")
    kept = summary(mine.run({"0" * 32: table}))
    app.session_state["accel_pins"] = (PagePin(Pin("Mine", mine), summary=kept, raw=True, key="mine"),)
    app.run()
    assert not app.exception
    said = text(app)
    assert "Not drawn" in said and "Private" not in said and "lock:" not in said, "nothing of no curve is private"
    choose(app, "metric", "noisy_gradient_norm")
    assert sentence in text(app)
    assert not any("Excess loss" in option for option in app.selectbox(key="compare_metric").options)
    assert linked(app) == [] and "stays in this session" in text(app) and "income" not in text(app)
    assert not any(button.label == "Pins (JSON)" for button in app.get("download_button"))
    choose(app, "section", "What they cost together")
    assert "All settings were fixed" not in text(app), "nobody has said so"
    app.session_state["accel_diagnostics"] = True
    choose(app, "metric", "share")
    assert "some of it reads your raw data" in text(app)
    assert any("Excess loss" in option for option in app.selectbox(key="compare_metric").options)
