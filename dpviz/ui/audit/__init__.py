"""The parts of the audit page."""

from dpviz import resources

texts = resources.Texts(__package__)
TESTS: dict[str, str] = resources.data(__package__, "texts.toml")["TESTS"]  # by their kind
