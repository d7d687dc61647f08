"""Files and tables: what a command leaves behind."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click
import pandas as pd

from dpviz.exports.spreadsheets import as_csv

Command = TypeVar("Command", bound=Callable[..., Any])
ENDINGS = (".csv", ".parquet")


def out_option(help: str) -> Callable[[Command], Command]:
    """Adds --out, a path that can be written, with an ending that says how; checked before anything is computed."""
    return click.option("--out", type=click.Path(dir_okay=False, path_type=Path), callback=_writable, help=help)


def _writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in ENDINGS:
        raise click.BadParameter(f"'{path}' must end in {' or '.join(ENDINGS)}.")
    if path is not None and not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"'{path.parent}' is no folder that you may write to.")
    return path


def write(frame: pd.DataFrame, about: Sequence[str], path: Path) -> None:
    """The table as CSV, behind what it is about as lines with "#", or as Parquet, which keeps that beside it:
    `pandas.read_parquet(path).attrs["dpviz"]`."""
    with _in_one_piece(path) as part:
        if path.suffix.lower() == ".csv":
            part.write_text(as_csv(frame, about), encoding="utf-8", newline="")
        else:
            frame.attrs["dpviz"] = list(about)
            frame.to_parquet(part, index=False)


def shown(frame: pd.DataFrame) -> str:
    """A table for reading: words to the left, numbers to the right; what a row does not have is left blank."""
    columns: dict[str, Any] = {}
    for name, values in frame.items():
        if pd.api.types.is_numeric_dtype(values):
            columns[str(name)] = values
            continue
        words = ["" if pd.isna(value) else str(value) for value in values]
        width = max(len(str(name)), *map(len, words)) if words else 0
        columns[str(name).ljust(width)] = [word.ljust(width) for word in words]
    return pd.DataFrame(columns).to_string(index=False, float_format=lambda number: f"{number:.6g}", na_rep="")


@contextmanager
def rescued(numbers: Callable[[], pd.DataFrame]) -> Iterator[None]:
    """Tell a result. If that goes wrong, all its numbers are left in a new file, which only the user may read."""
    try:
        yield
    except BrokenPipeError:  # who reads has seen enough
        raise
    except Exception:
        with suppress(OSError):
            handle, path = tempfile.mkstemp(".csv", "dpviz_")
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(as_csv(numbers()))
            click.echo(f"What was computed is not lost: {path} has all numbers.", err=True)
        raise


@contextmanager
def _in_one_piece(path: Path) -> Iterator[Path]:
    """A path beside it to write to; it takes the other one's place when all is written."""
    target = path.resolve()  # a link stays, and what it points to is written
    part = target.with_name(f".{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        raise click.ClickException(f"{path} could not be written: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            part.unlink()
