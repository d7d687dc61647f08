"""Queries: values computed from data, with the sensitivity that their clipping enforces."""

from typing import Literal, NamedTuple

import numpy as np

from dpviz.privacy.events import Relation

Norm = Literal["l1", "l2", "linf", "range"]


class Sample:
    """Rows that were opened for queries, as a query names them; what they are and may release, `Batch` says."""


class Query(NamedTuple):
    """A value computed from data for R' replicates; made by a Problem, consumed by a Mechanism.

    value : (R', ...) float64.
    sensitivity : largest change of `value` in `norm` when one row of the data (of the batch, if there is one) is
        replaced, or added or removed: as `relation` says; a scalar or (R',), a function of public facts and released
        values only.
    batch : the batch that the value was computed on; None for the whole table.
    relation : the neighbouring relation that the sensitivity holds for; that of the run's events, or it is refused.
    """

    value: np.ndarray
    sensitivity: float | np.ndarray
    norm: Norm
    batch: Sample | None = None
    relation: Relation = "replace-one"
