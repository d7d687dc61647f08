"""Randomised response, what a trusted server would give in its place, and a game of guessing; THEORY.md, section 16.

Each of n people has one of k answers; k = 2 is a yes/no question. "Local" means that every person's own report protects
the answer, so nobody else needs to be trusted; "central", that a server counts the answers and adds noise to the
counts. The ε of both is about one and the same change: one person's answer is replaced by any other, and n is public.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpviz.later import lazy_functions
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.audit import CONFIDENCE
from dpviz.privacy.events import Laplace, StatedPureDP
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.releases import Query

gammaln, ndtri, xlog1py, xlogy = lazy_functions("scipy.special", "gammaln ndtri xlog1py xlogy")

ROUNDS = 10  # of the game for each phone


@dataclass(frozen=True)
class RandomisedResponse:
    """Reports of k answers under ε: the true answer with probability e^ε/(e^ε + k - 1), and each other with an e^ε-th
    of that (Warner 1965; Kairouz, Bonawitz, Ramage 2016).

    A phone tosses its own coins.

    >>> import math
    >>> warner = RandomisedResponse(math.log(3))
    >>> round(warner.truth, 3), round(warner.coin, 3)
    (0.75, 0.5)
    >>> round(warner.estimate(25, n=40), 3)
    0.75
    """

    eps: float
    choices: int = 2

    def __post_init__(self) -> None:
        _ = self.event  # raises ValueError unless ε is positive
        if self.choices < 2:
            raise ValueError(f"an answer needs at least 2 choices, got {self.choices}")

    @property
    def event(self) -> StatedPureDP:
        """The event of all n reports together: a replaced answer changes the law of one of them only."""
        return StatedPureDP(self.eps)

    @property
    def truth(self) -> float:
        """The probability p that a report is the true answer."""
        return 1 / (1 + (self.choices - 1) * math.exp(-self.eps))

    @property
    def lie(self) -> float:
        """The probability q that a report is a certain one of the other answers."""
        return self.truth * math.exp(-self.eps)

    @property
    def coin(self) -> float:
        """The probability p - q of heads of the device's first coin.

        With heads the device reports the true answer, with tails one of the k answers that it draws evenly, the true
        one among them: for yes or no, the side on which a fair coin falls.
        """
        return -math.expm1(-self.eps) * self.truth

    def estimate(self, count: float, n: int) -> float:
        """Return the estimate of the share of people with an answer, of which there are `count` among n reports.

        It is unbiased and so may lie outside [0, 1]; those of the k answers add up to 1.
        """
        return (count / n - self.lie) / self.coin

    def variance(self, share: float, n: int, sampled: bool = False) -> float:
        """Return the variance of the estimate where a `share` of the n people has the answer.

        sampled : false if the share is that of these n people, so that chance is in the coins alone; true if they are
            drawn from many, of whom it is the share.
        """
        if sampled:
            reported = self.lie + self.coin * share
            return reported * (1 - reported) / (n * self.coin**2)
        of_reports = share * self.truth * (1 - self.truth) + (1 - share) * self.lie * (1 - self.lie)
        return of_reports / (n * self.coin**2)

    def standard_error(self, count: float, n: int) -> float:
        """Return the standard error of the estimate of these n people's share, from their reports alone.

        Of yes and no it is the same for every number of reports, as q = 1 - p.
        """
        return math.sqrt(self.variance(min(max(self.estimate(count, n), 0.0), 1.0), n))

    def interval(self, count: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return both ends of a confidence interval for these n people's share of one answer, from 0 to 1.

        It holds with at least this probability, for any n and share, and contains the share that is nearest to the
        estimate. The interval is one answer's; those of all k hold together with 1 - k (1 - confidence). Its cost grows
        with n²: 0.1 s and 30 MB at n = 1,000.
        """
        low, high = _intervals(self, n, confidence)
        return int(low[count]) / n, int(high[count]) / n

    def error(self, n: int, confidence: float = CONFIDENCE) -> float:
        """Return an error that the estimate of n people's share keeps to with about this probability, whatever the
        share is: that of a normal distribution with the largest variance."""
        # The variance is linear in the share, so it is largest at 0 or 1.
        return float(ndtri((1 + confidence) / 2)) * math.sqrt(max(self.variance(share, n) for share in (0.0, 1.0)))

    def people(self, error: float, confidence: float = CONFIDENCE) -> int:
        """Return the smallest number of people with at most this `error`."""
        return math.ceil((self.error(1, confidence) / error) ** 2)  # the error is in proportion to 1/√n


@dataclass(frozen=True)
class LaplaceCounts:
    """Counts of k answers with Laplace noise, which a trusted server would release under ε.

    Of yes or no it releases the number of yes, as n is public; of more answers, each one's number.
    """

    eps: float
    choices: int = 2

    @property
    def event(self) -> Laplace:
        """The event of the release of all counts."""
        return Laplace(self.eps)

    @property
    def sensitivity(self) -> float:
        """The L1 sensitivity: a replaced answer moves one count by 1, or leaves one and enters another."""
        return 1.0 if self.choices == 2 else 2.0

    @property
    def scale(self) -> float:
        """The scale b of the noise on a count."""
        return noise_scale(self.event, self.sensitivity)

    def variance(self, n: int) -> float:
        """Return the variance of a share, (count + noise)/n."""
        return 2 * (self.scale / n) ** 2

    def error(self, n: int, confidence: float = CONFIDENCE) -> float:
        """Return the error that one answer's share keeps to with exactly this probability."""
        # P(|noise| > t) = e^(-t/b).
        return -self.scale * math.log1p(-confidence) / n

    def people(self, error: float, confidence: float = CONFIDENCE) -> int:
        """Return the smallest number of people with at most this `error`."""
        return math.ceil(self.error(1, confidence) / error)  # the error is in proportion to 1/n


@lru_cache(64)
def _intervals(response: RandomisedResponse, n: int, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each number of reports y = 0..n of an answer, the ends of the confidence interval of the number t of
    people who have it: the fewest and the most, (n + 1,) each.

    Given t, the number of reports is the sum of two binomial numbers Bin(t, truth) and Bin(n - t, lie), and is y with a
    probability P(y | t). Each t allows the y with the largest P(y | t) / max P(y | ·), as many as add up to the
    confidence; the interval of a y has the t that allow it (Feldman, Cousins 1998).
    """
    rows = [np.convolve(_binomial(t, response.truth), _binomial(n - t, response.lie)) for t in range(n + 1)]
    chances = np.array(rows)  # P(y | t) at index [t, y]
    largest = np.maximum(chances.max(axis=0), np.finfo(float).tiny)  # max P(y | ·), above 0 also where it underflows
    order = np.argsort(-chances / largest, axis=1, kind="stable")  # of the y, for each t
    sums = np.cumsum(np.take_along_axis(chances, order, axis=1), axis=1)
    # In this order, a y is needed as long as those before it do not add up to the confidence.
    is_needed = np.hstack([np.ones((n + 1, 1), dtype=bool), sums[:, :-1] < confidence])
    allows = np.zeros((n + 1, n + 1), dtype=bool)
    np.put_along_axis(allows, order, is_needed, axis=1)
    # The share nearest to the estimate, so that no interval is empty, not even where all probabilities underflow.
    nearest = np.clip([response.estimate(count, n) for count in range(n + 1)], 0, 1) * n
    allows[np.rint(nearest).astype(int), np.arange(n + 1)] = True
    # For each y, the first and the last t that allows it.
    return allows.argmax(axis=0), n - allows[::-1].argmax(axis=0)


def _binomial(trials: int, chance: float) -> Floats:
    """Return the probabilities of 0 to `trials` successes, each of which has probability `chance`."""
    k = np.arange(trials + 1)
    log_ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return np.asarray(np.exp(log_ways + xlogy(k, chance) + xlog1py(trials - k, -chance)))


# ------------------------------------------------------------------------------------------------------------- the game


def success_bound(eps: float) -> float:
    """Return e^ε/(1 + e^ε): under ε, the largest probability to guess one person's answer, of two equally likely."""
    return 1 / (1 + math.exp(-eps))


def success(eps: float) -> float:
    """Return the probability with which the best attacker guesses right whether a person is in a noisy count.

    Both are equally likely, and the number of all others is known. So the attacker says yes if the noisy count is above
    that number by more than ½: 1 - e^(-ε/2)/2. To round the count after the noise was added does not change this.
    """
    return 1 - math.exp(-eps / 2) / 2


def score_error(eps: float, phones: int) -> float:
    """Return the standard error of the share of right guesses of best attackers, ROUNDS on each of `phones` phones."""
    return math.sqrt(success(eps) * (1 - success(eps)) / (ROUNDS * phones))


def play(eps: float, others: int, rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rounds of the game: whether the person is in, (rounds,) bool, and the noisy count, (rounds,) whole numbers.

    A fair coin decides in each round whether the person joins the `others`, whose number is public. Every round is
    about another made-up class, and so has its own ε; about one class they would add up.
    """
    event = Laplace(eps)
    mechanisms = Mechanisms(Ledger(FixedEvents((event,)), replicates=rounds), seed)
    is_in = np.array([generator.random() < 0.5 for generator in mechanisms.public])
    noisy = mechanisms.laplace(Query(others + is_in.astype(float), sensitivity=1.0, norm="l1"), event)
    return is_in, np.rint(noisy).astype(int)
