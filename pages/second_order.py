"""Private second-order solutions."""

from dpviz.ui.experiment.page import show
from dpviz.ui.navigation import ensure_shell
from dpviz.ui.second_order.page import PAGE

ensure_shell()
show(PAGE)
