"""The menu of pages, and the guard that every page begins with."""

from typing import TYPE_CHECKING

import streamlit as st

from dpviz.ui import appearance, browser_session, families, links, presenting, screen, streamlit_patches, visitors
from dpviz.ui.experiment import run as run_panel

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

# Process-wide on purpose: what it remembers is the server's state, not a visitor's.
_built = False

# A falling, noisy curve. Drawn here, because Streamlit fetches its own icons for a browser tab from a third party.
ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="#005A8C"/>
<path d="M5 7c4 1 4 11 8 13s3-3 6 0 4 4 8 4" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round"/>
<path d="M5 27h22" stroke="#D55E00" stroke-width="2.2" stroke-dasharray="4 2.5" stroke-linecap="round"/>
</svg>"""
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 112 32">
<rect width="32" height="32" rx="7" fill="#0072B2"/>
<path d="M5 7c4 1 4 11 8 13s3-3 6 0 4 4 8 4" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round"/>
<path d="M5 27h22" stroke="#F3A26D" stroke-width="2.2" stroke-dasharray="4 2.5" stroke-linecap="round"/>
<text x="41" y="23" font-family="Source Sans, Source Sans Pro, sans-serif" font-size="22" font-weight="600"
 fill="#0072B2">dpviz</text>
</svg>"""

# Sizes that the theme has no option for: the plan must be seen without scrolling.
STYLE = """<style>
.stMainBlockContainer { padding-top: 2.2rem; padding-bottom: 3rem; }
@media (max-width: 768px) { .stMainBlockContainer { padding-top: 4.2rem; } }
@media (max-width: 1200px) { .stMainBlockContainer { padding-left: 1.5rem; padding-right: 1.5rem; } }
/* Beside the sidebar there is no room for columns. */
@media (max-width: 1000px) {
  .stApp:has([data-testid="stSidebar"][data-collapsed="false"])
    .stMain [data-testid="stColumn"]:not([data-testid="stColumn"] [data-testid="stColumn"]) {
    min-width: calc(100% - 1.5rem);
  }
}
[data-testid="stMetricValue"] { font-size: 1.5rem; }
h1 { font-size: 2rem !important; padding: 0.5rem 0 !important; }
h2 { font-size: 1.4rem !important; padding: 0.4rem 0 !important; }
h3 { font-size: 1.05rem !important; padding: 0.3rem 0 !important; }
section[data-testid="stSidebar"] [data-testid="stNumberInputContainer"] button { display: none; }
section[data-testid="stSidebar"] [data-testid="stColumn"] { min-width: 4.5rem; }
[data-testid="stColumn"] [data-testid="stColumn"] { min-width: 4.5rem; }
/* Parts without a body take no room. */
.st-key-screen, .st-key-tab { position: absolute; width: 0; overflow: hidden; }
/* A message that goes by itself covers no button meanwhile: those are at the top. */
[data-testid="stToastContainer"] { top: auto; bottom: 1rem; }
/* The keyboard meets the page before the long sidebar: Run is among the first stops. */
[data-testid="stAppViewContainer"] { reading-flow: source-order; }
section[data-testid="stSidebar"] { reading-order: 1; }
/* The first sidebar of a server is drawn before it is told its width: that of all others. */
@media (min-width: 769px) { section[data-testid="stSidebar"][data-collapsed="false"] { min-width: 350px; } }
</style>"""


def configure() -> None:
    """Title, icon and layout of the browser page; the sidebar is wide enough for a slider beside its number."""
    st.set_page_config(page_title="dpviz", page_icon=ICON, layout="wide", initial_sidebar_state=350)


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
    _built = True
    links.expand(page)
    st.logo(LOGO, size="large", icon_image=ICON)
    st.html(STYLE)
    appearance.readable()
    presenting.begin()
    screen.watch(appearance.theme())
    visitors.here().drawn()
    browser_session.remember()
    run_panel.sidebar_status()
    return page


def ensure_shell() -> None:
    """Build the menu if nobody has: the first line of every page.

    On a fresh server the address of a page runs that page without `app.py`, and would do so for every visitor until
    someone opens the start page.
    """
    if not _built:
        configure()
        build()
        st.rerun()
