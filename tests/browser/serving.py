"""A dpviz server and a Chromium for the browser tests and the benchmarks, both started as a user would."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
# Chromium's own errands (updates, sync) only fail where there is no network; in a container it needs no sandbox.
ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")


@dataclass(frozen=True)
class Server:
    """A running server: its address, its process, and everything that it has printed so far."""

    url: str
    log: Path
    process: "subprocess.Popen[bytes]"

    def printed(self) -> str:
        return self.log.read_text()


@contextmanager
def serve(*options: str, app: Path = ROOT / "app.py", port: int = 0) -> Iterator[Server]:
    """Start the app on this or a free port, by the README's command with further options; stop it at the end."""
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(app), "--server.port", str(port), *options]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        with path.open("w") as log:
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            environment.pop("DPVIZ_WORKERS", None)  # workers, as a user has them
            environment["DPVIZ_STORE"] = str(Path(folder) / "cells")
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            server = Server(f"http://127.0.0.1:{port}", path, process)
            until(lambda: _healthy(server))
            yield server
        finally:
            process.terminate()
            process.wait(timeout=60)


def _healthy(server: Server) -> bool:
    assert server.process.poll() is None, f"the server did not start:\n{server.printed()}"
    try:
        with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of the tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS))
        yield browser
        browser.close()


def executable() -> str:
    """The browser that the variable CHROMIUM names, or the system's: nothing is downloaded.

    A whole Chromium makes a window for each page, two seconds of processor time that nobody sees.
    """
    found = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        raise RuntimeError("No Chromium: apt-get install chromium, or set the variable CHROMIUM to its path.")
    return found
