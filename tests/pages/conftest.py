"""Loading a page as its visitors do: through the entry point, with an address."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.ui import families

APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def load() -> Callable[..., AppTest]:
    """`load(page, **parameters)`: the page after its first run, without exceptions.

    Runs do not start by themselves and have no references, unless the parameters say so: what a test looks at shall
    stand still, and cost little.
    """

    def open_page(page: str, **parameters: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=30)
        if page in {family.name for family in families.FAMILIES}:
            prefix = families.named(page).page().prefix
            parameters = {f"{prefix}_follow": "false", f"{prefix}_references": "false", **parameters}
        for name, value in parameters.items():
            app.query_params[name] = value
        if page != "home":
            app.switch_page(f"pages/{page}.py")  # at once, as an address does: the start page is not drawn before
        app.run()
        assert not app.exception
        return app

    return open_page
