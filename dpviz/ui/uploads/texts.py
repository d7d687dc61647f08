"""The texts of the panels; `widgets.toml` has those of their controls, `tables.toml` those of their tables."""

from dpviz import resources

TABLES = resources.data(__package__, "tables.toml")
WIDGETS = resources.data(__package__, "widgets.toml")
__getattr__ = resources.texts(__package__)
