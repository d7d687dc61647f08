"""A table on a page. Streamlit lets a visitor save any table as CSV, in which no text may be a formula."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dpviz.experiments.spreadsheets import as_text, neutral

NONE: Mapping[str, Any] = {}


def show_table(table: Any, alt: str, column_config: Mapping[str, Any] = NONE, placeholder: str | None = None) -> None:
    """Draw a table, of whatever `DataFrame` takes, with a text alternative."""
    named = {as_text(name): config for name, config in column_config.items()}
    options: Any = {} if placeholder is None else {"placeholder": placeholder}
    st.dataframe(neutral(pd.DataFrame(table)), hide_index=True, column_config=named, alt=alt, **options)
