"""What every problem tells of its data."""

import numpy as np
import pytest

from dpviz import families
from dpviz.datasets import BundledTable, UniformLogistic
from dpviz.datasets.base import RowsSpecification
from dpviz.datasets.groups import GroupedBundled
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, GroupLossGame
from dpviz.problems.linear.linear_models import LeastSquares, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, RobustComponent, SigmoidTukey
from dpviz.problems.values.black_box import CappedRegression
from dpviz.problems.values.value_problem import ValueProblem
from dpviz.specification import registered

families.load_all()


@pytest.mark.parametrize("cls", registered(ProblemSpecification), ids=lambda cls: cls.kind)
def test_a_problem_names_its_data_set_and_is_as_public_as_that(cls: type[ProblemSpecification]) -> None:
    problem = cls()
    assert (problem.dataset is None) == ("data" not in cls.model_fields)
    if problem.dataset is None:
        assert problem.public
    else:
        assert problem.dataset.kind.startswith("datasets.") and problem.public


def test_a_quadratic_has_no_data() -> None:
    assert Quadratic().dataset is None


CLASSES: list[ProblemSpecification] = [  # problems that predict classes
    LogisticRegression(data=UniformLogistic(rows=500, dimension=4)),
    LogisticTukey(data=BundledTable()),
    SigmoidTukey(data=BundledTable()),
    CappedRegression(data=UniformLogistic(rows=500, dimension=4), intercept=False, cap=2.0),
    GroupLoss(data=GroupedBundled()),
]


@pytest.mark.parametrize("problem", CLASSES, ids=lambda problem: problem.title)
def test_the_share_of_rows_that_a_model_predicts_is_counted_row_by_row(problem: ProblemSpecification) -> None:
    built, dataset = problem.build(), problem.dataset
    assert isinstance(dataset, RowsSpecification)
    data = dataset.load()
    x = np.random.default_rng(0).normal(size=(3, problem.facts().d))
    if isinstance(built, GroupLossGame):
        x = x[:, : 2 * data.features.shape[1]]
        margins = (built.weights(x) @ data.features.T) * data.labels
    elif isinstance(problem, LogisticTukey | SigmoidTukey):
        margins = x @ problem.rows(data)[0].T
    elif isinstance(problem, CappedRegression):
        rows, targets = problem.rows_and_targets({})
        margins = (x @ rows.T) * targets[:, 0]
    else:
        np.testing.assert_array_equal(built.correct_share(x), built.evaluate({"x": x})["accuracy"])
        return
    np.testing.assert_allclose(built.correct_share(x), (margins > 0).mean(axis=1), atol=1e-12)


def test_where_no_classes_are_predicted_none_is_right() -> None:
    assert LeastSquares().build().correct_share(np.zeros((1, 10))) is None
    assert RobustComponent().build().correct_share(np.zeros((1, RobustComponent().facts().d))) is None
    problem = CappedRegression()
    built, x = problem.build(), np.zeros((1, problem.facts().d))
    assert built.correct_share(x) is None
    assert ValueProblem(built.facts, built.loss, np.zeros((3, x.shape[1])), np.ones((3, 1))).correct_share(x) is None
