"""Pinned runs side by side."""

from dpviz.ui.navigation import show

show("compare")
