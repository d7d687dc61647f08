"""Accelerated gradient methods."""

from dpviz.ui.navigation import show

show("accelerated")
