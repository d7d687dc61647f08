"""The dashboard as a command: of an installed package, or of the folder that this is."""

import os
import subprocess
import sys
from pathlib import Path

import click

import dpviz
from dpviz.errors import UserError

APP = "app.py"


def dashboard() -> Path:
    """The folder of the dashboard's pages and settings: in the wheel beside the modules, else above them. Raises
    UserError where there is none."""
    house = Path(dpviz.__file__).parent
    for folder in (house / "dashboard", house.parent):
        if (folder / APP).exists() and (folder / "pages").is_dir():
            return folder
    raise UserError(
        "Install dpviz anew, or start it in its own folder.", title="The pages of the dashboard are missing"
    )


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Where it answers.")
@click.option("--workers", type=click.IntRange(0, 64), help="Processes that compute runs; 0: threads.  [default: 2]")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open it in a browser.")
def serve(port: int, workers: int | None, browser: bool) -> int:
    """Start the dashboard.

    Its settings are those of .streamlit/config.toml; variables named STREAMLIT_… override them.
    """
    environment = dict(os.environ) if workers is None else {**os.environ, "DPVIZ_WORKERS": str(workers)}
    options = [f"--server.port={port}", f"--server.headless={str(not browser).lower()}"]
    program = [sys.executable, "-m", "streamlit", "run", APP, *options]
    os.chdir(dashboard())
    if os.name == "nt":
        return subprocess.call(program, env=environment)
    os.execve(sys.executable, program, environment)  # in its place, so that it gets the signals
