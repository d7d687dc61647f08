"""What the page of every family must do; what only one of them has is tested in its own file."""

from typing import Any
from urllib.parse import parse_qs

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.preset import Preset
from dpviz.specification import Control
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.families import FAMILIES, Entry, named
from tests.pages.reading import Load, all_methods, choose, link, metrics, run, said, text

FEW = {"iterations": "4", "replicates": "2"}
PRESETS = [(family, preset) for family in FAMILIES for preset in family.page().presets]
EACH = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def opened(load: Load, family: Entry, **settings: str | list[str]) -> AppTest:
    prefix = family.page().prefix
    return load(family.name, **{f"{prefix}_{name}": value for name, value in settings.items()})


def plans_or_says_why_not(app: AppTest) -> bool:
    return not app.exception and (len(app.metric) >= 3 or bool(app.error))


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Control]:
    """The numbers with a range that the page draws and that can be changed, by their keys."""
    drawn: dict[str, Control] = {}
    number = Panel.number

    def noted(panel: Panel, control: Control, name: str, **options: Any) -> Any:
        if control.low is not None and not options.get("disabled"):
            drawn[panel.key(name)] = control
        return number(panel, control, name, **options)

    monkeypatch.setattr(Panel, "number", noted)
    return drawn


def widgets(app: AppTest) -> set[str | None]:
    return {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]}


@pytest.mark.parametrize(("family", "preset"), PRESETS, ids=lambda value: value.name)
def test_a_preset_sets_every_control_and_has_a_link(load: Load, family: Entry, preset: Preset) -> None:
    prefix = family.page().prefix
    app = opened(load, family)
    app.selectbox(key=f"{prefix}_preset").set_value(preset.name).run()
    assert not app.exception and "must be" not in said(app)
    assert app.selectbox(key=f"{prefix}_preset").value == preset.name  # so the controls rebuild exactly its experiment
    assert preset.look_for in text(app) and f"{prefix}_job" not in app.session_state
    offered = parse_qs(link(app).partition("?")[2])
    assert set(app.query_params) == set(offered)  # what a reload keeps, also of controls that were not shown before
    again = load(family.name, **{f"{prefix}_references": "true"} | offered)
    assert again.selectbox(key=f"{prefix}_preset").value == preset.name and link(again) == link(app)


@EACH
def test_both_ends_of_every_number_give_a_plan_or_a_sentence(
    load: Load, numbers: dict[str, Control], family: Entry
) -> None:
    app = all_methods(opened(load, family))
    assert len(numbers) > 8
    for key, control in dict(numbers).items():
        for value in (control.low, control.high):
            app.number_input(key=key).set_value(float(value or 0.0)).run()
            assert plans_or_says_why_not(app), (key, value)
        app.number_input(key=key).set_value(None if control.default is None else float(control.default))
    assert plans_or_says_why_not(app.run())


@EACH
def test_every_method_plans_in_every_currency_or_says_why_not(load: Load, family: Entry) -> None:
    app = all_methods(opened(load, family))
    for currency in CURRENCIES:
        choose(app, "currency", currency)
        assert not app.exception and (app.error or app.metric[0].value[0] in "ερμ"), currency
        assert not any("nan" in value or "inf" in value for value in metrics(app).values()), currency


@EACH
def test_every_setting_of_every_method_has_a_control(family: Entry) -> None:
    page = family.page()
    drawn = {name for group in page.groups for name in group.names}
    assert set(page.catalogue.controls()) - drawn <= {"radius"}  # which stands beside the constants of the analysis


@EACH
def test_a_mistake_is_named_and_hides_no_other_control(load: Load, numbers: dict[str, Control], family: Entry) -> None:
    app = all_methods(opened(load, family, seed="7"))
    before, errors, prefix = widgets(app), len(app.error), family.page().prefix
    data = next(key for key in numbers if key.endswith(("_rows", "_dimension")))
    for key in (f"{prefix}_iterations", data):
        value = app.number_input(key=key).value
        app.number_input(key=key).set_value(-5.0).run()
        assert not app.exception and said(app).count("must be between") == 2 and not app.metric
        assert widgets(app) == before and app.button(key=f"{prefix}_run").disabled
        app.number_input(key=key).set_value(value).run()
        assert len(app.error) == errors and app.metric and app.number_input(key=f"{prefix}_seed").value == 7


@EACH
def test_one_method_or_none(load: Load, family: Entry) -> None:
    app = opened(load, family)
    (pills,) = app.pills
    pills.set_value(pills.options[:1]).run()
    assert plans_or_says_why_not(app)
    app.pills[0].set_value([]).run()
    assert not app.exception and "No method is chosen" in said(app)
    assert app.button(key=f"{family.page().prefix}_run").disabled


@EACH
def test_a_run_stays_when_settings_change_and_says_so(load: Load, family: Entry) -> None:
    """And its references stand beside the private methods, of which each has spent what was set."""
    prefix = family.page().prefix
    app = run(opened(load, family, references="true", **FEW))
    table = app.dataframe[-1].value
    spent = next(name for name in table if name.startswith("Spent"))
    assert table[spent].isna().any() and table[spent].notna().any() and table["Steps"].iloc[0] <= 4
    assert "Not private" in text(app)
    app.number_input(key=f"{prefix}_iterations").set_value(8).run()
    assert not app.exception
    assert text(app).count("Settings changed since this run") == 2  # beside the results, and beside their files
    pd.testing.assert_frame_equal(app.dataframe[-1].value, table)


@pytest.mark.parametrize("name", ["accelerated", "mirror_descent", "zeroth_order"])  # the others may end at once
def test_stop_keeps_what_was_computed_even_while_settings_are_wrong(
    load: Load, numbers: dict[str, Control], name: str
) -> None:
    family = named(name)
    prefix = family.page().prefix
    app = opened(load, family)
    longest = f"{prefix}_iterations"
    app.number_input(key=longest).set_value(float(numbers[longest].high or 0)).run()
    app.button(key=f"{prefix}_run").click().run()
    job = app.session_state[f"{prefix}_job"].job
    while job.trace is None or job.progress == 0:
        app.run()
        assert not app.exception and job.active
    app.number_input(key=longest).set_value(-1.0).run()
    assert app.button(key=f"{prefix}_run").disabled and not app.button(key=f"{prefix}_stop").disabled
    app.button(key=f"{prefix}_stop").click().run()
    while job.active:
        app.run()
        assert not app.exception
    app.run()
    assert not app.exception and job.state == "stopped"
    assert 0 < app.dataframe[-1].value["Steps"].max() < float(numbers[longest].high or 0)
