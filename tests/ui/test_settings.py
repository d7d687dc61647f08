"""From an Experiment to the page's controls and back."""

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Preset
from dpviz.families.accelerated import Nesterov, presets
from dpviz.families.second_order import presets as second_order_presets
from dpviz.families.second_order.constants import Constants, Ladder
from dpviz.families.zeroth_order import presets as zeroth_order_presets
from dpviz.privacy.budgets import NoPrivacy, ZeroConcentratedDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.values.black_box import PhaseRetrieval
from dpviz.ui.accelerated import problem as problem_controls
from dpviz.ui.experiment import controls as experiment_controls
from dpviz.ui.experiment.controls import Catalogue
from dpviz.ui.second_order.page import PAGE as SECOND_ORDER
from dpviz.ui.zeroth_order.page import PAGE as ZEROTH_ORDER

CATALOGUE = Catalogue(presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=("schedule", "horizon"))


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_the_arms_budget_and_problem_of_every_preset_can_be_expressed(preset: Preset) -> None:
    settings = experiment_controls.settings_of(preset.experiment, CATALOGUE)
    assert settings["replicates"] == preset.experiment.replicates
    assert problem_controls.MENU.settings_of(preset.experiment.problem)["data"] in problem_controls.MENU.sources[""]


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


def test_arms_that_the_controls_cannot_express_are_refused() -> None:
    mixed = (
        Arm(label="DP-NAG", algorithm=Nesterov(iterations=5)),
        Arm(label="DP-NAG-T*", algorithm=Nesterov(iterations=6, horizon="bound")),
    )
    with pytest.raises(ValueError, match="cannot express"):
        experiment_controls.settings_of(Experiment(problem=LogisticRegression(), arms=mixed), CATALOGUE)


def test_an_uploaded_table_cannot_be_a_preset() -> None:
    table = UploadedTable(identity="0" * 32, n=100, bounds=((0.0, 1.0),), names=("age",))
    with pytest.raises(ValueError, match="upload"):
        problem_controls.MENU.settings_of(LogisticRegression(data=table))


def script() -> None:
    import streamlit as st

    from dpviz.experiments.experiment import Experiment
    from dpviz.families.accelerated import presets
    from dpviz.ui.accelerated import problem as problem_controls
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import controls as experiment_controls

    catalogue = experiment_controls.Catalogue(
        presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=("schedule", "horizon")
    )
    panel = Panel("p")
    chosen = st.session_state.get("preset")
    if chosen is not None:
        experiment = presets.PRESETS[chosen].experiment
        panel.write(experiment_controls.settings_of(experiment, catalogue))
        panel.write(problem_controls.MENU.settings_of(experiment.problem))
    data = problem_controls.MENU.choose(panel, st.container(), st.container())
    budget = experiment_controls.budget(panel)
    numbers = experiment_controls.replicates_and_seed(panel, public=True)
    labels = experiment_controls.methods(panel, catalogue)
    settings = experiment_controls.settings(panel, catalogue, list(catalogue.controls()))
    methods = experiment_controls.Chosen(labels, experiment_controls.references(panel, "What they are."), settings)
    problem = problem_controls.MENU.build(panel, data, budget, numbers["seed"])
    st.session_state["experiment"] = Experiment(
        problem=problem, arms=methods.arms(catalogue), budget=budget.build(), **numbers
    )


@pytest.mark.parametrize("number", range(len(presets.PRESETS)), ids=lambda number: presets.PRESETS[number].name)
def test_the_controls_rebuild_every_preset_exactly(number: int) -> None:
    app = AppTest.from_function(script, default_timeout=300)
    app.session_state["preset"] = number
    app.run()
    assert not app.exception
    assert app.session_state["experiment"] == presets.PRESETS[number].experiment


def test_without_a_preset_the_controls_show_the_first_one() -> None:
    app = AppTest.from_function(script, default_timeout=300).run()
    assert not app.exception
    assert app.session_state["experiment"] == presets.PRESETS[0].experiment
