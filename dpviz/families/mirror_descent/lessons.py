"""The lesson that games tell: a draw is the noise."""

from dpviz.lessons.lesson import Ends, Numbers, Side, load
from dpviz.numbers import short
from dpviz.problems.games.quadratic_games import QuadraticGame

_DRAWS, _NOISE = "Vertex sampling", "Gaussian mirror descent"


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
    problem = side.experiment.problem
    assert isinstance(problem, QuadraticGame)
    return problem.data.strategies_x


GAME = load(__package__, "game", measure=Ends(_DRAWS, "duality_gap"), also=_strategies)

LESSONS = (GAME,)
