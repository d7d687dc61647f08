"""The start page: doors and cards lead where they say, and its demonstration moves."""

import re
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, expect

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import Visit, done, part, ready, shared_link
from tests.browser.serving import Server

TITLES = {family.name: family.title for family in FAMILIES}

# Whether all words of all charts are within them.
WHOLE = """() => {
    const words = [...document.querySelectorAll(".dpviz-plot svg text")].filter((node) => node.textContent);
    return words.length > 20 && words.every((node) => {
        const [word, whole] = [node, node.closest(".dpviz-plot")].map((each) => each.getBoundingClientRect());
        return word.left >= whole.left && word.right <= whole.right;
    });
}"""


def test_start_page_shows_doors_and_cards_and_one_slider_moves_its_demonstration(visit: Visit) -> None:
    page = visit("/")
    for title in ("Learn with a preset", "Plan a budget", "Run a method"):
        expect(page.get_by_role("heading", name=re.compile(title))).to_be_visible()
    main = page.get_by_role("main")
    for title in TITLES.values():
        expect(main.get_by_role("heading", name=re.compile(title))).to_be_visible()
    expect(main.get_by_text("Guarantee.")).to_have_count(len(TITLES))
    expect(page.get_by_text("T = 31")).to_be_visible()
    page.get_by_role("slider", name="Privacy budget ε").press("Home")
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value("0.01")
    expect(page.get_by_text("T = 31")).to_have_count(0)
    ready(page)


def test_a_first_page_is_light_and_asks_for_nothing_that_is_not_there(browser: Browser, server: Server) -> None:
    context = browser.new_context()
    page, network = context.new_page(), {"bytes": 0.0}
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.on(
        "Network.loadingFinished", lambda file: network.update(bytes=network["bytes"] + file["encodedDataLength"])
    )
    page.goto(f"{server.url}/accelerated")
    done(page)
    assert refused == [] and 1e6 < network["bytes"] < 2.5e6
    context.close()


@pytest.mark.parametrize("width", [768, 1100, 1440])
def test_no_word_of_the_three_pictures_is_cut(visit: Visit, width: int) -> None:
    page = visit("/", viewport={"width": width, "height": 1000}, color_scheme="dark")
    for name in ("answer", "walk", "price"):
        picture = part(page, f"home_{name}")
        picture.scroll_into_view_if_needed()
        expect(picture.locator("svg.main-svg").first).to_be_visible()
    page.wait_for_function(WHOLE, timeout=20_000)


@pytest.mark.parametrize("address", [name if name == "accelerated" else pytest.param(name) for name in TITLES])
def test_preset_of_a_card_opens_on_its_page(visit: Visit, address: str) -> None:
    page = visit("/")
    part(page, f"home_card_{address}").get_by_role("button", name=re.compile("^Try .")).click()
    expect(page).to_have_url(re.compile(f"/{address}"))
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLES[address])
    expect(page.get_by_role("combobox", name="Preset")).to_have_value(re.compile("^Start here"))
    ready(page)


@pytest.mark.parametrize(
    ("button", "preset", "budget"),
    [("Open Figure 3", "Figure 3: logistic regression", "10"), pytest.param("Run on real data", "Real data", "1")],
)
def test_a_door_leads_to_an_address_that_holds_its_experiment_and_its_run_starts(
    visit: Visit, button: str, preset: str, budget: str
) -> None:
    """Reloaded, or opened by somebody else, it is the same experiment: the one that "Copy link" gives, too."""
    page = visit("/")
    page.get_by_role("button", name=button).click()
    menu = page.get_by_role("combobox", name="Preset")
    expect(menu).to_have_value(re.compile(f"^{preset}"))
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value(budget)
    expect(page).to_have_url(re.compile("accel_epsilon="))
    done(page)
    link = shared_link(page, "accel_epsilon=")
    assert parse_qs(page.url.partition("?")[2]) == parse_qs(link.partition("?")[2])
    page.reload()
    expect(menu).to_have_value(re.compile(f"^{preset}"))
    ready(page)


def test_a_preset_from_the_menu_writes_the_address_of_controls_that_it_brings(visit: Visit) -> None:
    page = visit("/accelerated?accel_uniform_rows=2000")
    menu = page.get_by_role("combobox", name="Preset")
    figure, start = "Figure 2: the optimal noise schedule", "Start here: same privacy, three methods"
    for name in (figure, start, figure):
        menu.click()
        page.get_by_role("option", name=name).click()
        expect(page.get_by_text(f"{name}.", exact=True)).to_be_visible()  # the server has seen it, not the menu alone
        ready(page)
    for setting in ("accel_quadratic_smoothness=20", "accel_iterations=294", "accel_methods=DP-MASG-opt"):
        expect(page).to_have_url(re.compile(setting))
    page.reload()
    expect(menu).to_have_value("Figure 2: the optimal noise schedule")
    ready(page)


def test_the_icon_of_the_tab_comes_from_this_server(visit: Visit) -> None:
    """Streamlit asks Google for material icons: then a third party would learn of every visit."""
    page = visit("/")
    expect(page.locator("link[rel~=icon]")).not_to_have_attribute("href", re.compile("^https?://"))
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Budget planner")
    expect(page.locator("link[rel~=icon]")).not_to_have_attribute("href", re.compile("^https?://"))
