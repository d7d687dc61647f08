"""From an empty planner to a program that OpenDP has run, with the same numbers at every place.

The program is run where `DPVIZ_OPENDP_PYTHON` names a Python with OpenDP: the nightly step `opendp`.
"""

import csv
import re
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

import dpviz
from dpviz.exports.statistics import Statistics
from dpviz.numbers import short_up
from dpviz.privacy.budgets import Budget
from dpviz.privacy.statistics.analyses import Analyses, PlannedStatistic
from tests.browser.conftest import Visit, ready
from tests.exports.test_opendp import RELEASE, run

# Name, kind, declared column with its condition or keys, lowest, highest, bins, level: as they come from a spreadsheet.
PASTED = (
    ("Adults", "Count", "age >= 18"),
    ("Age", "Mean", "age", "0", "120"),
    ("Hours", "Sum", "hours", "0", "80"),
    ("Region", "Histogram", 'region: north; "so;uth"; Ж'),
    ("Median age", "Quantile", "age", "0", "120", "121", "0.5"),
)


def test_five_statistics_for_people_with_three_rows_are_released(visit: Visit, tmp_path: Path) -> None:
    clipboard = ["clipboard-read", "clipboard-write"]
    page = visit("/budget_planner?planner_analyses=%5B%5D", permissions=clipboard)
    began = time.monotonic()
    expect(page.get_by_text("Nothing is asked yet").first).to_be_visible()
    page.evaluate("text => navigator.clipboard.writeText(text)", "\n".join("\t".join(row) for row in PASTED))
    grid = page.get_by_test_id("stDataFrame").first
    click_in(grid, -18)  # the row below the last, where rows are added
    expect(page).to_have_url(re.compile("Analysis"))
    while "Median" not in page.url:  # a key that is pressed while the page makes room for charts is lost
        page.keyboard.press("Escape")
        click_in(grid, 50, 150)  # on the second cell: a click on the selected one would open it
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Control+v")
        page.wait_for_timeout(1000)
    for label, value in (("Rows of a person", "3"), ("Rows n", "600"), ("Error you want", "0.1")):
        number = page.get_by_role("spinbutton", name=label)
        number.fill(value)
        number.press("Enter")
        ready(page)

    expect(page.get_by_text("an error of 10 % (95 % confidence)").first).to_be_visible()
    ready(page)
    take = page.get_by_role("button", name="and its shares")
    expect(take).to_have_count(1)
    label = take.inner_text()
    take.click()
    epsilon = re.search(r"ε = ([\d.]+)", label)
    assert epsilon is not None
    expect(page.get_by_role("spinbutton", name="Privacy budget")).to_have_value(epsilon[1])
    expect(page.get_by_text(re.compile("^Yes: at ε = "))).to_be_visible()
    expect(page.get_by_text("all rows of one person", exact=False).first).to_be_visible()
    report, notebook, program = (
        downloaded(page, name) for name in ("Report to print (HTML)", "Notebook", "OpenDP program")
    )
    chart = downloaded(page, "The error you get")
    assert time.monotonic() - began < 120

    names = executed(notebook)
    plan, budget, planned = names["plan"], names["budget"], names["planned"]
    assert isinstance(plan, Analyses) and isinstance(budget, Budget)
    assert (plan.rows, plan.rows_per_person, budget.limit) == (600, 3, float(epsilon[1]))
    assert [type(statistic).__name__ for statistic in plan.statistics] == [row[1] for row in PASTED]
    assert plan.statistics[3].keys == ("north", "so;uth", "Ж")  # type: ignore[attr-defined]
    by_library = dpviz.statistics(budget, plan.statistics, rows=600, rows_per_person=3)
    frame = by_library.to_frame(0.1)
    for column in ("error", "scale", "sensitivity", "rows_needed"):
        assert frame[column].tolist() == names["table"][column].tolist()
    in_chart = {row[-1]: float(row[1]) for row in list(csv.reader(chart.splitlines()))[1:] if row}
    assert in_chart == pytest.approx({p.statistic.name: 100 * p.relative_error for p in planned}, rel=1e-6)
    assert all(is_told(report, p) for p in planned)
    check_program(program, by_library, tmp_path)


def click_in(grid: Locator, below: float, right: float = 60) -> None:
    """Click on a table, so many pixels from its left end, and below its upper or above its lower end."""
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box is not None
    grid.page.mouse.click(box["x"] + right, box["y"] + (below if below > 0 else box["height"] + below))


def downloaded(area: Page | Locator, button: str) -> str:
    """The text of the file that a button of the page, or of a part of it, gives."""
    page = area.page if isinstance(area, Locator) else area
    with page.expect_download() as download:
        area.get_by_role("button", name=button).click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def executed(notebook: str) -> dict[str, Any]:
    """The names that a notebook has defined at its end."""
    names: dict[str, Any] = {}
    for cell in nbformat.reads(notebook, as_version=4).cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
    return names


def is_told(report: str, planned: PlannedStatistic) -> bool:
    """Whether a row of the report has the name of a statistic and its 95 % error."""
    rows = re.findall(r"<tr>.*?</tr>", report, re.DOTALL)
    return any(planned.statistic.name in row and short_up(planned.error) in row for row in rows)


def check_program(program: str, planned: Statistics, folder: Path) -> None:
    """Run a program on made-up rows: its noise is the planned one, and its odometer ends at the budget."""
    answers, loss, epsilon, refused, _ = run(folder, program, RELEASE)
    scales = [p.scale for p in planned.planned.values()]
    assert [answer["scale"] for answer in answers] == pytest.approx(scales, rel=1e-9)
    assert [answer["name"] for answer in answers] == [*planned.planned]
    assert loss == epsilon <= planned.budget.limit and epsilon == pytest.approx(planned.budget.limit, rel=1e-9)
    assert refused == [True]
