"""Specifications: everything that a user can set, declared once.

A field's range and its limits are declared at the field. The range is what a page's slider offers, the limits are where
the formula or the memory ends: validation in the library holds the limits, `check_ranges`, for pages, the range.
"""

import hashlib
import importlib
import importlib.metadata
import inspect
import json
import math
import os
import re
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from dpviz.errors import UserError, did_you_mean, is_large, value_in_words, with_article
from dpviz.numbers import short

Scale = Literal["linear", "log"]
_WORDS = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")  # a kind: words with dots between them
# Modules in `dpviz`, with the first two words of the kinds that they register. Kinds of a family, which begin with
# "families.<name>", are registered by the package of that name.
_REGISTERED_BY = {
    "datasets": (
        "datasets.bundled datasets.categories datasets.covertype datasets.games datasets.groups datasets.reading "
        "datasets.synthetic datasets.tuning datasets.upload datasets.users"
    ),
    "execution.auditing": "experiments.auditing",
    "experiments.experiment": "experiments.experiment",
    "lessons.lesson": "experiments.budget_lessons",
    "privacy.budgets": "privacy.budgets",
    "privacy.statistics.allocation": "privacy.allocation",
    "privacy.statistics.analyses": "privacy.analyses",
    "privacy.statistics.noisy_means": "privacy.noisy_means",
    "problems.games.group_loss": "problems.group_loss",
    "problems.games.marginals": "problems.marginals",
    "problems.games.matrix_games": "problems.matrix_games",
    "problems.games.quadratic_games": "problems.quadratic_games",
    "problems.games.simplex_learning": "problems.simplex_learning",
    "problems.linear.linear_models": "problems.linear_models problems.regression",
    "problems.linear.quadratic": "problems.quadratic",
    "problems.nonconvex": "problems.nonconvex",
    "problems.tuning.model_tuning": "problems.direct_tuning problems.model_tuning",
    "problems.values.black_box": "problems.black_box",
    "sweeps.sweep": "experiments.sweep",
}
_kinds: dict[str, "type[Specification]"] = {}  # the registered classes, by kind


@dataclass(frozen=True)
class Control:
    """The declaration of a field that a user can set, for widgets and texts: name, label, help, type and range.

    low, high : the range of a number on pages. limits : the range in the library, which includes that of pages.
    """

    name: str
    label: str
    help: str
    default: Any
    type: type  # int, float, bool, str (a choice) or tuple (several numbers)
    low: float | None = None
    high: float | None = None
    symbol: str = ""
    unit: str = ""
    scale: Scale = "linear"
    options: Mapping[str, str] | None = None  # value -> label, of a choice
    optional: bool = False  # None means "chosen by theory"
    count: int = 0  # of its numbers, where it holds several: each in the range `each`
    each: tuple[float, float] = (0.0, 0.0)
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def title(self) -> str:
        """The label of the field on the screen, with symbol and unit: "Steps T"."""
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.label} {self.symbol}".rstrip() + unit

    @property
    def described(self) -> str:
        """A paragraph for Python's `help`: name, type with range or options, default, label and help text."""
        kind = self.type.__name__
        if self.options:
            kind = " or ".join(repr(option) for option in self.options)
        elif self.count:
            low, high = self.each
            kind = f"{self.count} floats in [{short(low, 6)}, {short(high, 6)}]"
        elif self.low is not None and self.high is not None:
            kind += f" in [{short(self.limits[0], 6)}, {short(self.limits[1], 6)}]"
        kind += " or None (by theory)" if self.optional else ""
        return f"{self.name} : {kind}, default {self.default!r}. {self.title}. {self.help}"


def number(
    default: float | None,
    low: float,
    high: float,
    *,
    label: str,
    help: str,
    symbol: str = "",
    unit: str = "",
    scale: Scale = "linear",
    limits: tuple[float, float] | None = None,
) -> Any:
    """Declare a numeric field whose slider, with the scale `scale`, goes from `low` to `high`.

    limits : the smallest and the largest value that the library takes; by default `low` and `high` on a linear scale.
        On a logarithmic one they are a million times beyond, up to 10⁹; but a share, whose `high` is at most 1, gets no
        larger, and a count, whose `high` is an int, no smaller and only a thousand times larger.
    """
    if limits is None:
        limits = (low, high)
        if scale == "log":
            is_count, is_share = isinstance(high, int), high <= 1
            factor = 1000 if is_count else 1e6
            highest = high if is_share else min(high * factor, 10**9)
            limits = (low if is_count else low / factor, highest)
    extra: Any = {"symbol": symbol, "unit": unit, "scale": scale, "low": low, "high": high}
    return Field(default, ge=limits[0], le=limits[1], title=label, description=help, json_schema_extra=extra)


def numbers(default: tuple[float, ...], *, label: str, help: str) -> Any:
    """Declare a field that is a tuple of as many numbers as `default` has.

    Its annotation must give each number a range: `tuple[Annotated[float, Field(ge=…, le=…)], ...]`.
    """
    count = len(default)
    extra: Any = {"count": count}
    return Field(default, min_length=count, max_length=count, title=label, description=help, json_schema_extra=extra)


def choice(default: str, options: Mapping[str, str], *, label: str, help: str) -> Any:
    """Declare a field (annotated with a Literal) that takes one of `options`, a mapping of value to visible label."""
    extra: Any = {"options": dict(options)}
    return Field(default, title=label, description=help, json_schema_extra=extra)


def switch(default: bool, *, label: str, help: str) -> Any:
    """Declare an on/off field; the label says what "on" means."""
    return Field(default, title=label, description=help)


class Specification(BaseModel):
    """Base class of everything that a user can set: immutable, validated, and written as a canonical JSON text.

    A subclass that sets `kind` is registered under this name, which files, links and random streams use. The first two
    words of a kind determine the module that registers it: `families.accelerated.heavy_ball` is registered by the
    package `dpviz.families.accelerated`. The declared controls are added to the subclass's docstring as parameters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    kind: ClassVar[str] = ""
    short_forms: ClassVar[Mapping[str, str]] = {}  # names that a constructor takes, each with the field it replaces

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register a subclass that sets `kind`, and complete its docstring; pydantic calls this for each subclass."""
        kind = cls.__dict__.get("kind")
        if not kind:
            return
        if not _WORDS.fullmatch(kind):
            raise ValueError(f"{kind!r} is not a name like 'families.accelerated.heavy_ball'")
        # The class of the same name may be registered already, if its module is loaded anew: the new one replaces it.
        other = _kinds.setdefault(kind, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"two classes have the kind {kind!r}: {other.__qualname__} and {cls.__qualname__}")
        _kinds[kind] = cls
        paragraphs = [
            textwrap.fill(control.described, 110, subsequent_indent="    ", break_on_hyphens=False)
            for control in cls.controls()
        ]
        first_word, name, *_ = kind.split(".")
        documents = {"families": f"`dpviz/families/{name}/THEORY.md`.", "privacy": "`dpviz/privacy/THEORY.md`."}
        parts = {"Parameters": "\n".join(paragraphs), "Raises": _RAISES, "Source": documents.get(first_word, "")}
        sections = (f"{title}\n{'-' * len(title)}\n{text}\n" for title, text in parts.items() if text)
        cls.__doc__ = "\n".join((inspect.cleandoc(cls.__dict__["__doc__"] or "") + "\n", *sections))

    def __init__(self, *positional: Any, **values: Any) -> None:
        """Validate the values of the fields; the first ones may be given by position, in the order of declaration.

        Raises UserError for values that do not fit, with label, range and value of each.
        """
        cls = type(self)
        if positional:
            names = list(cls.model_fields)
            if len(positional) > len(names):
                raise UserError(f"{cls.__name__} takes no more values than {len(names)}: {', '.join(names) or 'none'}.")
            by_position = dict(zip(names, positional, strict=False))  # others are in `values`, or have a default
            twice = [name for name in by_position if name in values]
            if twice:
                raise UserError(f"{cls.__name__} got {twice[0]} twice, by position and by name.")
            values = by_position | values
        with _errors_as_sentences(cls):
            super().__init__(**values)

    def __repr__(self) -> str:
        """Return the constructor's call; of more than two fields, without numbers and texts that have the default."""
        fields = type(self).model_fields
        values = {name: getattr(self, name) for name in fields}
        if len(fields) > 2:
            values = {
                name: value
                for name, value in values.items()
                if isinstance(value, Specification) or value != fields[name].default
            }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    __str__ = __repr__

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):  # a private attribute is no setting
            raise UserError(f"Write replaced({name}=…), which returns a changed copy.", title="Settings do not change")
        super().__setattr__(name, value)

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Return pydantic's result for a mapping of values. Raises UserError for values that do not fit."""
        with _errors_as_sentences(cls):
            return super().model_validate(obj, **options)

    @model_validator(mode="wrap")
    @classmethod
    def _subclass_by_kind(cls, value: Any, handler: Any) -> Any:
        """Validate a mapping with a "kind" as an instance of the class that is registered under it, so that a field may
        be annotated with an abstract class, such as Budget. Other values are validated as usual, by `handler`."""
        if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
            raise ValueError("the name of a setting must be a text")
        if not (isinstance(value, dict) and "kind" in value):
            # For an abstract class a mapping must say which class is meant.
            if isinstance(value, dict) and (inspect.isabstract(cls) or cls is Specification):
                raise ValueError(f"a {cls.__name__} needs a 'kind'")
            return handler(value)
        value = dict(value)
        target = kind_named(value.pop("kind"))
        if not issubclass(target, cls):
            raise ValueError(f"these are settings of {target.__name__}, not of {cls.__name__}")
        with _errors_as_sentences(target):  # explained here, where the class with the broken ranges is known
            return handler(value) if target is cls else target.model_validate(value)

    @classmethod
    def full_name(cls) -> str:
        """Return the kind; of a class without one its module and name, so that no two classes share random numbers."""
        return cls.kind or f"{cls.__module__}.{cls.__qualname__}"

    def to_json(self) -> str:
        """Return the canonical text: sorted keys, every field, a "kind" at each level.

        Raises UserError for a class that inherits its kind.
        """
        return json.dumps(_plain(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild a specification from `to_json`. Raises UserError if the text is not such a specification."""
        try:
            value = json.loads(text, object_pairs_hook=each_once)
        except UserError:  # raised by `each_once`; it is a ValueError, too
            raise
        except (TypeError, ValueError, RecursionError):
            raise UserError("These settings are not valid JSON. Export them again and paste all of the text.") from None
        return cls.model_validate(value)

    def to_python(self) -> str:
        """Return the Python expression that constructs the specification, with every field; the classes that it names
        must be imported by the program that uses it."""
        fields = (f"{name}={_python(getattr(self, name))}" for name in type(self).model_fields)
        return f"{type(self).__name__}({', '.join(fields)})"

    def content_hash(self) -> str:
        """Return the SHA-256 of the canonical text, in hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def replaced(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed (pydantic's `model_copy` does not validate)."""
        by_short_form = {self.short_forms[name] for name in changes if name in self.short_forms}
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in by_short_form}
        return type(self)(**(values | changes))

    def adopting(self, settings: Mapping[str, Any]) -> Self:
        """Return a validated copy with those of `settings`, given for several classes, for which this one has a field.
        Raises UserError if the values do not go together."""
        return self.replaced(**{name: value for name, value in settings.items() if name in type(self).model_fields})

    def query(self, prefix: str) -> dict[str, str]:
        """Return the controls that differ from their defaults as the parameters of a link: values by
        "<prefix>_<field>"."""
        values = {control.name: getattr(self, control.name) for control in self.controls()}
        defaults = {control.name: control.default for control in self.controls()}
        return {f"{prefix}_{name}": address_text(value) for name, value in values.items() if value != defaults[name]}

    def check_ranges(self) -> None:
        """Raise UserError for a number outside of the range of its slider, here or in a specification inside: a page
        takes no other values, neither from its address nor from a file."""
        for control in self.controls():
            value = getattr(self, control.name)
            if control.low is None or control.high is None or value is None:
                continue
            if not control.low <= value <= control.high:
                slider = between(control.low, control.high)
                raise UserError(f"{control.label} must be {slider} on a page (got {value!r}).")
        for name in type(self).model_fields:
            value = getattr(self, name)
            items = value if isinstance(value, tuple) else (value,)
            for item in items:
                if isinstance(item, Specification):
                    item.check_ranges()

    @classmethod
    @cache
    def controls(cls) -> tuple[Control, ...]:
        """Return the declared fields, those with a title, in order, for widgets, help texts and docs."""
        return tuple(_control(name, field) for name, field in cls.model_fields.items() if field.title)


_RAISES = "UserError\n    For a value outside of its range, a name that is no field, or values that do not go together."


@cache
def _registering_module(first_words: str) -> str | None:
    """Return the name of the module that registers the kinds which begin with these two words, such as
    "problems.quadratic"; None if there is none."""
    group, _, name = first_words.partition(".")
    if group == "families":
        package = Path(__file__).parent / group / name / "__init__.py"
        return f"dpviz.{first_words}" if package.is_file() else None
    for module, kinds in _REGISTERED_BY.items():
        if first_words in kinds.split():
            return f"dpviz.{module}"
    return None


def kind_named(kind: str) -> type[Specification]:
    """Return the class that is registered under a kind; its module is imported if it is not yet.

    Raises ValueError for a kind that does not exist.
    """
    if not isinstance(kind, str) or not _WORDS.fullmatch(kind):
        raise ValueError(f"unknown kind {kind!r}; a class is read by a kind of its own, such as 'mine.descent'")
    if kind not in _kinds:
        first_words = ".".join(kind.split(".")[:2])
        module = _registering_module(first_words)
        if module:
            importlib.import_module(module)
    if kind not in _kinds:
        _import_foreign_modules()
    if kind not in _kinds:
        hint = did_you_mean(kind, _kinds)
        raise ValueError(f"unknown kind {kind!r}{f' ({hint.strip()})' if hint else ''}")
    return _kinds[kind]


MODULES = "DPVIZ_MODULES"  # environment variable with names of modules, which processes inherit from a command


@cache
def _import_foreign_modules() -> None:
    """Import the modules outside of dpviz that register kinds: entry points of the group "dpviz.kinds", and those that
    the environment names."""
    for entry in importlib.metadata.entry_points(group="dpviz.kinds"):
        entry.load()
    for name in filter(None, map(str.strip, os.environ.get(MODULES, "").split(","))):
        try:
            importlib.import_module(name)
        except Exception as error:  # any that the code of the module raises
            raise UserError(f"Module {name}, named by {MODULES}, cannot be imported: {error}.") from None


def registered(base: type[Specification]) -> list[type[Specification]]:
    """Return all classes that are registered so far and are subclasses of `base`, sorted by kind."""
    return [cls for _, cls in sorted(_kinds.items()) if issubclass(cls, base)]


def is_ours(cls: type) -> bool:
    """Return true if a class is one of dpviz, not of a user."""
    return cls.__module__.startswith("dpviz.")


def classes_in(part: object) -> Iterator[type]:
    """Yield the classes of a specification and of all that it holds, to find those of a user."""
    inner: Iterable[object] = ()
    if isinstance(part, (list, tuple, set, frozenset)):
        inner = part
    elif isinstance(part, Mapping):
        inner = part.values()
    elif isinstance(part, Specification):
        yield type(part)
        inner = vars(part).values()
    for value in inner:
        if not isinstance(value, (str, float, int)):  # quicker: a wide table has many, and is planned often
            yield from classes_in(value)


class _errors_as_sentences:
    """Context in which pydantic's ValidationError for values of `cls` becomes a UserError, whose sentences name label,
    range and value."""

    def __init__(self, cls: type[Specification]) -> None:
        self.cls = cls

    def __enter__(self) -> None:
        return None

    def __exit__(self, exc_type: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, ValidationError):
            return
        # For each mistake the exception that a validator of ours raised; None for one that pydantic found.
        exceptions = [item.get("ctx", {}).get("error") for item in error.errors(include_url=False)]
        if len(exceptions) == 1 and isinstance(exceptions[0], UserError):
            raise exceptions[0] from None  # it has a title of its own
        raise UserError(" ".join(dict.fromkeys(_mistakes_in_words(error, self.cls)))) from None


# By pydantic's name of a mistake, what it expects in place of a value.
_EXPECTED = {
    "bool_parsing": "True or False",
    "bool_type": "True or False",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than_equal": "at least {ge:,}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "at most {le:,}",
    "literal_error": "{expected}",
    "model_type": "{class_name}",
    "string_pattern_mismatch": "a text like {pattern}",
    "string_too_short": "a longer text",
    "string_too_long": "a text of at most {max_length} letters",
    "string_type": "a text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}


def _mistakes_in_words(error: ValidationError, cls: type[Specification]) -> Iterator[str]:
    """Yield a sentence for the first mistake that pydantic reports in each field of `cls`, with label, range, value."""
    controls = {control.name: control for control in cls.controls()}
    explained = set()
    for item in error.errors(include_url=False):
        # "loc" is the path to the value: the field, then the index or the name of what is wrong inside it.
        name = next((part for part in item["loc"] if isinstance(part, str)), "")
        if name in explained:
            continue
        explained.add(name)
        value, context, control = item.get("input"), item.get("ctx", {}), controls.get(name)
        got = f" (got {value!r})" if isinstance(value, (int, float, str)) and not is_large(value) else ""
        if isinstance(context.get("error"), UserError):
            yield str(context["error"])  # of a specification inside this one
        elif item["type"] == "missing":
            yield f"{cls.__name__} needs {name}."
        elif item["type"] == "extra_forbidden":
            names = [*cls.model_fields, *cls.short_forms]
            listed = ", ".join(names) or "no settings"
            yield f"{cls.__name__} has no {name!r}.{did_you_mean(name, names)} It has: {listed}."
        elif control is not None and control.count:
            yield f"{control.label} {several_between(control)}."
        elif control is not None and control.low is not None:
            kind = "a whole number " if control.type is int else ""
            yield f"{control.label} must be {kind}{between(*control.limits)}{got}."
        elif control is not None and control.options:
            yield f"{control.label} must be one of {', '.join(control.options)}{got}."
        elif item["type"] in _EXPECTED:
            # The field, with the index of the wrong item if it has several: "values[3]".
            field = "".join(f"[{part}]" if isinstance(part, int) else part for part in item["loc"][:2])
            subject = f"`{field}`" if field else "All of it"
            expected = _EXPECTED[item["type"]].format(**context)
            if item["type"] == "model_type":  # then it is the name of a class
                expected = with_article(expected)
            remedy = ""
            if isinstance(value, type):
                remedy = f" Write {value.__name__}()."
            elif name == "data":
                call = getattr(cls.model_fields["data"].annotation, "declared_by", "")  # "": no table is of this kind
                remedy = f" Declare a table of your own by {call}." if call else ""
            is_length = "actual_length" in context  # of "too_long" or "too_short": the length says more than the items
            in_words = f"one of {len(value)}" if is_length else value_in_words(value)
            yield f"{subject} must be {expected}, not {in_words}.{remedy}"
        else:
            message = item["msg"].removeprefix("Value error, ")
            yield f"{name or getattr(cls, 'title', '') or cls.__name__}: {message}{got}."


def between(low: float, high: float) -> str:
    """Return a range in words: "between 1 and 10,000"."""
    return f"between {short(low, 6)} and {short(high, 6)}"


def several_between(control: Control) -> str:
    """Return what a control of several numbers needs, in words: "needs 3 numbers between 0 and 1"."""
    return f"needs {control.count} numbers {between(*control.each)}"


def _plain(value: Any) -> Any:
    """Return a value in the form that JSON can write, with a "kind" in every specification."""
    if isinstance(value, Specification):
        cls = type(value)
        if cls.kind and "kind" not in vars(cls):  # with its parent's kind it would have its parent's random numbers
            raise UserError(
                f'Name it in the class, such as kind = "mine.{cls.__name__.lower()}".',
                title=f"{cls.__name__} needs a kind of its own",
            )
        fields = {name: _plain(getattr(value, name)) for name in cls.model_fields}
        return fields | {"kind": cls.full_name()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value + 0.0 if isinstance(value, float) else value  # -0.0, which equals 0.0, becomes 0.0


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON as a dictionary, for `json.loads`. Raises UserError for a name that it has twice."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise UserError(
                f"{name!r} is there twice. Keep one of the two.", title="These settings contradict themselves"
            )
        result[name] = value
    return result


def address_text(value: Any) -> str:
    """Return a value as text for a link: a tuple of numbers with commas between them."""
    if not isinstance(value, tuple):
        return str(value)
    return ",".join(repr(float(item) + 0.0).removesuffix(".0") for item in value)  # 0.0 is added to turn -0.0 into 0.0


def _python(value: Any) -> str:
    """Return the Python expression for a value of a field."""
    if isinstance(value, Specification):
        return value.to_python()
    if isinstance(value, tuple):
        items = ", ".join(map(_python, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(value)


def _control(name: str, field: FieldInfo) -> Control:
    """Return the control of a field that `number`, `numbers`, `choice` or `switch` declares.

    The control's type is that of the annotation; for `X | None` it is X, and the control is optional.
    """
    extra: Any = field.json_schema_extra or {}
    annotation, optional = field.annotation, False
    if get_origin(annotation) in (Union, types.UnionType):
        members = [part for part in get_args(annotation) if part is not type(None)]
        optional = len(members) < len(get_args(annotation))
        annotation = members[0]
    if get_origin(annotation) is Literal:
        annotation = str
    each = (0.0, 0.0)
    if get_origin(annotation) is tuple:  # tuple[Annotated[float, Field(ge=…, le=…)], ...]
        item_type = get_args(annotation)[0]
        lower, upper = get_args(item_type)[1].metadata  # of `ge` and `le`, which pydantic keeps in this order
        annotation, each = tuple, (lower.ge, upper.le)
    lowest = next((part.ge for part in field.metadata if hasattr(part, "ge")), -math.inf)
    highest = next((part.le for part in field.metadata if hasattr(part, "le")), math.inf)
    return Control(
        name=name,
        label=field.title or name,
        help=field.description or "",
        default=field.default,
        type=cast(type, annotation),
        limits=(lowest, highest),
        optional=optional,
        each=each,
        **extra,  # symbol, unit, scale, low and high of a number; count of several; options of a choice
    )
