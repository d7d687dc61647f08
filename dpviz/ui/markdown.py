"""Texts of files, links and visitors in Markdown, in which they are what they say and nothing else."""

import re

_ADDRESSES = re.compile(r"(?<=\w)(?=\.[^\W\d])|(?<=//)(?=\d)")  # the first dot of a host, or its first number
_LINKED = re.compile(r"www\.|@|//", re.IGNORECASE)  # without any of these nothing becomes a link
_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")  # before any other letter a backslash would be seen
_MARKS = re.compile(r"([\\`*_\[\]<>$~#|!]|:(?=\S))")
_JOINER = "\u2060"  # has no width


def plain(text: str) -> str:
    """A name as it is: no emphasis, formula, picture, emoji or link."""
    return _SIGNS.sub(r"\\\1", _unlinked(text))


def sentence(text: str) -> str:
    """The same for a sentence, in which quotes, and colons before a blank, mean nothing."""
    return _MARKS.sub(r"\\\1", _unlinked(text))


def _unlinked(text: str) -> str:
    """Without what becomes a link by itself, escaped or not; on one line."""
    text = " ".join(text.split())
    return _ADDRESSES.sub(_JOINER, text) if _LINKED.search(text) else text
