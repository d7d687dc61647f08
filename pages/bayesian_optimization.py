"""Private tuning of a model's settings on validation data."""

from dpviz.ui.bayesian_optimization.page import PAGE
from dpviz.ui.experiment.page import show
from dpviz.ui.navigation import ensure_shell

ensure_shell()
show(PAGE)
