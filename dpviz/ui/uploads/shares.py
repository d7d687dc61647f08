"""The groups of a user's file and their shares of all rows: declared, bought with a part of the budget, or proposed."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import target_classes
from dpviz.datasets.groups import MAX_GROUPS, MIN_SHARE, group_positions
from dpviz.datasets.uploads.from_data import Mark
from dpviz.datasets.uploads.limits import shown
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.errors import NotYet, UserError
from dpviz.numbers import short
from dpviz.problems.games import grouped
from dpviz.ui.markdown import columns
from dpviz.ui.uploads import texts
from dpviz.ui.uploads.file import File, mark_from_data

DECLARED, BOUGHT = "declared", "bought"
SOURCES = {DECLARED: "Declared", BOUGHT: "Bought with a part of the budget"}


class Release(NamedTuple):
    """Noisy numbers of rows (G,) in the groups of a column, and the ε that they cost."""

    column: str
    groups: tuple[str, ...]
    epsilon: float
    counts: np.ndarray


class Shares(NamedTuple):
    """Groups, the share of each, and the ε of all releases of shares; "other" is among them where shares were
    bought."""

    groups: list[str]
    shares: list[float]
    costs: tuple[float, ...] = ()


@dataclass
class GroupedFile(File):
    """A file, with the groups declared so far: by column, names and shares as typed (NaN: none)."""

    groups: dict[str, list[tuple[str, float]]] = field(default_factory=dict)

    @property
    def bought(self) -> list[Release]:
        """All releases of shares of this file in this session; reading it again, or for another game, undoes none."""
        releases: list[Release] = st.session_state.setdefault("bought_shares", {}).setdefault(self.known_as, [])
        return releases

    @property
    def costs(self) -> tuple[float, ...]:
        """The ε of every release of shares of this file."""
        return tuple(release.epsilon for release in self.bought)


def declare(file: GroupedFile, group: str) -> Shares:
    """Draw the controls for the groups in a column and their shares; return them. Raises UserError while some are
    missing."""
    st.markdown(texts.SHARES)
    source = st.segmented_control(
        options=list(SOURCES), default=DECLARED, format_func=SOURCES.__getitem__, **file.widget("shares")
    )
    rows = _edit(file, group, source)
    rest = texts.REST if source == DECLARED else "."
    st.caption(f"Rows of no listed group belong to “{OTHER}”, which is always there{rest}")
    proposed = ("groups", "shares") if source == DECLARED else ("groups",)
    st.button(
        f"Propose {' and '.join(proposed)} from the data (not private)",
        key=f"{file.page}_upload_propose",
        on_click=_propose,
        args=(file, group, source == DECLARED),
        help=texts.PROPOSED,
    )
    parts: dict[Mark, Collection[object]] = {("groups", group): {name for name, _ in rows}}
    if source == DECLARED:
        parts["shares", group] = {share for _, share in rows}  # without names: a group may be renamed
    mark_from_data(file, parts, {"groups": "groups", "shares": "shares"})
    names = _check_names(group, [name for name, _ in rows])
    if source == BOUGHT:
        return _buy(file, group, names)
    if file.costs:
        st.caption(texts.SPENT_BEFORE.format(spent=" + ".join(map(short, file.costs))))
    return _declared(rows)._replace(costs=file.costs)


def _edit(file: GroupedFile, group: str, source: str) -> list[tuple[str, float]]:
    """Draw the table of groups and shares to fill in; return its rows without empty ones, NaN where no share is
    typed."""
    config = columns(texts.TABLES["members"])
    edited = file.editor(
        "members",
        (group, source),
        lambda: pd.DataFrame(file.groups.get(group, []), columns=["group", "share"]).astype(
            {"group": str, "share": "Float64"}
        ),
        num_rows="dynamic",
        placeholder="",
        hide_index=True,
        column_config=config if source == DECLARED else {**config, "share": None},
        alt="Groups that you declare, and the share of all rows that you declare for each",
    )
    rows = [
        ("" if pd.isna(name) else str(name), math.nan if pd.isna(share) else float(share))
        for name, share in zip(edited["group"], edited["share"], strict=True)
    ]
    rows = [(name, share) for name, share in rows if name.strip() or not math.isnan(share)]
    file.groups[group] = rows
    return rows


def _check_names(group: str, names: Sequence[str]) -> list[str]:
    if not names:
        raise NotYet("List the groups that may occur in it.", title=f"Column {shown(group)} needs groups")
    if not all(name.strip() for name in names):
        raise UserError("Name the group, or delete the row.", title="A share has no group")
    repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if repeated is not None:
        raise UserError("List every group once.", title=f"Group {shown(repeated)} is listed twice")
    return list(names)


def _declared(rows: Sequence[tuple[str, float]]) -> Shares:
    """Return the groups with declared shares; raise UserError unless all but "other" have one."""
    if len(rows) > 1:  # "other" without a share counts as not listed
        rows = [(name, share) for name, share in rows if name != OTHER or not math.isnan(share)]
    missing = [name for name, share in rows if math.isnan(share)]
    if missing:
        several = (
            f"{len(missing)} groups need a share" if len(missing) > 1 else f"Group {shown(missing[0])} needs a share"
        )
        raise NotYet(texts.WHAT_TO_DO, title=several)
    for name, share in rows:
        if not MIN_SHARE <= share <= 1:
            raise UserError(
                f"It must be between {short(MIN_SHARE, 6)} and 1.", title=f"The share of {shown(name)} is no share"
            )
    total = math.fsum(share for _, share in rows)
    if total > 1 + 1e-6:
        raise UserError("They must sum to 1. Lower some of them.", title=f"The shares sum to {short(total)}")
    return Shares([name for name, _ in rows], [share for _, share in rows])


def _buy(file: GroupedFile, group: str, names: list[str]) -> Shares:
    """Ask for the ε of a private release of the shares, which the plan pays for; return groups and released shares."""
    left, right = st.columns(2)
    epsilon: float = left.number_input(value=grouped.COST, **file.widget("shares_cost"))
    smallest: float = right.number_input(min_value=MIN_SHARE, value=grouped.SMALLEST, **file.widget("shares_smallest"))
    groups = names if OTHER in names else [*names, OTHER]
    if len(groups) > MAX_GROUPS:
        raise UserError("Leave some of them to “other”.", title=f"At most {MAX_GROUPS} groups can be used")
    matches = [release for release in file.bought if (release.column, release.groups) == (group, tuple(groups))]
    st.button(
        "Release the shares again" if file.bought else "Release the shares",
        key=f"{file.page}_upload_release",
        on_click=_release,
        args=(file, group, tuple(groups), epsilon),
        help=texts.RELEASED,
    )
    spent = " + ".join(map(short, file.costs)) if file.costs else short(epsilon)
    when = "Spent" if file.costs else "Will spend"
    st.caption(texts.PRICE.format(when=when, spent=spent, error=2 / epsilon))
    if not matches:
        raise NotYet("Press “Release the shares”.", title="The shares of these groups are not released yet")
    return Shares(groups, list(grouped.as_shares(matches[-1].counts, smallest)), file.costs)


def _release(file: GroupedFile, group: str, groups: tuple[str, ...], epsilon: float) -> None:
    """Release noisy counts of the groups; for callbacks. The noise is the operating system's: no seed repeats it."""
    positions = group_positions(file.frame[group], groups)
    counts = grouped.released(positions, len(groups), epsilon)
    file.bought.append(Release(group, groups, epsilon, counts))


def _propose(file: GroupedFile, group: str, with_shares: bool) -> None:
    """List the most frequent groups of a column, and "other"; shares that were declared stay."""
    names = [*(name for name in target_classes(file.frame[group], MAX_GROUPS - 1) if name != OTHER), OTHER]
    given = {name: share for name, share in file.groups.get(group, []) if not math.isnan(share)}
    counted: dict[str, float] = {}
    if with_shares:
        counts = np.bincount(group_positions(file.frame[group], names), minlength=len(names)).astype(float)
        counted = {name: count for name, count in zip(names, counts, strict=True) if count and name not in given}
        rest = 1 - math.fsum(given.values())
        if counted and rest >= MIN_SHARE * len(counted):
            shares = grouped.as_shares(np.array(list(counted.values())), MIN_SHARE / rest)
            given |= {name: max(rest * share, MIN_SHARE) for name, share in zip(counted, shares, strict=True)}
        else:
            counted = {}
    file.groups[group] = [(name, given.get(name, math.nan)) for name in names]
    file.fill(("groups", group), {*names} - {OTHER})
    file.fill(("shares", group), {given[name] for name in counted})
    file.edition += 1
