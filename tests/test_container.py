"""The container file, as far as it can be tried without a container: what it copies, and that its commands work."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from string import Template
from threading import Thread

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".container"
FILE = FOLDER / "Containerfile"
SECONDS = 60.0


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


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the last stage makes it: the app, an empty home, a place for the store."""
    image = tmp_path_factory.mktemp("image")
    for sources, target in copied():
        for source in sources if target != "/requirements.txt" else ():
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, image / "app" / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (image / "app").mkdir(exist_ok=True)
                shutil.copy(ROOT / source, image / "app")
    (image / "home").mkdir()
    (image / "store").mkdir()
    return image


def in_the_image(image: Path, port: int) -> dict[str, str]:
    """The environment that the file sets and no other, on this machine."""
    here = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(image / "app")}
    here |= {"HOME": str(image / "home"), "DPVIZ_STORE": str(image / "store" / "cells.sqlite")}
    return environment() | here | {"STREAMLIT_SERVER_PORT": str(port)}


@pytest.fixture(scope="module")
def server(image: Path) -> Iterator[dict[str, str]]:
    """The command of the file, started; its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        variables = in_the_image(image, free.getsockname()[1])
    with (image / "server.log").open("w") as log:
        program = json.loads(words("CMD"))
        process = subprocess.Popen(program, cwd=image / "app", env=variables, stdout=log, stderr=log)
    yield variables
    process.terminate()
    process.wait(timeout=SECONDS)


@pytest.mark.slow
def test_the_command_serves_is_healthy_and_writes_nothing_into_the_image(server: dict[str, str], image: Path) -> None:
    check = json.loads(words("HEALTHCHECK").partition("CMD ")[2])
    before, ends = tree(image / "app"), time.monotonic() + SECONDS
    elsewhere = server | {"STREAMLIT_SERVER_PORT": "9"}  # nobody listens there
    while (found := subprocess.run(check, env=server, capture_output=True)).returncode and time.monotonic() < ends:
        time.sleep(0.2)
    assert found.returncode == 0, (image / "server.log").read_text()
    assert subprocess.run(check, env=elsewhere, capture_output=True).returncode != 0
    with urllib.request.urlopen(f"http://127.0.0.1:{server['STREAMLIT_SERVER_PORT']}/accelerated") as page:
        assert b"<html" in page.read()
    assert tree(image / "app") == before and tree(image / "home") == set()
    assert "Traceback" not in (image / "server.log").read_text()


class Healthy(BaseHTTPRequestHandler):
    """A server that is well, below a path."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/lab/dp/_stcore/health" else 404)
        self.end_headers()


def test_a_server_below_a_path_is_asked_for_its_health_there() -> None:
    check = json.loads(words("HEALTHCHECK").partition("CMD ")[2])
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for path, healthy in (("/lab/dp/", True), ("lab/dp", True), ("", False)):
            below = {"STREAMLIT_SERVER_PORT": str(server.server_port), "STREAMLIT_SERVER_BASE_URL_PATH": path}
            found = subprocess.run([sys.executable, *check[1:]], env=below, capture_output=True)
            assert (found.returncode == 0) == healthy
        server.shutdown()


def test_the_notes_name_every_variable_that_the_server_reads() -> None:
    notes = (FOLDER / "README.md").read_text()
    read = {name for path in (ROOT / "dpviz").rglob("*.py") for name in re.findall(r'"(DPVIZ_\w+)"', path.read_text())}
    assert {name for name in read if f"`{name}`" not in notes} == set()
