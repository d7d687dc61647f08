"""Small methods in the shape of those to come, which use what no method does yet: noise on a Hessian and a stop by its
curvature under a filter, running sums on leaves, the sparse vector technique on a batch. Each can make mistakes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpviz.datasets import UploadedTable
from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget, NoPrivacy, PureDP
from dpviz.privacy.events import Event, Gaussian, Laplace, Seq, StatedPureDP, Sub
from dpviz.privacy.ledger import Filter
from dpviz.privacy.matrix_factorisation import Factorisation, binary_tree, restarted, square_root
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.base import Facts, Metric, Problem, ProblemSpecification
from dpviz.specification import choice, number

# ---------------------------------------------------------------------------------------------------------- the problem


@dataclass(frozen=True)
class CosineFacts(Facts):
    """Every row uᵢ is in the unit cube of d dimensions."""

    def radius(self, norm: Norm) -> float:
        return float(self.d) if norm == "l1" else math.sqrt(self.d)


class Cosine(ProblemSpecification):
    """F(x) = (1/n) Σ cos(uᵢᵀx): maxima, saddles and minima, and all derivatives of a row are bounded."""

    title = "Cosine"
    data: UploadedTable

    @property
    def public(self) -> bool:
        return False

    def facts(self) -> CosineFacts:
        return CosineFacts(n=self.data.n, d=len(self.data.bounds))

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "CosineProblem":
        return CosineProblem(self.facts(), np.clip(self.data.load(tables).features, 0.0, 1.0))


class CosineProblem(Problem):
    """See `Cosine`. A batch of None is the whole table, as is one without indices."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("objective", "Objective"),)
    facts: CosineFacts

    def __init__(self, facts: CosineFacts, rows: np.ndarray) -> None:
        self.facts, self._rows = facts, rows

    def _on(self, batch: Batch | None) -> np.ndarray:
        """(R' or 1, m, d)"""
        return self._rows[None] if batch is None or batch.indices is None else self._rows[batch.indices]

    def gradient(self, x: np.ndarray, batch: Batch | None = None, norm: Norm = "l2") -> Query:
        u = self._on(batch)
        value = -(np.sin(u @ x[:, :, None]) * u).mean(axis=1)
        return Query(value, 2 * self.facts.radius(norm) / u.shape[1], norm, batch)

    def hessian(self, x: np.ndarray) -> Query:
        """As a vector with the Frobenius norm of the matrix (`svec`)."""
        u = self._on(None)
        weighted = -np.cos(u @ x[:, :, None]) * u
        matrix = np.matmul(weighted.transpose(0, 2, 1), np.broadcast_to(u, weighted.shape)) / u.shape[1]
        return Query(svec(matrix), 2 * self.facts.d / u.shape[1], "l2")

    def difference(self, x: np.ndarray, y: np.ndarray, longest: float, batch: Batch) -> Query:
        """Mean of the rows' ∇fᵢ(x) - ∇fᵢ(y), which are at most d ‖x - y‖, for points at most `longest` apart."""
        u = self._on(batch)
        each = -(np.sin(u @ x[:, :, None]) - np.sin(u @ y[:, :, None])) * u
        size = np.linalg.norm(each, axis=2, keepdims=True)
        each = each * np.minimum(1.0, self.facts.d * longest / np.maximum(size, 1e-300))
        return Query(each.mean(axis=1), 2 * self.facts.d * longest / u.shape[1], "l2", batch)

    def decreases(self, x: np.ndarray, moves: np.ndarray, batch: Batch | None) -> Query:
        """F(x) - F(x + move) on the batch for each of the moves (R', k, d)."""
        u = self._on(batch)
        before, after = np.cos(u @ x[:, :, None]), np.cos(u @ (x[:, None] + moves).transpose(0, 2, 1))
        return Query((before - after).mean(axis=1), 4 / u.shape[1], "linf", batch)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return {"objective": np.cos(output["x"] @ self._rows.T).mean(axis=1)}


def svec(matrices: np.ndarray) -> np.ndarray:
    """(R, d, d) symmetric to (R, d (d + 1) / 2), with the same norm: off the diagonal times √2."""
    i, j = np.triu_indices(matrices.shape[-1])
    return np.where(i == j, 1.0, math.sqrt(2)) * matrices[:, i, j]


def smat(vectors: np.ndarray, d: int) -> np.ndarray:
    """The inverse of `svec`: isotropic noise becomes GOE noise, variance σ² on and σ²/2 off the diagonal."""
    i, j = np.triu_indices(d)
    found = np.zeros((len(vectors), d, d))
    found[:, i, j] = found[:, j, i] = vectors / np.where(i == j, 1.0, math.sqrt(2))
    return found


def smallest(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R,) and (R, d): the smallest eigenvalues and their vectors."""
    values, vectors = np.linalg.eigh(matrices)
    return values[:, 0], vectors[:, :, 0]


def broken(values: np.ndarray) -> np.ndarray:
    """(R,) bool: which releases are no numbers to go on with."""
    return ~(np.abs(values) <= DIVERGED).all(axis=1)


def total_mu(facts: Facts, budget: Budget) -> float:
    return math.sqrt(2 * calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)[0])


# ---------------------------------------------------------------------------------- noise on a Hessian, under a filter

START = 0.7


class Saddle(Algorithm[CosineProblem, CosineFacts]):
    """Noisy gradient steps; where the gradient is small, the noisy Hessian says whether to stop or where to go on."""

    title = "Saddle"
    metrics = (
        Metric("gradient_norm", "Noisy gradient norm", released=True),
        Metric("smallest_eigenvalue", "Noisy smallest eigenvalue", released=True),
    )
    mistake: ClassVar[str] = ""
    iterations: int = number(6, 1, 1000, label="Steps", help="At most.")
    gentle: float = number(0.5, 0.0, 1000.0, label="Small gradient", help="Below it the curvature is asked for.")
    flat: float = number(0.1, 0.0, 6.0, label="Small curvature", help="Above minus this it is a minimum.")

    def plan(self, facts: CosineFacts, budget: Budget) -> Plan:
        mu = total_mu(facts, budget)
        each = {"gradient": mu / math.sqrt(2 * self.iterations), "hessian": mu / math.sqrt(self.iterations)}
        change = {"gradient": 2 * facts.radius("l2") / facts.n, "hessian": 2 * facts.d / facts.n}
        terms = Filter("mu", mu, {name: Gaussian(part) for name, part in each.items()})
        noise = {name: np.full(self.iterations, change[name] / part) for name, part in each.items()}
        return Plan.filtered(facts, budget, terms, self.iterations, noise=noise)

    def run(self, problem: CosineProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        assert isinstance(plan.terms, Filter)
        events, count = plan.terms.allowed, mechanisms.replicates
        x = np.full((count, problem.facts.d), START)
        norms, eigenvalues = np.full(count, np.nan), np.full(count, np.nan)
        status = np.full(count, "running", dtype=object)

        def snapshot(t: int) -> Snapshot:
            released = {"gradient_norm": norms, "smallest_eigenvalue": eigenvalues}
            return Snapshot(t, {"x": x}, released, active=status == "running", status=tuple(status))

        yield snapshot(0)
        for t in range(1, plan.iterations + 1):
            status[(status == "running") & ~mechanisms.affordable(events["gradient"])] = "budget"
            rows = np.flatnonzero(status == "running")
            query = problem.gradient(x[rows])
            if self.mistake == "gradient sensitivity":
                query = query._replace(sensitivity=np.asarray(query.sensitivity) / 100)
            noisy = mechanisms.gaussian(query, events["gradient"], rows)
            status[rows[broken(noisy)]] = "diverged"
            noisy = np.where(broken(noisy)[:, None], 0.0, noisy)
            norms[rows] = np.linalg.norm(noisy, axis=1)
            asks = (norms[rows] <= self.gentle) & (status[rows] == "running")
            if self.mistake == "raw branch":
                asks = (np.linalg.norm(query.value, axis=1) <= self.gentle) & (status[rows] == "running")
            x[rows[~asks]] -= 0.5 * noisy[~asks]
            self._curvature(rows[asks], x, eigenvalues, status, problem, events["hessian"], mechanisms)
            if t == plan.iterations:
                status[status == "running"] = "exhausted"
            yield snapshot(t)
            if self.mistake == "comes back":
                status[status == "converged"] = "running"
            if not (status == "running").any():
                return

    def _curvature(
        self,
        rows: np.ndarray,
        x: np.ndarray,
        eigenvalues: np.ndarray,
        status: np.ndarray,
        problem: CosineProblem,
        event: Event,
        mechanisms: Mechanisms,
    ) -> None:
        status[rows[~mechanisms.affordable(event)[rows]]] = "budget"
        rows = rows[status[rows] == "running"]
        if self.mistake == "unasked hessian":
            mechanisms.batch(event, rows)
            rows = rows[:0]
        query = problem.hessian(x[rows])
        if self.mistake == "hessian sensitivity":
            query = query._replace(sensitivity=np.asarray(query.sensitivity) / 100)
        noisy = mechanisms.gaussian(query, event, rows)
        if self.mistake == "raw hessian":
            noisy = query.value
        lost = broken(noisy)
        status[rows[lost]] = "diverged"
        eigenvalues[rows], directions = smallest(smat(np.where(lost[:, None], 0.0, noisy), problem.facts.d))
        minimum = eigenvalues[rows] >= -self.flat
        if self.mistake == "raw stop":
            minimum = smallest(smat(query.value, problem.facts.d))[0] >= -self.flat
        if self.mistake == "stops together":
            minimum = np.full(len(rows), eigenvalues[rows].sum() >= -self.flat * len(rows))
        status[rows[minimum & ~lost]] = "converged"
        if self.mistake == "raw status":
            status[rows[minimum & ~lost & (np.floor(query.value[:, 0] * 1e6) % 2 > 0)]] = "exhausted"
        goes = ~minimum & ~lost
        x[rows[goes]] += 0.3 * directions[goes]


# ----------------------------------------------------------------------------------------------- running sums on leaves

EPOCHS, LONGEST = 2, 0.5


class Sums(Algorithm[CosineProblem, CosineFacts]):
    """Two epochs of steps along a running sum of gradient differences, each on rows of its own; a replicate may stop
    after the first, as its public stream says."""

    title = "Sums"
    mistake: ClassVar[str] = ""
    iterations: int = number(6, 2, 1000, label="Steps", help="Of both epochs.")
    correlation: Literal["tree", "square_root"] = choice(
        "tree", {"tree": "Tree", "square_root": "Square root"}, label="Noise", help="How the noise is correlated."
    )

    def _epochs(self, facts: CosineFacts) -> tuple[Factorisation, list[int], np.ndarray]:
        """The factorisation, and size and sensitivity of each leaf."""
        steps = self.iterations // EPOCHS
        single = {"tree": binary_tree, "square_root": square_root}[self.correlation](steps)
        share = facts.n // EPOCHS
        later = share // (2 * steps)
        if not later:
            raise UserError("There are fewer rows than so many steps need. Take fewer steps.", title="Not enough rows")
        first = share - (steps - 1) * later
        change = [2 * facts.radius("l2") / first, *[2 * facts.d * LONGEST / later] * (steps - 1)]
        return restarted(single, EPOCHS), [first, *[later] * (steps - 1)] * EPOCHS, np.array(change * EPOCHS)

    def plan(self, facts: CosineFacts, budget: Budget) -> Plan:
        factorisation, sizes, changes = self._epochs(facts)
        mu = total_mu(facts, budget)
        return Plan.fixed(
            facts,
            budget,
            (Gaussian(mu),),
            charged_at=np.ones(1, dtype=int),
            iterations=len(sizes),
            stops=True,
            batch_size=np.array(sizes, dtype=float),
            noise={"prefix": float(factorisation.sensitivity(changes)) / mu * factorisation.row_norms},
        )

    def run(self, problem: CosineProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        factorisation, sizes, changes = self._epochs(problem.facts)
        count, d = mechanisms.replicates, problem.facts.d
        x = np.full((count, d), START)
        point, move, lost = x.copy(), np.zeros_like(x), np.zeros(count, dtype=bool)
        stop = np.array([generator.integers(1, EPOCHS + 1) for generator in mechanisms.public]) * factorisation.period
        mix = mechanisms.shared.random(plan.iterations)
        if self.mistake == "secret shared":
            mix = mechanisms.shared.random((plan.iterations, count)).mean(axis=1)
        active = np.ones(count, dtype=bool)
        yield Snapshot(0, {"x": x}, active=active, status=("running",) * count)
        if self.mistake == "raw sensitivities":
            changes = changes + np.abs(problem.gradient(x).value).max() / 1e3
        if self.mistake == "raw sizes":
            sizes = [*sizes[:-1], sizes[-1] - int(problem.gradient(x).value[0, 0] * 1e6) % 2]
        leaves = mechanisms.leaves(sizes, problem.facts.n)
        sums = mechanisms.prefix_sums(plan.events[0], factorisation, leaves, changes, (d,))
        used: list[Batch] = []
        for t in range(plan.iterations):
            rows = np.flatnonzero(active)
            if self.mistake == "sums not used" and t == factorisation.period:
                yield Snapshot(t + 1, {"x": x}, active=active, status=("running",) * count)
                return
            leaf = leaves.next(rows)
            used.append(leaf)
            before, point[rows] = point[rows], x[rows] + mix[t] * move[rows]
            query = self._query(problem, point[rows], before, t, used, factorisation.period)
            noisy = sums.add(query)
            if self.mistake == "raw sums":
                noisy = query.value
            if self.mistake == "leaf added twice":
                sums.add(query)
            broke = broken(noisy)
            lost[rows[broke]] = True
            x[rows] += np.where(broke[:, None], 0.0, move[rows])
            size = np.linalg.norm(noisy, axis=1, keepdims=True)
            move[rows] = -np.where(broke[:, None], 0.0, noisy) * (LONGEST / 4 / np.maximum(size, LONGEST / 4))
            active = active & (t + 1 < stop) & ~lost
            status = np.where(lost, "diverged", np.where(active, "running", "exhausted"))
            yield Snapshot(t + 1, {"x": x}, active=active, status=tuple(status.tolist()))
            if not active.any():
                return

    def _query(
        self, problem: CosineProblem, x: np.ndarray, before: np.ndarray, t: int, used: list[Batch], period: int
    ) -> Query:
        leaf, on = used[-1], used[-1]
        if self.mistake == "rows of another leaf" and t % period > 1:
            on = used[-2]
        if self.mistake == "leaves share a row" and t % period > 1:
            on = Batch(None, leaf.replicates, None, "replace-one", indices=used[0].indices[:, : leaf.divisor(0)])  # type: ignore[arg-type, index]
        query = problem.gradient(x, on) if t % period == 0 else problem.difference(x, before, LONGEST, on)
        if self.mistake == "sensitivity":
            query = query._replace(value=100 * query.value)
        return query._replace(batch=leaf)


# ------------------------------------------------------------------------------------------------ thresholds on a batch

Pair = tuple[np.ndarray, np.ndarray]
LADDER = -np.array([1.6, 0.8, 0.4])


class Search(Algorithm[CosineProblem, CosineFacts]):
    """Steps along a noisy gradient, as long as a noisy comparison on the same batch says."""

    title = "Search"
    metrics = (Metric("candidate", "Candidate", released=True),)
    mistake: ClassVar[str] = ""
    iterations: int = number(6, 1, 1000, label="Steps", help="Batches.")
    batch_fraction: float = number(0.5, 0.05, 1.0, label="Batch", help="Rows per step.")

    def plan(self, facts: CosineFacts, budget: Budget) -> Plan:
        if not isinstance(budget, PureDP | NoPrivacy):
            raise UserError(
                "This method exists for pure epsilon only; state the budget so.", title="Not defined for this currency"
            )
        m = max(1, round(self.batch_fraction * facts.n))
        each = math.inf if isinstance(budget, NoPrivacy) else budget.remaining(facts.released) / self.iterations
        inner = each if m == facts.n else float(closed_forms.amplified_inverse(each, m, facts.n))
        releases = Seq((Laplace(inner / 2), StatedPureDP(inner / 2)))
        event = releases if m == facts.n else Sub("wor", m, facts.n, releases)
        steps = self.iterations
        noise = {"gradient": np.full(steps, 2 * facts.radius("l1") / m / (inner / 2))}
        return Plan.fixed(facts, budget, (event,) * steps, batch_size=np.full(steps, float(m)), noise=noise)

    def run(self, problem: CosineProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = np.full((mechanisms.replicates, problem.facts.d), START)
        lost, chosen = np.zeros(len(x), dtype=bool), np.full(len(x), -1)
        yield Snapshot(0, {"x": x}, {"candidate": chosen.astype(float)})
        for t, event in enumerate(plan.events, 1):
            batch = mechanisms.batch(event)
            noisy = batch.laplace(problem.gradient(x, batch, "l1"))
            lost = lost | broken(noisy)
            noisy = np.where(lost[:, None], 0.0, noisy)
            step = LADDER[:, None] * (noisy / np.maximum(np.linalg.norm(noisy, axis=1, keepdims=True), 1e-9))[:, None]
            query = problem.decreases(x, step, batch)._replace(batch=batch if batch.indices is not None else None)
            chosen = self._chosen(problem, (x, step), query, batch)
            x = x + np.where((chosen >= 0)[:, None], step[np.arange(len(x)), chosen], 0.0)
            yield Snapshot(t, {"x": x}, {"candidate": chosen.astype(float)}, status=divergence_status(lost))

    def _chosen(self, problem: CosineProblem, moves: Pair, query: Query, batch: Batch) -> np.ndarray:
        if self.mistake == "threshold sensitivity":
            query = query._replace(sensitivity=np.asarray(query.sensitivity) / 100)
        if self.mistake == "all rows for a batch":
            query = problem.decreases(*moves, None)._replace(batch=query.batch)
        if self.mistake == "not released":
            return np.zeros(len(query.value), dtype=int)
        found = batch.above_threshold(query)
        return query.value.argmax(axis=1) if self.mistake == "raw choice" else found


TOYS: tuple[type[Algorithm], ...] = (Saddle, Sums, Search)
for kind in (Cosine, *TOYS):  # an address, but no entry in the registry that other tests read
    kind.kind = f"tests.families.toys.{kind.__name__.lower()}"  # type: ignore[attr-defined]
