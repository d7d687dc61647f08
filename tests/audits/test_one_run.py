"""Many canaries in a single run: what is sound is not refuted, and noise too small by √2 is, more often than not."""

import dataclasses
import math

import pytest
from scipy.stats import binom

from dpviz.errors import UserError
from dpviz.families.accelerated.audits import ONE_RUN
from dpviz.privacy import audit
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.privacy.verification.broken import Quieter

EPSILON = PureDP(epsilon=1.0)


def power(truth: float, claim: float = 1.0, canaries: int = 400, guesses: int = 200) -> float:
    """The chance that the bound exceeds the claim where each guess is right with e^ε/(1 + e^ε), ε the truth."""
    refuting = next(v for v in range(guesses) if audit.one_run_epsilon_lower_bound(canaries, guesses, v) > claim)
    return float(binom.sf(refuting - 1, guesses, 1 / (1 + math.exp(-truth))))


@pytest.mark.slow
def test_bounds_from_single_runs_are_as_often_too_large_as_they_may_be() -> None:
    """20 runs each: of sound ones more than 5 flagged have a chance of 3e-4, of the others fewer than 8 one of 4e-5."""
    quiet = dataclasses.replace(ONE_RUN, source=Quieter)
    sound = [ONE_RUN.run(EPSILON, seed) for seed in range(20)]
    wrong = [quiet.run(EPSILON, seed) for seed in range(20)]
    assert sum(verdict.violation for verdict in sound) <= 5
    assert power(1.0) <= 0.05 and power(math.sqrt(2)) > 0.75
    assert sum(verdict.violation for verdict in wrong) >= 8
    assert all(0.4 < verdict.bound < 1.3 for verdict in sound)
    assert {(verdict.canaries, verdict.guesses) for verdict in sound} == {(400, 200)}


def test_no_single_run_proves_more_than_all_of_its_guesses_do() -> None:
    """So a large claim is never refuted by so many canaries, whatever the noise."""
    verdict = dataclasses.replace(ONE_RUN, source=Quieter).run(PureDP(epsilon=10.0), 1)
    assert verdict.correct == verdict.guesses and verdict.bound == verdict.max_bound < 5 and not verdict.violation
    assert ONE_RUN.run(EPSILON, 1).max_bound == verdict.max_bound


def test_only_pure_epsilon_is_audited_so() -> None:
    with pytest.raises(UserError, match="Pure ε"):
        ONE_RUN.run(GaussianDP(mu=1.0))
