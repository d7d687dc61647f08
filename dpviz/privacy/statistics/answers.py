"""Planned analyses carried out on columns of values: computed, and released once, with the noise of the plan.

What is computed of a column is as far from that of a neighbour as the plan says at most, whatever the values are: they
are clipped, missing ones count as the lowest value of the range, and bins that were not declared are not counted.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpviz.errors import refusal
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, drawn_seed
from dpviz.privacy.queries import Query
from dpviz.privacy.statistics.analyses import NORMS, Count, Histogram, Mean, Planned, Quantile, Ranged, Statistic, Sum


def released(planned: Sequence[Planned], columns: Iterable[ArrayLike], seed: int | None = None) -> list[Any]:
    """One private answer to every analysis: a number, or the numbers (B,) of a histogram.

    columns : for each, what it reads of the n rows: True or False for a count, numbers for a sum, a mean or a quantile,
        the number of its bin, from 0, for a histogram. seed : of the noise; None draws a fresh one that nobody knows.

    All together cost what was planned; the ledger refuses anything else. The guarantee is that of exact arithmetic:
    floating-point noise on data that must be protected is not safe (Mironov 2012). Raises UserError for a column that
    holds no numbers, or another number of rows.
    """
    ledger = Ledger(FixedEvents(tuple(p.event for p in planned)), 1)
    mechanisms = Mechanisms(ledger, drawn_seed(seed))
    return [_answer(p, _numbers(p, column), mechanisms) for p, column in zip(planned, columns, strict=True)]


def _answer(p: Planned, column: np.ndarray, mechanisms: Mechanisms) -> Any:
    query = Query(computed(p.statistic, column)[None], p.sensitivity, NORMS[p.noise])
    if isinstance(p.statistic, Quantile):
        chosen = int(mechanisms.exponential(query, p.event)[0, 0])
        return float(np.linspace(p.statistic.lowest, p.statistic.highest, p.statistic.candidates)[chosen])
    noisy = (mechanisms.laplace if p.noise == "laplace" else mechanisms.gaussian)(query, p.event)[0]
    answer = np.round(noisy).astype(int) if p.statistic.whole else noisy
    return answer if p.statistic.values > 1 else answer.item()


def _numbers(p: Planned, column: ArrayLike) -> np.ndarray:
    """(n,) the column; nothing of it is quoted where it is refused."""
    try:
        numbers = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or numbers.shape != (p.rows,):
        raise refusal(__package__, "column_does_not_fit_the_plan", statistic=p.statistic.name, rows=p.rows)
    return numbers


def computed(statistic: Statistic, column: np.ndarray) -> np.ndarray:
    """(B,) what is asked of a column (n,), not private; of a quantile, the utilities (N,) of its values."""
    match statistic:
        case Count():
            return np.array([np.count_nonzero(np.nan_to_num(column))], dtype=float)
        case Sum():
            return np.array([_clipped(statistic, column).sum()])
        case Mean():
            return np.array([_clipped(statistic, column).mean()])
        case Histogram():
            declared = column[(column >= 0) & (column < statistic.bins)]
            return np.bincount(declared.astype(int), minlength=statistic.bins).astype(float)
        case Quantile():
            steps = (_clipped(statistic, column) - statistic.lowest) / statistic.width * (statistic.candidates - 1)
            here = np.bincount(np.round(steps).astype(int), minlength=statistic.candidates)
            up_to, rank = np.cumsum(here), statistic.level * len(column)
            return np.minimum(np.minimum(rank - (up_to - here), up_to - rank), 0.0)
    raise TypeError(f"nothing says how to compute {statistic}")


def _clipped(statistic: Ranged, column: np.ndarray) -> np.ndarray:
    return np.clip(np.where(np.isnan(column), statistic.lowest, column), statistic.lowest, statistic.highest)


def made_up(statistic: Statistic, rows: int, generator: np.random.Generator) -> np.ndarray:
    """(n,) values that such a column could have, for a rehearsal."""
    if isinstance(statistic, Ranged):
        return generator.uniform(statistic.lowest, statistic.highest, rows)
    return generator.integers(statistic.bins if isinstance(statistic, Histogram) else 2, size=rows).astype(float)
