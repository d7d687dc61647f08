"""What an address promises: the page with exactly these settings, for the first visitor of a server, too."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from dpviz.families.accelerated.presets import PRESETS
from dpviz.ui.families import FAMILIES
from dpviz.ui.streamlit_patches import DRAWS
from tests.apart import apart
from tests.benchmarks.visitors import Visitor
from tests.browser.conftest import SECONDS, Visit, done, ready, shared_link
from tests.browser.serving import Server, serve

SETTINGS = {
    "Rows n, exact value": "2000",
    "Privacy budget ε, exact value": "0.7",
    "Steps T, exact value": "42",
    "Batch m/n, exact value": "0.25",
    "Regularisation λ, exact value": "0.05",
    "Repeats R, exact value": "3",
    "Seed": "7",
}
ADDRESS = "/accelerated?" + urlencode(
    {
        "accel_uniform_rows": 2000,
        "accel_epsilon": 0.7,
        "accel_iterations": 42,
        "accel_batch_fraction": 0.25,
        "accel_regularisation": 0.05,
        "accel_replicates": 3,
        "accel_seed": 7,
        "accel_scaling": "[-½, ½]",
        "accel_references": "false",
        "accel_methods": ["DP-GD", "DP-NAG-T*"],
    },
    doseq=True,
)
# Every menu that a page has had.
MENUS = """menus = []; new MutationObserver(() => {
    const links = [...document.querySelectorAll("[data-testid=stSidebarNavLink]")].map((link) => link.textContent);
    if (links.length) menus.push(links.join());
}).observe(document, { childList: true, subtree: true });"""
GUARANTEE = re.compile(r"Guarantee of each method: ε = 0\.7,")


def shows_the_settings(page: Page) -> None:
    """Numbers, a choice, and several choices; those in a closed expander, too."""
    for label, value in SETTINGS.items():
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
    for method, chosen in {"DP-GD": "true", "DP-NAG-T*": "true", "DP-NAG": "false", "DP-MASG": "false"}.items():
        expect(page.get_by_role("button", name=method, exact=True)).to_have_attribute("aria-pressed", chosen)
    expect(page.get_by_text(GUARANTEE)).to_be_visible()
    page.get_by_text("Model and clipping").click()
    expect(page.get_by_role("radio", name="[-½, ½]")).to_be_checked()


def test_cold_deep_link_shows_menu_and_values(browser: Browser) -> None:
    """On a fresh server, Streamlit would run the page alone: without menu, for every visitor, or with one of files."""
    with serve() as fresh:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.add_init_script(MENUS)
        page.goto(fresh.url + ADDRESS)
        ready(page)
        menu = page.get_by_role("navigation", name="App pages")
        expect(menu.get_by_role("link", name="Accelerated gradient")).to_be_visible()
        pages = ["Start", "Lessons", "Budget planner", "Compare", "Audit", *(family.title for family in FAMILIES)]
        expect(menu.get_by_role("link")).to_have_text([re.compile(f"{title}$") for title in pages])
        assert [menu for menu in page.evaluate("menus") if "Budget planner" not in menu] == [], "never another one"
        shows_the_settings(page)
        sidebar = page.get_by_test_id("stSidebar").bounding_box()
        assert sidebar and sidebar["width"] == 350, "as wide as on every later visit: a slider beside its number"
        page.close()
        assert "Traceback" not in fresh.printed()


def test_an_address_goes_along_to_a_new_tab_to_other_pages_and_with_a_preset(visit: Visit) -> None:
    page = visit(ADDRESS)
    shows_the_settings(page)
    page.get_by_label("Steps T, exact value").fill("55")
    page.get_by_label("Steps T, exact value").press("Enter")
    expect(page).to_have_url(re.compile("accel_iterations=55"))
    link = shared_link(page, "accel_iterations=55")

    with page.context.expect_page() as opened:
        page.evaluate("link => window.open(link)", link)
    tab = opened.value
    ready(tab)
    for label, value in {**SETTINGS, "Steps T, exact value": "55"}.items():
        expect(tab.get_by_label(label, exact=True)).to_have_value(value)
    tab.close()

    menu = page.get_by_role("navigation", name="App pages")
    menu.get_by_role("link", name="Start").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Accelerated gradient")
    expect(page).not_to_have_url(re.compile("accel_"))
    menu.get_by_role("link", name="Accelerated gradient").click()
    expect(page).to_have_url(re.compile("accel_iterations=55"))
    expect(page.get_by_label("Rows n, exact value")).to_have_value("2000")

    presets = page.get_by_role("combobox", name="Preset")
    figure = "Figure 2: the optimal noise schedule"
    presets.click()
    page.get_by_role("option", name=figure).click()
    # Those of controls that it brings, too.
    for setting in ("accel_quadratic_smoothness=20", "accel_iterations=294", "accel_methods=DP-MASG-opt"):
        expect(page).to_have_url(re.compile(setting))
    page.reload()
    expect(presets).to_have_value(figure)
    ready(page)


def test_back_forward_and_reload_keep_all_settings(visit: Visit) -> None:
    page = visit("/")
    menu, title = page.get_by_role("navigation", name="App pages"), page.get_by_role("heading", level=1)

    def at(name: str, path: str, budget: str) -> None:
        expect(title.first).to_have_text(name)  # what was there before is below it until all is drawn
        expect(page).to_have_url(re.compile(rf"/{re.escape(path)}$"))
        if budget:
            expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value(budget)
            done(page)
        ready(page)
        expect(title).to_have_count(1)

    page.get_by_role("button", name="Run a method").click()  # a page that another one opens
    at("Accelerated gradient", "accelerated", "2")
    page.get_by_role("slider", name=SLIDER).press("ArrowLeft")  # settings are no entries of the browser's history
    at("Accelerated gradient", "accelerated?accel_epsilon=1.5", "1.5")
    page.get_by_label(STEPS).fill("50")
    page.get_by_label(STEPS).press("Enter")
    settings = "accelerated?accel_epsilon=1.5&accel_iterations=50"
    at("Accelerated gradient", settings, "1.5")
    menu.get_by_role("link", name="Private games").click()
    at("Private games", "mirror_descent", "1")
    page.get_by_role("slider", name=SLIDER).press("ArrowRight")
    expect(page).to_have_url(re.compile("epsilon="))
    expect(page.get_by_label(NUMBER)).not_to_have_value("1")  # drawn later than the address changes
    other = page.url.rpartition("/")[2], page.get_by_label(NUMBER).input_value()
    menu.get_by_role("link", name="Lessons").click()
    at("Lessons", "learn", "")
    page.get_by_role("main").get_by_role("button").first.click()
    expect(page).to_have_url(re.compile("step=1"))

    page.go_back()
    at("Lessons", "learn", "")
    page.go_back()
    at("Private games", *other)
    page.go_back()
    at("Accelerated gradient", settings, "1.5")
    expect(page.get_by_label(STEPS)).to_have_value("50")
    page.go_forward()
    at("Private games", *other)
    page.reload()
    at("Private games", *other)
    page.go_back()
    at("Accelerated gradient", settings, "1.5")
    page.go_back()
    at("See what privacy costs", "", "")


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:8501", 101), ("127.0.0.1", 101), ("[::1]:1", 101), ("dpviz.evil.example", 403)]
)
def test_only_names_of_this_machine_open_a_session(server: Server, host: str, status: int) -> None:
    """A page that some other site has loaded under its own name (DNS rebinding) gets no connection."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=SECONDS)
    handshake = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": b64encode(bytes(16)).decode(), "Origin": f"http://{host}", "Host": host}
    connection.request("GET", "/_stcore/stream", headers=handshake | key)
    answer = connection.sock.recv(100)
    connection.close()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_what_could_not_be_read_of_an_address_is_said_where_it_covers_no_button(visit: Visit, server: Server) -> None:
    page = visit("/")
    page.goto(f"{server.url}/accelerated?accel_follow=false&accel_epsilon=banana")
    said = page.get_by_text("Part of this link could not be read. Check Privacy budget ε.")
    expect(said).to_be_visible()  # for a few seconds
    words = said.bounding_box()
    ready(page)
    run = page.get_by_role("button", name="Run", exact=True).bounding_box()
    assert run is not None and words is not None and words["y"] > 500 > run["y"] + run["height"]


NUMBER, SLIDER, STEPS = "Privacy budget ε, exact value", "Privacy budget ε", "Steps T, exact value"
BY_CLICK, FEW = {"accel_follow": "false"}, {"accel_iterations": "20", "accel_replicates": "3"}
REPEATS, FIGURE_1 = "Repeats R, exact value", "Figure 1: momentum amplifies noise"
# The address, then what a browser says in turn (method and arguments), seconds of silence, and what the page says or
# what holds of it.
SCENES: dict[str, tuple[dict[str, str], list[tuple[Any, ...] | str | float | Callable[[Visitor], bool]]]] = {
    # As one does that waited long, whose second request comes when the page has been drawn.
    "a tab that asks for its first page twice keeps its settings": (
        FEW,
        [("ask_by_address",), lambda visitor: visitor.query == FEW and visitor.controls[STEPS].value == 20],
    ),
    # The browser says its old value once more, as it has not drawn the new one; going back to it alone is a change.
    "a number that a slider has just set is not taken back with the next change": (
        {},
        [
            *[("still_shows", NUMBER, 1.0), ("enter", "Seed", 3), ("move", SLIDER, "3"), "ε = 3"],
            *[("still_shows", NUMBER, 1.0), ("enter", STEPS, 42), "ε = 3", "epochs in 42 steps"],
            lambda visitor: visitor.controls[NUMBER].set_value,  # once more, for a browser that never drew it
            *[("enter", NUMBER, 1.0), "ε = 1", lambda visitor: not visitor.says("ε = 3")],
        ],
    ),
    # A busy browser says of a number that was left by a click, and of that click, in one request.
    "a number typed back is meant where its slider shows what the preset has set": (
        BY_CLICK,
        [
            *[
                ("still_shows", REPEATS, 20.0),
                ("still_shows", "Repeats R", ["20"]),
                ("still_shows", "Preset", FIGURE_1),
            ],
            *[("ask_by_address",), lambda visitor: visitor.query["accel_replicates"] == "50.0"],
            *[("still_shows", REPEATS, 20.0), ("still_shows", "Repeats R", ["50"]), ("press", "Run")],
            lambda visitor: "accel_replicates" not in visitor.query,
        ],
    ),
    "Run runs the number that was typed just before": (
        BY_CLICK | {"accel_replicates": "2"},
        [
            *[("still_shows", NUMBER, 3.0), ("press", "Run")],
            ("until", lambda visitor: visitor.says("Done:") and visitor.drawn == visitor.begun),
            *["ε = 3", lambda visitor: not visitor.says("Settings changed since this run")],
        ],
    ),
    # A slider was moved twice; the browser has drawn the number of the first time when the visitor goes on.
    "a value that was set and soon replaced is not taken for a choice": (
        BY_CLICK,
        [
            *[("still_shows", NUMBER, 1.0), ("enter", "Seed", 3)],
            *[("still_shows", NUMBER, 1.0), ("move", SLIDER, "3"), ("still_shows", NUMBER, 1.0), ("move", SLIDER, "5")],
            *[("still_shows", NUMBER, 3.0), ("enter", STEPS, 42), "ε = 5", "epochs in 42 steps"],
        ],
    ),
    # The browser has not drawn yet that the settings are no preset's any more, and says so with the second change.
    "a quick second change takes back nothing": (
        {},
        [
            *[("enter", NUMBER, 0.7), ("still_shows", "Preset", PRESETS[0].name), ("enter", STEPS, 42)],
            lambda visitor: visitor.query == {"accel_epsilon": "0.7", "accel_iterations": "42"},
        ],
    ),
    # A menu sends a change of its own at once, so its old value is none, however late it comes with another change.
    "the panel of a file stays when a browser draws it long after the server": (
        BY_CLICK,
        [
            *[
                ("still_shows", "Data set", "Uniform features, logistic labels"),
                ("enter", "Seed", 3),
                ("press", "Use your own file"),
            ],
            *[1.1 * DRAWS, ("enter", "Regularisation λ, exact value", 0.02)],
            lambda visitor: visitor.query["accel_data"] == "Your own file",
        ],
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_what_a_slow_browser_says_late_changes_nothing_that_was_chosen(server: Server, name: str) -> None:
    settings, scene = SCENES[name]

    async def visits() -> None:
        async with Visitor(server.url, "accelerated", **settings) as visitor:
            for number, act in enumerate(scene):
                if isinstance(act, str):
                    assert visitor.says(act), (number, act)
                elif isinstance(act, float):
                    await asyncio.sleep(act)
                elif isinstance(act, tuple):
                    waiting = getattr(visitor, act[0])(*act[1:])
                    await (waiting or asyncio.sleep(0))
                else:
                    assert act(visitor), number

    apart(visits())
