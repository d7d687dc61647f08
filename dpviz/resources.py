"""Files that stand beside modules: texts, and data as TOML or JSON. Each is read once.

What is read is shared by all who ask: nobody changes it.
"""

import json
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any


@cache
def text(package: str, name: str) -> str:
    """A file of a package. Raises FileNotFoundError."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def dashboard() -> Path:
    """The folder of `app.py`, its pages and settings: in the wheel beside the modules, else above them. Raises
    FileNotFoundError where there is none."""
    house = Path(__file__).parent
    for folder in (house / "dashboard", house.parent):
        if (folder / "app.py").exists() and (folder / "pages").is_dir():
            return folder
    raise FileNotFoundError(
        "The pages of the dashboard are missing. Install dpviz anew, or start it in its own folder."
    )


@cache
def content(package: str, name: str) -> bytes:
    """A file of a package that is no text. Raises FileNotFoundError."""
    return resources.files(package).joinpath(name).read_bytes()


@cache
def data(package: str, name: str) -> dict[str, Any]:
    """What a file of a package says: `*.toml`, or else JSON. Raises FileNotFoundError, and ValueError for one that is
    damaged."""
    content: dict[str, Any] = (tomllib if name.endswith(".toml") else json).loads(text(package, name))
    return content


def texts(package: str) -> Callable[[str], str]:
    """`__getattr__` for a module: the texts of `texts.toml` in its package are attributes of the module."""

    def named(name: str) -> str:
        try:
            found: str = data(package, "texts.toml")[name]
        except KeyError:
            raise AttributeError(f"texts.toml of {package} has no {name!r}") from None
        return found

    return named


def phrases(package: str) -> Callable[..., str]:
    """A function that says a phrase of the package's `texts.toml`, `[PHRASES]`, with values where braces name them."""

    def phrase(name: str, **values: object) -> str:
        said: str = data(package, "texts.toml")["PHRASES"][name].format(**values)
        return said

    return phrase
