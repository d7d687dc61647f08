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


def render(name: str, /, **values: Any) -> str:
    """Return the text of a template with values filled in. Raises jinja2.UndefinedError for a value that is missing.

    name : path of the file in the package, such as "exports/templates/x.py.j2".
    """
    return _environment().get_template(name).render(values)


def cells(name: str, /, **values: Any) -> list[tuple[str, str]]:
    """Return (kind, text) of every cell of a notebook's template; each begins with a line "# %% kind".

    Cells that are empty once the values are filled in are left out. The template is split before that, so that no value
    can begin a cell.
    """
    environment = _environment()
    assert environment.loader is not None
    template, *_ = environment.loader.get_source(environment, name)  # then the file's path, and whether it is current
    _, *kinds_and_sources = _CELL.split(template)  # the text before the first cell, then kinds and sources in turn
    kinds, sources = kinds_and_sources[::2], kinds_and_sources[1::2]
    texts = [environment.from_string(source).render(values).strip("\n") for source in sources]
    return [(kind, text) for kind, text in zip(kinds, texts, strict=True) if text]
