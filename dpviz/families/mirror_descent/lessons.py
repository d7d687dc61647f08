"""The lesson that games tell: a draw is the noise."""

from math import inf

from dpviz.datasets.games import LatentGame
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.lesson import Answer, Ends, Lesson, Numbers, Side
from dpviz.families.mirror_descent.presets import arms
from dpviz.numbers import short
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.quadratic_games import QuadraticGame

_DRAWS, _NOISE = "Vertex sampling", "Gaussian mirror descent"


def _game(strategies: int) -> Experiment:
    """One player has so many strategies, the other ten."""
    return Experiment(
        problem=QuadraticGame(data=LatentGame(strategies_x=strategies, strategies_y=10)),
        arms=arms((_DRAWS, _NOISE)),
        budget=ApproximateDP(epsilon=1.0, delta=1e-6),
        replicates=10,
    )


def _strategies(before: Side, after: Side) -> Numbers:
    """How many strategies there are, and what becomes of the method that adds noise to every one of them."""
    counts = [_first(side) for side in (before, after)]
    found: dict[str, float | int | str] = {
        "few": counts[0],
        "many": counts[1],
        "times_strategies": short(counts[1] / counts[0]),
    }
    if before.trace is not None:
        noise = Ends(_NOISE, "duality_gap")
        found["noise_before"] = noise.value(before)
        if after.trace is not None:
            found |= {
                "noise_after": noise.value(after),
                "noise_times": short(noise.value(after) / noise.value(before), 2),
            }
    return found


def _first(side: Side) -> int:
    assert isinstance(side.settings, Experiment) and isinstance(side.settings.problem, QuadraticGame)
    return side.settings.problem.data.strategies_x


GAME = Lesson(
    slug="game",
    title="Can a game pay for its own privacy?",
    minutes=4,
    page="mirror_descent",
    before=_game(10),
    after=_game(1000),
    measure=Ends(_DRAWS, "duality_gap"),
    setting="A player mixes {few} strategies, and what each is worth depends on the records of {before[rows]} people. "
    "**Vertex sampling** adds no noise: it draws strategies at random, good ones more often, and the draws are all "
    "that it shows. At **{before[budget]}** its gap to equilibrium is **{before[end]}**.",
    question="Now there are {times_strategies} times as many strategies, {many}, with the same records and the same "
    "budget. By how much does its gap grow?",
    why="A draw gives away one name out of {many}, and what its chance costs grows like a logarithm of that number. "
    "Noise must cover every one of them: with noise on gradients (Gaussian mirror descent) the gap goes from "
    "{noise_before} to {noise_after}, {noise_times} times. **The randomness that a player needs anyway pays for the "
    "privacy.** For {few} strategies noise was the better choice.",
    try_it="Choose the number of strategies at which both methods are level.",
    answers=(
        Answer("Hardly at all", 0.0, 1.5),
        Answer("{low} to {high} times", 1.5, 10.0),
        Answer("{low} to {high} times", 10.0, 40.0),
        Answer("More than {low} times", 40.0, inf),
    ),
    also=_strategies,
)

LESSONS = (GAME,)
