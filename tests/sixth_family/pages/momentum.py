"""The page of the sixth family."""

from dpviz.ui.navigation import show

show("momentum")
