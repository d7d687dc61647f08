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

import dpviz
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
from dpviz.privacy.statistics.analyses import CONFIDENCE, Analyses, Planned
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult

# ------------------------------------------ a plan for several analyses in plain words, for readers who decide on it

_DIRECTIONS = re.compile(
    r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)  # of writing: after such a sign, 21 may appear as 12


def to_report(plan: Analyses, budget: Budget, delta: float, relative: float, day: str) -> str:
    """Return the plan as a self-contained HTML page, in which every text is taken literally.

    delta : δ of ε. relative : the error for which the needed rows are computed. day : of the report, as text.
    """
    planned = plan.planned(budget)
    total = allocation.together([p.share for p in planned], delta)
    readings = [(unit.name, total.values.get(name)) for name, unit in UNITS.items()]
    readings.append((f"ε at δ = {short_up(delta)}", total.values.get("epsilon_at_delta")))
    composed = allocation.composed([(p.share.analysis, p.event) for p in planned])
    return templates.document(
        "exports/templates/analyses_report.html.j2",
        text=_text,
        noise_and_error=_noise_and_error,
        row=partial(_row, relative=relative),
        version=dpviz.__version__,
        day=day,
        plan=plan,
        budget=budget,
        planned=planned,
        readings=[(unit, short_up(value)) for unit, value in readings if value is not None],
        # For the best attacker of these releases, who may achieve less than the guarantee allows.
        right=short_up(50 * (1 + tradeoffs.advantage(composed))),
        all_at_once=short_down(100 * CONFIDENCE ** len(planned)),  # the noises are independent
    )


def _noise_and_error(p: Planned) -> str:
    """Return noise and error of one analysis, in words."""
    unit, values = f" {p.statistic.unit}" * bool(p.statistic.unit), p.statistic.values
    if p.standard_deviation is None:
        noise = (
            "One of its values is drawn at random, by far more often one near the wanted rank. How far off it is in "
            "ranks is how many rows lie in between."
        )
    else:
        to = f"each of its {values:,} numbers" if values > 1 else "it"
        rounded = ", and what comes out is rounded to whole numbers, which costs no privacy" * p.statistic.whole
        noise = f"{p.noise.capitalize()} noise of standard deviation {short(p.standard_deviation)} is added to {to}"
        noise += f"{rounded}."
    subject = f"{'one number of ' * (values > 1)}the published {p.statistic.title.lower()}"
    largest = p.largest_error
    all_of_them = (
        "" if largest is None else f", and none of its {values:,} numbers by more than {short_up(largest)}{unit}"
    )
    lost = " That is as much as so many rows can give: it says nothing." * p.drowned
    return f"{noise} In 95 of 100 releases {subject} is off by at most {short_up(p.error)}{unit}{all_of_them}.{lost}"


def _row(p: Planned, relative: float) -> tuple[str, ...]:
    """Return an analysis as a row of the table: name, share, spent budget, error, needed rows."""
    return (
        p.statistic.name,
        f"{short(100 * (p.share.fraction or 0.0))} %",
        described(p.event),
        f"{short_up(p.error)} {p.statistic.unit or 'in the unit of the column'}",
        f"{p.rows_needed(relative):,} for an error of {short(100 * relative)} % of {p.statistic.of}",
    )


def _text(sentence: str) -> str:
    """Return the sentence as HTML: literal but for **bold** words; signs that would change the direction of writing
    as code."""
    literal = html.escape(_DIRECTIONS.sub(lambda match: f"\\u{ord(match[0]):04x}", sentence))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", literal)


# ------------------------------------------------------------------------------------ a run: numbers, program, notebook

NOT_PRIVATE = "_nonprivate"
_INDEX = ("algorithm", "replicate", "iteration")


def file_name(page: str, experiment: Experiment, extension: str) -> str:
    """Return `dpviz_<page>_<first digits of the settings' hash>.<extension>`: one name per settings."""
    return f"dpviz_{page}_{experiment.content_hash()[:8]}.{extension}"


def to_csv(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float = 1e-6) -> str:
    """Return every value of the trace, one row per algorithm, replicate and iteration; read it with pandas and
    comment="#".

    Header lines start with "#": version, settings as JSON, the guarantee, and the meaning of the columns. Columns that
    read raw data end in _nonprivate, and so does every value of an arm without privacy; give `trace.visible(False)` to
    leave them out. Where facts of the plan were read from the data, or noise on data that are not public follows from a
    seed that was set, all columns end so, and the header gives the reason. The privacy spent is what each replicate was
    charged: spent_epsilon, spent_mu or spent_rho, by the budget; of methods that stop by themselves, with the ceiling,
    which is the guarantee. status is running, converged, budget, exhausted or diverged for each replicate, and
    stopped_at the iteration after which it stopped by itself. The header has the cost of publishing several of them,
    with ε at `delta` where the budget has no δ, and ε of one run of each, on a finer grid than the page's. A label that
    a spreadsheet would run begins with an apostrophe: see `spreadsheets`.

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
    """Return the rows and columns of `to_csv`."""
    parts = [_rows(trace, label, plan) for label, plan in plans.items() if label in trace.lanes]
    columns = dict.fromkeys([*_INDEX, *(name for part in parts for name in part)])
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True).reindex(columns=list(columns))


def sweep_to_csv(result: SweepResult, sweep: Sweep) -> str:
    """Return every last number of a sweep: method, value of the setting, data set and run; as `to_csv` with its header.

    Metrics that read raw data end in _nonprivate; give `result.visible(False)` to leave them out.
    """
    return spreadsheets.as_csv(sweep_to_table(result), sweep_header(result, sweep))


def sweep_to_table(result: SweepResult) -> "pd.DataFrame":
    """Return the rows and columns of `sweep_to_csv`."""
    frame = result.to_frame()
    frame["metric"] += np.where(frame["released"], "", NOT_PRIVATE)
    return frame.drop(columns="released")


def sweep_header(result: SweepResult, sweep: Sweep) -> Iterator[str]:
    """Yield the header lines of a sweep's table."""
    settings = (", ".join(axis.fields) for axis in (sweep, sweep.second) if axis is not None)
    yield f"dpviz {dpviz.__version__}"
    yield f"sweep: {spreadsheets.settings(sweep.to_json())}"
    for name, fields in zip(("setting", "second_setting"), settings, strict=False):
        yield f"{name}: {fields}"
    yield f"unit of protection: {sweep.experiment.problem.unit}"
    yield from _condition(sweep.experiment)
    yield "every row is the last number of one run, and every run a release at the budget of its point"
    if result.price:
        yield f"publishing all of it: {result.price}{sweep.experiment.condition}"
    yield f"metrics ending in {NOT_PRIVATE} are computed from the raw data: they are not private, do not publish them"


def _rows(trace: Trace, label: str, plan: Plan) -> dict[str, Any]:
    """Return the columns of one arm, one entry per iteration and replicate."""
    arm_trace = trace.lanes[label]
    series = {metric: trace.series(label, metric.name, gaps=True) for metric in arm_trace.metrics}
    series = {metric: record for metric, record in series.items() if len(record[0])}
    # A growing trace may have one more record of some metrics than of others.
    count = min((len(recorded) for recorded, _ in series.values()), default=len(arm_trace.iterations))
    replicates = len(arm_trace.status)
    iterations = np.repeat(np.array(arm_trace.iterations[:count], dtype=int), replicates)
    table = {"algorithm": label, "replicate": np.tile(np.arange(replicates), count), "iteration": iterations}
    _, charged = trace.spent(label)
    if arm_trace.currency is not None and len(charged) >= count:
        table[f"spent_{arm_trace.currency}"] = charged[:count].ravel()
        if plan.stops:
            table[f"ceiling_{arm_trace.currency}"] = plan.spent(arm_trace.currency)[-1]
    outcome = {"status": np.array(arm_trace.statuses[:count]).ravel()}
    if len(arm_trace.stopped_at):
        outcome["stopped_at"] = np.tile(np.where(arm_trace.stopped_at < 0, np.nan, arm_trace.stopped_at), count)
    table |= {name + ("" if arm_trace.private else NOT_PRIVATE): values for name, values in outcome.items()}
    if plan.passes is not None:
        table[results.PASSES] = plan.passes[iterations]
    for name, scale in plan.noise.items():
        table[f"noise_scale_{name}" if len(plan.noise) > 1 else "noise_scale"] = np.append(np.nan, scale)[iterations]
    for metric, (_, numbers) in series.items():
        table[metric.name + ("" if arm_trace.released(metric) else NOT_PRIVATE)] = numbers[:count].ravel()
    if arm_trace.condition:  # noise and schedule, too, follow from the facts that were read from the data
        table = {
            name if name in _INDEX or name.endswith(NOT_PRIVATE) else name + NOT_PRIVATE: values
            for name, values in table.items()
        }
    return table


def header(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float) -> Iterator[str]:
    """Yield the header lines of a run's table."""
    yield f"dpviz {dpviz.__version__}"
    yield f"settings: {spreadsheets.settings(experiment.to_json())}"
    yield f"unit of protection: {experiment.problem.unit}"
    yield f"guarantee of one run of each method: {experiment.guarantee}"
    yield from _condition(experiment)
    yield f"columns ending in {NOT_PRIVATE} are computed from the raw data: they are not private, do not publish them"
    for sentence in results.sentences(
        results.costs(plans, trace.lanes, experiment.budget, experiment.replicates, delta)
    ):
        yield f"publishing {sentence}"
    for label, plan in plans.items():
        if label in trace.lanes:
            yield from _guarantee(label, plan, delta)


def _guarantee(label: str, plan: Plan, delta: float) -> Iterator[str]:
    """Yield ε at δ of one run of a method, with more digits than on the page; nothing where no finite ε is proven."""
    own_delta = plan.budget.own_delta(delta)
    proof = accountants.tightest(plan.events, own_delta, prior=plan.facts.released, precision="fine")
    if math.isfinite(proof.epsilon):
        method = accountants.METHOD_NAMES[proof.method]
        yield (
            f"one whole run of {label}: epsilon = {rounded_up(proof.epsilon, 9):.9g} at delta = {own_delta!r} "
            f"({method}, {proof.precision} grid){plan.condition}"
        )


def _condition(experiment: Experiment) -> Iterator[str]:
    """Yield warnings for a file whose settings hold a seed of private noise, or follow from the data."""
    read = experiment.problem.from_data
    if not experiment.public and experiment.seed is not None:
        yield "not private: the settings above hold the seed of the noise, and who knows it can subtract the noise"
    if read:
        yield f"read from the data, and paid for by no budget: {'; '.join(read)}; the settings above state them as read"
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
    return templates.document("exports/templates/experiment.py.j2", version=dpviz.__version__, name=name, **values)


def to_notebook(experiment: Experiment) -> str:
    """Return the program of `to_script` as a Jupyter notebook; for an upload it has the name of a file, which the
    user replaces."""
    return notebook("experiment", **_values(experiment))


def _values(experiment: Experiment) -> dict[str, Any]:
    """Return the values for the templates of program and notebook. upload : whether they need the user's file."""
    problem = experiment.problem
    return {
        "upload": isinstance(problem.dataset, Upload),
        "secret_seed": experiment.seed is None,
        "unit": problem.unit,
        "condition": experiment.condition,
        "settings": _literal(json.loads(experiment.to_json())),
    }


def _literal(settings: Mapping[str, Any]) -> str:
    """Return plain data as a Python literal, one line per setting and per arm; repr quotes any label safely."""
    lines = ["{"]
    for name, value in settings.items():
        if isinstance(value, list):
            lines += [f"    {name!r}: [", *(f"        {item!r}," for item in value), "    ],"]
        else:
            lines.append(f"    {name!r}: {value!r},")
    return "\n".join([*lines, "}"])


_PYTHON = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(template: str, **values: Any) -> str:
    """Return the cells of a template, filled in, as a notebook that was not run yet. template : such as
    "experiment"."""
    cells: list[dict[str, Any]] = [
        {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for number, (kind, source) in enumerate(
            templates.cells(f"exports/templates/{template}_notebook.py.j2", version=dpviz.__version__, **values), 1
        )
    ]
    content = {"cells": cells, "metadata": _PYTHON, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def of_analyses(plan: Analyses, budget: Budget, delta: float, relative: float) -> str:
    """Return a notebook with the numbers of planned analyses. relative : the error for which the needed rows are
    computed."""
    return notebook(
        "analyses",
        plan=plan,
        noise=repr(plan.noise),
        kinds=sorted({"Analyses", *(type(statistic).__name__ for statistic in plan.statistics)}),
        currency=type(budget).__name__,
        budget=budget.to_python(),
        delta=repr(delta),
        relative=repr(relative),
    )
