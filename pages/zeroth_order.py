"""Private optimisation from function values alone."""

from dpviz.ui.navigation import show

show("zeroth_order")
