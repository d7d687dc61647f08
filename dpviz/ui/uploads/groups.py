"""The panel for a visitor's own file whose rows belong to groups, for a game in which one player weighs the groups.

The other player either learns a model that predicts a target column, or mixes strategies, whose losses are columns.

The share of each group in all rows decides the noise, so shares must not be counted in the rows for free. The visitor
declares them, or buys a private release of them with a part of the budget. They can also be filled in from the data,
which no budget accounts for; every guarantee then says so.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import GroupedUpload, Prepared, likely_group, prepare_groups, suggested_bounds, target_classes
from dpviz.datasets.groups import MAX_GROUPS, MIN_SHARE, group_positions
from dpviz.datasets.uploads.columns import class_sort_key
from dpviz.datasets.uploads.limits import quote_name
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.datasets.uploads.upload import Mark, limit_person_rows
from dpviz.errors import MissingInput, UserError
from dpviz.numbers import short, short_up
from dpviz.problems.games import grouped
from dpviz.ui.markdown import column_configs, escape_name
from dpviz.ui.uploads import TABLES, file, table, texts
from dpviz.ui.uploads.file import File, People, mark_from_data

# --------------------------------------------------------------------------------------------------------------- shares

DECLARED, BOUGHT = "declared", "bought"
SOURCES = {DECLARED: "Declared", BOUGHT: "Bought with a part of the budget"}


class Release(NamedTuple):
    """A private release of the numbers of rows in the G groups of a column.

    counts : the noisy numbers (G,). epsilon : the privacy that they cost.
    """

    column: str
    groups: tuple[str, ...]
    epsilon: float
    counts: np.ndarray


class Shares(NamedTuple):
    """The groups, the share of each in all rows, and the ε of every release of shares of this file so far.

    Bought shares always include the group "other".
    """

    groups: list[str]
    shares: list[float]
    costs: tuple[float, ...] = ()


@dataclass
class GroupedFile(File):
    """A file with the groups of its columns.

    groups : for a column, by name, the groups as typed: name and share, which is NaN if none is typed.
    """

    groups: dict[str, list[tuple[str, float]]] = field(default_factory=dict)

    @property
    def bought(self) -> list[Release]:
        """The releases of shares of this file in this session, as a list that grows with them.

        They all count, also after the file was read again or used for another game.
        """
        bought: list[Release] = st.session_state.setdefault("bought_shares", {}).setdefault(self.known_as, [])
        return bought

    @property
    def costs(self) -> tuple[float, ...]:
        """The ε of every release of shares of this file."""
        return tuple(release.epsilon for release in self.bought)


def declare(file: GroupedFile, group: str, people: People) -> Shares:
    """Draw the controls for the groups in the column `group` and their shares; return both.

    people : who is protected by a release of the shares.

    Raises UserError while some are missing, and for a group that has no name or is listed twice.
    """
    st.markdown(texts.SHARES)
    source = st.segmented_control(
        "Shares",
        list(SOURCES),
        default=DECLARED,
        format_func=SOURCES.__getitem__,
        required=True,
        help="The game divides a group's losses by its share. The share that the file has may not be used as it is: it "
        "depends on the rows.",
        **file.widget_options("shares"),
    )
    rows = _edit(file, group, source)
    rest = texts.REST if source == DECLARED else "."  # the end of the sentence below
    st.caption(f"Rows of no listed group belong to “{OTHER}”, which is always there{rest}")
    proposed = ("groups", "shares") if source == DECLARED else ("groups",)  # bought shares are released, not proposed
    st.button(
        f"Propose {' and '.join(proposed)} from the data (not private)",
        key=f"{file.page}_upload_propose",
        on_click=_propose,
        args=(file, group, source == DECLARED),
        help="The most frequent groups of the column. Which ones occur, and how often, is something that no budget "
        "accounts for.",
    )
    parts: dict[Mark, Collection[object]] = {("groups", group): {name for name, _ in rows}}
    if source == DECLARED:
        parts["shares", group] = {share for _, share in rows}  # without names, as a group may be renamed
    mark_from_data(file, parts, nouns={"groups": "groups", "shares": "shares"})
    names = [name for name, _ in rows]
    if not names:
        raise MissingInput("List the groups that may occur in it.", title=f"Column {quote_name(group)} needs groups")
    if not all(name.strip() for name in names):
        raise UserError("Name the group, or delete the row.", title="A share has no group")
    for position, name in enumerate(names):
        if name in names[:position]:
            raise UserError("List every group once.", title=f"Group {quote_name(name)} is listed twice")
    if source == BOUGHT:
        return _buy(file, group, names, people)
    if file.costs:
        st.caption(texts.SPENT_BEFORE.format(spent=" + ".join(map(short_up, file.costs))))
    return _declared_shares(rows)._replace(costs=file.costs)


def _edit(file: GroupedFile, group: str, source: str) -> list[tuple[str, float]]:
    """Draw the table in which the visitor types groups and shares; return its rows (name, share), without empty ones.

    A share that is not typed is NaN. The rows are also stored in `file.groups`. source : DECLARED or BOUGHT; a table
    for bought shares has no column for them.
    """
    config = column_configs(TABLES["members"])

    def start() -> pd.DataFrame:
        table = pd.DataFrame(file.groups.get(group, []), columns=["group", "share"])
        return table.astype({"group": str, "share": "Float64"})

    edited = file.editor(
        "members",
        rows=(group, source),
        start=start,
        num_rows="dynamic",
        placeholder="",
        hide_index=True,
        column_config=config if source == DECLARED else {**config, "share": None},  # None hides the column
        alt="Groups that you declare, and the share of all rows that you declare for each",
    )
    rows = [
        ("" if pd.isna(name) else str(name), math.nan if pd.isna(share) else float(share))
        for name, share in zip(edited["group"], edited["share"], strict=True)
    ]
    rows = [(name, share) for name, share in rows if name.strip() or not math.isnan(share)]
    file.groups[group] = rows
    return rows


def _declared_shares(rows: Sequence[tuple[str, float]]) -> Shares:
    """Return the groups with their declared shares, from rows (name, share).

    The group "other" may have no share. Raises UserError if a share is missing or out of range, or the sum exceeds 1.
    """
    if len(rows) > 1:  # then "other" without a share counts as not listed, since it gets the rest; alone it needs one
        rows = [(name, share) for name, share in rows if name != OTHER or not math.isnan(share)]
    missing = [name for name, share in rows if math.isnan(share)]
    if missing:
        title = f"Group {quote_name(missing[0])} needs a share"
        if len(missing) > 1:
            title = f"{len(missing)} groups need a share"
        raise MissingInput(
            "Declare what you know of it from elsewhere, buy the shares with a part of the budget, or propose them "
            "from the data (not private).",
            title=title,
        )
    for name, share in rows:
        if not MIN_SHARE <= share <= 1:
            raise UserError(
                f"It must be between {short(MIN_SHARE, 6)} and 1.", title=f"The share of {quote_name(name)} is no share"
            )
    total = math.fsum(share for _, share in rows)
    if total > 1 + 1e-6:  # with room for shares that were typed rounded, such as 0.3333334 three times
        raise UserError("They must sum to 1. Lower some of them.", title=f"The shares sum to {short(total)}")
    return Shares([name for name, _ in rows], [share for _, share in rows])


def _buy(file: GroupedFile, group: str, names: list[str], people: People) -> Shares:
    """Draw the controls of a private release of the shares of the groups `names`; return the released shares.

    The plan of a run pays for all releases of this file. Raises UserError while these groups have no released shares.
    """
    left, right = st.columns(2)
    epsilon: float = left.number_input(
        "Cost of the shares, ε",
        min_value=0.001,
        max_value=10.0,
        value=grouped.COST,
        format="%.3g",
        help="Pure ε of one release of the numbers of rows in all groups, with Laplace noise of scale 2/ε.",
        **file.widget_options("shares_cost"),
    )
    smallest: float = right.number_input(
        "No share below",
        min_value=MIN_SHARE,
        max_value=0.2,
        value=grouped.SMALLEST,
        format="%.3g",
        help="A row of a group with share p weighs 1/p, and the noise grows with it. A group that is rarer than this "
        "counts less than its mean loss says.",
        **file.widget_options("shares_smallest"),
    )
    groups = names if OTHER in names else [*names, OTHER]
    if len(groups) > MAX_GROUPS:
        raise UserError("Leave some of them to “other”.", title=f"At most {MAX_GROUPS} groups can be used")
    matches = [release for release in file.bought if (release.column, release.groups) == (group, tuple(groups))]
    st.button(
        "Release the shares again" if file.bought else "Release the shares",
        key=f"{file.page}_upload_release",
        on_click=_release,
        args=(file, group, tuple(groups), epsilon, people),
        help=texts.RELEASED,
    )
    spent = " + ".join(map(short_up, file.costs)) if file.costs else short_up(epsilon)
    when = "Spent" if file.costs else "Will spend"
    # The mean absolute Laplace noise: each replaced row of a person changes two numbers by 1 each.
    error = 2 * people.rows_per_person / epsilon
    st.caption(texts.PRICE.format(when=when, spent=spent, error=error))
    if not matches:
        raise MissingInput("Press “Release the shares”.", title="The shares of these groups are not released yet")
    return Shares(groups, list(grouped.floored_shares(matches[-1].counts, smallest)), file.costs)  # of the newest


def _release(file: GroupedFile, group: str, groups: tuple[str, ...], epsilon: float, people: People) -> None:
    """Release noisy numbers of rows of the groups at the cost `epsilon` of a person, or of a row; for a callback.

    The noise comes from the operating system's random numbers: no seed repeats it.
    """
    rows = limit_person_rows(file.frame, *people)  # at most k of each person, so that ε/k for a row is ε for a person
    positions = group_positions(rows[group], groups)
    counts = grouped.release_counts(positions, len(groups), epsilon / people.rows_per_person)
    file.bought.append(Release(group, groups, epsilon, counts))


def _propose(file: GroupedFile, group: str, with_shares: bool) -> None:
    """Fill in the most frequent groups of the column `group`, and "other", from the data; for a callback.

    Groups with a share that was declared before stay as they are. with_shares : true to fill in the shares of the
    others, too: what the declared ones leave of 1 is divided among them in proportion to their numbers of rows.
    """
    column = file.frame[group]
    declared = {name: share for name, share in file.groups.get(group, []) if not math.isnan(share)}
    stay = [name for name in declared if name != OTHER]
    is_undeclared = group_positions(column, [*stay, OTHER]) == len(stay)  # of each row: the last position, of "other"
    max_new = max(0, MAX_GROUPS - 1 - len(stay))  # one group is "other"
    frequent = [name for name in target_classes(column[is_undeclared], max_new) if name != OTHER]
    names = [*sorted((*stay, *frequent), key=class_sort_key), OTHER]  # in one order, by which `_buy` finds releases
    filled: dict[str, float] = {}
    if with_shares:
        all_counts = np.bincount(group_positions(column, names), minlength=len(names)).astype(float)
        # Of the groups with rows, but without a declared share.
        counts = {name: count for name, count in zip(names, all_counts, strict=True) if count and name not in declared}
        rest = 1 - math.fsum(declared.values())
        if counts and rest >= MIN_SHARE * len(counts):  # else the rest is too small for all of them
            # Each part is at least MIN_SHARE of all rows, but the product may be below it by rounding.
            parts_of_rest = grouped.floored_shares(np.array(list(counts.values())), smallest=MIN_SHARE / rest)
            filled = {name: max(rest * part, MIN_SHARE) for name, part in zip(counts, parts_of_rest, strict=True)}
    shares = declared | filled
    file.groups[group] = [(name, shares.get(name, math.nan)) for name in names]
    file.note_from_data(("groups", group), set(frequent))
    file.note_from_data(("shares", group), set(filled.values()))
    file.edition += 1  # the table is drawn with the new rows


# ---------------------------------------------------------------------------------------------------------------- panel

_RANGE: Mark = ("bounds", "losses")  # mark of the one declared range of all loss columns


def choose_upload(page: str, loss_columns: bool = False) -> tuple[GroupedUpload | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a visitor's file with groups; return the data set, and its arrays by name.

    The data set is None while something is missing.

    page : prefix of the page. loss_columns : true if each chosen column holds the loss of one strategy, and there is no
    target.
    """
    name, make = ("losses", _choose_losses) if loss_columns else ("groups", _choose_target)
    return file.choose_upload(f"{page}_{name}", GroupedFile, make)


def _choose_target(upload: GroupedFile) -> Prepared[GroupedUpload]:
    """Draw the controls of a file with a target; return the prepared table.

    Raises UserError while something is missing or inconsistent.
    """
    target = table.choose_target(upload)
    group = _choose_group(upload, target.column)
    people = file.choose_people(upload, (target.column, group))
    features = table.choose_features(upload, {target.column, group, people.person})
    bounds = table.declare_ranges(upload, features)
    group_shares = declare(upload, group, people)
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
    # One range of all, as separate ones would put the losses of the strategies on different scales.
    st.markdown("**Declared range of all losses.** Values outside are clipped to it, so that the guarantee holds.")
    left, right = st.columns(2)
    help = "Declare what you know, not what you see."
    low: float = left.number_input(
        "Lowest loss", value=0.0, format="%.10g", help=help, **upload.widget_options("lowest")
    )
    high: float = right.number_input(
        "Highest loss", value=1.0, format="%.10g", help=help, **upload.widget_options("highest")
    )
    file.fill_button(upload, _fill_losses, (upload, list(losses)), "Smallest and largest loss, rounded outwards.")
    file.mark_from_data(upload, {_RANGE: file.range_parts(low, high)}, nouns={"bounds": "range"})
    if not low < high:
        raise UserError("The lowest loss must be below the highest.", title="The losses need a range")
    group_shares = declare(upload, group, people)
    drop = table.choose_dropping(upload, [], losses)
    return _prepare(
        upload,
        group_shares,
        people,
        target=None,
        positive=None,
        group=group,
        features=losses,
        bounds=dict.fromkeys(losses, (low, high)),
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
    group_of_row = prepared.table[:, -1].astype(np.int64)  # the last column: the index of each row's group, a float
    rows_by_group = dict(zip(facts.groups, np.bincount(group_of_row, minlength=len(facts.groups)), strict=True))
    others = [f"{rows_by_group.pop(OTHER):,} rows belong to “{OTHER}”"]
    empty = [escape_name(quote_name(name)) for name, count in rows_by_group.items() if not count]  # perhaps misspelt
    empty_groups = [f"no row belongs to {', '.join(empty)}"] if empty else []
    file.show_counts(prepared.notes, [*empty_groups, *others])
    return prepared


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
    help = "Says to which group a row belongs."
    group = st.selectbox("Group column", names, index=index, help=help, **upload.widget_options("group"))
    if group is None:
        upload.missing_parts.append("the group column")
        raise MissingInput(f"It should name at most {MAX_GROUPS} groups.", title="No group column is chosen")
    return str(group)


def _fill_losses(upload: GroupedFile, losses: Sequence[str]) -> None:
    """Fill in the range of the losses from the columns `losses` of the data; for a callback."""
    suggested = suggested_bounds(upload.frame, losses).values()
    if suggested:
        ends = min(low for low, _ in suggested), max(high for _, high in suggested)
        for name, end in zip(("lowest", "highest"), ends, strict=True):
            st.session_state[f"{upload.page}_upload_{name}"] = end
        upload.note_from_data(_RANGE, file.range_parts(*ends))
