"""Checks of the arguments of public functions against their annotations: a wrong argument raises an error in a
sentence."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from dpviz.errors import UserError, did_you_mean, value_in_words, with_article

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


class Between(NamedTuple):
    """Range of a number, for an annotation such as `Annotated[float, Between(0, 1)]`.

    ends : True if `low` and `high` belong to the range.
    """

    low: float
    high: float
    ends: bool = False

    @property
    def words(self) -> str:
        """The range in words: "between 0 and 1, both excluded"."""
        if self.high == math.inf:
            return f"{'of at least' if self.ends else 'above'} {self.low:,}"
        words = f"between {self.low:,} and {self.high:,}"
        return words if self.ends else f"{words}, both excluded"

    def holds(self, value: float) -> bool:
        """Return whether a number is in the range."""
        return self.low <= value <= self.high if self.ends else self.low < value < self.high


_PLURALS = {
    "a finite number": "finite numbers",
    "a whole number": "whole numbers",
    "a text": "texts",
    "a text or a finite number": "texts or finite numbers",
}
Delta = Annotated[float, Between(0, 1)]
Positive = Annotated[float, Between(0, math.inf)]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check: it raises UserError for an argument that does not match its annotation, has
    another name, or is missing.

    Numbers must be finite, a bool is no number, and every item of a collection is checked. A default is not checked. An
    array, or another object with `tolist` such as a pandas Index, may take the place of a list.
    """
    signature = inspect.signature(function)
    hints_by_name: dict[str, Any] = {}

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        # Annotations are read at the first call, when all names of the module are defined. A function without any gets
        # an entry, too: an empty dictionary means that they have not been read.
        if not hints_by_name:
            hints_by_name.update(get_type_hints(function, include_extras=True) or {"return": None})
        for name in named:
            if name not in signature.parameters:
                check_one_of(name, [other for other in signature.parameters if other != "self"], "argument")
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise UserError(f"{function.__name__}: {error}.", title="These arguments do not fit") from None
        for name, value in bound.arguments.items():
            if name in hints_by_name and value is not signature.parameters[name].default:
                hint = hints_by_name[name]
                if hasattr(value, "tolist") and not _fits(value, hint) and _fits(value.tolist(), hint):
                    bound.arguments[name] = value = value.tolist()
                _check(name, value, hint)
        return function(*bound.args, **bound.kwargs)

    return call


def check_fields(instance: Any) -> None:
    """Raise UserError if a field of a dataclass does not match its annotation; to be called in its `__post_init__`."""
    for name, hint in get_type_hints(type(instance), include_extras=True).items():
        _check(name, getattr(instance, name), hint)


def _check(name: str, value: Any, hint: Any) -> None:
    """Raise UserError if the value of the argument or field `name` does not match its annotation `hint`."""
    if _fits(value, hint):
        return
    given = value_in_words(value)
    if isinstance(value, Mapping) and _fits({}, hint):  # a mapping is allowed: name the first entry that is wrong
        for key, item in value.items():
            if not _fits({key: item}, hint):
                given += f" in which {value_in_words(key)} is {value_in_words(item)}"
                break
    raise UserError(f"`{name}` must be {_in_words(hint)}, not {given}.", title=f"`{name}` is something else")


class ByName(dict[str, V]):
    """A dictionary of which a missing name is answered with the names that there are, by a UserError.

    noun : what the names are of, as in `check_one_of`.
    """

    def __init__(self, values: Mapping[str, V], noun: str) -> None:
        super().__init__(values)
        self.noun = noun

    def __missing__(self, name: str) -> V:
        check_one_of(name, self, self.noun)
        raise KeyError(name)  # never reached, as the name is missing; the type checker needs it


def check_one_of(name: str, names: Iterable[str], noun: str) -> None:
    """Raise UserError, with the list of `names`, unless `name` is one of them.

    noun : what the names are of, such as "method" or "metric", for the error's sentence.
    """
    listed = list(names)
    if name not in listed:
        there_are = f"There are: {', '.join(listed) or 'none'}."
        raise UserError(
            f"There is no {noun} {name!r} here.{did_you_mean(name, listed)} {there_are}", title="Unknown name"
        )


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value matches an annotation.

    The annotation may be a class, a type Annotated with `Between`, a union, a Literal of texts, a mapping, or a
    collection, all of whose items are checked against the first type that it names. Every value matches any other
    annotation.
    """
    origin, parts = get_origin(hint), get_args(hint)
    kind = origin or hint
    if origin is Annotated:
        annotated, *marks = parts
        return _fits(value, annotated) and all(mark.holds(value) for mark in marks if isinstance(mark, Between))
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        is_number = isinstance(value, int | np.integer | float | np.floating) and not isinstance(value, bool)
        return is_number and _finite(value)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is Any or not isinstance(kind, type):  # any value, or one of a type variable
        return True
    if getattr(kind, "_is_protocol", False):  # most protocols cannot be checked at run time
        return True
    accepted = (tuple, list) if kind is tuple else kind  # JSON has lists alone
    if not isinstance(value, accepted):
        return False
    if kind is type and isinstance(value, type) and parts:
        return issubclass(value, get_origin(parts[0]) or parts[0])
    # Nothing else to check: there are no items, or the annotation does not name their type. The parts of an array's
    # annotation name its shape and its dtype.
    if not parts or kind is np.ndarray or not issubclass(kind, Iterable):
        return True
    if isinstance(value, str | bytes):  # no annotation means a text as a sequence of characters
        return False
    if kind is tuple and isinstance(value, tuple | list) and Ellipsis not in parts and len(value) != len(parts):
        return False
    # For a mapping its keys and its values, which the two parts of the annotation describe; else the items, which the
    # first part describes (`strict=False`: that of a tuple has a second one, such as Ellipsis).
    groups: list[Any] = [value.keys(), value.values()] if isinstance(value, Mapping) else [value]
    for part, items in zip(parts, groups, strict=False):
        distinct = {id(item): item for item in items}  # each object is checked once: a schedule often repeats a few
        if not all(_fits(item, part) for item in distinct.values()):
            return False
    return True


def _finite(value: Any) -> bool:
    """Return whether a number is finite; a whole number beyond the range of floats is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


@cache
def _in_words(hint: Any) -> str:
    """Return an annotation in words: "a finite number between 0 and 1, both excluded"."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:  # a type and its range, a `Between`
        return f"{_in_words(parts[0])} {parts[1].words}"
    if hint is None or hint is type(None):
        return "None"
    if origin is Literal:
        return f"one of {', '.join(map(repr, parts))}" if len(parts) > 1 else repr(parts[0])
    if origin in (Union, UnionType):
        # Of more than four classes of a module only the module is named, as all names would make a long sentence.
        modules = [getattr(part, "__module__", "") for part in parts]
        crowded_modules = {module for module in modules if modules.count(module) > 4}
        words = [
            f"an object of {module}" if module in crowded_modules else _in_words(part)
            for part, module in zip(parts, modules, strict=True)
        ]
        *others, last = dict.fromkeys(words)  # each once
        return f"{', '.join(others)} or {last}" if others else last
    if origin is type:
        return f"a class of {getattr(get_origin(parts[0]) or parts[0], '__name__', 'any kind')}"
    if origin is not None and origin is not np.ndarray:
        items = [_in_words(part) for part in parts if part is not Ellipsis]
        if len(set(items)) == 1 and items[0] in _PLURALS:  # a pair, or any number
            plural = _PLURALS[items[0]]
            items = [f"two {plural}" if len(items) == 2 else plural]
        joined = " to ".join(items) if issubclass(origin, Mapping) else ", ".join(items)
        return f"a {origin.__name__.lower()} of {joined}" if items else f"a {origin.__name__.lower()}"
    texts = {float: "a finite number", int: "a whole number", bool: "True or False", str: "a text", bytes: "bytes"}
    texts |= {Any: "anything", np.ndarray: "an array"}
    name = getattr(origin or hint, "__name__", str(hint))
    return texts.get(origin or hint) or with_article(name)
