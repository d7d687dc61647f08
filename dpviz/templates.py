"""Downloaded programs, notebooks and pages, made from templates: files `*.j2` in the folder of the module that fills
them.

Every name that a template uses must be given. Values in an HTML page are escaped, unless the template marks them
`safe`.
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
    """Return the text of a template with these values. name : path of the file in the package:
    "exports/templates/x.py.j2".

    Raises jinja2.UndefinedError for a value that is missing.
    """
    return _environment().get_template(name).render(values)


def cells(name: str, /, **values: Any) -> list[tuple[str, str]]:
    """Return kind and text of every part of a template, each of which begins with a line "# %% kind"; no empty ones.

    The template is split before values are filled in, so no value can begin a part.
    """
    environment = _environment()
    assert environment.loader is not None
    _, *parts = _CELL.split(environment.loader.get_source(environment, name)[0])
    sources = [environment.from_string(source).render(values).strip("\n") for source in parts[1::2]]
    return [(kind, source) for kind, source in zip(parts[::2], sources, strict=True) if source]
