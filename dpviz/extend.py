"""The public names for methods, problems and data of your own.

A method is a subclass of `Algorithm` with a `kind` of its own, such as "mine.momentum", numbers declared by `number`, a
`plan` from public facts that keeps the budget, and a `run` in which every look at the data goes through `Mechanisms`. A
problem is a `ProblemSpecification` that builds a `Problem`, with its data set in the field `data`; a data set is a
`DatasetSpecification`, with `public = True` if anybody may see its rows. A problem without a data set counts as public,
unless its property `public` says otherwise. `dpviz.audit(method, neighbours=…)` tests a method on two data sets, such
as those of `neighbours`.

A module of your own is known to `dpviz` commands by their option `--module`; and to every use of dpviz, if its package
names it as an entry point of the group "dpviz.kinds".
"""

from collections.abc import Sequence

import numpy as np

from dpviz.arguments import checked
from dpviz.audits.audit import Case, Neighbours
from dpviz.datasets.base import Dataset, DatasetFacts, DatasetSpecification
from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.privacy.budgets import Budget, require
from dpviz.privacy.calibration import gaussian_events, laplace_events
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.releases import Query
from dpviz.problems.base import Facts, Metric, Problem, ProblemSpecification, SmoothFacts, SmoothProblem, check_facts
from dpviz.specification import choice, number, numbers, switch

__all__ = [
    "DIVERGED",
    "Algorithm",
    "Budget",
    "Case",
    "Dataset",
    "DatasetFacts",
    "DatasetSpecification",
    "Facts",
    "Mechanisms",
    "Metric",
    "Neighbours",
    "Plan",
    "Problem",
    "ProblemSpecification",
    "Query",
    "SmoothFacts",
    "SmoothProblem",
    "Snapshot",
    "check_facts",
    "choice",
    "divergence_status",
    "gaussian_events",
    "laplace_events",
    "neighbours",
    "noise_scale",
    "number",
    "numbers",
    "require",
    "switch",
]


@checked
def neighbours(problem: ProblemSpecification, one: Sequence[float], other: Sequence[float]) -> Neighbours:
    """Build a problem on its table twice, with `one` and with `other` in place of the first row.

    The audit proves most if the two rows move every release as far apart as two rows can, and if all other rows hide
    this least. For methods that draw random batches, all other rows must be equal to each other.

    Parameters
    ----------
    problem : ProblemSpecification
        Its data are those of `dpviz.table`, 20 rows at least.
    one, other : sequence of float
        A row of that table as it is kept: the numbers of the features, and last the target, where -1 and 1 are the
        classes.

    Raises
    ------
    UserError
        If the problem's data have no table, or a row has another length.

    Examples
    --------
    >>> import numpy as np
    >>> import dpviz
    >>> data = dpviz.table((np.zeros((20, 1)), np.ones(20)), positive=1, bounds=(0, 1))
    >>> problem = dpviz.LogisticRegression(data=data, clip=0.01)
    >>> pair = neighbours(problem, (1.0, 1.0), (1.0, -1.0))
    >>> dpviz.audit(dpviz.GradientDescent(iterations=3), dpviz.PureDP(1), neighbours=pair, runs=2_000, seed=1).violation
    False
    """
    # The data bring along the tables that `dpviz.table` made.
    tables = [(identity, table) for identity, table in problem.carried.items() if isinstance(table, np.ndarray)]
    if not tables:
        raise UserError("Give the problem data of `dpviz.table`.", title="This problem has no table to change")
    (identity, table), *_ = tables
    for row in (one, other):
        if len(row) != table.shape[1]:
            raise UserError(f"A row of this table has {table.shape[1]} numbers, not {len(row)}.")
    return Neighbours.of(problem, identity, table, one, other)
