"""What is audited: a family, one of its methods, its budget, and how often it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import streamlit as st

from dpviz import families
from dpviz.experiments.audit import Case
from dpviz.experiments.auditing import Auditing
from dpviz.privacy.budgets import Budget
from dpviz.ui import families as pages
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES


@dataclass(frozen=True)
class Chosen:
    """What was set, to be built when all controls have been drawn."""

    family: str
    case: Case
    budget: Settings[Budget]
    rest: Mapping[str, float | None]

    def build(self) -> Auditing:
        """The audit. Raises UserError for a budget that does not fit the method."""
        values = {"family": self.family, "case": self.case.name, "budget": self.budget.build(), **self.rest}
        auditing = Settings(Auditing, values).build()
        assert auditing.audit.plan is not None  # made here, so that what is wrong with the settings is said beside them
        return auditing


def controls(panel: Panel) -> Chosen:
    """Draw the controls of the sidebar."""
    cases = families.audits()
    st.subheader("Method", anchor=False)
    titles = {family.name: family.title for family in pages.FAMILIES if family.name in cases}
    family = panel.choice("family", "Family", titles, next(iter(titles)), "Whose methods are offered below.")
    offered = {case.name: case for case in cases[family]}
    name = panel.choice(
        f"method_{family}",
        "Method",
        {name: case.title for name, case in offered.items()},
        next(iter(offered)),
        "The code that the method's own page runs, on data sets made for the attack.",
    )
    st.subheader("Claim", anchor=False)
    budget = _budget(panel, family, offered[name])
    st.subheader("Attack", anchor=False)
    declared = {control.name: control for control in Auditing.controls()}
    runs = panel.number(replace(declared["runs"], default=offered[name].runs), f"{family}_{name}_runs")
    rest = {"runs": runs, "seed": panel.control(declared["seed"], "seed")}
    return Chosen(family, offered[name], budget, rest)


def _budget(panel: Panel, family: str, case: Case) -> Settings[Budget]:
    """The currencies in which the case is audited; each case has controls of its own, as what it takes differs."""
    audited = {type(budget): budget for budget in reversed(case.budgets)}
    currencies = {name: cls for name, cls in CURRENCIES.items() if cls in audited}
    currency = next(name for name, cls in currencies.items() if cls is type(case.budgets[0]))
    prefix = f"{family}_{case.name}"
    if len(currencies) > 1:
        titles = {name: cls.name for name, cls in currencies.items()}
        currency = panel.choice(
            f"{prefix}_currency",
            "Guarantee",
            titles,
            currency,
            "In which currency the method states what it keeps to.",
        )
    cls = currencies[currency]
    controls = [replace(control, default=getattr(audited[cls], control.name)) for control in cls.controls()]
    return Settings(cls, {control.name: panel.control(control, f"{prefix}_{control.name}") for control in controls})
