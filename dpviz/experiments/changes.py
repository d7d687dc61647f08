"""What two specifications differ in: setting by setting, in the words of their declared controls."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpviz.numbers import short
from dpviz.specification import Control, Specification, address_text


@dataclass(frozen=True)
class Change:
    """A setting with two values.

    path : its address in the JSON, "arms.0.algorithm.iterations". control : as it is declared; None
    for what is no single setting, such as another kind of problem.
    """

    path: str
    control: Control | None
    before: Any
    after: Any

    @property
    def title(self) -> str:
        """The setting in words, with its symbol."""
        name = self.path.rpartition(".")[2].replace("_", " ")
        return name.capitalize() if self.control is None else self.control.title

    @property
    def texts(self) -> tuple[str, str]:
        """Both values as a reader sees them."""
        return self._text(self.before), self._text(self.after)

    @property
    def names(self) -> tuple[str, str]:
        """What a line of a chart is called on either side: "T = 20", or the chosen words."""
        symbol = "" if self.control is None or self.control.options else self.control.symbol
        before, after = (f"{symbol} = {text}" if symbol else text for text in self.texts)
        return before, after

    def _text(self, value: Any) -> str:
        if self.control is not None and self.control.options:
            return self.control.options[value]
        if self.control is not None and self.control.count:
            return address_text(value)
        if isinstance(value, Specification):
            return value.kind.rpartition(".")[2].replace("_", " ")
        if isinstance(value, bool) or value is None:
            return {True: "on", False: "off", None: "by theory"}[value]
        return short(value) if isinstance(value, int | float) else str(value)


def changes(before: Specification, after: Specification, path: str = "") -> Iterator[Change]:
    """What differs between two specifications, in the order of their fields; paths begin with `path`."""
    if type(before) is not type(after):
        yield Change(path, None, before, after)
        return
    declared = {control.name: control for control in type(before).controls()}
    for name in type(before).model_fields:
        address = f"{path}.{name}".removeprefix(".")
        yield from _differing(getattr(before, name), getattr(after, name), address, declared.get(name))


def _differing(before: Any, after: Any, path: str, control: Control | None) -> Iterator[Change]:
    if isinstance(before, Specification) and isinstance(after, Specification):
        yield from changes(before, after, path)
    elif _are_parts(before) and _are_parts(after) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changes(one, other, f"{path}.{place}")
    elif before != after:
        yield Change(path, control, before, after)


def _are_parts(value: Any) -> bool:
    """Several specifications; several numbers or names are one setting."""
    return isinstance(value, tuple) and all(isinstance(item, Specification) for item in value)
