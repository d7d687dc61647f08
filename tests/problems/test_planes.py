"""Where replicates are shown: in a plane that is known without data, and never for data that are not public."""

import warnings

import numpy as np
import pytest

from dpviz.experiments import experiment as running
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent
from dpviz.privacy.budgets import NoPrivacy
from dpviz.problems.base import Plane, ProblemSpecification
from dpviz.problems.quadratic import Quadratic
from dpviz.specification import registered
from tests.families.registry import PROBLEMS

SPECIFICATIONS = [cls() for cls in registered(ProblemSpecification) if cls.__module__.startswith("dpviz.")]
UPLOADED = [world.specification for worlds in PROBLEMS for world in worlds.values() if world.tables]


@pytest.mark.parametrize("problem", SPECIFICATIONS, ids=lambda problem: problem.kind)
def test_outputs_of_any_size_have_finite_places(problem: ProblemSpecification) -> None:
    plane = problem.plane
    if plane is None:
        return
    assert len(set(plane.titles)) == 2 and all(plane.titles)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(plane.project(outputs(problem, 3))).all()
        assert plane.project(outputs(problem, 3)).shape == (3, 2)


def outputs(problem: ProblemSpecification, replicates: int) -> dict[str, np.ndarray]:
    """Some points, and mixed strategies with a corner among them, for who needs such."""
    facts, generator = problem.facts(), np.random.default_rng(0)
    return {"x": generator.normal(size=(replicates, facts.d))}


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
    assert (places[-1] == trace.lanes["4"].output["x"][:, [0, 2]].astype(np.float32)).all()
    assert not len(trace.cloud("40")[1]) and len(trace.lanes["40"].iterations) == 41
