"""Private second-order solutions."""

from dpviz.ui.navigation import show

show("second_order")
