"""Methods of the family with a mistake in one of their parts: the suite over the registry must see each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpviz.families.second_order import LineSearch, MiniBatch, ShortStep, TrustRegion
from dpviz.families.second_order.methods.releases import Separate, Together
from dpviz.families.second_order.methods.steps import Measured
from dpviz.privacy.queries import Query
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexRisk
from tests.families.registry import ALL, Case, runs
from tests.families.test_mutants import fails

Patch = Callable[[pytest.MonkeyPatch], None]


def spied(owner: type, name: str, change: Callable[[Query], Query]) -> Patch:
    """The query that a method in parts finds, changed."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        true = getattr(owner, name)

        def wrong(*arguments: Any, **named: Any) -> Any:
            return change(true(*arguments, **named))

        monkeypatch.setattr(owner, name, wrong)

    return patch


def understated(query: Query) -> Query:
    return query._replace(sensitivity=np.asarray(query.sensitivity) / 100)


def without_noise(purpose: str, owner: type) -> Patch:
    """Noise is drawn and paid for, and the raw value used."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        true = owner.gaussian  # type: ignore[attr-defined]

        def wrong(self: Any, query: Query, asked: str, rows: np.ndarray) -> np.ndarray:
            noisy = true(self, query, asked, rows)
            return query.value if asked == purpose else noisy

        monkeypatch.setattr(owner, "gaussian", wrong)

    return patch


def raw_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a gradient is short is decided by the raw one."""
    true = Measured.gradient

    def wrong(self: Measured, state: Any, rows: np.ndarray) -> Any:
        found, noisy = true(self, state, rows)
        raw = self.problem.mean_gradient(state.x[found]).value + self.problem.regulariser_gradient(state.x[found])
        state.shown["noisy_gradient_norm"][found] = np.linalg.norm(raw, axis=1)
        return found, noisy

    monkeypatch.setattr(Measured, "gradient", wrong)


def all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hessian is computed on all rows, and released as if on the batch."""
    true = NonconvexRisk.hessian

    def wrong(self: NonconvexRisk, x: np.ndarray, batch: Any, shape: Any) -> Any:
        query = true(self, x, None, shape)
        return query._replace(batch=batch, sensitivity=self.facts.hessian_sensitivity / batch.divisor(self.facts.n))

    monkeypatch.setattr(NonconvexRisk, "hessian", wrong)


def batch_as_if_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published mistake: a mean over m rows with the noise of one over n."""
    true = NonconvexRisk.mean_gradient

    def wrong(self: NonconvexRisk, *arguments: Any) -> Any:
        query = true(self, *arguments)
        return query._replace(sensitivity=self.facts.gradient_sensitivity / self.facts.n)

    monkeypatch.setattr(NonconvexRisk, "mean_gradient", wrong)


def case_of(cls: type, start: str) -> Case:
    """The first case that is called so; with "certificate ", as it asks for the smallest eigenvalue first."""
    case = next(case for case in runs(cls, ALL) if case.name.startswith(start.removeprefix("certificate ")))
    if start.startswith("certificate "):
        algorithm = case.algorithm.replaced(certificate=True, curvature_target=0.6, hessian_share=0.95)
        return case._replace(algorithm=algorithm, plan=algorithm.plan(case.plan.facts, case.budget))
    return case


DEFAULT = "default, problems.nonconvex.robust"
SHORT = "gradient_target=0.3, problems.nonconvex.robust"  # gradients pass their test
LONG = "gradient_target=0.01, problems.nonconvex.robust"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("cls", "start", "mistake", "check"),
    [
        (ShortStep, SHORT, without_noise("hessian", Separate), "released only"),
        (ShortStep, DEFAULT, without_noise("gradient", Separate), "released only"),
        (ShortStep, f"certificate {SHORT}", without_noise("certificate", Separate), "released only"),
        (ShortStep, f"certificate {SHORT}", spied(NonconvexRisk, "smallest_eigenvalue", understated), "sensitivity"),
        (ShortStep, SHORT, raw_branch, "released only"),
        (ShortStep, SHORT, spied(NonconvexRisk, "hessian", understated), "sensitivity"),
        (ShortStep, SHORT, spied(NonconvexRisk, "hessian", understated), "noise"),
        (ShortStep, DEFAULT, spied(NonconvexRisk, "mean_gradient", understated), "sensitivity"),
        (
            ShortStep,
            "at_state=True, problems.nonconvex.robust",
            spied(NonconvexRisk, "mean_gradient", understated),
            "sensitivity",
        ),
        (LineSearch, LONG, spied(NonconvexRisk, "decrease", understated), "sensitivity"),
        (MiniBatch, SHORT, without_noise("hessian", Together), "released only"),
        (MiniBatch, SHORT, all_rows, "sensitivity"),
        (MiniBatch, DEFAULT, batch_as_if_all, "noise"),
        (MiniBatch, DEFAULT, batch_as_if_all, "sensitivity"),
        (TrustRegion, DEFAULT, without_noise("hessian", Together), "released only"),
    ],
)
def test_a_mistake_is_caught(
    cls: type, start: str, mistake: Patch, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(cls, start)
    assert not fails([case], check)
    mistake(monkeypatch)
    assert fails([case], check)
