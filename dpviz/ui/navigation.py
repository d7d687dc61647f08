"""The menu of pages, and the guard at the beginning of every page.

A fresh server shows the menu first, and then imports the modules that pages compute and draw with.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Literal

import streamlit as st

from dpviz import resources
from dpviz.ui import families, streamlit_patches

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

# Process-wide on purpose: it is the server's state, not a visitor's.
_built = False


def configure() -> None:
    """Set title, icon and layout of the browser page.

    The sidebar is wide enough for a slider next to its number, and closed in a frame of another page.
    """
    st.set_option("client.showSidebarNavigation", True)  # the server's settings hide Streamlit's own menu
    # A falling, noisy curve of our own: Streamlit fetches its icons for a browser tab from a third party.
    width: Literal["collapsed"] | int = "collapsed" if st.context.is_embedded else 350
    st.set_page_config(page_title="dpviz", page_icon=_picture("icon"), layout="wide", initial_sidebar_state=width)


def build() -> "StreamlitPage":
    """Draw the menu and return the page to run."""
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
    streamlit_patches.page_begun(page.url_path)
    _built = True
    st.logo(_picture("logo"), size="large", icon_image=_picture("icon"))
    import_module("dpviz.ui.shell").draw(page)
    return page


def ensure_shell() -> None:
    """Build the menu if it is missing: the first line of every page.

    On a fresh server the address of a page runs that page without `app.py`, for every visitor until one opens the start
    page.
    """
    if not _built:
        configure()
        build()
        st.rerun()


def show(name: str) -> None:
    """Draw the whole page whose package in `dpviz.ui` has this name."""
    ensure_shell()
    page = import_module(f"dpviz.ui.{name}.page")
    if any(family.name == name for family in families.FAMILIES):
        import_module("dpviz.ui.experiment.page").show(page.PAGE)
    else:
        page.show()


def _picture(name: str) -> str:
    return resources.text("dpviz.ui", f"components/{name}.svg")  # `dpviz.ui.components` itself would import plotly
