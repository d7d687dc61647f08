"""Clouds of runs in a browser: by keyboard, without the server; the step stays while the page's settings change."""

import re

import pytest
from playwright.sync_api import Page, expect

from dpviz.plots.elements.style import GREY
from tests.browser.conftest import Visit, done, overflow, part

BENCH = (
    "/accelerated?accel_data=Quadratic+test+bench&accel_methods=DP-GD&accel_methods=DP-NAG&accel_iterations=40"
    "&accel_face=Cloud"
)
END = re.compile("at step 40,")
COLORS = """() => {
    const { fill, stroke } = CanvasRenderingContext2D.prototype;
    [window.filled, window.stroked] = [new Set(), new Set()];
    Object.assign(CanvasRenderingContext2D.prototype, {
        fill() { filled.add(this.fillStyle); fill.call(this); },
        stroke() { stroked.add(this.strokeStyle); stroke.call(this); },
    });
}"""


def test_it_plays_pauses_steps_and_keeps_its_step_while_a_slider_moves(visit: Visit) -> None:
    page: Page = visit(BENCH)
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    done(page)
    cloud = part(page, "accel_hero_cloud")
    pictures = cloud.get_by_role("img")
    expect(pictures).to_have_count(2)
    expect(pictures.nth(1)).to_have_accessible_name(
        re.compile(r"^DP-NAG: 20 private runs at step 40, median excess loss [\d.]+")
    )
    still = pictures.first.evaluate("node => node.toDataURL()")
    page.evaluate(COLORS)

    play = cloud.get_by_role("button", name="Play")
    play.press("Enter")
    pause = cloud.get_by_role("button", name="Pause")
    expect(pictures.first).not_to_have_accessible_name(END)  # from the end it begins anew
    expect(pictures.first).not_to_have_accessible_name(re.compile("at step 0,"))
    pause.press("Space")
    expect(play).to_be_focused()
    step = cloud.get_by_role("slider", name="Step")
    step.focus()
    page.keyboard.press("Home")
    expect(step).to_have_attribute("aria-valuetext", "step 0 of 40")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    cloud.get_by_role("button", name="One step forward").press("Enter")
    expect(pictures.first).to_have_accessible_name(re.compile("at step 3,"))
    cloud.get_by_role("button", name="One step back").press("Enter")
    at_two = re.compile(r"at step 2, median excess loss ([\d.]+)")
    expect(pictures.first).to_have_accessible_name(at_two)
    assert pictures.first.evaluate("node => node.toDataURL()") != still
    filled, stroked = page.evaluate("[[...filled], [...stroked]]")
    assert GREY.lower() in stroked and GREY.lower() not in filled, "a ring, which covers no run"

    before = pictures.first.get_attribute("aria-label")
    pictures.first.evaluate("node => { node.dataset.first = 'yes' }")
    page.get_by_role("slider", name="Privacy budget ε").press("ArrowRight")
    expect(pictures.first).not_to_have_attribute("aria-label", before or "")  # the runs of the new budget moved in
    expect(pictures.first).to_have_accessible_name(at_two)
    expect(pictures.first).to_have_attribute("data-first", "yes")  # and were not drawn anew
    done(page)
    assert not wrong


WRITTEN = """() => {
    const { fillText } = CanvasRenderingContext2D.prototype;
    window.written = new Map();
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const size = this.measureText(text);
        const [left, right] = [x - size.actualBoundingBoxLeft, x + size.actualBoundingBoxRight];
        const { width, height } = this.canvas.getBoundingClientRect();
        const whole = left >= 0 && right <= width && y + size.actualBoundingBoxDescent <= height;
        if (this.canvas.closest?.(".panel")) window.written.set(text, whole);
        fillText.call(this, text, x, y);
    };
}"""


@pytest.mark.parametrize("settings", ["preset=hide-and-seek-a-triangle&", ""])
def test_on_a_telephone_with_less_motion_it_plays_and_no_word_of_a_panel_is_cut(visit: Visit, settings: str) -> None:
    address = f"/mirror_descent?{settings}mirror_face=Cloud"
    page: Page = visit(address, viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page.evaluate(WRITTEN)
    done(page)
    cloud = part(page, "mirror_hero_cloud")
    end = cloud.get_by_role("img").first.get_attribute("aria-label") or ""
    cloud.get_by_role("button", name="Play").press("Enter")
    expect(cloud.get_by_role("img").first).not_to_have_accessible_name(end)
    cloud.get_by_role("button", name="Pause").press("Enter")
    page.wait_for_function("() => window.written.size > 2")
    written: dict[str, bool] = page.evaluate("() => Object.fromEntries(window.written)")
    assert all(written.values()), written
    assert overflow(page) == 0
