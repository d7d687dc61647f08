"""The list of the families' pages, from `families.toml`, and the parts of the start page that lead to pages.

A page's module is imported only when it is opened or its presets are needed, so that neither the menu nor the first
page of a visit waits for the others.
"""

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpviz import resources

if TYPE_CHECKING:
    from dpviz.ui.experiment.page import FamilyPage


@dataclass(frozen=True)
class Entry:
    """The entry of a family's page in the menu and on the start page.

    name : name of the family's packages in `dpviz.families` and `dpviz.ui`. icon, title : in the menu. question : text
    of its card on the start page.
    """

    name: str
    icon: str
    title: str
    question: str

    @property
    def address(self) -> str:
        """File of the page, for `st.Page` and `st.switch_page`."""
        return f"pages/{self.name}.py"

    def page(self) -> "FamilyPage":
        """Return the page's description, from the family's own package in `dpviz.ui`."""
        return cast("FamilyPage", import_module(f"dpviz.ui.{self.name}.page").PAGE)


FAMILIES = tuple(Entry(**family) for family in resources.data(__package__, "families.toml")["family"])


def named(name: str) -> Entry:
    """Return the family with this name."""
    (match,) = (family for family in FAMILIES if family.name == name)
    return match


def show_entrance(key: str, icon: str, title: str, text: str, *, label: str, page: Entry | str) -> None:
    """Draw a box of the start page: a way into the tool, its purpose, and a button that opens a page.

    key : in the key of the button, whose label is `label`. page : a family, whose page opens with its first preset, or
    the file of another page.
    """
    with st.container(border=True, height="stretch"):
        st.subheader(f"{icon} {title}", anchor=False)
        st.markdown(text)
        _open_button(key, label, page)


def card(family: Entry) -> None:
    """Draw a family's card on the start page: the picture of its first preset, its title and its question."""
    with st.container(border=True, height="stretch", gap="small", key=f"home_about_{family.name}"):
        theme = import_module("dpviz.ui.appearance").theme()  # imported late, as it imports plotly
        with suppress(FileNotFoundError):  # a new family has no picture until the pictures are built again
            picture = resources.content(__package__, f"components/cards/{family.name}_{theme}.png")
            st.image(picture, width="stretch", alt=f"The picture of a run of {family.title.lower()}")
        st.subheader(family.title, anchor=False)
        st.caption(family.question)
        _open_button(f"card_{family.name}", "Open", family)


def _open_button(key: str, label: str, page: Entry | str) -> None:
    """Draw a button that opens a page. The arguments are those of `show_entrance`."""
    if not st.button(label, key=f"home_{key}", icon=":material/arrow_forward:"):
        return
    if isinstance(page, Entry):
        presets, family_page = import_module("dpviz.ui.experiment.presets"), page.page()
        presets.set_pending(family_page.prefix, family_page.presets[0].experiment)  # with which the page begins
        page = page.address
    st.switch_page(page, query_params={})  # without the parameters of controls that are bound to the address
