"""The panel for a visitor's own file whose rows belong to groups, for a game in which one player weighs the groups.

The other player either learns a model that predicts a target column, or mixes strategies, whose losses are columns.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from dpviz.datasets import GroupedUpload, Prepared, likely_group, prepare_groups, suggested_bounds
from dpviz.datasets.groups import MAX_GROUPS
from dpviz.datasets.uploads.from_data import Mark
from dpviz.datasets.uploads.limits import quote_name
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.errors import MissingInput, UserError
from dpviz.numbers import short
from dpviz.ui.markdown import escape_name
from dpviz.ui.uploads import file, shares, table
from dpviz.ui.uploads.shares import GroupedFile, Shares

_RANGE: Mark = ("bounds", "losses")  # mark of the one declared range of all loss columns


def uploaded(page: str, loss_columns: bool = False) -> tuple[GroupedUpload | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a visitor's file with groups; return the data set, and its arrays by name.

    The data set is None while something is missing.

    page : prefix of the page. loss_columns : true if each chosen column holds the loss of one strategy, and there is no
    target.
    """
    name, make = ("losses", _choose_losses) if loss_columns else ("groups", _choose_target)
    return file.uploaded(f"{page}_{name}", GroupedFile, make)


def _choose_target(upload: GroupedFile) -> Prepared[GroupedUpload]:
    """Draw the controls of a file with a target; return the prepared table.

    Raises UserError while something is missing or inconsistent.
    """
    target = table.choose_target(upload)
    group = _choose_group(upload, target.column)
    people = file.choose_people(upload, (target.column, group))
    features = table.choose_features(upload, {target.column, group, people.person})
    bounds = table.declare_ranges(upload, features)
    group_shares = shares.declare(upload, group, people)
    drop = table.choose_dropping(upload, [target.column], features)
    constant = table.choose_constant(upload)
    return _prepare(
        upload,
        group_shares,
        people,
        target=target.column,
        positive=target.positive,
        group=group,
        features=features,
        bounds=bounds,
        drop_missing=drop,
        constant=constant,
    )


def _choose_losses(upload: GroupedFile) -> Prepared[GroupedUpload]:
    """Draw the controls of a file whose columns are losses of strategies; return the prepared table.

    Raises UserError while something is missing or inconsistent.
    """
    group = _choose_group(upload, target=None)
    people = file.choose_people(upload, (group,))
    help = "Each holds, row by row, the loss of one strategy."
    losses = table.choose_features(upload, {group, people.person}, "Loss columns", help)
    bounds = dict.fromkeys(losses, _loss_range(upload, losses))
    group_shares = shares.declare(upload, group, people)
    drop = table.choose_dropping(upload, [], losses)
    return _prepare(
        upload,
        group_shares,
        people,
        target=None,
        positive=None,
        group=group,
        features=losses,
        bounds=bounds,
        drop_missing=drop,
    )


def _prepare(
    upload: GroupedFile, group_shares: Shares, people: file.People, **declared: Any
) -> Prepared[GroupedUpload]:
    """Return the prepared table, and draw lines that describe it.

    group_shares, people, declared : the declarations, which are arguments of `prepare_groups`.
    """
    prepared = upload.prepare_once(prepare_groups, **group_shares._asdict(), **people._asdict(), **declared)
    facts = prepared.specification.facts()
    columns = f"{len(declared['features'])} {'features' if declared['target'] else 'strategies'}"
    file.show_ready(upload, facts.n, prepared.dropped, f"{columns}, {len(facts.groups)} groups")
    listed = ", ".join(
        f"{escape_name(name)} {short(share)}" for name, share in zip(facts.groups, facts.shares, strict=True)
    )
    st.caption(f"Shares in the game: {listed}. The smallest decides the noise: a row of its group weighs 1/share.")
    _show_diagnostics(prepared)
    return prepared


def _show_diagnostics(prepared: Prepared[GroupedUpload]) -> None:
    """Draw numbers that were counted in the file, among them groups without rows, whose names may be misspelt."""
    facts = prepared.specification.facts()
    group_of_row = prepared.table[:, -1].astype(np.int64)  # the last column: the index of each row's group, a float
    counts = np.bincount(group_of_row, minlength=len(facts.groups))
    rows_by_group = list(zip(facts.groups, counts, strict=True))
    empty = [escape_name(quote_name(name)) for name, count in rows_by_group if not count and name != OTHER]
    empty_groups = [f"no row belongs to {', '.join(empty)}"] if empty else []
    others = [f"{count:,} rows belong to “{OTHER}”" for name, count in rows_by_group if name == OTHER]
    file.show_counts(prepared.notes, [*empty_groups, *others])


def _choose_group(upload: GroupedFile, target: str | None) -> str:
    """Draw the choice of the column with the groups; return its name. Raises MissingInput, a UserError, while none is
    chosen.

    target : name of the target column, which cannot be chosen; None without one.
    """
    names = [column.name for column in upload.columns if column.name != target]
    key = f"{upload.page}_upload_group"
    if st.session_state.get(key) not in names:  # the chosen column has become the target
        st.session_state.pop(key, None)
    likely = likely_group(upload.columns, target)
    index = None if likely is None else names.index(likely)
    group = st.selectbox(options=names, index=index, **upload.widget_options("group"))
    if group is None:
        upload.missing_parts.append("the group column")
        raise MissingInput(f"It should name at most {MAX_GROUPS} groups.", title="No group column is chosen")
    return str(group)


def _loss_range(upload: GroupedFile, losses: Sequence[str]) -> tuple[float, float]:
    """Draw the controls of the one declared range of all loss columns; return its ends.

    Separate ranges would put the losses of the strategies on different scales. Raises UserError if the range is empty.
    """
    st.markdown("**Declared range of all losses.** Values outside are clipped to it, so that the guarantee holds.")
    left, right = st.columns(2)
    low: float = left.number_input(**upload.widget_options("lowest"))
    high: float = right.number_input(**upload.widget_options("highest"))
    file.fill_button(upload, _fill_losses, (upload, list(losses)), "Smallest and largest loss, rounded outwards.")
    file.mark_from_data(upload, {_RANGE: file.range_parts(low, high)}, nouns={"bounds": "range"})
    if not low < high:
        raise UserError("The lowest loss must be below the highest.", title="The losses need a range")
    return low, high


def _fill_losses(upload: GroupedFile, losses: Sequence[str]) -> None:
    """Fill in the range of the losses from the columns `losses` of the data; for a callback."""
    suggested = suggested_bounds(upload.frame, losses).values()
    if suggested:
        ends = min(low for low, _ in suggested), max(high for _, high in suggested)
        for name, end in zip(("lowest", "highest"), ends, strict=True):
            st.session_state[f"{upload.page}_upload_{name}"] = end
        upload.note_from_data(_RANGE, file.range_parts(*ends))
