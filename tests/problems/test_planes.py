"""Where replicates are shown: in a plane that is known without data, and never for data that are not public."""

import warnings

import numpy as np
import pytest

from dpviz import families
from dpviz.datasets.categories import CategoricalGenerator
from dpviz.datasets.groups import GroupedBundled
from dpviz.datasets.synthetic import LatentGame
from dpviz.experiments import experiment as running
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent
from dpviz.privacy.budgets import NoPrivacy
from dpviz.problems.base import Plane, ProblemSpecification
from dpviz.problems.games.games import GameFacts, to_ball
from dpviz.problems.games.group_loss import LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, SparseRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import registered
from tests.families.registry import PROBLEMS

NAMED = [preset.experiment.problem for named in families.presets().values() for preset in named]
GAMES = [
    *(MatrixGame(data=LatentGame(strategies_x=d, structure="hide_seek")) for d in (2, 3, 4)),
    MatrixGame(data=LatentGame(strategies_x=2, strategies_y=2)),
    *(
        PolytopeRegression(shape="own", vertices=((0.5, 0.0), (0.0, 0.5), (-0.5, -0.5))),
        PolytopeRegression(dimension=1),
    ),
    MarginalQueries(data=CategoricalGenerator(), ways=1),
]
MADE = [cls() for cls in registered(ProblemSpecification) if cls.__module__.startswith("dpviz.")]
SPECIFICATIONS = {problem.to_json(): problem for problem in (*MADE, *NAMED, *GAMES)}
UPLOADED = [world.specification for worlds in PROBLEMS for world in worlds.values() if world.tables]


def outputs(problem: ProblemSpecification) -> dict[str, np.ndarray]:
    """Somewhere, far away, nowhere; of a game mixed strategies, a corner among them."""
    facts, generator = problem.facts(), np.random.default_rng(0)
    if isinstance(facts, GameFacts):
        x, y = (generator.dirichlet(np.full(d, 0.1), 3) for d in (facts.d_x, facts.d_y))
        x[0] = np.arange(facts.d_x) == 0
        return {"x": x, "y": y}
    return {"x": generator.normal(size=(3, facts.d)) * np.array([[1.0], [1e300], [np.nan]])}


@pytest.mark.parametrize("problem", SPECIFICATIONS.values(), ids=lambda problem: problem.kind)
def test_a_plane_needs_no_data_and_shows_every_output(
    problem: ProblemSpecification, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cls in (type(problem), *([type(problem.dataset)] if problem.dataset else [])):
        for name in {"build", "load"} & set(dir(cls)):
            monkeypatch.setattr(cls, name, None)
    plane = problem.plane
    if plane is None:
        assert problem in GAMES or isinstance(problem, PolytopeRegression)
        return
    assert len(set(plane.titles)) == 2 and all(plane.titles) and len(plane.corners) in (0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = plane.project(outputs(problem))
    assert places.shape == (3, 2) and np.isfinite(places[0]).all()


def at(problem: ProblemSpecification, x: np.ndarray) -> np.ndarray:
    """The places of outputs x (R, d)."""
    assert problem.plane is not None
    return problem.plane.project({"x": x})


def test_three_strategies_are_the_corners_of_a_triangle() -> None:
    game = GAMES[1]
    assert game.plane is not None
    names, *corners = zip(*game.plane.corners, strict=True)
    assert names == ("strategy 1", "strategy 2", "strategy 3")
    assert (at(game, np.eye(3)) == np.array(corners).T).all()
    sides = np.linalg.norm(np.diff(at(game, np.eye(3)[[0, 1, 2, 0]]), axis=0), axis=1)
    assert sides == pytest.approx(np.ones(3)), "none of the three is special"
    assert at(game, np.full((1, 3), 1 / 3))[0] == pytest.approx(np.mean(corners, axis=1))
    own = GAMES[4]
    assert own.plane is not None and [[x, y] for _, x, y in own.plane.corners] == at(own, np.eye(3)).tolist()


def test_two_strategies_each_are_told_by_the_first_ones() -> None:
    game, x = GAMES[3], np.array([[0.25, 0.75], [1.0, 0.0]])
    assert game.plane is not None
    assert game.plane.titles == ("Player x: weight on strategy 1", "Player y: weight on strategy 1")
    assert game.plane.project({"x": x, "y": x[::-1]}).tolist() == [[0.25, 1.0], [1.0, 0.25]]


def test_many_strategies_are_told_by_the_weight_of_the_good_ones_and_by_their_spread() -> None:
    d = 8
    x = np.array([np.full(d, 1 / d), np.eye(d)[0], [0.25] * 3 + [0.25] + [0] * 4])
    spread = [np.log(d), 0.0, np.log(4)]
    for structure, good in (("needle", [1 / d, 1, 0.25]), ("hide_seek", [3 / d, 1, 0.75])):
        game = QuadraticGame(data=LatentGame(strategies_x=d, structure=structure))
        assert at(game, x) == pytest.approx(np.column_stack([good, spread]))
    table = GroupedBundled()
    assert at(LossMatrix(data=table), x)[:, 0] == pytest.approx([1 / d, 1, 0.25]), "of no real table it is known"


def test_a_model_in_a_ball_is_shown_by_its_weights_and_a_histogram_by_its_answers() -> None:
    x = np.random.default_rng(1).dirichlet(np.ones(12), 4)
    regression = SparseRegression(dimension=6, radius=2.0)
    assert at(regression, x) == pytest.approx(to_ball(x, 2.0)[:, :2])
    queries = GAMES[-1]
    assert isinstance(queries, MarginalQueries) and queries.plane is not None
    histogram = np.random.default_rng(2).dirichlet(np.ones(queries.facts().d_x), 3)
    answers, cells = queries.marginals().answers(histogram), queries.marginals().cells
    told = [cells.index(title.removeprefix("Share of rows with ")) for title in queries.plane.titles]
    assert at(queries, histogram) == pytest.approx(answers[:, told])


@pytest.mark.parametrize("problem", UPLOADED, ids=lambda problem: problem.kind)
def test_there_is_no_plane_for_a_table_that_is_not_public(problem: ProblemSpecification) -> None:
    """R dots would be R releases. It is `public` that decides, whatever a problem says of its own plane."""
    assert problem.plane is None


def test_it_is_public_that_decides_whether_there_is_a_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(Quadratic().plane, Plane)
    monkeypatch.setattr(Quadratic, "public", False)
    assert Quadratic().plane is None


def test_no_problem_says_by_itself_that_it_has_a_plane() -> None:
    assert not [cls for cls in registered(ProblemSpecification) if "plane" in vars(cls)]


def test_a_run_keeps_the_places_of_all_replicates_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = tuple(
        Arm(label=str(steps), algorithm=GradientDescent(iterations=steps), budget=NoPrivacy()) for steps in (4, 40)
    )
    experiment = Experiment(problem=Quadratic(dimension=3), arms=arms, replicates=2)
    monkeypatch.setattr(running, "CLOUD", 2 * 2 * 10)
    trace = experiment.run()
    iterations, places = trace.cloud("4")
    assert iterations.tolist() == list(range(5)) and (places[0] == 1).all() and places.shape == (5, 2, 2)
    assert (places[-1] == trace.arm_traces["4"].output["x"][:, [0, 2]].astype(np.float32)).all()
    assert not len(trace.cloud("40")[1]) and len(trace.arm_traces["40"].iterations) == 41
