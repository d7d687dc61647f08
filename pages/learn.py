"""Lessons: predict, see, understand."""

from dpviz.ui.navigation import show

show("learn")
