"""Tests of the implementation: releases are compared with their declaration, also where they reveal nothing of a row.

An attack on a claim uses the likelihood ratio under the declared noise. It is blind to noise that is used twice, to a
batch that stays the same, to a law that is another one. These tests look at the releases themselves: each has a
p-value, the chance at most of an outcome this odd if the implementation is as declared. All of them together call a
sound implementation faulty with probability `ERROR` at most, also for adaptive runs: test number q of a kind gets the
share 1/(q (q + 1)) of the error of its kind, and the number of a test follows from releases before the draws that it
tests.

Sources: Dvoretzky, Kiefer, Wolfowitz 1956 with Massart's constant 1990 (shape); Ville 1939 (choices). Of repeats: N
independent draws have at most N²/2 pairs, each of which is equal with a probability of at most q. There are at most
(N²/2)^k/k! sets of k pairs without a common draw, whose pairs are all equal with a probability of at most q^k. So k
such pairs are equal with a probability of at most (N² q/2)^k/k!.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, gammainc, gammaincc, logsumexp, ndtr

from dpviz.numbers import short
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, ExpMech, StatedPureDP, draws_batch, has_blocks, inner_events
from dpviz.privacy.ledger import SLACK, FixedEvents, Ledger
from dpviz.privacy.releases import Accepted, Query, Release, Selected, Standard, Summed
from dpviz.privacy.verification.transcripts import Opened, Transcript, declared_scale, law_of, standard_draws

# --------------------------------------------------------------------------------- ratios of other laws, on all choices
# Under the declared law such a ratio has expectation 1, also for adaptive utilities: 1/x bounds the chance that it is
# ever x or more (Ville 1939). So does 1 over the mean of several ratios.

_SCALES = (0.5, 0.71, 0.9, 1.1, 1.41, 2.0)  # times the declared noise
_TILTS = (-0.3, 0.3)  # of the logarithm of one weight: of an index, of the earlier choice, of that of the run before
_INDICES = 4


class ChoiceOdds:
    """Log likelihood ratios of all choices so far, by the other law."""

    def __init__(self) -> None:
        self._odds: dict[str, float] = {}

    def add(self, release: Selected, last: dict[int, np.ndarray], runs: int) -> None:
        """Add choices of `runs` runs. last : by the number of options, the earlier choice of each run; updated."""
        change = np.broadcast_to(np.asarray(release.change, dtype=float), len(release.output))
        if not 0 < release.paid < math.inf:
            return
        moves = change > 0  # where no row moves the utilities, the best index is public
        slope = release.paid / np.where(moves, change, 1.0)
        logits = release.log_weights(slope)
        logits = np.broadcast_to(logits, (*release.output.shape, logits.shape[-1]))
        is_choice = (release.output >= 0) & moves[:, None]
        choices, weights, options = release.output[is_choice], logits[is_choice], logits.shape[-1]
        earlier = last.get(options, np.full(runs, -1))
        earlier_choices = np.broadcast_to(earlier[release.replicates][:, None], is_choice.shape)[is_choice]
        last[options] = earlier.copy()
        last[options][release.replicates] = release.output[:, 0]
        indices = np.arange(options)
        tilted = {f"index {index}": indices == index for index in range(min(options, _INDICES))}
        tilted["as before"] = indices == earlier_choices[:, None]
        tilted["as in the last run"] = indices == np.concatenate([[-1], choices[:-1]])[:, None]
        others = {f"noise {scale}": weights / scale for scale in _SCALES}
        others |= {f"{name} {tilt}": weights + tilt * marks for name, marks in tilted.items() for tilt in _TILTS}
        declared = _log_chances(weights, choices)
        for name, other in others.items():
            self._odds[name] = self._odds.get(name, 0.0) + float((_log_chances(other, choices) - declared).sum())

    def p_value(self) -> float:
        """Return 1 over the mean ratio, at most 1."""
        odds = np.array(list(self._odds.values()))
        return math.exp(min(0.0, math.log(len(odds)) - float(logsumexp(odds)))) if len(odds) else 1.0


def _log_chances(weights: np.ndarray, choices: np.ndarray) -> Floats:
    """Return (N,) the logarithms of the probabilities of choices. weights : (N, k) logarithms, the largest about 0."""
    picked = np.take_along_axis(weights, choices[:, None], axis=1)[:, 0]
    return np.asarray(picked - np.log(np.exp(weights).sum(axis=1)))


# ---------------------------------------------------------------------------- choices at values that an auditor made up
# In the data sets of an audit one row decides, and there the noise of choices does not show best. So the audited
# mechanisms also make choices at these values.

_EACH = 8  # choices of each run, at least
_MOST = 4  # different events
_NODES = 20_000
_LOGITS = np.array([0.0, 1.2, 2.4])  # where a tenth more or less noise shows best
_HEIGHTS = np.array([-1.0, -1.0, 0.5])  # in scales of the noise


def known_choices(
    source: type[Transcript], events: Iterable[Event], seed: int, release: str, runs: int
) -> Iterator[tuple[list[int], list[float]]]:
    """Yield, for every different event that pays for choices, counts of the indices and their chances; then those of
    two choices in a row."""
    for number, event in enumerate(_choosing(events)):
        repeats = math.ceil(_EACH / len(tuple(inner_events(event))))
        mechanisms = source(Ledger(FixedEvents((event,) * repeats), runs), seed, f"choices {number}, {release}")
        if isinstance(event, StatedPureDP):
            values, chances = _heights(event)
            query = Query(np.tile(values, (runs, 1)), 1.0, "linf")
            indices = np.array([mechanisms.above_threshold(query, event) for _ in range(repeats)]) % len(chances)
        else:
            chances = np.exp(_LOGITS) / np.exp(_LOGITS).sum()
            (eta, *_) = {inner.eta for inner in inner_events(event) if isinstance(inner, ExpMech)}
            query = Query(np.tile(_LOGITS / eta, (runs, 1)), 1.0, "range")
            indices = np.array([mechanisms.exponential(query, event) for _ in range(repeats)])
        yield np.bincount(indices.reshape(-1), minlength=len(chances)).tolist(), chances.tolist()
        if repeats > 1:
            both = indices.reshape(repeats, -1)[0 : 2 * (repeats // 2)].reshape(repeats // 2, 2, -1)
            joint = np.bincount((len(chances) * both[:, 0] + both[:, 1]).reshape(-1), minlength=len(chances) ** 2)
            yield joint.tolist(), np.outer(chances, chances).reshape(-1).tolist()


def _choosing(events: Iterable[Event]) -> list[Event]:
    """Return some of the events that pay for choices on the whole table, or the single choices inside of others."""
    choosing: set[Event] = set()
    for event in events:
        singles = set(inner_events(event))
        if any(isinstance(one, ExpMech) and one.eta < np.inf for one in singles):
            apart = len(singles) > 1 or draws_batch(event) or has_blocks(event)
            choosing |= {one for one in singles if isinstance(one, ExpMech)} if apart else {event}
        choosing |= {one for one in singles if isinstance(one, StatedPureDP) and one.eps < np.inf}
    return sorted(choosing, key=repr)[:_MOST]


def _heights(event: StatedPureDP) -> tuple[Floats, Floats]:
    """Return values, and the chances that the first, the second, … is the first above the threshold, or none, by the
    formulas of Lyu, Su, Li 2017."""
    first = event.eps / (1 + 2 ** (2 / 3))
    threshold, noise = 1 / first, 2 / (event.eps - first)
    values, outcomes = _HEIGHTS * noise, np.array([*range(len(_HEIGHTS)), -1])
    rows = np.arange(len(outcomes))
    scales = (np.full((len(rows), 1), scale) for scale in (threshold, noise))
    every = Accepted(np.tile(values, (len(rows), 1)), outcomes, rows, None, *scales)
    return values, np.exp(every.log_density(_NODES))


# ------------------------------------------------------------------------------------------------------------ the tests

Kind = Literal[
    "scale",
    "shape",
    "bare",
    "dependence",
    "repeats",
    "batches",
    "choices",
    "streams",
    "sensitivity",
    "budget",
    "plan",
    "values",
    "releases",
]
ERROR = 1e-5  # the chance, at most, that a sound implementation is called faulty
SHARES: dict[Kind, float] = {  # of the error; the tests without a share cannot err but for rounding
    "scale": 0.4,
    "shape": 0.1,
    "bare": 0.1,
    "dependence": 0.1,
    "repeats": 0.1,
    "batches": 0.1,
    "choices": 0.1,
    "streams": 0.0,
    "sensitivity": 0.0,
    "budget": 0.0,
    "plan": 0.0,
    "values": 0.0,
    "releases": 0.0,
}
KINDS = tuple(SHARES)  # in the order of the findings
ROUNDING = 1e-9  # relative, of values that were computed twice
_WIDEST, _MOST_ROWS = 16, 200  # numbers of a release, or of a run whose products are tested; rows in batches
_TIED, _COMPARED = 1e-12, 50_000  # units in which two draws are the same; draws that are compared


@dataclass(frozen=True)
class Finding:
    """The result of all tests of one kind.

    p : the chance, at most, of an outcome this odd if all is as declared, shares of the error taken into account; 0 if
        it is impossible then. release_number : of the oddest release, from 1; 0 for none. size : of the scale, the
        drawn noise over the declared; of sensitivity, the change over the declared; of the budget, the amount spent
        over the limit; else nan. entry : number inside of the release, from 1; 0 for all of them.
    """

    kind: Kind
    p: float
    release_number: int = 0
    size: float = math.nan
    entry: int = 0

    @property
    def fault(self) -> bool:
        """True if the result is too odd for a sound implementation."""
        return self.p <= ERROR

    def sentence(self) -> str:
        """Return the fault in words."""
        entry = f"entry {self.entry} of " if self.entry else ""
        return {
            "scale": f"the noise of {entry}release {self.release_number} is {short(self.size)} times what was declared",
            "shape": f"the noise of release {self.release_number} has another distribution than was declared",
            "dependence": f"the noise of release {self.release_number} depends on other noise",
            "bare": f"release {self.release_number} left without noise in some runs",
            "repeats": "the same noise was drawn more than once",
            "streams": "random numbers for different purposes, repeats or releases begin alike",
            "batches": "the rows of batches are not drawn as declared",
            "choices": "choices are not as frequent as declared",
            "sensitivity": f"one row moves the query of release {self.release_number} by {short(self.size, 4)} times "
            "what was declared",
            "budget": f"{short(self.size, 4)} times what the budget allows is spent",
            "plan": f"the plan shows other noise than that of release {self.release_number}",
            "values": f"release {self.release_number} was not computed on the batch that was drawn",
            "releases": "what was charged for and what was released differ",
        }[self.kind]


@dataclass(frozen=True)
class Implementation:
    """The verdict of all tests."""

    findings: tuple[Finding, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that a sound implementation would not have."""
        return tuple(finding for finding in self.findings if finding.fault)

    def sentence(self) -> str:
        """Return the verdict in words."""
        once = f"A sound implementation fails these tests in at most 1 of {round(1 / ERROR):,} audits."
        if self.faults:
            return f"Not as declared: {'; '.join(fault.sentence() for fault in self.faults)}. {once}"
        return (
            f"What left the mechanisms looks as declared in all {len(self.findings)} kinds of tests. {once} "
            "They do not see what a method reads past its mechanisms: the attack does, where that makes an output "
            "on D' another one than on D."
        )


class _Test(NamedTuple):
    p: float
    release_number: int = 0
    size: float = math.nan
    entry: int = 0


def _strongest(kind: Kind, tests: Iterable[_Test]) -> Finding:
    """Return the finding of the test with the smallest p-value, each with its share of the error."""
    best = _Test(math.inf)
    for number, test in enumerate(tests, 1):
        p = test.p * number * (number + 1) / SHARES[kind] if test.p > 0 else 0.0
        best = min(best, test._replace(p=p), key=lambda one: one.p)
    return Finding(kind, min(best.p, 1.0), *best[1:])


def count_p_value(count: float, runs: float, rate: float) -> float:
    """Return the two-sided p-value of a binomial count of `runs` trials with probability `rate`."""
    upper = 1.0 if count == 0 else float(bdtrc(count - 1, int(runs), rate))
    return min(1.0, 2 * min(float(bdtr(count, int(runs), rate)), upper))


def rare_p_value(count: int, expected: float) -> float:
    """Return the chance, at most, that `count` of many independent events happen of which `expected` do on average: of
    the sets of `count` events, expected^count/count! happen on average."""
    return math.exp(min(0.0, count * math.log(expected) - math.lgamma(count + 1))) if count else 1.0


class Watch:
    """The releases of an audit's runs, and the tests of them.

    plan_scales : the scales of noise that the plan shows, if any; at_most : True if they are upper bounds. row : of the
    table, the one in which the data sets differ.
    """

    def __init__(self, plan_scales: Floats, at_most: bool, row: int) -> None:
        self._plan_scales, self._at_most, self._row = plan_scales[plan_scales > 0], at_most, row
        self._runs = 0
        self._chunks: list[int] = []  # the first run of each
        self._draws: dict[tuple[int, Standard, int], list[tuple[int, np.ndarray]]] = {}
        self._members: dict[int, list[tuple[int, np.ndarray]]] = {}  # of each batch: 1 in it, 0 not, -1 no such batch
        self._rates: dict[int, float] = {}
        self._odds = ChoiceOdds()
        self._counted: dict[tuple[float, ...], np.ndarray] = {}  # counts of each index, by the chances of the indices
        self._certain: dict[Kind, _Test] = {}  # tests that cannot err: the worst so far
        self._zeros: dict[int, tuple[int, float]] = {}  # of each release: draws of 0, and how many are expected at most
        self._grid = _TIED  # units in which draws are rounded, at most
        self._seeds: set[str] = set()

    def add(
        self,
        true: Transcript,
        pair: tuple[Transcript, Transcript],
        on_same: tuple[Transcript, Transcript] | None = None,
    ) -> None:
        """Add runs, and the same releases on both data sets. on_same : on the data that they were computed on, with the
        row in all random batches and in none."""
        runs = true.replicates
        self._chunks.append(self._runs)
        if len({*true.seeds}) < len(true.seeds) or self._seeds & {*true.seeds}:
            self._impossible("streams", 0)
        self._seeds.update(true.seeds)
        draws, last, seen = standard_draws(true.releases, runs), dict[int, np.ndarray](), set[int]()
        for release_number, (release, units) in enumerate(zip(true.releases, draws, strict=True), 1):
            if units is not None:
                self._keep(release_number, release, units[:, :_WIDEST], runs)
                self._count_zeros(release_number, release, units)
                self._compare_scale(release_number, release)
            if isinstance(release, Selected):
                self._odds.add(release, last, runs)
        for opened in true.opened:
            self._batches(opened, true, on_same, seen)
        for leaves in true.leaves_paid:
            if not np.diff(np.sort(leaves._indices, axis=1), axis=1).all():
                self._impossible("batches", 0)
        self._changes(*pair)
        if not true.matched():
            self._impossible("releases", 0)
        self._runs += runs

    def compare_spent(self, spent: float, limit: float) -> None:
        """Compare the amount that a plan or a run spends with its limit."""
        if spent > limit * (1 + SLACK):
            self._impossible("budget", 0, spent / limit)

    def add_choices(self, counts: Sequence[int], chances: Sequence[float]) -> None:
        """Add the counts of each index where the auditor knows the chances."""
        old_counts = self._counted.get(tuple(chances), np.zeros(len(chances), dtype=int))
        self._counted[tuple(chances)] = old_counts + np.asarray(counts)

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of all kinds of tests."""
        tests: dict[Kind, Callable[[], Iterator[_Test]]] = {
            "scale": self._scales,
            "shape": self._shapes,
            "bare": self._bare,
            "dependence": self._dependences,
            "repeats": self._repeats,
            "batches": self._batch_tests,
            "choices": self._choice_tests,
        }
        findings = {kind: _strongest(kind, test()) for kind, test in tests.items()}
        findings |= {kind: Finding(kind, *test) for kind, test in self._certain.items()}
        return tuple(findings.get(kind, Finding(kind, 1.0)) for kind in KINDS)

    def _impossible(self, kind: Kind, release_number: int, size: float = math.nan) -> None:
        """Record a fault that no chance explains; of each kind the one of largest size is kept."""
        worst = self._certain.get(kind)
        if worst is None or worst.size < size:
            self._certain[kind] = _Test(0.0, release_number, size)

    # ------------------------------------------------------------------------------------------------ noise

    def _keep(self, release_number: int, release: Release, units: np.ndarray, runs: int) -> None:
        draws = np.full((runs, units.shape[1]), np.nan)
        draws[release.replicates] = units
        self._draws.setdefault((release_number, law_of(release), units.shape[1]), []).append((self._runs, draws))

    def _count_zeros(self, release_number: int, release: Release, units: np.ndarray) -> None:
        """Count draws of 0, up to the rounding of the release. A density of at most 1/2 makes few of them."""
        scale = declared_scale(release)
        assert scale is not None
        size = np.maximum(np.abs(release.value), np.abs(release.output)).reshape(len(scale), -1).max(axis=1, initial=0)
        with np.errstate(divide="ignore"):
            grid = np.maximum(_TIED, np.where(scale > 0, 8 * np.spacing(size) / scale, 0.0))[:, None]
        count, expected = self._zeros.get(release_number, (0, 0.0))
        is_drawn = ~np.isnan(units)
        self._zeros[release_number] = (
            count + int((np.abs(units) < grid)[is_drawn].sum()),
            expected + float((grid * is_drawn).sum()),
        )
        self._grid = max(self._grid, float(grid.max(initial=0.0)))

    def _bare(self) -> Iterator[_Test]:
        """Test the number of draws of 0 in each release: more than rounding explains means missing noise."""
        for release_number, (count, expected) in sorted(self._zeros.items()):
            yield _Test(rare_p_value(count, expected), release_number)

    def _compare_scale(self, release_number: int, release: Release) -> None:
        """Record a fault if the plan shows no noise of the scale that the release declares."""
        scale = declared_scale(release)
        if scale is None or not len(self._plan_scales):
            return
        if isinstance(release, Summed):
            decoder = release.factorisation.decoder()
            scale = scale * np.linalg.norm(decoder[release.step])
            steps = np.arange(len(decoder))
            series = steps // release.factorisation.period
            sums = (steps[:, None] >= steps) & (series[:, None] == series)
            if not np.allclose(decoder @ release.factorisation.encoder(), sums, atol=ROUNDING):
                self._impossible("plan", release_number)
        for distinct in np.unique(scale[scale > 0]):
            near = distinct <= self._plan_scales.max() * (1 + ROUNDING)
            if not (near if self._at_most else np.isclose(distinct, self._plan_scales, rtol=ROUNDING, atol=0).any()):
                self._impossible("plan", release_number)

    def _slots(self) -> Iterator[tuple[int, Standard, np.ndarray]]:
        """Yield number, law and draws (N, k) of every release, only of replicates that got it and need noise."""
        for (release_number, law, _), parts in sorted(self._draws.items()):
            draws = np.concatenate([part for _, part in parts])
            kept_draws = draws[~np.isnan(draws[:, 0])]
            if kept_draws.size:
                yield release_number, law, kept_draws

    def _columns(self) -> list[tuple[int, np.ndarray]]:
        """Return release number and draws (runs,) of every number; nan where a run did not get it."""
        items = sorted(self._draws.items())
        return [
            (release_number, column)
            for (release_number, *_), parts in items
            for column in _of_all_runs(parts, self._runs, np.nan).T
        ]

    def _scales(self) -> Iterator[_Test]:
        """Test the scale: Σ|z| of Laplace draws is a gamma variable, Σz² of normal ones a chi-square, over all numbers
        of a release, and over each by itself."""
        for release_number, law, draws in self._slots():
            for entry, part in enumerate((draws, *(draws.T if draws.shape[1] > 1 else ()))):
                total = float(np.abs(part).sum() if law == "laplace" else (part**2).sum() / 2)
                degrees = part.size if law == "laplace" else part.size / 2
                size = total / degrees if law == "laplace" else math.sqrt(total / degrees)
                p = 2 * min(float(gammainc(degrees, total)), float(gammaincc(degrees, total)))
                yield _Test(p if math.isfinite(total) else 0.0, release_number, size, entry)

    def _shapes(self) -> Iterator[_Test]:
        """Test the distance of the empirical distribution from the declared one."""
        for release_number, law, draws in self._slots():
            z = np.sort(draws, axis=None)
            tail = np.exp(-np.abs(z)) / 2
            below = ndtr(z) if law == "standard_normal" else np.where(z < 0, tail, 1 - tail)
            steps = np.arange(len(z) + 1) / len(z)
            distance = max(float((steps[1:] - below).max()), float((below - steps[:-1]).max()))
            yield _Test(min(1.0, 2 * math.exp(-2 * len(z) * distance**2)), release_number)

    def _dependences(self) -> Iterator[_Test]:
        """Test that signs of products of two draws are fair coins: of one number in two runs, and of two in one run."""
        columns = self._columns()
        for last, (release_number, draws) in enumerate(columns[:_WIDEST]):  # what comes later numbers no earlier test
            pairs = [draws[0 : 2 * (len(draws) // 2) : 2] * draws[1::2], *(one * draws for _, one in columns[:last])]
            for products in pairs:
                coins = products[~np.isnan(products)]
                yield _Test(count_p_value(float((coins > 0).sum()), len(coins), 0.5), release_number)

    def _repeats(self) -> Iterator[_Test]:
        """Test the number of pairs of equal draws without a common one, of N draws with a density of at most 1 (of
        |z|): a pair is equal with a probability of at most 2 tolerances."""
        columns = self._columns()
        if not columns:
            return
        each = max(1, _COMPARED // (len(columns) * len(self._chunks)))
        rows = np.concatenate([np.arange(start, min(start + each, self._runs)) for start in self._chunks])
        draws = np.abs(np.concatenate([column[np.unique(rows)] for _, column in columns]))
        draws = np.sort(draws[draws > 0])  # nan is not; zeros have a test of their own
        tied = np.diff(draws) < self._grid
        starts = np.flatnonzero(np.diff(tied.astype(np.int8), prepend=0) == 1)
        ends = np.flatnonzero(np.diff(tied.astype(np.int8), append=0) == -1)
        pairs = int(((ends - starts + 2) // 2).sum())  # of a chain of k equal draws k/2
        yield _Test(rare_p_value(pairs, len(draws) ** 2 * self._grid))

    # ------------------------------------------------------------------------------------------------ batches

    def _batches(
        self, opened: Opened, true: Transcript, on_same: tuple[Transcript, Transcript] | None, seen: set[int]
    ) -> None:
        """Check that a release was computed on its batch, and note the rows of a batch that is not in `seen`."""
        release, event = true.releases[opened.release_number - 1], opened.event
        assert isinstance(release.batch, Batch)
        members = _members(release.batch, event.n)
        same = [
            source.releases[opened.release_number - 1].value
            for source in on_same or ()
            if len(source.releases) >= opened.release_number
        ]
        if [value.shape for value in same] == [release.value.shape] * 2:  # else the run departs, as the attack sees
            with_row, without = same
            has_row = members[:, self._row].reshape(-1, *[1] * (release.value.ndim - 1))
            expected = np.where(has_row, with_row, without)
            if not np.allclose(release.value, expected, rtol=ROUNDING, atol=ROUNDING * np.abs(expected).max(initial=0)):
                self._impossible("values", opened.release_number)
        if opened.charge_number in seen or event.n > _MOST_ROWS:
            return
        seen.add(opened.charge_number)
        if (members.sum(axis=1) != event.m).any():
            self._impossible("batches", opened.release_number)
        rows = np.full((true.replicates, event.n), -1, dtype=np.int8)
        rows[release.replicates] = members
        self._members.setdefault(opened.charge_number, []).append((self._runs, rows))
        self._rates[opened.charge_number] = event.m / event.n

    def _batch_tests(self) -> Iterator[_Test]:
        """Test the frequency of a row in a batch, in those of two runs, and in those of two steps of one run."""
        batches = {number: _of_all_runs(parts, self._runs, -1) for number, parts in sorted(self._members.items())}
        for last, (number, members) in enumerate(batches.items()):
            even, odd = members[0 : 2 * (len(members) // 2) : 2], members[1::2]
            for is_trial, following in ((members >= 0, members), (even == 1, odd)):
                yield from _binomials((following == 1) & is_trial, (following >= 0) & is_trial, self._rates[number])
            for earlier in list(batches.values())[:last]:
                both = (earlier == 1) & (members >= 0)
                yield from _binomials(both & (members == 1), both, self._rates[number])

    # ------------------------------------------------------------------------------------------------ choices

    def _choice_tests(self) -> Iterator[_Test]:
        """Test all choices of the runs, and those of which the auditor knows the chances."""
        yield _Test(self._odds.p_value())
        for chances, counts in self._counted.items():
            total = int(counts.sum())
            for count, chance in zip(counts.tolist(), chances, strict=True):
                yield _Test(count_p_value(count, total, chance))

    # ------------------------------------------------------------------------------------------------ sensitivity

    def _changes(self, one: Transcript, other: Transcript) -> None:
        """Check the distance by which one row moves each query, on the same path, against the declared one. Of running
        sums the squares add up."""
        draws = [standard_draws(source.releases, source.replicates) for source in (one, other)]
        squares: dict[int, np.ndarray] = {}
        for release_number, (first, second, units, second_units) in enumerate(
            zip(one.releases, other.releases, *draws, strict=False), 1
        ):
            if units is None or second_units is None or units.shape != second_units.shape:
                moved = self._moved_choices(first, second)
            else:
                difference = np.where(
                    _still(first, second, units - second_units), 0.0, np.nan_to_num(units - second_units, nan=math.inf)
                )
                if law_of(first) == "laplace":
                    moved = np.abs(difference).sum(axis=1) / first.paid
                else:
                    square = (difference**2).sum(axis=1) / first.paid**2
                    if isinstance(first, Summed):
                        total = squares.setdefault(id(first.series), np.zeros(one.replicates))
                        total[first.replicates] += square
                        square = total
                    moved = np.sqrt(square)
            largest = float(np.max(moved, initial=0.0))
            if largest > 1 + ROUNDING * 100:
                self._impossible("sensitivity", release_number, largest)

    @staticmethod
    def _moved_choices(first: Release, second: Release) -> np.ndarray:
        """Return (R',) the change of utilities, or of values compared with thresholds, over the declared one."""
        alike = type(first) is type(second) and first.value.shape == second.value.shape
        if not alike or not isinstance(first, Selected | Accepted):
            return np.zeros(1)
        difference = first.value - second.value
        change = np.broadcast_to(np.asarray(first.change, dtype=float), len(difference))
        if isinstance(first, Accepted):
            moved = np.abs(difference).reshape(len(difference), -1).max(axis=1, initial=0.0)
        else:
            moved = np.ptp(difference, axis=-1).reshape(len(difference), -1).max(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(moved > 0, moved / change, 0.0)


def _of_all_runs(parts: Sequence[tuple[int, np.ndarray]], runs: int, nothing: float) -> np.ndarray:
    """Return (runs, k) the values of some runs, given as (first run, values (r, k)); `nothing` for all others."""
    values = np.full((runs, parts[0][1].shape[1]), nothing, dtype=parts[0][1].dtype)
    for start, part in parts:
        values[start : start + len(part)] = part
    return values


def _still(first: Release, second: Release, difference: np.ndarray) -> np.ndarray:
    """Return (R', 1) bool: True where a query that no row moves, as declared, is the same on both data sets."""
    values, others = (release.value.reshape(len(difference), -1) for release in (first, second))
    near = np.isclose(values, others, rtol=ROUNDING, atol=ROUNDING * np.abs(values).max(initial=0.0)).all(axis=1)
    return (near & np.isnan(difference).any(axis=1))[:, None]


def _members(batch: Batch, n: int) -> np.ndarray:
    """Return (R', n) bool: True for the rows of a batch."""
    if batch.marked is not None:
        return batch.marked
    assert batch.indices is not None
    members = np.zeros((len(batch.indices), n), dtype=bool)
    np.put_along_axis(members, batch.indices, True, axis=1)
    return members


def _binomials(hits: np.ndarray, trials: np.ndarray, rate: float) -> Iterator[_Test]:
    for count, runs in zip(hits.sum(axis=0), trials.sum(axis=0), strict=True):
        if runs:
            yield _Test(count_p_value(float(count), float(runs), rate))
