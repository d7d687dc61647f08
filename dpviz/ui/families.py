"""The one list of family pages, from `families.toml`: what the menu and the start page say of each, and its page; the
doors and cards of the start page.

A page is imported when it is opened or asked for a preset, so that the first page of a visit waits for no other, and
the menu for none.
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
    """A family's page as others introduce it.

    name : of its packages in `dpviz.families` and `dpviz.ui`.
    question : the words of its card on the start page.
    """

    name: str
    icon: str
    title: str
    question: str

    @property
    def address(self) -> str:
        """The file that `st.Page` and `st.switch_page` take."""
        return f"pages/{self.name}.py"

    def page(self) -> "FamilyPage":
        """The page's description, from the family's own package in `dpviz.ui`."""
        return cast("FamilyPage", import_module(f"dpviz.ui.{self.name}.page").PAGE)


FAMILIES = tuple(Entry(**family) for family in resources.data(__package__, "families.toml")["family"])


def named(name: str) -> Entry:
    """The family of this name."""
    return next(family for family in FAMILIES if family.name == name)


def door(key: str, icon: str, title: str, text: str, *, label: str, page: Entry | str) -> None:
    """One way into the tool: what it is for, and a button that opens the page; of a family, with its first preset."""
    with st.container(border=True, height="stretch"):
        st.subheader(f"{icon} {title}", anchor=False)
        st.markdown(text)
        _open(key, label, page)


def card(family: Entry) -> None:
    """What a family of methods is about, below the picture of its first preset."""
    with st.container(border=True, height="stretch", gap="small", key=f"home_about_{family.name}"):
        theme = import_module("dpviz.ui.appearance").theme()
        with suppress(FileNotFoundError):  # a new family has one when the pictures are made anew
            picture = resources.content(__package__, f"components/cards/{family.name}_{theme}.png")
            st.image(picture, width="stretch", alt=f"The picture of a run of {family.title.lower()}")
        st.subheader(family.title, anchor=False)
        st.caption(family.question)
        _open(f"card_{family.name}", "Open", family)


def _open(key: str, label: str, page: Entry | str) -> None:
    if st.button(label, key=f"home_{key}", icon=":material/arrow_forward:"):
        if isinstance(page, Entry):
            described = page.page()
            import_module("dpviz.ui.experiment.presets").open_with(described.prefix, described.presets[0].experiment)
        st.switch_page(page.address if isinstance(page, Entry) else page, query_params={})  # what is bound, too
