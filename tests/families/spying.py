"""Looking into runs: every release with what it was computed on, replayed by other means; noise that is not random."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpviz.privacy import mechanisms
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, StatedPureDP, inner_events
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.matrix_products import MatrixProducts, MatrixQuery
from dpviz.privacy.mechanisms import Mechanisms, Purpose
from dpviz.privacy.releases import Query
from dpviz.privacy.running_sums import Leaves, PrefixSums
from dpviz.problems.nonconvex.symmetric import packed, unpacked


class Fixed:
    """A generator that draws one value: 0 silences the noise, 1e200 breaks a replicate."""

    def __init__(self, value: float) -> None:
        self.value = value

    def laplace(self, size: tuple[int, ...]) -> np.ndarray:
        return np.full(size, self.value)

    standard_normal = gumbel = random = laplace


def stub_noise(monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...]) -> None:
    """From now on replicate r of a new run draws values[r] instead of noise, where that is not NaN."""
    true = mechanisms.streams

    def replaced(seed: int, purpose: Purpose, replicates: int, release: str) -> list:
        drawn: list = [*true(seed, purpose, replicates, release)]
        if purpose is Purpose.NOISE:
            drawn = [d if np.isnan(v) else Fixed(v) for d, v in zip(drawn, values, strict=True)]
        return drawn

    monkeypatch.setattr(mechanisms, "streams", replaced)


class Opened(NamedTuple):
    """Running sums as they were paid for."""

    event: Gaussian
    factorisation: Factorisation
    sensitivities: np.ndarray  # (R', T)
    replicates: list[int]
    number: int  # of those of this run


class Release(NamedTuple):
    """One release of a run.

    event : the single release that was paid for; of a selection, what was charged for all of its draws.
    replicates : for whom. batch : the rows that it was computed on. sums, step : the running sum, and its step from 0.
    """

    kind: str
    event: Event
    query: Query
    found: np.ndarray
    replicates: list[int]
    iteration: int
    batch: Batch | None = None
    sums: Opened | None = None
    step: int = 0

    def reads(self, row: int) -> np.ndarray:
        """(R',) bool: whether a row of the table is among those that it may depend on."""
        if self.batch is None or (self.batch.indices is None and self.batch.rows is None):
            return np.ones(len(self.replicates), dtype=bool)
        if self.batch.indices is None:
            block = self.batch.rows
            assert block is not None
            return np.full(len(self.replicates), block.start <= row < block.stop)
        among = self.batch.indices == row
        return (among if self.batch.taken is None else among & self.batch.taken).any(axis=1)


class Spy:
    """Notes everything that a run releases, in order, and what it draws for free.

    seen : the releases. public : log weights of draws that cost nothing.
    canned : release the same numbers whatever the data; ledger and -1 for what was not bought are left alone.
    iteration : that goes on; who runs an algorithm says so.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, canned: bool = False) -> None:
        self.seen: list[Release] = []
        self.public: list[np.ndarray] = []
        self.iteration = 1
        self._sums: dict[int, Opened] = {}
        self._canned = canned
        for kind, owner, name in (
            ("laplace", Batch, "laplace"),
            ("standard_normal", Batch, "gaussian"),
            ("threshold", Batch, "above_threshold"),
        ):
            monkeypatch.setattr(owner, name, self._on_batch(kind, getattr(owner, name)))
        monkeypatch.setattr(Mechanisms, "exponential", self._selection(Mechanisms.exponential))
        monkeypatch.setattr(Mechanisms, "matrix_products", self._matrix(Mechanisms.matrix_products))
        monkeypatch.setattr(Mechanisms, "sample", self._sample(Mechanisms.sample))
        monkeypatch.setattr(Mechanisms, "prefix_sums", self._opening(Mechanisms.prefix_sums))
        monkeypatch.setattr(PrefixSums, "add", self._adding(PrefixSums.add))

    def clear(self) -> None:
        self.seen.clear()
        self.public.clear()
        self._sums.clear()
        self.iteration = 1

    def _note(self, kind: str, event: Event, query: Query, found: np.ndarray, whom: Any, **more: Any) -> np.ndarray:
        if self._canned:
            found = self._instead(kind, query, found)
        copy = query._replace(value=np.array(query.value))
        replicates = [int(r) for r in whom]
        self.seen.append(Release(kind, event, copy, np.array(found), replicates, self.iteration, **more))
        return found

    def _instead(self, kind: str, query: Query, found: np.ndarray) -> np.ndarray:
        """Numbers that follow from how much was released before, and from nothing else."""
        places = np.arange(found.size).reshape(found.shape) + len(self.seen)
        if kind == "selection":
            return np.where(found < 0, found, places % query.value.shape[-1])
        if kind == "threshold":
            return places % (query.value.shape[-1] + 1) - 1
        # Of two sizes, for methods that do something else where a release is small.
        return np.asarray(np.sin(places) / (12, 24, 24)[len(self.seen) % 3])

    def _on_batch(self, kind: str, true: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def release(batch: Batch, query: Query) -> np.ndarray:
            event = batch._declared[0] if batch._declared else None
            found = true(batch, query)
            assert event is not None
            return self._note(kind, event, query, found, batch.replicates, batch=batch)

        return release

    def _matrix(self, true: Callable[..., MatrixProducts]) -> Callable[..., MatrixProducts]:
        """What is released is the whole noisy matrix, of which a run may ask any product."""

        def release(source: Mechanisms, query: MatrixQuery, event: Event, replicates: Any = None) -> MatrixProducts:
            products = true(source, query, event, replicates)
            replicates = list(range(source.replicates)) if replicates is None else replicates
            units = [np.tile(unit, (len(replicates), 1)) for unit in np.eye(query.d)]
            exact, noisy = (
                np.stack([times(unit) for unit in units], axis=1) for times in (query.times, products.times)
            )
            entries = Query(packed(exact, "goe"), query.sensitivity, "l2")
            found = self._note("matrix", event, entries, packed(noisy, "goe"), replicates)
            if self._canned:
                canned = unpacked(found, "goe")
                products.times = partial(np.einsum, "rij,rj->ri", canned)  # type: ignore[method-assign]
            return products

        return release

    def _selection(self, true: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def release(
            source: Mechanisms, query: Query, event: Event, draws: Any = 1, replicates: Any = None
        ) -> np.ndarray:
            found = true(source, query, event, draws, replicates)
            return self._note(
                "selection", event, query, found, range(source.replicates) if replicates is None else replicates
            )

        return release

    def _sample(self, true: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def release(source: Mechanisms, log_weights: np.ndarray, draws: Any = 1, replicates: Any = None) -> np.ndarray:
            self.public.append(np.array(log_weights))
            return true(source, log_weights, draws, replicates)

        return release

    def _opening(self, true: Callable[..., PrefixSums]) -> Callable[..., PrefixSums]:
        def release(
            source: Mechanisms, event: Gaussian, how: Factorisation, leaves: Leaves, changes: Any, shape: Any = ()
        ) -> PrefixSums:
            sums = true(source, event, how, leaves, changes, shape)
            replicates = [int(r) for r in leaves.replicates]
            each = np.broadcast_to(np.asarray(changes, dtype=float), (len(replicates), how.length))
            self._sums[id(sums)] = Opened(event, how, each, replicates, len(self._sums))
            return sums

        return release

    def _adding(self, true: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def release(sums: PrefixSums, query: Query) -> np.ndarray:
            step, opened = sums._added, self._sums[id(sums)]
            found = true(sums, query)
            assert query.batch is not None
            whom = query.batch.replicates  # type: ignore[attr-defined]
            return self._note("sum", opened.event, query, found, whom, batch=query.batch, sums=opened, step=step)

        return release


# --------------------------------------------------------------------------------------------------------------- replay


def replayed(query: Query, eta: float, i: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """What replicate i selects: the argmax of η u/Δ plus Gumbel noise, or several by the inverse distribution."""
    utilities = eta * query.value[i] / np.broadcast_to(query.sensitivity, len(query.value))[i]
    if count == 1 or utilities.ndim == 2:
        return np.atleast_1d(np.argmax(utilities + generator.gumbel(size=utilities.shape), axis=-1))
    weights = np.exp(utilities - utilities.max())
    return (generator.random(size=count)[:, None] >= np.cumsum(weights / weights.sum())[:-1]).sum(axis=1)


class Replay:
    """What a run should have released, from its queries and the standard draws of its replicates' streams."""

    def __init__(self, generators: list[np.random.Generator]) -> None:
        self._generators = generators
        self._exact: dict[tuple[int, int], list[np.ndarray]] = {}
        self._draws: dict[tuple[int, int], list[np.ndarray]] = {}

    def check(self, release: Release) -> list[float]:
        """Assert that what was released is what the event says; the scales of the noise, replicate by replicate."""
        act = {"selection": self._selection, "threshold": self._threshold, "sum": self._sum, "matrix": self._entries}
        return [act.get(release.kind, self._noisy)(release, i, r) for i, r in enumerate(release.replicates)]

    def _noisy(self, release: Release, i: int, r: int) -> float:
        event, query = release.event, release.query
        assert isinstance(event, Laplace if release.kind == "laplace" else Gaussian)
        parameter = event.eps if isinstance(event, Laplace) else event.mu  # type: ignore[union-attr]
        scale = float(np.broadcast_to(query.sensitivity, len(query.value))[i]) / parameter
        unit = getattr(self._generators[r], release.kind)(size=query.value.shape[1:])
        assert np.array_equal(release.found[i], query.value[i] + scale * unit)
        return scale

    def _entries(self, release: Release, i: int, r: int) -> float:
        """Noise of scale s on the diagonal of a symmetric matrix and of s/√2 beside it, drawn column by column: one
        number for the diagonal, then d of which those below it count."""
        assert isinstance(release.event, Gaussian) and isinstance(release.query.sensitivity, float)
        scale = release.query.sensitivity / release.event.mu
        exact = unpacked(release.query.value, "goe")[i]
        noise = np.zeros_like(exact)
        for j in range(len(exact)):
            unit = self._generators[r].standard_normal(size=1 + len(exact))
            noise[j, j], noise[j + 1 :, j] = unit[0], unit[2 + j :] / np.sqrt(2)
            noise[j, j + 1 :] = noise[j + 1 :, j]
        assert np.allclose(unpacked(release.found, "goe")[i], exact + scale * noise, rtol=1e-9, atol=1e-12 * scale)
        return scale

    def _selection(self, release: Release, i: int, r: int) -> float:
        selections = inner_events(release.event)
        assert all(isinstance(selection, ExpMech) for selection in selections)
        eta = selections[0].eta  # type: ignore[union-attr]
        count = int((release.found[i] >= 0).sum())
        assert (release.found[i, count:] == -1).all() and count % len(selections) == 0
        assert np.array_equal(release.found[i, :count], replayed(release.query, eta, i, count, self._generators[r]))
        return eta

    def _threshold(self, release: Release, i: int, r: int) -> float:
        """Algorithm 7 of Lyu, Su and Li 2017 for one answer, step by step."""
        event, values = release.event, release.query.value[i]
        assert isinstance(event, StatedPureDP)
        change = float(np.broadcast_to(release.query.sensitivity, len(release.query.value))[i])
        first = event.eps / (1 + 2 ** (2 / 3))
        unit = self._generators[r].laplace(size=1 + len(values))
        threshold, expected = unit[0] * change / first, -1
        for index, value in enumerate(values):
            if value + unit[1 + index] * 2 * change / (event.eps - first) >= threshold:
                expected = index
                break
        assert release.found[i] == expected
        return change / event.eps

    def _sum(self, release: Release, i: int, r: int) -> float:
        sums, step = release.sums, release.step
        assert sums is not None
        place, key = sums.replicates.index(r), (sums.number, r)
        exact, draws = self._exact.setdefault(key, []), self._draws.setdefault(key, [])
        exact.append(release.query.value[i])
        draws.append(self._generators[r].standard_normal(size=exact[-1].shape))
        assert len(exact) == step + 1, "a running sum takes its leaves in order"
        encoder, decoder = sums.factorisation.encoder(), sums.factorisation.decoder()
        sigma = float((sums.sensitivities[place] * np.linalg.norm(encoder, axis=0)).max()) / sums.event.mu
        began = step - step % sums.factorisation.period
        noise = np.tensordot(decoder[step, : step + 1], np.array(draws), axes=1)
        assert np.allclose(release.found[i], np.sum(exact[began:], axis=0) + sigma * noise, rtol=1e-9, atol=1e-12)
        return sigma * float(np.linalg.norm(decoder[step]))


def released_events(seen: list[Release], replicate: int) -> Counter[Event]:
    """The single releases that a replicate got; a running sum counts once."""
    found: Counter[Event] = Counter()
    for release in seen:
        if replicate in release.replicates:
            if release.kind == "selection":
                single = inner_events(release.event)[0]
                found[single] += int((release.found[release.replicates.index(replicate)] >= 0).sum())
            else:
                found[release.event] += release.kind != "sum" or release.step == 0
    return found
