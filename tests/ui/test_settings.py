"""From an Experiment to the page's controls and back."""

from dpviz.experiments.experiment import Experiment
from dpviz.families.second_order import presets as second_order_presets
from dpviz.families.second_order.theory import Constants, Ladder
from dpviz.families.zeroth_order import presets as zeroth_order_presets
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.values.black_box import PhaseRetrieval
from dpviz.ui.experiment import controls as experiment_controls
from dpviz.ui.second_order.page import PAGE as SECOND_ORDER
from dpviz.ui.zeroth_order.page import PAGE as ZEROTH_ORDER


def test_settings_within_settings_are_taken_apart_and_put_together_again() -> None:
    constants, ladder = Constants(c_1=0.3, c=0.2), Ladder(c_g=0.4, b_g=3.0)
    arms = second_order_presets.arms(["OPT", "2OPT-LS"], references=True, constants=constants, ladder=ladder)
    catalogue = SECOND_ORDER.catalogue
    found = experiment_controls.settings_of(Experiment(problem=RobustComponent(), arms=arms), catalogue)
    assert (found["constants_c_1"], found["constants_c"], found["constants_c_2"]) == (0.3, 0.2, 1 / 12)
    assert (found["ladder_c_g"], found["ladder_b_g"], found["ladder_b_h"]) == (0.4, 3.0, 20.0)
    assert not {"constants", "ladder"} & set(found)


def test_a_number_that_labels_stand_for_is_empty_until_it_is_set() -> None:
    labels = [zeroth_order_presets.NAIVE, zeroth_order_presets.FRESH]
    catalogue = ZEROTH_ORDER.catalogue
    for given in (None, 3):
        own = {} if given is None else {"directions_per_row": given}
        arms = zeroth_order_presets.arms(labels, **own)
        found = experiment_controls.settings_of(Experiment(problem=PhaseRetrieval(), arms=arms), catalogue)
        assert found["directions_per_row"] == given and found["directions"] == experiment_controls.BY_NAME
        chosen = experiment_controls.ChosenMethods(tuple(labels), False, {"directions_per_row": given})
        counts = [arm.algorithm.model_dump()["directions_per_row"] for arm in chosen.arms(catalogue)]
        assert counts == ([1, None] if given is None else [given, given]), "one direction, as many as parameters; or 3"
