"""Formulas that are known before a run (THEORY.md of the family; numbers: its checks 1, 2, 11 and 13)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpviz.families.second_order import theory
from dpviz.families.second_order.theory import Analysis, Constants, Ladder, Search, Stopping

LOOSE = Analysis(1.0, 1.0, 0.06)
TIGHT = Analysis(1.0, 1.0, 0.03)
SADDLE = Analysis(1.05, 2.33428, 0.1, 0.2)


def least(steps: Analysis | Search) -> float:
    return min(steps.gradient_decrease, steps.curvature_decrease)


def test_the_papers_constants_give_the_papers_numbers() -> None:
    assert LOOSE.gradient_tolerance == pytest.approx(0.054545, rel=1e-5)
    assert LOOSE.curvature_tolerance == pytest.approx(0.222681, rel=1e-5)
    assert LOOSE.gradient_decrease == pytest.approx(0.00119008, rel=1e-5)
    assert LOOSE.curvature_decrease == pytest.approx(0.00331261, rel=1e-5)
    assert Search(LOOSE).accepted_curvature_steps == pytest.approx((0.303714, 1.646286), abs=1e-6)
    assert Search(LOOSE).gradient_fallback == pytest.approx(0.6)
    smallest = least(Search(LOOSE))
    assert smallest == pytest.approx(0.000535537, rel=1e-5)
    for analysis, short, search, trust in ((LOOSE, 421, 934, 205), (TIGHT, 1681, 3735, 578)):
        assert theory.iterations(0.5, least(analysis)) == short
        assert theory.iterations(0.5, least(Search(analysis))) == search
        target = theory.trust_region_target(analysis)
        assert target == analysis.gradient_target
        assert theory.trust_region_iterations(0.5, target, 1.0) == trust


def test_the_saddle_needs_1511_iterations_and_another_target_for_the_trust_region() -> None:
    assert theory.iterations(0.5, least(SADDLE)) == 1511
    target = theory.trust_region_target(SADDLE)
    assert target == pytest.approx(0.017136, rel=1e-4)
    assert theory.trust_region_iterations(0.5, target, 2.33428) == 2044
    assert math.sqrt(target / 2.33428) == pytest.approx(0.0857, abs=5e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_step_with_admissible_noise_decreases_as_promised(seed: int) -> None:
    """Random f of known G and M: a separable cubic with bounded curvature, errors at the edge of what is admissible."""
    rng = np.random.default_rng(seed)
    d, analysis = 4, Analysis(1.0, 1.0, 0.1, 0.2)
    tried = {"gradient": 0, "curvature": 0}

    def value(w: np.ndarray) -> float:  # second derivative -cos(w), third sin(w): both at most 1
        return float(np.cos(w).sum())

    def unit(shape: tuple[int, ...]) -> np.ndarray:
        drawn = rng.standard_normal(shape)
        return drawn / np.linalg.norm(drawn)

    while min(tried.values()) < 40:
        w = rng.uniform(-2, 2, d) if rng.random() < 0.5 else rng.uniform(-0.06, 0.06, d)
        noisy = -np.sin(w) + analysis.admissible_gradient_noise * unit((d,))
        if np.linalg.norm(noisy) > analysis.gradient_tolerance:
            after, promised = w - noisy, (1 - 2 * 0.1) / 2 * float(noisy @ noisy)
            tried["gradient"] += 1
        else:
            error = unit((d, d))
            error = (error + error.T) / np.linalg.norm(error + error.T, 2) * analysis.admissible_hessian_noise
            values, vectors = np.linalg.eigh(np.diag(-np.cos(w)) + error)
            size, direction = -values[0], vectors[:, 0] * (-1 if vectors[:, 0] @ noisy > 0 else 1)
            assert size > analysis.curvature_tolerance
            after, promised = w + 2 * size * direction, 2 * size**3 * (1 / 3 - 0.1 - 1 / 12)
            tried["curvature"] += 1
        assert value(w) - value(after) >= promised
        assert promised >= least(analysis) * (1 - 1e-12)


def test_the_ladder_of_the_line_search() -> None:
    assert Search(LOOSE).gradient_steps == pytest.approx(20 * 0.6 * 0.6 ** np.arange(6))
    assert len(Search(LOOSE).curvature_steps) == 5
    tight = Search(Analysis(0.252, 0.1009, 0.03))  # by theory no candidate is longer than 12
    assert len(tight.gradient_steps) == 4 and tight.gradient_steps[0] == pytest.approx(12)
    assert Search(LOOSE, Ladder(b_g=1.0)).gradient_steps.tolist() == pytest.approx([0.6])


def test_phases() -> None:
    assert theory.phase_lengths("one", 1511, 5000) == (1511,)
    assert theory.phase_lengths("one", 1511, 500) == (500,)
    assert theory.phase_lengths("two", 421, 5000) == (20, 421)
    assert theory.phase_lengths("two", 1681, 5000) == (41, 1681)
    assert theory.phase_lengths("two", 1681, 500) == (22, 478), "all together at most the cap"
    assert theory.phase_lengths("two", 10, 1) == (1,)
    assert theory.phase_lengths("doubling", 421, 5000) == (20, 40, 80, 160, 320, 421)
    assert theory.phase_shares("two", 2, 0.75).tolist() == [0.75, 0.25]
    assert theory.phase_shares("two", 1, 0.75).tolist() == [1.0]
    assert theory.phase_shares("doubling", 3, 0.75) == pytest.approx([4 / 7, 2 / 7, 1 / 7])


def stopping(gradient_noise: float, hessian_noise: float, shape: theory.Shape = "upper", t: int = 421) -> Stopping:
    return Stopping(t, 54, shape, gradient_noise, hessian_noise, LOOSE.gradient_tolerance, LOOSE.curvature_tolerance)


def test_the_waiting_time_of_the_papers_cells() -> None:
    """r_H = 1.15, 1.21 and 1.39 at d = 54 wait 31, 1,000 and 5·10¹⁰ iterations."""
    factor = LOOSE.curvature_tolerance / (2 * math.sqrt(54))
    for ratio, waiting, light in ((1.15, 31, "amber"), (1.21, 1000, "red"), (1.39, 5e10, "red")):
        found = stopping(1e-6, ratio * factor)
        assert found.hessian_ratio == pytest.approx(ratio)
        assert found.waiting_time == pytest.approx(waiting, rel=0.05)
        assert found.light == light
    assert stopping(0.0, 0.0).waiting_time == 1.0 and stopping(0.0, 0.0).light == "green"
    assert stopping(1e3, 1e3).waiting_time == math.inf


def test_many_passes_in_a_row_take_longer_than_as_many() -> None:
    """Runs of k successes with chance p take Σ p^-i, i = 1..k, on average: simulated, four standard errors."""
    rng = np.random.default_rng(0)
    one = stopping(LOOSE.gradient_tolerance / math.sqrt(54) * 0.97, 0.0)
    three, p = replace(one, in_a_row=3), one.gradient_chance
    assert 0.5 < p < 0.8
    times = []
    for _ in range(2000):
        passed = rng.random(400) < p
        times.append(int(np.flatnonzero(passed[:-2] & passed[1:-1] & passed[2:])[0]) + 3)
    assert three.waiting_time == pytest.approx(np.mean(times), abs=4 * np.std(times) / math.sqrt(2000))
    assert one.waiting_time == pytest.approx(1 / p) and replace(three, gradient_noise=0.0).waiting_time == 3
    assert replace(one, in_a_row=2000).waiting_time == math.inf
    assert replace(three, gradient_noise=0.0).light == "green"


def test_green_at_is_where_it_turns_green() -> None:
    for found in (stopping(0.01, 0.02), stopping(0.02, 0.0), stopping(1e-4, 1e-4), stopping(0.5, 3.0)):
        factor = found.factor_until_green
        assert found.quieter(factor).light == "green"
        assert found.quieter(factor * (1 - 1e-6)).waiting_time > theory.GREEN
        assert (factor <= 1) == (found.light == "green")
    assert stopping(0.0, 0.0).factor_until_green == 0.0


def test_the_guarantee_of_the_paper_asks_for_more_than_its_tables_have() -> None:
    """Loose, ε = 1: q_g = 0.0072 against 0.0041 allowed, q_H = 0.095 against 0.022."""
    n, sigma = 495_141, 151.4
    found = theory.guarantee(LOOSE, stopping(2 / n * sigma, 2 * math.sqrt(54) / n * sigma), 0.05)
    assert found.gradient_error == pytest.approx(0.0072, rel=0.02)
    assert found.hessian_error == pytest.approx(0.095, rel=0.03)
    assert found.allowed_gradient_error == pytest.approx(0.0041, rel=0.02)
    assert found.allowed_hessian_error == pytest.approx(0.022, rel=0.02)
    assert found.row_factor == pytest.approx(found.hessian_error / found.allowed_hessian_error)


def test_the_best_c_1() -> None:
    def rows(c_1: float) -> float:
        return (1 + c_1) ** 2 / (c_1 * math.sqrt(1 - 2 * c_1))

    found = minimize_scalar(rows, bounds=(0.01, 0.49), method="bounded", options={"xatol": 1e-9})
    assert found.x == pytest.approx(2 - math.sqrt(3), abs=1e-6)
    control = next(control for control in Constants.controls() if control.name == "c_1")
    assert f"{found.x:.3f}" in control.help
    assert rows(2 - math.sqrt(3)) == pytest.approx(8.8073, abs=1e-4)
    assert rows(0.1) == pytest.approx(13.5282, abs=1e-4)


def test_constants_that_promise_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="below 1/3"):
        Constants(c=0.3)
    assert not Ladder().conflict_with(Constants())
    assert "c_g" in Ladder().conflict_with(Constants(c_1=0.45))
    assert "c_H" in Ladder(c_h=0.7).conflict_with(Constants())
