"""Pinned runs side by side."""

from dpviz.ui.compare.page import show
from dpviz.ui.navigation import ensure_shell

ensure_shell()
show()
