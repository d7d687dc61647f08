"""Plans: which events are charged when, what was spent after each iteration, and schedules that cannot change."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

from dpviz.experiments.plan import Plan
from dpviz.experiments.results import budget_spent, epsilon_reading
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, Repeat, StatedPureDP, StatedZCDP, Sub
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger
from dpviz.problems.base import Facts

A, B, C = Laplace(0.1), Laplace(0.2), Repeat(ExpMech(0.05), 2)
FACTS = Facts(n=100, d=3)
KNOWN = Facts(n=100, d=3, released=(Laplace(0.5),))
BUDGET = PureDP(epsilon=1.0)
ALLOWED = Filter("epsilon", 1.0, {"A": A})


def adaptive(currency: str, cap: float, budget: Budget = BUDGET, iterations: int = 4) -> Plan:
    terms = Filter(currency, cap, {"step": Laplace(0.1), "noise": Gaussian(0.1)})  # type: ignore[arg-type]
    return Plan.filtered(FACTS, budget, terms, iterations)


# ---------------------------------------------------------------------------------------------------------- fixed plans


def test_one_event_per_iteration_unless_it_is_said_otherwise() -> None:
    plan = Plan.fixed(FACTS, BUDGET, (A, B, A), step_size=np.ones(3))
    assert plan.iterations == 3 and plan.charged_at.tolist() == [1, 2, 3]
    assert plan.terms == FixedEvents((A, B, A)) and plan.events == (A, B, A)
    assert plan.spent("epsilon") == pytest.approx([0, 0.1, 0.3, 0.4])


def test_an_iteration_may_have_several_events_or_none() -> None:
    """Two in the second, none in the first and third, three in the fourth; the fifth is free again."""
    plan = Plan.fixed(FACTS, BUDGET, (A, B, C, A, A), charged_at=np.array([2, 2, 4, 4, 4]), iterations=5)
    assert plan.spent("epsilon") == pytest.approx([0, 0, 0.3, 0.3, 0.6, 0.6])
    assert plan.spent("rho") == pytest.approx(
        np.append(0, np.cumsum([accountants.total(e, "rho") for e in ((), (A, B), (), (C, A, A), ())]))
    )
    assert plan.spent("mu")[-1] == pytest.approx(accountants.total(plan.events, "mu"))
    for iteration, expected in enumerate([0, 0, 0.3, 0.3, 0.6, 0.6]):
        assert budget_spent(plan, iteration)[0] == pytest.approx(expected, abs=1e-15)
        assert epsilon_reading(plan, iteration, 1e-6).by_method["basic"] == pytest.approx(expected, abs=1e-15)


def test_blocks_are_paid_when_they_open_and_pass_through_the_iterations() -> None:
    plan = Plan.fixed(FACTS, BUDGET, (Parallel((A, B, A)),), charged_at=np.array([1]), iterations=3)
    assert plan.spent("epsilon") == pytest.approx([0, 0.2, 0.2, 0.2])


def test_what_was_released_before_the_run_is_spent_before_the_first_iteration() -> None:
    plan = Plan.fixed(KNOWN, BUDGET, (A, B), charged_at=np.array([2, 2]), iterations=2)
    assert plan.spent("epsilon") == pytest.approx([0.5, 0.5, 0.8])
    assert plan.events == (A, B), "the run itself is not charged for it again"
    assert epsilon_reading(plan, 0, 1e-6).epsilon == pytest.approx(0.5)
    filtered = dataclasses.replace(adaptive("epsilon", 0.7), facts=KNOWN)
    assert filtered.spent("epsilon") == pytest.approx([0.5, 1.2, 1.2, 1.2, 1.2])


def test_a_run_without_releases_has_iterations_and_spends_nothing() -> None:
    plan = Plan.fixed(FACTS, BUDGET, (), iterations=2, step_size=np.ones(2))
    assert plan.events == () and plan.spent("epsilon").tolist() == [0, 0, 0]
    assert epsilon_reading(plan, 2, 1e-6).epsilon == 0


@pytest.mark.parametrize(
    ("budget", "event", "currency"),
    [
        (PureDP(epsilon=2.0), Laplace(0.5), "ε"),
        (ZeroConcentratedDP(rho=0.5), Gaussian(0.5), "ρ"),
        (GaussianDP(mu=1.0), Gaussian(0.5), "μ"),
        (ApproximateDP(epsilon=2.0, delta=1e-6), Gaussian(0.2), "ε at δ = 10⁻⁶"),
    ],
)
def test_two_events_at_a_time_are_spent_in_pairs(budget: Budget, event: Event, currency: str) -> None:
    plan = Plan.fixed(FACTS, budget, (event,) * 4, charged_at=np.array([1, 1, 2, 2]), iterations=2)
    found = [budget_spent(plan, iteration) for iteration in range(3)]
    assert [symbol for _, symbol in found] == [currency] * 3
    whole = Plan.fixed(FACTS, budget, (event,) * 4)
    assert [value for value, _ in found] == [budget_spent(whole, count)[0] for count in (0, 2, 4)]
    assert 0 == found[0][0] < found[1][0] <= found[2][0]
    assert (found[1][0] < found[2][0]) is budget.adds_up  # else the whole plan counts until it ends


def test_no_privacy_costs_infinity_from_its_first_event_on() -> None:
    plan = Plan.fixed(FACTS, NoPrivacy(), (Laplace(math.inf),) * 2, charged_at=np.array([2, 3]), iterations=3)
    for currency in ("epsilon", "rho", "mu"):
        assert plan.spent(currency).tolist() == [0, 0, math.inf, math.inf]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "charged_at",
    [[1, 2], [1, 2, 3, 4], [2, 1, 3], [0, 1, 2], [1, 2, 5], [[1, 2, 3]]],
    ids=["too few", "too many", "not ascending", "before the start", "after the end", "a matrix"],
)
def test_every_event_is_charged_in_some_iteration_in_order(charged_at: list) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Plan.fixed(FACTS, BUDGET, (A, A, A), charged_at=np.array(charged_at), iterations=4)
    Plan.fixed(FACTS, BUDGET, (A, A, A), charged_at=np.array([1, 4, 4]), iterations=4)


def test_more_events_than_iterations_need_to_say_when() -> None:
    with pytest.raises(ValueError, match="ascending"):
        Plan.fixed(FACTS, BUDGET, (A, A, A), iterations=2)


# ------------------------------------------------------------------------------------------------------- adaptive plans


@pytest.mark.parametrize(
    ("currency", "cap", "ceiling"),
    [("epsilon", 0.7, StatedPureDP(0.7)), ("rho", 0.05, StatedZCDP(0.05)), ("mu", 0.4, Gaussian(0.4))],
)
def test_accountants_see_a_filter_as_one_event_of_its_cap(currency: str, cap: float, ceiling: Event) -> None:
    plan = adaptive(currency, cap)
    assert plan.events == (ceiling,) and plan.charged_at.tolist() == [1] and plan.iterations == 4
    spent = plan.spent(currency)  # type: ignore[arg-type]
    assert spent == pytest.approx([0, cap, cap, cap, cap])
    ledger = Ledger(plan.terms, 2)
    step = Laplace(0.1) if currency == "epsilon" else Gaussian(0.1)
    while (fits := ledger.affordable(step)).any():
        ledger.charge(step, fits.astype(int))
    assert (ledger.spent(currency) <= cap * (1 + 1e-9)).all()  # type: ignore[arg-type]
    assert (ledger.spent(currency) > 0.9 * cap).all()  # type: ignore[arg-type]


def test_other_currencies_of_a_filter_are_those_of_its_ceiling() -> None:
    assert adaptive("rho", 0.05).spent("epsilon").tolist() == [0] + [math.inf] * 4
    assert adaptive("mu", 0.4).spent("rho") == pytest.approx([0] + [0.08] * 4)
    assert adaptive("epsilon", 0.7).spent("rho")[1] == pytest.approx(0.7 * math.tanh(0.35))
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    plan = adaptive("rho", 0.05, budget)
    expected = accountants.tightest((StatedZCDP(0.05),), 1e-6).epsilon
    assert [budget_spent(plan, t)[0] for t in range(3)] == pytest.approx([0, expected, expected])
    assert epsilon_reading(plan, 3, 1e-6).method in ("zcdp", "rdp")


def test_a_filter_without_a_cap_is_no_privacy() -> None:
    for currency in ("epsilon", "rho", "mu"):
        assert adaptive(currency, math.inf, NoPrivacy()).spent(currency).tolist() == [0] + [math.inf] * 4  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------ schedules


def test_schedules_have_one_entry_per_iteration() -> None:
    for wrong in (np.ones(2), np.ones(4), np.ones((3, 1)), np.array(1.0)):
        with pytest.raises(ValueError, match="3 entries"):
            Plan.fixed(FACTS, BUDGET, (A, A, A), step_size=wrong)
        with pytest.raises(ValueError, match="3 entries"):
            Plan.filtered(FACTS, BUDGET, ALLOWED, 3, step_size=wrong)
    with pytest.raises(ValueError, match="5 entries"):
        Plan.fixed(FACTS, BUDGET, (A,), charged_at=np.array([1]), iterations=5, step_size=np.ones(1))


def test_a_plan_cannot_be_changed() -> None:
    plan = Plan.fixed(FACTS, BUDGET, (A, Sub("wor", 5, 100, B)), step_size=np.ones(2), batch_size=np.array([100, 5]))
    for values in plan.schedule.values():
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 7
    with pytest.raises(TypeError):
        plan.schedule["step_size"] = np.zeros(2)  # type: ignore[index]
    with pytest.raises(TypeError):
        plan.resolved["step_size"] = 0.0  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.iterations = 1  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        plan.batch_size[0] = 7  # type: ignore[index]
    assert dict(plan.schedule).keys() == {"step_size"} and plan.notes == () and not plan.resolved
    for twin in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):  # of the same kind
        assert twin.events == plan.events and twin.schedule["step_size"].tolist() == [1, 1]
        with pytest.raises(TypeError):
            twin.schedule["step_size"] = np.zeros(2)  # type: ignore[index]


def test_notes_and_resolved_settings_are_kept() -> None:
    kept = {"resolved": {"rounds": 3.0}, "notes": ("A warning.",)}
    for plan in (
        Plan.fixed(FACTS, BUDGET, (A,), **kept),  # type: ignore[arg-type]
        Plan.filtered(FACTS, BUDGET, ALLOWED, 2, **kept),  # type: ignore[arg-type]
    ):
        assert plan.resolved == {"rounds": 3.0} and plan.notes == ("A warning.",)
        assert plan.facts == FACTS and plan.budget == BUDGET


# ------------------------------------------------------------------------------------- what pages read: typed fields


def test_rows_noise_and_moments_to_record_are_fields_and_the_rest_is_the_schedule() -> None:
    named = {"gradient": np.array([0.5, 0.4]), "hessian": np.array([0.0, 2.0])}
    fields = {"batch_size": np.array([10, 20]), "noise": named, "record_at": np.array([1, 2])}
    for plan in (
        Plan.fixed(FACTS, BUDGET, (A, B), **fields, step_size=np.ones(2)),  # type: ignore[arg-type]
        Plan.filtered(FACTS, BUDGET, ALLOWED, 2, **fields, step_size=np.ones(2)),  # type: ignore[arg-type]
    ):
        assert plan.rows is plan.batch_size and plan.rows.tolist() == [10, 20]
        assert dict(plan.noise) == named and list(plan.schedule) == ["step_size"]
        assert plan.record_at is not None and plan.record_at.tolist() == [1, 2]
        for values in (plan.rows, plan.noise["hessian"], plan.record_at):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 1
        with pytest.raises(TypeError):
            plan.noise["gradient"] = np.zeros(2)  # type: ignore[index]


def test_a_plan_that_counts_no_rows_reads_all_of_them() -> None:
    plan = Plan.fixed(FACTS, BUDGET, (A, B))
    assert plan.batch_size is None and plan.rows.tolist() == [100, 100]
    varying = Plan.fixed(FACTS, BUDGET, (A, B), batch_size=np.array([10.5, 20.0]), sizes_vary=True)
    assert varying.passes is None and varying.rows.tolist() == [10.5, 20]
    assert not plan.noise and plan.record_at is None and plan.worst_case is None


def test_whether_a_plan_is_private_is_its_budget() -> None:
    assert Plan.fixed(FACTS, BUDGET, (A,)).private and adaptive("rho", 0.05).private
    assert not Plan.fixed(FACTS, NoPrivacy(), (Laplace(math.inf),)).private


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": np.ones(3)},
        {"noise": {"gradient": np.ones((2, 1))}},
        {"record_at": np.array([1, 3])},
        {"record_at": np.array([2, 1])},
        {"record_at": np.array([-1])},
    ],
    ids=["rows", "noise", "after the end", "not ascending", "before the start"],
)
def test_fields_that_do_not_fit_the_iterations_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="2"):
        Plan.fixed(FACTS, BUDGET, (A, B), **wrong)
    with pytest.raises(ValueError, match="2"):
        Plan.filtered(FACTS, BUDGET, ALLOWED, 2, **wrong)


# ------------------------------------------------------------------------------------------- the worst case of a filter


@pytest.mark.parametrize(("currency", "cap"), [("epsilon", 0.7), ("rho", 0.05), ("mu", 0.4)])
def test_a_worst_case_is_what_a_filter_has_spent_at_most(currency: str, cap: float) -> None:
    worst = cap * np.array([0.0, 0.0, 0.5, 1.0, 1.0])
    plan = dataclasses.replace(adaptive(currency, cap), worst_case=worst)
    assert plan.spent(currency) == pytest.approx(worst)  # type: ignore[arg-type]
    assert plan.events == adaptive(currency, cap).events, "the guarantee is the cap all the same"
    assert plan.charged(1) == () and plan.charged(4) == plan.events
    for iteration, amount in enumerate(worst):
        assert accountants.total(plan.charged(iteration), currency) == pytest.approx(amount)  # type: ignore[arg-type]
    known = dataclasses.replace(plan, facts=KNOWN)
    for wanted in ("epsilon", "rho", "mu"):
        before = accountants.total(KNOWN.released, wanted)
        own = np.array([0.0 if not amount else _cost(currency, amount, wanted) for amount in worst])
        expected = np.hypot(before, own) if wanted == "mu" else before + own
        assert known.spent(wanted) == pytest.approx(expected)


def _cost(currency: str, amount: float, wanted: Currency) -> float:
    event: Event = {"epsilon": StatedPureDP, "rho": StatedZCDP, "mu": Gaussian}[currency](amount)  # type: ignore[assignment]
    return accountants.total((event,), wanted)


@pytest.mark.parametrize(
    "worst",
    [[0, 0.1, 0.2, 0.3], [0, 0.2, 0.1, 0.3, 0.3], [0, 0.1, 0.2, 0.3, 0.8], [[0.0] * 5]],
    ids=["too short", "falls", "beyond the cap", "a matrix"],
)
def test_a_worst_case_climbs_from_nothing_to_the_cap(worst: list) -> None:
    with pytest.raises(ValueError, match="ascending sums from 0 to the cap"):
        dataclasses.replace(adaptive("epsilon", 0.7), worst_case=np.array(worst, dtype=float))


def test_a_fixed_plan_has_no_worst_case_of_its_own() -> None:
    with pytest.raises(ValueError, match="follows from its events"):
        dataclasses.replace(Plan.fixed(FACTS, BUDGET, (A,)), worst_case=np.zeros(2))
