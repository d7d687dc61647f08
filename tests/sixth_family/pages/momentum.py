"""The page of the sixth family."""

from dpviz.ui.momentum.page import PAGE

from dpviz.ui.experiment.page import show
from dpviz.ui.navigation import ensure_shell

ensure_shell()
show(PAGE)
