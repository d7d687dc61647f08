"""Several analyses under one guarantee: a total budget is split over them, or their own guarantees are added up."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import ClassVar, Literal

from pydantic import Field
from scipy.optimize import brentq

from dpviz.errors import UserError
from dpviz.privacy import mechanisms
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency, Noise, release
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech, Parallel, Seq
from dpviz.privacy.statistics import noisy_means
from dpviz.specification import Specification, choice, number

Rule = Literal["optimal", "proportional"]
MECHANISMS: Mapping[str, str] = MappingProxyType(
    {"laplace": "Laplace", "gaussian": "Gaussian", "selection": "Selection", "any": "Only a guarantee is known"}
)

_GUMBEL = math.pi**2 / 6  # variance of standard Gumbel noise, which a selection adds to the utilities
# Variance of the noise of a release with sensitivity 1 and cost 1. It falls in proportion to 1/ε², 1/ρ or 1/μ²: exactly
# for pure ε and for Gaussian noise, otherwise to leading order for small costs.
_VARIANCE: Mapping[Currency, Mapping[Noise, float]] = MappingProxyType(
    {
        "epsilon": {"laplace": 2.0, "selection": _GUMBEL},
        "rho": {"laplace": 1.0, "gaussian": 0.5, "selection": _GUMBEL / 8},
        "mu": {"laplace": math.pi, "gaussian": 1.0, "selection": _GUMBEL * math.pi / 8},
    }
)
# Variance of the noise of scale 1.
_VARIANCE_OF_SCALE: Mapping[Noise, float] = MappingProxyType({"laplace": 2.0, "gaussian": 1.0, "selection": _GUMBEL})


class Analysis(Specification):
    """One of several releases about the same table.

    rows : the name of the set of rows that it uses, "" for all rows. Sets of different names must be disjoint and be
        fixed without looking at the rows.
    budget : a guarantee of its own, in any currency; None if it gets a share of the total.
    """

    kind: ClassVar[str] = "privacy.allocation.analysis"
    name: str = Field("Analysis", min_length=1, max_length=60)
    noise: Noise = choice(
        "laplace",
        MECHANISMS,
        label="Mechanism",
        help="What protects the analysis. A selection is one draw of the exponential mechanism.",
    )
    weight: float = number(
        1.0, 1e-6, 1e6, label="Weight", symbol="w", scale="log", help="How much the variance of its noise matters."
    )
    sensitivity: float = number(
        1.0,
        1e-9,
        1e9,
        label="Sensitivity",
        symbol="Δ",
        scale="log",
        help="How far one row moves the result: L1 norm for Laplace, L2 for Gaussian noise, range for a selection.",
    )
    rows: str = Field("", max_length=60)
    budget: Budget | None = None


@dataclass(frozen=True)
class Share:
    """The part of a total that an analysis gets.

    fraction : of the total's ε, ρ or μ²; under (ε, δ), of the ε or of the ρ that analyses with a guarantee of their own
        leave. None if the analysis has a guarantee of its own.
    event : its release.
    """

    analysis: Analysis
    fraction: float | None
    event: Event

    @property
    def noise_scale(self) -> float | None:
        """Scale of the noise: b (Laplace), σ (Gaussian), or that of the Gumbel noise that a selection adds to its
        utilities; None if only a guarantee is known."""
        if self.analysis.noise == "any":
            return None
        if isinstance(self.event, ExpMech):
            return self.analysis.sensitivity / self.event.eta
        return mechanisms.noise_scale(self.event, self.analysis.sensitivity)


# ---------------------------------------------------------------------------------------------------- splitting a total


def split(budget: Budget, analyses: Sequence[Analysis], rule: Rule = "optimal") -> tuple[Share, ...]:
    """Return the share of each analysis, in order, so that all together meet the budget.

    If every analysis has a guarantee of its own, there is nothing to split, and all together may exceed the budget.
    Otherwise those with a guarantee of their own are paid first; the others share what remains by `rule`:

    - "optimal" minimises Σ weight × variance of the noise. Among analyses of one mechanism with weights w_i and
      sensitivities Δ_i, ε_i ∝ (w_i Δ_i²)^⅓, and ρ_i or μ_i² ∝ √(w_i) Δ_i (THEORY.md, section 8).
    - "proportional" makes the shares proportional to the weights.

    Under (ε, δ), either shares of ε are added up, or shares of ρ are composed by the best accountant; the way with less
    noise is taken. Disjoint sets of rows compose in parallel: a certain amount is set aside for all sets together, and
    the analyses on each set get the whole of it.

    Raises UserError if a mechanism does not exist in the currency, or if nothing remains.
    """
    stated = tuple(analysis for analysis in analyses if analysis.budget is not None)
    sharing = tuple(analysis for analysis in analyses if analysis.budget is None)
    for analysis in sharing:
        _check_splittable(analysis, budget, rule)
    _check_total(budget)
    shares: Sequence[Share]
    if not sharing:
        shares = ()
    elif budget.currency is None:  # (ε, δ): costs do not add up
        shares = _split_composed(budget, stated, sharing, rule)
    else:
        total, remaining = budget.amount, _remaining(budget.amount, budget.currency, stated)
        shares = _split_added(sharing, budget.currency, rule, remaining, total)
    remaining_shares = iter(shares)  # in the order of `sharing`
    return tuple(
        next(remaining_shares) if a.budget is None else Share(a, fraction=None, event=stated_event(a)) for a in analyses
    )


def _split_added(
    analyses: Sequence[Analysis], currency: Currency, rule: Rule, remaining: float, total: float
) -> list[Share]:
    """Return shares that use up `remaining`, the amount of `total` that other analyses leave, by addition of costs."""
    fractions = _fractions(analyses, currency, rule)
    return [
        Share(analysis, fraction * remaining / total, release(analysis.noise, currency, fraction * remaining))
        for analysis, fraction in zip(analyses, fractions, strict=True)
    ]


def _check_splittable(analysis: Analysis, budget: Budget, rule: Rule) -> None:
    """Raise UserError if the analysis' mechanism cannot meet the budget, or if the rule cannot be applied to it."""
    if analysis.noise == "gaussian" and not budget.allows_gaussian:
        raise UserError(
            f"{analysis.name}: Gaussian noise never gives pure ε-DP. Choose another mechanism, or state the total as "
            "(ε, δ), ρ or μ.",
            title="This budget does not exist for Gaussian noise",
        )
    if analysis.noise == "any" and rule == "optimal":
        raise UserError(
            f"{analysis.name}: what its noise costs in accuracy is unknown. Choose its mechanism, state its guarantee, "
            "or split in proportion to the weights.",
            title="Nothing to optimise",
        )


def _check_total(budget: Budget) -> None:
    """Raise UserError unless the budget promises something and is stated in a currency in which it can be split."""
    if not budget.private:
        raise UserError("Without a budget there is nothing to split. State a guarantee.", title="Nothing to split")
    if budget.currency is None and budget.total_rho is None:
        raise UserError(
            f"Budgets are split and added up in pure ε, (ε, δ), ρ and μ, not as {budget.name}. State it in one of "
            "these.",
            title="This currency does not add up",
        )


def _remaining(total: float, currency: Currency, stated: Sequence[Analysis]) -> float:
    """Return the amount of `total` that remains after the analyses with a guarantee of their own.

    Raises UserError if nothing remains, or if their guarantees have no cost in the currency.
    """
    releases = [(analysis, stated_event(analysis)) for analysis in stated]
    used = _price(joint_events(releases), currency)
    if used == math.inf:
        raise UserError(
            f"{_no_cost_clause(releases, currency)}, so nothing can be said of what is left of the total. State the "
            "total or these analyses in another currency.",
            title="Currencies do not fit",
        )
    if not total - used > 1e-9 * total:  # less is a rounding error
        raise _used_up()
    return total - used


def _used_up() -> UserError:
    """Return the error for a total of which nothing remains to be split."""
    return UserError(
        "The analyses with a guarantee of their own use up the total. Raise the total, or lower their guarantees.",
        title="Nothing is left to split",
    )


def _price(events: Sequence[Event], currency: Currency) -> float:
    """Return the amount that the events cost together: ε, ρ, or μ²."""
    return accountants.total(events, currency) ** UNITS[currency].power


def _no_cost_clause(releases: Sequence[tuple[Analysis, Event]], currency: Currency) -> str:
    """Return a clause for the screen that names the analyses of which no cost is known in the currency."""
    names = [analysis.name for analysis, event in releases if UNITS[currency].cost(event) == math.inf]
    return f"No {UNITS[currency].name} is known for {', '.join(names)}"


def _fractions(analyses: Sequence[Analysis], currency: Currency, rule: Rule) -> list[float]:
    """Return the fraction of the remaining amount that each analysis gets.

    The fractions of the analyses on all rows and of those on any one disjoint set of rows sum to 1.

    Rule "optimal": an analysis with amount x has weighted variance a/x^p, with p = 2 for ε and p = 1 for ρ and μ². If
    several analyses share an amount y, the sum of their a/x^p is smallest for x ∝ a^(1/(p+1)), and is then b/y^p with b
    = (Σ a^(1/(p+1)))^(p+1). The disjoint sets of rows may each spend the same y. So all sets together count as one
    analysis, whose a is the sum of their b.
    """
    power = 3 if currency == "epsilon" else 2  # p + 1
    is_optimal = rule == "optimal"
    if is_optimal:
        # The a of an analysis is its weighted variance at cost 1.
        variances = [a.weight * _VARIANCE[currency][a.noise] * a.sensitivity**2 for a in analyses]
        sizes = [variance ** (1 / power) for variance in variances]
    else:
        sizes = [analysis.weight for analysis in analyses]
    size_of_set: dict[str, float] = {}
    for analysis, size in zip(analyses, sizes, strict=True):
        size_of_set[analysis.rows] = size_of_set.get(analysis.rows, 0.0) + size
    on_all_rows = size_of_set.pop("", 0.0)
    if is_optimal:
        on_sets = sum([size**power for size in size_of_set.values()]) ** (1 / power)  # a^(1/(p+1)), a the sum of the b
    else:  # the set of the largest weight decides on the amount, and all sets get it
        on_sets = max(size_of_set.values(), default=0.0)
    total = on_all_rows + on_sets
    # An analysis on a set gets its part of what each set may spend, the share on_sets / total.
    return [
        size / total if not analysis.rows else size / size_of_set[analysis.rows] * on_sets / total
        for analysis, size in zip(analyses, sizes, strict=True)
    ]


@lru_cache(64)  # a plan asks again whenever its number of rows changes, on which shares do not depend
def _split_composed(
    budget: Budget, stated: tuple[Analysis, ...], sharing: tuple[Analysis, ...], rule: Rule
) -> Sequence[Share]:
    """Return the shares of the analyses `sharing` in a budget whose costs do not add up, such as (ε, δ).

    Candidates are shares of ρ, as large as the best accountant allows together with the analyses `stated`, and shares
    of ε that are added up; those with less noise are returned.
    """
    prior = [(analysis, stated_event(analysis)) for analysis in stated]
    fractions = _fractions(sharing, "rho", rule)

    def shares_of(rho: float) -> list[Share]:
        return [
            Share(analysis, fraction, release(analysis.noise, "rho", fraction * rho))
            for analysis, fraction in zip(sharing, fractions, strict=True)
        ]

    @cache  # the root finder asks again at the ends of its bracket
    def excess(log_rho: float) -> float:
        """Return ln(spent / limit), both in the number that the budget states, such as the ε of (ε, δ)."""
        releases = [(share.analysis, share.event) for share in shares_of(math.exp(log_rho))]
        spent = budget.in_unit_of_limit(budget.cost(joint_events([*prior, *releases])))
        if spent == math.inf:
            return 100.0  # far beyond the limit; the root finder needs finite numbers
        return math.log(max(spent, 1e-300) / budget.limit)  # to spend 0 is finite, too

    low = high = math.log(budget.gaussian_rho(budget.amount))  # exact if all noise is Gaussian and nothing is prior
    # Small ε grow with √ρ and large ones with ρ, so that the root is 1 to 2 times the excess away.
    step = min(2.1 * abs(excess(high)) + 1e-5, 0.5)
    while excess(high) <= 0:
        low, high = high, high + step
    if low == high:  # the guess was too large, so the root is below it
        low = high - step
    while excess(low) > 0:
        low -= 2 * (high - low)
        if low < high - 60:  # even a ρ smaller by e^-60 is too much
            raise _used_up()
    # The tolerance of the root is subtracted, so that the shares do not exceed the budget.
    candidates = [shares_of(math.exp(brentq(excess, low, high, xtol=1e-6) - 1e-6))]
    # Shares of ε exist if the prior releases leave some of the budget's ε, and if all mechanisms have an ε.
    used, total = _price(joint_events(prior), "epsilon"), budget.total_epsilon or 0.0
    if used < total * (1 - 1e-9) and all(a.noise in ("laplace", "selection") for a in sharing):
        candidates.append(_split_added(sharing, "epsilon", rule, remaining=total - used, total=total - used))
    return min(candidates, key=weighted_variance)


def weighted_variance(shares: Sequence[Share]) -> float:
    """Return Σ weight × variance of the noise over the analyses whose mechanism is known."""
    return math.fsum(
        share.analysis.weight * _VARIANCE_OF_SCALE[share.analysis.noise] * share.noise_scale**2
        for share in shares
        if share.noise_scale is not None
    )


# ------------------------------------------------------------------------------------------ adding up stated guarantees


def stated_event(analysis: Analysis) -> Event:
    """Return the event of an analysis that has a guarantee of its own.

    It is the release of its mechanism that has just this guarantee; if the mechanism is unknown, it is the worst
    release with the guarantee, which for a μ is Gaussian noise (Dong, Roth, Su 2019). Raises UserError if the analysis
    has no guarantee of its own, or if its mechanism cannot have it.
    """
    budget, noise = analysis.budget, analysis.noise
    if budget is None or not budget.private:
        raise UserError(f"State the guarantee of {analysis.name}, or leave it out.", title="A guarantee is missing")
    if noise == "gaussian" and not budget.allows_gaussian:
        raise UserError(
            f"{analysis.name}: Gaussian noise never gives pure ε-DP. State its guarantee in another currency, or "
            "choose another mechanism.",
            title="This guarantee does not exist",
        )
    _check_total(budget)
    return budget.release(noise)


def joint_events(releases: Sequence[tuple[Analysis, Event]]) -> tuple[Event, ...]:
    """Return the events of all analyses: those on disjoint sets of rows as one `Parallel`, the others one by one."""
    events_of_set: dict[str, list[Event]] = {}
    for analysis, event in releases:
        events_of_set.setdefault(analysis.rows, []).append(event)
    on_all_rows = events_of_set.pop("", [])
    blocks = [Seq(tuple(events)) if len(events) > 1 else events[0] for events in events_of_set.values()]
    return (*on_all_rows, Parallel(tuple(blocks))) if blocks else tuple(on_all_rows)


def joint_guarantee(shares: Sequence[Share], delta: float) -> noisy_means.Guarantee:
    """Return the cost of all analyses together, in every currency.

    Where no cost is known in a currency, the reason in `missing` begins with a sentence that names the analyses.
    """
    releases = [(share.analysis, share.event) for share in shares]
    total = noisy_means.guarantee(joint_events(releases), delta)
    missing = dict(total.missing)
    for name in UNITS:
        if name in total.missing:
            missing[name] = f"{_no_cost_clause(releases, name)}. {total.missing[name]}"
    return replace(total, missing=MappingProxyType(missing))
