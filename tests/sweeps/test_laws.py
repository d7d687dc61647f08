"""Laws that are fitted to sweeps, and where curves cross, on one data set and on several."""

import math

import numpy as np
import pytest

from dpviz.sweeps.sweep_result import Fit, better_law, crossing_intervals, crossovers, log_law, orders, power_law

SIZES = np.array([10.0, 30.0, 100.0, 300.0, 1000.0])


def noisy(seed: int, exponent: float, spread: float = 0.3, replicates: int = 20) -> np.ndarray:
    draws = np.random.default_rng(seed).standard_normal((len(SIZES), replicates))
    return 0.05 * SIZES[:, None] ** exponent * np.exp(spread * draws)


def test_laws_without_noise_are_found_exactly() -> None:
    for fit, slope in (
        (power_law(SIZES, noisy(0, 0.25, spread=0.0)), 0.25),
        (log_law(SIZES, (0.1 + 0.03 * np.log(SIZES))[:, None] * np.ones(4)), 0.03),
    ):
        assert fit is not None and fit.slope == pytest.approx(slope) and fit.error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("replicates", [5, 20])
def test_the_error_of_the_exponent_is_as_large_as_it_says(replicates: int) -> None:
    """Over 200 samples, |slope - truth| ≤ 2 errors in at least 90 % (95 % expected; its own spread is 1.5 %)."""
    inside, errors, slopes = 0, [], []
    for seed in range(200):
        fit = power_law(SIZES, noisy(seed, 0.5, replicates=replicates))
        assert fit is not None and fit.error is not None
        inside += abs(fit.slope - 0.5) <= 2 * fit.error
        errors.append(fit.error)
        slopes.append(fit.slope)
    assert inside >= 180
    # Not wastefully large either: the larger of two estimates of it exceeds the true error by a third on average.
    assert 0.9 * np.std(slopes) <= np.mean(errors) <= 1.7 * np.std(slopes)


def test_one_run_at_two_points_has_a_slope_but_no_error() -> None:
    assert power_law(SIZES[:2], [np.array([1.0]), np.array([3.0])]) == Fit(pytest.approx(1.0), None)
    two = power_law(SIZES[:2], [np.array([1.0, 1.2]), np.array([3.0, 3.1])])
    assert two is not None and two.error is not None and two.error > 0


def test_a_bent_curve_has_a_large_error_though_replicates_agree() -> None:
    bent = np.array([0.01, 0.011, 0.1, 0.9, 1.0])[:, None] * np.ones(10)
    fit = power_law(SIZES, bent)
    assert fit is not None and fit.error is not None and fit.error > 0.1


def test_points_without_a_logarithm_are_left_out_of_the_law() -> None:
    samples = [np.full(3, 1.0), np.full(3, 0.0), np.full(3, 10.0), np.array([-1.0, -1.0, 5.0]), np.full(3, 100.0)]
    fit = power_law(SIZES, samples)
    assert fit is not None and fit.slope == pytest.approx(1.0)
    assert power_law(SIZES, [np.zeros(3)] * 5) is None and power_law(np.empty(0), []) is None
    assert power_law(-SIZES, samples) is None and log_law(SIZES[:1], samples[:1]) is None


EMPTY, ONE = np.empty(0), np.array([1.0, 2.0, 2.0, 3.0, 9.0])
# Straight where power laws are, in the numbers themselves where these have no logarithms.
CROSSINGS = {
    "power laws": (SIZES, 0.1 * SIZES**0.2, 0.01 * SIZES**0.8, [10 ** (1 / 0.6)]),
    "parallel": (SIZES, SIZES, 2 * SIZES, []),
    "nothing": (EMPTY, EMPTY, EMPTY, []),
    "curves that touch": (SIZES, ONE, np.array([2.0, 2.0, 3.0, 4.0, 9.5]), []),
    "equal points are passed in the middle": (SIZES, ONE, np.array([2.0, 2.0, 2.0, 1.0, 1.0]), [math.sqrt(30 * 100)]),
    "negative places": (np.array([-1.0, 1.0]), np.array([0.0, 4.0]), np.array([3.0, 3.0]), [0.5]),
    "negative heights": (np.array([1.0, 100.0]), np.array([-1.0, 1.0]), np.array([0.0, 0.0]), [10.0]),
}


@pytest.mark.parametrize("name", CROSSINGS)
def test_where_curves_cross(name: str) -> None:
    values, one, other, places = CROSSINGS[name]
    assert crossovers(values, one, other) == pytest.approx(tuple(places))
    assert len(crossovers(SIZES, ONE, np.array([2.0, 1.0, 3.0, 1.0, 1.0]))) == 3


# --------------------------------------------------------------------------------------------------- several data sets


def drawn(seed: int, sets: int = 5, spread: float = 0.1) -> list[np.ndarray]:
    """Data sets whose true exponents vary by `spread` around 0.5, each with 20 noisy runs."""
    exponents = np.random.default_rng([7, seed]).normal(0.5, spread, sets)
    return [noisy(100 * seed + number, exponent) for number, exponent in enumerate(exponents)]


def test_the_exponent_of_several_data_sets_is_the_mean_of_theirs() -> None:
    data = drawn(0)
    fit, alone = power_law(SIZES, *data), [power_law(SIZES, samples) for samples in data]
    slopes = [one.slope for one in alone if one is not None]
    assert fit is not None and fit.slope == pytest.approx(np.mean(slopes))
    assert fit.error == pytest.approx(np.std(slopes, ddof=1) / math.sqrt(5))
    assert fit.margin == pytest.approx(2.776 * fit.error, rel=1e-3)  # Student's factor, 4 degrees of freedom
    assert fit.misfits == tuple(one.misfits[0] for one in alone if one is not None)


@pytest.mark.parametrize("sets", [2, 5])
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_the_interval_over_data_sets_covers_the_true_exponent(spread: float, sets: int) -> None:
    """In at least 88 % of 100 samples (95 % expected, its own spread is 2.2 %), whether data sets differ or not."""
    fits = [power_law(SIZES, *drawn(seed, sets, spread)) for seed in range(100)]
    assert sum(fit is not None and abs(fit.slope - 0.5) <= fit.margin for fit in fits) >= 88


def test_one_data_set_does_not_tell_how_much_data_sets_differ() -> None:
    """What the interval over several is for: that of a single data set is too narrow by far."""
    single = [power_law(SIZES, *drawn(seed, 1)) for seed in range(100)]
    assert sum(fit is not None and abs(fit.slope - 0.5) <= fit.margin for fit in single) < 75


def test_a_bend_that_all_data_sets_share_stays_in_the_error() -> None:
    bent = np.array([0.01, 0.011, 0.1, 0.9, 1.0])[:, None] * np.ones(10)
    one, many = power_law(SIZES, bent), power_law(SIZES, *[bent * scale for scale in (0.9, 1.0, 1.1, 1.2)])
    assert one is not None and many is not None
    assert many.error == pytest.approx(one.error) and many.slope == pytest.approx(one.slope)


def test_the_law_that_the_medians_follow_fits_better() -> None:
    straight = [noisy(seed, 0.3, spread=0.05) for seed in range(5)]
    power, log = power_law(SIZES, *straight), log_law(SIZES, *straight)
    assert power is not None and log is not None and power.misfit is not None and log.misfit is not None
    assert better_law(power, log) == "Power law (5 of 5 data sets)" and power.misfit < 0.05 < log.misfit
    noise = [noisy(seed, 0.0, spread=0.05) / 0.05 for seed in range(5)]
    slow = [(0.05 + 0.03 * np.log(SIZES))[:, None] * found for found in noise]
    power, log = power_law(SIZES, *slow), log_law(SIZES, *slow)
    assert power is not None and log is not None and power.misfit is not None and log.misfit is not None
    assert better_law(power, log) == "Log law (5 of 5 data sets)" and log.misfit < 0.02 < power.misfit
    assert log.slope == pytest.approx(0.03, abs=0.003) and abs(log.slope - 0.03) <= log.margin
    one = power_law(SIZES, slow[0]), log_law(SIZES, slow[0])
    assert better_law(*one) == "Log law"


def test_laws_that_do_not_differ_are_called_alike_and_without_misfits_nothing_is_said() -> None:
    power, log = Fit(0.1, 0.01, 0.02, (0.1, 0.2, 0.1)), Fit(0.1, 0.01, 0.02, (0.2, 0.1, 0.2))
    assert better_law(power, log) == "Neither clearly (power law in 2 of 3)"
    assert better_law(power, Fit(0.1, 0.01)) == better_law(None, log) == ""
    assert power_law(SIZES[:2], *[found[:2] for found in drawn(0)]).misfits == ()  # type: ignore[union-attr]
    negative = log_law(SIZES, [np.array([-1.0, -2.0])] * 5)
    assert negative is not None and negative.misfits == () and negative.misfit is None


def test_runs_that_diverged_leave_numbers() -> None:
    samples = [np.full(3, height) for height in (0.1, 1.0, 1e300, 1e300, 1e300)]
    for fit in (power_law(SIZES, samples, samples), log_law(SIZES, samples, samples)):
        assert fit is not None and math.isfinite(fit.slope)


def test_orders_are_counted_over_data_sets() -> None:
    """Three data sets as in the issue: no crossing, one at 807, one at 910."""
    level = np.full(5, 0.2)

    def crossing(at: float) -> np.ndarray:
        return 0.2 * (SIZES / at) ** 0.6

    curves = [(SIZES, level, crossing(at)) for at in (5000.0, 807.0, 910.0)]
    first, second = orders("sampling", "noise", curves)
    assert first.leaders == ("noise", "sampling") and first.data_sets == 2
    np.testing.assert_allclose(first.crossings, [[807], [910]])
    assert second.leaders == ("noise",) and second.crossings.shape == (1, 0)
    (equal,) = orders("a", "b", [(SIZES, level, level)] * 2)
    assert equal.leaders == () and equal.data_sets == 2
    assert orders("a", "b", []) == ()


def test_intervals_of_a_crossing_cover_it_and_shrink_with_the_runs() -> None:
    """Two lines that cross at 10, with noise of their own; 300 trials, so that 95 % are covered up to ± 2.5 %."""
    generator, values = np.random.default_rng(4), np.array([1.0, 3.0, 8.0, 20.0, 60.0])

    def samples(slope: float, runs: int) -> list[np.ndarray]:
        return [(value / 10) ** slope * generator.lognormal(0, 0.4, runs) for value in values]

    covered, widths = [], []
    for _ in range(300):
        arms = samples(1.0, 41), samples(-1.0, 41)
        places = crossovers(values, *(np.median(arm, axis=1) for arm in arms))
        for (low, high), place in zip(crossing_intervals(values, *arms), places, strict=True):
            assert low <= place <= high
            covered.append(low <= 10 <= high)
            widths.append(np.log(high / low))
    assert len(covered) == 300 and 0.91 < np.mean(covered) < 0.99
    ((low, high),) = crossing_intervals(values, samples(1.0, 41 * 16), samples(-1.0, 41 * 16))
    assert np.log(high / low) == pytest.approx(np.median(widths) / 4, rel=0.35)


def test_intervals_end_with_the_values_and_say_where_curves_are_equal() -> None:
    values, level = np.array([1.0, 2.0, 4.0]), [np.full(3, 1.0)] * 3
    assert crossing_intervals(values, level, [np.array([0.01, 1.1, 9.0])] * 2 + [np.array([0.01, 0.9, 9.0])]) == (
        (1.0, pytest.approx(4.0)),
    )
    touching = [np.full(3, 0.5), np.full(3, 1.0), np.full(3, 2.0)]
    assert crossing_intervals(values, level, touching) == ((2.0, pytest.approx(2.0)),)
    assert crossing_intervals(values, level, level) == ()
    linear = crossing_intervals(np.array([-1.0, 1.0]), [np.array([-2.0])] * 2, [np.array([-3.0]), np.array([-1.0])])
    assert linear == ((0.0, 0.0),)
    for far in (0.0, -1e300):  # an interval that reaches zero, and one of a run that diverged
        crossing_one = [np.array([far, 1.998 - far]), np.array([1.001, 1.003])]
        with np.errstate(over="raise", invalid="raise"):
            assert crossing_intervals(values[:2], crossing_one, [np.ones(2)] * 2) == ((1.0, pytest.approx(2.0)),)
