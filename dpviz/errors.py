"""Errors that a user can cause and correct."""


class UserError(ValueError):
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
    """An input is still missing: the message is shown as the next thing to do, not as a mistake."""
