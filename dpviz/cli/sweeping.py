"""`dpviz sweep`: an experiment at several values of one setting or two, which goes on where it was stopped."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import click
import numpy as np
import pandas as pd

from dpviz.cli.executing import Computing, common_options, computing
from dpviz.cli.progress import Progress, stopped_by_ctrl_c
from dpviz.cli.results import out_option, rescued, shown, write
from dpviz.cli.running import INTERRUPTED
from dpviz.cli.sources import example, experiment_of, numbers, settings_options, table_option, tables_of, varied
from dpviz.errors import UserError
from dpviz.execution import cluster
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import Cell, seconds_left
from dpviz.exports import export
from dpviz.numbers import duration
from dpviz.problems.base import condition_of
from dpviz.specification import sentences
from dpviz.sweeps.settings import data_seed
from dpviz.sweeps.sweep import Axis, Sweep, SweepStep
from dpviz.sweeps.sweep_result import SweepResult, by_reason


@click.command(epilog=example("dpviz sweep experiment.json --grid epsilon=0.1,0.3,1,3 --out results.parquet"))
@settings_options
@click.option(
    "--grid",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="A setting and its values, such as epsilon=0.1,0.3,1. Once or twice. `dpviz settings` lists the names; an "
    "address such as budget.epsilon will do, too.",
)
@click.option("--seeds", metavar="SEEDS", help="On several data sets, generated from these seeds, such as 0,1,2.")
@click.option("--metric", default="", help="What is kept of every run, at its end. Default: as on the page.")
@out_option("The last number of every run: .csv or .parquet.")
@table_option
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that compute at the same time."
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    default="",
    help=f"The workers of a Dask cluster compute, such as tcp://host:8786. Default: the variable {cluster.VARIABLE}.",
)
@common_options
def sweep(
    file: IO[bytes] | None,
    preset: str | None,
    grid: tuple[str, ...],
    seeds: str | None,
    metric: str,
    out: Path | None,
    table: Path | None,
    workers: int,
    dask: str,
    diagnostics: bool,
    store: str,
    quiet: bool,
) -> int:
    """Run an experiment over a grid, and print the medians.

    The grid has the values of one setting, or of two. Every finished point is kept in the store. Stop with Ctrl+C, or
    lose the machine: the same command goes on from there, and a sweep that is repeated is there at once.
    """
    experiment = experiment_of(file, preset)
    tables = tables_of(experiment, table)
    everything = diagnostics or experiment.problem.public
    asked = _sweep(experiment, grid, seeds, _metric(experiment, metric, everything))
    asked.planned()  # what is wrong with the settings is said before anything runs
    operators = cluster.asked() if cluster.asked() != cluster.ASK and not tables else ""
    with (
        computing(store, workers, dask or operators) as chosen,
        stopped_by_ctrl_c() as stopping,
        Progress(quiet) as progress,
    ):
        result = _followed(asked, tables, chosen, stopping, progress)
        kept = chosen.keeps(Cell(experiment, tables).repeatable)
    result = result.visible(everything)
    _tell(asked, [text.partition("=")[0].strip() for text in grid], result, out)
    if result.cut:
        again = "goes on from there" if kept else "begins again, because nothing is kept in a store"
        again = f"The same command {again}."
        click.echo(f"Stopped after {result.finished} of {result.points} points. {again}", err=True)
        return INTERRUPTED
    return int(result.finished < result.points)  # some have failed, as was said


def _sweep(experiment: Experiment, grid: Sequence[str], seeds: str | None, metric: str) -> Sweep:
    if len(grid) > 2:
        raise click.UsageError("A sweep has one --grid, or two.")
    (fields, values), *others = (varied(experiment, text) for text in grid)
    seed, _, listed = (seeds or "").rpartition("=")
    seed = seed or data_seed(experiment)
    found = numbers(listed) if seeds else ()
    if seeds and not seed:
        raise UserError("The data of these settings are not generated, so they have no seed. Leave --seeds out.")
    if not all(number.is_integer() for number in found):
        raise UserError("Seeds are whole numbers, such as --seeds 0,1,2.")
    with sentences(Sweep):
        second = Axis(fields=others[0][0], values=others[0][1]) if others else None
        return Sweep(
            experiment=experiment,
            fields=fields,
            values=values,
            second=second,
            metric=metric,
            data_seed=seed if seeds else "",
            data_seeds=tuple(int(number) for number in found),
        )


def _metric(experiment: Experiment, asked: str, everything: bool) -> str:
    """The metric that was asked for, or else the first one of the page. Raises UserError for one that is not there, or
    may not be shown of the user's own file: what is not released reads the raw data."""
    recorded = experiment.metrics()
    shown = [name for name, metric in recorded.items() if everything or metric.released]
    if not shown:
        raise UserError("These methods release no series. --diagnostics shows what reads your raw data.")
    if asked and asked not in shown:
        hidden = " It reads your raw data; --diagnostics shows it." if asked in recorded else ""
        raise UserError(f"No method records '{asked}' for you to see.{hidden} There are: {', '.join(shown)}.")
    return asked or shown[0]


def _followed(
    asked: Sweep,
    tables: Mapping[str, np.ndarray],
    chosen: Computing,
    stopping: threading.Event,
    progress: Progress,
) -> SweepResult:
    """Run a sweep, saying how far it is."""
    began, result = time.monotonic(), None

    def tell(step: SweepStep) -> None:
        gone = time.monotonic() - began
        told = asked.experiment.public  # how long it takes is a function of the data
        left = seconds_left(gone, step.progress, step.restored) if told else None
        points = f"{step.result.finished} of {step.result.points} points"
        progress.tell(step.progress, points + (f", {duration(left)} left" if left and gone > 1 else ""), points)

    try:
        for step in asked.stream(tables, chosen.executor, stopping, tell):
            result = step.result
    except UserError as error:  # the settings are in order, so all runs have failed
        raise click.ClickException(str(error)) from None
    assert result is not None  # a sweep has a point that can be run
    return result


def _tell(asked: Sweep, settings: Sequence[str], result: SweepResult, out: Path | None) -> None:
    """Write the file, print the medians, and say what is missing. settings : what is varied, as it was asked for."""
    frame = result.to_frame()
    if len(frame):
        with rescued(lambda: frame):
            try:
                if out is not None:
                    write(export.sweep_to_table(result), list(export.sweep_header(asked)), out)
            finally:
                label = result.metric.label if result.metric else result.metric_name
                click.echo(f"{label}, median over all runs and data sets")
                click.echo(shown(_medians(frame, settings)))
        if condition := condition_of(asked.experiment.problem.from_data):
            click.echo(f"What private methods release is private at the budget of its point{condition}.")
    for reason, methods in by_reason(result.left_out, asked.places).items():
        click.echo(f"Left out: {methods}. {reason}", err=True)


def _medians(frame: pd.DataFrame, settings: Sequence[str]) -> pd.DataFrame:
    """A row for every value of the setting, or pair of values; a column for every method."""
    names = dict(zip(("setting", "second_setting"), settings, strict=False))
    found = frame.groupby([*names, "algorithm"])["value"].median().unstack("algorithm")
    methods = list(dict.fromkeys(frame["algorithm"]))
    return found[methods].reset_index().rename(columns=names).rename_axis(columns=None)
