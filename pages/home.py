"""The start page: what privacy costs, told in three pictures; six ways in; the families."""

import streamlit as st

from dpviz.ui import families, glossary
from dpviz.ui.accelerated import story
from dpviz.ui.navigation import ensure_shell

ensure_shell()

st.title("See what privacy costs", anchor=False)
st.markdown(
    "dpviz shows what differential privacy costs an optimisation algorithm: more privacy means more noise in every "
    "step, and all steps share one budget. Plan a budget before anything touches data, run the algorithms live, and "
    "see privacy and accuracy side by side."
)

st.header("What noise hides, and what it costs", anchor=False)
story.told()

st.header("Your way in", anchor=False)
accelerated = families.named("accelerated")
doors = [*st.columns(3), *st.columns(3)]
with doors[0]:
    families.door(
        "lessons",
        ":material/school:",
        "Predict and see",
        "Short lessons, one idea each: say what will happen, watch it happen, and read why.",
        label="Start a lesson",
        page="pages/learn.py",
    )
with doors[1]:
    families.door(
        "learn",
        ":material/menu_book:",
        "Learn with a preset",
        "Figures of published papers as one-click experiments, with what to look for and what was reported.",
        label="Open Figure 3",
        page=accelerated,
        preset="Figure 3",
    )
with doors[2]:
    families.door(
        "plan",
        ":material/tune:",
        "Plan a budget",
        "What a guarantee is worth in every currency, and the noise, steps and rows that it buys. No data needed.",
        label="Plan",
        page="pages/budget_planner.py",
    )
with doors[3]:
    families.door(
        "run",
        ":material/play_arrow:",
        "Run a method",
        "Watch private algorithms converge on synthetic data, on bundled tables, or on your own file.",
        label="Run on real data",
        page=accelerated,
        preset="Real data",
    )
with doors[4]:
    families.door(
        "compare",
        ":material/compare_arrows:",
        "Compare runs",
        "Pin runs of any page and see them side by side: common axes, what differs, and what they cost together.",
        label="Compare",
        page="pages/compare.py",
    )
with doors[5]:
    families.door(
        "check",
        ":material/policy:",
        "Check a guarantee",
        "An attacker plays the worst case thousands of times, against our methods and against known mistakes.",
        label="Attack a method",
        page="pages/audit.py",
    )

glossary.words("home_words")

st.header("Methods", anchor=False)
for first in range(0, len(families.FAMILIES), 3):
    for column, family in zip(st.columns(3), families.FAMILIES[first : first + 3], strict=False):
        with column:
            families.card(family)
