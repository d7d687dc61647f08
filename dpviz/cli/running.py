"""`dpviz run`: one experiment, to its end."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import click

from dpviz.cli.executing import Computing, common_options, computing, delta_option
from dpviz.cli.progress import Progress, stopped_by_ctrl_c
from dpviz.cli.results import out_option, rescued, shown, write
from dpviz.cli.sources import example, experiment_of, settings_options, table_option, tables_of
from dpviz.errors import UserError
from dpviz.experiments import publishing
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import final_table
from dpviz.experiments.task import Cell, Outcome, seconds_left
from dpviz.experiments.trace import Trace
from dpviz.exports import export
from dpviz.numbers import duration

INTERRUPTED = 130


@click.command(
    epilog=example(
        "dpviz run experiment.json --out trace.csv",
        "dpviz run experiment.json --table mine.csv    (settings that were made with your file)",
    )
)
@settings_options
@out_option("Every recorded value: .csv, as the page saves it, or .parquet.")
@table_option
@delta_option
@common_options
def run(
    file: IO[bytes] | None,
    preset: str | None,
    out: Path | None,
    table: Path | None,
    delta: float,
    diagnostics: bool,
    store: str,
    quiet: bool,
) -> int:
    """Run an experiment and print what its methods come to.

    The numbers are those of the page. A run that was made before is found in the store, and takes no time.
    """
    planned = experiment_of(file, preset).planned()
    experiment = planned.ready()
    refused(planned.refused)
    cell = Cell(experiment, tables_of(experiment, table))
    with computing(store) as chosen:
        outcome = _followed(chosen, cell, quiet)
    if outcome.state == "failed":
        raise click.ClickException(outcome.message)
    if outcome.trace is not None:
        trace = outcome.trace.visible(diagnostics or experiment.problem.public)
        _tell(trace, experiment, planned.plans, experiment.budget.own_delta(delta), out)
    if outcome.state == "done":
        return 0
    kept = f" {out} has what was recorded until then." if out and outcome.trace is not None else ""
    click.echo(
        f"Stopped before the end.{kept} A single run cannot be continued; the same command begins it again.", err=True
    )
    return INTERRUPTED


def refused(reasons: Mapping[str, UserError]) -> None:
    """Say which methods are left out, and why."""
    for label, error in reasons.items():
        click.echo(f"Left out: {label}. {error}", err=True)


def _followed(chosen: Computing, cell: Cell, quiet: bool) -> Outcome:
    """Run a cell, saying how far it is."""
    began = time.monotonic()
    with stopped_by_ctrl_c() as stopping, Progress(quiet) as progress:

        def hear(_: int, trace: Trace | None, share: float) -> None:
            gone = time.monotonic() - began
            left = seconds_left(gone, share) if cell.experiment.public else None  # a function of the data
            text = f"{duration(left)} left" if left and gone > 1 else ""
            progress.tell(share, text, "" if trace is None else f"{10 * int(10 * share)} %")

        ((_, outcome),) = chosen.executor.run([cell], stopping, hear)
    if outcome.restored and not quiet:
        click.echo("This run was made before: its numbers come from the store.", err=True)
    return outcome


def _tell(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float, out: Path | None) -> None:
    """Write the file, and print the final table and what publishing costs."""
    with rescued(trace.to_frame):
        try:
            if out is not None:
                write(export.to_table(trace, plans), list(export.header(trace, experiment, plans, delta)), out)
        finally:  # a file that cannot be written takes no table away
            click.echo(shown(final_table(trace, plans, delta=delta).drop(columns="seconds", errors="ignore")))
    costs = publishing.costs(plans, trace.lanes, experiment.budget, experiment.replicates, delta)
    for sentence in publishing.sentences(costs):
        click.echo(f"Publishing {sentence}")
    if experiment.problem.from_data:
        click.echo(f"Guarantee of each method: {experiment.promise}.")
