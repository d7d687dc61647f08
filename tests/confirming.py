"""What a visitor declares of a file at once: how it is read, and which class of its target is the positive one."""

from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from dpviz.ui.uploads.how import CONFIRM


def confirmed(app: AppTest, positive: bool = True) -> AppTest:
    """The page after the click, if it asks, and with the last class as the positive one, where none is offered."""
    asked = [button for button in app.button if button.label == CONFIRM]
    app = asked[0].click().run() if asked else app
    open_ = [box for box in app.selectbox if box.label == "Positive class" and box.value is None and box.options]
    return open_[0].set_value(open_[0].options[-1]).run() if open_ and positive else app


def confirm(page: Page) -> None:
    """Click once the browser shows the question."""
    page.get_by_role("button", name=CONFIRM).click()
