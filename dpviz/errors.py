"""Errors that a user can cause and mend."""


class UserError(Exception):
    """A mistake that the user can mend: shown as a sentence at its place, never as a traceback.

    Parameters
    ----------
    message : str
        What is wrong and what to do about it, in full sentences.
    title : str
        What happened, in a few words; the heading above the message.
    """

    def __init__(self, message: str, *, title: str = "Please check your settings") -> None:
        super().__init__(message)
        self.title = title


class NotYet(UserError):
    """Something that the user has not said yet: shown as the next thing to do, not as a mistake."""
