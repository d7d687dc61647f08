"""Arguments of what others call, checked against their annotations: a wrong one is a sentence, and never does something
else than it says."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from dpviz.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


class Between(NamedTuple):
    """Where a number has to lie, in an annotation: `Annotated[float, Between(0, 1)]`. ends : whether they count."""

    low: float
    high: float
    ends: bool = False

    @property
    def words(self) -> str:
        """The range in words."""
        if self.high == math.inf:
            return f"{'of at least' if self.ends else 'above'} {self.low:,}"
        return f"between {self.low:,} and {self.high:,}" + ", both excluded" * (not self.ends)

    def holds(self, value: float) -> bool:
        """Whether a number lies there."""
        return self.low <= value <= self.high if self.ends else self.low < value < self.high


Delta = Annotated[float, Between(0, 1)]
Positive = Annotated[float, Between(0, math.inf)]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise UserError for an argument that is not what its annotation says.

    Numbers have to be finite, truths are no numbers, and of a collection every item is looked at. A default is taken as
    it is.
    """
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        if not hints:  # later than the module's own names
            hints.update(get_type_hints(function, include_extras=True) or {"return": None})
        for name, value in signature.bind(*arguments, **named).arguments.items():
            if name in hints and value is not signature.parameters[name].default:
                _check(name, value, hints[name])
        return function(*arguments, **named)

    return call


def check_fields(instance: Any) -> None:
    """Raise UserError for a field of a dataclass that is not what its annotation says; for `__post_init__`."""
    for name, hint in get_type_hints(type(instance), include_extras=True).items():
        _check(name, getattr(instance, name), hint)


def _check(name: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        raise UserError(f"`{name}` must be {_named(hint)}, not {_shown(value)}.", title=f"`{name}` is something else")


def one_of(name: str, known: Iterable[str], what: str) -> None:
    """Raise UserError, listing what there is, unless a name is known. what : it is the name of."""
    names = list(known)
    if name not in names:
        raise UserError(
            f"There is no {what} {name!r} here. There are: {', '.join(names) or 'none'}.", title="Unknown name"
        )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says."""
    origin, parts = get_origin(hint), get_args(hint)
    kind = origin or hint
    if origin is Annotated:
        return _fits(value, parts[0]) and all(mark.holds(value) for mark in parts[1:] if isinstance(mark, Between))
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if kind in (float, int):
        numbers = (int, np.integer) if kind is int else (int, np.integer, float, np.floating)
        return isinstance(value, numbers) and not isinstance(value, bool) and (kind is int or _finite(value))
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):  # a type variable, a shape
        return True
    if not isinstance(value, kind) or kind in (type, np.ndarray) or not parts or not issubclass(kind, Iterable):
        return isinstance(value, kind)
    if isinstance(value, str | bytes):  # a sequence of letters is meant nowhere
        return False
    items: Any = zip(*value.items(), strict=True) if isinstance(value, Mapping) else [value]
    # A schedule repeats few objects very often.
    different = ((part, {id(item): item for item in some}.values()) for part, some in zip(parts, items, strict=False))
    return all(_fits(item, part) for part, some in different for item in some)


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond float64
        return False


@cache
def _named(hint: Any) -> str:
    """What an annotation asks for, in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"{_named(parts[0])} {parts[1].words}"
    if hint is None or hint is type(None):
        return "None"
    if origin is Literal:
        return f"one of {', '.join(map(repr, parts))}" if len(parts) > 1 else repr(parts[0])
    if origin in (Union, UnionType):
        modules = [getattr(part, "__module__", "") for part in parts]
        many = {module for module in modules if modules.count(module) > 4}
        *first, last = dict.fromkeys(
            f"an object of {module}" if module in many else _named(part)
            for part, module in zip(parts, modules, strict=True)
        )
        return f"{', '.join(first)} or {last}" if first else last
    if origin is type:
        return f"a class of {getattr(get_origin(parts[0]) or parts[0], '__name__', 'any kind')}"
    if origin is not None and origin is not np.ndarray:
        items = ", each ".join(_named(part) for part in parts if part is not Ellipsis)
        return f"a {origin.__name__.lower()} ({items})" if items else f"a {origin.__name__.lower()}"
    words = {float: "a finite number", int: "a whole number", bool: "True or False", str: "a text", bytes: "bytes"}
    name = getattr(origin or hint, "__name__", str(hint))
    return words.get(hint) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, str | float | int) and not (_large(value))):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _large(value: str | float | int) -> bool:
    return value.bit_length() > 60 if isinstance(value, int) else len(str(value)) > 40
