"""Errors that a user can cause and correct."""

from dpviz import resources


class UserError(Exception):
    """A mistake that the user can correct: shown as a sentence where it was made, never as a traceback.

    Parameters
    ----------
    message : str
        The mistake and its remedy, in full sentences.
    title : str
        The mistake in a few words; the heading above the message.
    """

    def __init__(self, message: str, *, title: str = "Please check your settings") -> None:
        super().__init__(message)
        self.title = title


class NotYet(UserError):
    """A missing input: shown as the next thing to do, not as a mistake."""


def refusal(package: str, name: str, /, **values: object) -> UserError:
    """Return the error `name` from the package's `errors.toml`, with these values in its texts."""
    texts = resources.data(package, "errors.toml")[name]
    kind = NotYet if texts.get("not_yet") else UserError
    return kind(texts["message"].format(**values), title=texts["title"].format(**values))
