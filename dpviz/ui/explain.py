"""Words that pages share: what is private, what is assumed, and the caption below a chart."""

import re
from collections.abc import Iterable, Sequence
from numbers import Real
from pathlib import Path
from types import ModuleType

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from dpviz.numbers import short
from dpviz.privacy.budgets import Budget

REFERENCES = "Methods without privacy release nothing: **no value of theirs is private**."
SETTINGS_ONLY = "Depends only on your settings, not on data."


def readable(table: pd.DataFrame, digits: int = 4) -> Styler:
    """A table whose numbers are written as everywhere; its columns are still sorted by value."""
    return table.style.format(lambda cell: short(cell, digits) if isinstance(cell, Real) else str(cell), na_rep="–")


def private_badge() -> None:
    """Marks what the mechanism releases."""
    st.badge("private", icon=":material/lock:", color="green")


def diagnostic_badge() -> None:
    """Marks what is computed from the raw data."""
    st.badge("not private", icon=":material/visibility:", color="orange")


def partly_private_badge() -> None:
    """Marks curves of which some are what the mechanism releases; the others are named beside them."""
    st.badge("partly private", icon=":material/visibility:", color="orange")


def spread(replicates: int) -> str:
    """How the curves of R runs are drawn."""
    if replicates == 1:
        return "One run; results vary."
    return f"Median of {replicates} runs, 10-90 % band."


def diagnostic(replicates: int, public: bool) -> str:
    """The privacy status of a curve that reads the raw data."""
    if public:
        return "**Not private**: it reads the raw data, which are public here."
    compose = f", and {replicates} runs compose" if replicates > 1 else ""
    return f"**Not private**: it reads your raw data{compose}."


def released(budget: Budget, unit: str, replicates: int) -> str:
    """The privacy status of a curve that follows from what each run releases, for the problem's unit of protection."""
    if replicates == 1:
        return f"Private at {budget.describe()} for {unit}."
    return f"Each run is private at {budget.describe()} for {unit}; publishing all {replicates} would compose."


def protects(unit: str) -> str:
    """Who is protected, from a problem's unit of protection."""
    return (
        f"{unit[0].upper()}{unit[1:]}: that is how neighbouring data sets differ. If one person has several rows, each "
        "row is protected, not the person."
    )


def assumptions(protected: str, batches: str, composition: str, constants: str, screen: str) -> None:
    """The box that every page has: who is protected and what that rests on."""
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


def theory(page: str, package: ModuleType) -> None:
    """A package's THEORY.md: definitions, derivations and errata with sources; sent only while the box is open.

    Its headings are two levels smaller than in the file: they stand inside a section of the page.
    """
    box = st.expander("Derivations and sources", key=f"{page}_theory", icon=":material/functions:", on_change="rerun")
    if box.open:
        with box:
            text = (Path(next(iter(package.__path__))) / "THEORY.md").read_text(encoding="utf-8")
            st.markdown(re.sub("^#", "###", text, flags=re.MULTILINE))


def errata(items: Sequence[tuple[str, str]] | Iterable[tuple[str, str]]) -> None:
    """Where the tool departs from the publication: (code, plain words)."""
    st.markdown("\n".join(f"- **{code}.** {text}" for code, text in items))
