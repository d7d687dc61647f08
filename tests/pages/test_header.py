"""What stands above the plan of an algorithm page: readings, notes, one δ, and the sentence of a preset."""

from collections.abc import Callable
from typing import Any

import pytest

from dpviz.families.accelerated import presets
from dpviz.families.mirror_descent import presets as mirror_presets
from dpviz.plots import run_figures
from dpviz.ui.experiment import guarantee, hero, page
from dpviz.ui.experiment import run as run_panel
from tests.pages.reading import Load, charts, run, text


def test_the_readings_of_the_header_hold_for_every_method(load: Load) -> None:
    """Of the methods of this preset, ε at δ lies between 0.39 and 0.88: shown is the largest, and who has it."""
    app = load("accelerated")
    (preset,) = [preset for preset in presets.PRESETS if preset.name.startswith("Real data")]
    app.selectbox(key="accel_preset").set_value(preset.name).run()
    read = {label: guarantee.readings(plan, 1e-6) for label, plan in preset.experiment.plans().items()}
    _, epsilon, _, attack = app.metric
    worst = max(read, key=lambda label: read[label].epsilon_at_delta)
    assert len({f"{item.epsilon_at_delta:.3g}" for item in read.values()}) == 3
    assert epsilon.value == f"ε ≤ {read[worst].epsilon_at_delta:.3g}" == "ε ≤ 0.877"
    assert epsilon.label == "Reading at δ = 10⁻⁶" and epsilon.delta == worst == "DP-MASG-opt"
    assert "From 0.391 to 0.877 over the methods" in epsilon.help
    largest = max(item.detection for item in read.values())
    told = max(read, key=lambda label: read[label].detection)
    assert attack.value == f"≤ {100 * largest:.3g} %" and told in attack.delta
    assert f"real one at most {100 * largest:.3g} % of the time ({told}" in text(app)
    for name, symbol in (("rho", "zCDP ρ ≤"), ("mu", "GDP μ ≤")):
        assert f"{symbol} {max(getattr(item, name) for item in read.values()):.3g} (" in text(app)
    assert "pure ε = 1 (every method)" in text(app)


def test_the_header_leaves_out_what_has_no_privacy(load: Load) -> None:
    app = load("accelerated", accel_references="true")
    assert app.metric[1].value == "ε ≤ 1.5" and "no privacy" not in app.metric[1].delta


def test_a_plan_without_an_error_bound_says_so_once_with_its_methods(load: Load) -> None:
    app = load("accelerated", accel_methods=["DP-GD", "DP-HB"], accel_references="true")
    assert not app.warning
    app.selectbox(key="accel_momentum_rule").set_value("polyak").run()
    (note,) = app.warning
    assert "is above 1/L: stable on quadratics, but no error bound." in note.value
    assert note.proto.title == "DP-HB, HB, no privacy"


def test_there_is_one_delta_that_of_the_budget_where_it_has_one(load: Load) -> None:
    app = load("accelerated", accel_currency="(ε, δ)", accel_delta="1e-08", accel_delta_reading="1e-04")
    assert [box.key for box in app.number_input if "delta" in str(box.key)] == ["accel_delta"]
    assert app.metric[1].value == "ε ≤ 2" and app.metric[1].label == "Reading at δ = 10⁻⁸"
    app = load("accelerated", accel_delta_reading="1e-04")
    assert app.metric[1].label == "Reading at δ = 0.0001"


def test_the_readings_of_a_game_hold_for_every_method(load: Load) -> None:
    """The first of these methods wastes most of its budget: ε < 0.2, where the other one has 1."""
    names = ["As in the paper", "DP-SGDA"]
    app = load("mirror_descent", mirror_methods_game=names)
    plans = mirror_presets.PRESETS[0].experiment.replaced(arms=mirror_presets.arms(names)).plans()
    read = {name: guarantee.readings(plans[name], 1e-6) for name in names}
    assert read["As in the paper"].epsilon_at_delta < 0.2 and read["DP-SGDA"].epsilon_at_delta > 0.99
    _, epsilon, _, attack = app.metric
    assert epsilon.value == "ε ≤ 1" and epsilon.delta == "DP-SGDA"
    assert f"From {read['As in the paper'].epsilon_at_delta:.3g} to 1 over the methods" in epsilon.help
    assert attack.value == f"≤ {100 * read['DP-SGDA'].detection:.3g} %" and attack.delta == "DP-SGDA"
    assert "(DP-SGDA; less often with the other methods)" in text(app)


def test_the_sentence_of_a_preset_does_not_stand_over_other_data(load: Load) -> None:
    app = load("accelerated")
    preset = presets.PRESETS[4]
    app.selectbox(key="accel_preset").set_value(preset.name).run()
    assert preset.look_for in text(app)
    for data in ("quadratic", "uniform", "upload"):
        app.selectbox(key="accel_data").set_value(data).run()
        assert not app.exception and preset.look_for not in text(app)
    app.selectbox(key="accel_data").set_value("paper").run()
    assert preset.look_for in text(app)


def test_the_picture_of_a_run_that_was_asked_for_comes_before_all_controls(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for is on its way while the rest of the page, which does not change, is drawn."""
    app = load("accelerated", accel_uniform_rows="500", accel_iterations="10000", accel_replicates="2")
    order: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            order.append(name)
            return real(*given)

        return call

    monkeypatch.setattr(hero, "picture", noted("picture", hero.picture))
    monkeypatch.setattr(page, "_choose", noted("controls", page._choose))
    monkeypatch.setattr(run_panel, "PRESSED", 30.0)
    app.button(key="accel_run").click().run()
    assert not app.exception and order == ["picture", "controls"]
    app.button(key="accel_stop").click().run()
    assert not app.exception and order[2:] == ["controls", "picture"]


def test_the_curves_of_a_run_that_has_ended_are_not_drawn_anew_at_every_move(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = run(load("accelerated", accel_uniform_rows="500", accel_iterations="5", accel_replicates="2"))
    before = charts(app)
    with monkeypatch.context() as nothing:
        nothing.setattr(run_figures, "convergence", lambda *_, **__: pytest.fail("nothing of the run has changed"))
        app.number_input(key="accel_epsilon").set_value(1.0).run()
    assert not app.exception
    curves = [alt for alt in before if " against steps" in alt]
    assert len(curves) == 2 and all(charts(app)[alt] == before[alt] for alt in curves)
    app.selectbox(key="accel_axis").set_value("spent").run()
    assert not app.exception and not any(alt in charts(app) for alt in curves)
    assert any(" against privacy spent" in alt for alt in charts(app))
