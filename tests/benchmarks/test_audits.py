"""Audits end to end. Targets: 10,000 runs of a tiny DP-NAG below 5 s; noise too small by √2 is found within as many."""

import pytest

from dpviz import families
from dpviz.audits.audit import Audit, Verdict

CASES = {case.name: case for cases in families.audits().values() for case in cases}
BROKEN = {broken.name: broken for broken in families.broken()}
NAMES = ("nesterov", "batches", "vertex_sampling", "variance_reduced", "short_step", "line_search")


@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_runs(report, name: str) -> None:
    audit = Audit(CASES[name], CASES[name].budgets[0], seed=0)
    report.benchmark.pedantic(audit.run, rounds=3)
    report(runs=10_000.0, seconds=report.benchmark.stats.stats.mean)


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_found(report, name: str) -> None:
    found: list[Verdict] = []

    def audited() -> None:
        found.append(BROKEN[name].audit(seed=len(found)).run())

    report.benchmark.pedantic(audited, rounds=10)
    report(runs=float(BROKEN[name].runs), flagged_at=float(sum(v.flagged_at or 0 for v in found)) / len(found))
