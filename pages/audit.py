"""Check the guarantee: an attacker plays the worst case, thousands of times."""

from dpviz.ui.navigation import show

show("audit")
