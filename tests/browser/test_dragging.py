"""The plans of all stops are drawn while a slider is dragged; the server hears of its beginning and its end alone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import Visit, done, part, ready
from tests.plots.test_style import luminance
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


# What is seen from now on, one entry per change: whether picture and number are pale, the guarantee, the curves.
FRAMES = """() => {
    const at = (key) => document.querySelector(`[class*="st-key-accel_${key}"]`);
    const isPale = (node) => +getComputedStyle(node).opacity < 1;
    window.seen = [];
    const look = () => {
        const [plot, number, line] = [at("hero").querySelector(".dpviz-plot"), at("number"), at("guarantee")];
        const ends = plot.calcdata.filter(([{ trace }]) => trace.name).map((line) => line.at(-1).y).join();
        const now = [isPale(plot), isPale(number), line.dataset.stop ?? line.textContent, ends];
        if (String(now) !== String(seen.at(-1))) seen.push(now);
        requestAnimationFrame(look);
    };
    look();
}"""


def test_what_is_old_is_pale_from_the_first_redraw_until_new_curves_come_which_never_are(visit: Visit) -> None:
    page = visit("/")
    with page.expect_websocket() as socket:
        page.goto(f"{page.url.rstrip('/')}/accelerated")
    done(page)
    slider, main = page.get_by_role("slider", name="Privacy budget"), part(page, "accel_hero").locator(".dpviz-plot")
    value, box = page.get_by_test_id("stMetricValue"), slider.bounding_box()
    old_value = value.inner_text()
    assert box is not None
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2)
    expect(main).to_have_class(re.compile("pale"))
    page.evaluate(FRAMES)
    with socket.value.expect_event("framereceived"):
        page.emulate_media(color_scheme="dark")  # the server draws the page again, during the drag
    ready(page)
    dragged = page.evaluate("seen")
    assert all(frame[:2] == [True, True] for frame in dragged), dragged
    old_curves = {frame[3] for frame in dragged}
    page.mouse.up()
    expect(value).not_to_have_text(old_value)
    expect(main).not_to_have_class(re.compile("pale"))
    done(page)
    frames = page.evaluate("seen")
    assert all(is_pale == (curves in old_curves) for is_pale, _, _, curves in frames), frames
    assert {line for _, _, line, _ in frames} == {dragged[0][2]}
    assert frames[-1][:2] == [False, False]


LINES = """node => node.calcdata
    .filter(([{ trace }]) => trace.mode === "lines" && trace.line.width && trace.fill === "none")
    .map(line => ({ pale: line[0].trace.legendgroup === "before", ends: line.at(-1).y, steps: line.length }))"""
# The strokes of the lines, with those before marked as pale, and the dashes of the levels after a stop.
STROKES = """node => ({
    page: node._fullLayout.plot_bgcolor,
    lines: node.calcdata.map(([{ trace }]) => trace)
        .filter(({ mode, line, fill }) => mode === "lines" && line.width && fill === "none")
        .map(({ legendgroup, opacity, line }) => ({ ...line, opacity, pale: legendgroup === "before" })),
    levels: node._fullLayout.shapes.filter(({ name }) => name === "level").map(({ line }) => line.dash),
})"""


def contrast(line: dict[str, Any], page: str) -> float:
    """Return the contrast with the page of a line's colour at its opacity."""
    channels = ((int(line["color"][i : i + 2], 16), int(page[i : i + 2], 16)) for i in (1, 3, 5))
    mixed = "".join(f"{round(line['opacity'] * ink + (1 - line['opacity']) * ground):02x}" for ink, ground in channels)
    low, high = sorted((luminance(f"#{mixed}"), luminance(page)))
    return (high + 0.05) / (low + 0.05)


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
    for scheme, ground in (("light", "#ffffff"), ("dark", "#171614")):
        page.emulate_media(color_scheme=scheme)
        for chart in charts:
            until(lambda chart=chart, ground=ground: chart.evaluate(STROKES)["page"].lower() == ground)
            strokes = chart.evaluate(STROKES)
            before, now = ([line for line in strokes["lines"] if line["pale"] is pale] for pale in (True, False))
            assert before
            for line in before:
                alike = [contrast(other, ground) for other in now if other["color"] == line["color"]]
                assert 2 <= contrast(line, ground) < min(alike, default=3), line
            assert {line["dash"] for line in strokes["lines"]}.isdisjoint(strokes["levels"])
    assert charts[0].evaluate(STROKES)["levels"], "DP-NAG-opt stops early"
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
    page.goto(f"{page.url.partition('/accelerated')[0]}/budget_planner")
    ready(page)
    bars = part(page, "planner_chart_errors").locator(".dpviz-plot")
    expect(bars.locator(".bars path").first).to_be_attached()
    budget.fill("0.2")
    budget.press("Enter")
    expect(bars).to_contain_text("pale: before, ε = 2")
    until(lambda: bars.evaluate("node => node.calcdata.length") == 2)
    before, now = bars.evaluate("node => node.calcdata.map(bars => bars.map(({ s }) => s))")
    assert now == pytest.approx([10 * error for error in before], rel=0.1)
    assert bars.evaluate("node => node._fullLayout.xaxis.range[1]") >= max(now)
    rows = page.get_by_label("Rows n, exact value")
    rows.fill("20000")
    rows.press("Enter")
    expect(bars).to_contain_text("pale: before, n = 10,000")
    assert bars.evaluate("node => node._fullLayout.xaxis.range[1]") >= max(now), "what was before has room"
