"""Downloads: the numbers of a run as CSV, the program or notebook that computes them again, the report of a plan.

Notebooks are Jupyter's (nbformat 4.5): a program in cells, to be run and changed.
"""

import html
import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from dpviz import templates
from dpviz.datasets import Upload
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.exports import spreadsheets
from dpviz.later import pd
from dpviz.numbers import rounded_up, short, short_down, short_up
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import CONFIDENCE, Analyses, PlannedStatistic
from dpviz.privacy.statistics.noisy_means import protected_change
from dpviz.problems.base import Condition
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.version import VERSION

# ------------------------------------------ a plan for several analyses in plain words, for readers who decide on it

# Characters that change the direction of writing: after such a one, 21 may appear as 12.
_DIRECTIONS = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def to_report(plan: Analyses, budget: Budget, delta: float, relative: float, day: str) -> str:
    """Return a plan for several analyses as a self-contained HTML page, in which texts of the user are never markup.

    budget : shared by the analyses. delta : at which ε is read, if the budget has no δ. relative : the relative error
        for which the needed rows are computed. day : the date of the report, as text.
    """
    planned, delta = plan.planned(budget), budget.own_delta(delta)
    total = allocation.joint_guarantee([analysis.share for analysis in planned], delta)
    # The total privacy loss in each currency in which it is known.
    readings = [(unit.name, total.values.get(name)) for name, unit in UNITS.items()]
    readings.append((f"ε at δ = {short_up(delta)}", total.values.get("epsilon_at_delta")))
    events = allocation.joint_events([(analysis.share.analysis, analysis.event) for analysis in planned])
    return templates.render(
        "exports/templates/analyses_report.html.j2",
        text=_text,
        noise_and_error=_noise_and_error,
        row=partial(_row, relative=relative),
        version=VERSION,
        day=day,
        plan=plan,
        budget=budget,
        planned=planned,
        readings=[(unit, short_up(value)) for unit, value in readings if value is not None],
        # Per cent of right guesses between two equally likely data sets, (1 + TPR - FPR)/2, of the best attacker of
        # these releases; the guarantee may allow more.
        right=short_up(50 * (1 + tradeoffs.advantage(events))),
        # Per cent of releases in which all errors are within their limits at once, since the noises are independent.
        all_at_once=short_down(100 * CONFIDENCE ** len(planned)),
    )


def _noise_and_error(p: PlannedStatistic) -> str:
    """Return sentences about the noise of one planned analysis `p` and about the error that it causes."""
    unit = f" {p.statistic.unit}" if p.statistic.unit else ""
    value_count = p.statistic.value_count
    if p.statistic.is_ratio(p.relation):
        rows = f"{value_count:,} groups of equal size" if value_count > 1 else f"{p.rows:,} rows"
        noise = (
            f"{p.noise.capitalize()} noise is added to a sum and to the number of rows, which are not published but in "
            f"their ratio. The error is for {rows}; with fewer rows it is larger."
        )
    elif p.standard_deviation is None:  # a quantile, drawn by the exponential mechanism
        noise = (
            "One of its values is drawn at random, the more often the nearer it is to the wanted rank. How far off it "
            "is in ranks is how many rows lie in between."
        )
    else:
        target = f"each of its {value_count:,} numbers" if value_count > 1 else "it"
        deviation = short_up(p.standard_deviation)
        noise = f"{p.noise.capitalize()} noise of standard deviation {deviation} is added to {target}"
        if p.statistic.is_rounded:
            noise += ", and what comes out is rounded to whole numbers, which costs no privacy"
        noise += "."
    subject = f"the published {p.statistic.title.lower()}"
    if value_count > 1:
        subject = f"one number of {subject}"
    error = f"In 95 of 100 releases {subject} is off by at most {short_up(p.error)}{unit}"
    if p.largest_error is not None:
        error += f"; in 95 of 100 none of its {value_count:,} numbers by more than {short_up(p.largest_error)}{unit}"
    error += "."
    if p.is_drowned:
        error += " That is as much as so many rows can give: it says nothing."
    return f"{noise} {error}"


def _row(p: PlannedStatistic, relative: float) -> tuple[str, ...]:
    """Return a planned analysis `p` as a row of the report's table: name, share, spent budget, error, needed rows."""
    assert p.share.fraction is not None  # only an analysis with a budget of its own has none
    return (
        p.statistic.name,
        f"{short(100 * p.share.fraction)} %",
        described(p.event),
        f"{short_up(p.error)} {p.statistic.unit or 'in the unit of the column'}",
        f"{p.rows_needed(relative):,} for an error of {short(100 * relative)} % of {p.statistic.reference_name}",
    )


def _text(sentence: str) -> str:
    """Return a sentence as HTML, where **bold** words are the only markup.

    Characters that would change the direction of writing appear as codes.
    """
    literal = html.escape(_DIRECTIONS.sub(lambda match: f"\\u{ord(match[0]):04x}", sentence))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", literal)


# ------------------------------------------------------------------------------------ a run: numbers, program, notebook

NOT_PRIVATE = "_nonprivate"  # ending of the names of columns and metrics that are not private
_INDEX = ("algorithm", "replicate", "iteration")


def file_name(page: str, experiment: Experiment, extension: str) -> str:
    """Return the name of a download, `dpviz_<page>_<hash>.<extension>`, with a hash of the settings."""
    return f"dpviz_{page}_{experiment.content_hash()[:8]}.{extension}"


def to_csv(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float = 1e-6) -> str:
    """Return every value of the trace as CSV, one row per algorithm, replicate and iteration.

    Read it with pandas and comment="#": the header lines start with "#". They have the version, the settings as JSON,
    the guarantee and the meaning of the columns; the cost of publishing several runs, with ε at `delta` where the
    budget has no δ; and ε of one run of each method, on a finer grid than the page's.

    Columns that read raw data end in _nonprivate, and so does every value of an arm without privacy; give
    `trace.visible(False)` to leave them out. Where facts of the plan were read from the data, or where noise on data
    that are not public follows from a seed that was set, the names of all columns end so, and the header gives the
    reason.

    noise_scale is the noise of an iteration; where that depends on earlier releases, noise_scale_at_most is a bound.

    The column spent_epsilon, spent_mu or spent_rho, by the budget, is the privacy that each replicate was charged; of
    methods that stop by themselves, the column ceiling_… is the guarantee. status is running, converged, budget,
    exhausted or diverged for each replicate, and stopped_at the iteration after which it stopped by itself. A label
    that a spreadsheet would run begins with an apostrophe: see `spreadsheets`.

    >>> import io
    >>> from dpviz.experiments.experiment import Arm
    >>> from dpviz.families.accelerated import Nesterov
    >>> from dpviz.problems.linear.quadratic import Quadratic
    >>> arms = (Arm(label="NAG", algorithm=Nesterov(iterations=5)),)
    >>> experiment = Experiment(problem=Quadratic(), arms=arms, replicates=2)
    >>> text = to_csv(experiment.run(), experiment, experiment.plans())
    >>> frame = pd.read_csv(io.StringIO(text), comment="#")
    >>> sorted(set(frame["replicate"]))
    [0, 1]
    """
    return spreadsheets.as_csv(to_table(trace, plans), header(trace, experiment, plans, delta))


def to_table(trace: Trace, plans: Mapping[str, Plan]) -> "pd.DataFrame":
    """Return the table of `to_csv`, without its header lines."""
    tables = [_arm_columns(trace, label, plan) for label, plan in plans.items() if label in trace.arm_traces]
    columns = dict.fromkeys([*_INDEX, *(name for table in tables for name in table)])  # each name once, in this order
    return pd.concat([pd.DataFrame(table) for table in tables], ignore_index=True).reindex(columns=list(columns))


def sweep_to_csv(result: SweepResult, sweep: Sweep) -> str:
    """Return the last number of every run of a sweep as CSV, below header lines as those of `to_csv`.

    A row has the method, the value of the setting, the data set, the run and the number.
    Metrics that read raw data end in _nonprivate; give `result.visible(False)` to leave them out.
    """
    return spreadsheets.as_csv(sweep_to_table(result), sweep_header(result, sweep))


def sweep_to_table(result: SweepResult) -> "pd.DataFrame":
    """Return the table of `sweep_to_csv`, without its header lines."""
    frame = result.to_frame()
    frame["metric"] += np.where(frame["released"], "", NOT_PRIVATE)
    return frame.drop(columns="released")


def sweep_header(result: SweepResult, sweep: Sweep) -> Iterator[str]:
    """Yield the header lines of a sweep's table."""
    yield f"dpviz {VERSION}"
    yield f"sweep: {spreadsheets.escape_settings(sweep.to_json())}"
    yield f"setting: {', '.join(sweep.fields)}"
    if sweep.second is not None:
        yield f"second_setting: {', '.join(sweep.second.fields)}"
    yield f"unit of protection: {sweep.experiment.problem.unit}"
    condition = sweep.condition
    yield from _warnings(condition)
    if result.finished < result.points:
        depends = "" if result.public else ": which ones depends on the data, and no guarantee covers that"
        yield f"{result.finished} of {result.points} points are finished{depends}"
    yield "every run of a private method is a release at the budget of the method at its point"
    if result.price:
        yield f"publishing all of it: {result.price}{condition}"
    yield f"metrics ending in {NOT_PRIVATE} are not private: do not publish them"


def _arm_columns(trace: Trace, label: str, plan: Plan) -> dict[str, Any]:
    """Return the columns of the arm `label` by name, with one entry per iteration and replicate."""
    arm_trace = trace.arm_traces[label]
    # The iterations (k,) and the numbers (k, replicates) of every metric that has any.
    series = {metric: trace.series(label, metric.name, gaps=True) for metric in arm_trace.metrics}
    series = {metric: (recorded, values) for metric, (recorded, values) in series.items() if len(recorded)}
    # A growing trace may have one more record of some metrics than of others.
    count = min((len(recorded) for recorded, _ in series.values()), default=len(arm_trace.iterations))
    replicates = len(arm_trace.status)
    iterations = np.repeat(np.array(arm_trace.iterations[:count], dtype=int), replicates)
    table = {"algorithm": label, "replicate": np.tile(np.arange(replicates), count), "iteration": iterations}
    _, charged = trace.spent(label)  # (k, replicates), at the recorded iterations
    if arm_trace.currency is not None and len(charged) >= count:  # not while a growing trace lacks a charge
        table[f"spent_{arm_trace.currency}"] = charged[:count].ravel()
        if plan.stops:
            table[f"ceiling_{arm_trace.currency}"] = plan.statement.spent(arm_trace.currency)[-1]  # at the last step
    outcome = {"status": np.array(arm_trace.statuses[:count]).ravel()}
    if len(arm_trace.stopped_at):
        has_stopped = arm_trace.stopped_at >= 0  # it is -1 for others
        outcome["stopped_at"] = np.tile(np.where(has_stopped, arm_trace.stopped_at, np.nan), count)
    mark = "" if arm_trace.private else NOT_PRIVATE
    table |= {name + mark: values for name, values in outcome.items()}
    if plan.passes is not None:
        table[results.PASSES] = plan.passes[iterations]
    ending = "_at_most" if plan.noise_varies else ""  # varies with earlier releases: the planned noise is a bound
    for name, scale in plan.noise.items():
        column = f"noise_scale_{name}" if len(plan.noise) > 1 else "noise_scale"
        table[column + ending] = np.append(np.nan, scale)[iterations]  # iteration 0, the start, has no noise
    for metric, (_, numbers) in series.items():
        mark = "" if arm_trace.released(metric) else NOT_PRIVATE
        table[metric.name + mark] = numbers[:count].ravel()
    if arm_trace.condition:  # all follows from facts read from the data, or from noise with a known seed
        table = {
            name if name in _INDEX or name.endswith(NOT_PRIVATE) else name + NOT_PRIVATE: values
            for name, values in table.items()
        }
    return table


def header(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float) -> Iterator[str]:
    """Yield the header lines of a run's table."""
    yield f"dpviz {VERSION}"
    yield f"settings: {spreadsheets.escape_settings(experiment.to_json())}"
    yield f"unit of protection: {experiment.problem.unit}"
    yield f"guarantee of one run of each private method: {experiment.guarantee}"
    yield from _warnings(experiment.condition)
    if trace.time_note:
        yield f"the run: {trace.time_note}"
    yield f"columns ending in {NOT_PRIVATE} are not private: do not publish them"
    costs = results.costs(plans, trace.arm_traces, experiment.budget, experiment.replicates, delta)
    for sentence in results.cost_sentences(costs):
        yield f"publishing {sentence}"
    # ε at δ of one run of each method, with more digits than on the page.
    for label, plan in plans.items():
        if label not in trace.arm_traces:
            continue
        statement = plan.statement
        own_delta = statement.budget.own_delta(delta)
        proof = accountants.tightest(statement.events, own_delta, prior=statement.facts.released, precision="fine")
        if math.isfinite(proof.epsilon):
            method = accountants.METHOD_NAMES[proof.method]
            yield (
                f"one whole run of {label}: epsilon = {rounded_up(proof.epsilon, 9):.9g} at delta = {own_delta!r} "
                f"({method}, {proof.precision} grid){plan.condition}"
            )


def _warnings(condition: Condition) -> Iterator[str]:
    """Yield header lines that warn if the settings hold a seed of private noise, or were read from the data."""
    if condition.seeded:
        yield "not private: the settings above hold the seed of the noise, and who knows it can subtract the noise"
    if condition.read:
        facts = "; ".join(condition.read)
        yield f"read from the data, and paid for by no budget: {facts}; the settings above state them as read"
        yield "not private: whatever follows from them, all values below included, unless they were known beforehand"


def to_settings(experiment: Experiment) -> str:
    """Return the experiment as indented JSON, for a person to read and change; `Experiment.from_json` takes it."""
    return json.dumps(json.loads(experiment.to_json()), indent=2, ensure_ascii=False) + "\n"


def to_script(experiment: Experiment, page: str = "experiment") -> str:
    """Return a plain Python program that runs the experiment with `dpviz` and prints the final table.

    With a seed its numbers are those of the page. The program does not contain the rows of an upload: it takes the path
    of the user's file, and builds the table from it by the declarations in its settings.

    >>> from dpviz.experiments.experiment import Arm
    >>> from dpviz.families.accelerated import Nesterov
    >>> from dpviz.problems.linear.quadratic import Quadratic
    >>> experiment = Experiment(problem=Quadratic(), arms=(Arm(label="NAG", algorithm=Nesterov()),))
    >>> compile(to_script(experiment), "script.py", "exec")  # doctest: +ELLIPSIS
    <code object <module> ...>
    """
    name = file_name(page, experiment, "py")
    values = _values(experiment) | {"picture": name.removesuffix("py") + "html"}
    return templates.render("exports/templates/experiment.py.j2", version=VERSION, name=name, **values)


def to_notebook(experiment: Experiment) -> str:
    """Return the program of `to_script` as a Jupyter notebook; for an upload it has a file name, to be replaced."""
    return notebook("experiment", **_values(experiment))


def _values(experiment: Experiment) -> dict[str, Any]:
    """Return the values that fill the templates of program and notebook, by the names that these use."""
    # The settings as Python source, with one line per setting, or per item of a list, such as an arm. `repr` quotes
    # labels, so that no label becomes code.
    lines = ["{"]
    for name, value in json.loads(experiment.to_json()).items():
        if isinstance(value, list):
            lines += [f"    {name!r}: [", *(f"        {item!r}," for item in value), "    ],"]
        else:
            lines.append(f"    {name!r}: {value!r},")
    return {
        "upload": isinstance(experiment.problem.dataset, Upload),
        "secret_seed": experiment.seed is None,
        "unit": experiment.problem.unit,
        "condition": experiment.condition,
        "settings": "\n".join([*lines, "}"]),
    }


_PYTHON = {  # metadata of a notebook
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(template: str, **values: Any) -> str:
    """Return a notebook, not run yet, whose cells come from a template.

    template : the beginning of the template's file name, such as "experiment". values : fill the template.
    """
    sources = templates.cells(f"exports/templates/{template}_notebook.py.j2", version=VERSION, **values)
    cells: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(sources, 1):
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    content = {"cells": cells, "metadata": _PYTHON, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def analyses_to_notebook(plan: Analyses, budget: Budget, delta: float, relative: float) -> str:
    """Return a notebook that computes the numbers of a plan for several analyses; parameters as of `to_report`."""
    return notebook(
        "analyses",
        plan=plan,
        change=protected_change(plan.relation, plan.rows_per_person),
        noise=repr(plan.noise),
        kinds=sorted({"Analyses", *(type(statistic).__name__ for statistic in plan.statistics)}),
        currency=type(budget).__name__,
        budget=budget.to_python(),
        delta=repr(budget.own_delta(delta)),
        relative=repr(relative),
    )
