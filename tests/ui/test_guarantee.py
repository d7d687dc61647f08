"""The guarantee line of methods that stop by themselves, and of methods that add no noise."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.plan import Privacy
from dpviz.families.accelerated import Nesterov
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui.experiment import guarantee
from tests.experiments.adaptive import RHO, careful


def _line() -> None:
    from dpviz.ui.experiment import guarantee
    from tests.experiments.adaptive import careful

    experiment = careful()
    guarantee.line(experiment, experiment.plans(), 1e-6)


def test_a_method_under_a_filter_has_a_guarantee_line() -> None:
    app = AppTest.from_function(_line, default_timeout=300).run()
    assert not app.exception
    names = {metric.label: metric.value for metric in app.metric}
    assert names["Budget of each method"] == "ρ = 0.02" and names["Noise, first → last step"]
    (caption,) = [item.value for item in app.caption]
    assert "Stops by itself, so at most this much is spent: A, B." in caption
    assert "zCDP ρ ≤ 0.02 (A)" in caption and "Pure ε: none." in caption


def test_the_readings_are_those_of_the_ceiling() -> None:
    read = guarantee.readings(careful().plans()["A"], 1e-6)
    assert read.rho == pytest.approx(RHO) and read.pure == read.mu == np.inf


def test_what_was_bought_before_the_run_counts_in_every_reading() -> None:
    problem = LogisticRegression(smoothness=0.2, smoothness_source="released", smoothness_cost=0.5)
    plan = Nesterov(iterations=5).plan(problem.facts(), PureDP(epsilon=2.0))
    alone = replace(plan, facts=replace(plan.facts, released=()))
    read, less = guarantee.readings(plan, 1e-6), guarantee.readings(alone, 1e-6)
    assert read.pure == pytest.approx(2.0) and less.pure == pytest.approx(1.5)
    assert (
        read.epsilon_at_delta > less.epsilon_at_delta + 0.1 and read.rho > less.rho and read.detection > less.detection
    )


def _badges() -> None:
    from typing import get_args

    from dpviz.experiments.plan import Privacy
    from dpviz.ui import explain

    for status in (*get_args(Privacy), "partly private"):
        explain.privacy_badge(status)


def test_a_badge_says_what_it_is_of_and_only_private_is_green() -> None:
    badges = [badge.value for badge in AppTest.from_function(_badges, default_timeout=300).run().markdown]
    said = [badge.rpartition(":")[2].strip(" ]") for badge in badges]
    assert said == [*get_args(Privacy), "partly private"]
    assert ["green" in badge for badge in badges] == [status == "private" for status in said]


def _divergence(public: bool) -> None:
    from types import SimpleNamespace as Some

    from dpviz.families.accelerated import GradientDescent
    from dpviz.ui.experiment import run

    lanes = {label: Some(status=["diverged", "running"], private=label == "DP") for label in ("DP", "reference")}
    arms = [Some(label=label, algorithm=GradientDescent()) for label in lanes]
    experiment = Some(arms=arms, problem=Some(public=public))
    run._diverged(Some(job=Some(trace=Some(lanes=lanes)), experiment=experiment))  # type: ignore[arg-type]


@pytest.mark.parametrize(("public", "told"), [(True, 2), (False, 1)])
def test_that_a_reference_diverged_is_told_of_public_data_only(public: bool, told: int) -> None:
    """Whether gradients without noise diverge depends on the rows."""
    app = AppTest.from_function(_divergence, kwargs={"public": public}, default_timeout=300).run()
    assert not app.exception and len(app.warning) == told and app.warning[0].proto.title.startswith("DP")
