"""The glossary on the pages: terms are explained in place, on request, and all of them in one list."""

import streamlit as st

from dpviz.ui import components
from dpviz.ui.terms import GROUPS, Term

PAGE, TAB = "pages/learn.py", "Glossary"
TABS = "learn_tabs"  # key, and name in the address, of the tabs of lessons and glossary
LIST = "glossary"  # key of the list, in which no term is marked


def words(key: str, here: bool = False) -> None:
    """Mark the terms that the page uses, and draw a button with all of them; once per page.

    here : whether the list of all terms is a tab of this very page.
    """
    if components.words(key, _open_tab if here else lambda: None) and not here:
        st.switch_page(PAGE, query_params={TABS: TAB})


def _open_tab() -> None:
    st.session_state[TABS] = TAB


def listed() -> None:
    """Draw all terms, in groups."""
    with st.container(key=LIST):
        for group, terms in GROUPS.items():
            st.header(group, anchor=False)
            st.markdown("\n".join(map(_line, terms)))


def _line(term: Term) -> str:
    return f"- **{term.name}.** {term.sentence}  \n  `{term.formula}`  \n  In Python: `dpviz.{term.code}`"
