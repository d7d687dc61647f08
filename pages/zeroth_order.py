"""Private optimisation from function values alone."""

from dpviz.ui.experiment.page import show
from dpviz.ui.navigation import ensure_shell
from dpviz.ui.zeroth_order.page import PAGE

ensure_shell()
show(PAGE)
