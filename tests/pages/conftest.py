"""Loading a page with an address."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.ui import families

SHELL = {"s", "pins", "present"}  # what of an address the entry point reads, before any page
APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def load() -> Callable[..., AppTest]:
    """`load(page, **parameters)`: the page after its first run, without exceptions.

    Runs do not start by themselves and have no references, unless the parameters say so: what a test looks at shall
    stand still, and cost little.
    """

    def open_page(page: str, **parameters: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=300)
        if page in {family.name for family in families.FAMILIES}:
            prefix = families.named(page).page().prefix
            parameters = {f"{prefix}_follow": "false", f"{prefix}_references": "false", **parameters}
        for name, value in parameters.items():
            app.query_params[name] = value
        if page != "home":
            if SHELL & parameters.keys():
                app.run()
            app.switch_page(f"pages/{page}.py")  # alone, without the entry point: a page takes half the time
        app.run()
        assert not app.exception
        return app

    return open_page
