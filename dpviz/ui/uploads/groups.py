"""A user's own file whose rows belong to groups: a label to predict in each, or the losses of strategies."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from dpviz.datasets import GroupedUpload, Prepared, likely_group, prepare_groups, suggested_bounds
from dpviz.datasets.groups import MAX_GROUPS
from dpviz.datasets.uploads.from_data import Mark
from dpviz.datasets.uploads.limits import shown
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.errors import NotYet, UserError
from dpviz.numbers import short
from dpviz.ui.markdown import plain
from dpviz.ui.uploads import file, shares, table
from dpviz.ui.uploads.shares import GroupedFile, Shares

_RANGE: Mark = ("bounds", "losses")  # one for all columns


def uploaded(page: str, loss_columns: bool = False) -> tuple[GroupedUpload | None, Mapping[str, np.ndarray]]:
    """The panel for a user's file with groups; the data set and its table, or None as long as something is missing.

    loss_columns : every chosen column holds the loss of one strategy, all within one declared range; no target.
    """
    name, make = ("losses", _losses) if loss_columns else ("groups", _learning)
    return file.uploaded(f"{page}_{name}", GroupedFile, make)


def _learning(upload: GroupedFile) -> Prepared[GroupedUpload]:
    """The table that the user's choices make, where a model learns a target. Raises UserError."""
    target = table.choose_target(upload)
    group = _group_column(upload, target.column)
    features = table.choose_features(upload, {target.column, group})
    bounds = table.declare_ranges(upload, features)
    declared = shares.declare(upload, group)
    drop = table.choose_dropping(upload, [target.column], features)
    constant = table.choose_constant(upload)
    return _prepared(
        upload,
        declared,
        target=target.column,
        positive=target.positive,
        group=group,
        features=features,
        bounds=bounds,
        drop_missing=drop,
        constant=constant,
    )


def _losses(upload: GroupedFile) -> Prepared[GroupedUpload]:
    """The same, where every chosen column is the loss of a strategy."""
    group = _group_column(upload, None)
    help = "Each holds, row by row, the loss of one strategy."
    losses = table.choose_features(upload, {group}, "Loss columns", help)
    bounds = dict.fromkeys(losses, _loss_range(upload, losses))
    declared = shares.declare(upload, group)
    drop = table.choose_dropping(upload, [], losses)
    return _prepared(
        upload, declared, target=None, positive=None, group=group, features=losses, bounds=bounds, drop_missing=drop
    )


def _prepared(upload: GroupedFile, shares: Shares, **declared: Any) -> Prepared[GroupedUpload]:
    """The table, and what is in it. declared : as `prepare_groups` takes it."""
    prepared = upload.made_by(prepare_groups, **shares._asdict(), **declared)
    facts = prepared.specification.facts()
    columns = f"{len(declared['features'])} {'features' if declared['target'] else 'strategies'}"
    file.ready(upload, facts.n, prepared.dropped, f"{columns}, {len(facts.groups)} groups")
    listed = ", ".join(f"{plain(name)} {short(share)}" for name, share in zip(facts.groups, facts.shares, strict=True))
    st.caption(f"Shares in the game: {listed}. The smallest decides the noise: a row of its group weighs 1/share.")
    _diagnostics(prepared)
    return prepared


def _diagnostics(prepared: Prepared[GroupedUpload]) -> None:
    """What looks odd in the file, and what tells a misspelt group from a right one."""
    facts = prepared.specification.facts()
    counts = np.bincount(prepared.table[:, -1].astype(np.int64), minlength=len(facts.groups))
    rows = list(zip(facts.groups, counts, strict=True))
    empty = [plain(shown(name)) for name, count in rows if not count and name != OTHER]
    notes = [f"no row belongs to {', '.join(empty)}"] if empty else []
    others = [f"{count:,} rows belong to “{OTHER}”" for name, count in rows if name == OTHER]
    file.counted(prepared.notes, [*notes, *others])


def _group_column(upload: GroupedFile, target: str | None) -> str:
    names, key = [column.name for column in upload.columns if column.name != target], f"{upload.page}_upload_group"
    if st.session_state.get(key) not in names:  # it has become the target
        st.session_state.pop(key, None)
    first = likely_group(upload.columns, target)
    place = None if first is None else names.index(first)
    group = st.selectbox(options=names, index=place, **upload.widget("group"))
    if group is None:
        upload.lacks.append("the group column")
        raise NotYet(f"It should name at most {MAX_GROUPS} groups.", title="No group column is chosen")
    return str(group)


def _loss_range(upload: GroupedFile, losses: Sequence[str]) -> tuple[float, float]:
    """One range for all loss columns: ranges of their own would put strategies on different scales."""
    st.markdown("**Declared range of all losses.** Values outside are clipped to it, so that the guarantee holds.")
    left, right = st.columns(2)
    low: float = left.number_input(**upload.widget("lowest"))
    high: float = right.number_input(**upload.widget("highest"))
    file.fill_button(upload, _fill_losses, (upload, list(losses)), "Smallest and largest loss, rounded outwards.")
    file.marks(upload, {_RANGE: file.ends(low, high)}, {"bounds": "range"})
    if not low < high:
        raise UserError("The lowest loss must be below the highest.", title="The losses need a range")
    return low, high


def _fill_losses(upload: GroupedFile, losses: Sequence[str]) -> None:
    suggested = suggested_bounds(upload.frame, losses).values()
    if suggested:
        ends = min(low for low, _ in suggested), max(high for _, high in suggested)
        for name, end in zip(("lowest", "highest"), ends, strict=True):
            st.session_state[f"{upload.page}_upload_{name}"] = end
        upload.fill(_RANGE, file.ends(*ends))
