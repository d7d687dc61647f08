"""From an Experiment to the page's controls and back."""

import pytest

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import presets
from dpviz.families.second_order import presets as second_order_presets
from dpviz.families.second_order.constants import Constants, Ladder
from dpviz.families.zeroth_order import presets as zeroth_order_presets
from dpviz.privacy.budgets import NoPrivacy, ZeroConcentratedDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.values.black_box import PhaseRetrieval
from dpviz.ui.experiment import controls as experiment_controls
from dpviz.ui.experiment.controls import Catalogue
from dpviz.ui.second_order.page import PAGE as SECOND_ORDER
from dpviz.ui.zeroth_order.page import PAGE as ZEROTH_ORDER

CATALOGUE = Catalogue(presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=("schedule", "horizon"))


def test_a_setting_that_follows_the_name_is_told_from_one_that_does_not() -> None:
    def common(**settings: str) -> tuple[str, str]:
        arms = presets.arms(presets.DEFAULT_METHODS, **settings)
        found = experiment_controls.settings_of(Experiment(problem=LogisticRegression(), arms=arms), CATALOGUE)
        return found["schedule"], found["horizon"]

    assert common() == ("method", "method")
    assert common(horizon="fixed") == ("method", "fixed")
    assert common(schedule="envelope") == ("envelope", "method")


def test_references_and_other_currencies_are_recognised() -> None:
    arms = presets.arms(["DP-GD", "DP-NAG-opt"], references=True, iterations=7)
    experiment = Experiment(problem=LogisticRegression(), arms=arms, budget=ZeroConcentratedDP(rho=0.3), seed=5)
    found = experiment_controls.settings_of(experiment, CATALOGUE)
    assert found["references"] is True and found["methods"] == ["DP-GD", "DP-NAG-opt"]
    assert (found["currency"], found["rho"], found["seed"], found["iterations"]) == ("concentrated", 0.3, 5, 7)
    assert any(isinstance(arm.budget, NoPrivacy) for arm in arms)


def test_settings_within_settings_are_taken_apart_and_put_together_again() -> None:
    constants, ladder = Constants(c_1=0.3, c=0.2), Ladder(c_g=0.4, b_g=3.0)
    arms = second_order_presets.arms(["OPT", "2OPT-LS"], references=True, constants=constants, ladder=ladder)
    catalogue = SECOND_ORDER.catalogue
    found = experiment_controls.settings_of(Experiment(problem=RobustComponent(), arms=arms), catalogue)
    assert (found["constants_c_1"], found["constants_c"], found["constants_c_2"]) == (0.3, 0.2, 1 / 12)
    assert (found["ladder_c_g"], found["ladder_b_g"], found["ladder_b_h"]) == (0.4, 3.0, 20.0)
    assert not {"constants", "ladder"} & set(found)
    mixed = (arms[0], Arm(label="OPT-B", algorithm=second_order_presets.METHODS["OPT-B"]))
    with pytest.raises(ValueError, match="cannot express"):
        experiment_controls.settings_of(Experiment(problem=RobustComponent(), arms=mixed), catalogue)


def test_a_number_that_labels_stand_for_is_empty_until_it_is_set() -> None:
    labels = [zeroth_order_presets.NAIVE, zeroth_order_presets.FRESH]
    catalogue = ZEROTH_ORDER.catalogue
    for given in (None, 3):
        own = {} if given is None else {"directions_per_row": given}
        arms = zeroth_order_presets.arms(labels, **own)
        found = experiment_controls.settings_of(Experiment(problem=PhaseRetrieval(), arms=arms), catalogue)
        assert found["directions_per_row"] == given and found["directions"] == experiment_controls.BY_NAME
        chosen = experiment_controls.Chosen(tuple(labels), False, {"directions_per_row": given})
        counts = [arm.algorithm.model_dump()["directions_per_row"] for arm in chosen.arms(catalogue)]
        assert counts == ([1, None] if given is None else [given, given]), "one direction, as many as parameters; or 3"
