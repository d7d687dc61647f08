"""The guarantee line of methods that stop by themselves, and of methods that add no noise."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Privacy
from dpviz.families.accelerated import Nesterov
from dpviz.families.second_order import presets
from dpviz.numbers import short_up
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.conversions import convert
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.ui.experiment import guarantee
from tests.bounds import after, number
from tests.experiments.adaptive import RHO, careful


def _line() -> None:
    from dpviz.ui.experiment import guarantee
    from tests.experiments.adaptive import careful

    experiment = careful()
    guarantee.show_cards(experiment, experiment.plans(), 1e-6)


def test_a_method_under_a_filter_has_a_guarantee_line() -> None:
    app = AppTest.from_function(_line, default_timeout=300).run()
    assert not app.exception
    names = {metric.label: metric.value for metric in app.metric}
    assert names["Budget of each method"] == "ρ = 0.02" and names["Noise, first → last step"]
    (caption,) = [item.value for item in app.caption]
    assert "Stops by itself, so at most this much is spent: A, B." in caption
    assert "zCDP ρ ≤ 0.02 (A)" in caption and "Pure ε: —." in caption


def test_the_readings_are_those_of_the_ceiling() -> None:
    read = guarantee.readings(careful().plans()["A"], 1e-6)
    assert read.rho == pytest.approx(RHO) and read.pure == read.mu == np.inf


@pytest.mark.parametrize(("label", "varies"), [("OPT", False), ("2OPT", True)])
def test_noise_that_a_run_may_have_less_of_is_called_at_most(label: str, varies: bool) -> None:
    """The second phase has what the first one did not ask for."""
    plan = presets.METHODS[label].plan(RobustComponent().facts(), ZeroConcentratedDP(rho=0.1))
    title, *_ = guarantee.noise_card(label, plan)
    assert plan.noise_varies == ("at most" in title) == varies


def test_what_was_bought_before_the_run_counts_in_every_reading() -> None:
    problem = LogisticRegression(smoothness=0.2, smoothness_source="released", smoothness_cost=0.5)
    plan = Nesterov(iterations=5).plan(problem.facts(), PureDP(epsilon=2.0))
    alone = replace(plan, facts=replace(plan.facts, released=()))
    read, less = guarantee.readings(plan, 1e-6), guarantee.readings(alone, 1e-6)
    assert read.pure == pytest.approx(2.0) and less.pure == pytest.approx(1.5)
    assert (
        read.epsilon_at_delta > less.epsilon_at_delta + 0.1 and read.rho > less.rho and read.detection > less.detection
    )
    budget = GaussianDP(mu=2.0)  # which all releases keep to together
    plan = Nesterov(iterations=5, noise="gaussian").plan(problem.facts(), budget)
    assert guarantee.readings(plan, 1e-6).detection == pytest.approx(1 - float(budget.tradeoff(0.01)))


def _worth(texts: list[str], deltas: list[float]) -> None:
    from dpviz.experiments.experiment import Experiment
    from dpviz.ui.budget_planner import view
    from dpviz.ui.experiment import guarantee

    for text, delta in zip(texts, deltas, strict=True):
        experiment = Experiment.from_json(text)
        guarantee.show_cards(experiment, experiment.plans(), delta)
        view.show_worth(experiment.budget, "replace-one", 1, delta)


def test_no_number_after_at_most_is_below_what_it_bounds() -> None:
    random = np.random.default_rng(6)
    budgets = [
        budget
        for _ in range(8)
        for budget in (
            PureDP(epsilon=random.uniform(0.1, 5)),
            ApproximateDP(epsilon=random.uniform(0.1, 5), delta=random.uniform(1e-8, 1e-4)),
            ZeroConcentratedDP(rho=random.uniform(0.01, 2)),
            GaussianDP(mu=random.uniform(0.05, 3)),
        )
    ]
    methods = {pure: Nesterov(iterations=4, noise="laplace" if pure else "gaussian") for pure in (True, False)}
    experiments = [Experiment(Quadratic(), methods[budget.pure]).replaced(budget=budget) for budget in budgets]
    deltas = [budget.own_delta(3.21e-6) for budget in budgets]
    known = {"texts": [experiment.to_json() for experiment in experiments], "deltas": deltas}
    app = AppTest.from_function(_worth, kwargs=known, default_timeout=300).run()
    assert not app.exception and len(app.metric) == 9 * len(budgets)
    captions = [item.value for item in app.caption if "is noticed at most" in item.value]
    for i, (budget, experiment, delta) in enumerate(zip(budgets, experiments, deltas, strict=True)):
        read = guarantee.readings(experiment.plans()["DP-NAG"], delta)
        card = {metric.label: metric.value for metric in app.metric[9 * i : 9 * i + 9]}
        implied, noticed = convert(budget, delta), 1 - float(budget.tradeoff([0.01])[0])
        titles = {"Pure ε": "epsilon", "ρ (zCDP)": "rho", "μ (Gaussian DP)": "mu"}
        stated = zip(budget.controls(), card["Budget of each method"].split(", "), strict=True)
        attacks: list[float] = [50 * (1 + budget.advantage()), 100 * noticed, 100 * noticed / (noticed + 0.01)]
        pairs: list[tuple[list[float], list[float]]] = [
            (after("≤", card[f"Reading at δ = {short_up(delta)}"]), [read.epsilon_at_delta]),
            (after("≤", card["Attack reading"]), [100 * read.detection]),
            (after("at most", captions[i]), [100 * read.detection]),
            (after("ρ ≤", captions[i]), [read.rho][: int(read.rho < np.inf)]),
            (after("μ ≤", captions[i]), [read.mu][: int(read.mu < np.inf)]),
            (after("at most", app.markdown[i].value), attacks),
            *(([number(card[a].removeprefix("≤ "))], [implied[b]]) for a, b in titles.items() if implied[b]),
            *(([number(text.rpartition(" ")[2])], [getattr(budget, control.name)]) for control, text in stated),
        ]
        for told, exact in pairs:
            assert len(told) == len(exact)
            for one, other in zip(told, exact, strict=True):
                assert other * (1 - 1e-9) <= one <= other * 1.0101, (budget, one, other)


def _badges() -> None:
    from typing import get_args

    from dpviz.experiments.plan import Privacy
    from dpviz.ui import explain

    for privacy in (*get_args(Privacy), "partly private"):
        explain.privacy_badge(privacy)


def test_a_badge_says_what_it_is_of_and_only_private_is_green() -> None:
    badges = [badge.value for badge in AppTest.from_function(_badges, default_timeout=300).run().markdown]
    said = [badge.rpartition(":")[2].strip(" ]") for badge in badges]
    assert said == [*get_args(Privacy), "partly private"]
    assert ["green" in badge for badge in badges] == [privacy == "private" for privacy in said]


def _divergence(public: bool) -> None:
    from types import SimpleNamespace as Some

    from dpviz.families.accelerated import GradientDescent
    from dpviz.ui.experiment import run

    arm_traces = {label: Some(status=["diverged", "running"], private=label == "DP") for label in ("DP", "reference")}
    arms = [Some(label=label, algorithm=GradientDescent()) for label in arm_traces]
    experiment = Some(arms=arms, problem=Some(public=public))
    run._warn_diverged(Some(job=Some(trace=Some(arm_traces=arm_traces)), experiment=experiment))  # type: ignore[arg-type]


@pytest.mark.parametrize(("public", "told"), [(True, 2), (False, 1)])
def test_that_a_reference_diverged_is_told_of_public_data_only(public: bool, told: int) -> None:
    """Whether gradients without noise diverge depends on the rows."""
    app = AppTest.from_function(_divergence, kwargs={"public": public}, default_timeout=300).run()
    assert not app.exception and len(app.warning) == told and app.warning[0].proto.title.startswith("DP")
