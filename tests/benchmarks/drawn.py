"""Experiments drawn at random from what the controls of the pages allow, and what a run of one really takes."""

import os
import resource
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dpviz.datasets import UploadedTable
from dpviz.datasets.categories import CategoricalUpload
from dpviz.datasets.groups import GroupedUpload
from dpviz.datasets.synthetic import Saddle, UniformLinear
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import LineSearch, MiniBatch, MiniBatchTrustRegion, ShortStep, TrustRegion
from dpviz.families.zeroth_order import DirectionalDescent, FirstOrder, Naive, VarianceReduced
from dpviz.privacy.budgets import ApproximateDP, GaussianDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import LossMatrix
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.linear.regression import HuberRegression, LeastSquares
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, RobustComponent, SigmoidTukey
from dpviz.problems.values.black_box import BentValley, CappedRegression, PhaseRetrieval, ReluNetwork, TableModel, Votes
from dpviz.specification import Control
from dpviz.ui.accelerated import problem as accelerated
from dpviz.ui.accelerated.page import PAGE as ACCELERATED
from dpviz.ui.experiment.controls import BY_NAME, CURRENCIES
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.mirror_descent import problem as mirror
from dpviz.ui.mirror_descent.page import PAGE as MIRROR
from dpviz.ui.uploads.table import GENERATORS

PAGES: Mapping[str, FamilyPage] = {"accelerated": ACCELERATED, "mirror_descent": MIRROR}
IDENTITY = "0" * 32
Tables = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Drawn:
    """An experiment of a page, ready to run: with the plans of the methods that have one, and an upload's table."""

    experiment: Experiment
    plans: Mapping[str, Plan]
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True)
class Taken:
    """What a run took: CPU seconds, and bytes of memory beside what there was before. ended : whether it came to its
    end, or was ended after too long."""

    seconds: float
    bytes: float
    ended: bool


def drawn(family: str, seed: int) -> Iterator[Drawn]:
    """Endless experiments of a page. Settings that do not go together are drawn again, as a visitor would."""
    generator, page = np.random.default_rng(seed), PAGES[family]
    while True:
        with suppress(UserError, ValidationError):
            problem, tables = {"accelerated": _model, "mirror_descent": _game}[family](generator)
            offered = list(page.offer_of(problem).methods or page.catalogue.methods)
            labels = generator.choice(offered, min(len(offered), int(generator.integers(1, 5))), replace=False).tolist()
            shared = page.catalogue.controls()
            settings = {name: _value(generator, control) for name, control in shared.items()}
            references = bool(generator.integers(2))
            arms = page.catalogue.arms(
                labels,
                references=references,
                **{name: value for name, value in settings.items() if value != BY_NAME},
            )
            planned = Experiment(
                problem=problem,
                arms=arms,
                budget=_specification(generator, _one(generator, list(CURRENCIES.values()))),
                replicates=_log(generator, 1, 200),
                seed=0,
            ).planned()
            yield Drawn(planned.ready(), planned.plans, tables)


def out_of_reach(seed: int) -> Iterator[Drawn]:
    """Endless experiments of the family `second_order` whose budget cannot tell that the targets are met: what is
    estimated is the most that a run may take, and they take it."""
    generator = np.random.default_rng(seed)
    targets = {"gradient_target": 0.01, "curvature_target": 0.02}
    while True:
        rows, dimension = _log(generator, 1000, 200_000), _log(generator, 2, 200)
        kind = _one(generator, (RobustComponent, LogisticTukey, SigmoidTukey))
        method = _one(generator, (ShortStep, LineSearch, MiniBatch, TrustRegion, MiniBatchTrustRegion))
        batch = (
            {"batch_fraction": _one(generator, (0.01, 0.05, 0.3))} if "batch_fraction" in method.model_fields else {}
        )
        steps = _log(generator, 5, 500)
        experiment = Experiment(
            problem=kind(data=Saddle(rows=rows, dimension=dimension), start="random"),
            arms=(Arm(label="a", algorithm=method(iterations=steps, **targets, **batch)),),
            budget=ApproximateDP(epsilon=0.05, delta=1e-5),
            replicates=_log(generator, 1, 50),
        )
        yield Drawn(experiment, experiment.plans())


def values_only(seed: int) -> Iterator[Drawn]:
    """Endless experiments of the family `zeroth_order`: one or two methods on any of its problems."""
    generator = np.random.default_rng(seed)
    methods = (VarianceReduced, Naive, VarianceReduced, DirectionalDescent, FirstOrder)
    while True:
        with suppress(UserError, ValidationError):
            kind = _one(generator, (PhaseRetrieval, CappedRegression, ReluNetwork, Votes, BentValley))
            data = {"data": _specification(generator, UniformLinear)} if issubclass(kind, TableModel) else {}
            experiment = Experiment(
                problem=_specification(generator, kind, **data),
                arms=tuple(
                    Arm(label=label, algorithm=_specification(generator, _one(generator, methods)))
                    for label in ("a", "b")[: int(generator.integers(1, 3))]
                ),
                budget=GaussianDP(mu=_log(generator, 1, 100) / 10),
                replicates=_log(generator, 1, 50),
            )
            yield Drawn(experiment, experiment.plans())


def measured(subject: Drawn, seconds: float) -> Taken:
    """Run it in a copy of this process, which is ended after so many seconds of CPU time.

    The bytes are those by which the address space grew, at its highest: private data, as the limit of a worker counts.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(subject, seconds, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read().split()
    _, status, used = os.wait4(child, 0)
    if status or len(found) != 2:
        return Taken(used.ru_utime + used.ru_stime, np.nan, False)
    return Taken(float(found[0]), float(found[1]), True)


def _run(subject: Drawn, seconds: float, writing: int) -> None:
    """In the child: run, write what it took, and end."""
    status = 1
    try:
        limit = int(np.ceil(time.process_time() + seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        before, began = _kilobytes("VmSize"), time.process_time()
        subject.experiment.run(subject.tables)
        taken = time.process_time() - began
        os.write(writing, f"{taken} {1024.0 * (_kilobytes('VmPeak') - before)}".encode())
        status = 0
    finally:
        os._exit(status)


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


# ------------------------------------------------------------------------------------------------------------- problems


def _model(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    source = _one(generator, [*GENERATORS, accelerated.QUADRATIC, mirror.UPLOAD])
    if source == accelerated.QUADRATIC:
        return _specification(generator, Quadratic), {}
    data: Any
    data, tables = _table(generator) if source == mirror.UPLOAD else (_specification(generator, GENERATORS[source]), {})
    number = data.facts().target is not None
    losses = [LeastSquares, HuberRegression] if number else list(accelerated.LOSSES.values())
    cls = _one(generator, losses)
    return _specification(generator, cls, ("threshold", *accelerated.MODEL), data=data), tables


def _table(generator: np.random.Generator) -> tuple[UploadedTable, Tables]:
    n, d = _log(generator, 100, 300_000), _log(generator, 1, 100)
    names, bounds = tuple(f"column {j}" for j in range(d)), ((0.0, 1.0),) * d
    rows = np.column_stack([generator.random((n, d)), np.sign(generator.random(n) - 0.5)])
    return UploadedTable(identity=IDENTITY, n=n, bounds=bounds, names=names), {IDENTITY: rows}


def _game(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    name = _one(generator, list(mirror.PROBLEMS))
    cls, parts = mirror.PROBLEMS[name], dict[str, Any]()
    tables: Tables = {}
    sources = [*mirror.SOURCES.get(name, {}), *([mirror.UPLOAD] if name in mirror.UPLOADS else [])]
    if sources:
        source = _one(generator, sources)
        if source != mirror.UPLOAD:
            parts["data"] = _specification(generator, mirror.SOURCES[name][source])
        elif name == "synthetic":
            parts["data"], tables = _survey(generator)
        else:
            parts["data"], tables = _groups(generator, issubclass(cls, LossMatrix))
    return _specification(generator, cls, **parts), tables


def _survey(generator: np.random.Generator) -> tuple[CategoricalUpload, Tables]:
    n, sizes = _log(generator, 100, 300_000), list[int]()
    most = _log(generator, 4, 50_000)
    while len(sizes) < 12:
        size = int(generator.integers(2, 12))
        if np.prod([*sizes, size]) > most:
            break
        sizes.append(size)
    sizes = sizes or [2]
    columns = tuple((f"column {j}", tuple(f"{k}" for k in range(size))) for j, size in enumerate(sizes))
    codes = np.column_stack([generator.integers(0, size, n) for size in sizes]).astype(np.int16)
    return CategoricalUpload(identity=IDENTITY, n=n, columns=columns), {IDENTITY: codes}


def _groups(generator: np.random.Generator, losses: bool) -> tuple[GroupedUpload, Tables]:
    n, d, count = _log(generator, 100, 200_000), _log(generator, 2, 100), int(generator.integers(2, 10))
    rows = generator.random((n, d))
    labels = np.zeros(n) if losses else np.sign(generator.random(n) - 0.5)
    data = GroupedUpload(
        identity=IDENTITY,
        n=n,
        bounds=((0.0, 1.0),) * d,
        names=tuple(f"column {j}" for j in range(d)),
        groups=tuple(f"group {g}" for g in range(count)),
        shares=(1 / count,) * count,
        target=None if losses else "target",
    )
    return data, {IDENTITY: np.column_stack([rows, labels, generator.integers(0, count, n)])}


# ------------------------------------------------------------------------------------------------------------- settings


def _specification(
    generator: np.random.Generator, cls: type[Any], names: Collection[str] | None = None, **parts: Any
) -> Any:
    """One with every control drawn from its range, evenly on the scale that its slider has."""
    drawn_values = {
        control.name: _value(generator, control)
        for control in cls.controls()
        if control.name not in parts and (names is None or control.name in names)
    }
    if drawn_values.get("shape") == "own":
        drawn_values["vertices"] = ((0.5, 0.0), (0.0, 0.5), (-0.5, -0.5))
    return cls(**drawn_values, **parts)


def _value(generator: np.random.Generator, control: Control) -> Any:
    """A third of the controls are left as they are."""
    if not generator.integers(3):
        return control.default
    if control.options is not None:
        return _one(generator, list(control.options))
    if control.type is bool:
        return bool(generator.integers(2))
    if control.low is None or control.high is None or (control.optional and generator.integers(2)):
        return control.default
    low, high = control.low, control.high
    if control.scale == "log":
        found = float(np.exp(generator.uniform(np.log(low), np.log(high))))
    else:
        found = float(generator.uniform(low, high))
    return round(found) if control.type is int else min(max(found, low), high)


def _one(generator: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(generator.integers(len(options)))]


def _log(generator: np.random.Generator, low: int, high: int) -> int:
    return round(float(np.exp(generator.uniform(np.log(low), np.log(high)))))
