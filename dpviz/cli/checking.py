"""Commands without an experiment: `dpviz statistics` and `dpviz audit`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dpviz import families
from dpviz.audits.audit import Audit
from dpviz.cli.files import (
    budget_of,
    delta_option,
    parse_numbers,
    read_settings,
    rows_as_text,
    writable_page,
    write_page,
)
from dpviz.errors import UserError, did_you_mean
from dpviz.execution.auditing import Auditing
from dpviz.numbers import short, short_up
from dpviz.privacy.statistics.analyses import Count, Histogram, Mean, Quantile, Ranged, Statistic, Sum

BUDGETS = "Its numbers: epsilon=1; epsilon=1,delta=1e-6; rho=0.1; mu=1."


@click.command()
@click.argument("requests", nargs=-1, required=True, metavar="NAME=KIND[:NUMBER,…]…")
@click.option("--rows", type=int, required=True, help="Number of rows of the table, which is public unless:")
@click.option("--secret-rows", is_flag=True, help="Rows are added or removed; --rows is assumed, for the errors.")
@click.option("--rows-per-person", default=1, show_default=True, help="At most this many; all of them are protected.")
@click.option("--budget", required=True, metavar="NAME=VALUE,…", help=BUDGETS)
@click.option("--error", default=0.05, show_default=True, help="The relative error for which rows are computed.")
@delta_option
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable_page,
    help="The planner's report, as HTML.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, with all digits.")
def statistics(
    *,
    requests: tuple[str, ...],
    rows: int,
    secret_rows: bool,
    rows_per_person: int,
    budget: str,
    error: float,
    delta: float,
    report: Path | None,
    as_json: bool,
) -> int:
    """Noise and error of counts, means and more under a budget.

    Kinds: count; sum:LOWEST,HIGHEST; mean:LOWEST,HIGHEST; histogram:BINS; quantile:LOWEST,HIGHEST,LEVEL,VALUES. No data
    are read: ranges and bins are declared.
    """
    planner = import_module("dpviz.exports.statistics")  # with its templates, which no other command needs
    plan = planner.statistics(
        budget_of(budget),
        [_statistic(text) for text in requests],
        rows=rows,
        rows_per_person=rows_per_person,
        relation="add/remove-one" if secret_rows else "replace-one",
    )
    table = plan.to_frame(error)
    if report is not None:
        write_page(plan.report(error, delta), report)
    if as_json:
        records = table.astype(object).where(table.notna(), None).to_dict("records")  # pandas' own JSON rounds numbers
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return 0
    change = "one row" if rows_per_person == 1 else f"up to {rows_per_person:,} rows of a person"
    change += " added or removed" if secret_rows else " replaced"
    click.echo(f"Guarantee of all together: {plan.budget.describe()}, {change}, {plan.analyses.rows_text} rows.\n")
    columns = {"error": "95 % error", "unit": "unit", "noise": "noise", "scale": "scale", "rows_needed": "rows needed"}
    rounded = table.assign(error=table["error"].map(short_up), scale=table["scale"].map(short_up))
    printed = rounded.assign(rows_needed=[f"{count:,}" for count in table["rows_needed"]])
    click.echo(rows_as_text(printed[["name", *columns]].rename(columns=columns).to_dict("records")))
    click.echo(
        f"\nRows needed for an error of {short(100 * error)} % of: {', '.join(dict.fromkeys(table['relative_to']))}."
    )
    return 0


def _statistic(text: str) -> Any:
    """Return the statistic of a text such as "age=mean:0,100". Raises UserError for another form or kind."""
    kinds = {cls.__name__.casefold(): cls for cls in (Count, Sum, Mean, Histogram, Quantile)}
    name, separator, declaration = text.partition("=")
    kind, _, values = declaration.partition(":")
    if not separator or not name or kind not in kinds:
        hint = did_you_mean(kind, kinds)
        raise UserError(
            f"'{text}' needs the form NAME=KIND:NUMBERS, as in age=mean:0,100.{hint} Kinds: {', '.join(kinds)}."
        )
    cls = kinds[kind]
    # The controls that this kind adds to those of every statistic.
    controls = (control for control in cls.controls() if control.name not in Statistic.model_fields)
    fields = [control.name for control in controls if control.type in (int, float) and not control.optional]
    numbers = parse_numbers(values) if values else ()
    if len(numbers) > len(fields):
        raise UserError(f"'{text}': {kind} takes {', '.join(fields) or 'no numbers'}.")
    if len(numbers) < 2 and issubclass(cls, Ranged):  # its first two fields are the ends of the range
        raise UserError(f"'{text}': declare the range, as in {name}={kind}:0,100, from what is known beforehand.")
    return cls(name=name, **dict(zip(fields, numbers, strict=False)))  # fields without a number have their defaults


@click.command()
@click.argument("method", required=False, metavar="[METHOD | AUDIT.json]")
@click.option("--budget", metavar="NAME=VALUE,…", help=f"The claim. {BUDGETS} Default: the first that it keeps.")
@click.option("--runs", type=click.IntRange(2, 10**7), help="On each of the two data sets.  [default: the audit's own]")
@click.option("--seed", type=click.IntRange(0), help="Another seed is another audit.  [default: drawn]")
@click.option("--json", "as_json", is_flag=True, help="The verdict as JSON, with all digits.")
def audit(method: str | None, budget: str | None, runs: int | None, seed: int | None, as_json: bool) -> int:
    """Attack a method, and test its releases.

    Without a METHOD, a list of those that there are. Exit code 1 if the claim is refuted, or a test of the releases
    fails.
    """
    cases = {f"{family}.{case.name}": case for family, group in families.audits().items() for case in group}
    if method is None:
        for name, case in cases.items():
            click.echo(f"{name}  ({case.title}; {'; '.join(option.describe() for option in case.budgets)})")
        return 0
    if method.endswith(".json"):
        if budget or runs or seed is not None:
            raise UserError("The file says all of it. Leave the options out.")
        planned_audit = read_settings(method, Auditing).audit
    else:
        short_names = {name: name.partition(".")[2] for name in cases}  # without the family
        matches = [case for name, case in cases.items() if method in (name, short_names[name])]
        if len(matches) != 1:
            several = ", ".join(name for name in cases if name.endswith(f".{method}"))
            hint = f" Write one of {several}." if several else did_you_mean(method, short_names.values())
            raise UserError(f"No audit is called just '{method}'.{hint} `dpviz audit` lists them.")
        (case,) = matches
        claim = case.budgets[0] if budget is None else budget_of(budget)
        planned_audit = Audit(case, claim, runs or case.runs, seed=seed)
    verdict = planned_audit.run()
    if as_json:
        fields = ("symbol", "claim", "bound", "confidence", "runs", "violation", "faulty")
        click.echo(json.dumps({name: getattr(verdict, name) for name in fields}, indent=2, ensure_ascii=False))
    else:
        click.echo(f"{planned_audit.case.title}: {verdict}")
        click.echo(f"Releases that are not as declared, by the tests of them: {'some' if verdict.faulty else 'none'}.")
    return int(verdict.violation or verdict.faulty)
