"""Tests that allow a refusal name it: any other one is a failure."""

from collections.abc import Iterator
from contextlib import contextmanager

from dpviz.errors import UserError

# What a plan may be refused for: the titles of the sentences.
OTHER_CURRENCY = "This budget does not fit the method"
UNDEFINED = "Not defined for this currency"
NO_GAUSSIAN = "This budget does not exist for Gaussian noise"
NO_AMPLIFICATION = "No amplification in this currency"
UNPROTECTED = "This budget does not protect those who are drawn"
MISFIT = "Algorithm and problem do not fit"
FEW_ROWS = "Not enough rows"
NO_BOUND = "No bound for this method"
NO_HORIZON = "No bound to choose T by"
NO_REFERENCE = "No non-private version"


def is_refusal(error: UserError, *titles: str) -> bool:
    """Whether the error is a whole sentence under one of these titles; a title may be the start of one."""
    text = str(error).rstrip()
    return error.title.startswith(titles) and len(text) > 20 and text.endswith((".", ".)"))


@contextmanager
def refusing(*titles: str) -> Iterator[None]:
    """The rest of the block is left out where it is refused for one of these reasons."""
    try:
        yield
    except UserError as error:
        assert is_refusal(error, *titles), f"{error.title}: {error}"
