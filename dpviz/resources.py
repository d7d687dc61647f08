"""Files in the folders of modules: texts, and data as TOML or JSON. Each is read once.

All callers share the returned objects: do not change them.
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
    """Return a text file of a package. Raises FileNotFoundError."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def dashboard() -> Path:
    """Return the folder of `app.py`, its pages and settings: in a wheel a folder among the modules, else the one above
    them.

    Raises FileNotFoundError where there is none.
    """
    house = Path(__file__).parent
    for folder in (house / "dashboard", house.parent):
        if (folder / "app.py").exists() and (folder / "pages").is_dir():
            return folder
    raise FileNotFoundError(
        "The pages of the dashboard are missing. Install dpviz anew, or start it in its own folder."
    )


@cache
def content(package: str, name: str) -> bytes:
    """Return a binary file of a package. Raises FileNotFoundError."""
    return resources.files(package).joinpath(name).read_bytes()


@cache
def data(package: str, name: str) -> dict[str, Any]:
    """Return the content of a file of a package: `*.toml`, or else JSON. Raises FileNotFoundError, and ValueError if
    damaged."""
    content: dict[str, Any] = (tomllib if name.endswith(".toml") else json).loads(text(package, name))
    return content


def texts(package: str) -> Callable[[str], str]:
    """Return a `__getattr__` for a module: the texts of `texts.toml` in its package become attributes of the module."""

    def get_text(name: str) -> str:
        try:
            value: str = data(package, "texts.toml")[name]
        except KeyError:
            raise AttributeError(f"texts.toml of {package} has no {name!r}") from None
        return value

    return get_text


def phrases(package: str) -> Callable[..., str]:
    """Return a function that fills values into a phrase of `[PHRASES]` in the package's `texts.toml`."""

    def phrase(name: str, **values: object) -> str:
        sentence: str = data(package, "texts.toml")["PHRASES"][name].format(**values)
        return sentence

    return phrase
