"""Texts in an address: packed, and unpacked with care, as anybody may have written them."""

import base64
import zlib

from dpviz.errors import UserError

MOST_PACKED, MOST_TEXT = 16_000, 64_000  # characters that are looked at, bytes that may come of them


def pack(text: str) -> str:
    """A text in letters, digits, "-" and "_": compressed, as addresses take it."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def unpack(packed: str) -> str:
    """The text again. Raises UserError for what is no such text, or too long."""
    if len(packed) > MOST_PACKED:
        raise UserError("It is longer than what this page writes. Ask for a new link.", title="Link not read")
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(base64.b64decode(packed + "=" * (-len(packed) % 4), b"-_", validate=True), MOST_TEXT)
        if stream.eof and not stream.unused_data:
            return found.decode()
    except (ValueError, zlib.error):
        pass
    raise UserError("Part of it is missing or changed. Copy all of the link.", title="Link not read")
