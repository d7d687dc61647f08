"""The dashboard as a command: of an installed package, or of the folder that this is."""

import os
import subprocess
import sys

import click

from dpviz import resources
from dpviz.errors import UserError


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Where it answers.")
@click.option("--workers", type=click.IntRange(0, 64), help="Processes that compute runs; 0: threads.  [default: 2]")
@click.option("--store", metavar="FOLDER", help="Finished points of sweeps; `off`: none.  [default: in your cache]")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open it in a browser.")
def serve(port: int, workers: int | None, store: str | None, browser: bool) -> int:
    """Start the dashboard.

    Its settings are those of .streamlit/config.toml; variables named STREAMLIT_… override them.
    """
    chosen = {"DPVIZ_WORKERS": workers, "DPVIZ_STORE": store if store in (None, "off") else os.path.abspath(store)}
    environment = {**os.environ, **{name: str(value) for name, value in chosen.items() if value is not None}}
    options = [f"--server.port={port}", f"--server.headless={str(not browser).lower()}"]
    program = [sys.executable, "-m", "streamlit", "run", "app.py", *options]
    try:
        os.chdir(resources.dashboard())
    except FileNotFoundError as error:
        raise UserError(str(error), title="There is no dashboard") from None
    if os.name == "nt":
        return subprocess.call(program, env=environment)
    os.execve(sys.executable, program, environment)  # in its place, so that it gets the signals
