"""A lesson with a game: a method that plays randomly drawn strategies needs no other noise for its privacy."""

from dpviz.lessons.lesson import FinalMedian, Numbers, Side, load_lesson
from dpviz.numbers import short
from dpviz.problems.games.quadratic_games import QuadraticGame

_DRAWS, _NOISE = "Vertex sampling", "Gaussian mirror descent"  # labels of the lesson's two methods


def _text_numbers(before: Side, after: Side) -> Numbers:
    """Return the numbers that the lesson's texts name, by field: player x's strategies on both sides, and, as far as
    the sides have run, the median gaps of the method that adds noise to every strategy's gradient."""
    few, many = _strategies_x(before), _strategies_x(after)
    numbers: dict[str, float | int | str] = {"few": few, "many": many, "times_strategies": short(many / few)}
    if before.trace is not None:
        noisy_gap = FinalMedian(_NOISE, "duality_gap")
        numbers["noise_before"] = noisy_gap.value(before)
        if after.trace is not None:
            numbers |= {
                "noise_after": noisy_gap.value(after),
                "noise_times": short(noisy_gap.value(after) / noisy_gap.value(before), 2),
            }
    return numbers


def _strategies_x(side: Side) -> int:
    """Return the number of player x's strategies on one side of the lesson."""
    problem = side.experiment.problem
    assert isinstance(problem, QuadraticGame)
    return problem.data.strategies_x


GAME = load_lesson(__package__, "game", measure=FinalMedian(_DRAWS, "duality_gap"), also=_text_numbers)

LESSONS = (GAME,)
