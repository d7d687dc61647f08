"""The budget planner's table of analyses: what each gets, what all cost together, and what is wrong with a table."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.planner import SPLIT, planner, printed
from tests.pages.reading import Load, bars, metrics, said, words

SHARE = "share of the total"


def row(
    name: str,
    mechanism: str = "Laplace",
    weight: float | None = 1.0,
    sensitivity: float | None = 1.0,
    rows: str = "",
    guarantee: str = SHARE,
    amount: float | None = None,
    delta: float | None = None,
) -> list[Any]:
    return [name, mechanism, weight, sensitivity, rows, guarantee, amount, delta]


def split(load: Load, table: Sequence[Sequence[Any]], **settings: str) -> AppTest:
    return planner(load, SPLIT, split=json.dumps(table), **settings)


def results(app: AppTest) -> dict[str, tuple[float, float, str]]:
    """Share, noise scale and cost of every analysis; not a number where there is none."""
    frame = app.dataframe[-1].value
    columns = (frame[name].tolist() for name in ("Share", "Noise scale", "Costs"))
    return dict(zip(frame["Analysis"], zip(*columns, strict=True), strict=True))


EXAMPLE = [row("A", weight=1, sensitivity=1), row("B", weight=4, sensitivity=2)]


def test_the_example_of_the_theory(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Section 8: w = (1, 4), Δ = (1, 2), total 1: ε = (0.284104, 0.715896)."""
    app = split(load, EXAMPLE, epsilon="1")
    found = results(app)
    assert found["A"][0] == pytest.approx(0.284104, rel=1e-5) and found["B"][0] == pytest.approx(0.715896, rel=1e-5)
    assert found["A"][1] == pytest.approx(1 / 0.284104, rel=1e-5)
    assert found["B"][1] == pytest.approx(2 / 0.715896, rel=1e-5) and found["B"][2] == "Laplace, ε = 0.716"
    assert bars(app, "Share of the budget of every analysis") == pytest.approx({"A": 28.4104, "B": 71.5896}, rel=1e-5)
    assert "All together (ε = 1 was given)" in words(app) and metrics(app)["Pure ε"] == "≤ 1"
    lines = dict(line.split() for line in printed(app, capsys).splitlines())
    assert {name: float(value) for name, value in lines.items()} == pytest.approx({k: v[1] for k, v in found.items()})


def test_own_guarantees_are_paid_first_each_in_its_currency(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        row("Open", "Gaussian"),
        row("Paid ρ", "Gaussian", guarantee="ρ-zCDP", amount=0.02),
        row("Paid μ", "Gaussian", guarantee="μ-GDP", amount=0.2),
        row("Partner", "Only a guarantee is known", guarantee="Pure ε", amount=0.1),
    ]
    app = split(load, table, currency="ρ-zCDP", rho="0.1")
    found = results(app)
    paid = 0.02 + 0.2**2 / 2 + 0.1 * math.tanh(0.05)
    assert found["Open"][0] == pytest.approx((0.1 - paid) / 0.1, rel=1e-9)
    assert found["Paid ρ"][1] == pytest.approx(1 / math.sqrt(0.04)) and math.isnan(found["Paid ρ"][0])
    assert math.isnan(found["Partner"][1])
    assert list(bars(app, "Share of the budget")) == ["Open"]
    assert metrics(app)["ρ (zCDP)"] == "≤ 0.1" and metrics(app)["Pure ε"] == "—"
    assert "Partner None" in printed(app, capsys)
    for guarantee, delta in (("(ε, δ)", None), ("Pure ε", 1e-7)):  # no δ is assumed, and none is left out
        app = split(load, [row("Partner", guarantee=guarantee, amount=0.1, delta=delta)])
        assert "Partner: " in said(app) and "δ" in said(app) and not metrics(app)


@pytest.mark.parametrize(("rho", "is_enough"), [(0.08, True), (0.07, False)])
def test_guarantees_of_their_own_that_exceed_the_total_are_named(load: Load, rho: float, is_enough: bool) -> None:
    """Without an analysis that gets a share, nothing said so: ρ = 0.06 and μ = 0.2 are ρ = 0.08."""
    guarantees = {"ρ-zCDP": 0.06, "μ-GDP": 0.2}
    table = [row(name, "Gaussian", guarantee=name, amount=amount) for name, amount in guarantees.items()]
    app = split(load, table, currency="ρ-zCDP", rho=str(rho))
    assert metrics(app)["ρ (zCDP)"] == "≤ 0.08" and is_enough != (f"together meet ρ = {rho}" in said(app))


def test_analyses_of_disjoint_rows_share_nothing(load: Load) -> None:
    apart = split(load, [row("North", rows="north"), row("South", rows="south")], epsilon="1")
    assert [share for share, *_ in results(apart).values()] == pytest.approx([1.0, 1.0])
    assert metrics(apart)["Pure ε"] == "≤ 1"
    for names in (("same", "same"), ("\u200c", "\u200d")):  # the latter look like no name, which is all rows
        together = split(load, [row("North", rows=names[0]), row("South", rows=names[1])], epsilon="1")
        assert [share for share, *_ in results(together).values()] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("currency", ["Pure ε", "(ε, δ)", "ρ-zCDP", "μ-GDP"])
def test_a_table_in_every_currency(load: Load, capsys: pytest.CaptureFixture[str], currency: str) -> None:
    app = split(load, [*EXAMPLE, row("C", "Selection")], currency=currency)
    assert not app.error
    assert sum(share for share, *_ in results(app).values()) == pytest.approx(1, abs=1e-3)
    values = [float(line.split()[1]) for line in printed(app, capsys).splitlines()]
    assert values == pytest.approx([scale for _, scale, _ in results(app).values()], rel=1e-9)


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "3", "[[]]", '["abcdefgh"]', "[[1,2,3,4,5,6,7,8]]", "[[[1],{},NaN,1e999,[],null,null,2]]"]
)
def test_a_table_that_cannot_be_read_is_never_a_traceback(load: Load, text: str) -> None:
    app = planner(load, SPLIT, split=text)
    assert app.warning or app.error or results(app)
