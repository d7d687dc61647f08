"""Where settings come from: a file, a preset, and what is said of them on the command line."""

import difflib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import click
import numpy as np

from dpviz import families
from dpviz.datasets import Upload, read_table
from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.sweeps.settings import settings

Command = TypeVar("Command", bound=Callable[..., Any])


def example(*lines: str) -> str:
    """How a command is used, below its help."""
    return "\b\nExample:\n  " + "\n  ".join(lines)


def settings_options(command: Command) -> Command:
    """Adds the argument EXPERIMENT and the option --preset; `experiment_of` reads them."""
    file = click.File("rb")
    command = click.option(
        "--preset", metavar="NAME", help="A named experiment instead of a file: see `dpviz presets`."
    )(command)
    return click.argument("file", type=file, required=False, metavar="[EXPERIMENT.json]")(command)


def table_option(command: Command) -> Command:
    """Adds the option --table; `tables_of` reads it."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--table", type=path, help="Your own file, for settings that were made for one.")(command)


def experiment_of(file: IO[bytes] | None, preset: str | None) -> Experiment:
    """The experiment of a file or a preset; raises UserError."""
    if (file is None) == (preset is None):
        raise click.UsageError("Give a file with settings, or --preset NAME (dpviz presets lists them).")
    if preset is not None:
        return preset_named(preset).experiment
    assert file is not None
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("This file is no text. Give the settings that a page saves as JSON.") from None
    return Experiment.from_json(text)


def preset_named(name: str) -> Preset:
    """The preset of this name, or the only one whose name contains it; raises UserError."""
    known = [preset for found in families.presets().values() for preset in found]
    exact = [preset for preset in known if preset.name.casefold() == name.casefold()]
    found = exact or [preset for preset in known if name.casefold() in preset.name.casefold()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"No preset is called '{name}'. `dpviz presets` lists them.")
    raise UserError(f"'{name}' may be {' or '.join(repr(preset.name) for preset in found)}. Write more of the name.")


def tables_of(experiment: Experiment, table: Path | None) -> Mapping[str, np.ndarray]:
    """The table that the experiment was made for, from the user's file; raises UserError."""
    data = experiment.problem.dataset
    if not isinstance(data, Upload):
        if table is not None:
            raise UserError(
                "These settings bring their own data. Leave --table out, or save settings of a page with your file."
            )
        return NO_TABLES
    if table is None:
        raise UserError("These settings are for a file of your own. Say where it is: --table FILE.")
    return {data.identity: data.rows(read_table(table.read_bytes(), table.name, reading=data.reading))}


def varied(experiment: Experiment, text: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Addresses and values of "epsilon=0.1,0.3": a name that `dpviz settings` lists, or an address of one number.

    Raises UserError.
    """
    asked, equals, listed = (part.strip() for part in text.partition("="))
    if not equals or not listed:
        raise UserError(f"'{text}' needs the form NAME=VALUE,VALUE,… such as epsilon=0.1,0.3,1.")
    known = settings(experiment)
    if asked in known:
        return known[asked].fields, numbers(listed)
    if "." in asked or asked in type(experiment).model_fields:
        return (asked,), numbers(listed)
    near = difflib.get_close_matches(asked, known, 1, 0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UserError(f"'{asked}' is not a number among these settings.{hint} `dpviz settings` lists them all.")


def numbers(listed: str) -> tuple[float, ...]:
    """The numbers of "0.1,0.3"; raises UserError."""
    return tuple(_number(word) for word in listed.split(","))


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise UserError(f"'{word.strip()}' is not a number.") from None
    if not math.isfinite(number):
        raise UserError(f"'{word.strip()}' is not a finite number.")
    return number
