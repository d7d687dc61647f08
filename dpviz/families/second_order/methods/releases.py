"""State of a run, and payment for its releases: one by one under a filter, or all of an iteration with its batch.

A run has R replicates. Arguments `replicates` (R',) are the numbers of those concerned, ascending; other arguments with
the leading axis R' belong to them in this order.
"""

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
    """State of R replicates between two iterations.

    x : (R, d) their points. iteration : number of the last iteration, 0 at the start. status : (R,) of each replicate:
    "running", or the word for how it ended. released : by metric, (R,) the values released last; the noisy smallest
    eigenvalue is nan for replicates that released none in this iteration.
    """

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.iteration = 0
        self.status = np.full(len(x), "running", dtype=object)
        self.released = {metric.name: np.full(len(x), np.nan) for metric in (NOISY_GRADIENT, NOISY_CURVATURE, KIND)}

    @property
    def running(self) -> np.ndarray:
        """Numbers (R',) of the replicates that go on."""
        return np.flatnonzero(self.status == "running")

    def begin(self) -> np.ndarray:
        """Begin the next iteration and return (R',) the numbers of the replicates that take part in it.

        The arrays are copied, because snapshots refer to the old ones.
        """
        self.iteration += 1
        self.x, self.released = self.x.copy(), {name: values.copy() for name, values in self.released.items()}
        replicates = self.running
        self.released[NOISY_CURVATURE.name][replicates] = np.nan
        return replicates

    def end(self, replicates: np.ndarray, status: str) -> None:
        """End these replicates with this status."""
        self.status[replicates] = status

    def keep(self, replicates: np.ndarray, is_kept: np.ndarray, otherwise: str) -> np.ndarray:
        """Return those of `replicates` for which `is_kept` (R',) is True; end the others with status `otherwise`."""
        self.end(replicates[~is_kept], otherwise)
        return replicates[is_kept]

    def move(self, replicates: np.ndarray, change: np.ndarray, kind: int) -> None:
        """Move these replicates by `change` (R', d) in a step of this kind; end those that would diverge, without
        moving them."""
        new_x = self.x[replicates] + change
        is_finite = within_bounds(new_x)
        self.x[replicates[is_finite]] = new_x[is_finite]
        self.released[KIND.name][replicates] = kind
        self.end(replicates[~is_finite], "diverged")

    def stop(self, replicates: np.ndarray) -> None:
        """Stop these replicates, which have met the targets."""
        self.released[KIND.name][replicates] = STOP
        self.end(replicates, "converged")

    def snapshot(self, iteration: int, metrics: Sequence[Metric], charged: Mapping[str, np.ndarray]) -> Snapshot:
        """Return the snapshot of all replicates after an iteration, with the values of these metrics.

        charged : by metric, (R,) values that the payment for releases keeps; other values are the state's.
        """
        series, is_running = {**self.released, **charged}, self.status == "running"
        released = {metric.name: series[metric.name] for metric in metrics}
        return Snapshot(iteration, {"x": self.x}, released, active=is_running, status=tuple(self.status.tolist()))


def within_bounds(values: np.ndarray) -> np.ndarray:
    """Return (R,) bool: True for a replicate whose values (R, ...) are all finite and too small to count as
    diverged."""
    return np.asarray((np.abs(values) < DIVERGED).all(axis=tuple(range(1, values.ndim))))


class Releases(Protocol):
    """Releases of a method, and the payment for them."""

    def begin(self, t: int, replicates: np.ndarray) -> None:
        """Begin iteration t, from 1, for the replicates (R',) that take part in it."""

    def payable(self, purpose: Purpose, replicates: np.ndarray) -> np.ndarray:
        """Return (R',) bool: True for a replicate whose budget can pay for a release for this purpose."""

    def sample(self, replicates: np.ndarray) -> batches.Batch | None:
        """Return the batch of data rows on which the next query of these replicates must be computed; None for the
        whole table."""

    def gaussian(self, query: releases.Query, purpose: Purpose, replicates: np.ndarray) -> np.ndarray:
        """Release the query, charging these replicates for the purpose; return its noisy values (R', ...)."""

    def charged(self) -> dict[str, np.ndarray]:
        """Return by metric, (R,) each, what every replicate has been charged so far, and the scale of its noise if that
        varies. All of it may be published."""


class SeparateReleases(Releases):
    """Payment for every release by its own event, under a filter that adds up what each replicate spends; so fewer
    releases cost less."""

    def __init__(self, plan: Plan, mechanisms: Mechanisms) -> None:
        assert isinstance(plan.terms, ledger.Filter)
        self._terms, self._mechanisms = plan.terms, mechanisms
        self._phases = plan.schedule["phase"].astype(int)  # number of each iteration's phase, from 0
        self._phase = 0
        self._used = np.zeros(mechanisms.replicates, dtype=int)  # releases of the first phase other than gradients
        self._spent = {purpose: np.zeros(mechanisms.replicates) for purpose in get_args(Purpose)}  # in ρ
        self._gradient_noise = np.full(mechanisms.replicates, np.nan)  # scale at the last gradient

    def begin(self, t: int, replicates: np.ndarray) -> None:
        self._phase = int(self._phases[t - 1])

    def payable(self, purpose: Purpose, replicates: np.ndarray) -> np.ndarray:
        can_pay = np.zeros(len(replicates), dtype=bool)
        for event, indices in self._events(purpose, replicates):
            can_pay[indices] = self._mechanisms.affordable(event)[replicates[indices]]  # (R,) bool, at these replicates
        return can_pay

    def sample(self, replicates: np.ndarray) -> None:
        return None

    def gaussian(self, query: releases.Query, purpose: Purpose, replicates: np.ndarray) -> np.ndarray:
        noisy = np.empty_like(query.value)
        for event, indices in self._events(purpose, replicates):
            part = _part(query, indices)
            noisy[indices] = self._mechanisms.gaussian(part, event, replicates[indices])
            if purpose == "gradient":  # the scale at sensitivity 1, times the sensitivity at the point
                self._gradient_noise[replicates[indices]] = noise_scale(event, sensitivity=1.0) * part.sensitivity
        self._charge(purpose, replicates)
        return noisy

    def above_threshold(self, query: releases.Query, replicates: np.ndarray) -> np.ndarray:
        """Release (R',) the index of the first of a query's values (R', k) that seems to reach 0, by the sparse vector
        technique; -1 where none does."""
        index = np.empty(len(replicates), dtype=int)
        for event, indices in self._events("search", replicates):
            index[indices] = self._mechanisms.above_threshold(_part(query, indices), event, replicates[indices])
        self._charge("search", replicates)
        return index

    def products(
        self, matrices: Callable[[np.ndarray], matrix_products.MatrixQuery], x: np.ndarray, replicates: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Pay for a noisy matrix at each of the points x (R', d), such as a Hessian; return a function from directions
        (R', d) to the products (R', d) of the matrices with them.

        matrices : function from points to the query of their exact matrices, by products.
        """
        by_group = []  # replicates with the same event
        for event, indices in self._events("hessian", replicates):
            group_products = self._mechanisms.matrix_products(matrices(x[indices]), event, replicates[indices])
            by_group.append((indices, group_products))
        self._charge("hessian", replicates)

        def times(directions: np.ndarray) -> np.ndarray:
            result = np.empty_like(directions)
            for indices, group_products in by_group:
                result[indices] = group_products.times(directions[indices])
            return result

        return times

    def directions(self, d: int, replicates: np.ndarray) -> np.ndarray:
        """Draw (R', d) standard normal numbers from the public streams of these replicates; they do not depend on the
        data."""
        samples = [self._mechanisms.public[r].standard_normal(d) for r in replicates]
        return np.array(samples).reshape(len(replicates), d)  # also for no replicates

    def _events(self, purpose: Purpose, replicates: np.ndarray) -> Iterator[tuple[events.Event, np.ndarray]]:
        """Yield each event that pays for the release, with the indices (into `replicates`) of those for which it does.

        It is one event for all, except where the second phase spends what the first did not use: that differs between
        replicates, by the number of optional releases that each has used.
        """
        event_of_all = self._terms.allowed.get(planning.release_name(purpose, self._phase))
        if event_of_all is not None:
            yield event_of_all, np.arange(len(replicates))
            return
        used = self._used[replicates]
        for count in np.unique(used).tolist():
            yield self._terms.allowed[planning.release_name(purpose, self._phase, count)], np.flatnonzero(used == count)

    def _charge(self, purpose: Purpose, replicates: np.ndarray) -> None:
        """Add the price of a release, in ρ, to the charges of these replicates, and count it if it is an optional one
        of the first phase."""
        spent = self._spent[purpose]
        for event, indices in self._events(purpose, replicates):
            spent[replicates[indices]] += planning.in_rho(event, self._terms.currency)
        if self._phase == 0 and purpose != "gradient":
            self._used[replicates] += 1

    def charged(self) -> dict[str, np.ndarray]:
        curvature_tests = self._spent["hessian"] + self._spent["certificate"]
        spent = {"gradient": self._spent["gradient"], "hessian": curvature_tests, "search": self._spent["search"]}
        # Without privacy a release costs infinity, which is shown as no number.
        by_metric = {f"{purpose}_charged": np.where(np.isinf(rho), np.nan, rho) for purpose, rho in spent.items()}
        return {**by_metric, GRADIENT_NOISE.name: self._gradient_noise.copy()}


class BatchReleases(Releases):
    """Payment for all releases of an iteration at once, whether it uses them or not, when the batch of the iteration is
    drawn. So every replicate that takes part can pay for all of them."""

    def __init__(self, plan: Plan, mechanisms: Mechanisms) -> None:
        self._events, self._mechanisms = plan.events, mechanisms
        self._charged = np.zeros(mechanisms.replicates)  # number of iterations

    def begin(self, t: int, replicates: np.ndarray) -> None:
        self._batch, self._replicates = self._mechanisms.batch(self._events[t - 1], replicates), replicates
        self._charged[replicates] = t

    def payable(self, purpose: Purpose, replicates: np.ndarray) -> np.ndarray:
        return np.ones(len(replicates), dtype=bool)

    def sample(self, replicates: np.ndarray) -> batches.Batch:
        if len(replicates) < len(self._replicates):  # within an iteration replicates only drop out
            indices = np.searchsorted(self._replicates, replicates)  # of `replicates` in the old ones; both ascend
            self._batch, self._replicates = self._batch.part(indices), replicates
        return self._batch

    def gaussian(self, query: releases.Query, purpose: Purpose, replicates: np.ndarray) -> np.ndarray:
        return self._batch.gaussian(query)  # `replicates` are those of the last `sample`

    def charged(self) -> dict[str, np.ndarray]:
        return {"iterations_charged": self._charged.copy()}


def _part(query: releases.Query, indices: np.ndarray) -> releases.Query:
    """Return the part of a query that belongs to the replicates at these indices of its leading axis."""
    if len(indices) == len(query.value):
        return query
    has_one_each = np.ndim(query.sensitivity) > 0  # for every replicate; else it is the same for all
    sensitivity = np.asarray(query.sensitivity)[indices] if has_one_each else query.sensitivity
    return query._replace(value=query.value[indices], sensitivity=sensitivity)
