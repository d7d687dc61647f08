"""A split of the budget between the two players beside the even and the best one: the same budget, without a run."""

from typing import NamedTuple

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning, theory
from dpviz.families.mirror_descent.methods.algorithms import VertexSampling
from dpviz.families.mirror_descent.methods.bias_reduced import BiasReduced
from dpviz.families.mirror_descent.methods.certified import CertifiedSampling
from dpviz.families.mirror_descent.methods.noisy_gradients import NoisyGradients
from dpviz.problems.games.games import GameFacts

Split = VertexSampling | BiasReduced | CertifiedSampling | NoisyGradients  # the methods whose players share a budget


class Compared(NamedTuple):
    """The part of a method's bound on the gap that the split decides: as set, even, and the smallest one.

    Of methods that draw vertices Σ ln d/(τ T), of noisy gradients what the noise adds. share, best_share : of x.
    noisy : whether `players`, of x and y, are deviations of the noise on each coordinate; else step sizes, which are as
    long as the budget allows.
    """

    yours: float
    even: float
    best: float
    share: float
    best_share: float
    noisy: bool
    players: tuple[float, float]


def compare(method: AnyAlgorithm, plan: Plan) -> Compared | None:
    """What the split of this plan is worth; None where there is nothing to split, or no privacy."""
    facts = plan.facts
    assert isinstance(facts, GameFacts)
    if not (isinstance(method, Split) and plan.private and planning.both_pay(facts)) or method.as_in_the_paper:
        return None  # the paper counts all draws alike, whoever draws
    even = method.replaced(split="own", share_x=planning.EVEN).plan(facts, plan.budget)
    best = method.replaced(split="bound").plan(facts, plan.budget)
    noisy = isinstance(method, NoisyGradients)
    x, y = (float(plan.noise[name][0] if noisy else plan.schedule[f"step_size_{name}"][0]) for name in "xy")
    return Compared(
        _bound(method, plan),
        _bound(method, even),
        _bound(method, best),
        float(plan.resolved["share_x"]),
        float(best.resolved["share_x"]),
        noisy,
        (x, y),
    )


def _bound(method: Split, plan: Plan) -> float:
    facts = plan.facts
    assert isinstance(facts, GameFacts)
    players = planning.players(facts)
    if isinstance(method, NoisyGradients):
        each = zip(players, (float(plan.noise[name][0]) for name in "xy"), strict=True)
        return sum(theory.noise_part(player, noise, plan.iterations, method.geometry) for player, noise in each)
    steps = [float(plan.schedule[f"step_size_{name}"][0]) for name in "xy"]
    regrets = [player.log_vertices / step for player, step in zip(players, steps, strict=True)]
    return sum(regrets) / plan.iterations
