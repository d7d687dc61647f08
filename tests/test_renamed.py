"""What earlier versions wrote still works: settings, programs and notebooks that name modules by old addresses."""

import importlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import dpviz
from dpviz import families
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.renamed import addresses
from dpviz.specification import Specification, registered

ROOT = Path(dpviz.__file__).parents[1]
families.load_all()
for module in ("execution.auditing", "lessons.budget_lessons", "sweeps.sweep"):  # which no family imports
    importlib.import_module(f"dpviz.{module}")

# A program, a notebook of the budget planner, and what two pages show under "The same in Python", at version 0.1.0.
PROGRAM = """
import json
import sys
from pathlib import Path

from dpviz.datasets import read_table
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.results import final_table

experiment = Experiment.from_json(json.dumps(SETTINGS))
table = final_table(experiment.run(), experiment.plans())
print(table.drop(columns="seconds").to_string(index=False))
"""
NOTEBOOK = """
from dpviz.privacy import allocation
from dpviz.privacy.analyses import Analyses, Count, Histogram
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.privacy import answers

plan = Analyses(rows=1000, statistics=(Count(name="a"), Histogram(name="b")))
planned = plan.planned(PureDP(epsilon=1.0))
print(dict(allocation.together([p.share for p in planned], delta=1e-6).values)["epsilon"])
"""
SHOWN = """
from dpviz.experiments.accuracy import required_budget
from dpviz.families.accelerated.accuracy import SmoothConvexBound
from dpviz.experiments.auditing import Auditing
from dpviz.experiments.sweep import Sweep
from dpviz.experiments.export import to_script
from dpviz.experiments.audit import Audit

print(Auditing(family="accelerated", case="nesterov", runs=200).audit.case.name)
"""
SETTINGS = {
    "arms": [
        {
            "algorithm": {"iterations": 5, "kind": "families.accelerated.nesterov"},
            "budget": None,
            "kind": "experiments.experiment.arm",
            "label": "NAG",
        }
    ],
    "budget": {"epsilon": 1.0, "kind": "privacy.budgets.pure"},
    "kind": "experiments.experiment.experiment",
    "problem": {"kind": "problems.quadratic.bench"},
    "replicates": 2,
    "seed": 1,
}
# Kinds whose address is the package that took their module's place.
IN_PACKAGES = {"kind": "problems.nonconvex.robust_component"}


def printed(program: str) -> str:
    """What a fresh process prints."""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("old", addresses())
def test_an_old_address_is_the_module_of_today(old: str) -> None:
    found, new = importlib.import_module(old), importlib.import_module(addresses()[old])
    assert found is new and new.__name__ == addresses()[old] and new.__spec__ is not None
    assert new.__spec__.name == addresses()[old]
    assert not (ROOT / f"{old.replace('.', '/')}.py").exists() and not (ROOT / old.replace(".", "/")).exists()


def test_an_address_that_never_was_is_still_not_found() -> None:
    assert find_spec("dpviz.experiments.nothing") is None
    with pytest.raises(ModuleNotFoundError, match=r"dpviz\.experiments\.nothing"):
        importlib.import_module("dpviz.experiments.nothing")
    with pytest.raises(UserError, match="unknown kind"):
        Specification.from_json('{"kind": "problems.nothing.bench"}')


def test_every_kind_names_the_module_of_its_class_or_a_package_around_it() -> None:
    """So that whoever has only the text finds the class."""
    ours = [cls for cls in registered(Specification) if cls.__module__.startswith("dpviz.")]
    assert len(ours) > 90
    for cls in ours:
        named = importlib.import_module(f"dpviz.{cls.kind.rpartition('.')[0]}").__name__
        assert f"{cls.__module__}.".startswith(f"{named}."), f"{cls.kind} is in {cls.__module__}"


@pytest.mark.slow
def test_programs_of_earlier_versions_run() -> None:
    assert "NAG" in printed(f"SETTINGS = {SETTINGS!r}\n{PROGRAM}")
    assert float(printed(NOTEBOOK)) == pytest.approx(1.0)
    assert printed(SHOWN).strip() == "nesterov"


@pytest.mark.slow
def test_settings_of_earlier_versions_load_in_a_fresh_process_and_are_written_as_before() -> None:
    load = "from dpviz.specification import Specification\nprint(Specification.from_json({!r}).to_json())"
    for text in (json.dumps(SETTINGS), json.dumps(IN_PACKAGES)):
        written = json.loads(printed(load.format(text)))
        assert written["kind"] == json.loads(text)["kind"]
    assert Experiment.from_json(json.dumps(SETTINGS)).problem.kind == "problems.quadratic.bench"
