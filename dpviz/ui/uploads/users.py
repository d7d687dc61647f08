"""A user's own file of which the rows of each person are to be protected together, or every row by itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import streamlit as st

from dpviz.datasets import Prepared, UploadedTable, UserUpload
from dpviz.ui.uploads import file, table
from dpviz.ui.uploads.file import File


def uploaded(page: str) -> tuple[UploadedTable | None, Mapping[str, np.ndarray]]:
    """The panel for a user's file; the data set, a `UserUpload` where a column names users, and its table; or None as
    long as something is missing."""
    return file.uploaded(_prefix(page), File, _chosen)


def _prefix(page: str) -> str:
    return f"{page}_users"


def _chosen(upload: File) -> Prepared[Any]:
    """The table that the choices make. Raises UserError."""
    user = st.selectbox(
        "Column that names the user",
        [column.name for column in upload.columns],
        index=None,
        placeholder="None: every row is another user",
        key=f"{upload.page}_upload_user",
        persist_state="session",
        help="All rows of a user are protected together. Leave it empty if nobody has more than one row.",
    )
    prepared = table.choose(upload, user)
    if isinstance(prepared.specification, UserUpload):
        st.caption(
            f"{prepared.specification.users:,} users. Their number, their names and how many rows each has count as "
            "public; what the rows say does not."
        )
    return prepared
