"""The glossary: the terms of differential privacy that pages use, from `terms.toml`, each with sentence and formula.

They are marked and explained on every page, and a tab of the page of lessons lists all of them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from dpviz import resources
from dpviz.ui import components

PAGE, TAB = "pages/learn.py", "Glossary"
TABS = "learn_tabs"  # key, and name in the address, of the tabs of lessons and glossary
LIST = "glossary"  # key of the list's container, by which the browser knows not to mark terms in it


@dataclass(frozen=True)
class Term:
    """A term of differential privacy.

    group : title under which the glossary lists it. slug : its name in the code. name : its name on the pages, with its
    symbol. sentence, formula : its meaning in one sentence and in one formula, in which D and D′ are neighbouring data
    sets, M is an algorithm, and S a set of outcomes. code : the name, within the package dpviz, of the function or
    class that computes it. forms : the forms in which pages use it, regardless of case.
    """

    group: str
    slug: str
    name: str
    sentence: str
    formula: str
    code: str
    forms: Sequence[str]


TERMS = {entry["slug"]: Term(**entry) for entry in resources.data(__package__, "terms.toml")["term"]}


def mark_terms(key: str, here: bool = False) -> None:
    """Mark the terms that the page uses, and draw a button with their meanings; call it once per page.

    The button leads on to the list of all terms. here : true if that list is a tab of this very page.
    """
    before_opening = _open_tab if here else lambda: None
    is_list_wanted = _words()(key=key, data={}, on_all_change=before_opening).all
    if is_list_wanted and not here:
        st.switch_page(PAGE, query_params={TABS: TAB})


@cache
def _words() -> Any:
    """Declare the part of a page that marks terms and has the button; its script has all terms."""
    fields = ("name", "sentence", "formula", "forms")
    terms = [{field: getattr(term, field) for field in fields} for term in TERMS.values()]
    return components.declare_part(
        "words",
        '<button type="button" class="open" popovertarget="panel">Words</button>'
        '<div id="panel" class="panel" popover role="dialog" aria-label="Words of this page"><dl></dl>'
        '<button type="button" class="all">All words</button></div>',
        js=f"const TERMS = {json.dumps(terms, ensure_ascii=False)};\n{components.asset_text('words.js')}",
    )


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
