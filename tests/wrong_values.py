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
    "few rows": ("1", "10**9"),
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
    of_steps = {"weights": "weights", "m": "few", "n": "rows", "prior": "events"}
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
        Call(
            dpviz.statistics,
            {"budget": gaussian, "asked": [dpviz.Count()], "rows": 100, "rows_per_person": 1, "noise": "smaller"},
            {"rows": "few rows", "rows_per_person": "few rows"},
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
        Call(trace.arm_trace, arm),
        Call(trace.series, metric | {"gaps": False}, {"gaps": "flag"}),
        Call(trace.last, metric),
        Call(trace.spent, arm),
        Call(trace.cloud, arm),
        Call(trace.only, {"labels": ["DP-NAG"]}, {"labels": "names"}),
        Call(learnt.model, arm | {"replicate": 0}, {"replicate": "run"}),
        Call(trace.guess, {"metric": "objective_gap"}),
        Call(trace.visible, {"diagnostics": True}, {"diagnostics": "flag"}),
        Call(trace.privacy_by_arm, {"metric": trace.metrics["objective_gap"]}),
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


# Mistakes, as one makes them, with words that the sentence about them must have.
MISTAKES: Mapping[str, str] = {
    # ------------------------------------------------ budgets
    "dpviz.PureDP(epsilon=-1)": "budget -1",
    "dpviz.PureDP(0)": "budget 0",
    "dpviz.PureDP(nan)": "budget nan",
    "dpviz.PureDP(inf)": "budget inf",
    "dpviz.PureDP('two')": "budget 'two'",
    "dpviz.PureDP(None)": "budget",
    "dpviz.PureDP([1, 2])": "budget",
    "dpviz.PureDP(1, 2)": "epsilon 1",
    "dpviz.PureDP(1, epsilon=2)": "epsilon twice",
    "dpviz.PureDP(eps=1)": "eps epsilon",
    "dpviz.PureDP(rho=1)": "rho epsilon",
    "dpviz.ApproximateDP(1, 2)": "Excess 2",
    "dpviz.ApproximateDP(1e-6, 1)": "Excess 1",
    "dpviz.ApproximateDP(epsilon=1, delta=0)": "Excess 0",
    "dpviz.GaussianDP(sigma=1)": "sigma mu",
    "dpviz.GaussianDP(mu=-0.5)": "budget -0.5",
    "dpviz.RenyiDP(epsilon=1, order=1)": "Order 1",
    "dpviz.RenyiDP(epsilon=1, alpha=2)": "alpha order",
    "dpviz.TradeOff(0.01, 0.05)": "false alarms",
    "dpviz.NoPrivacy(1)": "NoPrivacy",
    "dpviz.ZeroConcentratedDP(rho=True and 'x')": "budget 'x'",
    # ------------------------------------------------ methods
    "dpviz.Nesterov(iterations=0)": "Steps 0",
    "dpviz.Nesterov(iterations=2.5)": "Steps whole 2.5",
    "dpviz.Nesterov('many')": "Steps many",
    "dpviz.Nesterov(iteration=3)": "iteration iterations",
    "dpviz.Nesterov(steps=3)": "steps iterations",
    "dpviz.Nesterov(schedule='optimum')": "Noise schedule optimum optimal",
    "dpviz.Nesterov(noise='cauchy')": "Noise cauchy laplace",
    "dpviz.Nesterov(relative_step=2)": "Step size 2",
    "dpviz.Nesterov(batch_fraction=0)": "Batch 0",
    "dpviz.Nesterov(knots=(1, 2))": "Your own schedule 6",
    "dpviz.HeavyBall(momentum=1)": "Momentum 1",
    "dpviz.Gibo(batch_size=-1)": "Evaluations -1",
    "dpviz.VertexSampling(draws=0)": "Draws 0",
    "dpviz.LineSearch(gradient_target='small')": "Gradient target small",
    "dpviz.VarianceReduced(directions='sgd')": "sgd",
    "dpviz.TrustRegion(constants={'c_1': 9})": "Gradient noise 9",
    # ------------------------------------------------ problems and data
    "dpviz.Quadratic(dimension=0)": "Parameters 0",
    "dpviz.Quadratic(rows=-5)": "Rows -5",
    "dpviz.Quadratic(n=100)": "'n'",
    "dpviz.Quadratic(spacing='linear')": "Spectrum linear",
    "dpviz.LogisticRegression(data='iris.csv')": "data iris.csv",
    "dpviz.LogisticRegression(data=np.ones((3, 2)))": "data dpviz.table",
    "dpviz.LogisticRegression(data=table)": "data dpviz.table",
    "dpviz.LogisticRegression(data=dpviz.Quadratic())": "data Quadratic",
    "dpviz.LogisticRegression(regularization=1)": "regularization regularisation",
    "dpviz.LogisticRegression(smoothness=1e-9, smoothness_source='declared')": "below",
    "dpviz.LogisticRegression(data=datasets.UniformLinear())": "two classes",
    "dpviz.LeastSquares(data=datasets.UniformLogistic(rows=1))": "Rows 1",
    "dpviz.MatrixGame(data=datasets.UniformLogistic())": "data UniformLogistic",
    "dpviz.GroupLoss(data=dpviz.table(table, target='y', positive=1, bounds=(0, 1)))": "UploadedTable group=",
    "dpviz.GroupLoss(loss='hinge')": "hinge",
    "dpviz.SparseRegression(rows=10**6, dimension=10**5)": "rows columns",
    "dpviz.PhaseRetrieval(radius=-1)": "Smoothing radius -1",
    "datasets.BundledTable(table='iris')": "iris breast_cancer",
    # ------------------------------------------------ experiments
    "dpviz.Experiment(dpviz.Nesterov(), dpviz.Quadratic())": "problem first",
    "dpviz.Experiment(dpviz.Quadratic())": "arms",
    "dpviz.Experiment()": "problem",
    "dpviz.Experiment(dpviz.Quadratic, dpviz.Nesterov())": "problem Quadratic()",
    "dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov)": "Nesterov()",
    "dpviz.Experiment(dpviz.Quadratic(), 'DP-NAG')": "arms DP-NAG",
    "dpviz.Experiment(dpviz.Quadratic(), [])": "arms",
    "dpviz.Experiment(dpviz.Quadratic(), [dpviz.Nesterov(), 3])": "arms 3",
    "dpviz.Experiment(dpviz.Quadratic(), {'a': 3})": "a 3",
    "dpviz.Experiment(dpviz.Quadratic(), {3: dpviz.Nesterov()})": "label 3",
    "dpviz.Experiment(dpviz.Quadratic(), [dpviz.Nesterov(), dpviz.Nesterov()])": "label DP-NAG",
    "small(epsilon=1, rho=1)": "epsilon rho",
    "small(epsilon=1, budget=dpviz.PureDP(1))": "epsilon budget",
    "small(epsilom=1)": "epsilom 'epsilon'",
    "small(epsilon=-1)": "budget -1",
    "small(epsilon='1.5e')": "budget 1.5e",
    "small(delta=1e-6)": "delta",
    "small(budget=1.0)": "budget 1.0",
    "small(budget='pure')": "budget pure",
    "small(budget=dpviz.PureDP)": "budget PureDP",
    "small(epsilon=1, repeats=5)": "repeats replicates",
    "small(epsilon=1, replicates=0)": "Repeats 0",
    "small(epsilon=1, seed=-1)": "Seed -1",
    "small(epsilon=1, seed=1.5)": "Seed 1.5",
    "dpviz.Arm('', dpviz.Nesterov())": "label",
    "dpviz.Arm(dpviz.Nesterov(), 'x')": "label",
    "dpviz.Arm(label='a', algorithm=dpviz.Nesterov(), budget=2)": "budget 2",
    "dpviz.Experiment(dpviz.MatrixGame(), dpviz.Nesterov(), epsilon=1).run()": "DP-NAG Matrix",
    "dpviz.Experiment(dpviz.Quadratic(), dpviz.Gibo(), mu=1).plans()": "DP-GIBO Quadratic",
    "dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov(), 1)": "budget 1",
    "huge().run()": "memory 2,400,000",
    "experiment.plan('DP-NAG')": "arm",
    "experiment.plan(dpviz.Nesterov())": "arm",
    "experiment.plans()['Nesterov']": "Nesterov DP-NAG",
    "experiment.run(tables=[1])": "tables",
    "experiment.run({'x': np.ones(3)})": "table x",
    "experiment.run(progress='yes')": "progress",
    "experiment.replaced(problems=1)": "problems problem",
    "experiment.replaced(seed='today')": "Seed today",
    "experiment.figure(diagnostics=2)": "diagnostics 2",
    # ------------------------------------------------ what runs give
    "trace.last('Nesterov', 'objective_gap')": "Nesterov DP-NAG",
    "trace.last('DP-NAG', 'gap')": "gap objective_gap",
    "trace.series('objective_gap', 'DP-NAG')": "objective_gap DP-NAG",
    "trace.arm_traces['Nesterov']": "Nesterov DP-NAG",
    "trace.arm_trace('DPNAG')": "DPNAG DP-NAG",
    "trace.spent(0)": "arm 0",
    "trace.only(['DP-HB'])": "DP-HB DP-NAG",
    "trace.only('DP-NAG')": "labels DP-NAG",
    "trace.model('DP-NAG')": "linear",
    "trace.metrics['gap']": "gap objective_gap",
    "plan.noise['gradients']": "gradients gradient",
    "plan.spent('eps')": "currency eps",
    "plan.charged(-1)": "iteration -1",
    "dpviz.final_table(experiment, experiment.plans())": "trace Experiment",
    "dpviz.final_table(trace, trace)": "plans Trace",
    "dpviz.final_table(trace, experiment.plans(), headlines=['gap'])": "gap objective_gap",
    "dpviz.marked(trace, trace)": "table Trace",
    "swept.medians('Nesterov')": "Nesterov DP-NAG",
    "swept.at(7.0)": "7",
    "swept.orders('DP-NAG', 'DP-HB')": "DP-HB",
    # ------------------------------------------------ sweeps
    "dpviz.Sweep(experiment)": "setting",
    "dpviz.Sweep(experiment, iteration=(1, 2))": "iteration 'iterations'",
    "dpviz.Sweep(experiment, epsilon=2)": "epsilon 2",
    "dpviz.Sweep(experiment, epsilon=())": "values",
    "dpviz.Sweep(experiment, epsilon=(1, 1))": "another",
    "dpviz.Sweep(experiment, epsilon=(1, nan))": "values nan",
    "dpviz.Sweep(experiment, epsilon=('a', 'b'))": "values a",
    "dpviz.Sweep(experiment, epsilon=(1, -1)).run()": "budget -1",
    "dpviz.Sweep(experiment, epsilon=(1,), iterations=(2,), relative_step=(1,))": "two",
    "dpviz.Sweep(experiment, rho=(1, 2))": "rho epsilon",
    "dpviz.Sweep(dpviz.Quadratic(), epsilon=(1, 2))": "experiment Quadratic",
    "dpviz.Sweep(epsilon=(1, 2))": "experiment",
    "dpviz.Sweep(experiment, epsilon=(1, 2), metric='gap').run()": "gap objective_gap",
    "dpviz.Sweep(experiment, epsilon=(1, 2)).run(workers=0)": "workers 0",
    "dpviz.Sweep(experiment, epsilon=(1, 2)).run(client='nowhere')": "nowhere",
    "dpviz.Sweep(experiment, epsilon=(1, 2)).run(client=3)": "Client 3",
    # ------------------------------------------------ short forms
    "dpviz.epsilon(dpviz.PureDP(1), delta=0)": "delta 0",
    "dpviz.epsilon(1.0, 1e-6)": "of 1.0",
    "dpviz.epsilon(1e-6, dpviz.PureDP(1))": "of 1e-06",
    "dpviz.epsilon(experiment, 1e-6)": "of Experiment",
    "dpviz.epsilon(experiment.plans(), 1e-6)": "of",
    "dpviz.epsilon(['laplace'], 1e-6)": "of",
    "dpviz.epsilon(dpviz.PureDP(1))": "delta",
    "dpviz.calibrate(1.0)": "budget 1.0",
    "dpviz.calibrate(dpviz.PureDP(1), releases=0)": "releases 0",
    "dpviz.calibrate(dpviz.PureDP(1), noise='gauss')": "noise gauss",
    "dpviz.calibrate(dpviz.PureDP(1), noise='gaussian')": "Gaussian",
    "dpviz.calibrate(dpviz.PureDP(1), sensitivity=-1)": "sensitivity -1",
    "dpviz.calibrate(dpviz.NoPrivacy())": "guarantee",
    "dpviz.calibrate(dpviz.PureDP(1), sensitivty=2)": "sensitivty sensitivity",
    "dpviz.calibrate_gaussian(dpviz.GaussianDP(1), 'ab', m=1, n=1)": "weights",
    "dpviz.calibrate_gaussian(dpviz.GaussianDP(1), np.ones((2, 2)), m=1, n=1)": "weights",
    "dpviz.calibrate_laplace(dpviz.PureDP(1), np.ones(2), m=5, n=1)": "m",
    "dpviz.calibrate_laplace(dpviz.PureDP(1), -np.ones(2), m=1, n=1)": "weights",
    "dpviz.convert(dpviz.PureDP(1), 'delta')": "delta",
    "dpviz.convert('pure')": "delta",
    "dpviz.presets('Start here')": "presets",
    "dpviz.convert(dpviz.PureDP(1), delta=2)": "delta 2",
    "dpviz.tightest([], 1e-6, precision='high')": "precision high",
    "dpviz.audit('DP-GD')": "method DP-GD",
    "dpviz.audit(dpviz.GradientDescent, 1.0)": "budget 1.0",
    "dpviz.audit(dpviz.ShortStep, dpviz.PureDP(1))": "Gaussian",
    "dpviz.audit(dpviz.GradientDescent, runs=1)": "runs 1",
    "dpviz.audit(dpviz.PureDP)": "PureDP",
    "dpviz.audit(dpviz.GradientDescent, neighbours=(1, 2))": "neighbours (1, 2)",
    "dpviz.presets()['acelerated']": "acelerated 'accelerated'",
    "dpviz.NoisyMeans(iterations=0)": "Steps 0",
    "dpviz.NoisyMeans().events(1.0)": "budget 1.0",
    "dpviz.statistics(1.0, [dpviz.Count()], rows=10)": "budget 1.0",
    "dpviz.statistics([dpviz.Count()], dpviz.PureDP(1), rows=10)": "budget list",
    "dpviz.statistics(dpviz.PureDP(1), 'count', rows=10)": "asked count",
    "dpviz.statistics(dpviz.PureDP(1), [dpviz.Count], rows=10)": "asked",
    "dpviz.statistics(dpviz.PureDP(1), [], rows=10)": "statistics 1",
    "dpviz.Statistics(dpviz.statistics(dpviz.PureDP(1), dpviz.Count('a'), rows=10)"
    ".analyses.replaced(statistics=(dpviz.Count('a'), dpviz.Sum('a'))), dpviz.PureDP(1))": "'a'",
    "dpviz.statistics(dpviz.PureDP(1), [dpviz.Count()])": "rows",
    "dpviz.statistics(dpviz.PureDP(1), [dpviz.Count()], rows=0)": "Rows 0",
    "dpviz.statistics(dpviz.PureDP(1), [dpviz.Count('a'), dpviz.Sum('a')], rows=10)": "'a'",
    "dpviz.statistics(dpviz.PureDP(1), dpviz.Count('a'), rows=10, noise='gaussian')": "Gaussian",
    "dpviz.statistics(dpviz.PureDP(1), dpviz.Count('a'), rows=10).planned['b']": "'b' a",
    "dpviz.statistics(dpviz.PureDP(1), dpviz.Count('a'), rows=10).to_frame(error=5)": "error 5",
    "dpviz.Mean('age', lowest=3, highest=1)": "lowest highest",
    "dpviz.Mean('age', low=3)": "'low' lowest",
    "dpviz.Histogram('age', bins=1)": "Bins 1",
    "dpviz.Count('age', comparison='~', operands=(3,))": "comparison ~ '≥'",
    "datasets.Reading(above=2000)": "above 1,000",
    "dpviz.Gibo(placing={1: 2})": "placing text",
    "dpviz.Quantile('age', level=50)": "Level 50",
    # ------------------------------------------------ settings, links, files
    "dpviz.open('nowhere.json')": "nowhere.json",
    "dpviz.open('{')": "JSON",
    'dpviz.open(\'{"kind": "experiments.experiment.experimnt"}\')': "experimnt",
    "dpviz.open(3)": "source 3",
    "dpviz.open('http://localhost:8501/audit')": "accelerated",
    "dpviz.open('http://localhost:8501/')": "accelerated",
    "dpviz.open('data/breast_cancer.parquet')": "breast_cancer.parquet",
    'dpviz.Experiment.from_json(\'{"kind": "nope"}\')': "nope",
    'dpviz.Experiment.from_json(\'{"kind": "families.accelerated.nestrov"}\')': "nestrov nesterov",
    "dpviz.Experiment.from_json(dpviz.PureDP(1).to_json())": "Experiment PureDP",
    "dpviz.Experiment.from_json('')": "JSON",
    "dpviz.Experiment.from_json(3)": "JSON",
    "dpviz.PureDP.from_json(experiment.to_json())": "PureDP Experiment",
    # ------------------------------------------------ tables
    "dpviz.table('nowhere.csv', target='y')": "nowhere.csv",
    "dpviz.table(3, target='y')": "3",
    "dpviz.table(table)": "target",
    "dpviz.table(table, target='z', positive=1)": "z",
    "dpviz.table(table, target='y', positive=1)": "a range",
    "dpviz.table(table, target='y')": "a range 'y' positive=",
    "dpviz.table(table, target='y', positive=1, bounds={'a': (1, 0)})": "a range",
    "dpviz.table(table, target='y', positive=1, bounds={'b': (0, 1)})": "a",
    "dpviz.table(table, target='y', positive=1, bounds=3)": "bounds 3",
    "dpviz.table(table, target='y', positive=1, bounds=(0, 1), features=['q'])": "q",
    "dpviz.table((np.ones(3), np.ones(3)), positive=1, bounds=(0, 1))": "X (3,)",
    "dpviz.table((np.ones((3, 2)), np.ones(4)), positive=1, bounds=(0, 1))": "y (4,)",
    "dpviz.table(table, tarket='y')": "tarket target",
    "dpviz.read_table('data.csv', 'a.csv')": "data data.csv",
    "dpviz.read_table(b'', 'a.csv')": "empty",
    "dpviz.extend.neighbours(dpviz.Quadratic(), (1,), (2,))": "dpviz.table",
}
