"""The plans of all stops are drawn while a slider is dragged; the server hears of its beginning and its end alone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import Visit, done, part, ready
from tests.waiting import until

DRAWN = """node => JSON.stringify(
    [node.calcdata?.map(line => line.map(({ y }) => y)), node.layout?.annotations?.map(({ text }) => text)])"""


def other_than(plot: Locator, before: str) -> str:
    until(lambda: plot.evaluate(DRAWN) != before)
    return plot.evaluate(DRAWN)


@pytest.mark.parametrize("name", [family.name for family in FAMILIES])
def test_charts_follow_the_pointer_and_the_arrow_keys_without_the_server(visit: Visit, name: str) -> None:
    prefix = next(family.page().prefix for family in FAMILIES if family.name == name)
    page = visit("/")
    sent: list[Any] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.goto(f"{page.url.rstrip('/')}/{name}?{prefix}_follow=false")
    ready(page)
    charts = [part(page, f"{prefix}_hero_{name}").locator(".dpviz-plot") for name in ("noise", "privacy")]
    shown = [other_than(plot, "[null,null]") for plot in charts]
    slider, number = page.get_by_role("slider", name="Privacy budget"), page.get_by_label(re.compile("budget.*exact"))
    guarantee, box = page.locator(f".st-key-{prefix}_guarantee"), slider.bounding_box()
    assert box is not None and box["width"] >= 160
    before, middle = len(sent), box["y"] + box["height"] / 2

    page.mouse.move(box["x"] + 0.6 * box["width"], middle)
    page.mouse.down()
    for share in (0.5, 0.4, 0.3):
        page.mouse.move(box["x"] + share * box["width"], middle)
        shown = [other_than(plot, old) for plot, old in zip(charts, shown, strict=True)]
    assert len(sent) == before + 1, "the press"
    at = slider.get_attribute("aria-valuetext") or ""
    said = guarantee.get_attribute("data-stop") or ""
    assert re.search(rf"^Guarantee of .*= {re.escape(at)}\b", said), said
    page.mouse.up()
    expect(number).to_have_value(at.replace(",", ""))
    ready(page)
    assert len(sent) == before + 2, "the release"
    expect(guarantee).to_have_text(said)
    expect(guarantee).not_to_have_attribute("data-stop", re.compile(""))
    assert [plot.evaluate(DRAWN) for plot in charts] == shown, "the server draws what was seen"

    for _ in range(3):
        slider.press("ArrowRight")  # by now the browser has all stops
        shown = [other_than(plot, old) for plot, old in zip(charts, shown, strict=True)]
    at = slider.get_attribute("aria-valuetext") or ""
    expect(number).to_have_value(at.replace(",", ""))


def test_what_belongs_to_the_settings_before_is_pale_while_a_slider_is_dragged(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    slider, main = page.get_by_role("slider", name="Privacy budget"), part(page, "accel_hero").locator(".dpviz-plot")
    number, box = part(page, "accel_number"), slider.bounding_box()
    assert box is not None and "pale" not in (main.get_attribute("class") or "")
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2)
    expect(main).to_have_class(re.compile("pale"))
    expect(number).to_have_css("opacity", "0.72")
    page.mouse.up()
    done(page)
    expect(main).not_to_have_class(re.compile("pale"))
    expect(number).to_have_css("opacity", "1")


LINES = """node => node.calcdata
    .filter(([{ trace }]) => trace.mode === "lines" && trace.line.width && trace.fill === "none")
    .map(line => ({ pale: line[0].trace.opacity < 0.5, ends: line.at(-1).y, steps: line.length }))"""


def test_after_a_move_the_lines_before_stay_until_another_control_is_moved(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    charts = [part(page, f"accel_{name}").locator(".dpviz-plot") for name in ("hero", "hero_noise", "hero_privacy")]
    budget, steps = (page.get_by_label(f"{name}, exact value") for name in ("Privacy budget ε", "Steps T"))
    for value in ("1", "0.2"):  # moved twice: what was before both moves stays
        budget.fill(value)
        budget.press("Enter")
        done(page)
    for chart in charts:
        expect(chart).to_contain_text("pale: before, ε = 2")
        expect(chart).to_have_attribute("aria-label", re.compile("Pale lines: before, ε = 2"))
    noise = charts[1].evaluate(LINES)
    (before, now) = (
        next(line for line in noise if line["pale"] is pale and line["steps"] == 100) for pale in (True, False)
    )
    assert now["ends"] == pytest.approx(10 * before["ends"])
    low, high = charts[1].evaluate("node => node._fullLayout.yaxis.range.map(end => 10 ** end)")
    assert low < before["ends"] < now["ends"] < high
    main = charts[0].evaluate(LINES)
    assert any(line["pale"] for line in main)
    expect(charts[0]).to_contain_text(re.compile(r"stops at\s*T\s=\s5"))
    steps.fill("50")
    steps.press("Enter")
    done(page)
    for chart in charts:
        expect(chart).to_contain_text("pale: before, T = 100")
    budget.fill("2")
    budget.press("Enter")
    steps.fill("100")
    steps.press("Enter")
    done(page)
    page.reload()
    done(page)
    for chart in charts:
        expect(chart).not_to_contain_text("pale: before")
