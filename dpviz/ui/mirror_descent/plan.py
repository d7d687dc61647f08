"""The plan of the mirror descent page: noise, bounds and advice for a budget, before anything runs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import streamlit as st

from dpviz.datasets import Upload
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import VertexSampling, advice, bounds, figures, planning, texts
from dpviz.plots.elements.chart import Chart
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameFacts
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.ui import explain
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options, plain_options
from dpviz.ui.uploads.file import missing_rule

# Declarations of the data of a problem, by the names of `texts.DECLARED`; of all other problems, the ranges.
DECLARED: Mapping[type[ProblemSpecification], tuple[str, ...]] = {
    GroupLoss: ("ranges", "groups", "shares"),
    LossMatrix: ("range", "groups", "shares"),
    MarginalQueries: ("categories",),
}


def predict(experiment: Experiment, plans: Mapping[str, Plan]) -> Mapping[str, np.ndarray]:
    """Return the bound (T+1,) on the duality gap of each arm that has one, by label."""
    gap_bounds = {}
    for arm in experiment.arms:
        if isinstance(arm.algorithm, VertexSampling) and plans[arm.label].private:
            bound = bounds.gap_bound(arm.algorithm, plans[arm.label])
            if bound is not None:
                gap_bounds[arm.label] = bound
    return gap_bounds


def facts_of(view: PlanView) -> GameFacts:
    """Return the public facts of the game of a view."""
    facts = next(iter(view.plans.values())).facts
    assert isinstance(facts, GameFacts)
    return facts


def sampling(view: PlanView) -> VertexSampling:
    """Return the settings of vertex sampling on this page: of its first arm, or the defaults."""
    methods = (arm.algorithm for arm in view.experiment.arms if isinstance(arm.algorithm, VertexSampling))
    return next(methods, VertexSampling())


def range_card(label: str, plan: Plan) -> guarantee.Card:
    """Return the card with range or noise of a release, in the first and the last round that costs anything."""
    for series, what in ((planning.ranges(plan), "bounded range η of one draw"), (plan.noise, "noise per coordinate")):
        for name, values in series.items():
            positive = values[values > 0]
            if positive.size:
                ends = guarantee.first_to_last(positive)
                of = f" of the player {name}" if name in "xy" else f" on the {name}"
                help = f"{what[0].upper()}{what[1:]}{of}, first → last round that costs anything."
                return (f"Per round, {what.split(' of')[0]}", ends, f"{label}, T = {plan.iterations:,}", help)
    return ("Steps", f"{plan.iterations:,}", label, "Rounds of the game.")


def drawings(view: PlanView) -> Iterator[Chart]:
    """Yield charts of the noise of every round, the privacy spent, the bound on the gap, and the bound by rounds."""
    yield figures.noise_of_rounds(view.plans, view.styles)
    yield plan_view.privacy_spent(view, after="round")
    yield figures.gap_bounds(view.experiment.arms, view.plans, view.styles)
    method = next((arm.algorithm for arm in view.experiment.arms if arm.label in view.theory), None)
    if isinstance(method, VertexSampling):
        settings = planning.Sampling(method.each_draws, method.own_share, method.batching)
        yield figures.bound_by_rounds(facts_of(view), view.experiment.budget, settings)


def options(view: PlanView) -> Options:
    """Return how the curves of a run of this experiment are drawn."""
    useful = {label: bounds.where_useful(bound, facts_of(view)) for label, bound in view.theory.items()}
    useful = {label: bound for label, bound in useful.items() if np.isfinite(bound).any()}
    bound = {"bound": useful} if useful else {}
    remarks = {"bound": "The bound is on the mean."}
    return replace(
        plain_options(view), second="internal_duality_gap", overlays=bound, remarks=remarks, compared="duality_gap"
    )


def size_note(view: PlanView) -> str:
    """Describe rows and vertices in one line, and say for which methods the slider sets T."""
    facts = facts_of(view)
    players = f"{facts.d_x:,}" + (f" × {facts.d_y:,}" if facts.d_y > 1 else "")
    return f"n = {facts.n:,}, d = {players}. {whose_steps(view)}"


def whose_steps(view: PlanView) -> str:
    """Say which methods take the T that is set, and how many steps each of the others takes."""
    with_set_steps, others = [], []
    for arm in view.experiment.arms:
        plan = view.plans[arm.label]
        if not plan.private:
            continue
        if getattr(arm.algorithm, "iterations", None) == plan.iterations:
            with_set_steps.append(arm.label)
        else:
            others.append(f"{arm.label} {'at most ' * plan.stops}{plan.iterations:,}")
    return " ".join(
        f"{title}: {', '.join(labels)}."
        for title, labels in (("Steps T", with_set_steps), ("Other steps", others))
        if labels
    )


def recommendation(view: PlanView) -> None:
    """Recommend one of the page's methods for this size, among those that have a plan for this budget."""
    experiment = view.experiment
    expectation = advice.expectation(experiment.problem, experiment.budget, sampling(view).iterations)
    if expectation is not None:
        expectation = expectation.without(view.refused)
    sentence = texts.recommend(expectation, experiment.budget, view.plans)
    if sentence:
        st.info(sentence, icon=":material/lightbulb:")


def assumptions(view: PlanView) -> None:
    """Draw the box of assumptions for these settings."""
    plan = next(iter(guarantee.private(view.plans).values()))
    batch, n = int(plan.rows[0]), plan.facts.n
    methods = [arm.algorithm for arm in view.experiment.arms]
    as_in_paper = all(isinstance(method, planning.GameAlgorithm) and method.as_in_the_paper for method in methods)
    problem = view.experiment.problem
    released = ("shares",) if isinstance(problem, GroupLoss | LossMatrix) and problem.data.facts().shares_costs else ()
    declarations = DECLARED.get(type(problem), ("ranges",))
    kinds_from_rows = {kind for kind, _ in problem.dataset.from_data} if isinstance(problem.dataset, Upload) else set()
    from_rows = [
        name for name in declarations if ("bounds" if name in ("ranges", "range") else name) in kinds_from_rows
    ]
    explain.assumptions(
        explain.protects(view.experiment.problem.unit),
        texts.batches(batch < n, batch, n),
        texts.composition("paper" if as_in_paper else "tight"),
        texts.constants(declarations, missing_rule(problem.dataset), released, from_rows),
        texts.SCREEN,
        problem.from_data,
    )
