"""The experiment that a link to a family's page restores, read by drawing the page without a browser.

Only the page itself knows how its controls make an experiment. It is drawn in a process of its own, so that whoever
opens a link imports no Streamlit.
"""

import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment

MAX_SECONDS = 60  # to draw a page
_UNESCAPED = "%/:?#[]@!$&'()*+,;="  # signs that addresses hold as they are


def experiment(address: str) -> Experiment:
    """Return the experiment of an address such as "http://localhost:8501/accelerated?accel_epsilon=1".

    No server is asked: only the path and the query of the address count. Raises UserError if it names no family's page,
    or its settings make no experiment.
    """
    names = [family["name"] for family in resources.data(__package__, "families.toml")["family"]]
    page = ""
    with suppress(ValueError):  # brackets around a host that is no IP address
        page = _page_name(urlsplit(address))
    if page not in names:
        raise UserError(
            f"Give the address of one of these pages: {', '.join(names)}.", title="This is no algorithm's page"
        )
    folder = str(Path(__file__).parents[2])  # that of the package, so that the process imports the same one
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    # Signs that the address should not hold become percent codes: an argument of a program may have no null character.
    program = [sys.executable, "-m", __name__, quote(address, safe=_UNESCAPED, errors="replace")]
    try:
        process = subprocess.run(
            program, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}
        )
    except subprocess.CalledProcessError as error:
        last_line = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"{last_line}.", title="The page cannot be drawn: is dpviz[app] installed?") from None
    answer = json.loads(process.stdout.decode().rpartition("\n")[2])  # the last line: other lines are messages
    if "message" in answer:
        raise UserError(answer["message"], title="This link makes no experiment")
    return Experiment.from_json(answer["experiment"])


def _page_name(address: SplitResult) -> str:
    return address.path.strip("/").rpartition("/")[2]


def _experiment_or_message(address: str) -> dict[str, str]:
    """Draw the page of an address; return the JSON of its experiment, or a message why there is none.

    There is none if a part of the address is no setting, or cannot be read (the page itself then takes the default).
    Raises UserError for a packed link that cannot be read.
    """
    from streamlit.testing.v1 import AppTest

    from dpviz.ui import families, links
    from dpviz.ui.controls import UNREAD

    parts = urlsplit(address)
    family = families.named(_page_name(parts))
    prefix = family.page().prefix
    app = AppTest.from_file(str(resources.dashboard() / "app.py"), default_timeout=MAX_SECONDS)
    parameters = parse_qs(parts.query, keep_blank_values=True)
    for packed in parameters.pop(links.PACKED, [])[-1:]:  # the last, as in `links.expand`
        parameters |= links.unpacked(packed)
    for pins in (links.PIN, links.PINS):  # other experiments
        parameters.pop(pins, None)
    parameters[f"{prefix}_follow"] = ["false"]  # "Run at every change" is off, so that no run begins
    app.query_params.update(parameters)
    logging.disable(logging.WARNING)  # Streamlit warns that no browser is connected
    app.switch_page(f"pages/{family.name}.py").run()
    key = f"{prefix}_settled"  # under which the page notes its settings, ready to run
    ready = app.session_state[key] if key in app.session_state else None  # noqa: SIM401 (it has no `get`)
    # The messages that a part of the address could not be used.
    unread = [box for box in [*app.toast, *app.warning] if box.icon == UNREAD]
    if ready is None or unread:
        messages = " ".join(dict.fromkeys(box.value for box in unread or [*app.error, *app.info]))
        # Without any message, the page waits for a file to be uploaded.
        return {"message": messages or "Its data are a file, which no link holds."}
    unknown = [name for name in parameters if name not in app.session_state and name not in links.NO_SETTINGS]
    if unknown:
        return {"message": f"The page has no setting {unknown[0]!r}; the names are those in its own links."}
    return {"experiment": ready.experiment.to_json()}


if __name__ == "__main__":
    try:
        answer = _experiment_or_message(sys.argv[1])
    except UserError as error:
        answer = {"message": str(error)}
    sys.stdout.write("\n" + json.dumps(answer))
