"""Rules of the house that can be read off the files: packaging, README, who draws noise, who imports what."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
import streamlit
from packaging.requirements import Requirement

import dpviz
from tests.conftest import QUICK

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PRODUCT = sorted([ROOT / "app.py", *(ROOT / "pages").rglob("*.py"), *(ROOT / "dpviz").rglob("*.py")])

DISTRIBUTIONS = {"laplace", "normal", "gumbel", "exponential", "multivariate_normal", "rvs"}
GENERATORS = {"default_rng", "Generator", "RandomState", "PCG64"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def marked(marker: str) -> str:
    """The first code block of README.md after an HTML comment, as .ci/run reads it."""
    found = re.search(rf"<!-- {marker} -->\s*```\w*\n(.*?)```", README, re.DOTALL)
    assert found, f"README.md has no code block marked {marker}"
    return found[1].strip()


def requirements(path: Path) -> list[Requirement]:
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return [Requirement(line) for line in lines if line]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> set[str]:
    """Top-level names of all modules that a file imports, wherever in the file."""
    modules: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.split(".")[0])
    return modules


def calls(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, receiver, method) of every call `receiver.method(...)` or, with an empty receiver, `method(...)`."""
    for node in nodes(path):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node.lineno, ast.unparse(node.func.value), node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node.lineno, "", node.func.id


def is_draw(receiver: str, method: str) -> bool:
    """Whether a call draws random numbers that could serve as noise.

    Not meant: a release by a mechanism or a batch, and `mechanisms.public` or `.shared`, whose numbers do not depend on
    the data.
    """
    if re.fullmatch(r"(.*\.)?(mechanisms|batch|leaf)", receiver) or re.search(r"mechanisms\.(public|shared)", receiver):
        return False
    named = method in DISTRIBUTIONS or (method.startswith("standard_") and method != "standard_deviation")
    return bool(receiver) and named


def draws_freely(path: Path) -> bool:
    """Whether a file may make random numbers: the mechanisms, and where data are generated."""
    return name(path).startswith(("dpviz/privacy/mechanisms.py", "dpviz/datasets/", "dpviz/problems/"))


@pytest.mark.parametrize("path", ["requirements.txt", "tests/requirements.txt"])
def test_every_requirement_has_a_lower_and_an_upper_bound(path: str) -> None:
    for requirement in requirements(ROOT / path):
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators == {">=", "<"}, f"{requirement} needs the form name>=low,<high"


NAMES = {"sklearn": "scikit-learn"}  # modules whose package is called otherwise


def test_requirements_are_those_of_the_library_and_of_the_app() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    both = [*project["dependencies"], *extras["app"]]
    assert sorted(map(str, map(Requirement, both))) == sorted(map(str, requirements(ROOT / "requirements.txt")))
    documents = [*PRODUCT, ROOT / "README.md", ROOT / "dpviz/cli/README.md", *(ROOT / ".docs").glob("*.md")]
    named = set(re.findall(r"(?:dpviz|\.)\[(\w+)\]['\"]", "".join(path.read_text() for path in documents)))
    assert named == set(extras)


@pytest.mark.slow
def test_requirements_name_what_the_code_imports_and_nothing_else() -> None:
    modules = set().union(*map(imported, PRODUCT)) - set(sys.stdlib_module_names) - {"dpviz"}
    declared = {requirement.name for requirement in requirements(ROOT / "requirements.txt")}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    optional = [Requirement(line) for name in ("cluster", "notebook") for line in extras[name]]
    assert {NAMES.get(module, module) for module in modules} | {"ipywidgets"} == declared | {
        requirement.name for requirement in optional
    }
    for requirement in optional:
        assert requirement.name == "ipywidgets" or requirement in requirements(ROOT / "tests" / "requirements.txt")


def test_readme_commands_are_single_lines_that_install_what_they_need() -> None:
    start, test = marked("start-command"), marked("test-command")
    for command in (start, test):
        assert "\n" not in command
        assert "python3 -m venv .venv" in command and "-r requirements.txt" in command
    assert "streamlit run app.py" in start
    assert "-r tests/requirements.txt" in test and "python -m pytest" in test


def test_every_test_has_a_marker_that_chooses_it(request: pytest.FixtureRequest) -> None:
    chosen = {item.nodeid: {mark.name for mark in item.iter_markers()} for item in request.session.items}
    assert [test for test, marks in chosen.items() if not marks & {"unit", "pages", "browser", "slow"}] == []
    assert [test for test, marks in chosen.items() if {"unit", "slow"} <= marks] == []


def test_quick_tests_of_pages_and_the_browser_exist(request: pytest.FixtureRequest) -> None:
    """As far as they were collected; the functions of the others are there by their names."""
    collected = {item.nodeid for item in request.session.items}
    functions = {test.partition("[")[0] for test in collected}
    for test in QUICK - collected:
        function = test.partition("[")[0]
        path, _, name = function.partition("::")
        assert function not in functions and f"\ndef {name}(" in (ROOT / path).read_text(), test


def test_the_gate_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    program = re.search(r"command=.*\ntests=.*", script.read_text())
    assert program
    found = subprocess.run(
        ["bash", "-c", f"{program[0]}\necho $command; echo $tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    command, tests = found.stdout.splitlines()
    assert command == marked("test-command")
    installed, _, run = command.partition(" && OPENBLAS_NUM_THREADS=1 ")
    assert tests == f"OPENBLAS_NUM_THREADS=1 {run}" and "-m pytest" not in installed


def test_each_nightly_step_is_explained_and_has_a_job() -> None:
    script = (ROOT / ".ci" / "nightly").read_text()
    steps = re.search(r"set -- ([\w -]+)", script)
    jobs = re.search(r"step: \[(.*)\]", (ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    assert steps and jobs
    explained = set(re.findall(r"^#   ([\w-]+) ", script, re.MULTILINE))
    assert set(steps[1].split()) == explained == set(jobs[1].split(", "))
    wrong = subprocess.run(["bash", ROOT / ".ci" / "nightly", "everything"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "everything is no step" in wrong.stderr


def test_streamlit_knows_every_configured_option_and_protection_is_on() -> None:
    def options(table: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
        for key, value in table.items():
            if isinstance(value, dict):
                yield from options(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value

    configured = dict(options(tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())))
    for option in configured:
        streamlit.get_option(option)  # raises for an unknown option
    assert configured["server.enableXsrfProtection"] is True and configured["server.enableCORS"] is True
    assert configured["server.address"] == configured["browser.serverAddress"] == "127.0.0.1"
    assert configured["client.showErrorDetails"] == "none"
    # No message may refer to an earlier one: pages that poll forget those ("Cached ForwardMsg MISS"), and are lost.
    assert configured["global.minCachedMessageSize"] > 1e6 * configured["server.maxMessageSize"]


def test_no_module_imports_itself_through_others() -> None:
    """Also not in a function, or for the type checker alone."""
    graph = grimp.build_graph("dpviz", exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules


def test_no_time_is_read_from_a_clock_that_can_be_set() -> None:
    """A clock that jumps ends no run, and makes no page wait."""
    clocks = {("time", "time"), ("time", "localtime"), ("datetime", "now"), ("datetime", "utcnow")}
    found = [(name(path), line) for path in PRODUCT for line, owner, method in calls(path) if (owner, method) in clocks]
    assert found == []


@pytest.mark.slow
def test_noise_is_drawn_by_mechanisms_only() -> None:
    assert is_draw("rng", "laplace") and is_draw("np.random", "normal") and is_draw("stats.norm", "rvs")
    assert is_draw("streams[0]", "standard_gamma") and not is_draw("mechanisms.public[r]", "standard_normal")
    assert not is_draw("mechanisms", "laplace") and not is_draw("self.batch", "laplace")
    assert not is_draw("mechanisms.shared", "standard_normal") and is_draw("mechanisms._noise[r]", "laplace")
    found = [
        f"{name(path)}:{line} {receiver}.{method}"
        for path in PRODUCT
        if not draws_freely(path)
        for line, receiver, method in calls(path)
        if is_draw(receiver, method)
    ]
    assert found == []


def test_what_mechanisms_keep_to_themselves_is_used_by_no_other_package() -> None:
    """Their streams, ledger and declared events: who has them could draw what was not paid for."""
    private = {"_noise", "_batches", "_ledger", "_drawn", "_draw", "_declared", "_open", "_released", "_first_above"}
    found = [
        f"{name(path)}:{node.lineno} {ast.unparse(node)}"
        for path in PRODUCT
        if not name(path).startswith("dpviz/privacy/")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in private and ast.unparse(node.value) != "self"
    ]
    assert found == []


@pytest.mark.slow
def test_random_generators_are_made_by_mechanisms_and_data_sets_only() -> None:
    found = [
        f"{name(path)}:{line} {method}"
        for path in PRODUCT
        if not draws_freely(path)
        for line, _, method in calls(path)
        if method in GENERATORS
    ]
    assert found == []
    assert [name(path) for path in PRODUCT if "random" in imported(path)] == []


def test_the_public_names_are_those_of_the_stub_and_are_imported_when_used() -> None:
    stub = ast.parse((ROOT / "dpviz" / "__init__.pyi").read_text())
    typed = {
        alias.asname or "": f"{node.module}.{alias.name}"
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(typed) == dpviz.__all__ and (ROOT / "dpviz" / "py.typed").exists()
    for public, address in typed.items():
        module, _, inner = address.rpartition(".")
        assert getattr(dpviz, public) is getattr(importlib.import_module(module), inner)
        assert getattr(dpviz, public).__doc__ and public in dir(dpviz)
    with pytest.raises(AttributeError, match="Did you mean 'Nesterov'"):
        dpviz.Nestorov  # type: ignore[attr-defined]  # noqa: B018
    program = "import sys, dpviz; assert not {'numpy', 'pydantic'} & set(sys.modules); dpviz.PureDP(1)"
    program += "; assert not {'scipy', 'pandas'} & set(sys.modules)"
    program += "; dpviz.extend.neighbours, dpviz.datasets.Reading, dpviz.families.audits"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_an_experiment_has_short_forms() -> None:
    problem, method = dpviz.LogisticRegression(), dpviz.Nesterov(iterations=3)
    arm = dpviz.Arm(label="DP-NAG", algorithm=method)
    whole = dpviz.Experiment(problem=problem, arms=(arm,), budget=dpviz.ApproximateDP(epsilon=1.0, delta=1e-6))
    for arms in (method, [method], (arm,), {"DP-NAG": method}):
        assert dpviz.Experiment(problem, arms, epsilon=1, delta=1e-6) == whole
    assert dpviz.Experiment.from_json(whole.to_json()) == whole
    for numbers, cls in (({"epsilon": 1}, dpviz.PureDP), ({"rho": 1}, dpviz.ZeroConcentratedDP)):
        assert type(dpviz.Experiment(problem, method, **numbers).budget) is cls
    for wrong in ({"epsilon": 1, "rho": 1}, {"epsilon": 1, "budget": dpviz.PureDP()}, {"epsilom": 1}):
        with pytest.raises(dpviz.UserError, match=r"one budget|epsilon"):
            dpviz.Experiment(problem, method, **wrong)
    run = dpviz.Experiment(problem, method, replicates=2)
    assert repr(run.plans()["DP-NAG"]) == "<Plan of 3 iterations at ε = 2>"
    assert repr(run.run()) == "<Trace of DP-NAG: 2 runs, 3 iterations>"


@pytest.mark.slow
def test_readme_example_runs_prints_nothing_and_needs_no_streamlit() -> None:
    program = marked("example") + "\nimport sys; assert not {'streamlit', 'plotly'} & set(sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr


DEATHS = {
    "something fails in the middle of a step": "false; true",
    "a signal ends what a step runs": "bash -c 'kill -KILL $$'; true",
    "a signal ends a step": "kill -TERM $BASHPID; true",
    "a signal ends the script": "kill -TERM $$; sleep 1",
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_step_that_dies_has_not_passed(death: str, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/steps").write_text((ROOT / ".ci/steps").read_text())
    head, mark, loop = (ROOT / ".ci/nightly").read_text().partition("\nbrowser\nenvironment\n")
    for what, passes in ((DEATHS[death], False), ("true", True)):
        (tmp_path / ".ci/nightly").write_text(f"{head}\nslow() {{ {what}; }}\ntypes() {{ true; }}\n{loop}")
        run = subprocess.run(["bash", tmp_path / ".ci/nightly", "slow", "types"], capture_output=True, text=True)
        assert mark and (run.returncode == 0, "Passed" in run.stdout) == (passes, passes), run.stdout
        assert passes or "FAILED in: slow\n" in run.stdout
