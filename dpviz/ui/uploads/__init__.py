"""A visitor's own file: how it is read, declared and turned into a table."""

from dpviz import resources

texts = resources.Texts(__package__)
TABLES = resources.data(__package__, "tables.toml")  # the texts of tables
