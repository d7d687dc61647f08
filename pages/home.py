"""The start page: what privacy costs, told in three pictures; three ways in; the families."""

import streamlit as st

from dpviz.ui import families, glossary
from dpviz.ui.accelerated import story
from dpviz.ui.navigation import ensure_shell

ensure_shell()

with st.container(horizontal=True, vertical_alignment="center"):
    st.title("See what privacy costs", anchor=False)
    glossary.mark_terms("home_words")
st.markdown(
    "**Differential privacy** limits how well anybody can tell from a result whether your record was used: smaller ε, "
    "less. An algorithm pays for it with noise in every step, and all steps share one budget."
)
story.show_pictures()

st.header("Your way in", anchor=False)
doors = st.container(key="home_doors").columns(3)
with doors[0]:
    families.show_entrance(
        "lessons",
        ":material/school:",
        "Predict",
        "Short lessons: say what will happen, watch it happen, and read why.",
        label="Start a lesson",
        page="pages/learn.py",
    )
with doors[1]:
    families.show_entrance(
        "run",
        ":material/play_arrow:",
        "Play",
        "Move ε and watch private methods converge, on synthetic data or on your own file.",
        label="Run a method",
        page=families.named("accelerated"),
    )
with doors[2]:
    families.show_entrance(
        "plan",
        ":material/tune:",
        "Plan",
        "What a guarantee is worth, and the noise, steps and rows that it buys. No data needed.",
        label="Plan a budget",
        page="pages/budget_planner.py",
    )

st.header("Methods", anchor=False)
cards = st.container(key="home_cards").columns(len(families.FAMILIES), gap="small")
for column, family in zip(cards, families.FAMILIES, strict=True):
    with column:
        families.card(family)
