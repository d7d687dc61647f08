"""Calls of all public functions and methods, each with values that fit, and values that do not."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpviz
from dpviz.privacy.events import Laplace


@dataclass
class Other:
    """A dataclass that nothing asks for."""

    x: int = 1


WRONG: Mapping[str, Any] = {
    "None": None,
    "empty text": "",
    "text": "abc",
    "-1": -1,
    "0": 0,
    "1": 1,
    "2.5": 2.5,
    "1e9": 1e9,
    "10**9": 10**9,
    "10**400": 10**400,
    "nan": math.nan,
    "inf": math.inf,
    "True": True,
    "list": [],
    "dict": {},
    "object": object(),
    "frame": pd.DataFrame({"a": [1.0, 2.0]}),
    "dataclass": Other(),
    "array": np.ones(3),
    "class": int,
    "bytes": b"abc",
}
# By what an argument is, those of them that need not be a mistake.
FITS: Mapping[str, tuple[str, ...]] = {
    "": (),
    "optional": ("None",),
    "delta": (),
    "optional delta": ("None",),
    "amount": ("1", "2.5", "1e9", "10**9"),
    "cost": ("1", "2.5"),
    "order": ("2.5", "1e9", "10**9"),
    "share": ("0", "1"),
    "count": ("1", "10**9", "10**400"),
    "rows": ("10**9",),
    "few": ("1",),
    "optional count": ("None", "1", "10**9", "10**400"),
    "seed": ("0", "1", "10**9", "10**400"),
    "optional seed": ("None", "0", "1", "10**9", "10**400"),
    "flag": ("True",),
    "events": ("list",),
    "tables": ("dict",),
    "names": ("list", "dict"),
    "optional names": ("None", "list"),
    "plans": ("dict",),
    "numbers": ("list",),
    "weights": ("array",),
    "class": tuple(name for name in WRONG if name not in ("list", "dict", "object", "frame", "dataclass")),
    "run": ("0", "1"),
    "any text": ("empty text", "text"),
}


@dataclass
class Call:
    """A function, with values that fit, and what each of its arguments is: a name of FITS."""

    function: Callable[..., Any]
    values: Mapping[str, Any]
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function as one writes it."""
        return self.function.__qualname__


def calls() -> list[Call]:
    """Every public function, and the methods of what they give."""
    table = Path(dpviz.__file__).parents[1] / "data" / "breast_cancer.parquet"
    arms = [dpviz.Nesterov(iterations=4), dpviz.GradientDescent(iterations=4)]
    experiment = dpviz.Experiment(dpviz.Quadratic(), arms, epsilon=1, replicates=2)
    plans, trace = experiment.plans(), experiment.run()
    learnt = dpviz.Experiment(dpviz.LogisticRegression(), arms[0], epsilon=1, replicates=2).run()
    sweep = dpviz.Sweep(experiment, epsilon=(0.5, 1))
    result, plan = sweep.run(), plans["DP-NAG"]
    gaussian, means = dpviz.GaussianDP(mu=1), dpviz.NoisyMeans(iterations=2)
    case = dpviz.families.audits()["accelerated"][0]
    steps: dict[str, Any] = {
        "budget": gaussian,
        "weights": np.ones(3),
        "m": 10,
        "n": 10,
        "prior": (),
        "sampling": "wor",
    }
    of_steps = {"weights": "weights", "m": "few", "n": "rows"}
    arm, metric = {"arm": "DP-NAG"}, {"arm": "DP-NAG", "metric": "objective_gap"}
    budget = {"budget": gaussian}
    return [
        Call(dpviz.epsilon, {"of": gaussian, "delta": 1e-6}, {"of": "events"}),
        Call(
            dpviz.calibrate,
            {"budget": gaussian, "releases": 2, "sensitivity": 1.0, "noise": "gaussian"},
            {"releases": "few", "sensitivity": "amount", "noise": "optional"},
        ),
        Call(dpviz.convert, {"budget": gaussian, "delta": 1e-6}),
        Call(
            dpviz.tightest,
            {"events": [Laplace(1.0)], "delta": 1e-6, "prior": (), "precision": "normal"},
            {"events": "events", "prior": "events"},
        ),
        Call(dpviz.calibrate_gaussian, steps, of_steps),
        Call(dpviz.calibrate_laplace, steps, of_steps),
        Call(
            dpviz.audit,
            {"method": dpviz.GradientDescent, "budget": None, "neighbours": None, "runs": 40, "seed": 1},
            {"budget": "optional", "neighbours": "optional", "seed": "optional seed"},
        ),
        Call(
            dpviz.table,
            {"data": table, "target": "malignant", "positive": 1, "features": ["mean_area"], "bounds": (0.0, 3000.0)}
            | {"categories": {}, "drop_missing": False, "constant": False, "group": None, "groups": [], "shares": []}
            | {"user": None, "reading": None},
            {"positive": "class", "features": "optional names", "categories": "tables", "drop_missing": "flag"}
            | {"constant": "flag", "group": "optional", "groups": "names", "shares": "numbers", "user": "optional"}
            | {"reading": "optional"},
        ),
        Call(
            dpviz.private_bounds,
            {"data": table, "columns": ["mean_area"], "epsilon": 1.0, "user": None, "reading": None},
            {"epsilon": "cost", "user": "optional", "reading": "optional"},
        ),
        Call(dpviz.open, {"source": experiment.to_json()}),
        Call(
            dpviz.final_table,
            {"trace": trace, "plans": plans, "delta": 1e-6, "headlines": None},
            {"plans": "plans", "delta": "optional delta", "headlines": "optional names"},
        ),
        Call(dpviz.marked, {"table": dpviz.final_table(trace, plans), "trace": trace}),
        Call(dpviz.presets, {}),
        Call(
            dpviz.read_table,
            {"data": table.read_bytes(), "name": "a.parquet", "max_rows": 1000, "max_columns": 100}
            | {"reading": None, "sample_rows": None, "seed": 0},
            {"name": "any text", "max_rows": "count", "max_columns": "count", "reading": "optional"}
            | {"sample_rows": "optional count", "seed": "seed"},
        ),
        Call(
            dpviz.Audit,
            {"case": case, "budget": case.budgets[0], "runs": 40, "looks": 3, "confidence": 0.95, "seed": 1},
            {"looks": "few", "seed": "optional seed"},
        ),
        Call(experiment.run, {"tables": {}, "progress": False}, {"tables": "tables", "progress": "flag"}),
        Call(experiment.plan, {"arm": experiment.arms[0]}),
        Call(experiment.figure, {"diagnostics": False}, {"diagnostics": "flag"}),
        Call(plan.spent, {"currency": "epsilon"}),
        Call(plan.charged, {"iteration": 2}, {"iteration": "seed"}),
        Call(trace.lane, arm),
        Call(trace.series, metric | {"gaps": False}, {"gaps": "flag"}),
        Call(trace.last, metric),
        Call(trace.spent, arm),
        Call(trace.cloud, arm),
        Call(trace.only, {"labels": ["DP-NAG"]}, {"labels": "names"}),
        Call(learnt.model, arm | {"replicate": 0}, {"replicate": "run"}),
        Call(trace.guess, {"metric": "objective_gap"}),
        Call(trace.visible, {"diagnostics": True}, {"diagnostics": "flag"}),
        Call(trace.statuses, {"metric": trace.metrics["objective_gap"]}),
        Call(
            sweep.run,
            {"tables": {}, "workers": 1, "progress": False},
            {"tables": "tables", "workers": "few", "progress": "flag"},
        ),
        Call(result.series, arm),
        Call(result.medians, arm),
        Call(result.laws, arm),
        Call(result.grid, arm),
        Call(result.orders, {"one": "DP-NAG", "other": "DP-GD"}),
        Call(result.crossing_intervals, {"one": "DP-NAG", "other": "DP-GD"}),
        Call(result.visible, {"diagnostics": True}, {"diagnostics": "flag"}),
        Call(gaussian.to_epsilon_at, {"delta": 1e-6}),
        Call(gaussian.to_renyi, {"order": 8.0}, {"order": "order"}),
        Call(gaussian.consequences, {"relation": "replace-one"}),
        Call(gaussian.share, {"fraction": 0.5}, {"fraction": "share"}),
        Call(means.events, budget),
        Call(means.noise_scale, budget),
        Call(means.events_of_noise, {"scale": 1.0}, {"scale": "amount"}),
        Call(means.affordable_steps, budget | {"scale": 1.0}, {"scale": "amount"}),
        Call(means.rows_needed, budget | {"scale": 1.0}, {"scale": "amount"}),
        Call(means.spent, budget | {"scale": 1.0, "steps": [1, 2]}, {"scale": "amount", "steps": "numbers"}),
    ]
