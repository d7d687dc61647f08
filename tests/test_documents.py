"""What the documents say of the code is so: the class of CONTRIBUTING.md, examples, what help() shows."""

import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from dpviz.privacy.events import Gaussian

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_class_in_contributing_is_cut_from_the_file_that_the_tests_run() -> None:
    name, shown = re.findall(r"<!-- (tests/\S+\.py) -->\n```python\n(.*?)```", CONTRIBUTING, re.DOTALL)[0]
    code = (ROOT / name).read_text()
    assert shown.strip() == code.split("# [example]\n")[1].split("# [end of the example]")[0].strip()


EXAMPLES = {
    "dpviz": ["dpviz"],
    "dpviz.audits.audit": ["Audit"],
    "dpviz.experiments.experiment": ["Experiment"],
    "dpviz.exports.export": ["to_csv", "to_script"],
    "dpviz.audits.one_run": ["OneRun"],
    "dpviz.experiments.plan": ["Plan"],
    "dpviz.sweeps.sweep": ["Sweep"],
    "dpviz.library": ["audit", "calibrate", "epsilon", "load_table", "open"],
    "dpviz.privacy.accounting.accountants": ["tightest"],
    "dpviz.privacy.statistics.analyses": ["Analyses"],
    "dpviz.privacy.audit": ["epsilon_lower_bound"],
    "dpviz.privacy.calibration": ["calibrate_gaussian", "calibrate_laplace"],
    "dpviz.privacy.conversions": ["convert"],
}


@pytest.mark.parametrize("module", EXAMPLES)
def test_every_public_entry_point_has_an_example_that_gives_what_it_says(module: str) -> None:
    found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    examples = {test.name.removeprefix(f"{module}."): test for test in found if test.examples}
    assert sorted(examples) == EXAMPLES[module]
    for test in examples.values():
        said: list[str] = []
        assert doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed == 0, "".join(said)


def test_the_examples_of_privacy_in_the_readme_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(
        r"```python\n(from dpviz import ApproximateDP, NoisyMeans.*?|import numpy.*?)```", README, re.DOTALL
    )
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2
    _, reading, audited = capsys.readouterr().out.splitlines()
    assert "epsilon=5.23" in reading and "method='pld'" in reading and "'basic': 15.85" in reading
    assert float(audited) == pytest.approx(1.18, abs=0.005)
    assert names["implied"]["epsilon"] is None and names["implied"]["epsilon_at_delta"] == pytest.approx(4.88655, 1e-5)
    events = [Gaussian(mu) for mu in (2 * names["rho"]) ** 0.5]
    assert names["tightest"](events, delta=1e-6).epsilon == pytest.approx(1.0, rel=1e-6)
