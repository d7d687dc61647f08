"""Audits: what an attacker can tell from the runs of an algorithm, beside what its plan claims.

Two neighbouring data sets are made up, D and D', with a canary: one record that is as different as a record can be.
The algorithm runs many times on each; replicates are the runs. Of every run, the attacker gets all releases and forms
the log-likelihood ratio of D against D' under the declared noise (`transcripts`), whatever noise was drawn. On
the first part of the runs the best threshold is chosen, on the rest it is counted how often it tells the data sets
apart; from these counts follows a lower bound that holds with the stated confidence (`privacy.audit`). The numbers of
runs are fixed before, and looking K times divides the error by K. Such a bound can refute a claim, never prove one.

Words: Nasr et al. 2023 (thresholds, Gaussian DP); Steinke, Nasr, Jagielski 2023; Jagielski, Ullman, Oprea 2020.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from typing import Annotated, Literal

import numpy as np

from dpviz import resources
from dpviz.arguments import Between, check_fields
from dpviz.checkpoints import checkpoint
from dpviz.displays import Displayed
from dpviz.experiments.algorithm import AnyAlgorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.numbers import short_down, short_up
from dpviz.one_thread import one_thread, steps_on_one_thread
from dpviz.privacy import audit, tradeoffs
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget, GaussianDP
from dpviz.privacy.events import Event, ExpMech, Gaussian, draws_batch, inner_events
from dpviz.privacy.ledger import Filter, Ledger
from dpviz.privacy.mechanisms import drawn_seed
from dpviz.privacy.verification.implementation import Implementation, Watch, known_choices
from dpviz.privacy.verification.transcripts import Departure, Transcript, log_likelihood
from dpviz.problems.base import Problem, ProblemSpecification

# --------------------------------------------------------------------------------------------------------------- claims

# Of all ranges of a plan, the shares that are tried: those that are refuted are too small. 1 is one of them.
_SHARES = np.array([*np.linspace(0.02, 1.0, 50), 1 + 1e-6, *np.linspace(1.02, 2.0, 50), *np.geomspace(2.1, 20, 15)])
_LOSSES = np.linspace(-1.0, 1.0, 161)  # of the largest loss


@dataclass(frozen=True)
class Claim:
    """What is tested: no two neighbouring data sets can be told apart better than this.

    symbol : of the number, such as "ε", "ε at δ = 10⁻⁵", "μ", "η". value : the number.
    least : the smallest number that allows an event these probabilities on D and D'; arrays of them.
    tradeoff : the smallest false negative rates at these false positive rates, under the claim.
    """

    symbol: str
    value: float
    least: Callable[[Floats, Floats], Floats]
    tradeoff: Callable[[Floats], Floats]

    @classmethod
    def of(cls, plan: Plan) -> "Claim":
        """Of selections alone, what their ranges allow together; μ if all noise is Gaussian and no batch random; else
        the budget. The number of several selections is the largest range, with which the others rise and fall."""
        fixed = not isinstance(plan.terms, Filter) and not any(draws_batch(event) for event in set(plan.events))
        releases = [release for event in plan.events for release in inner_events(event)] if fixed else []
        ranges = tuple(release.eta for release in releases if isinstance(release, ExpMech))
        if ranges and len(ranges) == len(releases):
            largest = max(ranges)
            if len(ranges) == 1:
                return cls("η", largest, audit.least_eta, partial(closed_forms.exponential_tradeoff, largest))
            if largest < np.inf:
                least = partial(_least_range, ranges)
                return cls("largest η", largest, least, partial(tradeoffs.tradeoff, tuple(map(ExpMech, ranges))))
        if releases and all(isinstance(release, Gaussian) for release in releases):
            whole = GaussianDP.of(float(plan.spent("mu")[-1]) ** 2)
            return cls(whole.symbol, whole.limit, whole.least, whole.tradeoff)
        budget = plan.budget
        return cls(budget.symbol, budget.limit, budget.least, budget.tradeoff)


@lru_cache(8)
def _profiles(ranges: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Losses (k,), and δ at each of them (shares, k), of selections of so many shares of these ranges."""
    losses = _LOSSES * sum(ranges) * 1.01
    events = [tuple(ExpMech(share * one) for one in ranges) for share in _SHARES]
    return losses, np.array([tradeoffs.profile(each, losses) for each in events])


def _least_range(ranges: tuple[float, ...], rate: Floats, false_rate: Floats) -> Floats:
    """The smallest largest range, of selections that keep their proportions, under which an event can have these
    probabilities: all ranges are refuted for which p > e^ε q + δ(ε) at some ε."""
    losses, deltas = _profiles(ranges)
    p, q = (np.asarray(value, dtype=float)[..., None] for value in np.broadcast_arrays(rate, false_rate))
    above = p - np.exp(losses) * q
    refuted = np.sum([(above > delta).any(axis=-1) for delta in deltas], axis=0)  # the smaller a share, the sooner
    return np.concatenate([[0.0], _SHARES])[refuted] * max(ranges)


# --------------------------------------------------------------------------------------------------------------- audits

Runs = Annotated[int, Between(2, 10**7, ends=True)]
Looks = Annotated[int, Between(1, 100, ends=True)]
Seed = Annotated[int, Between(0, math.inf, ends=True)]
BLOCK = 1000  # runs at once on each data set
DIGITS = 6  # of a score: finer differences are residues of floating-point arithmetic, not of the noise
TUNING = 0.25  # of the runs, on which the threshold is chosen
_THRESHOLDS = 200
Row = Sequence[float]
_SAME = 1e-9  # relative: outputs that differ by no more are equal but for rounding
# Canaries: where every query moves as far as it can, and noise alone hides that, no other proves more; else that is not
# known.
WORST, KNOWN, ORDINARY = "Worst case", "Worst known case", "Ordinary row"


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets as built problems with equal facts. row : the one in which they differ; where random
    batches are drawn, all other rows are alike."""

    one: Problem
    other: Problem
    row: int = 0

    @classmethod
    def of(cls, problem: ProblemSpecification, identity: str, table: np.ndarray, one: Row, other: Row) -> "Neighbours":
        """A problem on an uploaded table, by its identity, of which the first row is replaced."""

        def built(row: Row) -> Problem:
            changed = table.copy()
            changed[0] = row
            return problem.build({identity: changed})

        return cls(built(one), built(other))


@dataclass(frozen=True)
class Case:
    """A tiny case of one algorithm with one canary. Of cases with one title, the worst comes first.

    name : of it in links, such as "nesterov". title : of the method, in words. canary : in a sentence, how D and D'
        differ. canary_name : of it in a few words.
    budgets : under which it is audited by default, the first one shown first. data : makes the neighbours.
    runs : on each data set, by default.
    source : the mechanisms; others only where they are broken on purpose. score : (R,) what an attacker who knows what
        is broken computes from a transcript, higher for D; None: its log-likelihood ratio under the declared noise.
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
        """The same method with a canary that is no worst case: a row like others in place of one that stands out."""
        return replace(self, name=f"{self.name}_ordinary", canary=canary, data=data, canary_name=ORDINARY)

    @cached_property
    def neighbours(self) -> Neighbours:
        """D and D', built once."""
        return self.data()


@dataclass(frozen=True)
class Look:
    """A bound that was announced: after `runs` runs on each data set that count, `hits` and `false_hits` of the event.

    bound : a lower bound on the claim's number; at all looks together it holds with the audit's confidence.
    """

    runs: int
    hits: int
    false_hits: int
    bound: float


@dataclass(frozen=True)
class Attack:
    """A test that was fixed before the runs that count: D where the score is at least `threshold`; with `reverse`, D'
    where it is at most that."""

    threshold: float
    reverse: bool = False

    def counts(self, present: Floats, absent: Floats) -> tuple[int, int]:
        """How often it finds the data set that it looks for where it is, and where it is not."""
        if self.reverse:
            return int((absent <= self.threshold).sum()), int((present <= self.threshold).sum())
        return int((present >= self.threshold).sum()), int((absent >= self.threshold).sum())


@dataclass(frozen=True)
class Progress:
    """An audit under way.

    present, absent : (k,) scores of the runs on D and on D' so far: the log-likelihood ratios of D against D'.
    attack : None while the first `tuning` of them are awaited, on which it is chosen. looks : bounds so far.
    implementation : what the tests of the implementation say, at the end; None before.
    """

    present: Floats
    absent: Floats
    tuning: int
    attack: Attack | None
    looks: tuple[Look, ...]
    implementation: Implementation | None = None


@dataclass(frozen=True)
class Verdict(Displayed):
    """How an audit ended.

    claim, symbol : the claimed number and what it counts. bound : what is proven of it, at least, with `confidence`.
    runs : on each data set, those on which the attack was chosen included. flagged_at : the number of runs at the first
    look whose bound exceeds the claim; None if none does.
    implementation : whether what left the mechanisms in all runs is as declared; None if it ended before the last.
    """

    symbol: str
    claim: float
    bound: float
    confidence: float
    runs: int
    attack: Attack
    looks: tuple[Look, ...]
    flagged_at: int | None
    implementation: Implementation | None = None

    @property
    def faulty(self) -> bool:
        """Whether the releases are not what was declared, whatever follows for the claim."""
        return self.implementation is not None and bool(self.implementation.faults)

    @property
    def violation(self) -> bool:
        """Whether the claim is refuted."""
        return self.flagged_at is not None

    @property
    def tightness(self) -> float:
        """The proven part of the claim."""
        return self.bound / self.claim

    @property
    def proven(self) -> str:
        """The bound in symbols, "ε ≥ 0.912": in more digits where few might not tell it from the claim."""
        return f"{self.symbol} ≥ {short_down(self.bound, 6 if self.violation else 3)}"

    @property
    def claimed(self) -> str:
        """The claimed number, in as many digits."""
        return short_up(self.claim, 6 if self.violation else 3)

    def sentence(self) -> str:
        """The verdict in words."""
        level = f"{100 * self.confidence:g} % confidence"
        if self.violation:
            return f"Violation: the attack proves {self.proven}, where {self.claimed} is claimed, with {level}."
        return f"No violation found: this attack proves {self.proven} of the claimed {self.claimed}, with {level}."


@dataclass(frozen=True)
class Audit:
    """One audit: a case under a budget.

    runs : on each data set, fixed in advance. looks : how often a bound is announced on the way, the last included.
    seed : None draws one. confidence : that of all bounds together.

    >>> from dpviz.families.accelerated.audits import CASES
    >>> verdict = Audit(CASES[0], CASES[0].budgets[0], runs=10_000, seed=1).run()
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

    @cached_property
    def plan(self) -> Plan:
        """What is audited. Raises UserError where the budget does not fit the algorithm."""
        with one_thread:
            return self.case.algorithm.plan(self.case.neighbours.one.facts, self.budget)

    @cached_property
    def claim(self) -> Claim:
        """What is tested."""
        return Claim.of(self.plan)

    @property
    def tuning(self) -> int:
        """The first runs on each data set, on which the attack is chosen."""
        return math.ceil(TUNING * self.runs)

    def claimed(self, false_positive_rates: Floats) -> Floats:
        """The largest true positive rates that the claim allows any attacker."""
        return 1 - self.claim.tradeoff(false_positive_rates)

    def run(self) -> Verdict:
        """To the end."""
        for progress in self.stream():  # noqa: B007 (there is at least one block)
            pass
        return self.verdict(progress)

    def verdict(self, progress: Progress) -> Verdict:
        """What follows from an audit that has ended."""
        assert progress.attack is not None and progress.looks
        claim = self.claim
        flagged = [look for look in progress.looks if look.bound > claim.value]
        return Verdict(
            claim.symbol,
            claim.value,
            max(look.bound for look in progress.looks),
            self.confidence,
            self.runs,
            progress.attack,
            progress.looks,
            progress.tuning + flagged[0].runs if flagged else None,
            progress.implementation,
        )

    @steps_on_one_thread
    def stream(self) -> Iterator[Progress]:
        """Block after block of runs; whoever stops asking stops the audit."""
        seed, scores = drawn_seed(self.seed), [np.empty(0), np.empty(0)]
        attack, looks, done, watch = None, list[Look](), 0, watching(self.case, self.plan, self.budget)
        ends = sorted({*range(BLOCK, self.runs, BLOCK), self.tuning, *self.ends(), self.runs})
        for end in ends:
            for world in (0, 1):
                found = self._scores(world, seed, f"{world}, from {done}", end - done, watch)
                scores[world] = np.concatenate([scores[world], found])
            for counted in known_choices(self.case.source, _events(self.plan), seed, f"from {done}", end - done):
                watch.add_choices(*counted)
            done = end
            if end == self.tuning:
                attack = self._tuned(*scores)
            if attack is not None and end in self.ends():
                looks.append(self._look(attack, *(values[self.tuning :] for values in scores)))
            tested = Implementation(watch.findings()) if end == self.runs else None
            yield Progress(scores[0].copy(), scores[1].copy(), self.tuning, attack, tuple(looks), tested)

    def ends(self) -> list[int]:
        """After how many runs on each data set a bound is announced, those for practice included."""
        rest = self.runs - self.tuning
        return [self.tuning + math.ceil(rest * (look + 1) / self.looks) for look in range(self.looks)]

    def _look(self, attack: Attack, present: Floats, absent: Floats) -> Look:
        hits, false_hits = attack.counts(present, absent)
        level = 1 - (1 - self.confidence) / self.looks
        rates = audit.separated(hits, len(present), false_hits, len(absent), level)
        return Look(len(present), hits, false_hits, float(self.claim.least(*rates)))

    def _tuned(self, present: Floats, absent: Floats) -> Attack:
        """The test that would prove most on these runs."""
        level = 1 - (1 - self.confidence) / self.looks
        both = np.unique(np.concatenate([present, absent]))
        thresholds = both[np.unique(np.linspace(0, len(both) - 1, _THRESHOLDS).round().astype(int))]
        attacks = [Attack(float(value), reverse) for reverse in (False, True) for value in thresholds]
        counts = np.array([attack.counts(present, absent) for attack in attacks])
        rates = audit.separated(counts[:, 0], len(present), counts[:, 1], len(absent), level)
        return attacks[int(np.argmax(self.claim.least(*rates)))]

    def _scores(self, world: int, seed: int, release: str, runs: int, watch: Watch) -> Floats:
        """(runs,) scores of fresh runs on D (world 0) or D' (world 1)."""
        return scores(self.case, self.plan, world, seed, release, runs, watch)


def watching(case: Case, plan: Plan, budget: Budget) -> Watch:
    """Tests of the implementation that know what the plan shows, and for which budget it was made."""
    shown = np.concatenate([np.empty(0), *plan.noise.values()])
    watch = Watch(shown, plan.noise_varies, case.neighbours.row)
    watch.compare_spent(budget.spent(plan.events, plan.facts.released), budget.limit)
    return watch


def scores(
    case: Case, plan: Plan, world: int, seed: int, release: str, runs: int, watch: Watch | None = None
) -> Floats:
    """(runs,) log-likelihood ratios of D against D' of so many runs on D (world 0) or D' (world 1), rounded.

    Infinite where an output of the run is none that the same releases lead to on the other data set. watch : is shown
    the runs.
    """
    algorithm, data, source = case.algorithm, case.neighbours, case.source
    problems = (data.one, data.other)
    sampled = any(draws_batch(event) for event in _events(plan))
    true = source(Ledger(plan.terms, runs), seed, release, row=data.row)
    again = {
        (which, taken): source(Ledger(plan.terms, runs), seed, release, true, row=data.row, taken=taken)
        for which in (0, 1)
        for taken in ((True, False) if sampled else (True,))
        if sampled or which != world
    }
    steps = [iter(algorithm.run(problems[world], plan, true))]
    steps += [iter(algorithm.run(problems[which], plan, other)) for (which, _), other in again.items()]
    told = np.zeros(runs, dtype=bool)
    try:
        for first, *others in zip_longest(*steps):
            checkpoint()
            for (which, _), snapshot in zip(again, others, strict=True):
                if which != world:
                    told |= _differ(first, snapshot)
        if any(len(other.released) < len(true.released) for other in again.values()):
            raise Departure("the run on the other data set releases less")
    except Departure:
        told[:] = True
        for _ in steps[0]:  # what it has paid for may be released later
            pass
    if watch is not None:
        pair = (again.get((world, True), true), again[1 - world, True])
        watch.add(true, pair, (again[world, True], again[world, False]) if sampled else None)
        if isinstance(plan.terms, Filter):
            watch.compare_spent(float(true.spent(plan.terms.currency).max()), plan.terms.cap)
    logs = [log_likelihood(again.get((which, True), true), again.get((which, False))) for which in (0, 1)]
    ratio = logs[0] - logs[1] if case.score is None else case.score(true)
    return np.where(told, math.inf if world == 0 else -math.inf, np.round(ratio, DIGITS))


def _events(plan: Plan) -> set[Event]:
    return set(plan.terms.allowed.values()) if isinstance(plan.terms, Filter) else set(plan.events)


def _differ(one: Snapshot | None, other: Snapshot | None) -> np.ndarray | bool:
    """(R,) where two snapshots show something else."""
    if one is None or other is None:
        return True
    different = np.zeros(one.replicates, dtype=bool)
    for mine, its in ((one.output, other.output), (one.released, other.released)):
        for name, values in mine.items():
            near = np.isclose(values, its[name], rtol=_SAME, atol=_SAME, equal_nan=True)
            different |= ~near.reshape(len(near), -1).all(axis=1)
    for name in ("active", "status"):
        mine, its = getattr(one, name), getattr(other, name)
        if (mine is None) != (its is None):
            return True
        if mine is not None:
            different |= np.asarray(mine) != np.asarray(its)
    return different


# ------------------------------------------------------------------------- mistakes made on purpose, for audits to find


@dataclass(frozen=True)
class Broken:
    """A mistake, and how it is caught.

    name : of it in links. title : in a few words. mistake : in a sentence, what is done. why : in a sentence, why that
    is not what the plan claims, and what an attacker makes of it.
    case : with the mistake. sound : the same without it. budget : what is claimed.
    runs : on each data set, with which an audit catches it in 99 of 100 times.
    by : what catches it: the attack on the claim, or the tests of the implementation, where it hides from the attack.
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
        """An audit with so many runs as are needed."""
        return Audit(self.case, self.budget, runs=self.runs, seed=seed)


def load(package: str, cases: Mapping[str, tuple[Case, Case]]) -> tuple[Broken, ...]:
    """The mistakes of a family, with their words from the file `broken.toml` in its package.

    cases : by the name of the mistake, the case with it and the sound one; the sound one's first budget is claimed.
    Raises KeyError for a mistake without words.
    """
    words = resources.data(package, "broken.toml")
    return tuple(
        Broken(name=name, case=case, sound=sound, budget=sound.budgets[0], **words[name])
        for name, (case, sound) in cases.items()
    )
