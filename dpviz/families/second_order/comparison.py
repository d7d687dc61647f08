"""The paper's tables beside a run of ours: what was printed, what comes of it here, and what the plan says before."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpviz.families.second_order import texts
from dpviz.families.second_order.advice import Forecast
from dpviz.families.second_order.published import EPSILONS, Cell
from dpviz.numbers import short
from dpviz.sweeps.sweep_result import Ended, SweepResult

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
            "Finished, paper": _finished(cell),
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


def _finished(cell: Cell) -> str:
    lost = "" if cell.legible else " (not legible)"
    return f"{'yes' if cell.finished else '×'}{lost}"


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
