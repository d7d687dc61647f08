"""What two experiments differ in, in the words of their controls."""

from dpviz.datasets import UploadedTable
from dpviz.experiments.changes import changes
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets
from dpviz.privacy.budgets import ApproximateDP, PureDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic


def experiment(**settings: object) -> Experiment:
    return Experiment(problem=LogisticRegression(), arms=presets.arms(("DP-NAG",), **settings), budget=PureDP())


def test_a_setting_of_a_method_has_its_title_and_both_values() -> None:
    (change,) = changes(experiment(iterations=20), experiment(iterations=2000))
    assert change.path == "arms.0.algorithm.iterations"
    assert (change.title, change.texts, change.names) == ("Steps T", ("20", "2,000"), ("T = 20", "T = 2,000"))
    assert list(changes(experiment(), experiment())) == []


def test_a_choice_is_told_by_its_labels() -> None:
    (change,) = changes(experiment(), experiment(schedule="optimal"))
    assert (change.title, change.names) == ("Noise schedule", ("Uniform", "Optimal (bound)"))


def test_what_is_of_another_kind_is_one_change() -> None:
    before = experiment()
    after = before.replaced(budget=ApproximateDP(), problem=Quadratic(), replicates=5)
    assert [change.path for change in changes(before, after)] == ["problem", "budget", "replicates"]
    budget = next(change for change in changes(before, after) if change.path == "budget")
    assert budget.title == "Privacy budget"
    assert budget.texts == (before.budget.describe(), after.budget.describe())


def test_a_field_of_several_numbers_is_one_change() -> None:
    (change,) = changes(experiment(), experiment(knots=(0.5, 0.0, 0.0, 0.0, 0.0, -1.25)))
    assert change.path == "arms.0.algorithm.knots" and change.texts == ("0, 0, 0, 0, 0, 0", "0.5, 0, 0, 0, 0, -1.25")


def test_another_file_is_told_without_its_random_name() -> None:
    one, other = (UploadedTable(identity=digit * 32, n=20, bounds=((0.0, 1.0),), names=("a",)) for digit in "01")
    (change,) = changes(LogisticRegression(data=one), LogisticRegression(data=other))
    assert (change.title, change.texts) == ("Data", ("other", "changed"))
