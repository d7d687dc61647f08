"""Audits of whole runs: scores are log-likelihood ratios, verdicts hold, and looks and thresholds cost nothing."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import beta

from dpviz.audits.audit import BLOCK, Attack, Audit, scores
from dpviz.families.accelerated import GradientDescent
from dpviz.families.accelerated.audits import CASES
from dpviz.privacy.budgets import PureDP

NAG = next(case for case in CASES if case.name == "nesterov")


def audited(audit: Audit, world: int, runs: int, seed: int = 3) -> np.ndarray:
    return scores(audit.case, audit.plan, world, seed, str(world), runs)


def test_scores_are_log_likelihood_ratios() -> None:
    """E e^(-L) = 1 on D and E e^L = 1 on D'; under pure ε, |L| ≤ ε, attained in all steps on the far sides."""
    audit = Audit(NAG, PureDP(epsilon=1.0))
    for world, sign in ((0, -1), (1, 1)):
        weights = np.exp(sign * audited(audit, world, 20_000))
        assert abs(weights.mean() - 1) < 4 * weights.std() / math.sqrt(20_000)
        assert weights.min() == pytest.approx(math.exp(-1.0), rel=1e-5)


def test_the_ratio_of_one_laplace_step_is_in_closed_form() -> None:
    """Gradients ±C/n and the scale 2C/(nε): L = (|y + C/n| - |y - C/n|)/b, with P(L = ε) = ½ on D."""
    case = dataclasses.replace(NAG, algorithm=GradientDescent(iterations=1))
    found = audited(Audit(case, PureDP(epsilon=1.0)), 0, 20_000)
    assert found.max() == 1.0 and found.min() == -1.0
    assert abs((found == 1.0).mean() - 0.5) < 4 * 0.5 / math.sqrt(20_000)
    assert abs((found == -1.0).mean() - 0.5 / math.e) < 4 * 0.5 / math.sqrt(20_000)


def test_an_audit_streams_and_says_what_it_found() -> None:
    audit = Audit(NAG, PureDP(epsilon=1.0), runs=4000, looks=4, seed=1)
    seen = list(audit.stream())
    assert [len(progress.present) for progress in seen] == [1000, 1750, 2000, 2500, 3000, 3250, 4000]
    assert seen[0].attack is not None and audit.tuning == 1000  # chosen on the first quarter, kept to the end
    assert {progress.attack for progress in seen} == {seen[0].attack}
    assert [look.runs for look in seen[-1].looks] == [750, 1500, 2250, 3000]
    assert all(len(progress.present) == len(progress.absent) for progress in seen)
    verdict = audit.verdict(seen[-1])
    assert verdict == audit.run()
    assert not verdict.violation and 0.5 < verdict.tightness < 1 and verdict.claim == 1.0
    # A rate of 0 in 3000 runs is below x and one of 1 above 1 - x, each with the confidence 1 - 0.05/4/2.
    x = -math.expm1(math.log(0.05 / 8) / 3000)
    assert verdict.bound < audit.max_bound == pytest.approx(math.log((1 - x) / x), rel=1e-9)
    assert verdict.sentence().startswith("No violation found: this attack proves ε ≥ 0.")
    stopped = audit.verdict(seen[3])
    assert stopped.figure().data[0].x.tolist() == [1750, 2500], "with the runs on which the attack is chosen"


def test_blocks_do_not_repeat_each_other_and_seeds_repeat_an_audit() -> None:
    audit = Audit(NAG, PureDP(epsilon=1.0), runs=2 * BLOCK, seed=1)
    *_, last = audit.stream()
    assert not np.isin(last.present[:BLOCK], last.present[BLOCK:]).all()
    assert (last.present != last.absent).any()
    again = list(dataclasses.replace(audit, seed=np.arange(2)[1]).stream())[-1]  # of a loop over an array
    assert np.array_equal(last.present, again.present) and np.array_equal(last.absent, again.absent)
    *_, other = dataclasses.replace(audit, seed=2).stream()
    assert not np.array_equal(last.present, other.present)


@pytest.mark.parametrize("looks", [1, 4, 25])
def test_every_look_is_paid_for(looks: int) -> None:
    """Exact: of the same counts, a bound at one of K looks errs with a K-th of the probability (Bonferroni)."""
    audit = Audit(NAG, PureDP(epsilon=1.0), runs=4000, looks=looks)
    attack, runs = Attack(0.5), 300
    present, absent = (np.repeat([1.0, 0.0], [hits, runs - hits]) for hits in (210, 60))
    found = audit._look(attack, present, absent)
    assert (found.runs, found.hits, found.false_hits) == (runs, 210, 60)
    error = 0.05 / looks / 2  # of either of the two rates
    low, high = beta.ppf(error, 210, runs - 209), beta.isf(error, 61, runs - 60)
    assert found.bound == pytest.approx(max(math.log(low / high), math.log((1 - high) / (1 - low))), rel=1e-9)
