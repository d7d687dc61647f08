"""Plans of noisy means: the noise that a budget demands, the steps or rows that it allows, and the reverse: the
guarantee that a given noise has, by every method of accounting."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from dpviz.arguments import Positive, checked
from dpviz.privacy import calibration
from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.accounting.accountants import Reading
from dpviz.privacy.accounting.currencies import UNITS, refusals
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Relation, Sub, inner_events
from dpviz.privacy.mechanisms import noise_scale
from dpviz.specification import Specification, choice, number

STEPS_LIMIT = 20_000  # largest number of steps that `affordable_steps` returns
Scheme = Literal["all", "wor", "poisson", "blocks"]
SCHEMES: Mapping[str, str] = MappingProxyType(
    {"all": "All rows", "wor": "Without replacement", "poisson": "Poisson", "blocks": "Disjoint blocks"}
)


def protected_change(relation: Relation, rows_per_person: int = 1) -> str:
    """Return a sentence for the screen: the change of the table that a guarantee under `relation` protects."""
    if rows_per_person == 1:
        if relation == "replace-one":
            return "One row may be exchanged for any other; the number of rows is public."
        return "One row may be added or removed; the number of rows is secret."
    who = f"All rows of one person, at most {rows_per_person:,},"
    if relation == "replace-one":
        return f"{who} may be exchanged for as many others; the number of rows is public."
    return f"{who} may be added or removed; the number of rows is secret."


class TableSize(Specification):
    """A table as a plan knows it: its number of rows n, and the largest number of rows of one person, k."""

    rows: int = number(
        10_000, 20, 10_000_000, label="Rows", symbol="n", scale="log", help="Rows of the data set.", limits=(1, 10**9)
    )
    rows_per_person: int = number(
        1,
        1,
        1000,
        label="Rows of a person",
        symbol="k",
        scale="log",
        help="At most this many; the guarantee protects all of them together. 1: every row is another person.",
    )

    @model_validator(mode="after")
    def _has_these_rows(self) -> "TableSize":
        if self.rows_per_person > self.rows:
            raise ValueError(f"a person cannot have {self.rows_per_person:,} of {self.rows:,} rows")
        return self


class NoisyMeans(TableSize):
    """T releases of the mean of m clipped rows: the queries of most private algorithms.

    >>> import dpviz
    >>> round(float(dpviz.NoisyMeans(rows=1000, iterations=10).noise_scale(dpviz.GaussianDP(mu=1))), 6)
    0.007449
    """

    kind: ClassVar[str] = "privacy.noisy_means.noisy_means"
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
    def accounted_batch_size(self) -> int:
        """The batch size that accounting uses: a person with k rows counts as one row in a batch of this size.

        A batch holds at least one of a person's k rows with probability p = 1 - (1 - m/n)^k (Poisson), or 1 - C(n - k,
        m)/C(n, m) without replacement. The result is the smallest whole number above p n (THEORY.md, section 9).
        """
        m, n, k = self.batch_size, self.rows, self.rows_per_person
        if k == 1:
            return m
        if self.sampling == "poisson":
            missed = (1 - m / n) ** k
        else:
            missed = math.prod(max(n - m - i, 0) / (n - i) for i in range(k))
        return min(n, math.ceil(n * (1 - missed) * (1 + 1e-9)))  # rounded up, against the rounding of `missed`

    @property
    def relation(self) -> Relation:
        """The neighbouring relation under which guarantees with this sampling scheme hold, for all rows of a person."""
        return "add/remove-one" if self.sampling == "poisson" else "replace-one"

    @property
    def sensitivity(self) -> float:
        """Sensitivity of a mean, whose rows are clipped to norm C, to a person with k rows.

        It is 2kC/m under replace-one, as each row may change from one end of the ball of radius C to the other, and
        kC/m under add/remove-one.
        """
        ends = 1 if self.relation == "add/remove-one" else 2
        return self.rows_per_person * ends * self.clip / self.batch_size

    @property
    def protects(self) -> str:
        """Text for the screen that says which change of the data is protected, and what it does to a mean."""
        if self.rows_per_person == 1:
            k, whose, moved = "", "a given row is", ""
        else:
            k, whose, moved = "k · ", "a given person's rows are", " that moves by k · 2C/m"
        how = {
            "all": f"Every mean uses all rows, so an exchange moves it by up to {k}2C/n.",
            "wor": "Each mean uses a fresh batch of exactly m rows, which must stay secret: what is saved is that "
            f"{whose} perhaps not in it. In the batch, an exchange moves the mean by up to {k}2C/m.",
            "poisson": "Each row takes part with probability m/n by itself, and how many do is secret, too. Sums are "
            f"divided by the fixed m, and the change moves the result by up to {k}C/m. An exchange is two such "
            "changes, so a number stated here protects less than the same number under replace-one.",
            "blocks": "The rows are cut into blocks of m, whatever their values, and each block is used once per pass. "
            f"A row is in one block only, so a pass costs as much as one mean{moved}, but there is no credit for "
            "chance.",
        }
        return f"{protected_change(self.relation, self.rows_per_person)} {how[self.sampling]}"

    @checked
    def events(self, budget: Budget) -> tuple[Event, ...]:
        """Return equal releases that use up the budget: one per step, or one per pass over disjoint blocks.

        Raises UserError if the noise cannot meet the budget.
        """
        if self.sampling == "blocks":  # a pass costs as much as one release on all rows
            weights = np.ones(self._passes(self.iterations))  # all passes are equal
            inner, *_ = calibration.calibrated_events(self.noise, budget, weights, m=self.rows, n=self.rows)
            return self._charged_events(inner, self.iterations)
        sampling: calibration.Sampling = "poisson" if self.sampling == "poisson" else "wor"
        steps = np.ones(self.iterations)
        return calibration.calibrated_events(
            self.noise, budget, weights=steps, m=self.accounted_batch_size, n=self.rows, sampling=sampling
        )

    @checked
    def events_of_noise(self, scale: Positive) -> tuple[Event, ...]:
        """Return the events of the T steps, in the form of `events`, if the noise has this scale, b or σ."""
        return self._charged_events(self._event_on_batch(scale), self.iterations)

    @checked
    def noise_scale(self, budget: Budget) -> float:
        """Return the scale of the noise in each coordinate, b (Laplace) or σ (Gaussian), if T steps share a budget."""
        event, *_ = self.events(budget)  # all are equal
        return noise_scale(event, self.sensitivity)

    @checked
    def affordable_steps(self, budget: Budget, scale: Positive) -> int:
        """Return the largest number of steps with noise of this scale that the budget covers, at most STEPS_LIMIT."""
        inner = self._event_on_batch(scale)
        target = budget.remaining(prior=()) * (1 + 1e-9)  # rounding must not cost a step

        def price(steps: int) -> float:
            """Return the cost of this number of steps as a share of the budget."""
            return budget.cost(self._charged_events(inner, steps)) / target

        return _max_steps(price, self.iterations)

    @checked
    def spent(self, budget: Budget, scale: Positive, steps: Sequence[int]) -> np.ndarray:
        """Return what the means cost after each of the given numbers of steps, (len(steps),), if their noise has this
        scale.

        The unit is that of the number that the budget limits: an ε, ρ, μ or Rényi divergence, or the true positive rate
        of an attack bound. The cost is infinite if there is none in the currency.
        """
        inner = self._event_on_batch(scale)
        charged = [self._charged_events(inner, count) for count in steps]
        if budget.adds_up:  # the releases are equal, so one of them gives the cost of all
            return np.array([budget.in_unit_of_limit(len(events) * budget.cost(events[:1])) for events in charged])
        return np.array([budget.cost(events) for events in charged])

    @checked
    def rows_needed(self, budget: Budget, scale: Positive) -> int:
        """Return a number of rows n, at least k, with which the noise of T steps has at most this scale.

        It is the smallest such n if m/n stays the same, so that the noise of one row falls in proportion to 1/n. A
        smaller n may do in two cases: in small batches, as rounding m to a whole number changes m/n; and for people
        with several rows, as the chance that a batch holds one of them changes with n.
        """
        rows = math.ceil(self.rows * self.noise_scale(budget) / scale * (1 - 1e-12))  # rounding must not cost a row
        rows = max(rows, self.rows_per_person)
        while self.sampling != "all" and rows <= 1e9:  # the largest number that a plan takes
            larger = self.replaced(rows=rows)
            if self.rows_per_person == 1 and larger.batch_size * self.rows == self.batch_size * rows:  # same m/n
                break
            excess = larger.noise_scale(budget) / scale
            if excess <= 1 + 1e-4:  # calibration is not exact in further digits
                break
            rows = math.ceil(rows * excess)
        return rows

    def _event_on_batch(self, scale: float) -> Event:
        """Return the event of one mean with noise of this scale on its batch, without sampling."""
        kind = Laplace if self.noise == "laplace" else Gaussian
        return kind(self.sensitivity / scale)

    def _passes(self, steps: int) -> int:
        """Return the number of passes over the disjoint blocks that have begun after `steps` steps."""
        return math.ceil(steps / (self.rows // self.batch_size))

    def _charged_events(self, inner: Event, steps: int) -> tuple[Event, ...]:
        """Return the events that are charged for `steps` means whose event on the batch is `inner`."""
        if self.sampling == "blocks":  # the blocks of a pass are alike, so the cost is that of one
            return (Parallel((inner,)),) * self._passes(steps)
        m, n = self.accounted_batch_size, self.rows
        if m == n:
            return (inner,) * steps
        return (Sub("poisson" if self.sampling == "poisson" else "wor", m, n, inner),) * steps


def _max_steps(price: Callable[[int], float], guess: int) -> int:
    """Return the largest number of steps, from 0 to STEPS_LIMIT, whose price is at most 1.

    The price increases with the number of steps, nearly as a power of it. So the next number follows from a straight
    line through the last two points on logarithmic scales; every fourth time it is the middle of the interval that
    remains, so that the search ends.

    guess : the number of steps that is tried first.
    """
    low, high, steps, attempt = 0, STEPS_LIMIT + 1, guess, 0
    last_point: tuple[float, float] | None = None  # (log_steps, log_price) of the attempt before
    while high - low > 1:  # price(low) ≤ 1 < price(high), as if STEPS_LIMIT + 1 were too many
        value = price(steps)
        log_steps = math.log(steps)
        log_price = math.log(value) if 0 < value < math.inf else math.nan  # then the middle is the next
        if value <= 1:
            low = steps
        else:
            high = steps
        slope = 1.0  # as if the price were in proportion to the steps, until there are two points
        if last_point is not None:
            slope = (log_price - last_point[1]) / (log_steps - last_point[0])
        log_target = log_steps - log_price / min(max(slope, 0.1), 3.0)  # a noisy slope must not lead too far
        last_point, attempt = (log_steps, log_price), attempt + 1
        is_interpolated = attempt % 4 and not math.isnan(log_target)
        # 50: far beyond STEPS_LIMIT, and without overflow.
        steps = round(math.exp(min(log_target, 50.0))) if is_interpolated else (low + high) // 2
        steps = min(max(steps, low + 1), high - 1)
    return low


def dropped_shares(people: Mapping[float, float], rows_per_person: int) -> tuple[float, float]:
    """Return the shares of all rows, and of all people, that are cut off if only k = `rows_per_person` rows of each
    person are kept: (rows that are dropped, people who lose some).

    people : the number, or the share, of the people with so many rows, by the number of rows.
    """
    total = math.fsum(count * rows for rows, count in people.items())
    dropped = math.fsum(count * (rows - rows_per_person) for rows, count in people.items() if rows > rows_per_person)
    losing = math.fsum(count for rows, count in people.items() if rows > rows_per_person)
    return dropped / total, losing / math.fsum(people.values())


# -------------------------------------------------------------------------------------------- from noise to a guarantee


@dataclass(frozen=True)
class Guarantee:
    """The cost of several releases together, in every currency.

    events : the releases.
    delta : the δ of `epsilon_at_delta`.
    values : the costs, by the keys of `conversions.convert`: epsilon (pure), epsilon_at_delta, rho, mu; None if there
        is none.
    missing : the reason, a text for the screen, for each cost that is None.
    reading : the ε at δ by every method of accounting.
    """

    events: tuple[Event, ...]
    delta: float
    values: Mapping[str, float | None]
    missing: Mapping[str, str]
    reading: Reading


_UNPROVEN = "No accountant proves an ε at this δ. Raise δ: it must exceed the δ of all parts together."


def guarantee(events: Sequence[Event], delta: float) -> Guarantee:
    """Return the cost of the releases in every currency.

    Each cost is computed from the events, none from the number in another currency. Raises UserError if the batches of
    the events hold under different neighbouring relations.
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
    """Return the ε at δ that each method of SAVINGS proves for the same noise, by method, in the order of SAVINGS.

    Methods that do not apply are left out. "unsampled" is the best accountant if batches are not credited with being
    random or disjoint, so that the result holds for any T batches of m rows. The three composition theorems (basic,
    advanced, optimal) use only the pure ε of each step. Gaussian noise has none; there they use an (ε, δ_t) of each
    step, where T δ_t is all of δ for the basic theorem and half of it for the others.

    scale : of the noise, b (Laplace) or σ (Gaussian). precision : "fine" uses a finer grid of losses, which may take
        seconds.
    """
    events = means.events_of_noise(scale)
    reading = accountants.tightest(events, delta, precision=precision)
    epsilons: dict[str, float] = {method: value for method, value in reading.by_method.items()}
    step, steps = events[0], len(events)
    unsampled = tuple(inner_events(step)) * means.iterations
    if unsampled != events:  # batches are random or disjoint
        epsilons["unsampled"] = accountants.tightest(unsampled, delta, precision=precision).epsilon
    if per_event.pure(step) == math.inf:
        epsilons["basic"] = steps * accountants.epsilon((step,), delta / steps, method="pld")
        step_delta = delta / (2 * steps)
        step_epsilon = accountants.epsilon((step,), step_delta, method="pld")
        epsilons["advanced"], epsilons["optimal"] = math.inf, math.inf
        if step_epsilon < 700:  # e^ε of a larger one overflows
            epsilons["advanced"] = float(closed_forms.advanced_epsilon(step_epsilon, steps, slack=delta / 2))
        if step_epsilon < math.inf:
            epsilons["optimal"] = closed_forms.optimal_epsilon(step_epsilon, steps, delta, step_delta)
    return {name: epsilons[name] for name in SAVINGS if epsilons.get(name, math.inf) < math.inf}
