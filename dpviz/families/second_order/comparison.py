"""The paper's two tables beside a run of ours: what was printed, what comes of it here, and what the plan says before.

Printed are final loss and run time of every method at three budgets, and who finished; the numbers stand in
`published.toml`. The poster says neither what the numbers before and after "±" are, nor over how many runs, nor the
unit of time. The authors' program has five runs, each from a start of its own: mean and spread over these are an
inference.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from dpviz import resources
from dpviz.families.second_order import texts
from dpviz.families.second_order.advice import Forecast
from dpviz.numbers import short
from dpviz.sweeps.sweep_result import Ended, SweepResult

Tolerances = Literal["loose", "tight"]
Mode = Literal["honest", "published"]
EPSILONS = (0.2, 0.6, 1.0)
ROWS = 495_141
TARGETS: Mapping[Tolerances, tuple[float, float]] = MappingProxyType({"loose": (0.060, 0.245), "tight": (0.030, 0.173)})


def rho_of(epsilon: float) -> float:
    """The ρ that the paper takes for (ε, 1/n)-DP: it implies it, and is smaller than need be."""
    log_n = math.log(ROWS)
    return (math.sqrt(epsilon + log_n) - math.sqrt(log_n)) ** 2


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    loss, loss_spread : the final loss, before and after "±". seconds, seconds_spread : the run time, in a unit that is
    not stated; None where a run did not finish within its steps, which is printed as ×. legible : False where the
    printed time is lost, and whether it finished is told by a run of ours.
    """

    loss: float
    loss_spread: float
    seconds: float | None = None
    seconds_spread: float | None = None
    finished: bool = True
    legible: bool = True


_PRINTED = resources.data(__package__, "published.toml")
# By tolerances and method, at these budgets.
TABLES: Mapping[Tolerances, Mapping[str, tuple[Cell, ...]]] = MappingProxyType(
    {
        tolerances: {method: tuple(Cell(**cell) for cell in cells) for method, cells in _PRINTED[tolerances].items()}
        for tolerances in TARGETS
    }
)


Lights = Mapping[float, Mapping[str, Forecast]]  # by the value of a sweep, and by method


def rows(
    table: Mapping[str, Sequence[Cell]], epsilon: float, ends: Mapping[str, Ended], lights: Mapping[str, Forecast]
) -> list[dict[str, Any]]:
    """A table of the paper at one of its budgets, a row for each method; what is not known yet is None.

    ends, lights : what is known of a run here, and of its plan, by method. Run times are over that of the quickest
    method that finished, there and here.
    """
    cells = {label: found[EPSILONS.index(epsilon)] for label, found in table.items()}
    theirs = min(cell.seconds for cell in cells.values() if cell.seconds is not None)
    times = [end.seconds for end in ends.values() if _converged(end) == len(end.samples)]
    ours = min(times, default=float("nan"))
    return [
        {
            "Method": label,
            "Before": texts.light(lights[label]).partition(":")[0] if label in lights else None,
            "Loss, paper": f"{cell.loss:.3f} ± {cell.loss_spread:.3f}",
            "Loss, here": _loss(ends.get(label)),
            "Finished, paper": ("yes" if cell.finished else "×") + " (not legible)" * (not cell.legible),
            "Finished, here": _counted(ends.get(label)),
            "Time, paper": None if cell.seconds is None else f"{short(cell.seconds / theirs, 2)}×",
            "Time, here": _time(ends.get(label), ours),
        }
        for label, cell in cells.items()
    ]


def ends(result: SweepResult | None, value: float) -> dict[str, Ended]:
    """What a sweep has found so far at a value of its setting, by method."""
    if result is None:
        return {}
    return {label: end for label, curve in result.curves.items() for end in curve.ends if end.place.value == value}


def _converged(end: Ended) -> int:
    return 0 if end.endings is None else end.endings.status.get("converged", 0)


def _loss(end: Ended | None) -> str | None:
    return None if end is None else f"{end.samples.mean():.3f} ± {end.samples.std():.3f}"


def _counted(end: Ended | None) -> str | None:
    if end is None or end.endings is None:
        return None
    found = end.endings
    steps = f", step {short(found.median_stop, 4)}" if _converged(end) else ""
    return f"{_converged(end)} of {found.replicates}{steps}"


def _time(end: Ended | None, quickest: float) -> str | None:
    if end is None or _converged(end) < len(end.samples):
        return None
    return f"{short(end.seconds / quickest, 2)}×"
