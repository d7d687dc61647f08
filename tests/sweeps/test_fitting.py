"""What would make an experiment fit: it does, when the advice is followed, and no larger value would."""

from typing import Any

import pytest

from dpviz.datasets import UniformLogistic
from dpviz.datasets.games import LatentGame
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets as accelerated
from dpviz.families.mirror_descent import presets as games
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.simplex_learning import SparseRegression
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.sweeps.fitting import Limits, Way, advice, ways

LIMITS = Limits(seconds=120.0, bytes=3e9)
MILLION = LogisticRegression(data=UniformLogistic(rows=1_000_000, dimension=50))
GAME = games.PRESETS[0].experiment
MATRIX = MatrixGame(data=LatentGame(rows=2000, strategies_x=3000, strategies_y=3000))


def trained(methods: tuple[str, ...], repeats: int, **settings: Any) -> Experiment:
    arms = accelerated.arms(methods, references=True, **settings)
    return Experiment(problem=MILLION, arms=arms, replicates=repeats)


REFUSED = {
    "time": trained(("DP-GD", "DP-NAG"), 100, iterations=200),
    "time, even once": trained(("DP-GD",), 2, iterations=5000),
    "memory": GAME.replaced(problem=MATRIX, arms=games.arms(("Noisy matrix", "Vertex sampling")), replicates=200),
    "long steps": GAME.replaced(
        problem=SparseRegression(rows=10_000, dimension=2000),
        arms=games.arms(("Anytime",), iterations=1024, refresh_draws=256, refresh=1024),
        replicates=40,
    ),
    "both": GAME.replaced(
        problem=MATRIX, arms=games.arms(("Noisy matrix", "DP-SGDA"), gradient_rounds=1024), replicates=200
    ),
}


def changes(way: Way, before: Experiment) -> dict[str, tuple[float, float]]:
    """The numbers that differ, by their place, before and after."""

    def numbers(value: Any, place: str = "") -> dict[str, float]:
        if isinstance(value, dict):
            return {key: n for name, part in value.items() for key, n in numbers(part, f"{place}.{name}").items()}
        if isinstance(value, (list, tuple)):
            return {key: n for at, part in enumerate(value) for key, n in numbers(part, f"{place}.{at}").items()}
        return {place: value} if isinstance(value, (int, float)) else {}

    old, new = (numbers(of.model_dump()) for of in (before, way.experiment))
    return {place: (old[place], value) for place, value in new.items() if old.get(place) != value}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", REFUSED)
def test_the_advice_fits_when_it_is_followed(name: str) -> None:
    refused = REFUSED[name]
    assert not LIMITS.allow(refused)
    found = ways(refused, LIMITS.allow)
    assert found
    for way in found:
        assert LIMITS.allow(way.experiment), way.words
        assert way.words in advice(found)
        lowered = changes(way, refused) if len(way.experiment.arms) == len(refused.arms) else {}
        assert all(new < old for old, new in lowered.values()), lowered


def test_no_more_repeats_would_fit() -> None:
    first = ways(REFUSED["time"], LIMITS.allow)[0]
    repeats = first.experiment.replicates
    assert 1 < repeats < 100 and first.words == f"at most {repeats} repeats"
    assert not LIMITS.allow(REFUSED["time"].replaced(replicates=repeats + 1))


def test_several_settings_and_methods_are_offered_in_a_sentence() -> None:
    found = ways(REFUSED["time"], LIMITS.allow)
    sentence = advice(found)
    assert (
        sentence.startswith("With at most ")
        and " repeats, or with " in sentence
        and " or with “Steps T” at most " in sentence
    )
    assert sentence.endswith(", it would fit.")
    narrow = Limits(LIMITS.seconds, 1e9)
    large = GAME.replaced(problem=MATRIX, arms=games.arms(("Noisy matrix", "Vertex sampling")), replicates=1)
    assert narrow.allow(large)
    tight = Limits(LIMITS.seconds, large.estimated_bytes(large.plans()) - 1e8)
    assert any(way.words == "“Noisy matrix” left out" for way in ways(large, tight.allow))


def test_where_one_setting_is_not_enough_it_is_one_repeat_and_another() -> None:
    refused = trained(("DP-NAG",), 200, iterations=3)
    least = refused.replaced(replicates=1).estimated_seconds(refused.replaced(replicates=1).plans())
    found = ways(refused, Limits(0.5 * least, 3e9).allow)
    assert found
    assert all(way.words.startswith(("one repeat and ", "“")) for way in found)
    assert all(Limits(0.5 * least, 3e9).allow(way.experiment) for way in found)


def test_nothing_fits_in_nothing() -> None:
    assert ways(REFUSED["memory"], lambda experiment: False) == []
    assert advice([]) == "Choose fewer repeats, fewer methods, or smaller data."
