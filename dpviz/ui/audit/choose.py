"""What is audited: a method with a canary, or a mistake made on purpose; what it claims, and how often it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from dpviz import families
from dpviz.audits.audit import ORDINARY, WORST, Case
from dpviz.execution.auditing import BROKEN, Auditing, mistake_named
from dpviz.privacy.budgets import Budget
from dpviz.ui import families as pages
from dpviz.ui.audit import texts
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.terms import TERMS


@dataclass(frozen=True)
class Chosen:
    """What was set, to be built when all controls have been drawn."""

    family: str
    name: str
    budget: Settings[Budget]
    rest: Mapping[str, Any]

    def build(self) -> Auditing:
        """The audit. Raises UserError for a budget that does not fit the method."""
        values = {"family": self.family, "case": self.name, "budget": self.budget.build(), **self.rest}
        auditing = Settings(Auditing, values).build()
        assert auditing.audit.plan is not None  # made here, so that what is wrong with the settings is said beside them
        return auditing


def controls(panel: Panel) -> Chosen:
    """Draw the controls of the sidebar."""
    st.subheader("What is attacked", anchor=False)
    cases = families.audits()
    titles = {BROKEN: "Broken on purpose"}
    titles |= {family.name: family.title for family in pages.FAMILIES if family.name in cases}
    family = panel.choice("family", "Family", titles, next(iter(titles)), texts.FAMILY_HELP)
    rest: dict[str, Any] = {}
    budgets: tuple[Budget, ...]
    if family == BROKEN:
        mistakes = {mistake.name: mistake for mistake in families.broken()}
        named = {name: mistake.title for name, mistake in mistakes.items()}
        name = panel.choice("mistake", "Mistake", named, next(iter(named)), texts.MISTAKE_HELP)
        rest = panel.specification(Auditing, ["mended"])
        budgets, usual, prefix = (mistakes[name].budget,), mistakes[name].runs, f"{family}_{name}"
    else:
        worst = {case.title: case for case in reversed(cases[family])}  # of each method the first, its worst case
        methods = {case.name: case.title for case in cases[family] if worst[case.title] is case}
        method = panel.choice(f"method_{family}", "Method", methods, next(iter(methods)), texts.METHOD_HELP)
        budgets, usual = worst[methods[method]].budgets, worst[methods[method]].runs
        prefix = f"{family}_{method}"
        name = _canary(panel, prefix, [case for case in cases[family] if case.title == methods[method]])
    st.subheader("Claim and attack", anchor=False)
    budget = _budget(panel, prefix, budgets)
    declared = {control.name: control for control in Auditing.controls()}
    panel.lead(1, replace(declared["runs"], default=usual), rest, prefix=f"{prefix}_")
    rest["seed"] = panel.control(declared["seed"], "seed")
    return Chosen(family, name, budget, rest)


def _canary(panel: Panel, prefix: str, cases: list[Case]) -> str:
    """The name of one of a method's cases, the first of which is the worst that is known."""
    if len(cases) == 1:
        return cases[0].name
    names = {case.name: case.canary_name for case in cases}
    help = texts.CANARY_HELP.format(canary=TERMS["canary"].sentence)
    return panel.choice(f"{prefix}_canary", "Canary", names, cases[0].name, help)


def _budget(panel: Panel, prefix: str, usual: tuple[Budget, ...]) -> Settings[Budget]:
    """The currencies in which a case is audited; each method has controls of its own, as what it takes differs."""
    audited = {type(budget): budget for budget in reversed(usual)}
    currencies = {name: cls for name, cls in CURRENCIES.items() if cls in audited}
    currency = next(name for name, cls in currencies.items() if cls is type(usual[0]))
    if len(currencies) > 1:
        names = {name: cls.name for name, cls in currencies.items()}
        currency = panel.choice(f"{prefix}_currency", "Guarantee", names, currency, texts.CURRENCY_HELP)
    cls = currencies[currency]
    first, *others = [replace(control, default=getattr(audited[cls], control.name)) for control in cls.controls()]
    values = {control.name: panel.control(control, f"{prefix}_{control.name}") for control in others}
    panel.lead(0, first, values, prefix=f"{prefix}_")
    return Settings(cls, values)


def described(auditing: Auditing) -> str:
    """The two data sets, and what is wrong on purpose."""
    text, canary = f"**The case.** {auditing.audit.case.canary}", auditing.audit.case.canary_name
    if auditing.family != BROKEN:
        more = {WORST: "", ORDINARY: f" {texts.CANARIES}"}.get(canary, f" {texts.UNKNOWN}")
        return text + more
    mistake = mistake_named(auditing.case)
    if auditing.mended:
        return f"{text} This is “{mistake.title}” without the mistake."
    catch = {"attack": "the attack catches", "tests": "the tests of the implementation catch"}[mistake.by]
    enough = f"At {mistake.budget.describe()} and {mistake.runs:,} runs, {catch} it in 99 of 100 audits."
    return f"{text}  \n**The mistake.** {mistake.mistake} {enough}"
