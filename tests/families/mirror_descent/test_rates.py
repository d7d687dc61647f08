"""The paper's accounting, bound and settings against the verified values of THEORY.md."""

import math

import pytest

from dpviz.families.mirror_descent import rates
from dpviz.privacy.accounting import textbook
from dpviz.privacy.accounting.closed_forms import zcdp_epsilon, zcdp_rho
from tests.oracles import games
from tests.oracles.zcdp import classic_zcdp_epsilon

DELTA = 1e-6
ODDS = math.log(1 / DELTA)
REFERENCE = rates.Sizes(10_000, 1000, 1000, 1.0, DELTA)


def settings(sizes: rates.Sizes = REFERENCE) -> dict[str, rates.Setting]:
    return {row.result: row for row in rates.settings(sizes)}


# ---------------------------------------------------------------------------------------------------------- accounting


def test_paper_step_size_and_what_it_really_spends() -> None:
    rho = zcdp_rho(1.0, DELTA)
    assert float(rates.tau_paper(64, 78, 1.0, DELTA, 1.0)) == pytest.approx(0.163946, rel=1e-5)
    for rounds, batch, spent in [(64, 78, 0.193622), (100, 100, 0.194)]:
        ratio = rates.tau_paper(rounds, batch, 1.0, DELTA, 1.0) / games.tau_single_pass(rounds, batch, rho, 2.0)
        digits = 1e-6 if rounds == 64 else 5e-4
        assert zcdp_epsilon(float(rho * ratio**2), DELTA) == pytest.approx(spent, abs=digits)


def test_worked_example() -> None:
    paper = float(rates.tau_paper(100, 100, 1.0, DELTA, 1.0))
    assert paper == pytest.approx(0.16815, rel=1e-5)
    assert paper == pytest.approx(100 / (16 * math.sqrt(100 * ODDS)))
    ours = float(games.tau_single_pass(100, 100, zcdp_rho(1.0, DELTA), 2.0))
    assert ours / paper == pytest.approx(4.66, abs=0.005)
    assert float(textbook.advanced_epsilon(4 * paper / 100, 200, DELTA)) == pytest.approx(0.509, abs=5e-4)


@pytest.mark.parametrize(("epsilon", "factor"), [(0.1, 5.33), (0.5, 4.85), (1, 4.64), (2, 4.41), (4, 4.15), (8, 3.81)])
def test_factor_between_the_caps_for_many_rounds(epsilon: float, factor: float) -> None:
    rounds = 10**7
    ours = games.tau_single_pass(rounds, 100, zcdp_rho(epsilon, DELTA), 2.0)
    assert float(ours / rates.tau_paper(rounds, 100, epsilon, DELTA, 1.0)) == pytest.approx(factor, abs=0.005)


def test_synthetic_data_cap_is_eight_times_the_paper_s() -> None:
    paper = float(rates.tau_paper_synthetic(128, 10_000, 1.0, DELTA))
    ours = float(games.tau_full_batch(128, 10_000, zcdp_rho(1.0, DELTA), 1.0, share=1.0))
    assert paper == pytest.approx(0.32842, abs=5e-6)
    assert ours / paper == pytest.approx(8.09, abs=0.01)


def test_other_caps_spend_the_budget_by_their_own_accounting() -> None:
    # Prop. E.1: 6U draws at 20 L0 tau/B each.
    step = float(rates.tau_paper_bias_reduced(256, 10, 1.0, DELTA, 2.0))
    assert step == pytest.approx(10 / (40 * math.sqrt(48 * 256 * ODDS)))
    spent = float(classic_zcdp_epsilon(6 * 256 * (20 * 2.0 * step / 10) ** 2 / 2, DELTA))
    assert spent == pytest.approx(0.5 + 1 / (16 * ODDS))
    assert float(classic_zcdp_epsilon((8 * ODDS) ** 2 / (8 * ODDS) / 2, DELTA)) == pytest.approx(8 * ODDS)
    # Prop. F.1: N draws at 8 L0 tau/B each.
    step = float(rates.tau_paper_anytime(50, 1.0, DELTA, 2.0, 300))
    assert step == pytest.approx(50 / (32 * math.sqrt(600 * ODDS)))
    assert float(textbook.advanced_epsilon(16 * step / 50, 300, DELTA)) <= 1


def test_paper_bound() -> None:
    second = float(rates.paper_bound((3.0, 1.0), 0.1, 100, 1024, (1.0, 2.0, 0.5)))
    first = float(rates.paper_bound((3.0, 1.0), 0.1, 100, 1024, (1.0, 2.0, math.inf)))
    common = 0.8 + 0.5 + 4 * math.sqrt(2) * (math.sqrt(3) + 1) / 320 + 8 / 102_400
    assert second == pytest.approx(common + 16 * 0.5 / 1024)
    assert first == pytest.approx(common + 16 * math.sqrt(2) * 2 / 32)


# ------------------------------------------------------------------------------------------------------ table of rates


@pytest.mark.parametrize(
    ("result", "rate"),
    [
        ("bilinear", 0.13816),
        ("second_order", 0.20525),
        ("first_order", 0.26725),
        ("bias_reduced", 0.26635),
        ("anytime_second_order", 0.26635),
        ("anytime_first_order", 0.26689),
        ("lower_bound", 0.13816),
    ],
)
def test_rates_of_the_paper(result: str, rate: float) -> None:
    row = settings()[result]
    assert row.private_rate == pytest.approx(rate, abs=6e-6)
    assert row.statistical_rate == pytest.approx(0.13816 if result == "bias_reduced" else 0.03717, abs=6e-6)
    assert row.rate == row.statistical_rate + row.private_rate


def test_parameters_of_the_paper() -> None:
    rows = settings()
    shape = {name: (rows[name].rounds, rows[name].draws) for name in ("bilinear", "second_order", "first_order")}
    assert shape == {"bilinear": (724, 1), "second_order": (328, 5), "first_order": (193, 14)}
    for row in rows.values():
        if row.batch is not None and row.result != "bias_reduced":
            assert row.rounds is not None and row.rounds * row.batch <= REFERENCE.n
    reduced = rows["bias_reduced"]
    assert reduced.stop is not None and reduced.batch is not None and reduced.level is not None
    assert reduced.stop * reduced.batch <= REFERENCE.n
    assert 2**reduced.level <= math.sqrt(reduced.stop) < 2 ** (reduced.level + 1)


@pytest.mark.parametrize("result", ["bilinear", "second_order", "first_order"])
def test_terms_of_the_error_balance_at_the_stated_rate(result: str) -> None:
    # So large a problem that rounding T and K does not matter; the records' own error is negligible.
    sizes = rates.Sizes(10**12, 1000, 1000, 1e-4, DELTA)
    row = settings(sizes)[result]
    assert row.rounds is not None and row.draws is not None
    regret = math.sqrt(sizes.log_vertices / row.rounds)
    privacy = sizes.log_vertices * math.sqrt(row.rounds * row.draws * ODDS) / (sizes.n * sizes.epsilon)
    bias = {"bilinear": regret, "second_order": 1 / row.draws, "first_order": 1 / math.sqrt(row.draws)}[result]
    assert [regret, privacy, bias] == pytest.approx([row.private_rate] * 3, rel=0.02)


def test_rows_need_their_smoothness() -> None:
    every = set(settings())
    rough = rates.Sizes(10_000, 1000, 1000, 1.0, DELTA, curvature=math.inf)
    assert set(settings(rough)) == {"first_order", "anytime_first_order", "lower_bound"}
    curved = rates.Sizes(10_000, 1000, 1000, 1.0, DELTA, curvature=0.3)
    assert set(settings(curved)) == every - {"bilinear"}


def test_small_problems_have_settings_too() -> None:
    for row in rates.settings(rates.Sizes(5, 2, 1, 0.1, DELTA)):
        if row.result != "lower_bound":
            assert row.step_size is not None and 0 < row.step_size < math.inf
            assert row.rounds is not None and row.batch is not None and row.batch >= 1


def test_synthetic_data() -> None:
    row = rates.synthetic_setting(10_000, 480, 127, 1.0, DELTA)
    assert row.rounds == round(10_000 * math.sqrt(math.log(480) / ODDS) / math.log(127))
    # Regret of the queries' player balances with the error of the rows' player at the cap.
    assert row.private_rate == pytest.approx((math.log(480) * ODDS) ** 0.25 * math.sqrt(math.log(127)) / 100)
    assert row.step_size is not None and row.step_size < math.sqrt(math.log(254) / row.rounds)


# ------------------------------------------------------------------------------------------------------ what was before


def test_the_rates_that_were_known_before() -> None:
    """At the reference size by hand: √(2000/10⁴) + 2000 √Λ/10⁴ in ℓ₂, and multiplicative weights for queries."""
    before = {row.result: rates.previous(REFERENCE, row.result) for row in rates.settings(REFERENCE)}
    assert before.pop("lower_bound") is None
    euclidean = before["bilinear"]
    assert euclidean is not None and euclidean.rate == pytest.approx(0.44721 + 0.74339, abs=2e-5)
    assert before["second_order"] == before["bias_reduced"] == euclidean and "Boob" in euclidean.source
    games = rates.previous(rates.Sizes(10_000, 1000, 1000, 1.0, DELTA, bilinear=True), "bilinear")
    assert games is not None and games.rate == pytest.approx(0.02628 + 3.12559 * 0.02628, abs=2e-5)


@pytest.mark.parametrize(("d", "smaller"), [(100, "descent"), (10**6, "frank-wolfe")])
def test_minimisation_had_two_rates_before_and_the_smaller_one_counts(d: int, smaller: str) -> None:
    sizes = rates.Sizes(10_000, d, 1, 1.0, DELTA)
    found = rates.previous(sizes, "anytime_second_order")
    assert found == rates.previous(sizes, "bilinear") and found is not None
    rate = {"descent": math.sqrt(d * ODDS) / 10_000, "frank-wolfe": (math.log(d) * math.sqrt(ODDS) / 10_000) ** (2 / 3)}
    assert found.rate == pytest.approx(math.sqrt(math.log(d) / 10_000) + rate[smaller])
    assert rate[smaller] == min(rate.values())


def test_synthetic_data_had_its_rate_before() -> None:
    """Theorem G.1 is the rate of private multiplicative weights (Hardt and Rothblum 2010)."""
    setting = rates.synthetic_setting(10_000, 480, 127, 1.0, DELTA)
    assert rates.queries_before(10_000, 480, 127, 1.0, DELTA).rate == pytest.approx(setting.rate)
