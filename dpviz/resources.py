"""Files next to the modules that use them: texts, and data as TOML or JSON. Each file is read once.

All callers get the same objects, which must not be changed.
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
    """Return the content of a text file in the folder of a package. Raises FileNotFoundError."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def dashboard() -> Path:
    """Return the folder of `app.py`, its pages and settings.

    In an installed package it is a folder `dashboard` among the modules, in a copy of the repository the folder above
    the modules. Raises FileNotFoundError where there is none.
    """
    package_folder = Path(__file__).parent
    for folder in (package_folder / "dashboard", package_folder.parent):
        if (folder / "app.py").exists() and (folder / "pages").is_dir():
            return folder
    raise FileNotFoundError(
        "The pages of the dashboard are missing. Install dpviz anew, or start it in its own folder."
    )


def data_file(name: str) -> Path:
    """Return the path of a file in `data/`: inside the installed package, or next to the package in a checkout.

    Raises FileNotFoundError where the installation lacks the file.
    """
    package = Path(__file__).resolve().parent
    # The package's own folder comes first: next to an installed package, `data` would belong to another package.
    for folder in (package / "data", package.parent / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"the data file {name} is missing from this installation of dpviz")


@cache
def content(package: str, name: str) -> bytes:
    """Return the content of a binary file in the folder of a package. Raises FileNotFoundError."""
    return resources.files(package).joinpath(name).read_bytes()


@cache
def data(package: str, name: str) -> dict[str, Any]:
    """Return the data in a file in the folder of a package: TOML if its name ends in ".toml", else JSON.

    Raises FileNotFoundError, and ValueError for a file that cannot be read.
    """
    loads = tomllib.loads if name.endswith(".toml") else json.loads
    result: dict[str, Any] = loads(text(package, name))
    return result


class Texts:
    """The texts of `texts.toml` in the folder of a package, as attributes."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):  # such as `_package`, of an object that is being copied
            raise AttributeError(name)
        try:
            value: str = data(self._package, "texts.toml")[name]
        except KeyError:
            raise AttributeError(f"texts.toml of {self._package} has no {name!r}") from None
        return value


def phrases(package: str) -> Callable[..., str]:
    """Return a function that fills values into a phrase: a text with gaps in the table `PHRASES` of `texts.toml` in the
    folder of `package`."""

    def phrase(name: str, **values: object) -> str:
        sentence: str = data(package, "texts.toml")["PHRASES"][name].format(**values)
        return sentence

    return phrase
