"""Several analyses under one guarantee: a total is split over them, or their stated guarantees are added up."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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

# Variance of the noise for a cost of 1 at sensitivity 1: it falls like 1/ε², 1/ρ or 1/μ². Exact for pure ε and for
# Gaussian noise, otherwise to leading order. A selection adds Gumbel noise to the utilities.
_GUMBEL = math.pi**2 / 6
_VARIANCE: Mapping[Currency, Mapping[Noise, float]] = MappingProxyType(
    {
        "epsilon": {"laplace": 2.0, "selection": _GUMBEL},
        "rho": {"laplace": 1.0, "gaussian": 0.5, "selection": _GUMBEL / 8},
        "mu": {"laplace": math.pi, "gaussian": 1.0, "selection": _GUMBEL * math.pi / 8},
    }
)
_VARIANCE_OF_SCALE: Mapping[Noise, float] = MappingProxyType({"laplace": 2.0, "gaussian": 1.0, "selection": _GUMBEL})


class Analysis(Specification):
    """One of several releases about the same people."""

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
    rows: str = Field("", max_length=60)  # the set of rows it uses, fixed without looking at them; "" = all of them
    budget: Budget | None = None  # a guarantee of its own, in its own currency; None: a share of the total


@dataclass(frozen=True)
class Share:
    """An analysis' part of a total: its release, and the fraction of the total's ε, ρ or μ² that it may spend; None if
    it states its own guarantee. Under (ε, δ), of ε or of ρ."""

    analysis: Analysis
    fraction: float | None
    event: Event

    @property
    def noise_scale(self) -> float | None:
        """b of Laplace, σ of Gaussian noise, or the scale of the Gumbel noise that a selection adds to its utilities;
        None where only a guarantee is known."""
        if self.analysis.noise == "any":
            return None
        if isinstance(self.event, ExpMech):
            return self.analysis.sensitivity / self.event.eta
        return mechanisms.noise_scale(self.event, self.analysis.sensitivity)


# ---------------------------------------------------------------------------------------------------- splitting a total


def split(budget: Budget, analyses: Sequence[Analysis], rule: Rule = "optimal") -> tuple[Share, ...]:
    """Return the share of each analysis, with its noise, so that all together meet the budget.

    optimal : minimises Σ weight × variance of the noise: ε_i ∝ (w_i Δ_i²)^⅓, or √(w_i) Δ_i for ρ_i and μ_i²
    (THEORY.md, section 8). proportional : shares like the weights. Under (ε, δ) shares of ε are added up, or shares
    of ρ composed by the best accountant, whichever leaves less noise.
    Analyses with a guarantee of their own are paid first. Disjoint sets of rows do not share: the analyses of each set
    together get the whole amount that is set aside for all such sets.

    Raises UserError if a mechanism does not exist in the currency, or if nothing is left.
    """
    stated = tuple(analysis for analysis in analyses if analysis.budget is not None)
    sharing = tuple(analysis for analysis in analyses if analysis.budget is None)
    for analysis in sharing:
        _check_splittable(analysis, budget, rule)
    _check_total(budget)
    shares: Iterator[Share] = iter(())
    if sharing and budget.currency is None:
        shares = iter(_split_composed(budget, stated, sharing, rule))
    elif sharing and budget.currency is not None:
        total, remaining = budget.amount, _remaining(budget.amount, budget.currency, stated)
        shares = iter(_split_added(sharing, budget.currency, rule, remaining, total))
    return tuple(next(shares) if a.budget is None else Share(a, None, stated_event(a)) for a in analyses)


def _split_added(
    analyses: Sequence[Analysis], currency: Currency, rule: Rule, remaining: float, total: float
) -> list[Share]:
    """Return shares of `remaining`, the rest of `total`, that add up in the currency."""
    return [
        Share(analysis, fraction * remaining / total, release(analysis.noise, currency, fraction * remaining))
        for analysis, fraction in zip(analyses, _fractions(analyses, currency, rule), strict=True)
    ]


def _check_splittable(analysis: Analysis, budget: Budget, rule: Rule) -> None:
    """Raise UserError if the budget or the rule has no share for the analysis' mechanism."""
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
    """Raise UserError unless the budget can be split and added up."""
    if not budget.private:
        raise UserError("Without a budget there is nothing to split. State a guarantee.", title="Nothing to split")
    if budget.currency is None and budget.total_rho is None:
        raise UserError(
            f"Budgets are split and added up in pure ε, (ε, δ), ρ and μ, not as {budget.name}. State it in one of "
            "these.",
            title="This currency does not add up",
        )


def _remaining(total: float, currency: Currency, stated: Sequence[Analysis]) -> float:
    """Return the amount that analyses with a stated guarantee leave. Raise UserError if none, or if it is unknown."""
    parts = [(a, stated_event(a)) for a in stated]
    used = _price(composed(parts), currency)
    if used == math.inf:
        raise UserError(
            f"{_without(parts, currency)}, so nothing can be said of what is left of the total. State the total or "
            "these analyses in another currency.",
            title="Currencies do not fit",
        )
    if not total - used > 1e-9 * total:
        raise _used_up()
    return total - used


def _used_up() -> UserError:
    return UserError(
        "The analyses with a guarantee of their own use up the total. Raise the total, or lower their guarantees.",
        title="Nothing is left to split",
    )


def _price(events: Sequence[Event], currency: Currency) -> float:
    return accountants.total(events, currency) ** UNITS[currency].power


def _without(parts: Sequence[tuple[Analysis, Event]], currency: Currency) -> str:
    """Return a clause that names the analyses without a cost in the currency."""
    names = [analysis.name for analysis, event in parts if UNITS[currency].cost(event) == math.inf]
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no {UNITS[currency].name}"


def _fractions(analyses: Sequence[Analysis], currency: Currency, rule: Rule) -> list[float]:
    """Return the share of each analysis; they sum to 1 over those on all rows and on any one of the disjoint sets.

    The errors a/x^p of analyses with shares x of y are least in sum for x ∝ a^(1/(p+1)), and are then b/y^p with
    b = (Σ a^(1/(p+1)))^(p+1). So the disjoint sets of rows, each of which may spend the same y, count as one analysis
    whose a is the sum of their b.
    """
    power = 3 if currency == "epsilon" else 2  # p + 1
    optimal = rule == "optimal"
    sizes = [_coefficient(analysis, currency) ** (1 / power) if optimal else analysis.weight for analysis in analyses]
    sets: dict[str, float] = {}
    for analysis, size in zip(analyses, sizes, strict=True):
        sets[analysis.rows] = sets.get(analysis.rows, 0.0) + size
    shared = sets.pop("", 0.0)
    powers = [size**power for size in sets.values()]
    separate = sum(powers) ** (1 / power) if optimal else max(sets.values(), default=0.0)
    total = shared + separate
    return [
        size / total if not analysis.rows else size / sets[analysis.rows] * separate / total
        for analysis, size in zip(analyses, sizes, strict=True)
    ]


def _coefficient(analysis: Analysis, currency: Currency) -> float:
    """Return the a of `_fractions`: the weighted variance of an analysis that costs 1."""
    return analysis.weight * _VARIANCE[currency][analysis.noise] * analysis.sensitivity**2


def _split_composed(budget: Budget, stated: Sequence[Analysis], sharing: Sequence[Analysis], rule: Rule) -> list[Share]:
    """Return shares of ρ, as large as the best accountant allows, or of ε, added up: those with less noise."""
    prior = [(a, stated_event(a)) for a in stated]
    fractions = _fractions(sharing, "rho", rule)

    def shares(rho: float) -> list[Share]:
        return [Share(a, f, release(a.noise, "rho", f * rho)) for a, f in zip(sharing, fractions, strict=True)]

    def excess(log_rho: float) -> float:
        events = composed([*prior, *((share.analysis, share.event) for share in shares(math.exp(log_rho)))])
        spent = budget.spent(events)
        return math.log(max(spent, 1e-300) / budget.limit) if spent < math.inf else 100.0

    high = math.log(budget.about_rho(budget.amount))
    while excess(high) <= 0:
        high += 0.5
    low = high - 0.5
    while excess(low) > 0:
        low -= 2 * (high - low)
        if low < high - 60:
            raise _used_up()
    candidates = [shares(math.exp(brentq(excess, low, high, xtol=1e-6) - 1e-6))]
    used, total = _price(composed(prior), "epsilon"), budget.total_epsilon or 0.0
    if used < total * (1 - 1e-9) and all(a.noise in ("laplace", "selection") for a in sharing):
        candidates.append(_split_added(sharing, "epsilon", rule, total - used, total))
    return min(candidates, key=weighted_variance)


def weighted_variance(shares: Sequence[Share]) -> float:
    """Return Σ weight × variance of the noise, of those analyses whose mechanism is known."""
    return math.fsum(
        share.analysis.weight * _VARIANCE_OF_SCALE[share.analysis.noise] * share.noise_scale**2
        for share in shares
        if share.noise_scale is not None
    )


# ------------------------------------------------------------------------------------------ adding up stated guarantees


def stated_event(analysis: Analysis) -> Event:
    """Return the worst release that has the analysis' own guarantee: of its mechanism, or, if that is unknown, of any.

    A stated μ is Gaussian noise: nothing with that guarantee is worse (Dong, Roth, Su 2019). Raises UserError if
    nothing is stated, or if the mechanism cannot have such a guarantee.
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


def composed(parts: Sequence[tuple[Analysis, Event]]) -> tuple[Event, ...]:
    """Return the events of analyses together: those on disjoint sets of rows in parallel, all others in sequence."""
    sets: dict[str, list[Event]] = {}
    for analysis, event in parts:
        sets.setdefault(analysis.rows, []).append(event)
    shared = sets.pop("", [])
    blocks = [Seq(tuple(events)) if len(events) > 1 else events[0] for events in sets.values()]
    return (*shared, Parallel(tuple(blocks))) if blocks else tuple(shared)


def together(shares: Sequence[Share], delta: float) -> noisy_means.Guarantee:
    """Return the cost of all analyses together, in every currency; `missing` names those without such a cost."""
    parts = [(share.analysis, share.event) for share in shares]
    total = noisy_means.guarantee(composed(parts), delta)
    missing: dict[str, str]
    missing = {name: f"{_without(parts, name)}. {total.missing[name]}" for name in UNITS if name in total.missing}
    return replace(total, missing=MappingProxyType({**total.missing, **missing}))
