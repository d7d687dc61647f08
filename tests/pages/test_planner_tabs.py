"""The what-ifs of the budget planner: each tab shows the numbers of THEORY.md in words, figure and Python lines."""

import json
import math
import re

import numpy as np
import pytest

from dpviz.experiments.accuracy import ErrorBound
from dpviz.families.accelerated.accuracy import SmoothConvexBound
from dpviz.families.mirror_descent.accuracy import GameBound
from dpviz.numbers import short_up
from dpviz.plots.planner_figures import RATES
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.privacy.tradeoffs import tradeoff
from dpviz.ui.budget_planner import page
from tests.confirming import confirmed
from tests.pages.planner import SMALL, SOLVE, TABS, planner, printed, settings_of
from tests.pages.reading import Load, bars, charts, curve, metrics, number, said, traces, words

MEANS = NoisyMeans(rows=1000, batch_fraction=0.1)


# -------------------------------------------------------------------------------------------------- noise, steps, rows


@pytest.mark.parametrize("noise", ["Laplace", "Gaussian"])
@pytest.mark.parametrize(
    "settings",
    [
        {"currency": "Attack bound", "batch_fraction": "0.001"},
        {"currency": "Attack bound", "batch_fraction": "0.01"},
        {"currency": "(ε, δ)", "epsilon": "1", "delta": "0.001", "batch_fraction": "0.0001", "rows": "1000000"},
    ],
    ids=["attack bound, 0.001", "attack bound, 0.01", "(1, 1e-3)"],
)
def test_a_point_without_a_plan_is_a_gap(load: Load, settings: dict[str, str], noise: str) -> None:
    """A single step on so small a batch would be released without any noise; T = 100 steps have a plan."""
    app = planner(load, iterations="100", noise=noise, **settings)
    assert not app.exception and not app.error
    assert "Noise scale" in " ".join(metrics(app))
    steps, scales = curve(app, "Noise scale in every mean", "noise in every mean")
    assert 1 not in steps and {100, 10_000} <= set(steps.tolist()) and np.isfinite(scales).all()
    assert "No point for T = 1" in words(app) and "only because the batch is rare" in words(app)


def test_a_given_noise_in_every_currency_and_its_steps(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """THEORY.md, section 11: b = 0.02 is ε₀ = 1 in each batch; pure 15.8565, zCDP 8.8646, PLD 5.2352. TV45: 45."""
    app = planner(load, "Steps", target="0.02", attacker="Trade-off curve", **SMALL)
    _, missed = curve(app, "Lowest possible", "the noise below (100 noisy means)")  # not the noise that the budget buys
    np.testing.assert_allclose(missed, tradeoff(MEANS.events_of_noise(0.02), RATES), atol=1e-5)
    shown = metrics(app)
    assert "100 means with noise b = 0.02 cost together" in words(app)
    assert shown["Pure ε"] == "≤ 15.9" and shown["ε at δ = 10⁻⁶"] == "≤ 5.24"
    steps, pure = curve(app, "ε spent after each step", "basic composition")
    assert steps[-1] == 125 and np.interp(100, steps, pure) == pytest.approx(15.8565, rel=1.1e-3)
    _, losses = curve(app, "ε spent after each step", "privacy loss distribution (tightest)")
    _, zcdp = curve(app, "ε spent after each step", "zCDP")
    assert np.interp(100, steps, losses) == pytest.approx(5.2352, rel=2e-3) and (losses <= zcdp).all()
    assert np.interp(100, steps, zcdp) == pytest.approx(8.8646, rel=1.1e-3)
    values = eval(printed(app, capsys), {"mappingproxy": dict})
    assert values["epsilon"] == pytest.approx(15.8565, rel=1e-5)
    assert f"≤ {short_up(values['rho'])}" == shown["ρ (zCDP)"] and values["mu"] is not None

    half = planner(load, "Steps", epsilon="1", target="0.1", **SMALL)
    assert "the budget covers 45 steps." in words(half)


@pytest.mark.parametrize(
    ("currency", "settings"),
    [
        ("Pure ε", {}),
        ("(ε, δ)", {"epsilon": "1", "batch_fraction": "0.2"}),
        ("ρ-zCDP", {}),
        ("μ-GDP", {"noise": "Gaussian"}),
        ("Rényi (α, ε)", {}),
        ("Attack bound", {"batch_fraction": "0.5"}),
    ],
)
def test_the_budget_ends_where_its_own_curve_meets_it(load: Load, currency: str, settings: dict[str, str]) -> None:
    """The mark and the curve are in one currency: pure ε against ε at δ ended at 50 steps and crossed at 120."""
    app = planner(load, "Steps", currency=currency, **settings)
    covered = re.search(r"the budget covers ([\d,]+) steps", words(app))
    assert covered
    steps = int(covered[1].replace(",", ""))
    own = "ε spent after each step" if currency == "(ε, δ)" else "Privacy spent after each step"
    *lines, limit, mark = traces(app, own)
    assert mark["x"] == [steps] and mark["text"] == [f"the budget lasts {steps:,} steps"]
    budget = float(limit["y"][0])
    times, spent = min(((line["x"], line["y"]) for line in lines), key=lambda line: line[1][-1])
    at = dict(zip(times.tolist(), spent.tolist(), strict=True))
    assert at[steps] <= budget * (1 + 2e-3)  # a grid of losses costs 0.2 %
    assert at[min(time for time in times.tolist() if time > steps)] > budget


def test_a_given_gaussian_noise_on_batches_has_an_epsilon_at_delta_only(load: Load) -> None:
    app = planner(load, "Steps", noise="Gaussian", currency="(ε, δ)", target="0.04", **SMALL)
    shown = metrics(app)
    assert number(shown["ε at δ = 10⁻⁶"]) == pytest.approx(2.8838, rel=3e-3)  # TV56: μ₀ = 0.5, m/n = 0.1, T = 100
    assert shown["Pure ε"] == shown["ρ (zCDP)"] == shown["μ (Gaussian DP)"] == "—"
    for reason in (
        "Gaussian noise has no pure ε (Gaussian, μ = 0.5).",
        "No amplified ρ is known for batches (Gaussian, μ = 0.5, on batches of 100 of 1,000 rows).",
        "No amplified μ is known for batches (Gaussian, μ = 0.5, on batches of 100 of 1,000 rows).",
    ):
        assert reason in words(app)


def test_what_accounting_saves(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """THEORY.md, section 11: the same noise, b = 0.02, costs 15.8565, 8.8646, 8.1234 or 5.2352 at δ = 1e-6."""
    app = planner(load, "Accounting", epsilon="15.8565", **SMALL)
    found = bars(app, "One bar per way to count")
    expected = {"basic composition": 15.8565, "zCDP": 8.8646, "optimal composition": 8.1234}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=2e-5)
    losses = found["privacy loss distribution"]
    assert 5.2352 * (1 - 1e-4) <= losses <= 5.2352 * (1 + 2e-3) and losses == min(found.values())
    unsampled = accountants.tightest(MEANS.replaced(sampling="all").events_of_noise(0.2e-2), 1e-6)  # T Laplace(1)
    assert found["no credit for sampling"] == pytest.approx(unsampled.epsilon, rel=1e-3)
    assert "ε = 5.24 (privacy loss distribution)" in words(app)
    colors = traces(app, "One bar per way to count")[0]["marker"]["color"]
    assert colors.count(colors[list(found).index("privacy loss distribution")]) == 1
    values = json.loads(printed(app, capsys).replace("'", '"'))
    assert sorted(f"{value:.5g}" for value in values.values()) == sorted(f"{value:.5g}" for value in found.values())


# ---------------------------------------------------------------------------------------------- start from the accuracy

ACCURACY = "Budget"
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
        SmoothConvexBound(method="gradient_descent", rows=5000, dimension=4, schedule="uniform"),
        0.05,
        {
            "smooth_convex_method": "DP-GD",
            "rows": "5000",
            "smooth_convex_dimension": "4",
            "smooth_convex_schedule": "Uniform",
        },
    ),
    (GameBound.title, GameBound(), 0.3, {}),
    (GameBound.title, GameBound(rows=100_000, draws=4), 0.2, {"rows": "100000", "game_draws": "4"}),
]


def stated(text: str) -> float:
    """The amount of "ε = 0.113, δ = 10⁻⁶" or "≤ ρ = 10⁻⁵"."""
    return number(text.split("= ")[1].split(", δ")[0])


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
    steps = str(bound.iterations)  # type: ignore[attr-defined]
    given = {"method": title, "relative": repr(target), "error_currency": currency, "iterations": steps}
    app = planner(load, ACCURACY, **given, **settings)
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
    mark = traces(app, "Smallest proven error")[-1]
    assert mark["x"] == pytest.approx([amount], rel=1e-6) and mark["y"] == pytest.approx([target], rel=1e-6)


def test_the_lines_for_the_smallest_budget_have_the_delta_of_the_page(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    app = planner(load, ACCURACY, error_currency="(ε, δ)", delta_reading="1e-9")
    shown = metrics(app)["Smallest budget"]
    assert shown.endswith("δ = 10⁻⁹") and printed(app, capsys) == shown


@pytest.mark.parametrize(("title", "bound", "target", "settings"), BOUNDS, ids=["nesterov", "descent", "game", "large"])
def test_each_lever_halves_the_bound(
    load: Load, title: str, bound: ErrorBound, target: float, settings: dict[str, str]
) -> None:
    steps = str(bound.iterations)  # type: ignore[attr-defined]
    app = planner(load, ACCURACY, method=title, relative=repr(target), iterations=steps, **settings)
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
        ({"relative": "1e-6", "rows": "20"}, "Without privacy it would be"),
        ({"relative": "1e-6", "iterations": "3"}, "Even without privacy only an error of"),
        ({"relative": "1e-6", "method": GameBound.title}, "only"),
        ({"relative": "0.1", "noise": "Gaussian"}, "Gaussian noise never gives pure ε-DP"),
        ({"smooth_convex_strong_convexity": "5"}, "strong convexity"),
        ({"smooth_convex_dimension": "0"}, "must be between"),
    ],
)
def test_an_error_out_of_reach_is_a_sentence(load: Load, settings: dict[str, str], reason: str) -> None:
    app = planner(load, ACCURACY, **settings)
    assert reason.lower() in said(app).lower()
    assert "Smallest budget" not in metrics(app) and settings_of(app)["planner_solve"] == ACCURACY


# ---------------------------------------------------------------------------------------------------- the first picture


@pytest.mark.parametrize(("title", "bound", "settings"), [(b[0], b[1], b[3]) for b in BOUNDS], ids=["n", "d", "g", "l"])
@pytest.mark.parametrize("currency", ["Pure ε", "(ε, δ)"])
def test_the_first_picture_of_noisy_steps_is_the_error_or_the_rows_of_a_model(
    load: Load, title: str, bound: ErrorBound, settings: dict[str, str], currency: str
) -> None:
    """Its constants are those of "Budget", drawn or not."""
    kind, _ = CURRENCIES[currency]
    given = {"about": "T noisy steps", "currency": currency, "epsilon": "1", "relative": "0.1", "method": title}
    given |= {"iterations": str(bound.iterations), **settings}  # type: ignore[attr-defined]
    budget = kind(epsilon=1.0)  # type: ignore[call-arg]
    app = planner(load, "Accounting", **given)
    best = bound.best(budget)
    assert not app.error and f"≤ {short_up(best.bound)} after {best.iterations:,} steps" in words(app)
    assert ("Yes: at" in words(app)) == (best.bound <= 0.1)
    mark = traces(app, "Proven error against the budget")[-1]
    assert mark["x"] == pytest.approx([1.0]) and mark["y"] == pytest.approx([best.bound], rel=1e-3)
    app = planner(load, "Accounting", question="Rows I need", **given)
    (needed,) = traces(app, "Proven error against the number of rows")[-1]["x"]
    rows = round(float(needed))
    assert f"needs {rows:,} rows" in words(app)
    enough, fewer = (bound.model_copy(update={"rows": n}).best(budget).bound for n in (rows, rows - 1))
    assert enough <= 0.1 < fewer
    assert (
        settings_of(app)["planner_question"] == "Rows I need"
        and settings_of(app)["planner_method" if title == GameBound.title else "planner_about"]
    )


@pytest.mark.parametrize("settings", [{"currency": "Attack bound"}, {"smooth_convex_strong_convexity": "5"}])
def test_where_no_bound_exists_the_noise_of_a_step_and_the_reason_are_said(
    load: Load, settings: dict[str, str]
) -> None:
    app = planner(load, "Accounting", about="T noisy steps", **settings)
    assert "Noise in each of T = 100 means: b = " in words(app)
    assert not [alt for alt in charts(app) if alt.startswith("Proven error")]
    assert "No error bound" in words(app) or "strong convexity" in words(app)


def test_what_is_released_opens_its_section_and_a_section_keeps_what_was_set_in_another(load: Load) -> None:
    app = load("budget_planner")
    app.segmented_control(key="planner_about").set_value("steps").run()
    assert app.session_state["planner_section"] == SOLVE and not app.exception
    app.selectbox(key="planner_solve").set_value("budget").run()
    app.number_input(key="planner_smooth_convex_dimension").set_value(50).run()
    said = next(note.value for note in app.markdown if "10,000 rows give" in note.value)
    app.segmented_control(key="planner_section").set_value("Accounting").run()
    for _ in range(2):
        assert not app.exception and settings_of(app)["planner_smooth_convex_dimension"] == "50"
        assert settings_of(app)["planner_solve"] == "Budget" and said in [note.value for note in app.markdown]
        app.run()
    app.segmented_control(key="planner_about").set_value("statistics").run()
    assert app.session_state["planner_section"] == TABS[0] and not app.exception


# ----------------------------------------------------------------------------------------- a person with several rows


def test_the_rows_of_a_person_are_in_every_number_and_sentence(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand, of 100 people 60 have one row and 40 have six: two of each kept drop 160 of 300 rows, of 40 people."""
    table = json.dumps([["one", 1, 60], ["six", 6, 40]])
    app = planner(load, "People", rows_per_person="2", people=table)
    assert "53.3 % of the rows are dropped, of 40 % of the people" in words(app)
    assert "The noise is 2 times that of one row" in words(app)
    assert "A number is too large" in said(planner(load, "People", people='[["all", 1e400, 5]]'))
    on_batches = planner(load, "People", rows_per_person="2", people=table, batch_fraction="0.01")  # there 2.67 times
    assert "The noise is at least 2 times" in words(on_batches)
    kept, dropped = curve(app, "Share of the rows that are dropped", "rows that are dropped")
    assert dropped[kept == 6] == 0 and dropped[kept == 1] == pytest.approx(200 / 3)
    app = planner(load, "Noise", rows_per_person="5", **SMALL)
    assert printed(app, capsys) == str(MEANS.replaced(rows_per_person=5).noise_scale(PureDP(epsilon=2.0)))
    assert metrics(app)["Noise scale b per step"] == "2.09"  # 2.0841: less noise would not suffice
    assert "All rows of one person, at most 5," in words(app) and "whose rows were replaced or not" in words(app)
    steps = planner(load, "Noise", rows_per_person="2", about="T noisy steps")
    assert "No bound for several rows of a person" in words(steps)


def test_the_rows_of_people_are_counted_in_a_file_and_marked_until_the_visitor_knew_them(load: Load) -> None:
    app = planner(load, "People", rows_per_person="2")
    data = "who;x\n" + "".join(f"{'' if k < 3 else k};1\n" * (1 if k % 2 else 7) for k in range(60))
    confirmed(app.file_uploader[0].upload("mine.csv", data.encode(), "text/csv").run())
    app.selectbox(key="planner_people_column").set_value("who").run()
    app.button(key="planner_people_upload_fill").click().run()
    filled = json.loads(settings_of(app)["planner_people"])
    # The fifteen rows without a name are those of one person.
    assert filled == [["From the data", 1.0, 29.0], ["From the data", 7.0, 28.0], ["From the data", 15.0, 1.0]]
    app.button(key="planner_people_duplicate").click().run()
    for row in (0, 1, 1):  # all but the copy, which is of the file, too
        app.selectbox(key="planner_people_row").set_value(row).run()
        app.button(key="planner_people_remove").click().run()
    assert json.loads(settings_of(app)["planner_people"]) == [["From the data (copy)", 1.0, 29.0]]
    assert any("taken from the data" in badge.value for badge in app.markdown)
    assert "read from the data: numbers of rows" in words(app)
    app.button(key="planner_people_knew").click().run()
    assert [name for name, *_ in json.loads(settings_of(app)["planner_people"])] == ["People"]


def test_what_each_training_of_a_search_may_cost(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    app = planner(load, "Search", trainings="40")
    assert "ε = 1 for each" in words(app) and "ε = 0.05 for each" in words(app)
    factors = bars(app, "Noise of each training against")
    lines = printed(app, capsys)
    assert sorted(factors.values()) == pytest.approx([2, 3, 40, 40]) and "PureDP(epsilon=1.0)" in lines
    below = math.log(39 * 19) / 1000  # of a thousand held-out rows, at ε = 2 and a range of 2/1000
    assert float(lines.splitlines()[-1]) == pytest.approx(below)
    assert f"at most {short_up(100 * below)} % of these rows fewer" in words(app)
    app = planner(load, "Search", trainings="40", held_out="500", rows_per_person="3", currency="μ-GDP")
    assert [*bars(app, "Noise of each training against").values()] == pytest.approx([40**0.5] * 2)
    assert "nobody has rows on both sides, and at most 3 anywhere" in words(app)
    assert "State the total as (ε, δ)" in words(app)


def test_a_training_of_another_library_is_read_and_its_settings_are_taken(load: Load) -> None:
    app = planner(load, "DP-SGD", sampling="Poisson", noise="Gaussian", currency="(ε, δ)", batch_fraction="0.1")
    assert any("noise_multiplier = " in code.value for code in app.code)
    app.text_area(key="planner_their_settings").set_value("noise_multiplier=2, sample_rate=0.01, steps=1000").run()
    assert metrics(app)["ε at δ = 10⁻⁶"] == "≤ 0.722"
    app.button(key="planner_take_theirs").click().run()
    assert settings_of(app)["planner_batch_fraction"] == "0.01" and settings_of(app)["planner_target"] == "0.02"
    assert "1,000 means with noise σ = 0.02" in words(app) and not app.exception
    assert "do not translate" in words(planner(load, "DP-SGD"))


# ---------------------------------------------------------------------------------------------------- all tabs together


def test_a_link_restores_the_controls_of_every_tab_whichever_is_open(load: Load) -> None:
    settings = {
        "planner_method": "Vertex sampling",
        "planner_solve": "Rows",
        "planner_about": "T noisy steps",
        "planner_question": "Rows I need",
        "planner_error_currency": "ρ-zCDP",
        "planner_game_strategies_x": "50",
        "planner_game_draws": "3",
        "planner_rule": "Like the weights",
        "planner_split": '[["A","Laplace",2.0,1.0,"","share of the total",null,null]]',
        "planner_target": "0.5",
    }
    for tab in TABS:
        app = load("budget_planner", planner_section=tab, **settings)
        assert settings_of(app) == settings | ({} if tab == TABS[0] else {"planner_section": tab})
        for name, value in (("planner_section", SOLVE), ("planner_solve", "budget")):
            app.session_state[name] = value
            app.run()
        assert app.number_input(key="planner_game_draws").value == 3


CORNERS: list[dict[str, str]] = [
    {"epsilon": "50", "currency": "(ε, δ)", "delta": "0.001", "sampling": "Poisson", "batch_fraction": "0.1"},
    {"mu": "20", "currency": "μ-GDP", "sampling": "Disjoint blocks", "batch_fraction": "0.3", "rows_per_person": "7"},
    {"rho": "100", "currency": "ρ-zCDP", "iterations": "1", "rows": "20", "rows_per_person": "1000"},
    {"rho": "1e-05", "currency": "ρ-zCDP", "rows": "10000000", "delta_reading": "1e-10"},
    {"epsilon": "0.01", "iterations": "10000", "clip": "0.001", "batch_fraction": "0.0001", "rows_per_person": "1000"},
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
    app = planner(load, TABS[0], noise=noise, **settings)
    for tab in TABS:
        app.session_state["planner_section"] = tab
        app.run()
        assert app.session_state["planner_section"] == tab
        for name in [None, *page.SOLVE] if tab == SOLVE else [None]:
            if name is not None:
                app.session_state["planner_solve"] = name
                app.run()
            assert not app.exception
            assert app.error or len(charts(app)) >= 2 or app.info or app.metric or app.code
            for alt in charts(app):
                for trace in traces(app, alt):
                    for axis in "xy":
                        assert trace[axis].dtype.kind == "U" or np.isfinite(trace[axis]).all(), (tab, trace)
            assert not any(word in metric.value for word in ("nan", "inf", "∞") for metric in app.metric)
