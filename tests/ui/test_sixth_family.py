"""A family that nobody has heard of: the files and the entry that CONTRIBUTING.md lists, put into a copy of the house,
are all that its page, the audit, the lessons, the start page and the rules of the house need."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIXTH = ROOT / "tests" / "sixth_family"
FAMILY = "momentum"
ENTRY, VISIT = SIXTH / "entry.toml", SIXTH / "visit.py"
STEPS = re.findall(r"^\d+\. .*?`(\S*/\S+)`", (ROOT / "CONTRIBUTING.md").read_text().split("## Add a family")[1], re.M)
# Rules that look at every family, and tests over all registered algorithms, problems, presets, audits and lessons.
EVERY = ("layers", "documents", "repository", "resources", "specification")
OF_IT = ("families/test_every_algorithm", "families/test_audits", "families/test_lessons", "families/test_from_data")
MENUS = ("ui/test_problem_menus", "cli/test_shell", "pages/test_home", "pages/test_links", "pages/test_audit")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the house, with the family as CONTRIBUTING.md says, and nothing else."""
    copy = tmp_path_factory.mktemp("copy") / "house"
    leave = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", SIXTH.name, "shared", "build", "dist")
    shutil.copytree(ROOT, copy, ignore=leave)
    for step in (step.replace("<family>", FAMILY) for step in STEPS):
        source, target = SIXTH / step.removeprefix("dpviz/"), copy / step
        if step.endswith(".toml"):
            target.write_text(f"{target.read_text()}\n{ENTRY.read_text()}")
        elif step.endswith("/"):
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return copy


def passes(house: Path, *arguments: str) -> None:
    """The tests of the copy that are chosen pass, and there are some."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    run = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]


def test_the_steps_are_one_package_one_screen_folder_one_page_one_entry() -> None:
    assert STEPS == ["dpviz/families/<family>/", "dpviz/ui/<family>/", "pages/<family>.py", "dpviz/ui/families.toml"]
    listed = (ROOT / "CONTRIBUTING.md").read_text().split("## Add a family")[1].split("\n## ")[0]
    folders = {"families", "ui", "pages"}
    files = [path for path in SIXTH.rglob("*.*") if path.suffix in (".py", ".toml", ".md")]
    parts = [path for path in files if path not in (ENTRY, VISIT)]
    assert len(parts) > 10 and {path.relative_to(SIXTH).parts[0] for path in parts} == folders
    package = [path.name for path in parts if path.parent == SIXTH / "families" / FAMILY]
    assert [name for name in package if f"`{name}`" not in listed] == []


@pytest.mark.slow
def test_the_layers_and_rules_hold_with_it(house: Path) -> None:
    files = [f"tests/test_{name}.py" for name in EVERY]
    passes(house, *files, "-m", "unit", "-k", "not contributing and not documents_link")


@pytest.mark.slow
def test_what_must_hold_for_every_algorithm_holds_for_its_own(house: Path) -> None:
    passes(house, *(f"tests/{name}.py" for name in (*OF_IT, *MENUS)), "-k", f"{FAMILY} or every_family or worst_case")


@pytest.mark.slow
def test_visitors_plan_run_sweep_upload_audit_and_learn(house: Path) -> None:
    shutil.copy(VISIT, house / "tests" / "pages" / f"test_{FAMILY}.py")
    passes(house, f"tests/pages/test_{FAMILY}.py")
