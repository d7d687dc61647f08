"""The experiment that a link to a family's page restores, read by drawing the page without a browser.

Only the page itself knows how its controls make an experiment, so the shell draws it, too.
"""

import logging
from urllib.parse import parse_qs, urlsplit

from streamlit.testing.v1 import AppTest

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.ui import families

MAX_SECONDS = 60  # to draw a page


def experiment(address: str) -> Experiment:
    """Return the experiment of an address such as "http://localhost:8501/accelerated?accel_epsilon=1".

    No server is asked: only the path and the query of the address count. Raises UserError if it names no family's page,
    or its settings make no experiment.
    """
    parts = urlsplit(address)
    page_name = parts.path.strip("/").rpartition("/")[2]
    family = next((entry for entry in families.FAMILIES if entry.name == page_name), None)
    if family is None:
        names = ", ".join(entry.name for entry in families.FAMILIES)
        raise UserError(f"Give the address of one of these pages: {names}.", title="This is no algorithm's page")
    prefix = family.page().prefix
    app = AppTest.from_file(str(resources.dashboard() / "app.py"), default_timeout=MAX_SECONDS)
    parameters = parse_qs(parts.query, keep_blank_values=True)
    parameters[f"{prefix}_follow"] = ["false"]  # "Run at every change" is off, so that no run begins
    for name, values in parameters.items():
        app.query_params[name] = values
    logging.disable(logging.WARNING)  # Streamlit warns that no browser is connected
    try:
        app.switch_page(f"pages/{family.name}.py").run()
    finally:
        logging.disable(logging.NOTSET)
    key = f"{prefix}_settled"
    ready = app.session_state[key] if key in app.session_state else None  # noqa: SIM401 (it has no `get`)
    if ready is None:
        messages = " ".join(box.value for box in [*app.error, *app.info])
        raise UserError(messages or "Its data are a file, which no link holds.", title="This link makes no experiment")
    result: Experiment = ready.experiment
    return result
