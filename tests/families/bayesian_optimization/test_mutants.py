"""Methods of the family with a mistake in one of their parts: the suite over the registry must see each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpviz.families.bayesian_optimization import Gibo, GlobalSearch, GradientDescent, RandomSearch
from dpviz.families.bayesian_optimization.algorithms import TRAININGS, Estimates, Posteriors, Walk
from dpviz.privacy.budgets import GaussianDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.problems.tuning import tuning
from dpviz.problems.tuning.tuning import Evaluations, TuningFacts, TuningProblem
from tests.families.registry import ALL, Case, runs
from tests.families.spying import Spy
from tests.families.test_mutants import fails

Patch = Callable[[pytest.MonkeyPatch], None]


def understated(name: str) -> Patch:
    """A sensitivity 100 times too small."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        true = getattr(Evaluations, name)

        def wrong(self: Evaluations, *arguments: Any) -> Any:
            query = true(self, *arguments)
            return query._replace(sensitivity=np.asarray(query.sensitivity) / 100)

        monkeypatch.setattr(Evaluations, name, wrong)

    return patch


def without_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users' gradients count in full."""
    monkeypatch.setattr(tuning, "clipped_sum", lambda rows, clip: (np.nan_to_num(rows).sum(axis=0), 0))


def pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Erratum E3: losses are scaled by what all users have together, before the clip."""
    true = Evaluations.gradient

    def wrong(self: Evaluations, weights: Any, clip: float) -> Any:
        kept = self._losses
        self._losses = [(y - y.mean()) / max(float(y.std()), 1e-9) if len(y) else y for y in kept]
        query = true(self, weights, clip)
        self._losses = kept
        return query

    monkeypatch.setattr(Evaluations, "gradient", wrong)


def points_by_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many points are asked for depends on the users' losses."""
    true = Evaluations.add

    def wrong(self: Evaluations, points: Any) -> Any:
        true(self, points)
        self.count += [int(np.abs(losses).sum() * 1e3) % 2 for losses in self._losses]

    monkeypatch.setattr(Evaluations, "add", wrong)


def fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is fitted to the losses: weights depend on them."""
    true = Evaluations.gradient

    def wrong(self: Evaluations, weights: Any, clip: float) -> Any:
        spread = [max(float(np.ptp(y.mean(axis=1))), 1e-9) if len(y) else 1.0 for y in self._losses]
        return true(self, [w / s for w, s in zip(weights, spread, strict=True)], clip)

    monkeypatch.setattr(Evaluations, "gradient", wrong)


def raw(monkeypatch: pytest.MonkeyPatch, moves: bool) -> None:
    """Noise is drawn and paid for; then the raw gradient moves the iterate, or its length is shown."""
    seen, go, secret = [], Walk.go, Estimates.seen

    def noted(self: Estimates, x: np.ndarray, query: Query | None = None) -> dict[str, np.ndarray]:
        if query is not None:
            seen.append(query.value)
        return secret(self, x, query)

    def wrong(self: Walk, gradient: np.ndarray, step: float) -> None:
        go(self, seen[-1] if moves else gradient, step)
        self.norm = np.linalg.norm(seen[-1], axis=1)

    monkeypatch.setattr(Estimates, "seen", noted)
    monkeypatch.setattr(Walk, "go", wrong)


def raw_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    raw(monkeypatch, moves=True)


def raw_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    raw(monkeypatch, moves=False)


def clipped_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A released series is made from how many users were clipped."""
    true = Posteriors.released.fget  # type: ignore[attr-defined]

    def wrong(self: Posteriors) -> dict[str, np.ndarray]:
        return {**true(self), TRAININGS.name: self._evaluations.clipped_share.copy()}

    monkeypatch.setattr(Posteriors, "released", property(wrong))


def case_of(cls: type, start: str) -> Case:
    """The first case that is called so."""
    return next(case for case in runs(cls, ALL) if case.name.startswith(start))


DEFAULT = "default"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("cls", "start", "mistake", "check"),
    [
        (Gibo, DEFAULT, understated("gradient"), "sensitivity"),
        (Gibo, DEFAULT, understated("gradient"), "noise"),
        (GradientDescent, DEFAULT, understated("exact_gradient"), "sensitivity"),
        (RandomSearch, DEFAULT, understated("utilities"), "sensitivity"),
        (GlobalSearch, DEFAULT, understated("mean_loss"), "sensitivity"),
        (Gibo, DEFAULT, without_clip, "sensitivity"),
        (GradientDescent, DEFAULT, without_clip, "sensitivity"),
        (Gibo, DEFAULT, points_by_losses, "released only"),
        (Gibo, DEFAULT, raw_gradient, "released only"),
        (Gibo, DEFAULT, raw_norm, "released only"),
        (Gibo, DEFAULT, clipped_share, "released only"),
    ],
)
def test_a_mistake_is_caught(
    cls: type, start: str, mistake: Patch, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(cls, start)
    assert not fails([case], check)
    mistake(monkeypatch)
    assert fails([case], check)


class Waves(TuningProblem):
    """Each user's loss is a wave of its own over the box [-2, 2]²; one user's is replaced by something else."""

    def __init__(self, replaced: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        super().__init__(TuningFacts(50, 2, low=(-2.0,) * 2, high=(2.0,) * 2))
        self._replaced = replaced

    def _losses(self, points: np.ndarray) -> np.ndarray:
        users = np.arange(50)
        found = 1 + np.sin(points[:, :1] + users) * np.cos(points[:, 1:] - 0.3 * users)
        if self._replaced is not None:
            with np.errstate(over="ignore"):
                found[:, 7] = self._replaced(found[:, 7])
        return found


def largest_move(monkeypatch: pytest.MonkeyPatch) -> float:
    """By how much, over the sensitivity, a hostile user moves the mean in any step of a run with the same releases."""
    spy = Spy(monkeypatch, canned=True)
    algorithm = Gibo(iterations=5, clip=0.5)
    plan = algorithm.plan(Waves().facts, GaussianDP(mu=1.0))

    def asked(problem: Waves) -> list[Query]:
        spy.clear()
        for _ in algorithm.run(problem, plan, Mechanisms(Ledger(plan.terms, 2), 3)):
            pass
        return [release.query for release in spy.seen]

    before, worst = asked(Waves()), 0.0
    for change in (lambda y: 1e4 * y, lambda y: -1e300 * y, lambda y: y * np.nan, lambda y: np.where(y > 1, np.inf, y)):
        for one, two in zip(before, asked(Waves(change)), strict=True):
            assert np.isfinite(two.value).all() and one.sensitivity == pytest.approx(0.02)
            worst = max(worst, float(np.linalg.norm(two.value - one.value, axis=1).max()) / 0.02)
    return worst


def test_a_user_with_losses_beyond_all_bounds_moves_the_mean_by_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.5 < largest_move(monkeypatch) <= 1 + 1e-12


@pytest.mark.parametrize("mistake", [pooled, fitted])
def test_users_that_are_coupled_before_the_clip_move_each_other(
    mistake: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erratum E3."""
    mistake(monkeypatch)
    with np.errstate(over="ignore", invalid="ignore"):
        assert largest_move(monkeypatch) > 1.5
