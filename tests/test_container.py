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
from contextlib import contextmanager
from pathlib import Path
from string import Template
from threading import Thread

import psutil
import pytest
from packaging.requirements import Requirement
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Origin

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
        for source in sources if target != "/requirements.lock" else ():
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
    here |= {"HOME": str(image / "home"), "DPVIZ_STORE": str(image / "store" / "cells")}
    return environment() | here | {"STREAMLIT_SERVER_PORT": str(port)}


CHECK: list[str] = json.loads(words("HEALTHCHECK").partition("CMD ")[2])


@contextmanager
def started(image: Path, **more: str) -> Iterator[dict[str, str]]:
    """The command of the file, and its environment, with more variables."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        variables = in_the_image(image, free.getsockname()[1]) | more
    with (image / "server.log").open("w") as log:
        program = json.loads(words("CMD"))
        process = subprocess.Popen(program, cwd=image / "app", env=variables, stdout=log, stderr=log)
    try:
        yield variables
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


def checked(image: Path, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """The health check, once the server listens."""
    ends = time.monotonic() + SECONDS
    while True:
        found = subprocess.run(CHECK, cwd=image / "app", env=variables, capture_output=True, text=True)
        if "No page can be opened" not in found.stderr or time.monotonic() > ends:
            return found
        time.sleep(0.2)


@pytest.mark.slow
def test_the_command_serves_is_healthy_and_writes_nothing_into_the_image(image: Path) -> None:
    before = tree(image / "app")
    with started(image) as server:
        found = checked(image, server)
        assert found.returncode == 0, found.stderr + (image / "server.log").read_text()
        spent = psutil.Process().cpu_times()
        assert checked(image, server).returncode == 0
        after = psutil.Process().cpu_times()
        with urllib.request.urlopen(f"http://127.0.0.1:{server['STREAMLIT_SERVER_PORT']}/accelerated") as page:
            assert b"<html" in page.read()
    used = after.children_user + after.children_system - spent.children_user - spent.children_system
    assert used < 1, "the check takes more than a second of processor time"
    assert tree(image / "app") == before and tree(image / "home") == set()
    assert "Traceback" not in (image / "server.log").read_text()


WATCH = """
import sys
def watch(event, given):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        address = given[0] if event == "socket.getaddrinfo" else given[1]
        host = address[0] if isinstance(address, tuple) else address
        if host not in (None, "127.0.0.1", "::1", "localhost", "0.0.0.0") and "/" not in str(host):
            print("Another machine:", event, host, file=sys.stderr, flush=True)
            raise OSError("There is no network.")
sys.addaudithook(watch)
"""


@pytest.mark.slow
def test_a_server_asks_no_other_machine_whoever_connects(image: Path, tmp_path: Path) -> None:
    """Neither when it starts on all addresses, nor for pages of other sites, refused or allowed."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    allowed = {"STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": "https://desk.example"}
    with started(image, PYTHONPATH=f"{tmp_path}:{image / 'app'}", **allowed) as server:
        assert checked(image, server).returncode == 0
        address = f"ws://127.0.0.1:{server['STREAMLIT_SERVER_PORT']}/_stcore/stream"
        for origin in ("https://elsewhere.example", "http://[::1]:3000", "http://10.0.0.7"):
            with pytest.raises(InvalidStatus) as refused:
                connect(address, origin=Origin(origin)).__enter__()
            assert refused.value.response.status_code == 403
        for origin in ("https://desk.example", "http://localhost:3000", address[:-15].replace("ws", "http")):
            with connect(address, origin=Origin(origin)):
                pass
    log = (image / "server.log").read_text()
    assert "Another machine" not in log and log.count("server.corsAllowedOrigins") == 3


@pytest.mark.slow
def test_a_server_that_listens_but_whose_pages_raise_is_unhealthy(image: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(image, tmp_path / "image")
    home = broken / "app" / "pages" / "home.py"
    home.write_text(home.read_text() + '\nraise RuntimeError("no page")\n')
    with started(broken) as server:
        found = checked(broken, server)
        with urllib.request.urlopen(f"http://127.0.0.1:{server['STREAMLIT_SERVER_PORT']}/_stcore/health") as health:
            assert health.status == 200
    assert (found.returncode, found.stderr.splitlines()) == (
        1,
        ["The start page raises an exception: the log of the server says which."],
    )


def answer(connection: ServerConnection) -> None:
    """A page without anything on it, at one address."""
    assert connection.request is not None
    connection.recv()
    if (connection.request.path, connection.request.headers["Host"].split(":")[0]) == (
        "/lab/dp/_stcore/stream",
        "dpviz.example.org",
    ):
        connection.send(ForwardMsg(script_finished="FINISHED_SUCCESSFULLY").SerializeToString())


@pytest.mark.slow
def test_a_server_is_asked_for_its_page_below_its_path_and_by_its_name() -> None:
    with serve(answer, "127.0.0.1", 0, subprotocols=["streamlit"]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        names = {"STREAMLIT_SERVER_ALLOWED_HOSTS": "dpviz.example.org localhost"}
        names |= {"STREAMLIT_SERVER_PORT": str(server.socket.getsockname()[1])}
        for path, healthy in (("/lab/dp/", True), ("lab/dp", True), ("", False)):
            below = names | {"STREAMLIT_SERVER_BASE_URL_PATH": path}
            found = subprocess.run([sys.executable, *CHECK[1:]], cwd=FOLDER, env=below, capture_output=True)
            assert (found.returncode == 0) == healthy, found.stderr.decode()
        server.shutdown()


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
