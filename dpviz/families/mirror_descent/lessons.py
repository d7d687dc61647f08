"""The lesson that games tell: a draw is the noise."""

from dpviz.datasets.games import LatentGame
from dpviz.experiments.experiment import Experiment
from dpviz.families.mirror_descent.presets import arms
from dpviz.lessons.lesson import Ends, Numbers, Side, load
from dpviz.numbers import short
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.quadratic_games import QuadraticGame

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


GAME = load(
    __package__, "game", before=_game(10), after=_game(1000), measure=Ends(_DRAWS, "duality_gap"), also=_strategies
)

LESSONS = (GAME,)
