"""The menu of pages, and the function with which every page begins.

This module imports little, so that a fresh server shows the menu before it imports the modules that pages need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Literal

import streamlit as st

from dpviz import resources
from dpviz.ui import families, streamlit_patches

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

# Whether the menu has been built. It belongs to the server, not to a visitor: process-wide on purpose.
_built = False


def configure() -> None:
    """Set title, icon and layout of the page in the browser.

    The sidebar is wide enough for a slider next to its number. In a frame of another web page it is closed.
    """
    st.set_option("client.showSidebarNavigation", True)  # the server's settings hide Streamlit's own menu
    # The icon is a file of ours, because the browser would fetch Streamlit's icons from a third party.
    width: Literal["collapsed"] | int = "collapsed" if st.context.is_embedded else 350
    st.set_page_config(page_title="dpviz", page_icon=_picture("icon"), layout="wide", initial_sidebar_state=width)


def build() -> "StreamlitPage":
    """Draw the menu, and everything else around a page; return the page to run."""
    global _built
    streamlit_patches.apply()
    page = st.navigation(
        {
            "": [
                st.Page("pages/home.py", title="Start", icon=":material/home:", default=True),
                st.Page("pages/learn.py", title="Lessons", icon=":material/school:"),
                st.Page("pages/budget_planner.py", title="Budget planner", icon=":material/tune:"),
                st.Page("pages/compare.py", title="Compare", icon=":material/compare_arrows:"),
                st.Page("pages/audit.py", title="Audit", icon=":material/policy:"),
            ],
            "Algorithms": [
                st.Page(family.address, title=family.title, icon=family.icon) for family in families.FAMILIES
            ],
        }
    )
    streamlit_patches.begin_page(page.url_path)
    _built = True
    st.logo(_picture("logo"), size="large", icon_image=_picture("icon"))
    import_module("dpviz.ui.shell").draw(page)
    return page


def ensure_shell() -> None:
    """Build the menu if it is missing; every page begins with this.

    On a fresh server the address of a page runs the file of that page without `app.py`, which builds the menu, until a
    visitor opens the start page.
    """
    if not _built:
        configure()
        build()
        st.rerun()


def show(name: str) -> None:
    """Draw the page whose package in `dpviz.ui` has this name, a family's or another one."""
    ensure_shell()
    page = import_module(f"dpviz.ui.{name}.page")
    if any(family.name == name for family in families.FAMILIES):
        import_module("dpviz.ui.experiment.page").show(page.PAGE)
    else:
        page.show()


def _picture(name: str) -> str:
    """Return the SVG text of a picture of this package."""
    return resources.text("dpviz.ui", f"components/{name}.svg")  # `dpviz.ui.components` itself would import plotly
