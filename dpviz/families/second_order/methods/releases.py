"""How the releases of a run are paid for: each by itself under a filter, or all of an iteration with its batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, get_args

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning
from dpviz.families.second_order.planning import Purpose
from dpviz.privacy import batches, events, ledger, matrix_products, releases
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Metric

GRADIENT, CURVATURE, STOP, TRUST_REGION, PERTURBATION = range(5)  # kinds of steps

NOISY_GRADIENT = Metric("noisy_gradient_norm", "Noisy gradient norm ‖g̃_t‖", released=True, scale="log")
GRADIENT_NOISE = Metric("gradient_noise", "Noise of the gradient s_g, as drawn", released=True, scale="log", better="")
NOISY_CURVATURE = Metric("noisy_curvature", "Noisy smallest eigenvalue λ̃_min", released=True, better="higher")
KIND = Metric(
    "step_kind", "Step (0 gradient, 1 curvature, 2 stop, 3 trust region, 4 perturbation)", released=True, better=""
)


class State:
    """Points x (R, d), status, and what the last releases said; `noisy_curvature` is NaN where none was asked for."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.iteration = 0
        self.status = np.full(len(x), "running", dtype=object)
        self.shown = {metric.name: np.full(len(x), np.nan) for metric in (NOISY_GRADIENT, NOISY_CURVATURE, KIND)}

    @property
    def going(self) -> np.ndarray:
        """(R',) the replicates that go on."""
        return np.flatnonzero(self.status == "running")

    def begin(self) -> np.ndarray:
        """The replicates of the next iteration; whatever was shown of the last one stays as it is."""
        self.iteration += 1
        self.x, self.shown = self.x.copy(), {name: values.copy() for name, values in self.shown.items()}
        rows = self.going
        self.shown[NOISY_CURVATURE.name][rows] = np.nan
        return rows

    def end(self, rows: np.ndarray, word: str) -> None:
        """These replicates have ended."""
        self.status[rows] = word

    def kept(self, rows: np.ndarray, kept: np.ndarray, otherwise: str) -> np.ndarray:
        """Those of `rows` (R',) that are `kept` (R',) bool; the others end with this word."""
        self.end(rows[~kept], otherwise)
        return rows[kept]

    def move(self, rows: np.ndarray, by: np.ndarray, kind: int) -> None:
        """x ← x + by (R', d); who would get lost stays where it was, and has diverged."""
        after = self.x[rows] + by
        sound = within_bounds(after)
        self.x[rows[sound]] = after[sound]
        self.shown[KIND.name][rows] = kind
        self.end(rows[~sound], "diverged")

    def stop(self, rows: np.ndarray) -> None:
        """These have met their goal, and stay."""
        self.shown[KIND.name][rows] = STOP
        self.end(rows, "converged")

    def snapshot(self, iteration: int, metrics: Sequence[Metric], charged: Mapping[str, np.ndarray]) -> Snapshot:
        """What all replicates would show now: these metrics, of what was released and charged."""
        known, running = {**self.shown, **charged}, self.status == "running"
        released = {metric.name: known[metric.name] for metric in metrics}
        return Snapshot(iteration, {"x": self.x}, released, active=running, status=tuple(self.status.tolist()))


def within_bounds(values: np.ndarray) -> np.ndarray:
    """(R,) bool: whose values (R, ...) are numbers to go on with."""
    return np.asarray((np.abs(values) < DIVERGED).all(axis=tuple(range(1, values.ndim))))


class Releases(Protocol):
    """What a method asks for, whoever pays. `rows` (R',) are the replicates concerned, ascending."""

    def begin(self, t: int, rows: np.ndarray) -> None:
        """Iteration t begins, for these replicates."""

    def payable(self, purpose: Purpose, rows: np.ndarray) -> np.ndarray:
        """(R',) bool: who can pay for a release."""

    def sample(self, rows: np.ndarray) -> batches.Batch | None:
        """The rows of the data that the next query of these replicates is to be computed on; None for all."""

    def gaussian(self, query: releases.Query, purpose: Purpose, rows: np.ndarray) -> np.ndarray:
        """The query with noise; (R', ...)."""

    def charged(self) -> dict[str, np.ndarray]:
        """Released series of what each replicate has been charged, and the scale of noise that it got, (R,) each."""


class Separate(Releases):
    """Every release has its own event under a filter: who asks for less pays less."""

    def __init__(self, plan: Plan, mechanisms: Mechanisms) -> None:
        assert isinstance(plan.terms, ledger.Filter)
        self._terms, self._mechanisms = plan.terms, mechanisms
        self._phases = plan.schedule["phase"].astype(int)
        self._phase = 0
        self._asked = np.zeros(mechanisms.replicates, dtype=int)  # in the first phase, not counting gradients
        self._spent = {purpose: np.zeros(mechanisms.replicates) for purpose in get_args(Purpose)}
        self._drawn = np.full(mechanisms.replicates, np.nan)  # the scale of a gradient's noise, at last

    def begin(self, t: int, rows: np.ndarray) -> None:
        self._phase = int(self._phases[t - 1])

    def payable(self, purpose: Purpose, rows: np.ndarray) -> np.ndarray:
        able = np.zeros(len(rows), dtype=bool)
        for event, places in self._events(purpose, rows):
            able[places] = self._mechanisms.affordable(event)[rows[places]]
        return able

    def sample(self, rows: np.ndarray) -> None:
        return None

    def gaussian(self, query: releases.Query, purpose: Purpose, rows: np.ndarray) -> np.ndarray:
        found = np.empty_like(query.value)
        for event, places in self._events(purpose, rows):
            part = _part(query, places)
            found[places] = self._mechanisms.gaussian(part, event, rows[places])
            if purpose == "gradient":
                self._drawn[rows[places]] = noise_scale(event, 1.0) * part.sensitivity
        self._book(purpose, rows)
        return found

    def above_threshold(self, query: releases.Query, rows: np.ndarray) -> np.ndarray:
        """The first value that reaches 0, by the sparse vector technique; (R',), -1 where none does."""
        found = np.empty(len(rows), dtype=int)
        for event, places in self._events("search", rows):
            found[places] = self._mechanisms.above_threshold(_part(query, places), event, rows[places])
        self._book("search", rows)
        return found

    def products(
        self, matrices: Callable[[np.ndarray], matrix_products.MatrixQuery], x: np.ndarray, rows: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Products with the noisy matrices at x (R', d), which are paid for here; of directions (R', d)."""
        opened = [
            (places, self._mechanisms.matrix_products(matrices(x[places]), event, rows[places]))
            for event, places in self._events("hessian", rows)
        ]
        self._book("hessian", rows)

        def times(directions: np.ndarray) -> np.ndarray:
            found = np.empty_like(directions)
            for places, products in opened:
                found[places] = products.times(directions[places])
            return found

        return times

    def directions(self, d: int, rows: np.ndarray) -> np.ndarray:
        """(R', d) directions that depend on nothing."""
        return np.array([self._mechanisms.public[r].standard_normal(d) for r in rows]).reshape(len(rows), d)

    def _events(self, purpose: Purpose, rows: np.ndarray) -> Iterator[tuple[events.Event, np.ndarray]]:
        """The event that pays, and the places in `rows` of those for whom it does: what the first phase did not ask for
        is left over for the second one, to each replicate its own."""
        one = self._terms.allowed.get(planning.name(purpose, self._phase))
        if one is not None:
            yield one, np.arange(len(rows))
            return
        asked = self._asked[rows]
        for count in np.unique(asked).tolist():
            yield self._terms.allowed[planning.name(purpose, self._phase, count)], np.flatnonzero(asked == count)

    def _book(self, purpose: Purpose, rows: np.ndarray) -> None:
        spent = self._spent[purpose]
        for event, places in self._events(purpose, rows):
            spent[rows[places]] += planning.in_rho(event, self._terms.currency)
        if self._phase == 0 and purpose != "gradient":
            self._asked[rows] += 1

    def charged(self) -> dict[str, np.ndarray]:
        tests = self._spent["hessian"] + self._spent["certificate"]
        each = {"gradient": self._spent["gradient"], "hessian": tests, "search": self._spent["search"]}
        charged = {f"{purpose}_charged": np.where(np.isinf(rho), np.nan, rho) for purpose, rho in each.items()}
        return {**charged, GRADIENT_NOISE.name: self._drawn.copy()}


class Together(Releases):
    """Each iteration opens one batch, or the whole table, and pays for all its releases at once, used or not."""

    def __init__(self, plan: Plan, mechanisms: Mechanisms) -> None:
        self._events, self._mechanisms = plan.events, mechanisms
        self._charged = np.zeros(mechanisms.replicates)

    def begin(self, t: int, rows: np.ndarray) -> None:
        self._batch, self._rows = self._mechanisms.batch(self._events[t - 1], rows), rows
        self._charged[rows] = t

    def payable(self, purpose: Purpose, rows: np.ndarray) -> np.ndarray:
        return np.ones(len(rows), dtype=bool)

    def sample(self, rows: np.ndarray) -> batches.Batch:
        if len(rows) < len(self._rows):
            self._batch, self._rows = self._batch.part(np.searchsorted(self._rows, rows)), rows
        return self._batch

    def gaussian(self, query: releases.Query, purpose: Purpose, rows: np.ndarray) -> np.ndarray:
        return self._batch.gaussian(query)

    def charged(self) -> dict[str, np.ndarray]:
        return {"iterations_charged": self._charged.copy()}


def _part(query: releases.Query, places: np.ndarray) -> releases.Query:
    """The query of some replicates."""
    if len(places) == len(query.value):
        return query
    change = query.sensitivity
    change = change[places] if isinstance(change, np.ndarray) and change.ndim else change
    return query._replace(value=query.value[places], sensitivity=change)
