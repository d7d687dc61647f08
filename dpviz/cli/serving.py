"""The command `dpviz serve`, which starts the dashboard of an installed package or of a checkout."""

import os
import socket
import subprocess
import sys
from contextlib import suppress

import click
import psutil

from dpviz import resources
from dpviz.errors import UserError
from dpviz.later import require_package

# A program that opens an address in a browser once the port answers. Streamlit does not where an app has middleware.
OPENER = """
import socket, sys, time, webbrowser
for _ in range(240):
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close()
    except OSError:
        time.sleep(0.25)
    else:
        sys.exit(not webbrowser.open(sys.argv[2]))
"""


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Where it answers.")
@click.option("--workers", type=click.IntRange(0, 64), help="Processes that compute runs; 0: threads.  [default: 2]")
@click.option(
    "--store",
    envvar="DPVIZ_STORE",
    metavar="FOLDER",
    help="Finished points of sweeps; `off`: none.  [default: in your cache]",
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open it in a browser.")
@click.option(
    "--class",
    "is_class",
    is_flag=True,
    help="Teach a class whose phones join over the network. Everyone in the network can then reach the dashboard.",
)
def serve(port: int, workers: int | None, store: str | None, browser: bool, is_class: bool) -> int:
    """Start the dashboard.

    Its settings are those of .streamlit/config.toml; variables named STREAMLIT_… override them.
    """
    require_package("streamlit")
    environment = dict(os.environ)
    if workers is not None:
        environment["DPVIZ_WORKERS"] = str(workers)
    if store:
        is_off = store.lower() == "off"
        environment["DPVIZ_STORE"] = store if is_off else os.path.abspath(os.path.expanduser(store))
    options = [f"--server.port={port}", "--server.headless=true"]
    page = f"http://localhost:{port}/{'learn?class=new' if is_class else ''}"
    if is_class:
        # The server answers in the network, under its addresses and names.
        addresses, name = _addresses(), socket.gethostname().lower()
        if not addresses:
            raise UserError("This machine has no address that phones could reach: join a network.", title="No network")
        further_names = environment.get("STREAMLIT_SERVER_ALLOWED_HOSTS", "").split()
        hosts = dict.fromkeys(["localhost", "127.0.0.1", "::1", *addresses, name, f"{name}.local", *further_names])
        options += ["--server.address=0.0.0.0", f"--browser.serverAddress={addresses[0]}"]
        options += [f"--server.allowedHosts={host}" for host in hosts]
        click.echo(f"Projector: {page}")
        click.echo(f"Phones:    {' or '.join(f'http://{address}:{port}/c' for address in addresses)}")
        click.echo("Everyone in the network can reach this dashboard until you stop it (Ctrl+C).")
    program = [sys.executable, "-m", "streamlit", "run", "app.py", *options]
    try:
        os.chdir(resources.dashboard())
    except FileNotFoundError as error:
        raise UserError(str(error), title="There is no dashboard") from None
    with socket.socket() as probe:
        is_free = probe.connect_ex(("127.0.0.1", port)) != 0  # an error number: nothing answers there
    if browser and is_free:  # else the page would be another server's, and Streamlit says that the port is in use
        subprocess.Popen([sys.executable, "-c", OPENER, str(port), page], env=environment)
    if os.name == "nt":  # there `execve` would return to the shell at once, while the dashboard goes on
        return subprocess.call(program, env=environment)
    os.execve(sys.executable, program, environment)  # the dashboard replaces this process, and so gets its signals


def _addresses() -> list[str]:
    """Return the addresses of this machine in its networks, first the one by which it would reach others."""
    states = psutil.net_if_stats()
    addresses = [
        address.address
        for name, interface_addresses in psutil.net_if_addrs().items()
        if name in states and states[name].isup
        for address in interface_addresses
        # 127: of this machine alone; 169.254: made up by the system where no network gave one.
        if address.family == socket.AF_INET and not address.address.startswith(("127.", "169.254."))
    ]
    main_address = ""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 1))  # sends nothing: the system says which of its addresses it would use
        main_address, _ = probe.getsockname()  # without the port
    return sorted(addresses, key=lambda address: address != main_address)  # False comes first
