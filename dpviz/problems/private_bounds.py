"""Ranges of the columns of a table that are bought: released privately, for a part of the budget of its runs."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from dpviz.arguments import Between, checked
from dpviz.datasets.own_table import BoughtRanges, frame_blocks
from dpviz.datasets.uploads.limits import check_columns, too_few_rows
from dpviz.datasets.uploads.parsing import column_numbers
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.users import user_numbers
from dpviz.errors import UserError
from dpviz.numbers import short_up
from dpviz.privacy import events, ledger, releases
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, seed_or_random

# Sizes at which bins end, from about 10⁻⁶ to 10¹²: a value is in (2^(k-1), 2^k], or in the bin around 0.
ENDS = 2.0 ** np.arange(-20, 41)
BINS = 2 * len(ENDS) - 1  # for both signs; values beyond the last end are in the last bin
_FAILURE = 1e-6  # probability that a bin without rows seems to have some


@checked
def private_bounds(
    data: Any,
    columns: Sequence[str],
    *,
    epsilon: Annotated[float, Between(0, 50)],
    user: str | None = None,
    reading: Reading | None = None,
) -> BoughtRanges:
    """Release ranges of columns privately, for `bounds` of `dpviz.table`, at a cost that every run then pays for.

    The rows of every column are counted in bins that end at powers of two, all counts get Laplace noise, and a range
    runs over the bins whose noisy counts exceed what noise alone reaches. So it may be twice as wide as the values are,
    and values in bins with few rows are outside, where cells are clipped. A range that is known without the rows is
    free, and better.

    Parameters
    ----------
    data, reading
        As in `dpviz.table`.
    columns : sequence of str
        Names of numeric columns, known without the rows.
    epsilon : float
        The cost, for all columns together: pure ε, which the runs' budgets include, in any currency.
    user : str, optional
        The column that names the user of a row, to protect all rows of a user, as `dpviz.table` does with it.

    Returns
    -------
    BoughtRanges
        A column without enough rows in any bin has no range. Every call is a release that counts: combine the results
        by `|`.

    Raises
    ------
    UserError
        If a column does not exist, or if ε is so small that the noise would hide bins with half of the rows; nothing is
        released then.

    Source
    ------
    Laplace noise on histograms: Dwork, McSherry, Nissim, Smith (2006). A replaced row changes two counts by 1 in each
    of d columns, which makes 2d in the ℓ1 norm; `dpviz/privacy/THEORY.md`, section 7.

    Examples
    --------
    >>> import dpviz
    >>> dpviz.private_bounds("data/health_insurance.parquet", ["disea", "lpi"], epsilon=1)
    <BoughtRanges for ε = 1, one row replaced: disea in [0, 64], lpi in [0, 8]>
    """
    if not columns or len(set(columns)) < len(columns):
        raise UserError("Name each column once, one at least.", title="No ranges to buy")
    event, sensitivity = events.Laplace(float(epsilon)), 2.0 * len(columns)
    # The largest of m numbers of Laplace noise of scale b exceeds b ln(m / (2 β)) with probability at most β.
    threshold = noise_scale(event, sensitivity) * math.log(len(columns) * BINS / (2 * _FAILURE))
    counts, units = _counts(data, columns, user, reading)
    if not units:
        raise too_few_rows(0)
    if threshold > units / 2:
        needed = short_up(2 * threshold * event.eps / units)  # the threshold is in proportion to 1/ε
        raise UserError(
            f"ε = {needed} at least is needed for {len(columns)} of them with {units:,} "
            f"{'rows' if user is None else 'users'}. Declare the ranges, or buy fewer.",
            title="The noise would hide the ranges",
        )
    charges = ledger.Ledger(ledger.FixedEvents((event,)), replicates=1)
    mechanisms = Mechanisms(charges, seed_or_random(seed=None), noise=Purpose.FACTS, release="ranges")
    (noisy_counts,) = mechanisms.laplace(releases.Query(counts[None], sensitivity, "l1"), event)
    ranges = {}
    for name, column_counts in zip(columns, noisy_counts, strict=True):
        full_bins = np.flatnonzero(column_counts > threshold) - len(ENDS) + 1  # numbered as in `_lower_end`
        if full_bins.any():  # one other than bin 0, which alone would be an empty range
            lowest, highest = full_bins[[0, -1]].tolist()
            # A bin's upper end mirrors the lower end of the bin with the other sign; 0.0 - x is never -0.0.
            ranges[name] = _lower_end(lowest), 0.0 - _lower_end(-highest)
    return BoughtRanges(ranges, (event.eps,), tuple(columns), user)


def _lower_end(number: int) -> float:
    """Return the lower end of a bin, given its number: k > 0 has values in (ENDS[k-1], ENDS[k]], or all above
    the last end, -k has their negatives, and 0 has those around 0, which count as 0."""
    if number == 0:
        return 0.0
    return float(ENDS[number - 1]) if number > 0 else -float(ENDS[-number])


def _counts(data: Any, columns: Sequence[str], user: str | None, reading: Reading | None) -> tuple[np.ndarray, int]:
    """Count the rows of a table in the bins of each column, (columns, BINS), and return the number of its rows, or of
    its users, too.

    A cell without a finite number is in no bin. With `user` a row counts 1 / (rows of its user), so that all rows of a
    user count 1 together.
    """
    counts, units = np.zeros((len(columns), BINS)), 0
    for frame in frame_blocks(data, reading):
        check_columns(frame, columns if user is None else [*columns, user])
        weights = np.ones(len(frame))
        if user is not None:
            if units:  # a second block, whose users may be those of the first
                raise UserError(
                    "Where users are protected, a file is read as a whole: at most 50 MB, and a million rows.",
                    title="This file is too big",
                )
            users = user_numbers(frame[user])
            rows_of_user = np.bincount(users)
            weights = 1 / rows_of_user[users]
            units += int(np.count_nonzero(rows_of_user))
        else:
            units += len(frame)
        for column_counts, name in zip(counts, columns, strict=True):  # rows of `counts`; each block adds to them
            values = column_numbers(frame[name])
            bin_of_size = np.searchsorted(ENDS[:-1], np.abs(values))  # 0 for the bin around 0
            is_number = np.isfinite(values)
            bins = (np.sign(values) * bin_of_size)[is_number].astype(np.int64)  # numbered as in `_lower_end`
            column_counts += np.bincount(bins + len(ENDS) - 1, weights[is_number], minlength=BINS)  # counted from 0
    return counts, units
