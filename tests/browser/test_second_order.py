"""The page of second-order solutions in a browser: the landscape, a stop, a preset, a copy of the paper's file."""

import re

import numpy as np
import pandas as pd
from playwright.sync_api import expect

from dpviz.datasets.covertype import WIDTH
from tests.browser.conftest import PICTURE, Visit, chart, done, drawn, ready, section
from tests.confirming import confirm


def test_the_landscape_comes_by_itself_and_the_light_moves_with_the_budget(visit: Visit) -> None:
    page = visit("/second_order?second_section=Results")
    done(page)
    expect(page.locator(PICTURE).locator(".contourlayer path").first).to_be_attached()
    expect(page.locator(PICTURE).first.locator(".point")).to_have_count(80)  # twenty runs of four methods
    expect(page.get_by_text("20 of 20").first).to_be_visible()
    expect(drawn(page, "^Is the gradient small").locator(".point").first).to_be_attached()
    section(page, "Plan")
    expect(page.get_by_text("OPT: stops soon")).to_be_visible()
    budget = page.get_by_role("spinbutton", name=re.compile("Privacy budget"))
    budget.fill("0.1")
    budget.press("Enter")
    expect(page.get_by_text("OPT: will hardly stop")).to_be_visible()
    expect(page.get_by_text(re.compile("times less noise would turn it green"))).to_be_visible()
    page.get_by_role("combobox", name="Preset").fill("Amber")
    page.get_by_role("combobox", name="Preset").press("Enter")
    expect(page.get_by_text("OPT: stops late, by luck of the noise")).to_be_visible()
    expect(budget).to_have_value("0.5")
    ready(page)


def test_runs_that_never_learn_can_be_stopped(visit: Visit) -> None:
    repeats = "/second_order?second_follow=false&second_methods=OPT&second_gradient_target=0.01&second_replicates=50"
    page = visit(f"{repeats}&second_epsilon=0.05&second_references=false")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(PICTURE).locator(".point").first).to_be_attached()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(
        page.get_by_role("main").get_by_text(re.compile("Stopped after .* What was computed is kept"))
    ).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    expect(page.get_by_text("0 of 50").first).to_be_visible()
    ready(page)


def test_a_copy_of_the_papers_file_runs_by_click(visit: Visit) -> None:
    page = visit("/second_order?second_data=Your+copy+of+covtype.data&second_methods=OPT&second_replicates=2")
    generator = np.random.default_rng(0)
    cells = generator.integers(0, 2, (2000, WIDTH + 1))
    cells[:, :10] *= 1000
    cells[:, -1] = np.resize([1, 2, 2, 3], 2000)
    content = pd.DataFrame(cells).to_csv(header=False, index=False).encode()
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(
        {"name": "covtype.data", "mimeType": "text/plain", "buffer": content}
    )
    confirm(page)
    expect(page.get_by_text(re.compile("Ready: 1,500 rows"))).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    done(page)
    section(page, "Results")
    expect(page.get_by_text("Did they stop, and where?")).to_be_visible()
    expect(page.get_by_text("Curves and numbers that read your raw data are hidden.")).to_be_visible()
    expect(chart(page, "^Objective")).to_have_count(0)
    ready(page)
