"""What the documents say of the code is so: citations, the class of CONTRIBUTING.md, the rooms, what help() shows."""

import doctest
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpviz.privacy.events import Gaussian

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
HERE = Path(__file__)
SOURCES = sorted(
    path
    for pattern in ("dpviz/**/*.py", "dpviz/**/texts.toml", "pages/**/*.py", "tests/**/*.py")
    for path in ROOT.glob(pattern)
    if path != HERE
)
THEORIES = sorted((ROOT / "dpviz").rglob("THEORY.md"))
SECTION = re.compile(r"[Ss]ections? (\d+(?:\.\d+)?)")
# Theirs are other people's sections: named by year or author before, or as the paper's after.
OF_A_PAPER = re.compile(r"(\d{4}|et al\.|Roth|paper's)[^.;(]{0,40}$")


@cache
def sections(theory: Path) -> dict[str, str]:
    """The text of every section of a THEORY.md by its number; numbered items of section 5 are 5.1, 5.2 and so on."""
    found: dict[str, str] = {}
    for part in re.split(r"^##+ (?=\d)", theory.read_text(), flags=re.MULTILINE)[1:]:
        head, _, text = part.partition("\n")
        number = head.split()[0].rstrip(".")
        found[number] = text
        if "." not in number:
            items = re.findall(r"(?:^|(?<=[.:;] ))(\d+)\. ", text, flags=re.MULTILINE)
            found |= {f"{number}.{item}": text for item in items}
    return found


def theory_of(path: Path, before: str) -> Path:
    """The THEORY.md that a citation means: the one it names, or else the one of the package it is about."""
    named = re.search(r"(privacy|families/\w+)/THEORY\.md", before)
    if named:
        return ROOT / "dpviz" / named[1] / "THEORY.md"
    name = path.relative_to(ROOT).as_posix()
    for theory in THEORIES:
        if theory.parent.name in name:
            return theory
    return ROOT / "dpviz" / "privacy" / "THEORY.md"


def citations() -> Iterator[tuple[str, Path, str]]:
    """(where, document, section) of everything in the code that cites a section, and no paper's."""
    for path in SOURCES:
        text = path.read_text()
        for match in SECTION.finditer(text):
            before, after = text[max(0, match.start() - 80) : match.start()], text[match.end() : match.end() + 40]
            theirs = OF_A_PAPER.search(before) and "THEORY.md" not in before
            if not theirs and not re.match(r"[^.;]{0,20}\bof\s+(the|their|her|his) paper", after):
                yield f"{path.relative_to(ROOT)}: {match[0]}", theory_of(path, before), match[1]


def test_the_class_in_contributing_is_cut_from_the_file_that_the_tests_run() -> None:
    name, shown = re.findall(r"<!-- (tests/\S+\.py) -->\n```python\n(.*?)```", CONTRIBUTING, re.DOTALL)[0]
    code = (ROOT / name).read_text()
    assert shown.strip() == code.split("# [example]\n")[1].split("# [end of the example]")[0].strip()


EXAMPLES = {
    "dpviz.audits.audit": ["Audit"],
    "dpviz.experiments.experiment": ["Experiment"],
    "dpviz.exports.export": ["to_csv", "to_script"],
    "dpviz.audits.one_run": ["OneRun"],
    "dpviz.experiments.plan": ["Plan"],
    "dpviz.sweeps.sweep": ["Sweep"],
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
    blocks = re.findall(r"```python\n(from dpviz\.privacy\.statistics import.*?|import numpy.*?)```", README, re.DOTALL)
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
