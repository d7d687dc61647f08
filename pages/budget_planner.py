"""Budget planner: what a guarantee is worth and what it buys."""

from dpviz.ui.navigation import show

show("budget_planner")
