"""What the documents say of the code is so: examples, what help() shows."""

import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import dpviz
from dpviz.privacy.events import Gaussian
from dpviz.specification import Specification

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
GENERATED = "api"  # by the build, from docstrings
DOCS = {path.stem: path.read_text() for path in sorted((ROOT / ".docs").glob("*.md")) if path.stem != GENERATED}


EXAMPLES = {
    "dpviz": ["dpviz"],
    "dpviz.audits.audit": ["Audit"],
    "dpviz.experiments.experiment": ["Arm", "Experiment"],
    "dpviz.exports.export": ["to_csv", "to_script"],
    "dpviz.datasets.own_table": ["table"],
    "dpviz.audits.one_run": ["OneRun"],
    "dpviz.experiments.trace": ["Trace", "Trace.model"],
    "dpviz.extend": ["neighbours"],
    "dpviz.experiments.plan": ["Plan"],
    "dpviz.sweeps.sweep": ["Sweep"],
    "dpviz.library": ["audit", "calibrate", "epsilon", "open"],
    "dpviz.privacy.accounting.accountants": ["tightest", "when_stopped"],
    "dpviz.privacy.statistics.analyses": ["Analyses", "Count", "Histogram", "Mean", "Quantile", "Sum"],
    "dpviz.problems.private_bounds": ["private_bounds"],
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


def test_every_public_name_has_an_example_that_imports_all_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in dpviz.__all__:
        text = inspect.getdoc(getattr(dpviz, name)) or ""
        test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
        said: list[str] = []
        assert test.examples, name
        assert doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed == 0, "".join(said)


def blocks(text: str) -> list[str]:
    """The Python programs of a document, but for the outline of a class."""
    return [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if not block.startswith("class ")]


@pytest.mark.parametrize("name", ["README", *(name for name, text in DOCS.items() if blocks(text))])
def test_every_program_of_the_documents_runs(name: str) -> None:
    names: dict[str, Any] = {}
    for block in blocks({"README": README, **DOCS}[name]):
        exec(block, names)


def test_the_readme_is_short_and_its_pictures_and_papers_are_there() -> None:
    assert len(README.split()) <= 900
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("path", sorted((ROOT / ".docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_valid_imports_the_face_and_stores_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    programs = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any("import dpviz" in cell.source for cell in programs)
    assert all(not cell.outputs and cell.execution_count is None for cell in programs)
    for cell in programs:
        compile(cell.source, path.name, "exec")


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    listed = set(re.findall(r"(?m)^([a-z_/]+)$", DOCS["index"]))
    pages = (ROOT / ".docs").rglob("*")
    found = {
        path.relative_to(ROOT / ".docs").with_suffix("").as_posix()
        for path in pages
        if path.suffix in (".md", ".ipynb")
    }
    assert found - {"index"} | {GENERATED} == listed


@pytest.mark.parametrize("name", [name for name in dpviz.__all__ if callable(getattr(dpviz, name))])
def test_help_of_a_public_name_has_its_parts(name: str) -> None:
    public = getattr(dpviz, name)
    told = inspect.getdoc(public) or ""
    if inspect.isfunction(public):
        assert "Returns\n-------" in told and (not inspect.signature(public).parameters or "Parameters\n---" in told)
    elif issubclass(public, Specification):
        assert "Raises\n------" in told and ("Parameters\n---" in told) == bool(public.controls())
        for path in re.findall(r"`(dpviz/\S+THEORY.md)`", told):
            assert (ROOT / path).exists()


def test_the_examples_of_privacy_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in (*blocks(DOCS["planning"]), blocks(DOCS["library"])[-1]):
        exec(block, names)
    _, reading, audited = capsys.readouterr().out.splitlines()
    assert "epsilon=5.23" in reading and "method='pld'" in reading and "'basic': 15.85" in reading
    assert float(audited) == pytest.approx(1.18, abs=0.005)
    assert names["implied"]["epsilon"] is None and names["implied"]["epsilon_at_delta"] == pytest.approx(4.88655, 1e-5)
    events = [Gaussian(mu) for mu in (2 * names["rho"]) ** 0.5]
    assert names["tightest"](events, delta=1e-6).epsilon == pytest.approx(1.0, rel=1e-6)
