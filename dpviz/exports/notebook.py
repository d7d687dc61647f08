"""Jupyter notebooks (nbformat 4.5): a page's numbers as a program in cells, which anybody can run and change."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import dpviz
from dpviz.privacy.budgets import Budget
from dpviz.privacy.statistics.analyses import Analyses

Cell = tuple[Literal["markdown", "code"], str]
_PYTHON = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(cells: Sequence[Cell]) -> str:
    """The cells as a notebook that was not run yet."""
    found: list[dict[str, Any]] = [
        {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for number, (kind, source) in enumerate(cells, 1)
    ]
    content = {"cells": found, "metadata": _PYTHON, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


_INTRODUCTION = """\
# A budget for several analyses

Computes a plan of the dpviz budget planner again. Made by dpviz {version}; `pip install` it, or run this in its folder.
One row of the table may be replaced by any other; the number of rows is public. Nothing here reads data, unless you put
your own into the rehearsal at the end. Counts are rounded after the noise was added, which costs no privacy."""
_PLAN = """\
import pandas as pd

from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import {kinds}
from dpviz.privacy.budgets import {currency}

budget = {budget}
plan = Analyses(
    rows={rows},
    noise={noise!r},
    statistics=(
{statistics}
    ),
)"""
_NUMBERS = """\
planned = plan.planned(budget)
table = pd.DataFrame(
    {{
        "analysis": [p.statistic.name for p in planned],
        "asked": [p.statistic.asked for p in planned],
        "error": [p.error for p in planned],
        "largest_error": [p.largest_error for p in planned],
        "standard_deviation": [p.standard_deviation for p in planned],
        "noise": [p.noise for p in planned],
        "scale": [p.scale for p in planned],
        "sensitivity": [p.sensitivity for p in planned],
        "share": [p.share.fraction for p in planned],
        "rows_needed": [p.rows_needed({relative!r}) for p in planned],
    }}
)
table"""
_TOGETHER = """\
total = allocation.together([p.share for p in planned], delta={delta!r})
dict(total.values)"""
_TRIED = """\
import numpy as np

from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query

DRAWS = 10_000
seen = {}
for number, p in enumerate(planned, 1):
    if p.noise != "selection":  # the error of a selection depends on the data
        mechanisms = Mechanisms(Ledger(FixedEvents((p.event,)), 1), seed=1)
        nothing = Query(np.zeros((1, DRAWS)), p.sensitivity, {"laplace": "l1", "gaussian": "l2"}[p.noise])
        off = np.abs(getattr(mechanisms, p.noise)(nothing, p.event)[0])
        name = p.statistic.name
        released = np.round(off) if p.statistic.whole else off
        seen[f"{name} ({number})" if name in seen else name] = float((released <= p.error).mean())
seen"""


_REHEARSED = """\
## A rehearsal

The plan carried out once, with fresh noise, on values that are made up. Put your own in their place, of exactly as many
rows: True or False for a count; numbers for a sum, a mean or a quantile; the number of its bin, from 0, for a
histogram. They are clipped to the declared ranges; a missing one counts as the lowest.

Every run is another release, and costs the whole budget again. **Not a release tool**: the guarantee is that of exact
arithmetic, and this noise is drawn in floating-point numbers. To publish, take the scales above to a tool that was
built for it."""
_REHEARSAL = """\
from dpviz.privacy.statistics import answers

own = {}  # such as {0: pd.read_csv("your_file.csv")["your column"] > 64}, by the position of the analysis
generator = np.random.default_rng(1)
columns = (
    own[i] if i in own else answers.made_up(p.statistic, plan.rows, generator) for i, p in enumerate(planned)
)
rehearsal = pd.DataFrame({"analysis": table["analysis"], "released": answers.released(planned, columns)})
rehearsal"""


def of_analyses(plan: Analyses, budget: Budget, delta: float, relative: float) -> str:
    """The numbers of planned analyses; relative : the error that the rows needed are for."""
    kinds = sorted({"Analyses", *(type(statistic).__name__ for statistic in plan.statistics)})
    code = _PLAN.format(
        kinds=", ".join(kinds),
        currency=type(budget).__name__,
        budget=budget.to_python(),
        rows=plan.rows,
        noise=plan.noise,
        statistics="\n".join(f"        {statistic.to_python()}," for statistic in plan.statistics),
    )
    return notebook(
        [
            ("markdown", _INTRODUCTION.format(version=dpviz.__version__)),
            ("code", code),
            (
                "markdown",
                "What each analysis gets: with 95 % probability a number is off by at most `error`, and none of the "
                "bins of a histogram by more than `largest_error`. Of a quantile the error is in ranks.",
            ),
            ("code", _NUMBERS.format(relative=relative)),
            ("markdown", "What all of them cost together."),
            ("code", _TOGETHER.format(delta=delta)),
            ("markdown", "The errors, tried out: in how many of 10 000 releases the noise stays below them."),
            ("code", _TRIED),
            ("markdown", _REHEARSED),
            ("code", _REHEARSAL),
        ]
    )
