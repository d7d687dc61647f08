"""Everything around a page except the menu: style sheets, scripts in the browser, and the state of runs."""

from typing import TYPE_CHECKING

from dpviz.ui import appearance, links, presenting, screen, visitors
from dpviz.ui.components import style
from dpviz.ui.experiment import run

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage


def draw(page: "StreamlitPage") -> None:
    """Draw everything around `page`, before the page itself."""
    links.expand(page)
    style("shell.css")
    appearance.readable()
    presenting.begin()
    screen.watch(appearance.theme(), page.url_path)
    visitors.here().drawn()
    visitors.remember()
    run.rest(page.url_path)
    run.sidebar_status()
