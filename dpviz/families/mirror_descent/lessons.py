"""A lesson with a game: the random draw of a vertex is the noise."""

from dpviz.lessons.lesson import Ends, Numbers, Side, load
from dpviz.numbers import short
from dpviz.problems.games.quadratic_games import QuadraticGame

_DRAWS, _NOISE = "Vertex sampling", "Gaussian mirror descent"


def _strategies(before: Side, after: Side) -> Numbers:
    """Return the numbers of strategies on both sides, and the errors of the method that adds noise to each of them."""
    counts = [_strategies_x(side) for side in (before, after)]
    numbers: dict[str, float | int | str] = {
        "few": counts[0],
        "many": counts[1],
        "times_strategies": short(counts[1] / counts[0]),
    }
    if before.trace is not None:
        noise = Ends(_NOISE, "duality_gap")
        numbers["noise_before"] = noise.value(before)
        if after.trace is not None:
            numbers |= {
                "noise_after": noise.value(after),
                "noise_times": short(noise.value(after) / noise.value(before), 2),
            }
    return numbers


def _strategies_x(side: Side) -> int:
    problem = side.experiment.problem
    assert isinstance(problem, QuadraticGame)
    return problem.data.strategies_x


GAME = load(__package__, "game", measure=Ends(_DRAWS, "duality_gap"), also=_strategies)

LESSONS = (GAME,)
