"""What every problem tells of its data."""

import pytest

from dpviz import families
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.quadratic import Quadratic
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
