"""The page of private tuning in a browser: loss against trainings by itself, the advice in a click, a cloud of runs."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import PICTURE, Visit, chart, done, ready, section

FEW = "tuning_replicates=2&tuning_iterations=6&tuning_trainings=20&tuning_scales_training_rows=60"


def test_loss_falls_with_every_training_and_the_advice_is_one_click(visit: Visit) -> None:
    page = visit(f"/bayesian_optimization?{FEW}&tuning_mu=0.3&tuning_scales_drawn_rows=300")
    done(page)
    expect(page.locator(PICTURE).first.locator(".js-line")).not_to_have_count(0)
    expect(page.get_by_text("Not protected.")).to_be_visible()
    section(page, "Results")
    expect(page.get_by_text(re.compile(r"Trainings of a run: DP-GIBO \d"))).to_be_visible()
    section(page, "Plan")
    page.get_by_role("button", name="Use this bias level").click()
    expect(page).to_have_url(re.compile("tuning_bias_level=0.0"))
    done(page)
    section(page, "Results")
    expect(chart(page, "^The validation loss along one setting at step 3")).to_be_visible()
    expect(chart(page, "^Two settings")).to_be_visible()
    section(page, "Plan")
    page.get_by_role("tab", name="Other ways to look").click()
    expect(chart(page, "^Budget of each try")).to_be_visible()
    ready(page)


def test_runs_are_a_cloud_on_the_loss_of_two_settings(visit: Visit) -> None:
    page = visit(f"/bayesian_optimization?{FEW}&tuning_model=Normal+location&tuning_references=false")
    done(page)
    expect(page.locator(PICTURE).first.locator(".contourlayer path").first).to_be_attached()
    expect(page.locator(PICTURE).first.locator(".point")).to_have_count(4)  # two runs of two methods
    ready(page)
