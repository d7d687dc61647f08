"""The plan of the mirror descent page: what the budget buys, before anything runs."""

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

# What the data of a problem declare, by the names of `texts.DECLARED`; of all others, the ranges.
DECLARED: Mapping[type[ProblemSpecification], tuple[str, ...]] = {
    GroupLoss: ("ranges", "groups", "shares"),
    LossMatrix: ("range", "groups", "shares"),
    MarginalQueries: ("categories",),
}


def predict(experiment: Experiment, plans: Mapping[str, Plan]) -> Mapping[str, np.ndarray]:
    """(T+1,) bound on the duality gap per arm that has one."""
    found = {}
    for arm in experiment.arms:
        if isinstance(arm.algorithm, VertexSampling) and plans[arm.label].private:
            bound = bounds.gap_bound(arm.algorithm, plans[arm.label])
            if bound is not None:
                found[arm.label] = bound
    return found


def facts_of(shown: PlanView) -> GameFacts:
    """What may be known of the game without its data."""
    facts = next(iter(shown.plans.values())).facts
    assert isinstance(facts, GameFacts)
    return facts


def sampling(shown: PlanView) -> VertexSampling:
    """The settings of vertex sampling on this page: of its first arm, or the defaults."""
    chosen = (arm.algorithm for arm in shown.experiment.arms if isinstance(arm.algorithm, VertexSampling))
    return next(chosen, VertexSampling())


def range_card(label: str, plan: Plan) -> guarantee.Card:
    """What one released vertex may tell, in the first and the last round that costs anything."""
    for found, what in ((planning.ranges(plan), "bounded range η of one draw"), (plan.noise, "noise per coordinate")):
        for name, values in found.items():
            paid = values[values > 0]
            if paid.size:
                ends = guarantee.first_to_last(paid)
                of = f" of the player {name}" if name in "xy" else f" on the {name}"
                help = f"{what[0].upper()}{what[1:]}{of}, first → last round that costs anything."
                return (f"Per round, {what.split(' of')[0]}", ends, f"{label}, T = {plan.iterations:,}", help)
    return ("Steps", f"{plan.iterations:,}", label, "Rounds of the game.")


def drawings(shown: PlanView) -> Iterator[Chart]:
    """The noise of every round, the privacy spent, the gap that is promised, and the rounds that promise most."""
    yield figures.noise_of_rounds(shown.plans, shown.styles)
    yield plan_view.privacy_spent(shown, after="round")
    yield figures.gap_bounds(shown.experiment.arms, shown.plans, shown.styles)
    sampling = next((arm.algorithm for arm in shown.experiment.arms if arm.label in shown.theory), None)
    if isinstance(sampling, VertexSampling):
        how = planning.Sampling(sampling.each_draws, sampling.own_share, sampling.batching)
        yield figures.bound_by_rounds(facts_of(shown), shown.experiment.budget, how)


def options(shown: PlanView) -> Options:
    """How the curves of a run of this experiment are drawn."""
    useful = {label: bounds.told(bound, facts_of(shown)) for label, bound in shown.theory.items()}
    useful = {label: bound for label, bound in useful.items() if np.isfinite(bound).any()}
    bound = {"bound": useful} if useful else {}
    remarks = {"bound": "The bound is on the mean."}
    return replace(
        plain_options(shown), second="internal_duality_gap", overlays=bound, remarks=remarks, compared="duality_gap"
    )


def size_note(shown: PlanView) -> str:
    """Rows and vertices in one line, and whose T the slider sets."""
    facts = facts_of(shown)
    players = f"{facts.d_x:,}" + (f" × {facts.d_y:,}" if facts.d_y > 1 else "")
    return f"n = {facts.n:,}, d = {players}. {whose_steps(shown)}"


def whose_steps(shown: PlanView) -> str:
    """Which methods take the T that is set, and how many steps each of the others takes."""
    takes, others = [], []
    for arm in shown.experiment.arms:
        plan = shown.plans[arm.label]
        if not plan.private:
            continue
        if getattr(arm.algorithm, "iterations", None) == plan.iterations:
            takes.append(arm.label)
        else:
            others.append(f"{arm.label} {'at most ' * plan.stops}{plan.iterations:,}")
    return " ".join(
        f"{words}: {', '.join(labels)}." for words, labels in (("Steps T", takes), ("Other steps", others)) if labels
    )


def recommendation(shown: PlanView) -> None:
    """Which of the methods that the page offers to prefer at this size, as far as they have a plan for this budget."""
    experiment = shown.experiment
    found = advice.expectation(experiment.problem, experiment.budget, sampling(shown).iterations)
    if found is not None:
        found = found.without(shown.refused)
    words = texts.recommend(found, experiment.budget, shown.plans)
    if words:
        st.info(words, icon=":material/lightbulb:")


def assumptions(shown: PlanView) -> None:
    """The box of assumptions for these settings."""
    plan = next(iter(guarantee.private(shown.plans).values()))
    batch, n = int(plan.rows[0]), plan.facts.n
    methods = [arm.algorithm for arm in shown.experiment.arms]
    paper = all(isinstance(method, planning.GameAlgorithm) and method.as_in_the_paper for method in methods)
    problem = shown.experiment.problem
    bought = ("shares",) if isinstance(problem, GroupLoss | LossMatrix) and problem.data.facts().shares_costs else ()
    things = DECLARED.get(type(problem), ("ranges",))
    read = {kind for kind, _ in problem.dataset.from_data} if isinstance(problem.dataset, Upload) else set()
    taken = [thing for thing in things if ("bounds" if thing in ("ranges", "range") else thing) in read]
    explain.assumptions(
        explain.protects(shown.experiment.problem.unit),
        texts.batches(batch < n, batch, n),
        texts.composition("paper" if paper else "tight"),
        texts.constants(things, missing_rule(problem.dataset), bought, taken),
        texts.SCREEN,
        problem.from_data,
    )
