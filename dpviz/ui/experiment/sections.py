"""The names of the sections of a family's page, and the section "Check", which links to audits."""

from typing import TYPE_CHECKING

import streamlit as st

from dpviz import families
from dpviz.experiments.experiment import Experiment
from dpviz.ui.experiment import texts

if TYPE_CHECKING:
    from dpviz.audits.audit import Case

PLAN, RESULTS, SWEEP = "Plan", "Results", "Sweep"
CHECK, TAKE_AWAY, BACKGROUND = "Check", "Take away", "Background"
NAMES = (PLAN, RESULTS, SWEEP, CHECK, TAKE_AWAY, BACKGROUND)


def show_audit_links(family: str, title: str, experiment: Experiment) -> None:
    """Draw links to the audits of the private methods of an experiment, at its budget if the audit has that currency.

    family : name of the family's package. title : title of its page in the menu.
    """
    st.markdown(texts.AUDITED)
    kinds = {type(arm.algorithm) for arm in experiment.arms if not arm.reference}
    cases: dict[str, Case] = {}
    for case in families.audits().get(family, ()):
        if type(case.algorithm) in kinds:
            cases.setdefault(case.title, case)  # the first case of a title is the worst known
    titles_without_budget = []  # of audits that have no budget in the experiment's currency
    for case in cases.values():
        is_accepted = type(experiment.budget) in {type(budget) for budget in case.budgets}
        if not is_accepted:
            titles_without_budget.append(case.title)
        at = f" at {experiment.budget.describe()}" if is_accepted else ""
        st.page_link(
            "pages/audit.py",
            label=f"Audit of {case.title}{at}",
            icon=":material/policy:",
            query_params=_settings(family, title, case, experiment if is_accepted else None),
        )
    if not cases:
        st.info(texts.UNCHECKED)
    if titles_without_budget:
        st.caption(texts.OWN_BUDGET.format(names="; ".join(titles_without_budget)))


def _settings(family: str, title: str, case: "Case", experiment: Experiment | None) -> dict[str, str]:
    """Return the query parameters with which the audit page shows a case, at the budget of an experiment.

    family, title : as in `show_audit_links`. experiment : None to leave the budget at the audit's default.
    """
    prefix = f"audit_{family}_{case.name}"
    parameters = {"audit_family": title, f"audit_method_{family}": case.title}
    if experiment is not None:
        budget = experiment.budget
        parameters |= {f"{prefix}_currency": budget.name}  # an address has the label of an option
        for control in budget.controls():
            parameters[f"{prefix}_{control.name}"] = f"{getattr(budget, control.name):.10g}"  # without rounding errors
    return parameters
