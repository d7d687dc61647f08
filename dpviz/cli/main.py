"""The commands by name, and what becomes of mistakes: one sentence and an exit code, never a traceback."""

import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

import click

import dpviz
from dpviz.cli import looking, running, sweeping
from dpviz.cli.sources import example
from dpviz.errors import UserError
from dpviz.experiments.task import OURS

WRONG, INTERRUPTED = 2, 130


_EXAMPLES = example(
    "dpviz presets                                  what there is to begin with",
    'dpviz presets "Start here: same" > experiment.json',
    "dpviz plan experiment.json                     what the budget buys; needs no data",
    "dpviz run experiment.json --out trace.csv      every recorded value, as on the page",
    "dpviz sweep experiment.json --grid epsilon=0.1,0.3,1,3 --out results.parquet",
)
_CODES = "Exit codes: 0 done, 1 a run or a file failed, 2 wrong use or settings, 130 interrupted."


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_EXAMPLES}\n\n{_CODES}",
)
@click.version_option(dpviz.__version__, prog_name="dpviz")
@click.option("--debug", is_flag=True, help="Show where a mistake of dpviz itself happened.")
def dpviz_command(debug: bool) -> None:
    """See what differential privacy costs an optimisation algorithm, without a browser.

    Settings come from a file that a page of the dashboard gives you ("Settings (JSON)"), or from a preset.
    """
    logging.getLogger("dpviz").addHandler(logging.StreamHandler() if debug else logging.NullHandler())
    logging.getLogger("dpviz").propagate = False
    if not (debug or sys.warnoptions):
        warnings.simplefilter("ignore")  # of the libraries below: what concerns the user is said in sentences


for command in (running.run, sweeping.sweep, looking.plan, looking.presets, looking.settings_command, looking.store):
    dpviz_command.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no "ε" shows another sign
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
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk behind the output, mostly
        click.echo(traceback.format_exc() if "--debug" in arguments else f"{error.strerror or error}.", err=True)
        return 1
    except Exception:
        click.echo(traceback.format_exc() if "--debug" in arguments else f"{OURS} --debug shows where.", err=True)
        return 1
