"""The budget planner's what-ifs: each tab shows the specification's numbers, in its words, figure and Python lines."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.accuracy import ErrorBound
from dpviz.families.accelerated.accuracy import SmoothConvexBound
from dpviz.families.mirror_descent.accuracy import GameBound
from dpviz.privacy import accounting
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.what_if import NoisyMeans
from tests.pages.planner import (
    SMALL,
    TABS,
    Load,
    bars,
    chart,
    curve,
    errors,
    link,
    metrics,
    number,
    planner,
    program,
    words,
)

MEANS = NoisyMeans(rows=1000, batch_fraction=0.1)


def printed(app: AppTest, capsys: pytest.CaptureFixture[str]) -> str:
    """What the offered Python lines print."""
    capsys.readouterr()
    exec(program(app), {})
    return capsys.readouterr().out.strip()


# ---------------------------------------------------------------------------------------------------- noise, steps, rows


def test_noise_and_signal_to_noise(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """TV43: b = 0.208842080822 for n = 1000, m = 100, T = 100, ε = 1, C = 1."""
    app = planner(load, epsilon="1", **SMALL)
    shown = metrics(app)
    assert shown["Noise scale b per step"] == "0.209" and shown["Signal to noise"] == "4.79"
    assert shown["Rows for half the noise"] == "2,000"
    assert float(printed(app, capsys)) == pytest.approx(0.208842080822, rel=1e-9)
    steps, noise = curve(app, "Noise scale in every mean", "noise in every mean")
    for t, scale in zip(steps.tolist(), noise.tolist(), strict=True):
        assert MEANS.replaced(iterations=round(t)).noise_scale(PureDP(epsilon=1.0)) == pytest.approx(scale, rel=1e-6)
    mark = chart(app, "Noise scale in every mean")[-1]
    assert mark["text"] == ["T = 100: b = 0.209"] and mark["y"] == pytest.approx([0.208842], rel=1e-5)


@pytest.mark.parametrize(
    ("noise", "currency", "settings", "symbol"),
    [
        ("Laplace", "(ε, δ)", {"epsilon": "1"}, "b"),
        ("Gaussian", "(ε, δ)", {"epsilon": "1"}, "σ"),
        ("Gaussian", "ρ-zCDP", {"batch_fraction": "1"}, "σ"),
        ("Gaussian", "Rényi (α, ε)", {"batch_fraction": "1"}, "σ"),
        ("Gaussian", "Attack bound", {}, "σ"),
    ],
)
def test_the_python_lines_print_the_noise_that_is_shown(
    load: Load, capsys: pytest.CaptureFixture[str], noise: str, currency: str, settings: dict[str, str], symbol: str
) -> None:
    app = planner(load, noise=noise, currency=currency, **{**SMALL, **settings})
    shown = metrics(app)[f"Noise scale {symbol} per step"]
    assert f"{float(printed(app, capsys)):.3g}" == shown


def test_a_given_noise_in_every_currency_and_its_steps(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Specification, section 12: b = 0.02 is ε₀ = 1 in each batch; pure 15.8565, zCDP 8.8646, PLD 5.2352. TV45: 45."""
    app = planner(load, "A given noise", target="0.02", **SMALL)
    shown = metrics(app)
    assert "100 means with noise b = 0.02 cost together" in words(app)
    assert shown["Pure ε"] == "≤ 15.9" and shown["ε at δ = 1e-6"] == "≤ 5.24"
    steps, pure = curve(app, "ε spent after each step", "basic composition")
    assert steps[-1] == 125 and np.interp(100, steps, pure) == pytest.approx(15.8565, rel=1e-5)
    _, losses = curve(app, "ε spent after each step", "privacy loss distribution (tightest)")
    _, zcdp = curve(app, "ε spent after each step", "zCDP")
    assert np.interp(100, steps, losses) == pytest.approx(5.2352, rel=2e-3) and (losses <= zcdp).all()
    assert np.interp(100, steps, zcdp) == pytest.approx(8.8646, rel=2e-3)  # between two checkpoints
    values = eval(printed(app, capsys), {"mappingproxy": dict})
    assert values["epsilon"] == pytest.approx(15.8565, rel=1e-5)
    assert f"≤ {values['rho']:.3g}" == shown["ρ (zCDP)"] and values["mu"] is not None

    half = planner(load, "A given noise", epsilon="1", target="0.1", **SMALL)
    assert "the budget covers 45 steps." in words(half)


def test_a_given_gaussian_noise_on_batches_has_an_epsilon_at_delta_only(load: Load) -> None:
    app = planner(load, "A given noise", noise="Gaussian", currency="(ε, δ)", target="0.04", **SMALL)
    shown = metrics(app)
    assert number(shown["ε at δ = 1e-6"]) == pytest.approx(2.8838, rel=3e-3)  # TV56: μ₀ = 0.5, m/n = 0.1, T = 100
    assert shown["Pure ε"] == shown["ρ (zCDP)"] == shown["μ (Gaussian DP)"] == "—"
    for reason in ("Pure ε does not exist for Gaussian noise", "none that is amplified", "μ is known for Gaussian"):
        assert reason in words(app)


@pytest.mark.parametrize(("target", "said"), [("1e6", "covers more than 20,000 steps"), ("1e-12", "covers 0 steps")])
def test_the_steps_of_extreme_noise(load: Load, target: str, said: str) -> None:
    assert said in words(planner(load, "A given noise", target=target, **SMALL))


def test_rows_that_a_noise_needs(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    app = planner(load, "Rows", epsilon="1", target="0.1", **SMALL)
    assert "Noise of scale 0.1 in each of 100 means needs 2,089 rows; you have 1,000." in words(app)
    assert int(printed(app, capsys)) == 2089
    rows, noise = curve(app, "Noise scale against the number of rows", "noise")
    assert np.exp(np.interp(np.log(2089), np.log(rows), np.log(noise))) == pytest.approx(0.1, rel=1e-3)
    assert MEANS.replaced(rows=2089).noise_scale(PureDP(epsilon=1.0)) <= 0.1
    assert MEANS.replaced(rows=2080).noise_scale(PureDP(epsilon=1.0)) > 0.1


def test_without_a_target_the_noise_is_halved(load: Load) -> None:
    app = planner(load, "Rows", epsilon="1", **SMALL)
    assert "needs 2,000 rows" in words(app)
    assert app.number_input(key="planner_target").placeholder == "half of what the budget gives"


def test_what_accounting_saves(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Specification, section 12: the same noise, b = 0.02, costs 15.8565, 8.8646, 8.1234 or 5.2352 at δ = 1e-6."""
    app = planner(load, "What accounting saves", epsilon="15.8565", **SMALL)
    found = bars(app, "One bar per way to count")
    expected = {"basic composition": 15.8565, "zCDP": 8.8646, "optimal composition": 8.1234}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=2e-5)
    losses = found["privacy loss distribution"]
    assert 5.2352 * (1 - 1e-4) <= losses <= 5.2352 * (1 + 2e-3) and losses == min(found.values())
    unsampled = accounting.tightest(MEANS.replaced(sampling="all").events_of_noise(0.2e-2), 1e-6)  # T Laplace(1)
    assert found["no credit for sampling"] == pytest.approx(unsampled.epsilon, rel=1e-3)
    assert "ε = 5.24 (privacy loss distribution)" in words(app)
    colors = chart(app, "One bar per way to count")[0]["marker"]["color"]
    assert colors.count(colors[list(found).index("privacy loss distribution")]) == 1
    values = json.loads(printed(app, capsys).replace("'", '"'))
    assert sorted(f"{value:.5g}" for value in values.values()) == sorted(f"{value:.5g}" for value in found.values())


def test_no_accountant_at_so_small_a_delta_is_said(load: Load) -> None:
    """Whatever can be set, something is drawn or said."""
    for delta in ("1e-10", "0.001"):
        app = planner(load, "What accounting saves", delta_reading=delta, noise="Gaussian", currency="μ-GDP", mu="20")
        assert len(app.get("plotly_chart")) == 2 or "Raise δ" in words(app) + errors(app)


# ------------------------------------------------------------------------------------------------ start from the accuracy

ACCURACY = "Start from the accuracy"
CURRENCIES: dict[str, tuple[type[Budget], str]] = {
    "Pure ε": (PureDP, "epsilon"),
    "(ε, δ)": (ApproximateDP, "epsilon"),
    "ρ-zCDP": (ZeroConcentratedDP, "rho"),
    "μ-GDP": (GaussianDP, "mu"),
}
BOUNDS: list[tuple[str, ErrorBound, float, dict[str, str]]] = [
    (SmoothConvexBound.title, SmoothConvexBound(), 0.01, {}),
    (
        SmoothConvexBound.title,
        SmoothConvexBound(method="gradient_descent", rows=500, dimension=4, schedule="uniform"),
        0.05,
        {
            "smooth_convex_method": "DP-GD",
            "smooth_convex_rows": "500",
            "smooth_convex_dimension": "4",
            "smooth_convex_schedule": "Uniform",
        },
    ),
    (GameBound.title, GameBound(), 0.3, {}),
    (GameBound.title, GameBound(rows=100_000, draws=4), 0.1, {"game_rows": "100000", "game_draws": "4"}),
]


def stated(text: str) -> float:
    """The amount of "ε = 0.113, δ = 1e-06" or "≤ ρ = 1e-05"."""
    found = re.search(r"= ([\d.e+-]+)", text)
    assert found
    return float(found[1])


@pytest.mark.parametrize("currency", CURRENCIES)
@pytest.mark.parametrize(("title", "bound", "target", "settings"), BOUNDS, ids=["nesterov", "descent", "game", "large"])
def test_the_smallest_budget_meets_the_error_and_a_smaller_one_does_not(
    load: Load,
    capsys: pytest.CaptureFixture[str],
    title: str,
    bound: ErrorBound,
    target: float,
    settings: dict[str, str],
    currency: str,
) -> None:
    app = planner(load, ACCURACY, method=title, error=repr(target), error_currency=currency, **settings)
    assert not app.error
    kind, name = CURRENCIES[currency]
    shown = metrics(app)["Smallest budget"]
    amount = stated(shown)
    found = bound.best(kind(**{name: amount}))
    assert found.bound <= target < bound.best(kind(**{name: amount * 0.989})).bound  # three digits, rounded up
    assert metrics(app)["Steps"] == f"{found.iterations:,}"
    assert printed(app, capsys) == shown
    amounts, proven = curve(app, "Smallest proven error", "bound at the best number of steps")
    at = int(np.searchsorted(amounts, amount))
    assert proven[at - 1] >= target * (1 - 1e-6) and proven[at] <= target * (1 + 1e-6)
    mark = chart(app, "Smallest proven error")[-1]
    assert mark["x"] == pytest.approx([amount], rel=1e-6) and mark["y"] == pytest.approx([target], rel=1e-6)


@pytest.mark.parametrize(("title", "bound", "target", "settings"), BOUNDS, ids=["nesterov", "descent", "game", "large"])
def test_each_lever_halves_the_bound(
    load: Load, title: str, bound: ErrorBound, target: float, settings: dict[str, str]
) -> None:
    app = planner(load, ACCURACY, method=title, error=repr(target), **settings)
    said = words(app)
    amount = stated(metrics(app)["Smallest budget"])
    half = bound.best(PureDP(epsilon=amount)).bound / 2
    sentence = said[said.index("To halve the error") :].split(". ")[0]
    budget = re.search(r"([\d.]+)× the ε", sentence)
    more = re.search(r"([\d.]+)× the rows n", sentence)
    assert budget or more
    if budget:
        assert bound.best(PureDP(epsilon=float(budget[1]) * amount)).bound == pytest.approx(half, rel=1.5e-2)
    if more:
        rows = math.ceil(float(more[1]) * bound.rows)  # type: ignore[attr-defined]
        changed = bound.model_copy(update={"rows": rows}).best(PureDP(epsilon=amount)).bound
        assert changed == pytest.approx(half, rel=1.5e-2)
    fewer = re.search(r"parameters d divided by ([\d.]+)", sentence)
    if fewer:
        dimension = round(bound.dimension / float(fewer[1]))  # type: ignore[attr-defined]
        assert bound.replaced(dimension=dimension).best(PureDP(epsilon=amount)).bound <= half * 1.001
        assert bound.replaced(dimension=dimension + 1).best(PureDP(epsilon=amount)).bound > half


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"error": "1e-9"}, "Without privacy it would be"),
        ({"error": "1e-6", "smooth_convex_iterations": "3"}, "Even without privacy only an error of"),
        ({"error": "1e-6", "method": GameBound.title}, "only"),
        ({"error": "0.1", "smooth_convex_noise": "Gaussian"}, "Gaussian noise never gives pure ε-DP"),
        ({"smooth_convex_strong_convexity": "5"}, "strong convexity"),
        ({"error": "0"}, "Error you can live with must be between"),
    ],
)
def test_an_error_out_of_reach_is_a_sentence(load: Load, settings: dict[str, str], reason: str) -> None:
    app = planner(load, ACCURACY, **settings)
    assert reason.lower() in errors(app).lower()
    assert "Smallest budget" not in metrics(app) and link(app)["planner_tabs"] == ACCURACY


def test_an_error_that_the_smallest_budget_meets_is_an_upper_bound(load: Load) -> None:
    app = planner(load, ACCURACY, error="1000")
    assert metrics(app)["Smallest budget"] == "≤ ε = 0.01" and not app.error


# --------------------------------------------------------------------------------------------------- splitting a budget

SPLIT = "Split a budget"
SHARE = "share of the total"


def row(
    name: str,
    mechanism: str = "Laplace",
    weight: float | None = 1.0,
    sensitivity: float | None = 1.0,
    rows: str = "",
    guarantee: str = SHARE,
    amount: float | None = None,
    delta: float | None = None,
) -> list[Any]:
    return [name, mechanism, weight, sensitivity, rows, guarantee, amount, delta]


def split(load: Load, table: Sequence[Sequence[Any]], **settings: str) -> AppTest:
    return planner(load, SPLIT, split=json.dumps(table), **settings)


def results(app: AppTest) -> dict[str, tuple[float, float, str]]:
    """Share, noise scale and cost of every analysis."""
    frame = app.dataframe[-1].value
    return {row.Analysis: (row.Share, row[3], row.Costs) for row in frame.rename(columns={"Noise scale": "b"}).itertuples()}


EXAMPLE = [row("A", weight=1, sensitivity=1), row("B", weight=4, sensitivity=2)]


def test_the_example_of_the_specification(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Section 8: w = (1, 4), Δ = (1, 2), total 1: ε = (0.284104, 0.715896)."""
    app = split(load, EXAMPLE, epsilon="1")
    found = results(app)
    assert found["A"][0] == pytest.approx(0.284104, rel=1e-5) and found["B"][0] == pytest.approx(0.715896, rel=1e-5)
    assert found["A"][1] == pytest.approx(1 / 0.284104, rel=1e-5)
    assert found["B"][1] == pytest.approx(2 / 0.715896, rel=1e-5) and found["B"][2] == "Laplace, ε = 0.716"
    assert bars(app, "Share of the budget of every analysis") == pytest.approx({"A": 28.4104, "B": 71.5896}, rel=1e-5)
    assert "All together (ε = 1 was given)" in words(app) and metrics(app)["Pure ε"] == "≤ 1"
    lines = dict(line.split() for line in printed(app, capsys).splitlines())
    assert {name: float(value) for name, value in lines.items()} == pytest.approx({k: v[1] for k, v in found.items()})


def test_the_gaussian_example_and_shares_like_the_weights(load: Load) -> None:
    """Section 8: ρ = (0.2, 0.8)."""
    gaussian = [[*analysis[:1], "Gaussian", *analysis[2:]] for analysis in EXAMPLE]
    found = results(split(load, gaussian, currency="ρ-zCDP", rho="1"))
    assert [share for share, *_ in found.values()] == pytest.approx([0.2, 0.8], rel=1e-9)
    app = split(load, EXAMPLE, rule="Like the weights")
    assert [share for share, *_ in results(app).values()] == pytest.approx([0.2, 0.8], rel=1e-9)
    assert link(app)["planner_rule"] == "Like the weights"


def test_own_guarantees_are_paid_first_each_in_its_currency(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        row("Open", "Gaussian"),
        row("Paid ρ", "Gaussian", guarantee="ρ-zCDP", amount=0.02),
        row("Paid μ", "Gaussian", guarantee="μ-GDP", amount=0.2),
        row("Partner", "Only a guarantee is known", guarantee="Pure ε", amount=0.1),
    ]
    app = split(load, table, currency="ρ-zCDP", rho="0.1")
    found = results(app)
    paid = 0.02 + 0.2**2 / 2 + 0.1 * math.tanh(0.05)
    assert found["Open"][0] == pytest.approx((0.1 - paid) / 0.1, rel=1e-9)
    assert found["Paid ρ"][1] == pytest.approx(1 / math.sqrt(0.04)) and math.isnan(found["Paid ρ"][0])
    assert math.isnan(found["Partner"][1])
    assert list(bars(app, "Share of the budget")) == ["Open"]
    assert metrics(app)["ρ (zCDP)"] == "≤ 0.1" and metrics(app)["Pure ε"] == "—"
    assert "Partner None" in printed(app, capsys)


def test_analyses_of_disjoint_rows_share_nothing(load: Load) -> None:
    apart = split(load, [row("North", rows="north"), row("South", rows="south")], epsilon="1")
    assert [share for share, *_ in results(apart).values()] == pytest.approx([1.0, 1.0])
    assert metrics(apart)["Pure ε"] == "≤ 1"
    together = split(load, [row("North", rows="same"), row("South", rows="same")], epsilon="1")
    assert [share for share, *_ in results(together).values()] == pytest.approx([0.5, 0.5])


def test_two_analyses_of_one_name_have_two_bars(load: Load) -> None:
    app = split(load, [row("A"), row("A")], epsilon="1")
    assert bars(app, "Share of the budget") == pytest.approx({"A": 50.0, "A (2)": 50.0})


@pytest.mark.parametrize("currency", list(CURRENCIES))
def test_a_table_in_every_currency(load: Load, capsys: pytest.CaptureFixture[str], currency: str) -> None:
    app = split(load, [*EXAMPLE, row("C", "Selection")], currency=currency)
    assert not app.error
    assert sum(share for share, *_ in results(app).values()) == pytest.approx(1, abs=1e-3)
    values = [float(line.split()[1]) for line in printed(app, capsys).splitlines()]
    assert values == pytest.approx([scale for _, scale, _ in results(app).values()], rel=1e-9)


@pytest.mark.parametrize(
    ("table", "settings", "said"),
    [
        ([row("Survey", guarantee="Pure ε")], {}, "State the amount of the guarantee of Survey."),
        ([row("Survey", mechanism="Magic")], {}, "Choose a mechanism for Survey."),
        ([row("Noisy", "Gaussian")], {}, "Noisy: Gaussian noise never gives pure ε-DP"),
        ([row("Black box", "Only a guarantee is known")], {}, "Black box: what its noise costs"),
        ([row("Small"), row("Greedy", guarantee="Pure ε", amount=3.0)], {}, "use up the total"),
        ([row("Mean"), row("Sum", guarantee="(ε, δ)", amount=0.1)], {}, "Sum has no pure ε"),
        ([row("Wild", weight=-3.0)], {}, "Wild"),
        ([row("Wide", guarantee="Pure ε", amount=1e9)], {}, "Wide"),
        ([row("Mean")], {"currency": "Attack bound"}, "not as Attack bound"),
        ([row("Mean")], {"currency": "Rényi (α, ε)"}, "not as Rényi"),
    ],
)
def test_a_mistake_in_the_table_names_the_analysis(
    load: Load, table: list[list[Any]], settings: dict[str, str], said: str
) -> None:
    app = split(load, table, **settings)
    assert said in errors(app) and len(app.error) == 1


def test_a_link_restores_the_table(load: Load) -> None:
    table = [row("Größe <b>", "Selection", 2.0, 0.5, "x"), row("P", guarantee="(ε, δ)", amount=0.3, delta=1e-7)]
    app = split(load, table, currency="(ε, δ)", rule="Like the weights")
    offered = link(app)
    assert json.loads(offered["planner_split"]) == table
    again = load("budget_planner", **offered)
    assert link(again) == offered and results(again) == results(app)
    # The table travels with the link while another tab is open, too.
    elsewhere = load("budget_planner", **{**offered, "planner_tabs": "Rows"})
    assert link(elsewhere) == {**offered, "planner_tabs": "Rows"}
    assert "planner_split" not in link(planner(load, SPLIT))


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "3", "[[]]", '["abcdefgh"]', "[[1,2,3,4,5,6,7,8]]", "[[[1],{},NaN,1e999,[],null,null,2]]"]
)
def test_a_table_that_cannot_be_read_is_never_a_traceback(load: Load, text: str) -> None:
    app = planner(load, SPLIT, split=text)
    assert app.warning or app.error or results(app)


def test_a_table_may_be_empty_but_not_endless(load: Load) -> None:
    assert "Add an analysis to the table." in words(split(load, []))
    endless = split(load, [row(f"A{k}") for k in range(500)])
    assert "cannot be read" in endless.warning[0].value and "Training" in results(endless)


# ------------------------------------------------------------------------------------------------------ all tabs together


def test_a_link_restores_the_controls_of_every_tab_whichever_is_open(load: Load) -> None:
    settings = {
        "planner_method": "Vertex sampling",
        "planner_error": "0.5",
        "planner_error_currency": "ρ-zCDP",
        "planner_game_rows": "5000",
        "planner_game_draws": "3",
        "planner_rule": "Like the weights",
        "planner_split": json.dumps([row("A", weight=2.0)], ensure_ascii=False, separators=(",", ":")),
        "planner_target": "0.5",
    }
    for tab in TABS:
        app = load("budget_planner", planner_tabs=tab, **settings)
        assert link(app) == settings | ({} if tab == "Noise" else {"planner_tabs": tab})
        assert app.number_input(key="planner_game_draws").value == 3


CORNERS: list[dict[str, str]] = [
    {"epsilon": "50", "currency": "(ε, δ)", "delta": "0.001", "sampling": "Poisson", "batch_fraction": "0.0005"},
    {"mu": "20", "currency": "μ-GDP", "sampling": "Disjoint blocks", "batch_fraction": "0.3", "iterations": "1"},
    {"rho": "100", "currency": "ρ-zCDP", "iterations": "1", "rows": "20"},
    {"rho": "1e-05", "currency": "ρ-zCDP", "rows": "10000000", "delta_reading": "1e-10"},
    {"epsilon": "0.01", "iterations": "10000", "clip": "0.001", "batch_fraction": "0.0001"},
    {"epsilon": "50", "iterations": "1", "rows": "20", "clip": "1000"},
    {"epsilon": "100", "order": "1000", "currency": "Rényi (α, ε)", "batch_fraction": "0.5"},
    {"epsilon": "0.0001", "order": "1.01", "currency": "Rényi (α, ε)", "sampling": "All rows"},
    {"true_positive_rate": "0.999", "false_positive_rate": "0.0001", "currency": "Attack bound", "sampling": "Poisson"},
    {"true_positive_rate": "0.9", "currency": "Attack bound", "batch_fraction": "0.01"},
    {"true_positive_rate": "0.0002", "false_positive_rate": "0.0001", "currency": "Attack bound"},
    {"target": "1e-12", "batch_fraction": "0.01"},
    {"target": "1e6", "sampling": "Poisson", "batch_fraction": "0.01", "currency": "μ-GDP"},
]


@pytest.mark.parametrize("noise", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("settings", CORNERS, ids=lambda settings: ",".join(settings.values()))
def test_every_tab_survives_extreme_settings(load: Load, settings: dict[str, str], noise: str) -> None:
    """What cannot be computed is a sentence; the page never fails, and no figure holds anything but numbers."""
    app = planner(load, noise=noise, **settings)
    for tab in TABS:
        app.query_params["planner_tabs"] = tab
        app.run()
        assert not app.exception and app.session_state["planner_tabs"] == tab
        assert app.error or len(app.get("plotly_chart")) == 2 or app.info
        for figure in app.get("plotly_chart"):
            for trace in chart(app, figure.proto.alt):
                assert all(np.isfinite(trace[axis]).all() for axis in "xy" if trace[axis].dtype.kind in "fi")
        assert not any("nan" in metric.value or "inf" in metric.value for metric in app.metric)


@pytest.mark.parametrize("algorithms", [SmoothConvexBound.title, GameBound.title])
def test_the_ends_of_every_control_of_the_accuracy_tab(load: Load, algorithms: str) -> None:
    app = planner(load, ACCURACY, method=algorithms)
    for slider in [slider.key for slider in app.main.select_slider]:
        name = slider.removesuffix("_slider")
        before = app.number_input(key=name).value
        for end in (0, -1):
            ends = app.select_slider(key=slider).options
            app.number_input(key=name).set_value(float(ends[end].replace(",", ""))).run()
            assert not app.exception
            assert app.error or "Smallest budget" in metrics(app)
        app.number_input(key=name).set_value(before).run()


def test_a_budget_that_protects_nobody_is_refused_in_words(load: Load) -> None:
    """δ above the chance to be in a batch: whole batches could be released."""
    app = planner(
        load, currency="(ε, δ)", epsilon="1", delta="0.001", batch_fraction="0.0005", rows="10000", iterations="1"
    )
    assert "releasing whole batches without any noise" in errors(app)


def test_a_single_step_is_the_closed_form(load: Load) -> None:
    app = planner(load, epsilon="1", iterations="1", rows="1000")
    assert metrics(app)["Noise scale b per step"] == "0.002"
    spent = planner(load, "A given noise", epsilon="1", iterations="1", rows="1000", target="0.002")
    assert metrics(spent)["Pure ε"] == "≤ 1" and "covers 1 steps" in words(spent)
