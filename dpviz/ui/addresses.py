"""The experiment that a link of an algorithm's page opens, found by drawing the page without a browser."""

import logging
from urllib.parse import parse_qs, urlsplit

from streamlit.testing.v1 import AppTest

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.ui import families

SECONDS = 60  # that drawing a page may take


def experiment(address: str) -> Experiment:
    """The experiment of an address such as "http://localhost:8501/accelerated?accel_epsilon=1"; nothing is fetched.

    Raises UserError if it names no algorithm's page, or its settings make no experiment.
    """
    parts = urlsplit(address)
    family = next((one for one in families.FAMILIES if one.name == parts.path.strip("/").rpartition("/")[2]), None)
    if family is None:
        names = ", ".join(one.name for one in families.FAMILIES)
        raise UserError(f"Give the address of one of these pages: {names}.", title="This is no algorithm's page")
    prefix = family.page().prefix
    app = AppTest.from_file(str(resources.dashboard() / "app.py"), default_timeout=SECONDS)
    for name, values in (parse_qs(parts.query, keep_blank_values=True) | {f"{prefix}_follow": ["false"]}).items():
        app.query_params[name] = values
    logging.disable(logging.WARNING)  # of Streamlit, that nobody looks
    try:
        app.switch_page(f"pages/{family.name}.py").run()
    finally:
        logging.disable(logging.NOTSET)
    key = f"{prefix}_settled"
    ready = app.session_state[key] if key in app.session_state else None  # noqa: SIM401 (it has no `get`)
    if ready is None:
        said = " ".join(box.value for box in [*app.error, *app.info])
        raise UserError(said or "Its data are a file, which no link holds.", title="This link makes no experiment")
    found: Experiment = ready.experiment
    return found
