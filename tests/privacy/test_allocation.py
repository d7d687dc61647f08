"""Splitting a total, and adding up what analyses state: numbers by hand, optimality by brute force."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    NoPrivacy,
    PureDP,
    RenyiDP,
    TradeOff,
    ZeroConcentratedDP,
)
from dpviz.privacy.events import (
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
)
from dpviz.privacy.statistics.allocation import (
    Analysis,
    Share,
    joint_events,
    joint_guarantee,
    split,
    stated_event,
    weighted_variance,
)
from dpviz.privacy.statistics.noisy_means import Guarantee

DELTA = 1e-6
PAIR = (Analysis(name="mean"), Analysis(name="sum", weight=4.0, sensitivity=2.0))
GAUSSIAN_PAIR = tuple(analysis.replaced(noise="gaussian") for analysis in PAIR)
MIXED = (
    Analysis(name="histogram"),
    Analysis(name="regression", noise="gaussian", weight=3.0),
    Analysis(name="best model", noise="selection", sensitivity=0.5),
)
TOTALS: list[Budget] = [PureDP(epsilon=1.0), ApproximateDP(epsilon=1.0), ZeroConcentratedDP(), GaussianDP()]


def events(shares: tuple[Share, ...]) -> tuple:
    return joint_events([(share.analysis, share.event) for share in shares])


def spent(shares: tuple[Share, ...], budget: Budget) -> float:
    """What the shares use of the total, in its own unit, over the whole."""
    if isinstance(budget, ApproximateDP):
        return accountants.tightest(events(shares), budget.delta).epsilon / budget.epsilon
    currency = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}[type(budget)]
    (control,) = budget.controls()
    return accountants.total(events(shares), currency) / getattr(budget, control.name)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------ splitting


def test_the_theorys_example() -> None:
    """Section 8: w = (1, 4), Δ = (1, 2), total 1: ε = (0.284104, 0.715896), cost 87.2168, against 136 for equal shares;
    ρ = (0.2, 0.8), cost 12.5 against 17."""
    laplace = split(PureDP(epsilon=1.0), PAIR)
    assert [share.fraction for share in laplace] == pytest.approx([0.284104, 0.715896], abs=1e-6)
    assert [share.noise_scale for share in laplace] == pytest.approx([1 / 0.284104, 2 / 0.715896], rel=1e-5)
    assert weighted_variance(laplace) == pytest.approx(87.2168, abs=2e-4)
    gaussian = split(ZeroConcentratedDP(rho=1.0), GAUSSIAN_PAIR)
    assert [share.fraction for share in gaussian] == pytest.approx([0.2, 0.8])
    assert weighted_variance(gaussian) == pytest.approx(12.5)
    for budget, pair, cost in ((PureDP(epsilon=1.0), PAIR, 136), (ZeroConcentratedDP(rho=1.0), GAUSSIAN_PAIR, 17)):
        halves = split(budget, [analysis.replaced(weight=1.0) for analysis in pair], "proportional")
        assert [share.fraction for share in halves] == [0.5, 0.5]
        variance = 2.0 if isinstance(budget, PureDP) else 1.0
        scales = [share.noise_scale or 0.0 for share in halves]
        assert variance * (scales[0] ** 2 + 4 * scales[1] ** 2) == pytest.approx(cost)


@pytest.mark.parametrize("budget", TOTALS, ids=lambda budget: budget.name)
@pytest.mark.parametrize("rule", ["optimal", "proportional"])
def test_shares_together_use_up_the_total(rule: str, budget: Budget) -> None:
    on_one_set = [analysis.replaced(rows="north") for analysis in MIXED]  # no loss distribution of them is exact
    for analyses in (PAIR, GAUSSIAN_PAIR, MIXED, MIXED[:1], on_one_set):
        if isinstance(budget, PureDP) and any(analysis.noise == "gaussian" for analysis in analyses):
            with pytest.raises(UserError, match="never gives pure"):
                split(budget, analyses, rule)  # type: ignore[arg-type]
            continue
        shares = split(budget, analyses, rule)  # type: ignore[arg-type]
        assert [share.analysis for share in shares] == list(analyses)
        assert 1 - 1e-5 <= spent(shares, budget) <= 1 + 1e-9
        assert sum(share.fraction or 0.0 for share in shares) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("budget", TOTALS, ids=lambda budget: budget.name)
def test_no_other_split_has_less_variance(budget: Budget) -> None:
    """Proportional shares along a grid are all the ways to split in two."""
    for pair in (PAIR, GAUSSIAN_PAIR) if not isinstance(budget, PureDP) else (PAIR,):
        best = weighted_variance(split(budget, pair))
        others = []
        for share in np.linspace(0.05, 0.95, 19):
            weights = (float(share), 1 - float(share))
            moved = [a.replaced(weight=w) for a, w in zip(pair, weights, strict=True)]
            scales = [found.noise_scale or 0.0 for found in split(budget, moved, "proportional")]
            unit = 2.0 if pair is PAIR else 1.0
            others.append(unit * sum(a.weight * s**2 for a, s in zip(pair, scales, strict=True)))
        # Where shares are of ρ or μ² of Laplace noise, the rule is exact to leading order only.
        assert best <= min(others) * (1.002 if pair is PAIR else 1 + 1e-4)
        assert best >= 0.9 * min(others)


def test_disjoint_rows_share_nothing() -> None:
    """Best by brute force: ε₁ for an analysis on all rows, the same rest for each of two sets of rows, one of which
    has two analyses."""
    analyses = [
        Analysis(name="all"),
        Analysis(name="north", rows="north", weight=2.0),
        Analysis(name="south", rows="south", sensitivity=3.0),
        Analysis(name="south too", rows="south"),
    ]
    shares = split(PureDP(epsilon=1.0), analyses)
    fractions = [share.fraction or 0.0 for share in shares]
    assert fractions[1] == pytest.approx(fractions[2] + fractions[3]) == pytest.approx(1 - fractions[0])
    assert accountants.total(events(shares), "epsilon") == pytest.approx(1.0)
    grid = np.linspace(0.01, 0.99, 99)
    costs_ = [2 / a**2 + 4 / (1 - a) ** 2 + 18 / (b * (1 - a)) ** 2 + 2 / ((1 - b) * (1 - a)) ** 2
              for a, b in itertools.product(grid, grid)]  # fmt: skip
    assert min(costs_) * 0.99 <= weighted_variance(shares) <= min(costs_)
    doubled = split(PureDP(epsilon=1.0), [a.replaced(rows=str(i)) for i, a in enumerate(PAIR)])
    assert [share.fraction for share in doubled] == pytest.approx([1.0, 1.0])
    proportional = split(PureDP(epsilon=1.0), analyses, "proportional")
    assert [share.fraction for share in proportional] == pytest.approx([1 / 3, 2 / 3, 1 / 3, 1 / 3])
    for weight, expected in ((4.0, [1 / 5, 4 / 5, 2 / 5, 2 / 5]), (1.0, [1 / 3, 2 / 3, 1 / 3, 1 / 3])):
        analyses[1] = analyses[1].replaced(weight=weight)  # the set with the largest weight decides
        found = split(PureDP(epsilon=1.0), analyses, "proportional")
        assert [share.fraction for share in found] == pytest.approx(expected)


@pytest.mark.parametrize("budget", TOTALS, ids=lambda budget: budget.name)
def test_analyses_with_a_guarantee_of_their_own_are_paid_first(budget: Budget) -> None:
    own = Analysis(name="survey", noise="any", budget=PureDP(epsilon=0.1))
    shares = split(budget, [own, *PAIR])
    assert shares[0].event == StatedPureDP(0.1) and shares[0].fraction is None and shares[0].noise_scale is None
    assert 1 - 1e-4 <= spent(shares, budget) <= 1 + 1e-9
    # Of the total or, where costs do not add up, of what the survey leaves, whether ε or ρ are shared.
    paid = 0.0 if budget.currency is None else budget.cost((shares[0].event,)) / budget.amount
    assert sum(share.fraction or 0.0 for share in shares) == pytest.approx(1 - paid)
    greedy = own.replaced(budget=PureDP(epsilon=20.0))
    with pytest.raises(UserError, match="use up the total"):
        split(budget, [greedy, *PAIR])


def test_under_approximate_dp_the_better_of_two_compositions_is_taken() -> None:
    """Few analyses are better added up in ε, many composed in ρ."""
    budget = ApproximateDP(epsilon=1.0)
    few = split(budget, PAIR)
    assert accountants.total(events(few), "epsilon") == pytest.approx(1.0)
    many = split(budget, [Analysis(name=str(i)) for i in range(60)])
    assert accountants.total(events(many), "epsilon") > 1.5
    assert accountants.tightest(events(many), DELTA).epsilon == pytest.approx(1.0, rel=1e-4)


def test_what_cannot_be_split_is_refused_with_the_name() -> None:
    unknown = Analysis(name="survey", noise="any")
    with pytest.raises(UserError, match="survey"):
        split(PureDP(epsilon=1.0), [unknown, *PAIR])
    found = split(ZeroConcentratedDP(rho=0.2), [unknown, *PAIR], "proportional")
    assert found[0].event == StatedZCDP(0.2 * (1 / 6)) and found[0].noise_scale is None
    assert split(PureDP(epsilon=1.0), [unknown], "proportional")[0].event == StatedPureDP(1.0)
    assert split(GaussianDP(mu=1.0), [unknown], "proportional")[0].event == Gaussian(1.0)
    with pytest.raises(UserError, match="nothing to split"):
        split(NoPrivacy(), PAIR)
    loose = unknown.replaced(budget=ApproximateDP(epsilon=0.1, delta=1e-7))
    with pytest.raises(UserError, match="No ρ is known for survey"):
        split(ZeroConcentratedDP(rho=0.2), [loose, *PAIR])
    with pytest.raises(UserError, match="use up the total"):  # its δ alone is above the total's
        split(ApproximateDP(epsilon=1.0), [loose.replaced(budget=ApproximateDP(epsilon=0.1, delta=1e-5)), *PAIR])
    assert split(PureDP(epsilon=1.0), []) == ()


# ------------------------------------------------------------------------------------------------------- what is stated


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "selection"])
@pytest.mark.parametrize("budget", TOTALS, ids=lambda budget: budget.name)
def test_a_stated_guarantee_is_the_largest_release_of_its_kind_that_meets_it(noise: str, budget: Budget) -> None:
    analysis = Analysis(noise=noise, budget=budget)
    if noise == "gaussian" and isinstance(budget, PureDP):
        with pytest.raises(UserError, match="never gives pure"):
            stated_event(analysis)
        return
    event = stated_event(analysis)
    assert type(event) is {"laplace": Laplace, "gaussian": Gaussian, "selection": ExpMech}[noise]
    if isinstance(budget, ApproximateDP):
        assert float(per_event.profile(event)(budget.epsilon)) == pytest.approx(budget.delta, rel=1e-6)
    else:
        price = {PureDP: per_event.pure, ZeroConcentratedDP: per_event.rho, GaussianDP: per_event.mu}[type(budget)]
        (control,) = budget.controls()
        assert price(event) == pytest.approx(getattr(budget, control.name), rel=1e-10)


def compose_stated(analyses: Sequence[Analysis], delta: float) -> Guarantee:
    """Analyses that each state a guarantee of their own, together."""
    return joint_guarantee([Share(analysis, None, stated_event(analysis)) for analysis in analyses], delta)


def test_of_an_unknown_mechanism_only_the_guarantee_counts() -> None:
    stated = [Analysis(noise="any", budget=budget) for budget in TOTALS]
    assert [stated_event(a) for a in stated] == [
        StatedPureDP(1.0),
        StatedApproximateDP(1.0, 1e-6),
        StatedZCDP(0.1),
        Gaussian(0.5),
    ]
    for budget in (None, NoPrivacy()):
        with pytest.raises(UserError, match="State the guarantee of Analysis"):
            stated_event(Analysis(budget=budget))


def test_pure_guarantees_compose_as_well_as_any_can() -> None:
    """TV35: 100 × ε = 0.1 at δ = 1e-6 is 4.77456758811 by optimal composition, attained by randomised response."""
    stated = [Analysis(name=str(i), noise="any", budget=PureDP(epsilon=0.1)) for i in range(100)]
    total = compose_stated(stated, DELTA)
    assert -1e-6 <= total.reading.epsilon / 4.77456758811 - 1 <= 2e-3
    assert total.values["epsilon"] == pytest.approx(10.0)
    assert total.values["rho"] == pytest.approx(100 * closed_forms.pure_to_rho(0.1))
    assert not total.missing


def test_equal_approximate_guarantees_compose_as_well_as_any_can() -> None:
    """100 × (0.1, 1e-8) at a total δ of 1e-5: 4.32964 (dpviz/privacy/THEORY.md, section 8)."""
    stated = [Analysis(name=str(i), noise="any", budget=ApproximateDP(epsilon=0.1, delta=1e-8)) for i in range(100)]
    total = compose_stated(stated, 1e-5)
    assert -1e-6 <= total.reading.epsilon / closed_forms.optimal_epsilon(0.1, 100, 1e-5, 1e-8) - 1 <= 2e-3
    assert total.reading.epsilon == pytest.approx(4.32964, rel=2e-3)
    assert {name for name, value in total.values.items() if value is None} == {"epsilon", "rho", "mu"}


def test_each_in_its_own_currency_and_the_missing_ones_named() -> None:
    stated = [
        Analysis(name="census", budget=PureDP(epsilon=0.5)),
        Analysis(name="model", noise="gaussian", budget=ApproximateDP(epsilon=1.0)),
        Analysis(name="audit", noise="any", budget=ZeroConcentratedDP(rho=0.1)),
        Analysis(name="poll", noise="any", budget=GaussianDP(mu=0.3)),
    ]
    total = compose_stated(stated, DELTA)
    mu = closed_forms.gdp_mu(1.0, DELTA)
    assert total.values["rho"] == pytest.approx(0.5 - 1 + math.exp(-0.5) + mu**2 / 2 + 0.1 + 0.045)
    assert total.values["epsilon"] is None and total.values["mu"] is None
    assert total.missing["epsilon"].startswith("No pure ε is known for model, audit, poll")
    assert total.missing["mu"].startswith("No μ is known for audit")
    assert (total.reading.epsilon or 0) <= closed_forms.zcdp_epsilon(float(total.values["rho"] or 0), DELTA)
    without = compose_stated(stated[:2] + stated[3:], DELTA)
    assert without.values["mu"] == pytest.approx(math.hypot(per_event.mu(Laplace(0.5)), mu, 0.3))
    tiny = compose_stated([Analysis(noise="any", budget=ApproximateDP(delta=1e-5))], DELTA)
    assert tiny.values["epsilon_at_delta"] is None and "δ" in tiny.missing["epsilon_at_delta"]


def test_disjoint_sets_of_rows_compose_in_parallel() -> None:
    stated = [
        Analysis(name="a", rows="north", budget=PureDP(epsilon=1.0)),
        Analysis(name="b", rows="south", budget=PureDP(epsilon=0.4)),
        Analysis(name="c", rows="south", budget=PureDP(epsilon=0.3)),
        Analysis(name="d", budget=PureDP(epsilon=0.2)),
    ]
    total = compose_stated(stated, DELTA)
    assert total.events == (Laplace(0.2), Parallel((Laplace(1.0), Seq((Laplace(0.4), Laplace(0.3))))))
    assert total.values["epsilon"] == pytest.approx(1.2)
    apart = compose_stated([a.replaced(rows="") for a in stated], DELTA)
    assert apart.values["epsilon"] == pytest.approx(1.9)
    assert total.reading.epsilon <= apart.reading.epsilon


def test_a_currency_that_does_not_add_up_is_refused() -> None:
    class Unknown(RenyiDP):
        name = "Unknown"

    for refused in (lambda: split(Unknown(), PAIR), lambda: stated_event(Analysis(noise="any", budget=Unknown()))):
        with pytest.raises(UserError, match="not as Unknown"):
            refused()
    for budget in (RenyiDP(), TradeOff()):
        with pytest.raises(UserError, match="not as"):
            split(budget, PAIR)


def test_an_analysis_keeps_its_budget_in_its_text() -> None:
    original = Analysis(name="census", rows="north", budget=ApproximateDP(epsilon=1.5))
    assert Analysis.from_json(original.to_json()) == original
