"""Texts that pages share: privacy, assumptions, derivations, and sentences for the captions of charts."""

import re
from collections.abc import Callable, Collection
from functools import cache
from numbers import Real
from types import ModuleType
from typing import Any, Literal

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler
from streamlit.delta_generator import DeltaGenerator

from dpviz import resources
from dpviz.datasets.uploads.limits import quote_name
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Privacy, is_conditional
from dpviz.numbers import short
from dpviz.plots.elements.chart import SETTINGS_ONLY as SETTINGS_ONLY
from dpviz.problems.base import ProblemSpecification
from dpviz.ui.markdown import escape_sentence

NOT_GAUSSIAN = "This is about Gaussian noise, which never gives pure ε. Choose another guarantee."
REFERENCES = "Methods without privacy release nothing: **no value of theirs is private**."


def format_numbers(table: pd.DataFrame) -> Styler:
    """Return a table whose numbers are drawn with few digits, as on all pages; a visitor still sorts it by value."""
    return table.style.format(lambda cell: short(cell, 4) if isinstance(cell, Real) else str(cell), na_rep="–")


def privacy_badge(privacy: Privacy | Literal["partly private"], help: str | None = None) -> None:
    """Draw the badge of values that are private, private on a condition, or not private.

    help : text that explains it.
    """
    icon = "visibility"
    if privacy == "private":
        icon = "lock"
    elif is_conditional(privacy):
        icon = "lock_open"
    st.badge(privacy, icon=f":material/{icon}:", color="green" if privacy == "private" else "orange", help=help)


def heading(title: str) -> DeltaGenerator:
    """Draw a heading; return its row, in which badges and buttons can be drawn, at the end of the line."""
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    row.subheader(title, anchor=False, width="stretch")
    return row


def show_not_private(text: str) -> None:
    """Draw a sentence with a number that was computed from the raw data, and the badge “not private” after it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(text, width="content")
        privacy_badge("not private")


KNEW = "I knew this beforehand"
KNEW_HELP = (
    "On your word it then counts as declared, and the guarantee rests on that. Only if you would have declared the "
    "same without these data."
)


def mark_taken(subject: str, key: str, on_known: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Draw the badge of a declaration that was taken from the data, and the button of a visitor who knew it before.

    subject : names the declaration, as "ranges". key : of the button, which calls `on_known(*args)`.
    """
    st.badge(f"{subject} taken from the data: not private", icon=":material/visibility:", color="orange")
    st.button(KNEW, key=key, on_click=on_known, args=args, help=KNEW_HELP)


def spread_sentence(replicates: int) -> str:
    """Return the sentence on what curves show of a number of runs, `replicates`."""
    if replicates == 1:
        return "One run; results vary."
    return f"Median of {replicates} runs, 10-90 % band."


def diagnostic_sentence(replicates: int, public: bool) -> str:
    """Return a sentence on the privacy of a curve that reads the raw data.

    replicates : the number of runs that it shows. public : whether the data are public.
    """
    if public:
        return "**Not private**: it reads the raw data, which are public here."
    suffix = f", and {replicates} runs compose" if replicates > 1 else ""
    return f"**Not private**: it reads your raw data{suffix}."


def release_sentence(experiment: Experiment, replicates: int, methods: int = 1) -> str:
    """Return a sentence on the privacy of curves that follow from the releases of a number of runs, `replicates`, of
    each of a number of private methods."""
    unit, runs = experiment.problem.unit, replicates * methods
    if experiment.condition:  # it is private on a condition: facts were read from the data, or a seed was set
        several = f" Publishing all {runs} runs would compose." if runs > 1 else ""
        return f"{only_if(experiment.privacy)}: {escape_sentence(experiment.promise)}.{several}"
    if runs <= 1:
        return f"Private at {experiment.guarantee} for {unit}."
    each = "Each run of each method"
    if methods == 1:
        each = "Each run"
    elif replicates == 1:
        each = "Each method"
    return f"{each} is private at {experiment.guarantee} for {unit}; publishing all {runs} would compose."


def only_if(privacy: Privacy) -> str:
    """Return a privacy that holds on a condition in words, such as "**Private only if known beforehand**"."""
    return f"**{privacy.replace('private if', 'Private only if')}**"


def protects(problem: ProblemSpecification) -> str:
    """Return sentences on who is protected: the difference of neighbouring data sets, and what counts as public."""
    unit = problem.unit
    neighbours = f"{unit[0].upper()}{unit[1:]}: that is how neighbouring data sets differ."
    if problem.person is None:
        return f"{neighbours} If one person has several rows, each row is protected, not the person."
    return (
        f"{neighbours} The names in column {escape_sentence(quote_name(problem.person))}, and how many rows each has, "
        "count as public; what the rows say does not. Rows without a name are protected together, as those of one "
        "person."
    )


def assumptions(
    protected: str, batches: str, composition: str, constants: str, screen: str, read: Collection[str] = ()
) -> None:
    """Draw the box of assumptions that every page has.

    protected, batches, composition, constants, screen : the texts of its rows. read : names of the facts that were read
    from the data instead of being declared.
    """
    if read:
        names = escape_sentence("; ".join(read))
        sentence = f"Not declared, but read from the data, which **no budget pays for**: {names}."
        constants = f"{sentence} For all else: {constants}"
    with st.container(border=True):
        st.subheader("Assumptions")
        rows = {
            "Who is protected": protected,
            "Batches": batches,
            "Composition": composition,
            "Constants": constants,
            "On this screen": screen,
        }
        st.markdown("\n".join(f"- **{name}.** {text}" for name, text in rows.items()))


def document(package: ModuleType, name: str) -> str:
    """Return the text of a file in a package."""
    return resources.text(package.__name__, name)


def theory(page: str, package: ModuleType) -> None:
    """Draw the box with a package's THEORY.md: definitions, derivations, and errata, with sources.

    The text is sent only while the box is open. Its headings are two levels lower than in the file, because they are
    inside a section of the page.
    """
    box = st.expander("Derivations and sources", key=f"{page}_theory", icon=":material/functions:", on_change="rerun")
    if box.open:
        with box:
            st.markdown(re.sub("^#", "###", document(package, "THEORY.md"), flags=re.MULTILINE))


@cache
def errata(package: ModuleType) -> str:
    """Return the section "Errata" of a package's THEORY.md without its heading; "" if there is none.

    It lists where the tool and the publication differ.
    """
    section = re.search(r"\n## [0-9. ]*Errata[^\n]*\n(.*?)(?=\n## |$)", document(package, "THEORY.md"), re.DOTALL)
    return section[1].strip() if section else ""
