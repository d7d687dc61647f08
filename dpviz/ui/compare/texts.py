"""The texts of the page that compares runs."""

from dpviz import resources

TEXTS = resources.data(__package__, "texts.toml")
CONVERTED: dict[str, str] = TEXTS["CONVERTED"]
__getattr__ = resources.texts(__package__)
