"""Worst-case certificates for heavy ball: validity, the verified rates, and where none exists."""

import dataclasses

import numpy as np
import pytest

from dpviz.families.accelerated import theory
from dpviz.families.accelerated.certificate import Certificate, certify
from dpviz.families.accelerated.quadratic import expected_gap

FIRST = Certificate(0.5, 1.0, 1.0, 0.086, 0.49, ((91.9179, -15.2284), (-15.2284, 8.0821)), 72.4635)
SECOND = Certificate(0.1, 1.0, 0.5, 0.3, 0.93, ((84.9843, -32.1557), (-32.1557, 15.0157)), 25.9829)


@pytest.mark.parametrize(
    ("certificate", "inequality", "matrix", "noise_factor"),
    [(FIRST, 0.0872, 5.40, 1.45028), (SECOND, 0.1103, 2.48, 5.14229)],
)
def test_verified_certificates(certificate: Certificate, inequality: float, matrix: float, noise_factor: float) -> None:
    assert certificate.margin == pytest.approx(inequality, abs=5e-5)
    assert np.linalg.eigvalsh(certificate.P)[0] == pytest.approx(matrix, abs=5e-3)
    assert certificate.noise_factor == pytest.approx(noise_factor, abs=5e-6)


def test_too_small_a_rate_has_a_negative_margin() -> None:
    assert dataclasses.replace(FIRST, rate=0.48).margin < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "step_size", "momentum", "rate"),
    [(0.5, 1.0, 0.086, 0.4838), (0.1, 0.5, 0.3, 0.926), (0.1, 1.0, 0.234, 0.8776)],
)
def test_smallest_rates(mu: float, step_size: float, momentum: float, rate: float) -> None:
    certificate = certify(mu, 1.0, step_size, momentum)
    assert certificate is not None
    assert certificate.rate == pytest.approx(rate, abs=3e-4)
    assert certificate.margin >= 0


def test_no_certificate_for_the_momentum_of_the_papers_experiments() -> None:
    """Erratum E16."""
    assert certify(0.02, 5.1, 1 / 5.1, 0.88) is None


def test_no_certificate_for_an_unstable_method() -> None:
    assert certify(0.1, 1.0, 2.5, 0.1) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "relative_step", "largest"), [(10, 1.0, 0.550), (126, 1.0, 0.504), (50, 0.1, 0.951)]
)
def test_largest_certified_momentum(condition: float, relative_step: float, largest: float) -> None:
    assert certify(1 / condition, 1.0, relative_step, largest - 0.002) is not None
    assert certify(1 / condition, 1.0, relative_step, largest + 0.002) is None


@pytest.mark.slow
def test_bound_is_above_the_exact_gap_of_random_quadratics() -> None:
    random = np.random.default_rng(7)
    checked, largest = 0, 0.0
    while checked < 5:
        smoothness = 10 ** random.uniform(-1, 2)
        mu = smoothness / 10 ** random.uniform(0.05, 2)
        step_size, momentum = random.uniform(0.05, 1.8) / smoothness, random.uniform(0, 0.7)
        certificate = certify(mu, smoothness, step_size, momentum)
        if certificate is None:
            continue
        checked += 1
        for spectrum in (np.array([mu]), np.array([smoothness]), np.array([mu, np.sqrt(mu * smoothness), smoothness])):
            start, variance = random.normal(size=spectrum.size), random.lognormal(0, 3)
            steps = theory.heavy_ball(80, step_size, momentum)
            exact = expected_gap(steps, "heavy_ball", spectrum, start, variance).total
            bound = certificate.bound(start @ start, exact[0], spectrum.size * variance, 80)
            assert bound.shape == (81,)
            largest = max(largest, (exact / bound).max())
    assert 0.1 < largest <= 1
