"""The one click by which a visitor confirms how a file is read."""

from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from dpviz.ui.uploads.how import CONFIRM


def confirmed(app: AppTest) -> AppTest:
    """The page after the click, if it asks."""
    asked = [button for button in app.button if button.label == CONFIRM]
    return asked[0].click().run() if asked else app


def confirm(page: Page) -> None:
    """Click once the browser shows the question."""
    page.get_by_role("button", name=CONFIRM).click()
