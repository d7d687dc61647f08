"""A user's own file whose rows belong to groups: a label to predict in each, or the losses of strategies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import (
    GroupedUpload,
    PreparedGroups,
    prepare_groups,
    suggested_bounds,
    target_candidates,
    target_classes,
)
from dpviz.datasets.files import shown
from dpviz.datasets.groups import MAX_GROUPS, MIN_SHARE, OTHER
from dpviz.errors import NotYet, UserError
from dpviz.ui import data_panel
from dpviz.ui.controls import in_place
from dpviz.ui.explain import short

Shares = list[float] | None


@dataclass
class GroupedFile(data_panel.Upload):
    """A file, with the groups declared so far: by column, names and shares as typed (NaN: none)."""

    groups: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    proposed: set[str] = field(default_factory=set)  # columns whose groups were taken from the data


def uploaded(page: str, loss_columns: bool = False) -> tuple[GroupedUpload | None, dict[str, np.ndarray]]:
    """The panel for a user's file with groups; the data set and its table, or None as long as something is missing.

    loss_columns : every chosen column holds the loss of one strategy, all within one declared range; no target.
    """
    file = data_panel.chosen_file(_prefix(page, loss_columns), GroupedFile)
    if file is not None:
        with in_place():
            prepared = _losses(file) if loss_columns else _learning(file)
            return prepared.specification, {prepared.specification.identity: prepared.table}
    return None, {}


def from_data(page: str, loss_columns: bool = False) -> tuple[str, ...]:
    """See `data_panel.from_data`."""
    return data_panel.from_data(_prefix(page, loss_columns))


def _prefix(page: str, loss_columns: bool) -> str:
    return f"{page}_{'losses' if loss_columns else 'groups'}"


def _learning(file: GroupedFile) -> PreparedGroups:
    """The table that the user's choices make, where a model learns a target. Raises UserError."""
    target, positive = data_panel.choose_target(file)
    group = _group_column(file, target)
    features = data_panel.choose_features(file, {target, group})
    bounds = data_panel.declare_ranges(file, features)
    groups, shares = _declare_groups(file, group)
    drop = data_panel.choose_dropping(file, [target], features)
    return _prepared(file, (target, positive), group, features, bounds, groups, shares, drop)


def _losses(file: GroupedFile) -> PreparedGroups:
    """The same, where every chosen column is the loss of a strategy."""
    group = _group_column(file, None)
    help = "Each holds, row by row, the loss of one strategy."
    losses = data_panel.choose_features(file, {group}, "Loss columns", help)
    bounds = dict.fromkeys(losses, _loss_range(file, losses))
    groups, shares = _declare_groups(file, group)
    drop = data_panel.choose_dropping(file, [], losses)
    return _prepared(file, (None, None), group, losses, bounds, groups, shares, drop)


def _prepared(
    file: GroupedFile,
    target: tuple[str | None, str | None],
    group: str,
    features: list[str],
    bounds: dict[str, tuple[float, float]],
    groups: list[str],
    shares: Shares,
    drop: bool,
) -> PreparedGroups:
    total = math.fsum(shares or [])
    if total > 1 + 1e-6:
        raise UserError("They must sum to 1. Lower some of them.", title=f"The shares sum to {short(total)}")
    choice = (target, group, tuple(features), tuple(bounds.items()), tuple(groups), tuple(shares or ()), drop)
    chosen = (file.frame, *target, group, features, bounds, groups, shares, drop)
    prepared = file.once(choice, lambda name: prepare_groups(*chosen, name, file.reading))
    facts = prepared.specification.facts()
    columns = f"{len(features)} {'features' if target[0] else 'strategies'}"
    data_panel.ready(facts.n, prepared.dropped, f"{columns}, {len(facts.groups)} groups")
    listed = ", ".join(
        f"{data_panel.plain(name)} {short(share)}" for name, share in zip(facts.groups, facts.shares, strict=True)
    )
    st.caption(f"Declared shares: {listed}. The smallest decides the noise: a row of its group weighs 1/share.")
    _diagnostics(prepared)
    return prepared


def _diagnostics(prepared: PreparedGroups) -> None:
    """What looks odd in the file, and what tells a misspelt group from a right one."""
    facts = prepared.specification.facts()
    counts = np.bincount(prepared.table[:, -1].astype(np.int64), minlength=len(facts.groups))
    rows = list(zip(facts.groups, counts, strict=True))
    empty = [data_panel.plain(shown(name)) for name, count in rows if not count and name != OTHER]
    found = [f"no row belongs to {', '.join(empty)}"] if empty else []
    others = [f"{count:,} rows belong to “{OTHER}”" for name, count in rows if name == OTHER]
    data_panel.counted(prepared.notes, [*found, *others])


def _group_column(file: GroupedFile, target: str | None) -> str:
    candidates = [name for name in target_candidates(file.columns) if name != target]
    text = {column.name for column in file.columns if not column.numeric}
    first = next((name for name in candidates if name in text), next(iter(candidates), None))
    names = [column.name for column in file.columns]
    group = st.selectbox(
        "Group column",
        names,
        index=None if first is None else names.index(first),
        key=f"{file.page}_upload_group",
        persist_state="session",
        help="Says to which group a row belongs.",
    )
    if group is None:
        raise NotYet(f"It should name at most {MAX_GROUPS} groups.", title="No group column is chosen")
    if group == target:
        raise UserError("Choose another column, or another target.", title=f"Column {shown(group)} is the target")
    return str(group)


def _loss_range(file: GroupedFile, losses: Sequence[str]) -> tuple[float, float]:
    """One range for all loss columns: ranges of their own would put strategies on different scales."""
    st.markdown("**Declared range of all losses.** Values outside are clipped to it, so that the guarantee holds.")
    declared = []
    for side, name, value in zip(st.columns(2), ("lowest", "highest"), (0.0, 1.0), strict=True):
        declared.append(
            side.number_input(
                f"{name.capitalize()} loss",
                value=value,
                format="%.10g",
                key=f"{file.page}_upload_{name}",
                persist_state="session",
                help="Declare what you know, not what you see.",
            )
        )
    st.button(
        data_panel.FILL,
        key=f"{file.page}_upload_fill",
        on_click=_fill_losses,
        args=(file, list(losses)),
        help="Smallest and largest loss, rounded outwards. They reveal something that no budget accounts for.",
    )
    if file.filled:
        data_panel.taken_from_data(file, "range")
    low, high = declared
    if not low < high:
        raise UserError("The lowest loss must be below the highest.", title="The losses need a range")
    return low, high


def _fill_losses(file: GroupedFile, losses: Sequence[str]) -> None:
    found = suggested_bounds(file.frame, losses).values()
    if found:
        st.session_state[f"{file.page}_upload_lowest"] = min(low for low, _ in found)
        st.session_state[f"{file.page}_upload_highest"] = max(high for _, high in found)
        file.filled = True


def _declare_groups(file: GroupedFile, group: str) -> tuple[list[str], Shares]:
    """Names and declared shares, as a table to fill in; shares None if none is given. Raises UserError."""
    st.markdown("**Declared groups and their shares of all rows.** Wrong shares only re-weight groups: privacy holds.")
    edited = file.editor(
        "members",
        group,
        lambda: pd.DataFrame(file.groups.get(group, []), columns=["group", "share"]).astype(
            {"group": str, "share": "Float64"}
        ),
        num_rows="dynamic",
        placeholder="",
        hide_index=True,
        column_config={
            "group": st.column_config.TextColumn("Group", help="As the column spells it."),
            "share": st.column_config.NumberColumn("Share", help="Empty: an equal part of what the others leave."),
        },
        alt="Groups that you declare, and the share of all rows that you declare for each",
    )
    rows = [
        ("" if pd.isna(name) else str(name), math.nan if pd.isna(share) else float(share))
        for name, share in zip(edited["group"], edited["share"], strict=True)
    ]
    rows = [(name, share) for name, share in rows if name.strip() or not math.isnan(share)]
    file.groups[group] = rows
    st.caption(
        f"Without shares, all groups count the same. Rows of no declared group belong to “{OTHER}”, which is always "
        "there, with the share that the others leave; where they leave none, with that of the smallest group."
    )
    st.button(
        "Propose groups from the data (not private)",
        key=f"{file.page}_upload_propose",
        on_click=_propose,
        args=(file, group),
        help="The most frequent groups of the column. Which ones occur is something that no budget accounts for.",
    )
    if group in file.proposed:
        data_panel.taken_from_data(file, "groups")
    return _checked(group, rows)


def _checked(group: str, rows: Sequence[tuple[str, float]]) -> tuple[list[str], Shares]:
    """The groups, and shares with the empty ones filled in."""
    if len(rows) > 1:  # without a share it is as if it were not listed
        rows = [(name, share) for name, share in rows if name != OTHER or not math.isnan(share)]
    names, shares = [name for name, _ in rows], [share for _, share in rows]
    if not names:
        raise NotYet("List the groups that may occur in it.", title=f"Column {shown(group)} needs groups")
    if not all(name.strip() for name in names):
        raise UserError("Name the group, or delete the row.", title="A share has no group")
    repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if repeated is not None:
        raise UserError("List every group once.", title=f"Group {shown(repeated)} is listed twice")
    given = [share for share in shares if not math.isnan(share)]
    if not given:
        return names, None
    for name, share in rows:
        if not (math.isnan(share) or MIN_SHARE <= share <= 1):
            raise UserError(f"It must be between {MIN_SHARE:g} and 1.", title=f"The share of {shown(name)} is no share")
    empty = sum(map(math.isnan, shares))
    if not empty:
        return names, shares
    empty += OTHER not in names
    rest = 1 - math.fsum(given)
    if rest / empty < MIN_SHARE:
        raise UserError(
            "Lower the others, or give every group a share.", title="No share is left for the groups without one"
        )
    return names, [rest / empty if math.isnan(share) else share for share in shares]


def _propose(file: GroupedFile, group: str) -> None:
    """List the most frequent groups of a column, and "other"; shares stay as declared."""
    names = [*(name for name in target_classes(file.frame[group], MAX_GROUPS - 1) if name != OTHER), OTHER]
    shares = dict(file.groups.get(group, []))
    file.groups[group] = [(name, shares.get(name, math.nan)) for name in names]
    file.proposed.add(group)
    file.edition += 1
