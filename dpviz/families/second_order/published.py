"""The paper's two tables, as printed: final loss and run time of every method at three budgets, and who finished.

The poster says neither what the numbers before and after "±" are, nor over how many runs, nor the unit of time. The
authors' program has five runs, each from a start of its own: mean and spread over these are an inference.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Tolerances = Literal["loose", "tight"]
Mode = Literal["honest", "published"]
EPSILONS = (0.2, 0.6, 1.0)
ROWS, DIMENSION = 495_141, 54
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


def _cell(text: str) -> Cell:
    """From "0.729 28 10.1 9.9" (spreads of losses in thousandths), "0.581 57 ×", or "0.535 15 ?×" where illegible."""
    loss, spread, *time = text.split()
    first = float(loss), int(spread) / 1000
    if time[0] in ("×", "?×", "?"):
        return Cell(*first, finished=time[0] == "?", legible=time[0] == "×")
    return Cell(*first, float(time[0]), float(time[1]))


def _table(rows: Mapping[str, tuple[str, str, str]]) -> Mapping[str, tuple[Cell, ...]]:
    return MappingProxyType({label: tuple(map(_cell, cells)) for label, cells in rows.items()})


# By method, at the budgets ε = 0.2, 0.6, 1.0.
TABLES: Mapping[Tolerances, Mapping[str, tuple[Cell, ...]]] = MappingProxyType(
    {
        "loose": _table(
            {
                "DP-TR": ("0.729 28 10.1 9.9", "0.729 26 8.3 8.6", "0.729 26 9.5 9.1"),
                "DP-TR-B": ("0.729 29 2.2 2.0", "0.728 27 2.2 2.4", "0.729 28 2.5 2.4"),
                "OPT": ("0.581 57 ×", "0.712 18 0.6 0.2", "0.712 17 0.5 0.2"),
                "OPT-B": ("0.712 18 3.1 2.9", "0.712 18 3.2 3.0", "0.712 18 2.9 2.9"),
                "OPT-LS": ("0.577 32 ×", "0.687 28 0.4 0.1", "0.699 18 0.4 0.1"),
                "2OPT": ("0.626 78 ×", "0.712 17 0.6 0.2", "0.712 18 0.6 0.2"),
                "2OPT-B": ("0.712 18 1.4 0.3", "0.712 18 1.4 0.4", "0.712 18 2.0 1.7"),
                "2OPT-LS": ("0.699 18 0.5 0.2", "0.699 18 0.5 0.2", "0.699 18 0.5 0.2"),
            }
        ),
        "tight": _table(
            {
                "DP-TR": ("0.516 5 ×", "0.607 7 99.6 32.2", "0.607 5 90.8 21.6"),
                "DP-TR-B": ("0.517 5 ×", "0.603 5 32.6 7.9", "0.607 3 33.4 14.4"),
                "OPT": ("0.506 1 ×", "0.535 15 ?×", "0.592 3 1.8 0.5"),
                "OPT-B": ("0.597 3 1.3 0.3", "0.597 3 ?", "0.597 3 1.4 0.3"),
                "OPT-LS": ("0.525 9 ×", "0.527 9 ?×", "0.549 6 ×"),
                "2OPT": ("0.502 1 ×", "0.513 3 ×", "0.519 3 ×"),
                "2OPT-B": ("0.597 3 2.1 0.4", "0.597 3 2.3 0.5", "0.597 3 2.3 0.6"),
                "2OPT-LS": ("0.577 8 2.1 1.0", "0.591 1 0.6 0.1", "0.591 1 0.8 0.2"),
            }
        ),
    }
)
