"""What the pages of all families share about plans: which arms have one, and the currency in which they add up."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.budgets import Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.ui import charts

SYMBOLS: Mapping[Currency, str] = {"epsilon": "ε", "rho": "ρ (zCDP)", "mu": "μ (Gaussian DP)"}


def refusals(refused: Mapping[str, UserError]) -> None:
    """Say which of the chosen methods have no plan, and why, once per reason."""
    for reason in dict.fromkeys(str(error) for error in refused.values()):
        labels = [label for label, error in refused.items() if str(error) == reason]
        st.warning(reason, title=f"Left out: {', '.join(labels)}")


def notes(plans: Mapping[str, Plan]) -> None:
    """What the plans warn of, once per sentence, with the methods that it is about."""
    for note in dict.fromkeys(note for plan in plans.values() for note in plan.notes):
        st.warning(note, title=", ".join(label for label, plan in plans.items() if note in plan.notes))


def native_currency(budget: Budget) -> tuple[Currency, float | None, str]:
    """The currency in which a budget adds up over the steps, its limit there, and a remark."""
    if isinstance(budget, PureDP):
        return "epsilon", budget.epsilon, "Costs of the steps add up (basic composition)."
    if isinstance(budget, ZeroConcentratedDP):
        return "rho", budget.rho, "Costs of the steps add up (zCDP)."
    if isinstance(budget, GaussianDP):
        return "mu", budget.mu, "The squares of the costs add up (Gaussian DP)."
    return "rho", None, "(ε, δ) does not add up step by step, ρ does; the tab on accounting shows ε at δ."


def draw(drawings: Sequence[tuple[str, go.Figure, str]], alts: Sequence[str], key: str) -> None:
    """Figures with heading and caption, two side by side; their keys are `<key>_<number>`. In place of one that has
    nothing to draw stands the sentence that says why."""
    columns = [column for _ in range((len(drawings) + 1) // 2) for column in st.columns(2, gap="medium")]
    for number, (column, drawing, alt) in enumerate(zip(columns, drawings, alts, strict=False)):
        heading, figure, caption = drawing
        with column:
            if figure.data:
                charts.show(figure, f"{key}_{number}", heading, alt, caption)
                continue
            st.subheader(heading, anchor=False)
            for note in figure.layout.annotations:
                st.info(f"{note.text[0].upper()}{note.text[1:].rstrip('.')}.", icon=":material/block:")
            st.caption(caption)
