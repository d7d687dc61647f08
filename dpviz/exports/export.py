"""Downloads of a run: the numbers as CSV, and a program or a notebook that computes them again.

Notebooks are Jupyter's (nbformat 4.5): a program in cells, which anybody can run and change.
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

# ----------------------------------------------------- a plan for several analyses in plain words, for those who decide

_TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # directions: after one, 21 may read as 12


def to_report(plan: Analyses, budget: Budget, delta: float, relative: float, day: str) -> str:
    """The plan as a self-contained HTML page; every text in it is taken literally.

    delta : at which ε is read. relative : the error that the rows needed are for. day : when it was made.
    """
    planned = plan.planned(budget)
    total = allocation.together([p.share for p in planned], delta)
    readings = [(unit.name, total.values.get(name)) for name, unit in UNITS.items()]
    readings.append((f"ε at δ = {short_up(delta)}", total.values.get("epsilon_at_delta")))
    composed = allocation.composed([(p.share.analysis, p.event) for p in planned])
    return templates.document(
        "exports/templates/analyses_report.html.j2",
        words=_text,
        told=_told,
        row=partial(_row, relative=relative),
        version=dpviz.__version__,
        day=day,
        plan=plan,
        budget=budget,
        planned=planned,
        readings=[(unit, short_up(value)) for unit, value in readings if value is not None],
        # What the best attacker can do with these releases, which may be less than with any that have the guarantee.
        right=short_up(50 * (1 + tradeoffs.advantage(composed))),
        all_at_once=short_down(100 * CONFIDENCE ** len(planned)),  # the noises are independent
    )


def _told(p: Planned) -> str:
    """Noise and error of one analysis, in words."""
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
    what = f"{'one number of ' * (values > 1)}the published {p.statistic.title.lower()}"
    most = p.largest_error
    all_of_them = "" if most is None else f", and none of its {values:,} numbers by more than {short_up(most)}{unit}"
    lost = " That is as much as so many rows can give: it says nothing." * p.drowned
    return f"{noise} In 95 of 100 releases {what} is off by at most {short_up(p.error)}{unit}{all_of_them}.{lost}"


def _row(p: Planned, relative: float) -> tuple[str, ...]:
    """An analysis in the table: name, share, what it spends, its error, and the rows that it needs."""
    return (
        p.statistic.name,
        f"{short(100 * (p.share.fraction or 0.0))} %",
        described(p.event),
        f"{short_up(p.error)} {p.statistic.unit or 'in the unit of the column'}",
        f"{p.rows_needed(relative):,} for an error of {short(100 * relative)} % of {p.statistic.of}",
    )


def _text(sentence: str) -> str:
    """The sentence, taken literally but for **bold** words. What would turn the text around is shown as its code."""
    literal = html.escape(_TURNING.sub(lambda found: f"\\u{ord(found[0]):04x}", sentence))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", literal)


# ------------------------------------------------------------------------------------ a run: numbers, program, notebook

NOT_PRIVATE = "_nonprivate"
_INDEX = ("algorithm", "replicate", "iteration")


def file_name(page: str, experiment: Experiment, extension: str) -> str:
    """`dpviz_<page>_<first digits of the settings' hash>.<extension>`: one name per settings."""
    return f"dpviz_{page}_{experiment.content_hash()[:8]}.{extension}"


def to_csv(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float = 1e-6) -> str:
    """Every value of the trace, one row per algorithm, replicate and iteration; read it with pandas and comment="#".

    Header lines start with "#": version, settings as JSON, the guarantee, and what the columns mean. Columns that read
    raw data end in _nonprivate, and so does every value of an arm without privacy; give `trace.visible(False)` to leave
    them out. Where facts of the plan were read from the data, or noise on data that are not public follows from a seed
    that was set, all columns end so, and the header says why. The privacy spent is what each replicate was charged:
    spent_epsilon, spent_mu or spent_rho, by the budget; of methods that stop by themselves, with the ceiling, which is
    the guarantee. status says whether a replicate was running, converged, out of budget, exhausted or diverged, and
    stopped_at after which iteration it stopped by itself. What publishing several of them costs stands in the header,
    with ε at `delta` where the budget has no δ, and so does ε of one run of each, on a finer grid than the page's. A
    label that a spreadsheet would run begins with an apostrophe: see `spreadsheets`.

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
    """The rows and columns of `to_csv`."""
    parts = [_rows(trace, label, plan) for label, plan in plans.items() if label in trace.lanes]
    columns = dict.fromkeys([*_INDEX, *(name for part in parts for name in part)])
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True).reindex(columns=list(columns))


def sweep_to_csv(result: SweepResult, sweep: Sweep) -> str:
    """Every last number of a sweep: method, value of the setting, data set and run; as `to_csv` with its header.

    Metrics that read raw data end in _nonprivate; give `result.visible(False)` to leave them out.
    """
    return spreadsheets.as_csv(sweep_to_table(result), sweep_header(result, sweep))


def sweep_to_table(result: SweepResult) -> "pd.DataFrame":
    """The rows and columns of `sweep_to_csv`."""
    frame = result.to_frame()
    frame["metric"] += np.where(frame["released"], "", NOT_PRIVATE)
    return frame.drop(columns="released")


def sweep_header(result: SweepResult, sweep: Sweep) -> Iterator[str]:
    """What the table of a sweep is about, line by line."""
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
    """The columns of one arm, one entry per iteration and replicate."""
    lane = trace.lanes[label]
    series = {metric: trace.series(label, metric.name, gaps=True) for metric in lane.metrics}
    series = {metric: found for metric, found in series.items() if len(found[0])}
    # A trace that is growing may have one more row of some metrics than of others.
    count = min((len(recorded) for recorded, _ in series.values()), default=len(lane.iterations))
    replicates = len(lane.status)
    iterations = np.repeat(np.array(lane.iterations[:count], dtype=int), replicates)
    table = {"algorithm": label, "replicate": np.tile(np.arange(replicates), count), "iteration": iterations}
    _, charged = trace.spent(label)
    if lane.currency is not None and len(charged) >= count:
        table[f"spent_{lane.currency}"] = charged[:count].ravel()
        if plan.stops:
            table[f"ceiling_{lane.currency}"] = plan.spent(lane.currency)[-1]
    outcome = {"status": np.array(lane.statuses[:count]).ravel()}
    if len(lane.stopped_at):
        outcome["stopped_at"] = np.tile(np.where(lane.stopped_at < 0, np.nan, lane.stopped_at), count)
    table |= {name + ("" if lane.private else NOT_PRIVATE): values for name, values in outcome.items()}
    if plan.passes is not None:
        table[results.PASSES] = plan.passes[iterations]
    for name, scale in plan.noise.items():
        table[f"noise_scale_{name}" if len(plan.noise) > 1 else "noise_scale"] = np.append(np.nan, scale)[iterations]
    for metric, (_, found) in series.items():
        table[metric.name + ("" if lane.released(metric) else NOT_PRIVATE)] = found[:count].ravel()
    if lane.condition:  # noise and schedule, too, follow from what was read
        table = {
            name if name in _INDEX or name.endswith(NOT_PRIVATE) else name + NOT_PRIVATE: values
            for name, values in table.items()
        }
    return table


def header(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float) -> Iterator[str]:
    """What the table of a run is about, line by line."""
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
    """ε at δ of one run of a method, to more digits than the page shows; nothing where none is proven."""
    at = plan.budget.own_delta(delta)
    found = accountants.tightest(plan.events, at, prior=plan.facts.released, precision="fine")
    if math.isfinite(found.epsilon):
        method = accountants.METHOD_NAMES[found.method]
        yield (
            f"one whole run of {label}: epsilon = {rounded_up(found.epsilon, 9):.9g} at delta = {at!r} "
            f"({method}, {found.precision} grid){plan.condition}"
        )


def _condition(experiment: Experiment) -> Iterator[str]:
    """What is to be known of a file whose settings hold a seed of private noise, or follow from the data."""
    read = experiment.problem.from_data
    if not experiment.public and experiment.seed is not None:
        yield "not private: the settings above hold the seed of the noise, and who knows it can subtract the noise"
    if read:
        yield f"read from the data, and paid for by no budget: {'; '.join(read)}; the settings above state them as read"
        yield "not private: whatever follows from them, all values below included, unless they were known beforehand"


def to_settings(experiment: Experiment) -> str:
    """The experiment as JSON that a person can read and change; `Experiment.from_json` takes it."""
    return json.dumps(json.loads(experiment.to_json()), indent=2, ensure_ascii=False) + "\n"


def to_script(experiment: Experiment, page: str = "experiment") -> str:
    """A plain Python program that runs the experiment with `dpviz` and prints the final table.

    With a seed its numbers are those of the page. The rows of an upload do not travel in it: the program takes the path
    of the user's file, and makes the table from it by the declarations in its settings.

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
    """The program of `to_script` as a Jupyter notebook; of an upload it names a file, which the user replaces."""
    return notebook("experiment", **_values(experiment))


def _values(experiment: Experiment) -> dict[str, Any]:
    """What program and notebook say of an experiment. upload : whether they need the user's own file."""
    problem = experiment.problem
    return {
        "upload": isinstance(problem.dataset, Upload),
        "secret_seed": experiment.seed is None,
        "unit": problem.unit,
        "condition": experiment.condition,
        "settings": _literal(json.loads(experiment.to_json())),
    }


def _literal(settings: Mapping[str, Any]) -> str:
    """Plain data as a Python literal, one line per setting and per arm; repr quotes whatever a label contains."""
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
    """The cells of a template, filled in, as a notebook that was not run yet. template : such as "experiment"."""
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
    """The numbers of planned analyses; relative : the error that the rows needed are for."""
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
