"""Pins: runs that are kept beside the next ones, as settings with a name; how they travel in a link and in a file."""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dpviz
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment

MOST_PACKED, MOST_TEXT = 16_000, 64_000  # characters of a link that are looked at, bytes that may come of them
MOST = 3  # pins of a page
MOST_NAME = 30  # characters
MOST_IN_ALL = 15  # in a file
MOST_FILE = MOST_IN_ALL * MOST_TEXT  # bytes
FORMAT = "dpviz pins"
# Where the settings of an experiment are declared: nothing else is imported for a text that somebody else wrote.
_ROOMS = ("datasets.", "experiments.experiment.", "families.", "privacy.", "problems.")
_MARKUP = re.compile(r"[<>&\[\]$`\\|]")  # of the languages that pages and charts are written in


@dataclass(frozen=True)
class Pin:
    """An experiment with a name."""

    name: str
    experiment: Experiment

    @property
    def travels(self) -> bool:
        """Whether links and files may hold it: nothing that is about a visitor's own file."""
        return self.experiment.problem.public

    def to_link(self) -> str:
        """As addresses hold it."""
        return pack(json.dumps(_written(self), separators=(",", ":"), ensure_ascii=False))


def clean(name: str) -> str:
    """A name as it may stand in charts and texts: one line, without markup, and not long."""
    return _without_markup(name)[:MOST_NAME]


def _without_markup(name: str) -> str:
    kept = "".join(letter for letter in _MARKUP.sub("", name) if letter.isprintable())
    return " ".join(kept.split())


def from_link(packed: str) -> Pin:
    """The pin of an address. Raises UserError, in a sentence, for anything else."""
    return _read(_parsed(unpack(packed)))


def together(packed: Sequence[str]) -> str:
    """Pins of addresses as one, for another address: what they have in common is said once."""
    return pack(f"[{','.join(map(unpack, packed))}]")


def from_together(packed: str) -> tuple[Pin, ...]:
    """The pins again. Raises UserError, in a sentence, for anything else."""
    return _several(_parsed(unpack(packed)), "It holds no pins. Copy all of the link.")


def to_file(pins: Sequence[Pin]) -> str:
    """Pins as the text of a file; those that may not travel are left out."""
    written = [_written(pin) for pin in pins if pin.travels]
    return json.dumps({"format": FORMAT, "version": dpviz.__version__, "pins": written}, indent=2, ensure_ascii=False)


def from_file(content: bytes) -> tuple[Pin, ...]:
    """The pins of a file. Raises UserError, in a sentence, if it holds anything else."""
    if len(content) > MOST_FILE:
        raise UserError(f"It is larger than {MOST_FILE / 1e3:.0f} kB, which no file of pins is.", title="File not read")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("It is no text. Choose a file that “Pins (JSON)” has made.", title="File not read") from None
    whole = _parsed(text)
    found = whole.get("pins") if isinstance(whole, Mapping) and whole.get("format") == FORMAT else None
    return _several(found, "It holds no pins. Choose a file that “Pins (JSON)” has made.")


def _written(pin: Pin) -> dict[str, Any]:
    return {"name": pin.name, "experiment": json.loads(pin.experiment.to_json())}


def _several(found: Any, otherwise: str) -> tuple[Pin, ...]:
    if not isinstance(found, list) or not found:
        raise UserError(otherwise, title="Pins not read")
    if len(found) > MOST_IN_ALL:
        raise UserError(f"It holds {len(found)} pins; no more than {MOST_IN_ALL} are read.", title="Pins not read")
    return tuple(map(_read, found))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("What it holds is not valid JSON.", title="Pin not read") from None


def _read(part: Any) -> Pin:
    expected = {"name": str, "experiment": dict}
    if not isinstance(part, Mapping) or {key: type(value) for key, value in part.items()} != expected:
        raise UserError("A pin has a name and an experiment, and nothing else.", title="Pin not read")
    if not all(isinstance(kind, str) and kind.startswith(_ROOMS) for kind in _kinds(part["experiment"])):
        raise UserError("It names a kind of setting that does not exist here.", title="Pin not read")
    experiment = Experiment.from_json(json.dumps(part["experiment"]))
    if not experiment.problem.public:
        raise UserError("It is of somebody's own file, whose pins are never in links or files.", title="Pin not read")
    if any(_without_markup(arm.label) != arm.label for arm in experiment.arms):
        raise UserError("A method has a name that cannot be shown.", title="Pin not read")
    return Pin(clean(part["name"]) or "Pin", experiment)


def _kinds(tree: Any) -> Iterator[Any]:
    """All kinds that a tree names, however deep it is."""
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            yield from (part[key] for key in part if key == "kind")
            left += part.values()
        elif isinstance(part, list):
            left += part


def pack(text: str) -> str:
    """A text for an address, in letters, digits, "-" and "_": compressed, as addresses take it."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def unpack(packed: str) -> str:
    """The text again. Raises UserError for what is no such text, or too long."""
    if len(packed) > MOST_PACKED:
        raise UserError("It is longer than what this page writes. Ask for a new link.", title="Link not read")
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(base64.b64decode(packed + "=" * (-len(packed) % 4), b"-_", validate=True), MOST_TEXT)
        if stream.eof and not stream.unused_data:
            return text.decode()
    except (ValueError, zlib.error):
        pass
    raise UserError("Part of it is missing or changed. Copy all of the link.", title="Link not read")
