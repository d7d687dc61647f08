"""A visitor's own file, from choosing it to a finished run, and files that cannot be used."""

import re

import numpy as np
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Visit, chart, done, drawn, ready, section
from tests.browser.serving import serve
from tests.confirming import confirm

UPLOAD = "/accelerated?accel_data=Your+own+file&accel_iterations=30&accel_replicates=5"
BAD = {
    "empty file": (b"", "empty"),
    "not a table": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "could not be read"),
    "wrong encoding": ("größe,ziel\n1,0\n2,1\n".encode("utf-16"), "could not be read"),
}


def table(rows: int = 2000) -> bytes:
    """Two features, a text column, a target with two classes, and a few missing values; as CSV."""
    generator = np.random.default_rng(0)
    age, income = generator.integers(18, 90, rows), generator.normal(3000, 800, rows).round()
    bought = np.where(age / 90 + income / 6000 + generator.normal(0, 0.3, rows) > 1.1, "yes", "no")
    lines = [f"{a},{i:.0f},{'north' if a % 2 else 'south'},{b}" for a, i, b in zip(age, income, bought, strict=True)]
    lines[10] = ",2500,north,no"
    lines[20] = "33,,south,yes"
    return "\n".join(["age,income,region,bought", *lines]).encode()


# A name, a category and a number that stand nowhere but in a file.
MARKS = ("visitor7731", "income7731", "north7731", "7731.25")
MARKED = ("income7731,region,bought\n" + "7731.25,north7731,yes\n2600,south,no\n" * 200).encode()


def choose(page: Page, name: str, content: bytes) -> None:
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": content}
    )


def test_csv_from_upload_to_finished_run(visit: Visit) -> None:
    page = visit(UPLOAD)
    run = page.get_by_role("button", name="Run", exact=True)
    choose(page, "customers.csv", table())
    expect(page.get_by_text("from the data, not private")).to_be_visible()
    expect(page.get_by_text("2,000 rows, 4 columns")).to_have_count(0)
    confirm(page)
    expect(page.get_by_text("2,000 rows, 4 columns")).to_be_visible()
    expect(page.get_by_text("Column 'age' needs a range")).to_be_visible()
    page.get_by_role("button", name="Fill from the data").click()
    expect(page.get_by_text("Ready: 2,000 rows, 2 features.")).to_be_visible()
    expect(page.get_by_text("middle of the declared range: 1 in 'age', 1 in 'income'")).to_be_visible()
    page.get_by_text("Drop the 2 rows with missing values").click()
    expect(page.get_by_text("Ready: 1,998 rows, 2 dropped, 2 features.")).to_be_visible()
    expect(page.get_by_text("ranges taken from the data: not private")).to_be_visible()

    run.click()
    done(page)
    section(page, "Results")
    expect(page.get_by_text("Curves and numbers that read your raw data are hidden.")).to_be_visible()
    expect(chart(page, "^Excess loss")).to_have_count(0)
    page.get_by_text("Show non-private diagnostics").click()
    expect(drawn(page, "^Excess loss.* against steps").locator("path.js-line").first).to_be_attached()
    assert "customers" not in page.url and "income" not in page.url
    ready(page)


def test_a_file_that_cannot_be_read_gets_a_sentence_and_loses_no_setting(visit: Visit) -> None:
    page = visit(UPLOAD)
    for number, (content, title) in enumerate(BAD.values()):
        choose(page, "data.csv", content)
        alert = page.get_by_role("alert").filter(has_text=re.compile(title, re.IGNORECASE))
        expect(alert).to_be_visible()
        expect(alert).not_to_contain_text(re.compile("Error|Traceback|Exception"))
        expect(page.get_by_label("Steps T, exact value")).to_have_value("30")
        expect(page.get_by_label("Repeats R, exact value")).to_have_value("5")
        choose(page, "customers.csv", table(200 + number))
        if number == 0:  # from then on the file of this name is read as it was declared
            confirm(page)
        expect(page.get_by_text(f"{200 + number} rows, 4 columns")).to_be_visible()
        expect(alert).to_have_count(0)
        ready(page)


def test_no_log_holds_anything_of_a_file(browser: Browser) -> None:
    """Neither its name nor its columns, categories and numbers, whatever the server is asked to log."""
    with serve("--logger.level=debug") as server:
        page = browser.new_page()
        page.goto(server.url + UPLOAD)
        ready(page)
        choose(page, "visitor7731.csv", MARKED)
        confirm(page)
        page.get_by_role("button", name="Fill from the data").click()
        expect(page.get_by_text("Ready: 400 rows")).to_be_visible()
        page.get_by_role("button", name="Run", exact=True).click()
        done(page)
        page.context.close()
        assert "Runtime state" in server.printed()  # which is said at that level only
        assert [mark for mark in MARKS if mark in server.printed()] == []
