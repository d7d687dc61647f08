"""The texts of the budget planner; `tables.toml` has those of its tables."""

from dpviz import resources

__getattr__ = resources.texts(__package__)
