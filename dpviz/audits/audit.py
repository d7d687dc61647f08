"""Audits: a lower bound on an algorithm's privacy loss, from attacks on its runs, against the claim of its plan.

Two neighbouring data sets are constructed, D and D', which differ in a canary: one record that is as different as a
record can be. The algorithm runs many times on each, as replicates of one run. The attacker gets all releases of a run
and computes the log-likelihood ratio of D against D' under the declared noise (`transcripts`), even where other noise
was drawn. On the first part of the runs the best threshold for this score is chosen. On the rest it is counted how
often the threshold tells the data sets apart, and from these counts follows a lower bound that holds with the stated
confidence (`privacy.audit`). The number of runs is fixed in advance. If the bound is computed K times on the way (at K
"looks"), each of them may err with 1/K of the allowed probability only. Such a bound can refute a claim, never prove
one.

Terms: Nasr et al. 2023 (thresholds, Gaussian DP); Steinke, Nasr, Jagielski 2023; Jagielski, Ullman, Oprea 2020.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from typing import Annotated, Literal

import numpy as np

from dpviz import resources
from dpviz.arguments import Between, check_fields
from dpviz.checkpoints import checkpoint
from dpviz.displays import Displayed
from dpviz.errors import UserError
from dpviz.experiments.algorithm import AnyAlgorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.numbers import short_down, short_up
from dpviz.one_thread import one_thread, steps_on_one_thread
from dpviz.privacy import audit, tradeoffs
from dpviz.privacy.accounting import closed_forms, pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget, GaussianDP
from dpviz.privacy.events import Event, ExpMech, Gaussian, draws_batch, inner_events
from dpviz.privacy.ledger import Filter, Ledger
from dpviz.privacy.mechanisms import seed_or_random
from dpviz.privacy.verification.implementation import ImplementationVerdict, ReleaseTests, choice_counts
from dpviz.privacy.verification.transcripts import ReplayMismatch, Transcript, log_likelihood
from dpviz.problems.base import Problem, ProblemSpecification
from dpviz.specification import is_ours

# --------------------------------------------------------------------------------------------------------------- claims

# Factors by which all ranges of a plan are multiplied; the audit refutes those that are too small. The claim is the
# factor 1; once 1 + 1e-6 is refuted as well, the bound exceeds the claim, so that the verdict is a violation.
_FACTORS = np.array([*np.linspace(0.02, 1.0, 50), 1 + 1e-6, *np.linspace(1.02, 2.0, 50), *np.geomspace(2.1, 20, 15)])
_LOSSES = np.linspace(-1.0, 1.0, 161)  # privacy losses at which δ is computed, as shares of the largest loss


@dataclass(frozen=True)
class Claim:
    """The claim under test, a number that limits how well two neighbouring data sets can be told apart.

    symbol, value : symbol of the number, such as "ε", "ε at δ = 10⁻⁵", "μ" or "η", and the claimed number.
    smallest_value : maps the probabilities of an event on D and on D' (arrays) to the smallest number that allows them.
    tradeoff : maps false positive rates to the smallest false negative rates that the claim allows any attack.
    """

    symbol: str
    value: float
    smallest_value: Callable[[Floats, Floats], Floats]
    tradeoff: Callable[[Floats], Floats]

    @classmethod
    def of(cls, plan: Plan) -> "Claim":
        """Return the claim of a plan: the number that describes its releases most exactly.

        If all releases are selections by the exponential mechanism, it is the largest of their ranges η, while the
        others keep their proportions to it. If all noise is Gaussian, it is the μ of all releases together. Otherwise,
        and wherever events are chosen during the run or batches are random, it is the budget.
        """
        budget = plan.budget
        if not isinstance(plan.terms, Filter) and not any(draws_batch(event) for event in set(plan.events)):
            releases = [release for event in plan.events for release in inner_events(event)]
            ranges = tuple(release.eta for release in releases if isinstance(release, ExpMech))
            if ranges and len(ranges) == len(releases):
                largest = max(ranges)
                if len(ranges) == 1:  # in closed form, which `_least_range` is not
                    return cls("η", largest, audit.least_eta, partial(closed_forms.exponential_tradeoff, largest))
                if _FACTORS[-1] * largest <= pld.LARGEST_LOSS:  # larger ones cannot be composed: then the budget
                    smallest_value = partial(_least_range, ranges)
                    return cls(
                        "largest η", largest, smallest_value, partial(tradeoffs.tradeoff, tuple(map(ExpMech, ranges)))
                    )
            if releases and all(isinstance(release, Gaussian) for release in releases):
                budget = GaussianDP.of_amount(float(plan.spent("mu")[-1]) ** 2)  # of μ²
        return cls(budget.symbol, budget.limit, budget.smallest_limit, budget.tradeoff)


@lru_cache(8)
def _profiles(ranges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return privacy losses ε (k,), and for each factor in _FACTORS the smallest δ(ε) (number of factors, k) for which
    selections whose ranges are `ranges` times the factor are (ε, δ)-private."""
    losses = _LOSSES * sum(ranges) * 1.01  # a little beyond the largest loss of the claimed ranges
    events = [tuple(ExpMech(factor * eta) for eta in ranges) for factor in _FACTORS]
    return losses, np.array([tradeoffs.profile(selections, losses) for selections in events])


def _least_range(ranges: tuple[float, ...], rate: Floats, false_rate: Floats) -> Floats:
    """Return the smallest value of the largest range under which an event can have the probability p = `rate` on D and
    q = `false_rate` on D'. The other ranges keep their proportions to it.

    It is the largest range times the largest factor in _FACTORS that is refuted, because p > e^ε q + δ(ε) for some ε; 0
    if none is refuted.
    """
    losses, deltas = _profiles(ranges)  # (k,) and (number of factors, k)
    p, q = (np.asarray(value, dtype=float)[..., None] for value in np.broadcast_arrays(rate, false_rate))
    smallest_delta = p - np.exp(losses) * q  # (..., k) the δ(ε) that the event would need
    # The refuted factors are the smallest ones, so their number is the position of the largest of them, from 1.
    refuted = np.sum([(smallest_delta > delta).any(axis=-1) for delta in deltas], axis=0)
    return np.concatenate([[0.0], _FACTORS])[refuted] * max(ranges)


# --------------------------------------------------------------------------------------------------------------- audits

Runs = Annotated[int, Between(2, 10**7, ends=True)]
Looks = Annotated[int, Between(1, 100, ends=True)]
Seed = Annotated[int, Between(0, math.inf, ends=True)]
BLOCK = 1000  # runs on each data set that are computed at once
DIGITS = 6  # decimals of a score: finer differences come from floating-point arithmetic, not from the noise
TUNING = 0.25  # share of the runs on which the threshold is chosen
_THRESHOLDS = 200  # largest number of thresholds that are tried for an attack
Row = Sequence[float]  # the numbers of a row of a table
_SAME = 1e-9  # relative: outputs that differ by at most this are equal up to rounding
# Kinds of canaries. If a canary moves every query as far as possible, and only noise hides that, no canary proves more:
# it is the worst case. Otherwise the worst one that is known is used.
WORST, KNOWN, ORDINARY = "Worst case", "Worst known case", "Ordinary row"


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets, D (`one`) and D' (`other`), as built problems with equal facts.

    row : index of the row in which they differ.
    alike : True if all other rows are equal to each other, so that a batch matters only by whether it has this row.
        Methods that draw random batches need that.
    """

    one: Problem
    other: Problem
    row: int = 0
    alike: bool = True

    @classmethod
    def of(cls, problem: ProblemSpecification, identity: str, table: np.ndarray, one: Row, other: Row) -> "Neighbours":
        """Build a problem on a table with this identity twice: with `one` and with `other` in place of its first
        row."""

        def build(row: Row) -> Problem:
            rows = table.copy()
            rows[0] = row
            return problem.build({identity: rows})

        return cls(build(one), build(other), alike=bool((table[1:] == table[-1]).all()))


@dataclass(frozen=True)
class Case:
    """A small problem on which one algorithm is audited with one canary, the row in which D and D' differ.

    In the list of a family, the worst of several cases with the same title comes first.

    name : name of the case in links, such as "nesterov". title : name of the method, in words.
    canary, canary_name : the difference of D and D' in a sentence, and its kind in a few words.
    budgets : budgets under which the method can be audited; the first is preselected.
    data : builds the two data sets. runs : default number of runs on each.
    source : class that draws the noise and records the releases; another one only where a mistake is made on purpose.
    score : computes (R,) numbers from the releases of R runs, higher for D, as an attacker would who knows the mistake.
        None: the score is the log-likelihood ratio of D against D' under the declared noise.
    """

    name: str
    title: str
    algorithm: AnyAlgorithm
    canary: str
    budgets: tuple[Budget, ...]
    data: Callable[[], Neighbours]
    runs: int = 10_000
    source: type[Transcript] = Transcript
    score: Callable[[Transcript], Floats] | None = None
    canary_name: str = WORST

    def ordinary(self, canary: str, data: Callable[[], Neighbours]) -> "Case":
        """Return a case of the same method with an ordinary row as canary, which is harder to tell from the others.

        canary : the difference of D and D', in a sentence. data : builds the two data sets.
        """
        return replace(self, name=f"{self.name}_ordinary", canary=canary, data=data, canary_name=ORDINARY)

    @cached_property
    def neighbours(self) -> Neighbours:
        """The two data sets D and D', which are built once."""
        return self.data()


@dataclass(frozen=True)
class Look:
    """A bound that an audit announces after some of its runs.

    runs : number of counted runs on each data set, without those on which the attack was chosen.
    hits, false_hits : as `Attack.counts` returns them.
    bound : a lower bound on the claim's number. The bounds of all looks hold together with the audit's confidence.
    """

    runs: int
    hits: int
    false_hits: int
    bound: float


@dataclass(frozen=True)
class Attack:
    """A test for the data set of a run, which is fixed before the counted runs.

    It says "D" where the score is at least `threshold`; with `reverse`, it says "D'" where the score is at most that.
    """

    threshold: float
    reverse: bool = False

    def counts(self, present: Floats, absent: Floats) -> tuple[int, int]:
        """Return the numbers of hits and of false hits: of the runs for which the test says "D", those on D and those
        on D'; with `reverse`, of the runs for which it says "D'", those on D' and those on D.

        present, absent : scores of the runs on D and on D'.
        """
        if self.reverse:
            return int((absent <= self.threshold).sum()), int((present <= self.threshold).sum())
        return int((present >= self.threshold).sum()), int((absent >= self.threshold).sum())


@dataclass(frozen=True)
class Progress:
    """The state of an audit after a block of runs.

    present, absent : (k,) scores of the runs on D, where the canary is present, and on D' so far.
    tuning, attack : number of the first runs on which the attack is chosen, and the attack; None before.
    looks : the bounds announced so far.
    implementation : results of the tests of the implementation, at the end of the audit; None before.
    """

    present: Floats
    absent: Floats
    tuning: int
    attack: Attack | None
    looks: tuple[Look, ...]
    implementation: ImplementationVerdict | None = None


@dataclass(frozen=True)
class Verdict(Displayed):
    """The result of an audit.

    symbol, claim : symbol of the claimed number, and the number.
    bound, confidence : lower bound on that number, and the probability with which it holds.
    runs : planned number of runs on each data set, including those on which the attack was chosen.
    flagged_at : number of these runs up to the first look whose bound exceeds the claim; None if none does.
    implementation : results of the tests that the releases of all runs are as declared; None if the audit was stopped.
    """

    symbol: str
    claim: float
    bound: float
    confidence: float
    runs: int
    attack: Attack
    looks: tuple[Look, ...]
    flagged_at: int | None
    implementation: ImplementationVerdict | None = None

    @property
    def faulty(self) -> bool:
        """True if releases differ from what was declared, by a test of the implementation; the attack may miss it."""
        return self.implementation is not None and bool(self.implementation.faults)

    @property
    def violation(self) -> bool:
        """True if the attack refutes the claim; the tests of the implementation have no part in it."""
        return self.flagged_at is not None

    @property
    def tightness(self) -> float:
        """The proven bound as a share of the claimed number: 1 if the attack shows that the claim is tight."""
        return self.bound / self.claim

    @property
    def proven(self) -> str:
        """The bound in symbols, "ε ≥ 0.912"; with more digits if it refutes the claim, as three might not show that."""
        return f"{self.symbol} ≥ {short_down(self.bound, 6 if self.violation else 3)}"

    @property
    def claimed(self) -> str:
        """The claimed number as text, with as many digits as `proven` has."""
        return short_up(self.claim, 6 if self.violation else 3)

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """Return the verdict in words."""
        level = f"{100 * self.confidence:g} % confidence"
        if self.violation:
            return f"Violation: the attack proves {self.proven}, where {self.claimed} is claimed, with {level}."
        return f"No violation found: this attack proves {self.proven} of the claimed {self.claimed}, with {level}."


@dataclass(frozen=True)
class Audit:
    """An audit of one case under a budget.

    runs : number of runs on each data set, fixed in advance.
    looks : number of announced bounds, including the one at the end.
    confidence : probability with which all of the bounds hold together.
    seed : seed of all noise; None to draw one.

    >>> import dpviz
    >>> from dpviz import families
    >>> case = families.audits()["accelerated"][0]
    >>> verdict = dpviz.Audit(case, case.budgets[0], runs=10_000, seed=1).run()
    >>> verdict.violation
    False
    >>> 0.5 < verdict.tightness < 1.0
    True
    """

    case: Case
    budget: Budget
    runs: Runs = 10_000
    looks: Looks = 10
    confidence: Annotated[float, Between(0, 1)] = audit.CONFIDENCE
    seed: Seed | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.budget.private:
            raise UserError("Without a guarantee there is no claim. Give a budget, such as PureDP(epsilon=1).")

    @cached_property
    def plan(self) -> Plan:
        """The plan under audit. Raises UserError where the budget does not fit the algorithm."""
        with one_thread:  # as in `stream`, since the last digits of results depend on the number of threads
            return self.case.algorithm.plan(self.case.neighbours.one.facts, self.budget)

    @cached_property
    def claim(self) -> Claim:
        """The claim under test."""
        return Claim.of(self.plan)

    @property
    def tuning(self) -> int:
        """Number of runs on each data set on which the attack is chosen; they come first and are not counted."""
        return math.ceil(TUNING * self.runs)

    @property
    def level(self) -> float:
        """Confidence of each look, which has its part of the allowed error, so that all looks hold together."""
        return 1 - (1 - self.confidence) / self.looks

    def bound(self, hits: int, false_hits: int, runs: int) -> float:
        """Return the lower bound that a look proves by these numbers of hits and false hits in `runs` counted runs."""
        # Bounds on the probabilities of a hit and of a false hit.
        rates = audit.rate_bounds(hits, runs, false_hits=false_hits, false_runs=runs, confidence=self.level)
        return float(self.claim.smallest_value(*rates))

    @property
    def max_bound(self) -> float:
        """The largest bound that so many runs can prove: the one that follows if every guess is right."""
        counted = self.runs - self.tuning
        return self.bound(counted, 0, counted)

    def max_true_rates(self, false_positive_rates: Floats) -> Floats:
        """Return the largest true positive rates that the claim allows any attacker at these false positive rates."""
        return 1 - self.claim.tradeoff(false_positive_rates)

    def run(self) -> Verdict:
        """Run the audit to its end and return its verdict."""
        for progress in self.stream():  # noqa: B007 (there is at least one block)
            pass
        return self.verdict(progress)

    def verdict(self, progress: Progress) -> Verdict:
        """Return the verdict of the audit from its last state."""
        assert progress.attack is not None and progress.looks
        claim = self.claim
        flagged = (progress.tuning + look.runs for look in progress.looks if look.bound > claim.value)
        return Verdict(
            symbol=claim.symbol,
            claim=claim.value,
            bound=max(look.bound for look in progress.looks),
            confidence=self.confidence,
            runs=self.runs,
            attack=progress.attack,
            looks=progress.looks,
            flagged_at=next(flagged, None),
            implementation=progress.implementation,
        )

    @steps_on_one_thread
    def stream(self) -> Iterator[Progress]:
        """Run the audit, yielding its state after every block of runs; closing the stream stops it.

        A world is one of the data sets, 0 for D and 1 for D'. A score compares a run with its replay, which gets the
        same outputs on another data set (see `scores`). Raises UserError for a user's method that acts on random
        numbers other than those of the mechanisms, as no replay would be like its run.
        """
        seed, pair = seed_or_random(self.seed), self.case.neighbours
        if not pair.alike and any(draws_batch(event) for event in _events(self.plan)):
            raise UserError(
                "Take two data sets whose other rows are all equal, or read all rows in every step.",
                title="On random batches, the other rows must not matter",
            )
        # With one data set in place of both, all scores of a method that repeats itself are 0.
        one_twice = replace(self.case, data=lambda: replace(pair, other=pair.one), score=None)
        is_of_user = not is_ours(type(self.case.algorithm))
        if is_of_user and scores(one_twice, self.plan, 0, seed, "one data set twice", runs=2).any():
            raise UserError(
                "After the same releases on the same data set it goes on in another way, which would pass for a leak. "
                "Draw random numbers from `mechanisms.public`, and keep nothing from run to run.",
                title="The method does not repeat itself",
            )
        scales = np.concatenate([np.empty(0), *self.plan.noise.values()])  # `empty`: a plan may have no noise
        release_tests = ReleaseTests(scales, self.plan.noise_varies, pair.row)
        release_tests.compare_spent(self.budget.spent(self.plan.events, self.plan.facts.released), self.budget.limit)
        by_world = [np.empty(0), np.empty(0)]  # the scores of both worlds so far
        attack, looks, done = None, list[Look](), 0  # done: number of runs so far
        looks_at = self.runs_at_looks()
        # A block ends after BLOCK runs, and wherever the attack is chosen or a bound is announced.
        for end in sorted({*range(BLOCK, self.runs, BLOCK), self.tuning, *looks_at, self.runs}):
            for world in (0, 1):
                release = f"{world}, from {done}"  # names random streams that no other block has
                block = scores(self.case, self.plan, world, seed, release, end - done, release_tests)
                by_world[world] = np.concatenate([by_world[world], block])
            # Besides, the mechanisms make choices of known probabilities, whose frequencies are tested.
            for choices in choice_counts(
                self.case.source, _events(self.plan), seed=seed, release=f"from {done}", runs=end - done
            ):
                release_tests.add_choices(*choices)  # counts and probabilities
            done = end
            if end == self.tuning:
                attack = self._choose_attack(*by_world)
            if attack is not None and end in looks_at:
                counted = [values[self.tuning :] for values in by_world]
                looks.append(self._look(attack, *counted))
            implementation = ImplementationVerdict(release_tests.findings()) if end == self.runs else None
            yield Progress(by_world[0], by_world[1], self.tuning, attack, tuple(looks), implementation)

    def runs_at_looks(self) -> list[int]:
        """Return the numbers of runs on each data set after which a bound is announced.

        They include the runs on which the attack is chosen, and ascend; some are equal if there are fewer other runs
        than looks, and a bound is then announced once for all of these.
        """
        counted = self.runs - self.tuning
        return [self.tuning + math.ceil(counted * (index + 1) / self.looks) for index in range(self.looks)]

    def _look(self, attack: Attack, present: Floats, absent: Floats) -> Look:
        """Return the bound that follows from an attack on counted runs, given by their scores on D and on D'."""
        hits, false_hits = attack.counts(present, absent)
        return Look(len(present), hits, false_hits, self.bound(hits, false_hits, len(present)))

    def _choose_attack(self, present: Floats, absent: Floats) -> Attack:
        """Return the attack that would prove the largest bound on these runs, given by their scores on D and on D'."""
        # Thresholds are distinct scores; of more than _THRESHOLDS, those at evenly spaced ranks.
        distinct = np.unique(np.concatenate([present, absent]))
        ranks = np.unique(np.linspace(0, len(distinct) - 1, _THRESHOLDS).round().astype(int))
        thresholds = distinct[ranks]
        attacks = [Attack(float(value), reverse) for reverse in (False, True) for value in thresholds]
        counts = np.array([attack.counts(present, absent) for attack in attacks])  # (attacks, 2) hits and false hits
        rates = audit.rate_bounds(
            counts[:, 0], len(present), false_hits=counts[:, 1], false_runs=len(absent), confidence=self.level
        )
        return attacks[int(np.argmax(self.claim.smallest_value(*rates)))]


def scores(
    case: Case, plan: Plan, world: int, seed: int, release: str, runs: int, release_tests: ReleaseTests | None = None
) -> Floats:
    """Compute (runs,) the scores, rounded, of `runs` runs on D (world 0) or on D' (world 1).

    A score is that of `case.score` or, without one, the log-likelihood ratio of D against D'.

    The runs are replayed, with the same releases, on the other data set. If random batches are drawn, they are replayed
    on both data sets, with the row in which these differ in every batch and in none. From the replays follow the
    likelihoods of the releases on D and on D'. A score is infinite where the same releases lead to another output on
    the other data set, as that output reveals the data set.

    release : name of the random streams of these runs.
    release_tests : the tests of the implementation, which also get the runs.
    """
    algorithm, data, transcript_class = case.algorithm, case.neighbours, case.source
    problems = (data.one, data.other)
    draws_batches = any(draws_batch(event) for event in _events(plan))
    actual = transcript_class(Ledger(plan.terms, replicates=runs), seed, release, row=data.row)
    # Replays, which hand out the outputs of `actual` again, by (world, whether the row is in every batch or in none).
    keys = [(0, True), (0, False), (1, True), (1, False)] if draws_batches else [(1 - world, True)]
    replays = {
        (w, with_row): transcript_class(
            Ledger(plan.terms, runs), seed, release, first_run=actual, row=data.row, with_row=with_row
        )
        for w, with_row in keys
    }
    # Without batches the runs themselves serve for their world; with batches a replay takes this place.
    transcripts = {(world, True): actual, **replays}
    # The runs come first: in each step they release what the replays then hand out. Runs and replays have copies of the
    # problems, since a method with a mistake made on purpose may change the queries of its problem.
    steps = [iter(algorithm.run(copy(problems[world]), plan, actual))]
    steps += [iter(algorithm.run(copy(problems[w]), plan, replay)) for (w, _), replay in replays.items()]
    is_distinguished = np.zeros(runs, dtype=bool)
    try:
        # None stands for the snapshot of a run or replay that has ended before the others.
        for snapshot, *replay_snapshots in zip_longest(*steps):
            checkpoint()  # the caller may stop the audit here
            for (replay_world, _), replay_snapshot in zip(replays, replay_snapshots, strict=True):
                if replay_world != world:  # a replay on the other data set
                    is_distinguished |= _differ(snapshot, replay_snapshot)
        if any(len(replay.outputs) < len(actual.outputs) for replay in replays.values()):
            raise ReplayMismatch("the run on the other data set releases less")
    except ReplayMismatch:  # the algorithm makes other queries on the other data set, which shows in the releases
        is_distinguished[:] = True
        for _ in steps[0]:  # releases that are paid for already may still follow
            pass
    if release_tests is not None:
        on_same = (replays[world, True], replays[world, False]) if draws_batches else None
        release_tests.add(actual, (transcripts[world, True], transcripts[1 - world, True]), on_same=on_same)
        if isinstance(plan.terms, Filter):  # what a run spends is known only now
            release_tests.compare_spent(float(actual.spent(plan.terms.currency).max()), plan.terms.cap)
    if case.score is not None:
        result = case.score(actual)
    else:
        log_one, log_other = (log_likelihood(transcripts[w, True], transcripts.get((w, False))) for w in (0, 1))
        result = log_one - log_other
    return np.where(is_distinguished, math.inf if world == 0 else -math.inf, np.round(result, DIGITS))


def _events(plan: Plan) -> set[Event]:
    """Return the different events that a plan allows."""
    return set(plan.terms.allowed.values()) if isinstance(plan.terms, Filter) else set(plan.events)


def _differ(one: Snapshot | None, other: Snapshot | None) -> np.ndarray | bool:
    """Return (R,) whether two snapshots differ in an output, a released value or a status, beyond rounding errors.

    True stands for all replicates: one run has ended before the other (None), or only one of them has a status.
    """
    if one is None or other is None:
        return True
    different = np.zeros(one.replicates, dtype=bool)
    for arrays, other_arrays in ((one.output, other.output), (one.released, other.released)):
        for name, values in arrays.items():
            is_near = np.isclose(values, other_arrays[name], rtol=_SAME, atol=_SAME, equal_nan=True)
            different |= ~is_near.reshape(len(is_near), -1).all(axis=1)
    for name in ("active", "status"):
        state, other_state = getattr(one, name), getattr(other, name)
        if (state is None) != (other_state is None):
            return True
        if state is not None:
            different |= np.asarray(state) != np.asarray(other_state)
    return different


# ---------------------------------------------------------------------- mistakes made on purpose, for audits to find


@dataclass(frozen=True)
class Broken:
    """A mistake that is made on purpose, and the audit that catches it.

    name : name of the mistake in links. title : the mistake in a few words; mistake : in a sentence.
    why : in a sentence, the reason why the plan's claim is violated, and the use that an attacker makes of it.
    case, sound : the case with the mistake, and the same case without it.
    budget : the budget that the plan claims to keep.
    runs : number of runs on each data set with which an audit catches the mistake in 99 of 100 times.
    by : "attack" if the attack refutes the claim; "tests" if only the tests of the implementation see the mistake.
    """

    name: str
    title: str
    mistake: str
    why: str
    case: Case
    sound: Case
    budget: Budget
    runs: int
    by: Literal["attack", "tests"] = "attack"

    def audit(self, seed: int | None = None) -> Audit:
        """Return an audit of the case with the mistake, with as many runs as catch it; see `runs`."""
        return Audit(self.case, self.budget, runs=self.runs, seed=seed)


def load_mistakes(package: str, cases: Mapping[str, tuple[Case, Case]]) -> tuple[Broken, ...]:
    """Return the mistakes of a family, with their texts from the file `broken.toml` in its package.

    cases : by name of the mistake, the case with it and the sound one, whose first budget is the claimed one.
    Raises KeyError for a mistake without texts.
    """
    texts = resources.data(package, "broken.toml")
    return tuple(
        Broken(name=name, case=case, sound=sound, budget=sound.budgets[0], **texts[name])
        for name, (case, sound) in cases.items()
    )
