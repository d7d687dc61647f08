"""Mirror descent for private games."""

from dpviz.ui.navigation import show

show("mirror_descent")
