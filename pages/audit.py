"""Check the guarantee: an attacker plays the worst case, thousands of times."""

from dpviz.ui.audit.page import show
from dpviz.ui.navigation import ensure_shell

ensure_shell()
show()
