"""Lessons: predict, see, understand."""

from dpviz.ui.learn.page import show
from dpviz.ui.navigation import ensure_shell

ensure_shell()
show()
