"""Audits from a single run. The data contain many canaries: rows for each of which a coin decides between two values.

Two data sets that differ in one coin are neighbours. So if coins are guessed from the releases of an ε-private run,
each guess is right with a probability of at most e^ε/(1 + e^ε), for any outcome of the other coins (Steinke, Nasr,
Jagielski 2023, Theorem 5.2; its proof requires of neighbours only that they differ in one coin). More right guesses
than that prove a larger ε.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.one_thread import one_thread
from dpviz.privacy import audit
from dpviz.privacy.budgets import Budget, PureDP, require
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Purpose, seed_or_random, streams
from dpviz.privacy.releases import NoisyRelease
from dpviz.privacy.verification.transcripts import Transcript
from dpviz.problems.base import Problem

GUESSED = 0.5  # share of the canaries that are guessed: those with the largest absolute scores


@dataclass(frozen=True)
class OneRunVerdict:
    """The result of an audit from a single run.

    claim : the claimed ε. bound, confidence : proven lower bound on ε, and the probability with which it holds.
    canaries, guesses, correct : number of canaries, of guessed coins, and of right guesses.
    """

    claim: float
    bound: float
    confidence: float
    canaries: int
    guesses: int
    correct: int

    @property
    def max_bound(self) -> float:
        """The largest bound that this number of guesses can prove: the one that follows if all are right."""
        return audit.one_run_epsilon_lower_bound(self.canaries, self.guesses, self.guesses, confidence=self.confidence)

    @property
    def violation(self) -> bool:
        """True if the claim is refuted."""
        return self.bound > self.claim


@dataclass(frozen=True)
class OneRun:
    """An audit of pure ε from one run of a method whose releases have a number for each canary.

    canaries : m, the number of canaries.
    data : builds the problem from (m,) coins; canary i moves number i of every query, and no other.
    source : class that draws the noise and records the releases; another one only to make a mistake on purpose.

    >>> from dpviz.families.accelerated.audits import ONE_RUN
    >>> verdict = ONE_RUN.run(PureDP(epsilon=1.0), seed=1)
    >>> verdict.canaries, verdict.guesses, verdict.violation
    (400, 200, False)
    """

    algorithm: AnyAlgorithm
    canaries: int
    data: Callable[[np.ndarray], Problem]
    source: type[Transcript] = Transcript

    def run(self, budget: Budget, seed: int | None = None, confidence: float = audit.CONFIDENCE) -> OneRunVerdict:
        """Toss the coins, run the method once, and guess the half of the coins with the clearest scores.

        The score of a coin is the log-likelihood ratio of heads against tails. For it the run with the tossed coins is
        replayed on the data of all heads and of all tails, with the same releases.

        Raises UserError for a budget that is not pure ε.
        """
        claim, seed = require(budget, PureDP).epsilon, seed_or_random(seed)
        (generator,) = streams(seed, Purpose.PUBLIC, replicates=1, release="coins")
        coins = generator.integers(0, 2, self.canaries).astype(bool)
        with one_thread:  # the last digits of results depend on the number of threads
            problems = [self.data(coin_values) for coin_values in (coins, np.ones_like(coins), np.zeros_like(coins))]
            plan = self.algorithm.plan(problems[0].facts, budget)  # the facts of all three are equal
            actual = self.source(Ledger(plan.terms, replicates=1), seed, release="one run")
            replays = [self.source(Ledger(plan.terms, 1), seed, release="one run", first_run=actual) for _ in range(2)]
            for problem, transcript in zip(problems, (actual, *replays), strict=True):
                for _ in self.algorithm.run(problem, plan, transcript):
                    pass
            # As canary i moves number i of every query alone, number i of the log-densities tells about coin i alone.
            heads, tails = (
                sum(release.log_densities()[0] for release in replay.releases if isinstance(release, NoisyRelease))
                for replay in replays
            )  # (m,) each; [0]: of the only replicate
        scores = np.asarray(heads - tails)
        indices = np.argsort(-np.abs(scores), kind="stable")[: round(GUESSED * self.canaries)]
        correct = int(((scores > 0) == coins)[indices].sum())  # the guess is heads where the score is positive
        bound = audit.one_run_epsilon_lower_bound(self.canaries, len(indices), correct, confidence=confidence)
        return OneRunVerdict(claim, bound, confidence, self.canaries, len(indices), correct)
