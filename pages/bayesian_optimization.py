"""Private tuning of a model's settings on validation data."""

from dpviz.ui.navigation import show

show("bayesian_optimization")
