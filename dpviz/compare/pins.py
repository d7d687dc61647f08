"""Pins: settings with a name, kept to compare their runs with later ones; and their texts in links and files."""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.specification import each_once
from dpviz.version import VERSION

MAX_PACKED, MAX_TEXT = 16_000, 64_000  # largest link that is unpacked, in characters; largest text in it, in bytes
MAX_PINS = 3  # largest number of pins of a page
MAX_NAME = 30  # characters of a name
MAX_PINS_IN_FILE = 15  # largest number of pins in a file
MAX_FILE_BYTES = MAX_PINS_IN_FILE * MAX_TEXT  # bytes of a file
FORMAT = "dpviz pins"
# The `kind` of settings names the module that defines them. Only kinds with these prefixes are read from a text, so
# that a stranger's text makes no other module be imported.
_KIND_PREFIXES = ("datasets.", "experiments.experiment.", "families.", "privacy.", "problems.")
_MARKUP = re.compile(r"[<>&\[\]$`\\|]")  # characters with a meaning in the languages of pages and charts


@dataclass(frozen=True)
class Pin:
    """An experiment with a name."""

    name: str
    experiment: Experiment

    @property
    def travels(self) -> bool:
        """True if links and files may hold it: not if it concerns a visitor's file."""
        return self.experiment.problem.public

    def to_link(self) -> str:
        """Return the pin as a text for an address, which `pin_from_link` reads."""
        return compress(json.dumps(_to_json_dict(self), separators=(",", ":"), ensure_ascii=False))


def clean(name: str) -> str:
    """Return a name as charts and texts may show it: one line without markup, of at most MAX_NAME characters."""
    return _without_markup(name)[:MAX_NAME].rstrip()


def _without_markup(name: str) -> str:
    printable = "".join(character for character in _MARKUP.sub("", name) if character.isprintable())
    return " ".join(printable.split())


def pin_from_link(packed: str) -> Pin:
    """Return the pin that `Pin.to_link` wrote. Raises UserError for any other text."""
    return _pin(_parse(decompress(packed)))


def join_links(packed: Sequence[str]) -> str:
    """Return a single text for an address from the texts of several pins, as `Pin.to_link` wrote them.

    It is shorter than these texts together, since the parts that they have in common are compressed.
    """
    return compress(f"[{','.join(map(decompress, packed))}]")


def pins_from_link(packed: str) -> tuple[Pin, ...]:
    """Return the pins in a text that `join_links` wrote. Raises UserError for any other text."""
    return _pins(_parse(decompress(packed)), "It holds no pins. Copy all of the link.")


def to_file(pins: Sequence[Pin]) -> str:
    """Return pins as the text of a file; a pin that concerns a visitor's own file is left out."""
    parts = [_to_json_dict(pin) for pin in pins if pin.travels]
    return json.dumps({"format": FORMAT, "version": VERSION, "pins": parts}, indent=2, ensure_ascii=False)


def from_file(content: bytes) -> tuple[Pin, ...]:
    """Return the pins of a file that `to_file` wrote. Raises UserError if it holds anything else."""
    if len(content) > MAX_FILE_BYTES:
        raise UserError(
            f"It is larger than {MAX_FILE_BYTES / 1e3:.0f} kB, which no file of pins is.", title="File not read"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("It is no text. Choose a file that “Pins (JSON)” has made.", title="File not read") from None
    document = _parse(text)
    parts = document.get("pins") if isinstance(document, Mapping) and document.get("format") == FORMAT else None
    return _pins(parts, "It holds no pins. Choose a file that “Pins (JSON)” has made.")


def _to_json_dict(pin: Pin) -> dict[str, Any]:
    return {"name": pin.name, "experiment": json.loads(pin.experiment.to_json())}


def _pins(parts: Any, error: str) -> tuple[Pin, ...]:
    """Return the pins of parsed JSON, a list. Raises UserError, with the sentence `error` if it is no list or empty."""
    if not isinstance(parts, list) or not parts:
        raise UserError(error, title="Pins not read")
    if len(parts) > MAX_PINS_IN_FILE:
        raise UserError(f"It holds {len(parts)} pins; no more than {MAX_PINS_IN_FILE} are read.", title="Pins not read")
    return tuple(map(_pin, parts))


def _parse(text: str) -> Any:
    """Parse a text as JSON. Raises UserError if it is not valid."""
    try:
        return json.loads(text, object_pairs_hook=each_once)  # raises UserError where a key occurs twice
    except UserError:  # it is a ValueError, too
        raise
    except (ValueError, RecursionError):
        raise UserError("What it holds is not valid JSON.", title="Pin not read") from None


def _pin(part: Any) -> Pin:
    """Return a pin from parsed JSON. Raises UserError for anything that is no pin, or may not be shown."""
    expected = {"name": str, "experiment": dict}
    if not isinstance(part, Mapping) or {key: type(value) for key, value in part.items()} != expected:
        raise UserError("A pin has a name and an experiment, and nothing else.", title="Pin not read")
    if not all(isinstance(kind, str) and kind.startswith(_KIND_PREFIXES) for kind in _kinds(part["experiment"])):
        raise UserError("It names a kind of setting that does not exist here.", title="Pin not read")
    experiment = Experiment.from_json(json.dumps(part["experiment"]))
    experiment.check_ranges()
    if not experiment.problem.public:
        raise UserError("It is of somebody's own file, whose pins are never in links or files.", title="Pin not read")
    if any(_without_markup(arm.label) != arm.label for arm in experiment.arms):
        raise UserError("A method has a name that cannot be shown.", title="Pin not read")
    return Pin(clean(part["name"]) or "Pin", experiment)


def _kinds(tree: Any) -> Iterator[Any]:
    """Yield the values of all keys "kind" in parsed JSON, at any depth."""
    remaining = [tree]
    while remaining:
        part = remaining.pop()
        if isinstance(part, Mapping):
            if "kind" in part:
                yield part["kind"]
            remaining += part.values()
        elif isinstance(part, list):
            remaining += part


def compress(text: str) -> str:
    """Return a text compressed for an address, in letters, digits, "-" and "_"."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), level=9)).decode().rstrip("=")


def decompress(packed: str) -> str:
    """Return the text that `compress` compressed. Raises UserError for any other text, and for one that is too long."""
    if len(packed) > MAX_PACKED:
        raise UserError("It is longer than what this page writes. Ask for a new link.", title="Link not read")
    try:
        padding = "=" * (-len(packed) % 4)  # up to a multiple of four characters; `compress` leaves it out
        compressed = base64.b64decode(packed + padding, altchars=b"-_", validate=True)
        stream = zlib.decompressobj()
        text = stream.decompress(compressed, max_length=MAX_TEXT)
        if stream.eof and not stream.unused_data:  # all of the text, and nothing behind it
            return text.decode()
    except (ValueError, zlib.error):
        pass
    raise UserError("Part of it is missing or changed. Copy all of the link.", title="Link not read")
