"""Programs, notebooks and pages that leave as files, made from templates: files `*.j2` beside the module that fills
them in.

Every name that a template asks for must be given. What is filled into an HTML page is escaped, unless it says `safe`.
"""

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

_CELL = re.compile(r"^# %% (\w+)\n", re.MULTILINE)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("dpviz", ""),
        undefined=StrictUndefined,
        autoescape=select_autoescape(("html.j2",), default_for_string=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def document(name: str, /, **values: Any) -> str:
    """The text of a template with these values. name : of the file, from the package on: "exports/templates/x.py.j2".

    Raises jinja2.UndefinedError for a value that is missing.
    """
    return _environment().get_template(name).render(values)


def cells(name: str, /, **values: Any) -> list[tuple[str, str]]:
    """Kind and text of every part of a template, each of which begins with a line "# %% kind"; no empty ones.

    The parts are told apart before anything is filled in, so no value can begin one.
    """
    environment = _environment()
    assert environment.loader is not None
    _, *parts = _CELL.split(environment.loader.get_source(environment, name)[0])
    sources = [environment.from_string(source).render(values).strip("\n") for source in parts[1::2]]
    return [(kind, source) for kind, source in zip(parts[::2], sources, strict=True) if source]
