"""The parts of the start page: doors, and a card per family."""

import streamlit as st

from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.families import Entry

PLANNER, LESSONS, COMPARE = "pages/budget_planner.py", "pages/learn.py", "pages/compare.py"
AUDIT = "pages/audit.py"


def door(key: str, icon: str, title: str, text: str, label: str, page: Entry | str, preset: str = "") -> None:
    """One way into the tool: what it is for, and a button that opens the page.

    preset : how the name of the preset begins that a family's page is to open with.
    """
    with st.container(border=True, height="stretch"):
        st.subheader(f"{icon} {title}", anchor=False)
        st.markdown(text)
        _open(key, label, page, preset)


def card(family: Entry) -> None:
    """What a family of methods is about."""
    with st.container(border=True, height="stretch"):
        st.subheader(f"{family.icon} {family.title}", anchor=False)
        st.markdown(family.question)
        st.caption(f"**Guarantee.** {family.guarantee}")
        _open(f"card_{family.name}", f"Try {family.title.lower()}", family)


def _open(key: str, label: str, page: Entry | str, preset: str = "") -> None:
    if st.button(label, key=f"home_{key}", icon=":material/arrow_forward:"):
        if isinstance(page, Entry):
            described = page.page()
            chosen = next(known for known in described.presets if known.name.startswith(preset))
            preset_menu.open_with(described.prefix, chosen.experiment)
        st.switch_page(page.address if isinstance(page, Entry) else page)
