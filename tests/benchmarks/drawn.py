"""Experiments drawn at random from what the controls of the pages allow, and what a run of one really takes."""

import os
import resource
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpviz.datasets import UploadedTable
from dpviz.datasets.categories import CategoricalUpload
from dpviz.datasets.groups import GroupedUpload
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import LossMatrix
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import Control
from dpviz.ui.accelerated import page as accelerated
from dpviz.ui.bayesian_optimization import page as tuning
from dpviz.ui.experiment.controls import BY_NAME, CURRENCIES
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.problem_menu import ANY, UPLOAD
from dpviz.ui.families import FAMILIES
from dpviz.ui.mirror_descent import page as mirror
from dpviz.ui.second_order import page as second_order
from dpviz.ui.uploads.table import GENERATORS
from dpviz.ui.zeroth_order import page as zeroth_order

PAGES: Mapping[str, FamilyPage] = {family.name: family.page() for family in FAMILIES}
IDENTITY = "0" * 32
Tables = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Drawn:
    """An experiment of a page, ready to run: with the plans of the methods that have one, and an upload's table."""

    experiment: Experiment
    plans: Mapping[str, Plan]
    tables: Tables = field(default_factory=dict)


def drawn(family: str, seed: int) -> Iterator[Drawn]:
    """Endless experiments of a page. Settings that do not go together are drawn again, as a visitor would."""
    generator, page = np.random.default_rng(seed), PAGES[family]
    while True:
        with suppress(UserError):
            problem, tables = PROBLEMS[family](generator)
            offered = list(page.offer(type(problem)).methods or page.catalogue.methods)
            labels = generator.choice(offered, min(len(offered), int(generator.integers(1, 5))), replace=False).tolist()
            shared = page.catalogue.controls()
            settings = {name: _value(generator, control) for name, control in shared.items()}
            for name, nested in page.catalogue.nested().items():
                if generator.integers(2):
                    settings[name] = _specification(generator, nested)
            references = bool(generator.integers(2))
            arms = page.catalogue.arms(
                labels,
                references=references,
                **{
                    name: value
                    for name, value in settings.items()
                    if (value != BY_NAME and value is not None) or name not in page.catalogue.by_name
                },
            )
            planned = Experiment(
                problem=problem,
                arms=arms,
                budget=_specification(generator, _one(generator, list(CURRENCIES.values()))),
                replicates=_log(generator, 1, 200),
                seed=0,
            ).planned()
            yield Drawn(planned.ready(), planned.plans, tables)


def measured(subject: Drawn, seconds: float) -> float:
    """Bytes by which the address space grew at its highest, as the limit of a worker counts, while it ran in a copy of
    this process; nan if it was ended after so many seconds of CPU time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(subject, seconds, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    _, status = os.waitpid(child, 0)
    return float(found) if found and not status else np.nan


def _run(subject: Drawn, seconds: float, writing: int) -> None:
    """In the child: run, write what it took, and end."""
    status = 1
    try:
        limit = int(np.ceil(time.process_time() + seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        before = _kilobytes("VmSize")
        subject.experiment.run(subject.tables)
        os.write(writing, f"{1024.0 * (_kilobytes('VmPeak') - before)}".encode())
        status = 0
    finally:
        os._exit(status)


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


# ------------------------------------------------------------------------------------------------------------- problems


def _model(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    source = _one(generator, [*GENERATORS, accelerated.QUADRATIC, UPLOAD])
    if source == accelerated.QUADRATIC:
        return _specification(generator, Quadratic), {}
    data: Any
    data, tables = _table(generator) if source == UPLOAD else (_specification(generator, GENERATORS[source]), {})
    number = data.facts().target_range is not None
    losses = [LeastSquares, HuberRegression] if number else list(accelerated.LOSSES.values())
    cls = _one(generator, losses)
    return _specification(generator, cls, ("threshold", *accelerated.MODEL), data=data), tables


def _nonconvex(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    source = _one(generator, [*second_order.GENERATORS, UPLOAD])
    data: Any
    if source == UPLOAD:
        data, tables = _table(generator)
    else:
        data, tables = _specification(generator, second_order.GENERATORS[source]), {}
    cls = _one(generator, list(second_order.LOSSES.values()))
    return _specification(generator, cls, ("regularisation", *second_order.MODEL), data=data), tables


def _values(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    source = _one(generator, [*zeroth_order.SIMULATED, *zeroth_order.GENERATORS, UPLOAD])
    if source in zeroth_order.SIMULATED:
        return _specification(generator, zeroth_order.SIMULATED[source]), {}
    data: Any
    if source == UPLOAD:
        data, tables = _table(generator)
    else:
        data, tables = _specification(generator, zeroth_order.GENERATORS[source]), {}
    return _specification(generator, _one(generator, list(zeroth_order.MODELS.values())), data=data), tables


def _tuned(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    model = _one(generator, list(tuning.MODELS))
    source = _one(generator, [tuning.DRAWN, *tuning.GENERATORS])
    data = _specification(
        generator, tuning.default_generator(model) if source == tuning.DRAWN else tuning.GENERATORS[source]
    )
    return _specification(generator, tuning.MODELS[model], data=data), {}


def _table(generator: np.random.Generator) -> tuple[UploadedTable, Tables]:
    n, d = _log(generator, 100, 300_000), _log(generator, 1, 100)
    names, bounds = tuple(f"column {j}" for j in range(d)), ((0.0, 1.0),) * d
    rows = np.column_stack([generator.random((n, d)), np.sign(generator.random(n) - 0.5)])
    return UploadedTable(identity=IDENTITY, n=n, bounds=bounds, names=names), {IDENTITY: rows}


def _game(generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    name = _one(generator, list(mirror.PROBLEMS))
    cls, parts = mirror.PROBLEMS[name], dict[str, Any]()
    tables: Tables = {}
    sources = [*mirror.SOURCES.get(name, {}), *([UPLOAD] if name in mirror.UPLOADS else [])]
    if sources:
        source = _one(generator, sources)
        if source != UPLOAD:
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


def _any(page: FamilyPage, generator: np.random.Generator) -> tuple[ProblemSpecification, Tables]:
    """Of a page without files and settings of its own: any of its problems, on any of its generators."""
    menu = page.problems
    name = _one(generator, list(menu.problems))
    sources = menu.sources.get(name) or menu.sources.get(ANY, {})
    known = [source.cls for source in sources.values() if source.cls is not None]
    data = {"data": _specification(generator, _one(generator, known))} if known else {}
    return _specification(generator, menu.problems[name].cls, **data), {}


_SPECIAL = {
    "accelerated": _model,
    "mirror_descent": _game,
    "second_order": _nonconvex,
    "zeroth_order": _values,
    "bayesian_optimization": _tuned,
}
PROBLEMS: Mapping[str, Callable[[np.random.Generator], tuple[ProblemSpecification, Tables]]] = {
    name: _SPECIAL.get(name, partial(_any, page)) for name, page in PAGES.items()
}


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
