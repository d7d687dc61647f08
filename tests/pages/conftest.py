"""Loading a page as its visitors do: through the entry point, with an address."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture
def load() -> Callable[..., AppTest]:
    """`load(page, **parameters)`: the page after its first run, without exceptions."""

    def open_page(page: str, **parameters: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=30)
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        if page != "home":
            app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
        return app

    return open_page
