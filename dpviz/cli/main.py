"""The commands by name, and the handling of errors: one sentence and an exit code, never a traceback.

A command is imported, with its libraries, when it is called. The list of all commands imports none of them.
"""

import io
import logging
import os
import sys
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import click

from dpviz import resources
from dpviz.cli import INTERRUPTED, WRONG
from dpviz.errors import UserError
from dpviz.specification import MODULES
from dpviz.version import VERSION

# --------------------------------------------------------------------------------------------------------- all commands

_TEXTS = resources.data(__package__, "commands.toml")
COMMANDS = _TEXTS["commands"]  # by name: where the command is defined, and its texts


def _examples(lines: str) -> str:
    """Return the end of a help text with examples, after the sign that keeps click from filling its lines."""
    return "\b\nExample:\n" + textwrap.indent(lines.strip(), "  ")


def command(name: str) -> click.Command:
    """Import the command of this name and return it, with its examples."""
    module, _, attribute = COMMANDS[name]["at"].partition(".")
    result: click.Command = getattr(import_module(f"dpviz.cli.{module}"), attribute)
    result.epilog = _examples(COMMANDS[name]["examples"])
    return result


class _Commands(click.Group):
    """A group whose commands are listed without being imported; a command is imported when it is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the called command, the imported command, and its arguments, as click expects it.

        Missing files are reported before the command's imports, which take a second.
        """
        name, listed_command, rest = super().resolve_command(ctx, args)
        settings_files = [arg for arg in rest[:1] if arg.endswith(".json")]  # the first argument may be one
        tables = [path for option, path in pairwise(rest) if option == "--table"]
        tables += [arg.removeprefix("--table=") for arg in rest if arg.startswith("--table=")]
        for path in settings_files + tables:
            if not Path(path).exists():
                raise click.UsageError(f"There is no file {path}.")
        called_command = command(name) if name and listed_command else None
        return name, called_command, rest


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_examples(_TEXTS['examples'])}\n\n{_TEXTS['exit_codes']}",
)
@click.version_option(VERSION, prog_name="dpviz")
@click.option("--debug", is_flag=True, help="Show where a mistake of dpviz itself happened.")
@click.option("--module", "modules", multiple=True, metavar="NAME", help="Import methods or data of your own.")
def dpviz_command(debug: bool, modules: tuple[str, ...]) -> None:
    """See what differential privacy costs an optimisation algorithm, without a browser.

    Settings come from a file that a page of the dashboard gives you ("Settings (JSON)"), or from a preset.
    """
    for name in modules:
        folder = os.getcwd()
        sys.path.insert(0, folder)
        try:
            import_module(name)
        except Exception as error:  # any that the code of the module raises
            raise UserError(f"{type(error).__name__}: {error}.", title=f"Module {name} cannot be imported") from None
        # For the processes that the command starts.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        os.environ[MODULES] = ",".join(filter(None, (os.environ.get(MODULES), name)))
    logging.getLogger("dpviz").addHandler(logging.StreamHandler() if debug else logging.NullHandler())
    logging.getLogger("dpviz").propagate = False  # no handler of the root logger prints the messages, too
    if not (debug or sys.warnoptions):
        warnings.simplefilter("ignore")  # from libraries: dpviz prints sentences about all that concerns the user


for name, entry in COMMANDS.items():
    dpviz_command.add_command(click.Command(name, short_help=entry["says"]))


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments of the shell name; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console without "ε" prints another sign
    try:
        return int(dpviz_command.main(list(arguments), "dpviz", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UserError as error:
        click.echo(f"{error.title}. {error}", err=True)
        return WRONG
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reading program has ended, as `head` does
        # What is still buffered goes nowhere: Python writes it at its end, and would report the same error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # mostly because the disk is full to which the output goes
        click.echo(traceback.format_exc() if "--debug" in arguments else f"{error.strerror or error}.", err=True)
        return 1
    except Exception:
        apology = import_module("dpviz.experiments.task").OURS  # with libraries that not every command needs
        click.echo(traceback.format_exc() if "--debug" in arguments else f"{apology} --debug shows where.", err=True)
        return 1
