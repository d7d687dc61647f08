"""What the documents say of the code is so: examples, what help() shows."""

import doctest
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import dpviz
from dpviz.privacy.events import Gaussian
from dpviz.specification import Specification
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
GENERATED = "api"  # by the build, from docstrings
DOCS = {path.stem: path.read_text() for path in sorted((ROOT / ".docs").glob("*.md"))}


EXAMPLES = {
    "dpviz": ["dpviz"],
    "dpviz.audits.audit": ["Audit"],
    "dpviz.experiments.experiment": ["Arm", "Experiment", "Experiment.settings"],
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


@pytest.mark.parametrize("name", ["README", *(name for name in DOCS if name != "quickstart" and blocks(DOCS[name]))])
def test_every_program_of_the_documents_runs(name: str) -> None:
    names: dict[str, Any] = {}
    for block in blocks({"README": README, **DOCS}[name]):
        exec(block, names)


@pytest.fixture
def quickstart(tmp_path: Path) -> Path:
    """A folder with the programs of the quickstart, each in a file of its own."""
    programs = dict(zip(("model", "plan", "mine", "audit", "sweep"), blocks(DOCS["quickstart"]), strict=True))
    for name, program in programs.items():
        (tmp_path / f"{name}.py").write_text(program)
    return tmp_path


@pytest.mark.slow
def test_the_quickstart_runs_program_by_program_and_its_sweep_goes_on_after_a_kill(quickstart: Path) -> None:
    assert all(sum(map(bool, program.splitlines())) <= 10 for program in blocks(DOCS["quickstart"]))
    assert set(re.findall(r"(?:from|import) ([\w.]+)", "".join(blocks(DOCS["quickstart"])))) <= {
        *("collections.abc", "numpy", "dpviz", "dpviz.extend", "mine"),
        *("Iterator", "GradientDescent", "neighbours", "Halving"),
    }
    store = quickstart / "store"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DPVIZ_STORE": str(store)}

    def shell(name: str) -> "subprocess.Popen[str]":
        program = [sys.executable, "-W", "ignore", f"{name}.py"]
        return subprocess.Popen(program, cwd=quickstart, env=environment, stdout=subprocess.PIPE, text=True)

    def printed(name: str) -> str:
        said, _ = (process := shell(name)).communicate(timeout=300)
        assert process.returncode == 0
        return said

    def points() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in store.glob("*/*") if re.fullmatch(r"[0-9a-f]{64}", path.name)}

    *_, score = printed("model").split()
    assert float(score) > 0.85  # about 0.93 of the rows; the majority is half of them
    assert float(printed("plan").split()[-1]) < 1
    assert printed("audit").split()[-1] == "False"
    sweep = shell("sweep")
    until(points)
    sweep.kill()
    sweep.communicate()
    kept = points()
    assert 0 < len(kept) < 8
    printed("sweep")
    assert len(points()) == 8 and points().items() >= kept.items()


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_quickstart_passes_a_strict_checker_of_types(checker: str, quickstart: Path) -> None:
    pytest.importorskip(checker)  # pyright comes with the nightly step "types"
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (quickstart / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--strict", "--follow-imports=silent", "."] if checker == "mypy" else ["--pythonpath", sys.executable]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    program = [sys.executable, "-m", checker, *options]
    run = subprocess.run(program, cwd=quickstart, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


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
