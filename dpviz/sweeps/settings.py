"""The numbers among an experiment's settings, with their addresses: what a sweep can vary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.specification import Control, Specification

SEED = "seed"
_DIGITS = 3  # of the values between both ends


@dataclass(frozen=True)
class Setting:
    """A number that can be varied: its declared range, and its addresses, several if methods share it."""

    control: Control
    fields: tuple[str, ...]

    @property
    def title(self) -> str:
        """In words, with symbol and unit."""
        return self.control.title

    @property
    def usual(self) -> tuple[float, float]:
        """A range to begin with: a factor of ten on either side of the default on a log scale, else all of it."""
        low, high, default = self.control.low or 0.0, self.control.high or 1.0, self.control.default
        if self.control.scale == "linear" or not default:
            return low, high
        return max(low, self._rounded(default / 10)), min(high, self._rounded(default * 10))

    def grid(self, low: float, high: float, count: int) -> tuple[float, ...]:
        """At most `count` values from low to high, evenly spaced on the declared scale; whole numbers once each.

        Values between the ends are rounded to three digits. Raises UserError if the range is empty.
        """
        if not low < high:
            raise UserError(f"{self.control.label}: “From” must be below “To”.", title="This range is empty")
        spaced = np.geomspace if self.logarithmic and low > 0 else np.linspace
        between = {self._rounded(value) for value in spaced(low, high, count)[1:-1].tolist()}
        return tuple(sorted({float(low), *between, float(high)}))

    @property
    def logarithmic(self) -> bool:
        """Whether its values are spaced by factors."""
        return self.control.scale == "log"

    def _rounded(self, value: float) -> float:
        rounded = float(f"{value:.{_DIGITS}g}")
        return float(round(rounded)) if self.control.type is int else rounded


def settings(experiment: Experiment) -> dict[str, Setting]:
    """What can be varied, by a name for each: the budget, what the methods share, the problem, and its data.

    A setting of the methods is varied in all that have it, references included. Repeats and seeds are not among them.
    """
    shared: dict[str, Setting] = {}
    for position, arm in enumerate(experiment.arms):
        for name, setting in _addressed(arm.algorithm, f"arms.{position}.algorithm").items():
            before = shared.get(name)
            shared[name] = replace(before, fields=before.fields + setting.fields) if before else setting
    found = {**_addressed(experiment.budget, "budget"), **shared}
    for owner, address in ((experiment.problem, "problem"), (experiment.problem.dataset, "problem.data")):
        if owner is not None:
            found |= {f"{address.rpartition('.')[2]}_{name}": part for name, part in _addressed(owner, address).items()}
    return found


def data_seed(experiment: Experiment) -> str:
    """The address of the seed that the data are generated from; empty where there is none."""
    data = experiment.problem.dataset
    return f"problem.data.{SEED}" if data is not None and SEED in type(data).model_fields else ""


def named(experiment: Experiment, fields: Sequence[str]) -> Setting | None:
    """The setting with these addresses, or the one of which they are a part."""
    return next((found for found in settings(experiment).values() if set(fields) <= set(found.fields)), None)


def numbers(owner: Specification) -> Iterator[Control]:
    """What of it is a number with a range; a seed, of which no value is more than another, is not among them."""
    return (
        control for control in type(owner).controls() if control.low is not None and not control.name.endswith(SEED)
    )


def _addressed(owner: Specification, address: str) -> Mapping[str, Setting]:
    return {control.name: Setting(control, (f"{address}.{control.name}",)) for control in numbers(owner)}
