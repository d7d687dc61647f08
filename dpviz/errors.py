"""Errors that a user can cause and correct, and the parts of their sentences."""

import difflib
from collections.abc import Iterable
from typing import Any

_USUAL_TITLE = "Please check your settings"


class UserError(ValueError):
    """A mistake that the user can correct: shown as a sentence where it was made, never as a traceback.

    Parameters
    ----------
    message : str
        The mistake and its remedy, in full sentences.
    title : str
        The mistake in a few words; the heading above the message.

    >>> import dpviz
    >>> try:
    ...     dpviz.PureDP(epsilon=-1)
    ... except dpviz.UserError as error:
    ...     print(error.title)
    Please check your settings
    """

    def __init__(self, message: str, *, title: str = _USUAL_TITLE) -> None:
        super().__init__(message)
        self.title = title
        if title != _USUAL_TITLE:
            self.add_note(f"{title}.")  # which a traceback shows below the message

    @property
    def sentence(self) -> str:
        """The title, unless it is the usual one, and the message."""
        return str(self) if self.title == _USUAL_TITLE else f"{self.title}. {self}"


class MissingInput(UserError):
    """An input is still missing: the message is shown as the next thing to do, not as a mistake."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" with the most similar of the names; "" if none is similar."""
    close = difflib.get_close_matches(str(name), list(names), 1)
    return f" Did you mean {close[0]!r}?" if close else ""


def with_article(name: str) -> str:
    """Return the name of a class with its article: "an Arm"."""
    return f"{'an' if name.startswith((*'aeioAEIO', 'Up')) else 'a'} {name}"  # "an Upload"; any other u is as in "user"


def value_in_words(value: Any) -> str:
    """Return a wrong value in words: itself if it is short, as (0, 1) is, else its type: "a DataFrame"."""
    is_short_list = type(value) in (list, tuple) and 0 < len(value) <= 3
    items = value if is_short_list else [value]
    if all(item is None or (isinstance(item, str | float | int) and not is_large(item)) for item in items):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str):
        return f"a text of {len(value):,} letters"
    name = type(value).__name__.removeprefix("nd")  # an ndarray is an array
    is_empty = isinstance(value, list | tuple | dict) and not value
    return f"an empty {name}" if is_empty else with_article(name)


def is_large(value: str | float | int) -> bool:
    """Return whether a value is too long to be written out in an error: more than about 18 digits, or 40 characters."""
    if isinstance(value, int):
        return value.bit_length() > 60  # to write a very large number takes long
    return len(str(value)) > 40
