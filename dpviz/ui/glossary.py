"""The glossary: terms are marked and explained on every page, and a tab of the page of lessons lists all of them."""

import streamlit as st

from dpviz.ui import components
from dpviz.ui.terms import TERMS

PAGE, TAB = "pages/learn.py", "Glossary"
TABS = "learn_tabs"  # key, and name in the address, of the tabs of lessons and glossary
LIST = "glossary"  # key of the list's container, by which the browser knows not to mark terms in it


def mark_terms(key: str, here: bool = False) -> None:
    """Mark the terms that the page uses, and draw a button with their meanings; call it once per page.

    The button leads on to the list of all terms. here : true if that list is a tab of this very page.
    """
    before_opening = _open_tab if here else lambda: None
    is_list_wanted = components.glossary_button(key, on_all=before_opening)
    if is_list_wanted and not here:
        st.switch_page(PAGE, query_params={TABS: TAB})


def _open_tab() -> None:
    """Open the tab of the glossary; for a callback."""
    st.session_state[TABS] = TAB


def show_list() -> None:
    """Draw the list of all terms, in groups."""
    with st.container(key=LIST):
        for group in dict.fromkeys(term.group for term in TERMS.values()):
            st.header(group, anchor=False)
            lines = [
                f"- **{term.name}.** {term.sentence}  \n  `{term.formula}`  \n  In Python: `dpviz.{term.code}`"
                for term in TERMS.values()
                if term.group == group
            ]
            st.markdown("\n".join(lines))
