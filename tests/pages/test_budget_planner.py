"""The budget planner: every guarantee is read in every currency that it implies, in words, and for every sampling."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.deployments import deployments
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.ui.budget_planner import texts
from dpviz.ui.budget_planner.view import ALL_CURRENCIES
from tests.pages.planner import ANALYSES, SMALL, SOLVE, SOLVED, VIEWS, WORTH, planner, settings_of
from tests.pages.reading import Load, bars, curve, drawn, metrics, number, traces, words

READ = ("Pure ε", "ε at δ = 10⁻⁶", "ρ (zCDP)", "μ (Gaussian DP)", "Rényi at α = 8")
# What is stated, and what is read of it, rounded up, in the order above; dpviz/privacy/THEORY.md, sections 3, 4, 14.
STATED = {
    "Pure ε": ({"epsilon": "1"}, ("1", "≤ 1", "≤ 0.463", "≤ 1.24", "≤ 0.956")),
    "(ε, δ)": ({"epsilon": "1"}, ("—", "1", "—", "—", "—")),
    "ρ-zCDP": ({"rho": "0.5"}, ("—", "≤ 5.23", "0.5", "—", "4")),
    "μ-GDP": ({"mu": "1"}, ("—", "4.89", "≤ 0.5", "1", "≤ 4")),
    "Rényi (α, ε)": ({"epsilon": "1"}, ("—", "≤ 2.55", "—", "—", "1")),
    "Attack bound": ({}, ("—", "—", "—", "—", "—")),
}
REASONS = {
    "Pure ε": "Pure ε does not follow from this guarantee: algorithms that have it may exceed every ε.",
    "ε at δ = 10⁻⁶": "No ε follows at this δ from this guarantee alone.",
    "ρ (zCDP)": "ρ does not follow from this guarantee",
    "μ (Gaussian DP)": "No formula gives a μ",
    "Rényi at α = 8": "No Rényi divergence of this order follows from this guarantee.",
}


# -------------------------------------------------------------------------------------------- what a guarantee is worth


@pytest.mark.parametrize("currency", STATED)
def test_a_guarantee_is_read_in_every_currency_or_the_page_says_why_not(load: Load, currency: str) -> None:
    settings, expected = STATED[currency]
    app = planner(load, WORTH, currency=currency, **settings)
    shown = metrics(app)
    assert tuple(shown[name] for name in READ) == expected
    for name, value in zip(READ, expected, strict=True):
        assert (REASONS[name] in words(app)) == (value == "—")
        (card,) = [metric for metric in app.metric if metric.label == name]
        assert value != "—" or REASONS[name] in card.help
    assert not app.error


@pytest.mark.parametrize(
    ("settings", "success", "noticed", "suspicion"),
    [  # dpviz/privacy/THEORY.md, section 5: advantage .462117, TPR .0271828; .382925 and .0923622; .682689 and .372081
        ({"epsilon": "1"}, "73.2", "2.72", "73.2"),
        ({"epsilon": "0.1"}, "52.5", "1.11", "52.5"),
        ({"epsilon": "0.4"}, "59.9", "1.5", "59.9"),
        ({"currency": "μ-GDP", "mu": "1"}, "69.2", "9.24", "90.3"),
        ({"currency": "μ-GDP", "mu": "2"}, "84.2", "37.3", "97.4"),
        ({"currency": "Attack bound"}, "83.4", "5", "83.4"),
    ],
)
def test_the_guarantee_in_words(
    load: Load, settings: dict[str, str], success: str, noticed: str, suspicion: str
) -> None:
    said = words(planner(load, WORTH, **settings))
    assert f"right in at most {success} of 100 fair coin-toss cases" in said
    assert f"notices a replaced row at most {noticed} % of the time" in said
    assert f"becomes at most {suspicion} % after" in said
    for praise in ("badge[", "strong", "weak", "fair ", "safe", "little protection"):  # consequences, no marks
        assert praise not in said.replace("fair coin-toss", "")


def test_a_table_that_cannot_be_planned_has_no_assumptions_of_noisy_means(load: Load) -> None:
    app = planner(load, WORTH, currency="Pure ε", analyses_noise="Gaussian")
    assert texts.MEANS_DECLARED.strip() not in words(app)
    assert texts.MEANS_DECLARED.strip() in words(planner(load, WORTH, about="T noisy steps"))


@pytest.mark.parametrize(("currency", "budget"), ALL_CURRENCIES.items())
def test_which_way_leads_to_more_privacy_is_said_of_every_number(
    load: Load, currency: str, budget: type[Budget]
) -> None:
    """Of an attack bound, fewer false alarms at the same detection mean less noise: what is said is what happens."""
    app = planner(load, currency=budget.name, noise="Gaussian")
    assert budget.direction in words(app) and words(app).count("more privacy, more noise") == 1
    means, stated = NoisyMeans(noise="laplace" if budget is PureDP else "gaussian"), budget()
    for control in budget.controls():
        larger = f"larger {control.symbol}" in budget.direction
        assert larger or control.symbol in budget.direction.partition("or larger")[0]
        moved = stated.replaced(**{control.name: getattr(stated, control.name) * (1.1 if larger else 1 / 1.1)})
        assert means.noise_scale(moved) > means.noise_scale(stated)
        direction = "Larger" if larger else "Smaller"
        assert direction in control.help and "more privacy, more noise" in control.help


# ------------------------------------------------------------------------------------------------- who is protected

SCHEMES = {  # the relation, what is said of it, and b for ε = 1, n = 1000, m = 100, T = 100, C = 1
    "All rows": ("replace-one", "Every mean uses all rows", 2 * 100 / 1000),
    "Without replacement": ("replace-one", "must stay secret", 0.208842080822),
    "Poisson": ("add/remove-one", "One row may be added or removed", 0.208842080822 / 2),
    "Disjoint blocks": ("replace-one", "each block is used once per pass", 2 * 10 / 100),  # ten passes share the budget
}


def protected(app: AppTest) -> list[str]:
    """Who is protected, as the page says first."""
    return [caption.value for caption in app.caption if "Who is protected" in caption.value]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_sampling_scheme_says_its_relation_and_has_its_noise(load: Load, scheme: str) -> None:
    relation, told, scale = SCHEMES[scheme]
    app = planner(load, epsilon="1", sampling=scheme, **SMALL)
    (who,) = protected(app)
    assert f"Who is protected: {relation}." in who and told in who
    assert f"All releases here hold under {relation} neighbours." in words(app)
    added = relation == "add/remove-one"
    assert ("row was in the data or not" in words(app)) == added
    assert ("row was replaced or not" in words(app)) == (not added)
    curves = words(planner(load, sampling=scheme, attacker="Trade-off curve", **SMALL))
    assert f"No test of one row {'added or removed' if added else 'replaced'}" in curves
    assert scale <= number(metrics(app)["Noise scale b per step"]) <= 1.01 * scale
    steps, noise = curve(app, "Noise scale in every mean", "noise in every mean")
    if scheme != "Disjoint blocks":  # whole passes make a staircase
        assert np.interp(np.log(100), np.log(steps), np.log(noise)) == pytest.approx(np.log(scale), abs=2e-2)


def test_poisson_sampling_halves_the_sensitivity_in_every_tab(load: Load) -> None:
    """C/m instead of 2C/m: half the noise, half the rows; the same noise costs the same in both relations."""
    exchanged, added = (
        planner(load, "Rows", epsilon="1", target="0.1", sampling=scheme, **SMALL)
        for scheme in ("Without replacement", "Poisson")
    )
    assert "needs 2,089 rows" in words(exchanged) and "needs 1,045 rows" in words(added)
    (_, one), (_, other) = (curve(app, "Noise scale against the number of rows", "noise") for app in (exchanged, added))
    assert one[0] > other[0]
    savings = planner(load, "Accounting", epsilon="1", sampling="Poisson", **SMALL)
    assert "no credit for sampling" in bars(savings, "One bar per way to count")


def test_a_batch_of_all_rows_is_not_called_a_secret_batch(load: Load) -> None:
    (who,) = protected(planner(load))
    assert "Every mean uses all rows" in who and "secret" not in who


# ------------------------------------------------------------------------------------------------------ ends, and links


@pytest.mark.parametrize("currency", STATED)
def test_the_ends_of_every_control_beside_the_tabs(load: Load, currency: str) -> None:
    noise = "Laplace" if currency in ("Pure ε", "Rényi (α, ε)") else "Gaussian"  # where there is such a noise
    app = planner(load, currency=currency, noise=noise, batch_fraction="0.1", rows="1000", iterations="10")
    for slider in [slider.key for slider in app.sidebar.select_slider]:
        name = slider.removesuffix("_slider")
        before = app.number_input(key=name).value
        for end in (0, -1):
            ends = app.select_slider(key=slider).options
            app.number_input(key=name).set_value(number(ends[end])).run()
            assert not app.exception
            assert metrics(app) or app.error
        app.number_input(key=name).set_value(before).run()


@pytest.mark.parametrize("tab", VIEWS)
def test_the_page_offers_its_link_and_its_downloads_in_every_tab(load: Load, tab: str) -> None:
    app: AppTest = planner(load, tab)
    solved = {"planner_section": SOLVE} | ({} if tab == "Noise" else {"planner_solve": tab})
    assert settings_of(app) == ({} if tab == ANALYSES else solved if tab in SOLVED else {"planner_section": tab})
    labels = [button.proto.label for button in app.get("download_button")]
    # Beside errors and what an attacker can do, one; a given noise in the currency of the budget, and as ε at δ.
    wanted = 2 + {ANALYSES: 0, "Steps": 2, "DP-SGD": 0}.get(tab, 1)
    of_charts = {label for label in labels if label.startswith("CSV *of the chart “")}  # each says of which
    assert len(of_charts) == len(drawn(app)) == wanted and labels.count("Figures (HTML)") == 1
    assert all(alt for alt, _ in drawn(app))


def test_the_guarantees_of_others_stand_in_groups_by_what_they_protect(load: Load) -> None:
    """Each once; a ρ is read at the δ of the page, an ε is as published."""
    app = planner(load, WORTH, delta_reading="1e-10")
    drawn = {trace["name"]: sorted(trace["x"].tolist()) for trace in traces(app, "ε of published releases")}
    assert sum(map(len, drawn.values())) == len(deployments()) and all("," in name for name in drawn)
    persons = [d for d in deployments() if d.group == "a person in total"]
    assert drawn["a person in total, central"] == pytest.approx(sorted(d.epsilon_at(1e-10) for d in persons), rel=1e-6)
    (census,) = [d for d in persons if "redistricting" in d.product]
    assert census.epsilon_at(1e-10) == pytest.approx(17.16, abs=0.01) and census.stated == "ρ = 2.56"
    assert all(d.source.startswith("https://") and (d.epsilon is None) != (d.rho is None) for d in deployments())
    assert "Yours: 2." in words(app) and "with the plan below (5 analyses)" in str(traces(app, "Of 100 people"))
