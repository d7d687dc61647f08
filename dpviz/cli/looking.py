"""Commands that run nothing: plans and presets."""

import json
import math
from importlib import import_module
from typing import Any

import click

from dpviz import families
from dpviz.cli.files import delta_option, listed, preset_named, refused, settings_options
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment, Planned
from dpviz.experiments.plan import Plan
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants


@click.command()
@settings_options
@delta_option
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, with all digits.")
def plan(experiment: Experiment, delta: float, as_json: bool) -> int:
    """What a budget buys: noise and ε at δ of every method.

    From public facts alone; no data are read.
    """
    planned = experiment.planned()
    experiment = planned.ready()
    at = experiment.budget.own_delta(delta)
    methods = [_planned(label, found, at) for label, found in planned.plans.items()]
    costs = results.costs(planned.plans, planned.plans, experiment.budget, experiment.replicates, at)
    if as_json:
        click.echo(json.dumps(_described(experiment, planned, methods, list(results.sentences(costs))), indent=2))
        return 0
    refused(planned.refused)
    click.echo(f"Guarantee of each method: {experiment.promise}.\n")
    click.echo(listed([_row(method) for method in methods]))
    click.echo("")
    for sentence in results.sentences(costs):
        click.echo(f"Publishing {sentence}")
    return 0


def _planned(label: str, found: Plan, delta: float) -> dict[str, Any]:
    """What is known of a method in advance; None where there is no such number."""
    noise = {
        name: {"first": float(added[0]), "last": float(added[-1])}
        for name, scale in found.noise.items()
        if len(added := scale[scale > 0])
    }
    described: dict[str, Any] = {
        "method": label,
        "steps": found.iterations,
        "stops_by_itself": found.stops,
        "noise": noise,
    }
    if not found.private:
        return described | {"epsilon": None, "delta": None, "accountant": None}
    reading = results.reading(found, found.iterations, delta)
    proven = math.isfinite(reading.epsilon)
    return described | {
        "epsilon": reading.epsilon if proven else None,
        "delta": delta,
        "accountant": accountants.METHOD_NAMES[reading.method] if proven else None,
    }


def _row(method: dict[str, Any]) -> dict[str, str]:
    noise = "; ".join(
        f"{name} {short(ends['first'])}" + (f" to {short(ends['last'])}" if ends["last"] != ends["first"] else "")
        for name, ends in method["noise"].items()
    )
    at_most = "at most " if method["stops_by_itself"] else ""
    reading = "none"
    if method["epsilon"] is not None:
        reading = f"{short_up(method['epsilon'], 4)} at δ = {short_up(method['delta'])}"
    return {
        "method": method["method"],
        "steps": f"{at_most}{method['steps']:,}",
        "noise, first to last step": noise or "none",
        "ε": reading,
        "by": method["accountant"] or "",
    }


def _described(
    experiment: Experiment, planned: Planned, methods: list[dict[str, Any]], publishing_costs: list[str]
) -> dict[str, Any]:
    return {
        "guarantee": json.loads(experiment.budget.to_json()),
        "unit": experiment.problem.unit,
        "read_from_the_data": list(experiment.problem.from_data),
        "seeded": experiment.seeded,
        "methods": methods,
        "refused": {label: str(error) for label, error in planned.refused.items()},
        "publishing": publishing_costs,
    }


@click.command()
@click.argument("name", required=False)
def presets(name: str | None) -> int:
    """List the named experiments, or print one.

    With a NAME, or enough of it to be clear, its settings as JSON, to be changed.
    """
    if name is not None:
        export = import_module("dpviz.exports.export")  # brings templates, which nothing else here needs
        click.echo(export.to_settings(preset_named(name).experiment), nl=False)
        return 0
    for family, found in families.presets().items():
        click.echo(family.replace("_", " ").capitalize())
        for preset in found:
            click.echo(f"  {preset.name}  ({preset.source})")
    return 0
