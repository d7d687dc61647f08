"""The commands `dpviz run`, which runs one experiment to its end, and `dpviz sweep`, which runs one at several values
of one or two settings."""

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

import click
import numpy as np

from dpviz.cli import INTERRUPTED, files
from dpviz.cli.files import Command, delta_option, print_refusals, saved_on_failure, table_as_text, write, write_page
from dpviz.errors import UserError
from dpviz.execution import cluster
from dpviz.execution.backend import Backend, open_backend
from dpviz.execution.progress import AT_LIMIT, DEPENDS
from dpviz.execution.store import VARIABLE
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import final_table, marked
from dpviz.experiments.task import Cell, Ending, Outcome, seconds_left
from dpviz.experiments.trace import Trace
from dpviz.exports import export
from dpviz.later import pd
from dpviz.numbers import duration, short_up
from dpviz.sweeps.sweep import Axis, Sweep, SweepStep, data_seed
from dpviz.sweeps.sweep_result import SweepResult, by_reason

# ------------------------------------------------------------------------------- the executor, the progress, and Ctrl+C

STEPS = 1000  # units into which the progress bar is divided


def common_options(command: Command) -> Command:
    """Add the options --diagnostics, --store, --max-seconds and --quiet to a command."""
    for option in (
        click.option(
            "--max-seconds",
            type=click.FloatRange(0, min_open=True),
            callback=files.not_nan,
            default=math.inf,
            metavar="SECONDS",
            help="Stop after so much computing time, and keep what was computed. Default: no limit.",
        ),
        click.option("--quiet", "-q", is_flag=True, help="No progress."),
        click.option(
            "--store",
            metavar="PATH|off",
            default="",
            help=f"Where finished runs are kept, or off. Default: the variable {VARIABLE}, or your cache folder.",
        ),
        click.option(
            "--diagnostics",
            is_flag=True,
            help="Of your own file also what reads the raw data. That is not private: do not publish it.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def computing(store: str, max_seconds: float, workers: int = 1, address: str = "") -> Iterator[Backend]:
    """Yield the backend that `open_backend` makes of a command's options; at the end, print problems of the store."""
    with open_backend(store, max_seconds, workers, cluster=address) as backend:
        try:
            yield backend
        finally:
            if backend.store is not None and backend.store.note:
                click.echo(backend.store.note, err=True)


class Progress:
    """The progress of a command: a bar on a terminal, elsewhere a line whenever the line changes.

    Any thread may call it. Where it cannot be written, as on a terminal that was closed, the run goes on.

    quiet : true to print nothing. timed : true if the remaining time may be printed; it depends on the data.
    """

    def __init__(self, quiet: bool, timed: bool) -> None:
        self._quiet, self._timed, self._lock, self._last = quiet, timed, threading.Lock(), ""
        self._began = time.monotonic()
        self._bar = None
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            self._bar = click.progressbar(
                length=STEPS,
                file=sys.stderr,
                show_eta=False,
                show_percent=True,
                item_show_func=lambda text: text,
                update_min_steps=0,  # the text may change where the bar does not
            )

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            with suppress(OSError):
                self._bar.render_finish()

    def time_left(self, share: float, restored: float = 0.0) -> str:
        """Return a text such as "8 seconds left"; empty while there is no estimate, and in the first second.

        share : progress in [0, 1]. restored : the part of it that came from the store and took no time.
        """
        elapsed = time.monotonic() - self._began
        remaining = seconds_left(elapsed, share, restored) if self._timed else None
        return f"{duration(remaining)} left" if remaining and elapsed > 1 else ""

    def update(self, share: float, text: str, line: str) -> None:
        """Show the progress.

        share : progress in [0, 1]. text : printed next to the bar. line : printed instead of the bar where there is no
            terminal.
        """
        with self._lock, suppress(OSError):
            if self._bar is not None:
                self._bar.update(round(share * STEPS) - self._bar.pos, text)  # click takes the advance
            elif not self._quiet and line != self._last:
                click.echo(line, err=True)
            self._last = line


@contextmanager
def stopped_by_ctrl_c() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl+C during the body sets; the second one ends the program."""
    stopping = threading.Event()

    def interrupt(_: int, __: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()
        click.echo("\nStopping. Press Ctrl+C again to end at once.", err=True)

    old_handler = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, old_handler)


# --------------------------------------------------------------------------------------------------------- the commands

NO_SERIES = "These methods release no series. --diagnostics shows what reads your raw data."
LARGE = 1e9  # bytes of memory above which a run prints its estimate
PROCESS = 0.25e9  # bytes of a process and its libraries, before it runs anything


@click.command()
@files.settings_options
@files.out_option("Every recorded value: .csv, as the page saves it, or .parquet.")
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=files.writable_page,
    help="The picture and the plan, as HTML.",
)
@files.table_option
@delta_option
@common_options
def run(
    *,
    experiment: Experiment,
    out: Path | None,
    figure: Path | None,
    table: Path | None,
    delta: float,
    diagnostics: bool,
    store: str,
    max_seconds: float,
    quiet: bool,
) -> int:
    """Run an experiment and print what its methods come to.

    The numbers are those of the page. A run that was made before is found in the store, and takes no time.
    """
    planned = experiment.planned()
    experiment = planned.ready()  # the methods that have a plan; raises the error of the first if none has
    print_refusals(planned.refused)
    cell = Cell(experiment, files.tables_of(experiment, table, in_blocks=True))
    if not experiment.public and not quiet:
        runs = [(plan, experiment.replicates) for plan in planned.plans.values()]
        click.echo(f"This run makes {results.describe_releases(runs, experiment.budget)}.", err=True)
    size = PROCESS + experiment.estimated_bytes(planned.plans)
    if size > LARGE and not quiet:
        click.echo(f"Needs at most about {short_up(size / 1e9, 2)} GB of memory.", err=True)
    with computing(store, max_seconds) as backend:
        outcome = _run(backend, cell, quiet)
    if outcome.state == "failed":
        raise click.ClickException(outcome.message)
    if outcome.trace is not None:
        trace = outcome.trace.visible(diagnostics or experiment.problem.public)
        delta = experiment.budget.own_delta(delta)  # the budget's own δ, if it has one
        _print_results(trace, experiment, planned.plans, delta, out)
        if figure is not None:
            _draw(trace, experiment, diagnostics, figure)
    if outcome.state == "done":
        return 0
    saved = f" {out} has what was recorded until then." if out and outcome.trace is not None else ""
    again = "A single run cannot be continued; the same command begins it again."
    click.echo(f"{_ending_in_words(outcome.state, experiment)}{saved} {again}", err=True)
    return INTERRUPTED


def _ending_in_words(state: Ending, experiment: Experiment) -> str:
    """Return why a run did not end by itself, in a sentence; a second one says if the time of its end depends on data
    that are not public. state : its state at the end."""
    if state != "timeout":
        return "Stopped before the end."
    return f"{AT_LIMIT}." if experiment.public else f"{AT_LIMIT}. {DEPENDS}"


def _run(backend: Backend, cell: Cell, quiet: bool) -> Outcome:
    """Run a cell, show its progress, and return the outcome."""
    with stopped_by_ctrl_c() as stopping, Progress(quiet, cell.experiment.public) as progress:

        def on_progress(_: int, trace: Trace | None, share: float) -> None:
            line = "" if trace is None else f"{10 * int(10 * share)} %"  # at every tenth; "" is not printed
            progress.update(share, progress.time_left(share), line)

        ((_, outcome),) = backend.executor.run([cell], stopping, on_progress)
    if outcome.restored and not quiet:
        click.echo("This run was made before: its numbers come from the store.", err=True)
    return outcome


def _print_results(
    trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float, out: Path | None
) -> None:
    """Write the file `out`, if there is one, and print the final table and the cost of publishing the results."""
    with saved_on_failure(trace.to_frame):
        try:
            if out is not None:
                write(export.to_table(trace, plans), export.header(trace, experiment, plans, delta), out)
        finally:  # the table is printed even if the file cannot be written
            table = final_table(trace, plans, delta=delta).drop(columns="seconds", errors="ignore")
            if not experiment.problem.public:
                table = marked(table, trace)
            headings = {  # of the page; also for names that end in the mark of values that are not private
                name + mark: column.label + mark
                for name, column in results.columns(trace).items()
                for mark in ("", results.NOT_PRIVATE)
            }
            click.echo(table_as_text(table, headings))
    costs = results.costs(plans, trace.arm_traces, experiment.budget, experiment.replicates, delta)
    for sentence in results.cost_sentences(costs):
        click.echo(f"Publishing {sentence}")
    if experiment.condition or not experiment.public:
        click.echo(f"Guarantee: {experiment.promise}.")


def _draw(trace: Trace, experiment: Experiment, diagnostics: bool, path: Path) -> None:
    """Write the picture of the run and of its plan's noise as an HTML page."""
    displayed = import_module("dpviz.plots.displayed")  # imports plotly, which no other command needs
    settings = f"{experiment.to_json()}\n\nGuarantee: {experiment.promise}."
    subjects = (trace, experiment) if trace.metrics else (experiment,)
    if not trace.metrics:
        click.echo(f"{NO_SERIES} {path} has the plan alone.", err=True)
    write_page(displayed.page(subjects, settings, diagnostics), path)


@click.command()
@files.settings_options
@click.option(
    "--grid",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="A setting and its values, such as epsilon=0.1,0.3,1. Once or twice. A wrong name is answered with all names; "
    "an address such as budget.epsilon will do, too.",
)
@click.option("--seeds", metavar="SEEDS", help="On several data sets, generated from these seeds, such as 0,1,2.")
@click.option("--metric", default="", help="What is kept of every run, at its end. Default: as on the page.")
@files.out_option("The last number of every run: .csv or .parquet.")
@files.table_option
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that compute at the same time.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    default="",
    help=f"The workers of a Dask cluster compute, such as tcp://host:8786. Default: the variable {cluster.VARIABLE}.",
)
@common_options
def sweep(
    *,
    experiment: Experiment,
    grid: tuple[str, ...],
    seeds: str | None,
    metric: str,
    out: Path | None,
    table: Path | None,
    workers: int,
    dask: str,
    diagnostics: bool,
    store: str,
    max_seconds: float,
    quiet: bool,
) -> int:
    """Run an experiment over a grid, and print the medians.

    The grid has the values of one setting, or of two. Every finished point is kept in the store. Stop with Ctrl+C, or
    lose the machine: the same command goes on from there, and a sweep that is repeated is there at once.
    """
    tables = files.tables_of(experiment, table)
    with_diagnostics = diagnostics or experiment.problem.public  # true if values that read the raw data may be shown
    grid_sweep = _sweep(experiment, grid, seeds, _metric(experiment, metric, with_diagnostics))
    price = grid_sweep.price(grid_sweep.planned())  # raises errors in the settings before anything runs
    if price and not quiet:
        click.echo(f"This sweep makes {price}.", err=True)
    # The operator's cluster, unless its address is to be asked for on the page. A visitor's file is never sent there;
    # with --dask such a sweep fails, and says so.
    setting = cluster.configured_address()
    operators_address = setting if setting != cluster.ASK and not tables else ""
    with (
        computing(store, max_seconds, workers, dask or operators_address) as backend,
        stopped_by_ctrl_c() as stopping,
        Progress(quiet, experiment.public) as progress,
    ):
        result = _run_sweep(grid_sweep, tables, backend, stopping, progress)
        is_kept = backend.keeps(Cell(experiment, tables))
    result = result.visible(with_diagnostics)
    _print_sweep(grid_sweep, [text.partition("=")[0].strip() for text in grid], result, out)
    if result.cut:
        next_time = "goes on from there" if is_kept else "computes again what is in no store"
        again = f"The same command {next_time}."
        done = f"{result.finished} of {result.points} points are finished."
        click.echo(f"{_ending_in_words(result.cut, experiment)} {done} {again}", err=True)
        return INTERRUPTED
    return int(result.finished < result.points)  # 1 if points failed, which were printed above


def _sweep(experiment: Experiment, grid: Sequence[str], seeds: str | None, metric: str) -> Sweep:
    """Return the sweep that the options of the command describe.

    grid : one or two texts such as "epsilon=0.1,0.3". seeds : such as "0,1,2", for the seed of the data, or with the
        name of another seed, "name=0,1,2"; None without them. metric : name of the metric whose last value is kept.

    Raises UserError, or click's UsageError, for options that make no sweep.
    """
    if len(grid) > 2:
        raise click.UsageError("A sweep has one --grid, or two.")
    (fields, values), *others = (files.parse_grid(experiment, text) for text in grid)
    seed_address, seed_values = "", tuple[float, ...]()
    if seeds:
        name, _, seed_numbers = seeds.rpartition("=")
        seed_address, seed_values = name or data_seed(experiment), files.parse_numbers(seed_numbers)
        if not seed_address:
            raise UserError("The data of these settings are not generated, so they have no seed. Leave --seeds out.")
        if not all(number.is_integer() for number in seed_values):
            raise UserError("Seeds are whole numbers, such as --seeds 0,1,2.")
    return Sweep(
        experiment=experiment,
        fields=fields,
        values=values,
        second=next((Axis(fields=addresses, values=numbers) for addresses, numbers in others), None),
        metric=metric,
        data_seed=seed_address,
        data_seeds=tuple(int(number) for number in seed_values),
    )


def _metric(experiment: Experiment, name: str, with_diagnostics: bool) -> str:
    """Return the name of the metric that the user gave by name or label; for "", the first one of the page.

    with_diagnostics : true if metrics that read the raw data may be shown, as all do that are not released.

    Raises UserError for a metric that is not recorded or may not be shown.
    """
    recorded = experiment.metrics()
    name = next((key for key, metric in recorded.items() if name in (key, metric.label)), name)
    visible = [key for key, metric in recorded.items() if with_diagnostics or metric.released]
    if not visible:
        raise UserError(NO_SERIES)
    if name and name not in visible:
        hidden = " It reads your raw data; --diagnostics shows it." if name in recorded else ""
        raise UserError(f"No method records '{name}' for you to see.{hidden} There are: {', '.join(visible)}.")
    return name or visible[0]


def _run_sweep(
    sweep: Sweep, tables: Mapping[str, np.ndarray], backend: Backend, stopping: threading.Event, progress: Progress
) -> SweepResult:
    """Run a sweep, show its progress, and return the results."""
    result = None
    line_at: dict[int, str] = {}  # by number of finished points, for a log: the first text, so that each has one line

    def on_step(step: SweepStep) -> None:
        points = f"{step.result.finished} of {step.result.points} points"
        remaining = progress.time_left(step.progress, step.restored)
        text = f"{points}, {remaining}" if remaining else points
        progress.update(step.progress, text, line_at.setdefault(step.result.finished, text))

    try:
        for step in sweep.stream(tables, backend.executor, stopping, on_step):
            result = step.result
    except UserError as error:  # the settings are in order, so all runs have failed
        raise click.ClickException(str(error)) from None
    assert result is not None  # a sweep has a point that can be run
    return result


def _print_sweep(sweep: Sweep, settings: Sequence[str], result: SweepResult, out: Path | None) -> None:
    """Write the file `out`, if there is one, print the medians and the price, and list missing results.

    settings : names of the varied settings, as the user wrote them.
    """
    frame = result.to_frame()
    if not sweep.experiment.problem.public:
        released = [label for label, curve in result.curves.items() if curve.privacy != "not private"]
        frame["algorithm"] += np.where(frame["algorithm"].isin(released), "", results.NOT_PRIVATE)
    if len(frame):
        with saved_on_failure(lambda: frame):
            try:
                if out is not None:
                    write(export.sweep_to_table(result), export.sweep_header(result, sweep), out)
            finally:  # the medians are printed even if the file cannot be written
                label = result.metric.label if result.metric else result.metric_name
                click.echo(f"{label}, median over all runs and data sets")
                click.echo(table_as_text(_medians(frame, settings)))
        condition, problem = sweep.condition, sweep.experiment.problem
        if condition or not problem.public:
            separator = ";" if problem.from_data else ","  # the condition then ends in a list
            unit = f"{separator} {problem.unit}"  # of protection, such as "one row replaced"
            where = "at the budget of the method at its point"
            click.echo(f"What private methods release is private {where}{condition}{unit}.")
        if result.price:
            click.echo(f"Publishing all of it: {result.price}{condition}.")
    for reason, methods in by_reason(result.left_out, sweep.points_per_data_set).items():
        click.echo(f"Left out: {methods}. {reason}", err=True)


def _medians(frame: "pd.DataFrame", settings: Sequence[str]) -> "pd.DataFrame":
    """Return a table of medians with a column for every method.

    It has a row for every value of the varied setting, or for every pair of values of two settings.

    frame : the results of `SweepResult.to_frame`. settings : names of the varied settings.
    """
    names = ["setting", "second_setting"][: len(settings)]
    medians = frame.groupby([*names, "algorithm"])["value"].median().unstack("algorithm")
    methods = list(dict.fromkeys(frame["algorithm"]))
    # A method may have the name of a setting.
    table = medians[methods].rename_axis(index=list(settings), columns=None).reset_index(allow_duplicates=True)
    for position in range(len(names)):  # with all digits, by which values that are close to each other differ
        texts = [np.format_float_positional(value, trim="-") for value in table.iloc[:, position]]
        table.isetitem(position, texts)
    return table
