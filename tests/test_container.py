"""The container file, as far as it can be tried without a container: what it copies, and that its commands work."""

import re
import tomllib
from pathlib import Path
from string import Template

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".container"
FILE = FOLDER / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """(instruction, its words) of the file, lines that are continued joined."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines()) if word]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(place for place, (word, _) in enumerate(found) if word == "FROM") :]


def words(name: str) -> str:
    """What the last instruction of this name in the last stage says."""
    return [rest for word, rest in last_stage() if word == name][-1]


def copied() -> list[tuple[list[str], str]]:
    """(sources, target) of everything that comes from this repository."""
    lines = [rest.split() for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")]
    return [(line[:-1], line[-1]) for line in lines]


def test_an_image_is_pinned_runs_as_nobody_special_and_listens_behind_its_port() -> None:
    python = dict(word.split("=") for name, word in instructions() if name == "ARG")["PYTHON"]
    assert re.fullmatch(r"3\.\d+\.\d+-slim-\w+", python)
    bases = [Template(rest.split()[0]).substitute(PYTHON=python) for name, rest in instructions() if name == "FROM"]
    assert set(bases) == {f"docker.io/library/python:{python}"}
    user, group = words("USER").split(":")
    assert int(user) > 0 and int(group) > 0
    assert words("EXPOSE") == "8501"
    assert environment()["DPVIZ_STORE"].startswith(words("VOLUME") + "/")


def test_an_image_holds_what_the_server_needs_and_nothing_else() -> None:
    sources = {source for line, _ in copied() for source in line}
    assert all((ROOT / source).exists() for source in sources)
    listed = [line for line in (FOLDER / "Containerfile.dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert listed[0] == "*" and {line[1:] for line in listed if line.startswith("!")} == sources
    assert ".streamlit/secrets.toml" in listed
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(f'"{line}"' in FILE.read_text() for line in extras["cluster"])


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for word, rest in last_stage() if word == "ENV" for pair in rest.split())


def test_the_locked_packages_satisfy_the_requirements_and_have_hashes() -> None:
    lock = (FOLDER / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    entries = re.split(r"^(?=[a-z0-9-]+==)", lock, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked) and all("--hash=sha256:" in entry for entry in entries)
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    for requirement in map(Requirement, filter(None, lines)):
        assert requirement.specifier.contains(locked[requirement.name]), f"renew the lock: {requirement}"


def test_the_notes_name_every_variable_that_the_server_reads() -> None:
    notes = (FOLDER / "README.md").read_text()
    read = {name for path in (ROOT / "dpviz").rglob("*.py") for name in re.findall(r'"(DPVIZ_\w+)"', path.read_text())}
    assert {name for name in read if f"`{name}`" not in notes} == set()
