"""Mirror descent for private games."""

from dpviz.ui.experiment.page import show
from dpviz.ui.mirror_descent.page import PAGE
from dpviz.ui.navigation import ensure_shell

ensure_shell()
show(PAGE)
