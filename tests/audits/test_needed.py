"""How many runs flag noise that is too small: as many as audits of it take."""

import dataclasses

import pytest

from dpviz.audits.audit import Audit
from dpviz.audits.needed import FACTORS, LEAST, MOST, runs_needed
from dpviz.families.accelerated.audits import CASES
from dpviz.families.mirror_descent.audits import CASES as GAMES
from dpviz.families.second_order.audits import CASES as SECOND
from dpviz.privacy.budgets import GaussianDP
from tests.families.test_implementation import scaled

GAUSSIAN = next(case for case in CASES if case.name == "nesterov_gaussian")


@pytest.mark.slow
def test_less_noise_is_flagged_sooner_and_by_the_tests_first() -> None:
    for case in (*CASES[:6], next(case for case in GAMES if case.name == "frank_wolfe")):
        found = runs_needed(Audit(case, case.budgets[0]))
        assert [needed.factor for needed in found] == list(FACTORS)
        attack, tests = ([getattr(needed, who) or MOST for needed in found] for who in ("attack", "tests"))
        assert attack == sorted(attack) and tests == sorted(tests) and LEAST <= tests[-1] < attack[-1]


def test_what_a_method_asks_for_while_it_runs_is_not_known_before() -> None:
    adaptive = next(case for case in SECOND if case.name == "line_search")
    assert [needed.attack for needed in runs_needed(Audit(adaptive, adaptive.budgets[0]))] == [None] * 3


@pytest.mark.slow
@pytest.mark.parametrize("factor", FACTORS[1:])
def test_about_half_of_all_audits_flag_it(factor: float) -> None:
    """Of 20: fewer than 3 or more than 17 have a chance of 4e-4 at a half; a third more or fewer runs do not."""
    (needed,) = [one for one in runs_needed(Audit(GAUSSIAN, GaussianDP(mu=1.0))) if one.factor == factor]
    assert needed.attack is not None
    case = dataclasses.replace(GAUSSIAN, source=scaled(factor))

    def flagged(runs: int) -> int:
        return sum(Audit(case, GaussianDP(mu=1.0), runs, seed=seed).run().violation for seed in range(20))

    assert flagged(needed.attack // 2) <= 17 and flagged(2 * needed.attack) >= 3
    assert flagged(4 * needed.attack) >= 15
