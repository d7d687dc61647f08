"""The page of private games in a browser: run, stop, a table with groups, the synthetic table, the sweep."""

import io
import re
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pandas as pd
from playwright.sync_api import Page, expect

from dpviz.problems.games.marginals import MarginalQueries
from tests.browser.conftest import Visit, chart, curves_under_way, done, drawn, labels, ready, section
from tests.confirming import confirm

SMALL = {"mirror_iterations": 8, "mirror_replicates": 2, "mirror_follow": "false"}


def address(**settings: object) -> str:
    return "/mirror_descent?" + urlencode({**SMALL, **settings})


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    done(page)


def choose(page: Page, name: str, content: bytes) -> None:
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": content}
    )


def patients(rows: int = 2000) -> bytes:
    """Two features, a target with two classes, and a column of groups; as CSV."""
    generator = np.random.default_rng(0)
    age, visits = generator.integers(18, 90, rows), generator.poisson(3, rows)
    frame = pd.DataFrame({"age": age, "visits": visits, "region": np.resize(["north", "south", "south", "east"], rows)})
    frame["treated"] = np.where(age / 90 + visits / 6 + generator.normal(0, 0.3, rows) > 1.1, "yes", "no")
    return frame.to_csv(index=False).encode()


def downloaded(page: Page, name: str) -> pd.DataFrame:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name).click()
    return pd.read_csv(io.BytesIO(Path(waiting.value.path()).read_bytes()), dtype=str)


def test_default_preset_runs_to_curves_strategies_and_table(visit: Visit) -> None:
    page = visit("/mirror_descent?mirror_follow=false")
    expect(page.get_by_role("combobox", name="Preset")).to_have_value(re.compile("Start here"))
    expect(drawn(page, "What one draw may tell").locator("path.js-line").first).to_be_attached()
    run(page)
    section(page, "Results")
    expect(labels(drawn(page, "^Duality gap against steps"))).to_have_count(5)
    expect(drawn(page, "vertices of player x").locator("path.js-fill").first).to_be_attached()
    expect(page.get_by_test_id("stDataFrame").last).to_be_visible()
    expect(page.get_by_text("choosing by such results is tuning")).to_be_visible()
    section(page, "Take away")
    for name in ("Data (CSV)", "Figures (HTML)", "Python script"):
        expect(page.get_by_role("button", name=name)).to_be_enabled()
    expect(page.get_by_text("Settings changed since this run")).to_have_count(0)


def test_stop_keeps_the_partial_curves_and_enables_run(visit: Visit) -> None:
    long = {"mirror_iterations": 1024, "mirror_gradient_rounds": 1024, "mirror_replicates": 50}
    large = {f"mirror_quadratic_latent_strategies_{player}": 1000 for player in "xy"}
    page = visit(address(mirror_problem="Quadratic game", **long, **large))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("main").get_by_text(re.compile(r"[\d,]+ of [\d,]+ steps, about .* left"))).to_be_visible()
    curves_under_way(page)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(
        page.get_by_role("main").get_by_text(re.compile("Stopped after .* What was computed is kept"))
    ).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    section(page, "Results")
    expect(drawn(page, "^Duality gap against steps").locator("path.js-line").first).to_be_attached()
    ready(page)


def test_a_table_with_groups_from_upload_to_the_losses_of_its_groups(visit: Visit) -> None:
    page = visit(address(mirror_problem="Worst group loss", mirror_groups_data="Your own file"))
    choose(page, "patients.csv", patients())
    confirm(page)
    expect(page.get_by_text("2,000 rows, 4 columns")).to_be_visible()
    expect(page.get_by_text("Column 'region' needs groups")).to_be_visible()
    page.get_by_role("button", name="Propose groups and shares from the data").click()
    expect(page.get_by_text(re.compile("Column 'age' needs a range"))).to_be_visible()
    page.get_by_role("button", name="Fill from the data").click()
    expect(page.get_by_text(re.compile("Ready: 2,000 rows"))).to_be_visible()
    expect(page.get_by_text("ranges taken from the data: not private")).to_be_visible()

    run(page)
    section(page, "Results")
    expect(page.get_by_text("Curves and numbers that read your raw data are hidden.")).to_be_visible()
    expect(chart(page, "^Duality gap against steps")).to_have_count(0)
    expect(drawn(page, "vertices of player y").locator(".legendtext").get_by_text("south")).to_be_attached()
    page.get_by_text("Show non-private diagnostics").click()
    expect(drawn(page, "^Duality gap against steps").locator("path.js-line").first).to_be_attached()
    losses = drawn(page, "^Loss of every group")
    for region in ("north", "south", "east"):
        expect(losses.get_by_text(region, exact=True)).to_be_visible()
    assert "patients" not in page.url and "north" not in page.url
    ready(page)


def test_the_synthetic_table_can_be_downloaded(visit: Visit) -> None:
    page = visit(address(mirror_problem="Synthetic data", mirror_draws=16))
    run(page)
    section(page, "Results")
    expect(drawn(page, "marginal cell, with the diagonal").locator(".point").first).to_be_attached()
    expect(page.get_by_text("10,000 rows of Gaussian marginals")).to_be_visible()
    rows = page.get_by_role("spinbutton", name="Rows of the table")
    rows.fill("128")
    rows.press("Enter")
    expect(page.get_by_text("128 rows of Gaussian marginals")).to_be_visible()
    ready(page)
    table = downloaded(page, "Synthetic table (CSV)")
    columns = MarginalQueries().data.facts().columns
    assert len(table) == 128 and list(table) == [name for name, _ in columns]
    assert all(set(table[name]) <= set(categories) for name, categories in columns)


def test_a_table_of_categories_becomes_a_synthetic_one(visit: Visit) -> None:
    page = visit(address(mirror_problem="Synthetic data", mirror_synthetic_data="Your own file"))
    frame = pd.DataFrame({"area": np.resize(["city", "town"], 400), "pets": np.resize(["cat", "dog", "none"], 400)})
    choose(page, "homes.csv", frame.to_csv(index=False).encode())
    confirm(page)
    page.get_by_role("button", name="Fill from the data").click()
    expect(page.get_by_text(re.compile(r"\|Z\| = \d+ combinations"))).to_be_visible()
    expect(page.get_by_text(re.compile("Ready: 400 rows"))).to_be_visible()
    run(page)
    section(page, "Results")
    expect(chart(page, "marginal cell, with the diagonal")).to_have_count(0)
    table = downloaded(page, "Synthetic table (CSV)")
    assert list(table) == ["area", "pets"] and set(table["area"]) <= {"city", "town", "other"}


def test_the_sweep_over_dimensions_shows_its_figure(visit: Visit) -> None:
    page = visit(address(mirror_quadratic_latent_rows=200, mirror_sweep_longest="up to 100"))
    page.get_by_role("tab", name="Gap against dimension").click()
    page.get_by_role("button", name="Run the sweep").click()
    expect(page.get_by_text(re.compile(r"Done: 15 of 15 points in [\d.]+ s"))).to_be_visible()
    figure = drawn(page, "Duality gap against the number of strategies")
    expect(figure.locator("path.js-line").first).to_be_attached()
    expect(labels(figure).filter(has_text="slope")).to_have_count(5)
    ready(page)


def test_vertices_of_ones_own_make_a_plan(visit: Visit) -> None:
    page = visit(address(mirror_problem="Regression over a polytope", mirror_polytope_shape="My own vertices"))
    vertices = page.get_by_role("textbox", name="Vertices, one per line")
    vertices.fill("0 0\n1 zero")
    vertices.press("Control+Enter")
    expect(page.get_by_text("These vertices cannot be read")).to_be_visible()
    vertices.fill("0 0\n1 0\n0 1\n1 1")
    vertices.press("Control+Enter")
    expect(page.get_by_text("4 vertices")).to_be_visible()
    run(page)
    section(page, "Results")
