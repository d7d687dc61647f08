"""On every family's page: from the controls to an Experiment, back to the controls, and to the same Experiment."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import streamlit as st

from dpviz.datasets import CovertypeUpload, Upload, UploadedTable, UserUpload
from dpviz.datasets.categories import CategoricalUpload
from dpviz.datasets.groups import GroupedUpload
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.specification import Control
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import controls
from dpviz.ui.experiment.controls import ChosenMethods
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.families import FAMILIES
from tests.uploads import on, on_a_file

logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").setLevel(logging.ERROR)  # no server runs

PAGES = tuple(entry.page() for entry in FAMILIES)
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.prefix)
PRESETS = [(page, preset) for page in PAGES for preset in page.presets]
TABLE = UploadedTable(identity="0" * 32, n=100, bounds=((0.0, 1.0),), names=("age",))
VERTICES = "0.25 0\n0 0.5\n-0.5 -0.5"


class Answers(Panel):
    """Controls that are not drawn: `answer` says what each is set to, by its name, its usual value and its range."""

    def __init__(self, answer: Callable[[str, Any, Sequence[Any] | Control], Any]) -> None:
        super().__init__("page")
        self.answer = answer
        self.names: list[str] = []

    def _said(self, name: str, usual: Any, offered: Any) -> Any:
        self.names.append(name)
        return self.answer(name, usual, offered)

    def number(self, control: Control, name: str, *_: Any, **__: Any) -> Any:
        return self._said(name, control.default, control)

    def numbers(self, control: Control, name: str) -> Any:
        return self._said(name, control.default, ())

    def choice(self, name: str, label: str, options: Mapping[str, str], default: str, *_: Any, **__: Any) -> Any:
        value = self._said(name, default, list(options))
        assert value in options, (name, value)
        return value

    def switch(self, name: str, label: str, default: bool, help: str) -> Any:
        return self._said(name, default, [False, True])

    def text(self, name: str, label: str, default: str, help: str) -> Any:
        return self._said(name, default, [default, VERTICES])

    def add_lead(self, position: int, control: Control, into: dict[str, Any], *, prefix: str = "", **_: str) -> None:
        into[control.name] = self.number(control, prefix + control.name)

    def several(self, name: str, label: str, options: Sequence[str], default: Sequence[str], help: str) -> list[str]:
        value = self._said(name, list(default), ())
        assert set(value) <= set(options), (name, value)
        return [option for option in options if option in value]


def built(page: FamilyPage, panel: Panel) -> Experiment | None:
    """What the controls of a page say, in the order in which it draws them; None while a file is missing."""
    source = page.problems.choose(panel, st.container(), 0)
    budget = controls.budget(panel, page.currency, page.at_first)
    offer = page.offer(source.kind)
    labels = controls.methods(panel, page.catalogue, offer)
    references = bool(page.references) and panel.switch("references", "", True, "")

    def applicable(names: Sequence[str]) -> Sequence[str]:
        return page.applicable(names, source.kind, budget.cls)

    methods = labels or offer.methods
    settings = controls.choose_settings(panel, page.catalogue, page.groups, methods, applicable, ())
    numbers = controls.replicates_and_seed(panel, not source.uploaded, page.at_first)
    problem = page.problems.build(panel, source, budget, numbers["seed"])
    if problem is None:
        return None
    arms = ChosenMethods(labels, references, settings).arms(page.catalogue)
    return Experiment(problem=problem(), arms=arms, budget=budget.build(), **numbers)


def rebuilt(page: FamilyPage, settings: Mapping[str, Any]) -> Experiment | None:
    """The Experiment of controls that are set as `settings` say, and else as they are at first."""
    return built(page, Answers(lambda name, usual, _: settings.get(name, usual)))


def at_random(generator: random.Random) -> Callable[[str, Any, Any], Any]:
    """An answer that is often not the usual one."""

    def answer(name: str, usual: Any, offered: Any) -> Any:
        if not isinstance(offered, Control):
            return generator.choice(offered) if offered and generator.random() < 0.5 else usual
        if generator.random() < 0.8 or offered.low is None or offered.high is None:
            return usual
        ends = [offered.low, offered.high]
        low, high = ends if usual is None else sorted((usual, generator.choice(ends)))
        value = generator.uniform(low, high)
        return round(value) if offered.type is int else value

    return answer


@pytest.mark.parametrize(("page", "preset"), PRESETS, ids=[preset.name for _, preset in PRESETS])
def test_the_controls_rebuild_every_preset(page: FamilyPage, preset: Preset) -> None:
    assert rebuilt(page, page.settings(preset.experiment)) == preset.experiment


@EVERY_PAGE
@pytest.mark.parametrize("count", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_the_controls_rebuild_what_they_were_set_to(page: FamilyPage, count: int) -> None:
    generator = random.Random(0)
    problems, equal = set(), 0
    for _ in range(count):
        panel = Answers(at_random(generator))
        try:
            experiment = built(page, panel)
        except UserError:
            continue
        if experiment is None:
            continue
        settings = page.settings(experiment)
        problems.add((type(experiment.problem), type(experiment.problem.dataset)))
        assert rebuilt(page, settings) == experiment
        equal += 1
    sources = [source for offered in page.problems.sources.values() for source in offered.values()]
    kinds = sum(source.upload is None for source in sources)
    assert equal > count / 4 and (count < 20 or len(problems) >= min(kinds, 5))


GROUPED = GroupedUpload(
    identity="a" * 32, n=20, bounds=((0.0, 1.0),), names=("age",), groups=("x", "y"), shares=(0.5, 0.5)
)
FILES: Sequence[Upload] = (
    TABLE,
    UserUpload(**dict(TABLE), users=20),
    GROUPED,
    CategoricalUpload(identity="a" * 32, n=40, columns=(("x", ("0", "1")), ("y", ("0", "1")))),
    CovertypeUpload(identity="0" * 32, n=100),
)


@EVERY_PAGE
def test_what_is_about_a_file_cannot_be_expressed(page: FamilyPage) -> None:
    for kind in on_a_file(page.problems):
        problems = [problem for upload in FILES if (problem := on(kind, upload)) is not None]
        assert problems
        for problem in problems:
            with pytest.raises(ValueError, match=r"no controls for .*upload"):
                page.problems.settings_of(problem)
