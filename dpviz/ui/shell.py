"""Everything around a page except the menu: style sheets, scripts in the browser, and the state of runs."""

from typing import TYPE_CHECKING

from dpviz.ui import appearance, links, visitors
from dpviz.ui.components import apply_style
from dpviz.ui.experiment import run

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage


def draw(page: "StreamlitPage") -> None:
    """Draw everything around `page`, before the page itself."""
    links.expand()
    apply_style("shell.css")
    appearance.correct_theme()
    appearance.apply_form()
    appearance.report_screen(page.url_path)
    visitors.current().note_drawing()  # so that the end of the tab's connection is noticed
    visitors.sync_tab()
    run.stop_other_sweeps(page.url_path)
    run.sidebar_status()
