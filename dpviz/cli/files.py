"""Everything the commands share: options, settings and tables that they read, texts that they print, files that they
write."""

import difflib
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from dpviz import families
from dpviz.datasets import Upload, read_table
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.files import large_file
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.experiments.results import UPPER
from dpviz.exports.spreadsheets import as_csv
from dpviz.later import pd, require_package
from dpviz.numbers import rounded_up
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.specification import Specification, registered
from dpviz.sweeps.sweep import setting_name, settings, with_numbers

Command = TypeVar("Command", bound=Callable[..., Any])
S = TypeVar("S", bound=Specification)
DELTA = ApproximateDP().delta  # the δ at which ε is read where a budget has no δ of its own
DIGITS = 6  # significant digits of a number in a table
ENDINGS = (".csv", ".parquet")
PAGE_ENDINGS = (".html", ".htm")


def settings_options(command: Command) -> Command:
    """Add the argument EXPERIMENT and the options --preset and --set to a command.

    The command gets the experiment that they describe, as its parameter `experiment`.
    """

    @wraps(command)
    def with_experiment(*, file: str | None, preset: str | None, changes: tuple[str, ...], **others: Any) -> Any:
        return command(experiment=experiment_of(file, preset, changes), **others)

    preset_option = click.option("--preset", metavar="NAME", help="A named experiment, whatever files there are.")
    help = "Change a number, such as epsilon=0.5; again for others. A wrong name is answered with all names."
    set_option = click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help=help)
    argument = click.argument("file", required=False, metavar="[EXPERIMENT.json | PRESET]")
    return cast(Command, argument(preset_option(set_option(with_experiment))))


def table_option(command: Command) -> Command:
    """Add the option --table to a command: the path of the user's file, which `tables_of` reads."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--table", type=path, help="Your own file, for settings that were made for one.")(command)


def delta_option(command: Command) -> Command:
    """Add the option --delta to a command."""
    return click.option(
        "--delta",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        callback=not_nan,
        default=DELTA,
        show_default=True,
        help="At which ε is read, unless the budget has a δ of its own.",
    )(command)


def not_nan(_: click.Context, __: click.Parameter, number: float) -> float:
    """Return the value of an option, unless it is nan, which click takes to be within every range."""
    if math.isnan(number):
        raise click.BadParameter("nan is not a number.")
    return number


def experiment_of(file: str | None, preset: str | None, changes: Sequence[str] = ()) -> Experiment:
    """Return the experiment that the options of a command describe.

    file : the argument EXPERIMENT: a file with settings, "-" for the standard input, or the name of a preset. preset :
        the name of a preset, if there is no `file`. changes : texts such as "epsilon=0.5", each of which changes a
        number.

    Raises UserError for settings that cannot be used, and click's UsageError for options that do not go together.
    """
    if (file is None) == (preset is None):
        raise click.UsageError("Give a file with settings, or the name of a preset (dpviz presets lists them).")
    if file is not None and (file == "-" or Path(file).exists()):
        experiment = read_settings(file, Experiment)
    elif file is not None and file.endswith(".json"):
        raise click.UsageError(f"There is no file {file}.")
    else:
        experiment = preset_named(preset or file or "").experiment
    for text in changes:
        addresses, (value, *further_values) = parse_grid(experiment, text)
        if further_values:
            raise UserError(f"'{text}' has several values. `dpviz sweep --grid` runs them all.")
        experiment = with_numbers(experiment, [(address.split("."), value) for address in addresses])
    return experiment


def read_settings(file: str, cls: type[S]) -> S:
    """Return the settings, of class `cls`, of a file in JSON, "-" for the standard input."""
    try:
        with click.open_file(file, "rb") as stream:
            text = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("This file is no text. Give the settings that a page saves as JSON.") from None
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror or error}.") from None
    return cls.from_json(text)


def preset_named(name: str) -> Preset:
    """Return the preset with this name, or the only one whose name contains it; capitals do not count.

    Raises UserError if there is no such preset, or more than one.
    """
    names = list(families.preset_names())  # (family, name of a preset)
    exact = [(family, full) for family, full in names if full.casefold() == name.casefold()]
    matches = exact or [(family, full) for family, full in names if name.casefold() in full.casefold()]
    if len(matches) == 1:
        return families.preset(*matches[0])
    if not matches:
        raise UserError(f"No preset is called '{name}'. `dpviz presets` lists them.")
    raise UserError(f"'{name}' may be {' or '.join(repr(full) for _, full in matches)}. Write more of the name.")


def print_refusals(reasons: Mapping[str, UserError]) -> None:
    """Print a line for every method that is left out. reasons : the cause by the label of the method."""
    for label, error in reasons.items():
        click.echo(f"Left out: {label}. {error.sentence}", err=True)


def tables_of(experiment: Experiment, table: Path | None, in_blocks: bool = False) -> Mapping[str, Any]:
    """Return the tables that an experiment is run with: the rows of the user's file, by its identity, or none.

    table : path of the file, None without one. in_blocks : true to return a large file as it is, to be read in blocks,
    instead of refusing it.

    Raises UserError where a file is missing or not wanted, is too large, or does not fit the settings.
    """
    data = experiment.problem.dataset
    if not isinstance(data, Upload):
        if table is not None:
            raise UserError(
                "These settings bring their own data. Leave --table out, or save settings of a page with your file."
            )
        return NO_TABLES
    if table is None:
        raise UserError("These settings are for a file of your own. Say where it is: --table FILE.")
    file = large_file(table)  # None for a file that is read as a whole
    if file is not None:
        if not in_blocks:
            raise UserError(
                f"Only `dpviz run` reads more than 50 MB, or {limits.MAX_ROWS:,} rows.", title="This file is too big"
            )
        return {data.identity: file}
    frame = read_table(table.read_bytes(), table.name, reading=data.reading)
    with warnings.catch_warnings(record=True, action="always") as notes:
        rows = data.rows(frame)
    for note in notes:
        click.echo(str(note.message), err=True)
    return {data.identity: rows}


def parse_grid(experiment: Experiment, text: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the addresses and the values of an option such as "epsilon=0.1,0.3".

    The name on the left is one of `sweep.settings`, which may set several numbers, or the address of one number within
    the settings, such as "budget.epsilon".

    Raises UserError for a text of another form, an unknown name, and values that are no numbers.
    """
    name, separator, values = (part.strip() for part in text.partition("="))
    if not separator or not values:
        raise UserError(f"'{text}' needs the form NAME=VALUE,VALUE,… such as epsilon=0.1,0.3,1.")
    by_name = settings(experiment)
    full_name = setting_name(name, by_name)
    if full_name in by_name:
        return by_name[full_name].fields, parse_numbers(values)
    if "." in name or name in type(experiment).model_fields:
        return (name,), parse_numbers(values)
    names = [*by_name, "replicates", "seed"]
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.4)  # of low similarity, since it is only a hint
    hint = f" Did you mean {matches[0]}?" if matches else ""
    raise UserError(f"'{name}' is not a number among these settings.{hint} They have: {', '.join(names)}.")


def budget_of(text: str) -> Budget:
    """Return the budget of a text such as "epsilon=1,delta=1e-6". Raises UserError if no budget has these numbers."""
    parts = [part.partition("=") for part in text.split(",")]
    # A value is a single number, as the text was split at its commas.
    values = {name.strip(): parse_numbers(value)[0] for name, separator, value in parts if separator}
    budgets: list[Any] = registered(Budget)  # all classes of budgets
    for cls in budgets:
        # As many values as parts: each has the form NAME=VALUE, and no name occurs twice.
        if values and len(values) == len(parts) and values.keys() == cls.model_fields.keys():
            budget: Budget = cls(**values)
            return budget
    forms = [",".join(f"{name}=…" for name in cls.model_fields) for cls in budgets if cls.model_fields]
    raise UserError(f"'{text}' is no budget. Give one of: {'; '.join(forms)}.")


def parse_numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of a text such as "0.1,0.3". Raises UserError unless all are finite numbers."""
    numbers = []
    for word in text.split(","):
        try:
            numbers.append(float(word))
        except ValueError:
            raise UserError(f"'{word.strip()}' is not a number.") from None
        if not math.isfinite(numbers[-1]):
            raise UserError(f"'{word.strip()}' is not a finite number.")
    return tuple(numbers)


def out_option(help: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the option --out to a command: the path of a file to write.

    Its ending says the format. Both the ending and the right to write there are checked before anything is computed.
    """
    return click.option("--out", type=click.Path(dir_okay=False, path_type=Path), callback=_writable, help=help)


def _writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Return the value of --out. Raises click's error for another ending, or a folder that cannot be written to."""
    _check_writable(path, ENDINGS)
    if path is not None and path.suffix.lower() == ".parquet":
        require_package("pyarrow")
    return path


def writable_page(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Return the value of an option for a page of HTML to write. Raises click's errors as `_writable` does."""
    _check_writable(path, PAGE_ENDINGS)
    return path


def _check_writable(path: Path | None, endings: Sequence[str]) -> None:
    """Raise click's error for a path with another ending, or in a folder that cannot be written to."""
    if path is not None and path.suffix.lower() not in endings:
        raise click.BadParameter(f"'{path}' must end in {' or '.join(endings)}.")
    if path is not None and not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise click.BadParameter(f"'{path.parent}' is no folder that you may write to.")


def write(frame: "pd.DataFrame", about: Iterable[str], path: Path) -> None:
    """Write a table to `path`, as CSV or as Parquet by its ending, with the lines of `about`.

    In CSV these lines come first, and begin with "#"; Parquet keeps them as an attribute,
    `pandas.read_parquet(path).attrs["dpviz"]`.
    """
    with _in_one_piece(path) as part:
        if path.suffix.lower() == ".csv":
            part.write_text(as_csv(frame, about), encoding="utf-8", newline="")
        else:
            frame.attrs["dpviz"] = list(about)
            frame.to_parquet(part, index=False)


def write_page(page: str, path: Path) -> None:
    """Write a page of HTML to `path`. Raises click's error if it could not be written."""
    with _in_one_piece(path) as part:
        part.write_text(page, encoding="utf-8")


def rows_as_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows of texts, each by the name of its column, as lines in aligned columns below these names."""
    if not rows:
        return ""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    headings = {name: name for name in widths}
    lines = []
    for row in (headings, *rows):
        lines.append(" ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())
    return "\n".join(lines)


def table_as_text(frame: "pd.DataFrame", labels: Mapping[str, str] | None = None) -> str:
    """Return a table as lines in aligned columns: texts to the left, numbers to the right; missing entries are blank.

    Numbers that are upper limits, such as ε, are rounded up. labels : headings in place of names of columns.
    """
    columns: list[Any] = []
    headings = [(labels or {}).get(name, name) for name in map(str, frame.columns)]
    for i, (name, values) in enumerate(frame.items()):
        if pd.api.types.is_numeric_dtype(values):
            columns.append([rounded_up(value, DIGITS) for value in values] if name in UPPER else values)
            continue
        texts = ["" if pd.isna(value) else str(value) for value in values]
        # Filled up to equal widths, since pandas aligns every column to the right.
        width = max(map(len, (headings[i], *texts)))
        headings[i] = headings[i].ljust(width)
        columns.append([text.ljust(width) for text in texts])
    table = pd.DataFrame(dict(enumerate(columns))).set_axis(headings, axis=1)  # two columns may have one heading
    return table.to_string(index=False, float_format=f"{{:.{DIGITS}g}}".format, na_rep="")


@contextmanager
def saved_on_failure(make_table: "Callable[[], pd.DataFrame]") -> Iterator[None]:
    """Run the body, which prints a result; save the result if the body fails.

    In that case the table that `make_table` returns is written to a new file, which only this user may read, and the
    error is raised again.
    """
    try:
        yield
    except BrokenPipeError:  # the reading program has ended, as `head` does
        raise
    except Exception:
        with suppress(OSError):
            handle, path = tempfile.mkstemp(suffix=".csv", prefix="dpviz_")
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(as_csv(make_table()))
            click.echo(f"What was computed is not lost: {path} has all numbers.", err=True)
        raise


@contextmanager
def _in_one_piece(path: Path) -> Iterator[Path]:
    """Yield a temporary path for the body to write to; its file replaces that at `path` when the body has ended.

    Raises click's error if it could not be written.
    """
    target = path.resolve()  # a symbolic link stays, and the file that it names is written
    part = target.with_name(f".{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        raise click.ClickException(f"{path} could not be written: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):  # it is there only if it has not become the target
            part.unlink()
