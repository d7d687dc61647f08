"""Plans of noisy means: noise, steps and rows, the guarantee of a given noise, and the savings of good accounting."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np

from dpviz import resources
from dpviz.arguments import Positive, checked
from dpviz.privacy import calibration
from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.accounting.accountants import Reading
from dpviz.privacy.accounting.currencies import UNITS, refusals
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Relation, Sub, inner_events
from dpviz.privacy.mechanisms import noise_scale
from dpviz.specification import Specification, choice, number

STEPS_LIMIT = 20_000  # affordable steps are counted up to here
Scheme = Literal["all", "wor", "poisson", "blocks"]
SCHEMES: Mapping[str, str] = MappingProxyType(
    {"all": "All rows", "wor": "Without replacement", "poisson": "Poisson", "blocks": "Disjoint blocks"}
)
PROTECTS: Mapping[Scheme, str] = MappingProxyType(resources.data(__package__, "words.toml")["PROTECTS"])


class NoisyMeans(Specification):
    """T releases of the mean of m clipped rows: the queries of most private algorithms."""

    kind: ClassVar[str] = "privacy.noisy_means.noisy_means"
    rows: int = number(10_000, 20, 10_000_000, label="Rows", symbol="n", scale="log", help="Rows of the data set.")
    sampling: Scheme = choice(
        "wor",
        SCHEMES,
        label="Sampling",
        help="Which rows each mean uses. It also decides who is protected: whether a row is exchanged, or comes and "
        "goes.",
    )
    batch_fraction: float = number(
        1.0,
        0.0001,
        1.0,
        label="Batch",
        symbol="m/n",
        scale="log",
        help="Share of the rows in each mean, unless it uses all rows. 1 = all rows, no sampling.",
    )
    iterations: int = number(
        100, 1, 10_000, label="Steps", symbol="T", scale="log", help="Noisy means that share the budget."
    )
    clip: float = number(
        1.0, 0.001, 1000.0, label="Clip", symbol="C", scale="log", help="Largest norm of one row's contribution."
    )
    noise: Literal["laplace", "gaussian"] = choice(
        "laplace",
        {"laplace": "Laplace", "gaussian": "Gaussian"},
        label="Noise",
        help="Laplace noise needs the clip in the L1 norm, Gaussian noise in the L2 norm.",
    )

    @property
    def batch_size(self) -> int:
        """m: rows in each mean; under Poisson sampling the constant that sums are divided by."""
        return self.rows if self.sampling == "all" else max(1, round(self.batch_fraction * self.rows))

    @property
    def relation(self) -> Relation:
        """The neighbouring relation that the sampling scheme fixes."""
        return "add/remove-one" if self.sampling == "poisson" else "replace-one"

    @property
    def sensitivity(self) -> float:
        """2C/m: an exchanged row moves the mean from one end of the ball to the other at most; C/m if it is added."""
        return (1 if self.relation == "add/remove-one" else 2) * self.clip / self.batch_size

    @property
    def protects(self) -> str:
        """The protected change of the data, in words."""
        return PROTECTS[self.sampling]

    @checked
    def events(self, budget: Budget) -> tuple[Event, ...]:
        """Return equal releases that use up the budget: one per step, or one per pass over disjoint blocks.

        Raises UserError where the noise cannot meet it.
        """
        if self.sampling == "blocks":
            passes = self._passes(self.iterations)
            (inner, *_) = calibration.calibrated_events(self.noise, budget, np.ones(passes), self.rows, self.rows)
            return self._charged(inner, self.iterations)
        sampling: calibration.Sampling = "poisson" if self.sampling == "poisson" else "wor"
        steps = np.ones(self.iterations)
        return calibration.calibrated_events(self.noise, budget, steps, self.batch_size, self.rows, sampling=sampling)

    @checked
    def events_of_noise(self, scale: Positive) -> tuple[Event, ...]:
        """Return the releases, as `events`, whose noise has scale b (Laplace) or σ (Gaussian) in each coordinate."""
        return self._charged(self._inner(scale), self.iterations)

    @checked
    def noise_scale(self, budget: Budget) -> float:
        """Return b (Laplace) or σ (Gaussian) in every coordinate of each mean, if the budget is spread over T steps."""
        return noise_scale(self.events(budget)[0], self.sensitivity)

    @checked
    def affordable_steps(self, budget: Budget, scale: Positive) -> int:
        """Return the largest number of steps with noise of this scale that the budget covers, counted up to
        STEPS_LIMIT; 0 if none."""
        inner = self._inner(scale)
        target = budget.left(()) * (1 + 1e-9)

        def price(steps: int) -> float:
            return budget.cost(self._charged(inner, steps)) / target

        return _max_steps(price, self.iterations)

    @checked
    def spent(self, budget: Budget, scale: Positive, steps: Sequence[int]) -> np.ndarray:
        """Return (len(steps),) the cost of each number of means with noise of this scale, in the number that the budget
        limits: its ε, ρ, μ or Rényi divergence, or the true positive rate of an attack bound. Infinite where there is
        none."""
        inner = self._inner(scale)
        charged = [self._charged(inner, count) for count in steps]
        if budget.adds_up:  # equal releases do
            return np.array([budget.stated(len(events) * budget.cost(events[:1])) for events in charged])
        return np.array([budget.cost(events) for events in charged])

    @checked
    def rows_needed(self, budget: Budget, scale: Positive) -> int:
        """Return the smallest n at which T steps have noise of at most this scale, at the same m/n: noise falls like
        1/n."""
        return math.ceil(self.rows * self.noise_scale(budget) / scale * (1 - 1e-12))

    def _inner(self, scale: float) -> Event:
        kind = Laplace if self.noise == "laplace" else Gaussian
        return kind(self.sensitivity / scale)

    def _passes(self, steps: int) -> int:
        """Return the number of passes over the disjoint blocks that have begun after `steps` steps."""
        return math.ceil(steps / (self.rows // self.batch_size))

    def _charged(self, inner: Event, steps: int) -> tuple[Event, ...]:
        if self.sampling == "blocks":  # all blocks are alike, so one of them counts for all in each pass
            return (Parallel((inner,)),) * self._passes(steps)
        m, n = self.batch_size, self.rows
        return (inner if m == n else Sub("poisson" if self.sampling == "poisson" else "wor", m, n, inner),) * steps


def _max_steps(price: Callable[[int], float], guess: int) -> int:
    """Return the largest number of steps, from 0 to STEPS_LIMIT, with a price of at most 1. Prices grow with the steps,
    nearly as a power: the search interpolates on logarithmic scales, and every fourth time takes the middle of the
    remaining interval."""
    low, high, steps, attempt = 0, STEPS_LIMIT + 1, guess, 0
    previous: tuple[float, float] | None = None
    while high - low > 1:
        value = price(steps)
        current = (math.log(steps), math.log(value) if 0 < value < math.inf else math.nan)
        low, high = (steps, high) if value <= 1 else (low, steps)
        slope = (
            1.0
            if previous is None or previous[0] == current[0]
            else (current[1] - previous[1]) / (current[0] - previous[0])
        )
        log_target = current[0] - current[1] / min(max(slope, 0.1), 3.0)
        previous, attempt = current, attempt + 1
        is_interpolated = attempt % 4 and not math.isnan(log_target)
        steps = round(math.exp(min(log_target, 50.0))) if is_interpolated else (low + high) // 2
        steps = min(max(steps, low + 1), high - 1)
    return low


# -------------------------------------------------------------------------------------------- from noise to a guarantee


@dataclass(frozen=True)
class Guarantee:
    """The costs of releases in every currency.

    values : keys as in `conversions.convert`: epsilon (pure), epsilon_at_delta, rho, mu; None where it does not exist.
    missing : the reason, for these keys. reading : the accountant that proves epsilon_at_delta, and all others' ε.
    """

    events: tuple[Event, ...]
    delta: float
    values: Mapping[str, float | None]
    missing: Mapping[str, str]
    reading: Reading


_UNPROVEN = "No accountant proves an ε at this δ. Raise δ: it must exceed the δ of all parts together."


def guarantee(events: Sequence[Event], delta: float) -> Guarantee:
    """Return the cost of the releases in every currency, each by its own accountant; nothing is converted twice.

    Raises UserError for batches that hold under different neighbouring relations.
    """
    reading = accountants.tightest(events, delta)
    costs: dict[str, float] = {name: accountants.total(events, name) for name in UNITS}
    costs["epsilon_at_delta"] = reading.epsilon
    values = {name: cost if cost < math.inf else None for name, cost in costs.items()}
    missing: dict[str, str]
    missing = {name: " ".join(map(str, refusals(events, name))) for name in UNITS if values[name] is None}
    if values["epsilon_at_delta"] is None:
        missing["epsilon_at_delta"] = _UNPROVEN
    return Guarantee(tuple(events), delta, MappingProxyType(values), MappingProxyType(missing), reading)


# ------------------------------------------------------------------------------------------------ savings of accounting

SAVINGS: Mapping[str, str] = MappingProxyType({"unsampled": "no credit for sampling", **accountants.METHOD_NAMES})


def savings(
    means: NoisyMeans, scale: float, delta: float, precision: accountants.Precision = "normal"
) -> dict[str, float]:
    """Return ε at δ of the same noise by every method of SAVINGS that applies, in that order; all are upper bounds.

    "unsampled" is the best accountant without credit for chance or disjoint blocks: any T batches of m rows. The three
    composition theorems use only the ε of each step; with Gaussian noise its (ε, δ_t), of which T δ_t is all of δ for
    the basic theorem and half of it for the others. precision : as in `accountants.tightest`.
    """
    events = means.events_of_noise(scale)
    reading = accountants.tightest(events, delta, precision=precision)
    proven: dict[str, float] = {method: value for method, value in reading.by_method.items()}
    step, steps = events[0], len(events)
    plain = tuple(inner_events(step)) * means.iterations
    if plain != events:
        proven["unsampled"] = accountants.tightest(plain, delta, precision=precision).epsilon
    if per_event.pure(step) == math.inf:
        proven["basic"] = steps * accountants.epsilon((step,), delta / steps, "pld")
        each = delta / (2 * steps)
        single = accountants.epsilon((step,), each, "pld")
        # Of larger ε, e^ε overflows.
        proven["advanced"] = closed_forms.advanced(single, steps, delta / 2, each)[0] if single < 700 else math.inf
        proven["optimal"] = closed_forms.optimal(single, steps, delta, each) if single < math.inf else math.inf
    return {name: proven[name] for name in SAVINGS if proven.get(name, math.inf) < math.inf}
