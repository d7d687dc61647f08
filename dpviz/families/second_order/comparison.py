"""Comparison of the paper's two tables with runs here: printed numbers, results of the runs, forecasts of the plans.

The tables have final loss and run time of every method at three budgets, and which methods finished; the numbers are in
`published.toml`. The poster explains neither the numbers before and after "±", nor over how many runs they are, nor the
unit of time. The authors' program has five runs from different starts: mean and spread over these are an inference.
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
from dpviz.sweeps.sweep_result import PointRuns, SweepResult

Tolerances = Literal["loose", "tight"]
Mode = Literal["honest", "published"]
EPSILONS = (0.2, 0.6, 1.0)  # budgets of the tables
ROWS = 495_141  # n of the paper's data
# Targets α of the gradient and ε_H of the curvature, by table.
TARGETS: Mapping[Tolerances, tuple[float, float]] = MappingProxyType({"loose": (0.060, 0.245), "tight": (0.030, 0.173)})


def rho_of(epsilon: float) -> float:
    """Return the ρ that the paper uses for (ε, 1/n)-DP, (√(ε + ln n) - √(ln n))². It implies that guarantee, but is
    smaller than necessary."""
    log_n = math.log(ROWS)
    return (math.sqrt(epsilon + log_n) - math.sqrt(log_n)) ** 2


@dataclass(frozen=True)
class Cell:
    """Printed result of one method at one budget.

    loss, loss_spread : numbers before and after "±" of the final loss.
    seconds, seconds_spread : the same of the run time, in a unit that is not stated; None where runs did not finish
        within their steps, which is printed as ×.
    finished : True if runs finished. legible : False where the printed time cannot be read; then `finished` is that of
        a run here.
    """

    loss: float
    loss_spread: float
    seconds: float | None = None
    seconds_spread: float | None = None
    finished: bool = True
    legible: bool = True


_PRINTED = resources.data(__package__, "published.toml")
# Printed results by table ("loose" or "tight") and method, a cell for each of EPSILONS.
TABLES: Mapping[Tolerances, Mapping[str, tuple[Cell, ...]]] = MappingProxyType(
    {
        tolerances: {method: tuple(Cell(**cell) for cell in row) for method, row in _PRINTED[tolerances].items()}
        for tolerances in TARGETS
    }
)


ForecastsByValue = Mapping[float, Mapping[str, Forecast]]  # forecasts by the value of a sweep, and by method


def rows(
    table: Mapping[str, Sequence[Cell]],
    epsilon: float,
    runs_by_label: Mapping[str, PointRuns],
    forecasts: Mapping[str, Forecast],
) -> list[dict[str, Any]]:
    """Return a table of the paper at the budget `epsilon` next to runs here, a row for each method; missing results are
    None.

    Run times are multiples of that of the fastest method that finished, in the paper or here.

    table : printed results by method. runs_by_label : results of the runs here by method. forecasts : from their
        plans by method.
    """
    cells = {label: row[EPSILONS.index(epsilon)] for label, row in table.items()}
    fastest_paper = min(cell.seconds for cell in cells.values() if cell.seconds is not None)
    losses = {label: f"{runs.samples.mean():.3f} ± {runs.samples.std():.3f}" for label, runs in runs_by_label.items()}
    # Of methods all of whose runs finished; `samples` has a number for each run.
    seconds = {label: runs.seconds for label, runs in runs_by_label.items() if _converged(runs) == len(runs.samples)}
    fastest_here = min(seconds.values(), default=float("nan"))
    # Symbol and colour, such as "✓ green", which come before the colon.
    lights = {label: texts.light(forecast).partition(":")[0] for label, forecast in forecasts.items()}
    return [
        {
            "Method": label,
            "Before": lights.get(label),
            "Loss, paper": f"{cell.loss:.3f} ± {cell.loss_spread:.3f}",
            "Loss, here": losses.get(label),
            "Finished, paper": ("yes" if cell.finished else "×") + ("" if cell.legible else " (not legible)"),
            "Finished, here": _finished(runs_by_label.get(label)),
            "Time, paper": None if cell.seconds is None else f"{short(cell.seconds / fastest_paper, 2)}×",
            "Time, here": f"{short(seconds[label] / fastest_here, 2)}×" if label in seconds else None,
        }
        for label, cell in cells.items()
    ]


def runs_at(result: SweepResult | None, value: float) -> dict[str, PointRuns]:
    """Return the results of a sweep so far at one value of the setting that it varies, by method."""
    runs_by_label: dict[str, PointRuns] = {}
    if result is not None:
        for label, curve in result.curves.items():
            for runs in curve.point_runs:
                if runs.key.value == value:
                    runs_by_label[label] = runs
    return runs_by_label


def _converged(runs: PointRuns) -> int:
    """Return the number of runs that met the targets."""
    return 0 if runs.endings is None else runs.endings.status.get("converged", 0)


def _finished(runs: PointRuns | None) -> str | None:
    """Return in words how many runs met the targets, and at which step in the median; None without runs."""
    if runs is None or runs.endings is None:
        return None
    converged = _converged(runs)
    # The median is over all runs that ended early, so it is theirs only if no other did.
    is_theirs = converged > 0 and converged == runs.endings.finished
    median_stop = f", step {short(runs.endings.median_stop, 4)}" if is_theirs else ""
    return f"{converged} of {runs.endings.replicates}{median_stop}"
