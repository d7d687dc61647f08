"""Commands that run nothing: plans and presets."""

import json
import math
from importlib import import_module
from typing import Any

import click

from dpviz import families
from dpviz.cli.files import delta_option, preset_named, print_refusals, rows_as_text, settings_options
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants


@click.command()
@settings_options
@delta_option
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, with all digits.")
def plan(experiment: Experiment, delta: float, as_json: bool) -> int:
    """Show what a budget buys: noise and ε at δ of every method.

    From public facts alone; no data are read.
    """
    planned = experiment.planned()
    experiment = planned.ready()  # the methods that have a plan; raises if none has
    delta = experiment.budget.own_delta(delta)  # the budget's own δ, if it has one
    methods = [_numbers(label, method_plan, delta) for label, method_plan in planned.plans.items()]
    costs = results.costs(planned.plans, planned.plans.keys(), experiment.budget, experiment.replicates, delta)
    if as_json:
        document = {
            "unit": experiment.problem.unit,
            "read_from_the_data": list(experiment.problem.from_data),
            "seeded": experiment.seeded,
            "methods": methods,
            "refused": {label: error.sentence for label, error in planned.refused.items()},
            "publishing": list(results.cost_sentences(costs)),
        }
        click.echo(json.dumps(document, indent=2))
        return 0
    print_refusals(planned.refused)
    click.echo(f"Guarantee: {experiment.promise}.\n")
    click.echo(rows_as_text([_row(method) for method in methods]))
    click.echo("")
    for method in methods:
        for note in method["notes"]:
            click.echo(f"{method['method']}: {note}")
    for sentence in results.cost_sentences(costs):
        click.echo(f"Publishing {sentence}")
    return 0


def _numbers(label: str, plan: Plan, delta: float) -> dict[str, Any]:
    """Return the numbers of a method's plan for the JSON of `plan`; None where there is no such number.

    Under "noise" is, for each kind of noise, its scale in the first and in the last step that has any.
    """
    noise = {}
    for name, scale in plan.noise.items():
        nonzero = scale[scale > 0]
        if len(nonzero):
            noise[name] = {"first": float(nonzero[0]), "last": float(nonzero[-1])}
    result: dict[str, Any] = {"method": label, "guarantee": json.loads(plan.statement.budget.to_json())}
    result |= {"steps": plan.iterations, "stops_by_itself": plan.stops}
    result |= {"noise": noise, "noise_is_bound": plan.noise_varies, "notes": list(plan.notes)}
    if not plan.private:
        return result | {"epsilon": None, "delta": None, "accountant": None}
    reading = results.epsilon_reading(plan, plan.iterations, delta)
    is_proven = math.isfinite(reading.epsilon)
    return result | {
        "epsilon": reading.epsilon if is_proven else None,
        "delta": delta,
        "accountant": accountants.METHOD_NAMES[reading.method] if is_proven else None,
    }


def _row(method: dict[str, Any]) -> dict[str, str]:
    """Return the numbers of a method, as `_numbers` returns them, as a row of the printed table."""
    phrases = []
    for name, ends in method["noise"].items():
        until = f" to {short(ends['last'])}" if ends["last"] != ends["first"] else ""
        phrases.append(f"{name} {short(ends['first'])}{until}")
    noise = ("at most " if method["noise_is_bound"] else "") + "; ".join(phrases)
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


@click.command()
@click.argument("name", required=False)
def presets(name: str | None) -> int:
    """List the named experiments, or print one.

    With a NAME, or enough of it to be clear, its settings as JSON, to be changed.
    """
    if name is not None:
        # Imported here, with its templates, since no other command of this module needs them.
        export = import_module("dpviz.exports.export")
        click.echo(export.to_settings(preset_named(name).experiment), nl=False)
        return 0
    for family, family_presets in families.presets().items():
        click.echo(family.replace("_", " ").capitalize())
        for preset in family_presets:
            click.echo(f"  {preset.name}  ({preset.source})")
    return 0
