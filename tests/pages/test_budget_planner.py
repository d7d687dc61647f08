"""The budget planner: every guarantee is read in every currency that it implies, and what it buys is computed."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

Load = Callable[..., AppTest]


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def words(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption])


def test_pure_epsilon_is_read_in_every_currency(load: Load) -> None:
    app = load("budget_planner", planner_epsilon="1")
    shown = metrics(app)
    assert shown["Pure ε"] == "1" and shown["ρ (zCDP)"] == "≤ 0.462" and shown["μ (Gaussian DP)"] == "≤ 1.23"
    assert "at most 73.1 of 100" in words(app).replace("**", "").replace("\n ", "")  # (1 + tanh ½) / 2
    assert "2.72 %" in words(app)


@pytest.mark.parametrize(
    ("currency", "parameters", "missing"),
    [
        ("(ε, δ)", {}, ["Pure ε", "ρ (zCDP)", "μ (Gaussian DP)"]),
        ("ρ-zCDP", {"planner_rho": "0.5"}, ["Pure ε", "μ (Gaussian DP)"]),
        ("μ-GDP", {"planner_mu": "1"}, ["Pure ε"]),
    ],
)
def test_a_currency_that_cannot_be_reached_is_a_dash_with_the_reason(
    load: Load, currency: str, parameters: dict[str, str], missing: list[str]
) -> None:
    app = load("budget_planner", planner_currency=currency, **parameters)
    shown = metrics(app)
    assert [name for name, value in shown.items() if value == "—"] == missing
    assert "Pure ε does not follow" in words(app)
    if currency == "μ-GDP":
        assert shown["ε at δ = 1e-6"] == "≤ 4.89" and shown["ρ (zCDP)"] == "≤ 0.5"


def test_noise_steps_and_rows_are_those_of_the_specification(load: Load) -> None:
    """n = 1000, m = 100, T = 100, ε = 1, C = 1: b = 0.2088; with b = 0.1 the budget lasts 45 steps."""
    app = load(
        "budget_planner",
        planner_epsilon="1",
        planner_rows="1000",
        planner_batch_fraction="0.1",
        planner_target="0.1",
    )
    assert metrics(app)["Noise scale b per step"] == "0.209"
    assert "covers **45 steps**" in words(app) and "**2,089 rows**" in words(app)


def test_a_control_moves_the_noise(load: Load) -> None:
    app = load("budget_planner")
    before = metrics(app)["Noise scale b per step"]
    app.number_input(key="planner_iterations").set_value(1000.0).run()
    assert not app.exception and float(metrics(app)["Noise scale b per step"]) == pytest.approx(10 * float(before))


def test_gaussian_noise_has_no_pure_epsilon_and_the_page_says_so(load: Load) -> None:
    app = load("budget_planner", planner_noise="Gaussian")
    (error,) = app.error
    assert "never gives pure ε-DP" in error.value
    app = load("budget_planner", planner_noise="Gaussian", planner_currency="μ-GDP")
    assert not app.error and "Noise scale σ per step" in metrics(app)


@pytest.mark.parametrize("name", ["epsilon", "rows", "batch_fraction", "iterations", "clip"])
@pytest.mark.parametrize("end", [0, -1])
def test_the_ends_of_every_control(load: Load, name: str, end: int) -> None:
    app = load("budget_planner")
    slider = app.select_slider(key=f"planner_{name}_slider")
    ends = {"epsilon": (0.01, 50), "rows": (20, 1e7), "batch_fraction": (1e-4, 1), "iterations": (1, 1e4)}
    value = ends.get(name, (0.001, 1000))[end]
    app.number_input(key=f"planner_{name}").set_value(float(value)).run()
    assert not app.exception and slider is not None


@pytest.mark.parametrize("value", ["-1", "0", "1e400"])
def test_a_budget_out_of_range_is_said_in_place(load: Load, value: str) -> None:
    app = load("budget_planner", planner_epsilon=value)
    assert any("Privacy budget" in error.value for error in app.error) or metrics(app)["Pure ε"] == "2"


def test_the_python_lines_print_the_noise_that_is_shown(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    app = load("budget_planner", planner_currency="(ε, δ)")
    program = next(code.value for code in app.code if "NoisyMeans" in code.value)
    exec(program, {})
    assert float(capsys.readouterr().out) == pytest.approx(float(metrics(app)["Noise scale b per step"]), rel=1e-2)
