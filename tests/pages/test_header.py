"""What stands above the plan of an algorithm page: readings, notes, one δ, and the sentence of a preset."""

from dpviz.families.accelerated import presets
from dpviz.families.mirror_descent import presets as mirror_presets
from dpviz.numbers import short_up
from dpviz.ui.experiment import guarantee
from tests.pages.reading import Load, text


def test_the_readings_of_the_header_hold_for_every_method(load: Load) -> None:
    """Of the methods of this preset, ε at δ lies between 0.39 and 0.88: shown is the largest, and who has it."""
    app = load("accelerated")
    (preset,) = [preset for preset in presets.PRESETS if preset.name.startswith("Real data")]
    app.selectbox(key="accel_preset").set_value(preset.name).run()
    read = {label: guarantee.readings(plan, 1e-6) for label, plan in preset.experiment.plans().items()}
    _, epsilon, _, attack = app.metric
    worst = max(read, key=lambda label: read[label].epsilon_at_delta)
    assert len({f"{item.epsilon_at_delta:.3g}" for item in read.values()}) == 3
    assert epsilon.value == f"ε ≤ {short_up(read[worst].epsilon_at_delta)}" == "ε ≤ 0.877"
    assert epsilon.label == "Reading at δ = 10⁻⁶" and epsilon.delta == worst == "DP-MASG-opt"
    assert "From 0.392 to 0.877 over the methods" in epsilon.help
    largest = max(item.detection for item in read.values())
    told = max(read, key=lambda label: read[label].detection)
    assert attack.value == f"≤ {short_up(100 * largest)} %" and told in attack.delta
    assert f"row is noticed at most {short_up(100 * largest)} % of the time ({told}" in text(app)
    for name, symbol in (("rho", "zCDP ρ ≤"), ("mu", "GDP μ ≤")):
        assert f"{symbol} {short_up(max(getattr(item, name) for item in read.values()))} (" in text(app)
    assert "Pure ε ≤ 1 (every method)" in text(app)


def test_the_header_leaves_out_what_has_no_privacy(load: Load) -> None:
    app = load("accelerated", accel_references="true")
    assert app.metric[1].value == "ε ≤ 1.5" and "no privacy" not in app.metric[1].delta


def test_there_is_one_delta_that_of_the_budget_where_it_has_one(load: Load) -> None:
    app = load("accelerated", accel_currency="(ε, δ)", accel_delta="1e-08", accel_delta_reading="1e-04")
    assert [box.key for box in app.number_input if "delta" in str(box.key)] == ["accel_delta"]
    assert app.metric[1].value == "ε ≤ 2" and app.metric[1].label == "Reading at δ = 10⁻⁸"
    app = load("accelerated", accel_currency="ρ-zCDP", accel_delta_reading="1e-04")
    assert app.metric[1].label == "Reading at δ = 0.0001"
    app = load("accelerated", accel_delta_reading="1e-04")
    assert not [box.key for box in app.number_input if "delta" in str(box.key)]
    assert app.metric[1].label == "Reading at δ = 10⁻⁶"


def test_the_readings_of_a_game_hold_for_every_method(load: Load) -> None:
    """The first of these methods wastes most of its budget: ε < 0.2, where the other one has 1."""
    names = ["As in the paper", "DP-SGDA"]
    app = load("mirror_descent", mirror_methods_game=names)
    plans = mirror_presets.PRESETS[0].experiment.replaced(arms=mirror_presets.arms(names)).plans()
    read = {name: guarantee.readings(plans[name], 1e-6) for name in names}
    assert read["As in the paper"].epsilon_at_delta < 0.2 and read["DP-SGDA"].epsilon_at_delta > 0.99
    _, epsilon, _, attack = app.metric
    assert epsilon.value == "ε ≤ 1" and epsilon.delta == "DP-SGDA"
    assert f"From {short_up(read['As in the paper'].epsilon_at_delta)} to 1 over the methods" in epsilon.help
    assert attack.value == f"≤ {short_up(100 * read['DP-SGDA'].detection)} %" and attack.delta == "DP-SGDA"
    assert "(DP-SGDA; less often with the other methods)" in text(app)
