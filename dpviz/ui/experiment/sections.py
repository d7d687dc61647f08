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
        label = f"Audit of {case.title}"
        parameters = {"audit_family": title, f"audit_method_{family}": case.title}
        if type(experiment.budget) in map(type, case.budgets):
            label += f" at {experiment.budget.describe()}"
            prefix = f"audit_{family}_{case.name}"
            parameters[f"{prefix}_currency"] = experiment.budget.name  # an address has the label of an option
            for control in experiment.budget.controls():
                value = getattr(experiment.budget, control.name)
                parameters[f"{prefix}_{control.name}"] = f"{value:.10g}"  # without rounding errors
        else:
            titles_without_budget.append(case.title)
        st.page_link("pages/audit.py", label=label, icon=":material/policy:", query_params=parameters)
    if not cases:
        st.info(texts.UNCHECKED)
    if titles_without_budget:
        st.caption(texts.OWN_BUDGET.format(names="; ".join(titles_without_budget)))
