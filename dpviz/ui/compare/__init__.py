"""The page that compares pinned runs of any kind."""

from dpviz import resources

texts = resources.Texts(__package__)
# Sentences on the privacy of a comparison, by its currency.
CONVERTED: dict[str, str] = resources.data(__package__, "texts.toml")["CONVERTED"]
