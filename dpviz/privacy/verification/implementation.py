"""Tests of the implementation of mechanisms: many runs of a method are compared with what its releases declare.

An attack on a claim uses the likelihood ratio under the declared noise. It does not see noise that is used twice, a
batch that stays the same, or another distribution of the noise. The tests here look at the releases themselves. Each
has a p-value: an upper bound on the probability of an outcome this unusual if the implementation is as declared.

All tests together call a sound implementation faulty with a probability of at most `ERROR`. Each kind of tests has a
share of it, and test number q of a kind gets the share 1/(q (q + 1)) of that. This holds for adaptive methods, too,
because the number of a test depends only on releases before the draws that it tests.

Terms: a *draw* is a number of the noise divided by its declared scale; a *choice* is a selection of an index, by the
exponential mechanism or the sparse vector technique.

Sources: Dvoretzky, Kiefer, Wolfowitz 1956 with Massart's constant 1990 (test of the shape); Ville 1939 (choices). The
test of repeats: N independent draws have at most N²/2 pairs, each of which is equal with a probability of at most q.
There are at most (N²/2)^k/k! sets of k pairs without a common draw, whose pairs are all equal with a probability of at
most q^k. So k such pairs are equal with a probability of at most (N² q/2)^k/k!.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import bdtr, bdtrc, gammainc, gammaincc, logsumexp, ndtr

from dpviz.numbers import short
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, ExpMech, StatedPureDP, draws_batch, has_blocks, inner_events
from dpviz.privacy.ledger import SLACK, FixedEvents, Ledger
from dpviz.privacy.releases import Query, Release, SelectionRelease, Standard, SumRelease, ThresholdRelease
from dpviz.privacy.verification.transcripts import BatchRelease, Transcript, declared_scale, law_of, standard_draws

# ------------------------------------------------------- likelihood ratios of wrong distributions, for all selections
# Under the declared distribution such a ratio has expectation 1, also if utilities are chosen adaptively. So the
# probability that it ever reaches x is at most 1/x (Ville 1939). The same holds for the mean of several ratios.

_SCALES = (0.5, 0.71, 0.9, 1.1, 1.41, 2.0)  # factors of the noise in the wrong distributions
# Amounts added to the log weight of one index in other wrong distributions: a fixed index, the one that the run
# selected before, or the one that was selected in the previous run.
_TILTS = (-0.3, 0.3)
_INDICES = 4  # number of fixed indices for which that is done


class ChoiceOdds:
    """Log likelihood ratios of all selections so far, one for each wrong distribution."""

    def __init__(self) -> None:
        self._log_ratios: dict[str, float] = {}

    def add(self, release: SelectionRelease, last_choices: dict[int, np.ndarray], runs: int) -> None:
        """Add the selections of one release in `runs` runs.

        last_choices : for each number of options k, each run's last selection among k options, (runs,), -1 for none;
            it is updated.
        """
        if not 0 < release.charged_parameter < math.inf:  # without privacy nothing is drawn
            return
        change = np.broadcast_to(np.asarray(release.declared_sensitivity, dtype=float), len(release.output))
        is_drawn = change > 0  # (R',): if no row can change the utilities, the best index is selected without noise
        declared_slope = release.charged_parameter / np.where(is_drawn, change, 1.0)  # log weight per unit of utility
        logits = release.log_weights(declared_slope)  # (R', draws or 1, options)
        options = logits.shape[-1]
        logits = np.broadcast_to(logits, (*release.output.shape, options))
        is_choice = (release.output >= 0) & is_drawn[:, None]
        choices, weights = release.output[is_choice], logits[is_choice]  # (N,) and (N, options), N selections in all
        earlier = last_choices.setdefault(options, np.full(runs, -1))
        earlier_choices = np.broadcast_to(earlier[release.replicates][:, None], is_choice.shape)[is_choice]  # (N,)
        earlier[release.replicates] = release.output[:, 0]  # for the next release; of several selections, the first
        # Marks of the options whose weight a wrong distribution changes: (options,), or (N, options).
        indices = np.arange(options)
        tilted_options = {f"index {index}": indices == index for index in range(min(options, _INDICES))}
        tilted_options["as before"] = indices == earlier_choices[:, None]
        # Row i - 1 is the run before, or, if a run has several selections, the selection before.
        tilted_options["as in the last run"] = indices == np.concatenate([[-1], choices[:-1]])[:, None]
        wrong_weights = {f"noise {scale}": weights / scale for scale in _SCALES}
        for name, marks in tilted_options.items():
            wrong_weights |= {f"{name} {tilt}": weights + tilt * marks for tilt in _TILTS}
        declared = _log_chances(weights, choices)
        for name, wrong in wrong_weights.items():
            log_ratio = float((_log_chances(wrong, choices) - declared).sum())
            self._log_ratios[name] = self._log_ratios.get(name, 0.0) + log_ratio

    def p_value(self) -> float:
        """Return 1 divided by the mean of the likelihood ratios, at most 1."""
        if not self._log_ratios:
            return 1.0
        log_ratios = np.array(list(self._log_ratios.values()))
        return math.exp(min(0.0, math.log(len(log_ratios)) - float(logsumexp(log_ratios))))


def _log_chances(weights: np.ndarray, choices: np.ndarray) -> Floats:
    """Return the log probabilities (N,) of selections `choices` (N,) from log weights (N, k), whose largest is about 0,
    so that `exp` does not overflow."""
    of_choice = np.take_along_axis(weights, choices[:, None], axis=1)[:, 0]
    return np.asarray(of_choice - np.log(np.exp(weights).sum(axis=1)))


# ---------------------------------------------------------------------------- choices at values that an auditor made up
# In the data sets of an audit one row decides the choices, and a wrong amount of noise is hard to see there. So the
# audited mechanisms also make choices at the following values, whose probabilities the auditor knows.

_MIN_CHOICES = 8  # in each run, for each event
_MAX_EVENTS = 4  # largest number of different events
_NODES = 20_000  # nodes of the integral over the noisy threshold
_LOGITS = np.array([0.0, 1.2, 2.4])  # log weights at which a tenth more or less noise is easiest to see
_THRESHOLD_VALUES = np.array([-1.0, -1.0, 0.5])  # values less the threshold, in scales of their noise


def choice_counts(
    source: type[Transcript], events: Iterable[Event], seed: int, release: str, runs: int
) -> Iterator[tuple[list[int], list[float]]]:
    """Make choices at the auditor's values, in `runs` runs; yield how often each index was chosen, and its probability.

    For each event two pairs are yielded: of single choices, and of two successive choices of a run, whose pairs of
    indices are numbered in one sequence.

    source : the class of mechanisms that is audited. events : those of the audited method. seed, release : as in
    `Mechanisms`.
    """
    for number, event in enumerate(_choice_events(events)):
        repeats = math.ceil(_MIN_CHOICES / len(inner_events(event)))
        mechanisms = source(Ledger(FixedEvents((event,) * repeats), runs), seed, f"choices {number}, {release}")
        if isinstance(event, StatedPureDP):
            values, chances = _threshold_outcomes(event)
            query = Query(np.tile(values, (runs, 1)), sensitivity=1.0, norm="linf")
            # The remainder turns -1, no index, into the last outcome.
            indices = np.array([mechanisms.above_threshold(query, event) for _ in range(repeats)]) % len(chances)
        else:
            chances = np.exp(_LOGITS) / np.exp(_LOGITS).sum()
            (eta,) = {inner.eta for inner in inner_events(event) if isinstance(inner, ExpMech)}  # of one selection
            utilities = np.tile(_LOGITS / eta, (runs, 1))  # η times a utility is its log weight
            query = Query(utilities, sensitivity=1.0, norm="range")
            indices = np.array([mechanisms.exponential(query, event) for _ in range(repeats)])
        indices = indices.reshape(repeats, -1)  # (repeats, choices of all runs in one repeat)
        yield np.bincount(indices.reshape(-1), minlength=len(chances)).tolist(), chances.tolist()
        if repeats > 1:  # two successive repeats make a pair; a last one without a partner is left out
            pairs = indices[0 : 2 * (repeats // 2)].reshape(repeats // 2, 2, -1)
            pair_numbers = len(chances) * pairs[:, 0] + pairs[:, 1]
            counts = np.bincount(pair_numbers.reshape(-1), minlength=len(chances) ** 2)
            yield counts.tolist(), np.outer(chances, chances).reshape(-1).tolist()


def _choice_events(events: Iterable[Event]) -> list[Event]:
    """Return at most _MAX_EVENTS different events that pay for choices; of composite ones the single choices inside.

    An event that repeats one selection on the whole table is returned as it is, because one call makes all of them.
    """
    choice_events: set[Event] = set()
    for event in events:
        singles = set(inner_events(event))
        selections = {single for single in singles if isinstance(single, ExpMech)}
        if any(selection.eta < np.inf for selection in selections):
            is_composite = len(singles) > 1 or draws_batch(event) or has_blocks(event)
            choice_events |= selections if is_composite else {event}
        choice_events |= {single for single in singles if isinstance(single, StatedPureDP) and single.eps < np.inf}
    return sorted(choice_events, key=repr)[:_MAX_EVENTS]


def _threshold_outcomes(event: StatedPureDP) -> tuple[Floats, Floats]:
    """Return values for the sparse vector technique, (k,), and the probabilities that the first, the second, … of them
    is released, or none, (k + 1,).

    The threshold gets Laplace noise of scale 1/ε₁ and each value of scale 2/ε₂, where ε₁ + ε₂ = ε and ε₁ : ε₂ = 1 :
    2^(2/3) (Lyu, Su, Li 2017, for sensitivity 1).
    """
    threshold_epsilon = event.eps / (1 + 2 ** (2 / 3))
    threshold_scale, value_scale = 1 / threshold_epsilon, 2 / (event.eps - threshold_epsilon)
    values = _THRESHOLD_VALUES * value_scale
    outcomes = np.array([*range(len(values)), -1])
    # A made-up release with one replicate for each possible outcome, for its method `log_density`.
    each_outcome = ThresholdRelease(
        np.tile(values, (len(outcomes), 1)),
        outcomes,
        np.arange(len(outcomes)),
        batch=None,
        threshold_scale=np.full((len(outcomes), 1), threshold_scale),
        value_scale=np.full((len(outcomes), 1), value_scale),
    )
    return values, np.exp(each_outcome.log_density(_NODES))


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
ERROR = 1e-5  # upper bound on the probability that a sound implementation is called faulty
# Share of ERROR for each kind of tests. Tests without a share find only what is impossible for a sound implementation.
SHARES: dict[Kind, float] = {
    "scale": 0.4,
    "shape": 0.1,
    "bare": 0.1,
    "dependence": 0.1,
    "repeats": 0.1,
    "batches": 0.1,
    "choices": 0.1,
}
KINDS: tuple[Kind, ...] = get_args(Kind)  # in the order of the findings
ROUNDING = 1e-9  # relative difference up to which two computed values count as equal
_WIDEST = 16  # largest number of draws of a release, and of a run whose products are formed, that are tested
_MAX_ROWS = 200  # largest table for which the rows of batches are tested
_TIED = 1e-12  # distance below which two draws count as equal
_COMPARED = 50_000  # number of draws that are searched for repeats


@dataclass(frozen=True)
class Finding:
    """The result of all tests of one kind.

    p : the smallest p-value, divided by the test's share of the error; 0 if the outcome is impossible for a sound
        implementation.
    release_number : number of the release with this p-value, from 1; 0 if it is not of one release.
    size : what was observed divided by what was declared: for the kind "scale" the size of the noise, for "sensitivity"
        the change of a query, for "budget" the amount spent; nan for other kinds.
    entry : number, from 1, of the entry of the release's output with this p-value; 0 for all entries together.
    """

    kind: Kind
    p: float
    release_number: int = 0
    size: float = math.nan
    entry: int = 0

    @property
    def is_fault(self) -> bool:
        """True if the outcome is so unlikely that the implementation is called faulty."""
        return self.p <= ERROR

    def sentence(self) -> str:
        """Return a clause for the screen that names the fault."""
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
class ImplementationVerdict:
    """The verdict of all tests."""

    findings: tuple[Finding, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Findings by which the implementation is called faulty."""
        return tuple(finding for finding in self.findings if finding.is_fault)

    def sentence(self) -> str:
        """Return sentences for the screen that state the verdict."""
        once = f"A sound implementation fails these tests in at most 1 of {round(1 / ERROR):,} audits."
        if self.faults:
            return f"Not as declared: {'; '.join(fault.sentence() for fault in self.faults)}. {once}"
        return (
            f"What left the mechanisms looks as declared in all {len(self.findings)} kinds of tests. {once} "
            "They do not see what a method reads past its mechanisms: the attack does, where that makes an output "
            "on D' another one than on D."
        )


class _Test(NamedTuple):
    """The result of one test; fields as in `Finding`, but p is the test's p-value itself."""

    p: float
    release_number: int = 0
    size: float = math.nan
    entry: int = 0


def _strongest(kind: Kind, tests: Iterable[_Test]) -> Finding:
    """Return the finding of the test whose p-value, divided by its share of the error, is the smallest.

    Test number q, from 1, has the share SHARES[kind]/(q (q + 1)).
    """
    strongest = _Test(math.inf)
    for q, test in enumerate(tests, 1):
        p = test.p * q * (q + 1) / SHARES[kind]
        strongest = min(strongest, test._replace(p=p), key=lambda candidate: candidate.p)
    return Finding(kind, min(strongest.p, 1.0), strongest.release_number, strongest.size, strongest.entry)


def count_p_value(count: float, trials: float, rate: float) -> float:
    """Return the two-sided p-value of a count of successes in independent trials with probability `rate`."""
    at_most = float(bdtr(count, int(trials), rate))
    at_least = 1.0 if count == 0 else float(bdtrc(count - 1, int(trials), rate))  # more than count - 1
    return min(1.0, 2 * min(at_most, at_least))


def rare_p_value(count: int, expected: float) -> float:
    """Return an upper bound on the probability of `count` or more of many independent events, `expected` on average.

    It is expected^count/count!, the mean number of sets of `count` events that all occur.
    """
    return math.exp(min(0.0, count * math.log(expected) - math.lgamma(count + 1))) if count else 1.0


class ReleaseTests:
    """The releases of an audit's runs, collected in chunks of runs by `add`, and the tests of them, by `findings`.

    plan_scales : the scales of noise that the plan displays; empty if it displays none.
    at_most : True if these are upper bounds of the scales.
    row : index of the row of the table in which the two data sets differ.
    """

    def __init__(self, plan_scales: Floats, at_most: bool, row: int) -> None:
        self._plan_scales, self._at_most, self._row = plan_scales[plan_scales > 0], at_most, row
        self._runs = 0  # number of runs so far
        self._chunks: list[int] = []  # number of the first run of each chunk
        # Draws by (release number, distribution, draws per run), as (first run, (runs of the chunk, k)) for each chunk.
        self._draws: dict[tuple[int, Standard, int], list[tuple[int, np.ndarray]]] = {}
        # Rows of batches by the number of the charge, as (first run, (runs of the chunk, n)) for each chunk: 1 for rows
        # in the batch, 0 for others, -1 if the run had no such batch; and the probability of a row by charge.
        self._members: dict[int, list[tuple[int, np.ndarray]]] = {}
        self._rates: dict[int, float] = {}
        self._odds = ChoiceOdds()
        self._choice_counts: dict[tuple[float, ...], np.ndarray] = {}  # of known choices, by their probabilities
        self._certain_faults: dict[Kind, _Test] = {}  # the largest fault of each kind that is impossible by chance
        self._zeros: dict[int, tuple[int, float]] = {}  # by release: number of draws of 0, and the expected number
        self._grid = _TIED  # largest unit to which draws are rounded
        self._seeds: set[str] = set()  # first states of the random streams

    def add(
        self,
        actual: Transcript,
        pair: tuple[Transcript, Transcript],
        on_same: tuple[Transcript, Transcript] | None = None,
    ) -> None:
        """Add a chunk of runs.

        actual : their first runs, in which the releases were drawn.
        pair : second runs with the same outputs on the two neighbouring data sets.
        on_same : second runs on the data set of the first runs, with the row in all random batches, and in none; None
            if there are no random batches.
        """
        runs = actual.replicates
        self._chunks.append(self._runs)
        if len({*actual.seeds}) < len(actual.seeds) or self._seeds & {*actual.seeds}:
            self._record_fault("streams")
        self._seeds.update(actual.seeds)
        draws = standard_draws(actual.releases, runs)
        last_choices: dict[int, np.ndarray] = {}  # see `ChoiceOdds.add`
        tested_charges: set[int] = set()  # charges whose batch has been added
        for release_number, (release, units) in enumerate(zip(actual.releases, draws, strict=True), 1):
            if units is not None:
                self._store_draws(release_number, release, units[:, :_WIDEST], runs)
                self._count_zeros(release_number, release, units)
                self._check_scale(release_number, release)
            if isinstance(release, SelectionRelease):
                self._odds.add(release, last_choices, runs)
        for batch_release in actual.batch_releases:
            self._check_batch(batch_release, actual, on_same, tested_charges)
        for leaves in actual.paid_leaves:
            if not np.diff(np.sort(leaves._indices, axis=1), axis=1).all():  # a row is in two leaves
                self._record_fault("batches")
        self._check_sensitivities(*pair)
        if not actual.releases_match_charges():
            self._record_fault("releases")
        self._runs += runs

    def compare_spent(self, spent: float, limit: float) -> None:
        """Record a fault if the amount that a plan or a run spends exceeds its limit."""
        if spent > limit * (1 + SLACK):
            self._record_fault("budget", size=spent / limit)

    def add_choices(self, counts: Sequence[int], chances: Sequence[float]) -> None:
        """Add counts of outcomes with known probabilities, as `choice_counts` yields them."""
        old_counts = self._choice_counts.get(tuple(chances), np.zeros(len(chances), dtype=int))
        self._choice_counts[tuple(chances)] = old_counts + np.asarray(counts)

    def findings(self) -> tuple[Finding, ...]:
        """Return one finding for each kind of tests, in the order of KINDS."""
        tests: dict[Kind, Callable[[], Iterator[_Test]]] = {
            "scale": self._scale_tests,
            "shape": self._shape_tests,
            "bare": self._zero_tests,
            "dependence": self._dependence_tests,
            "repeats": self._repeat_tests,
            "batches": self._batch_tests,
            "choices": self._choice_tests,
        }
        finding_of_kind = {kind: _strongest(kind, test()) for kind, test in tests.items()}
        # A fault that is impossible by chance says more than the tests of its kind.
        finding_of_kind |= {kind: Finding(kind, *test) for kind, test in self._certain_faults.items()}
        return tuple(finding_of_kind.get(kind, Finding(kind, p=1.0)) for kind in KINDS)

    def _record_fault(self, kind: Kind, release_number: int = 0, size: float = math.nan) -> None:
        """Record a fault that is impossible by chance; of each kind, the one of the largest size is kept.

        Of faults without a size (nan) it is the first. release_number, size : as in `Finding`.
        """
        worst = self._certain_faults.get(kind)
        if worst is None or worst.size < size:
            self._certain_faults[kind] = _Test(p=0.0, release_number=release_number, size=size)

    # ------------------------------------------------------------------------------------------------ noise

    def _store_draws(self, release_number: int, release: Release, units: np.ndarray, runs: int) -> None:
        """Store the draws `units` (R', k) of a release in a chunk of `runs` runs; nan for runs without it."""
        draws = np.full((runs, units.shape[1]), np.nan)
        draws[release.replicates] = units
        self._draws.setdefault((release_number, law_of(release), units.shape[1]), []).append((self._runs, draws))

    def _count_zeros(self, release_number: int, release: Release, units: np.ndarray) -> None:
        """Count the draws of a release that are 0 up to rounding, and add to the number of them that is expected.

        The density of a draw is at most 1/2, so it is within `grid` of 0 with a probability of at most `grid`, the
        rounding error of the draws.
        """
        grid = np.maximum(_TIED, _rounding_of_draws(release))[:, None]
        count, expected = self._zeros.get(release_number, (0, 0.0))
        is_drawn = ~np.isnan(units)
        self._zeros[release_number] = (
            count + int((np.abs(units) < grid)[is_drawn].sum()),
            expected + float((grid * is_drawn).sum()),
        )
        self._grid = max(self._grid, float(grid.max(initial=0.0)))

    def _zero_tests(self) -> Iterator[_Test]:
        """Test the number of draws of 0 in each release: more than rounding explains mean that noise is missing."""
        for release_number, (count, expected) in sorted(self._zeros.items()):
            yield _Test(rare_p_value(count, expected), release_number)

    def _check_scale(self, release_number: int, release: Release) -> None:
        """Record a fault if the plan displays scales of noise, but not the one that the release declares.

        For running sums, it also checks that the factorisation is one of the prefix sums.
        """
        scale = declared_scale(release)
        if scale is None or not len(self._plan_scales):
            return
        if isinstance(release, SumRelease):
            decoder = release.factorisation.decoder()
            # The declared scale is that of the independent draws; the noise on a sum is a row of the decoder by them.
            scale = scale * np.linalg.norm(decoder[release.step])
            steps = np.arange(len(decoder))
            series = steps // release.factorisation.period  # the sums begin again after each period
            sums = (steps[:, None] >= steps) & (series[:, None] == series)  # the matrix of prefix sums
            if not np.allclose(decoder @ release.factorisation.encoder(), sums, atol=ROUNDING):
                self._record_fault("plan", release_number)
        for distinct in np.unique(scale[scale > 0]):
            if self._at_most:
                is_planned = distinct <= self._plan_scales.max() * (1 + ROUNDING)
            else:
                is_planned = np.isclose(distinct, self._plan_scales, rtol=ROUNDING, atol=0).any()
            if not is_planned:
                self._record_fault("plan", release_number)

    def _draws_by_release(self) -> Iterator[tuple[int, Standard, np.ndarray]]:
        """Yield the number, declared distribution and draws (N, k) of each release, in the N runs with its noise."""
        for (release_number, law, _), chunks in sorted(self._draws.items()):
            draws = np.concatenate([chunk for _, chunk in chunks])
            draws = draws[~np.isnan(draws[:, 0])]
            if draws.size:
                yield release_number, law, draws

    def _columns(self) -> list[tuple[int, np.ndarray]]:
        """Return, for each entry of each release, the release's number and the draws (runs,).

        Draws are nan in runs without the release, so that an index is the same run in all columns.
        """
        columns = []
        for (release_number, _law, _width), chunks in sorted(self._draws.items()):
            columns += [(release_number, column) for column in _of_all_runs(chunks, self._runs, np.nan).T]
        return columns

    def _scale_tests(self) -> Iterator[_Test]:
        """Test the size of the draws z, for all entries of a release together and for each entry.

        Σ|z| of N Laplace draws has a gamma distribution of shape N, and Σz²/2 of N normal ones that of shape N/2.
        """
        for release_number, law, draws in self._draws_by_release():
            parts = [draws, *draws.T] if draws.shape[1] > 1 else [draws]  # number 0: all entries together
            for entry, part in enumerate(parts):
                total = float(np.abs(part).sum() if law == "laplace" else (part**2).sum() / 2)
                shape = part.size if law == "laplace" else part.size / 2  # also the mean of the total
                size = total / shape if law == "laplace" else math.sqrt(total / shape)
                p = 2 * min(float(gammainc(shape, total)), float(gammaincc(shape, total)))
                yield _Test(p if math.isfinite(total) else 0.0, release_number, size, entry)

    def _shape_tests(self) -> Iterator[_Test]:
        """Test the largest distance between the empirical and the declared distribution function of the draws."""
        for release_number, law, draws in self._draws_by_release():
            z = np.sort(draws, axis=None)
            tail = np.exp(-np.abs(z)) / 2
            declared = ndtr(z) if law == "standard_normal" else np.where(z < 0, tail, 1 - tail)
            empirical = np.arange(len(z) + 1) / len(z)  # before the first draw, and after each
            distance = max(float((empirical[1:] - declared).max()), float((declared - empirical[:-1]).max()))
            yield _Test(min(1.0, 2 * math.exp(-2 * len(z) * distance**2)), release_number)  # Massart's inequality

    def _dependence_tests(self) -> Iterator[_Test]:
        """Test that products of two independent draws are positive as often as fair coins show heads.

        The pairs are draws of one entry in two successive runs, and of two entries in one run. Entries are paired with
        earlier ones only, so that the number of a test does not depend on later releases.
        """
        columns = self._columns()
        for index, (release_number, draws) in enumerate(columns[:_WIDEST]):
            of_two_runs = draws[0 : 2 * (len(draws) // 2) : 2] * draws[1::2]  # no run is in two pairs
            of_two_entries = [earlier_draws * draws for _, earlier_draws in columns[:index]]
            for products in (of_two_runs, *of_two_entries):
                coins = products[~np.isnan(products)]
                yield _Test(count_p_value(float((coins > 0).sum()), len(coins), 0.5), release_number)

    def _repeat_tests(self) -> Iterator[_Test]:
        """Test the number of pairs of equal draws, in which no draw is in two pairs; see the module's text.

        The density of |z| is at most 1, so two draws are within a distance `grid` with a probability of at most twice
        that.
        """
        columns = self._columns()
        if not columns:
            return
        # The first runs of each chunk: if two chunks had the same random streams, the draws of these would be equal.
        runs_of_chunk = max(1, _COMPARED // (len(columns) * len(self._chunks)))
        runs = np.concatenate([np.arange(start, min(start + runs_of_chunk, self._runs)) for start in self._chunks])
        # `unique`: if chunks are shorter than `runs_of_chunk`, their ranges overlap.
        draws = np.abs(np.concatenate([column[np.unique(runs)] for _, column in columns]))
        draws = np.sort(draws[draws > 0])  # without nan, and without zeros, which `_zero_tests` tests
        is_tied = (np.diff(draws) < self._grid).astype(np.int8)  # with the next draw
        starts = np.flatnonzero(np.diff(is_tied, prepend=0) == 1)
        ends = np.flatnonzero(np.diff(is_tied, append=0) == -1)
        chain_lengths = ends - starts + 2  # of draws, one more than the ties from `starts` to `ends`
        pairs = int((chain_lengths // 2).sum())
        yield _Test(rare_p_value(pairs, len(draws) ** 2 * self._grid))  # N² q/2 with q = 2 grid

    # ------------------------------------------------------------------------------------------------ batches

    def _check_batch(
        self,
        batch_release: BatchRelease,
        actual: Transcript,
        on_same: tuple[Transcript, Transcript] | None,
        tested_charges: set[int],
    ) -> None:
        """Record a fault if a release was not computed on its batch, and store the rows of the batch for tests.

        actual, on_same : as in `add`. tested_charges : the charges whose batches have been stored; updated.
        """
        release, event = actual.releases[batch_release.release_number - 1], batch_release.event
        assert isinstance(release.batch, Batch)
        members = _members(release.batch, event.n)
        # The exact values of the same release on the same data, on a batch with the row and on one without it. All
        # other rows are equal, so the value on the batch that was drawn must be one of the two. If a second run departs
        # from the first and has no such value, the attack sees that.
        values_on_same = [
            second_run.releases[batch_release.release_number - 1].value
            for second_run in on_same or ()
            if len(second_run.releases) >= batch_release.release_number
        ]
        have_value = len(values_on_same) == 2 and all(value.shape == release.value.shape for value in values_on_same)
        if have_value:
            value_with, value_without = values_on_same
            has_row = members[:, self._row].reshape(-1, *[1] * (release.value.ndim - 1))
            expected = np.where(has_row, value_with, value_without)
            if not np.allclose(release.value, expected, rtol=ROUNDING, atol=ROUNDING * np.abs(expected).max(initial=0)):
                self._record_fault("values", batch_release.release_number)
        if batch_release.charge_number in tested_charges or event.n > _MAX_ROWS:
            return
        tested_charges.add(batch_release.charge_number)
        if (members.sum(axis=1) != event.m).any():
            self._record_fault("batches", batch_release.release_number)
        rows = np.full((actual.replicates, event.n), -1, dtype=np.int8)
        rows[release.replicates] = members
        self._members.setdefault(batch_release.charge_number, []).append((self._runs, rows))
        self._rates[batch_release.charge_number] = event.m / event.n

    def _batch_tests(self) -> Iterator[_Test]:
        """Test how often each row is in a batch: in all runs, in runs after one whose batch had it, and in steps of a
        run after one whose batch had it."""
        batches = {number: _of_all_runs(chunks, self._runs, -1) for number, chunks in sorted(self._members.items())}
        for index, (charge_number, members) in enumerate(batches.items()):
            rate = self._rates[charge_number]
            yield from _frequency_tests(members == 1, members >= 0, rate)
            even_runs, odd_runs = members[0 : 2 * (len(members) // 2) : 2], members[1::2]
            was_in_even = even_runs == 1
            yield from _frequency_tests((odd_runs == 1) & was_in_even, (odd_runs >= 0) & was_in_even, rate)
            for earlier in list(batches.values())[:index]:
                was_in_earlier = (earlier == 1) & (members >= 0)
                yield from _frequency_tests(was_in_earlier & (members == 1), was_in_earlier, rate)

    # ------------------------------------------------------------------------------------------------ choices

    def _choice_tests(self) -> Iterator[_Test]:
        """Test the runs' selections by likelihood ratios, and the frequencies of choices of known probabilities."""
        yield _Test(self._odds.p_value())
        for chances, counts in self._choice_counts.items():
            total = int(counts.sum())
            for count, chance in zip(counts.tolist(), chances, strict=True):
                yield _Test(count_p_value(count, total, chance))

    # ------------------------------------------------------------------------------------------------ sensitivity

    def _check_sensitivities(self, one: Transcript, other: Transcript) -> None:
        """Record a fault if one row changes a query by more than its declared sensitivity.

        one, other : second runs with the same outputs on the two neighbouring data sets. The outputs are equal, so a
        change of the exact value is a change of the draws. All running sums of a series are one release, so the squares
        of their changes add up.
        """
        one_draws, other_draws = (standard_draws(run.releases, run.replicates) for run in (one, other))
        squares: dict[int, np.ndarray] = {}  # by series of running sums, (R,)
        # `strict=False`: a second run that departs from the first ends earlier.
        for release_number, (first, second, first_units, second_units) in enumerate(
            zip(one.releases, other.releases, one_draws, other_draws, strict=False), 1
        ):
            if first_units is None or second_units is None or first_units.shape != second_units.shape:
                relative_change = self._relative_change_of_choices(first, second)
            else:
                # Without what rounding explains, which is much for a release that hardly costs anything.
                rounding = 2 * _rounding_of_draws(first)[:, None]
                difference = np.maximum(np.abs(first_units - second_units) - rounding, 0.0)  # nan stays nan
                values, others = (release.value.reshape(len(difference), -1) for release in (first, second))
                tolerance = ROUNDING * np.abs(values).max(initial=0.0)
                is_near = np.isclose(values, others, rtol=ROUNDING, atol=tolerance).all(axis=1, keepdims=True)
                # If the declared sensitivity is 0, draws are nan, and any change of the exact values is too much.
                is_fixed = np.isnan(difference).any(axis=1, keepdims=True)
                difference = np.where(is_fixed & is_near, 0.0, np.nan_to_num(difference, nan=math.inf))
                # A scale is the declared sensitivity divided by `charged_parameter`, so draws may differ by that: ε
                # in L1, μ in L2.
                if law_of(first) == "laplace":
                    relative_change = difference.sum(axis=1) / first.charged_parameter
                else:
                    square = (difference**2).sum(axis=1) / first.charged_parameter**2
                    if isinstance(first, SumRelease):
                        total = squares.setdefault(id(first.series), np.zeros(one.replicates))
                        total[first.replicates] += square
                        square = total
                    relative_change = np.sqrt(square)
            largest = float(np.max(relative_change, initial=0.0))
            if largest > 1 + ROUNDING * 100:
                self._record_fault("sensitivity", release_number, size=largest)

    @staticmethod
    def _relative_change_of_choices(first: Release, second: Release) -> np.ndarray:
        """Return the change of the utilities of selections, or of the values of a sparse vector, divided by the
        declared sensitivity, (R',); [0] for other releases."""
        is_comparable = type(first) is type(second) and first.value.shape == second.value.shape
        if not is_comparable or not isinstance(first, SelectionRelease | ThresholdRelease):
            return np.zeros(1)
        difference = first.value - second.value
        change = np.broadcast_to(np.asarray(first.declared_sensitivity, dtype=float), len(difference))
        if isinstance(first, ThresholdRelease):
            moved = np.abs(difference).reshape(len(difference), -1).max(axis=1, initial=0.0)  # in the norm "linf"
        else:
            moved = np.ptp(difference, axis=-1).reshape(len(difference), -1).max(axis=1)  # in the norm "range"
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(moved > 0, moved / change, 0.0)


def _rounding_of_draws(release: Release) -> np.ndarray:
    """Return the largest rounding error of the draws of a release, in scales of the noise, (R',): a multiple of the
    spacing of floating-point numbers around the values."""
    scale = declared_scale(release)
    assert scale is not None
    size = np.maximum(np.abs(release.value), np.abs(release.output)).reshape(len(scale), -1).max(axis=1, initial=0)
    with np.errstate(divide="ignore"):
        # 8 spacings: the noisy value and its difference from the exact one are rounded, and there is room for more.
        return np.where(scale > 0, 8 * np.spacing(size) / scale, 0.0)


def _of_all_runs(chunks: Sequence[tuple[int, np.ndarray]], runs: int, missing: float) -> np.ndarray:
    """Return values of all `runs` runs, (runs, k), from chunks (first run, values (r, k)); `missing` for runs that are
    in none."""
    _, first_values = chunks[0]
    values = np.full((runs, first_values.shape[1]), missing, dtype=first_values.dtype)
    for start, chunk in chunks:
        values[start : start + len(chunk)] = chunk
    return values


def _members(batch: Batch, n: int) -> np.ndarray:
    """Return marks of the rows that are in a batch of a table of n rows, (R', n) bool."""
    if batch.marked is not None:
        return batch.marked
    assert batch.indices is not None
    members = np.zeros((len(batch.indices), n), dtype=bool)
    np.put_along_axis(members, batch.indices, True, axis=1)
    return members


def _frequency_tests(hits: np.ndarray, trials: np.ndarray, rate: float) -> Iterator[_Test]:
    """Yield a test for each column: the number of True in `hits` among those in `trials`, (runs, n), of rate `rate`."""
    for count, runs in zip(hits.sum(axis=0), trials.sum(axis=0), strict=True):
        if runs:
            yield _Test(count_p_value(float(count), float(runs), rate))
