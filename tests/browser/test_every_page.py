"""Every page, light at a desk and dark on a phone: axe-core finds nothing of ours, nothing sticks out or is covered.

The pictures go to tests/browser/screenshots.
"""

import re
from collections.abc import Iterator
from itertools import combinations
from urllib.parse import urlencode

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, Page, expect

from dpviz.compare.pins import Pin
from dpviz.families.accelerated.presets import PRESETS
from dpviz.ui.appearance import PRESSED
from dpviz.ui.experiment.sections import BACKGROUND, NAMES, RESULTS
from dpviz.ui.families import FAMILIES
from tests.browser.conftest import (
    PICTURE,
    SCREENSHOTS,
    Visit,
    done,
    overflow,
    ready,
    run_is_among_the_first_stops,
    section,
    tab_to,
    title_is_covered,
)
from tests.waiting import until

# Rule and place of what Streamlit itself draws so, whatever a page says; every other rule is checked there, too.
THEIRS = [
    # The menu puts the pages of each section into a `div` between `ul` and `li`.
    ("list", '[data-testid="stSidebarNavItems"]'),
    ("listitem", '[data-testid="stSidebarNavItems"]'),
    ("presentation-role-conflict", '[data-testid="stFileUploaderDropzone"]'),
    # What opens over a page is put behind its landmarks.
    ("region", "#stFloatingOverlayPortal"),
]
FOUND = """async theirs => {
    const found = await axe.run(document, { resultTypes: ["violations"], elementRef: true });
    const ours = (rule, node) => !theirs.some(([of, place]) => of === rule && node.element.closest(place));
    return found.violations.flatMap(({ id, nodes }) => nodes.filter(node => ours(id, node))
        .map(node => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""
# Of a chart: the boxes of its words, with their sizes; without its menu, and what lies above words, such as a legend's.
WORDS = """node => [...node.querySelectorAll('.annotation-text, .xtick text, .ytick text, .legendtext, .xtitle')]
  .filter((text) => text.textContent.trim() && text.getBoundingClientRect().width)
  .map((text) => { const { left, right, top, bottom } = text.getBoundingClientRect();
    const size = parseFloat(getComputedStyle(text).fontSize);
    return { kind: text.getAttribute('class'), words: text.textContent, size, left, right, top, bottom }; })"""
INSIDE = 2  # pixels that boxes of text are higher than their letters
# Whether all words of all charts are within them.
WHOLE = """() => {
    const words = [...document.querySelectorAll(".dpviz-plot svg text")].filter((node) => node.textContent);
    return words.length > 10 && words.every((node) => {
        const [word, whole] = [node, node.closest(".dpviz-plot")].map((each) => each.getBoundingClientRect());
        return word.left >= whole.left && word.right <= whole.right;
    });
}"""
# Names and buttons whose text is wider than their place.
CUT = """() => [...document.querySelectorAll(".stMain :is(label, h1, button, output)")]
    .filter((node) => node.checkVisibility({ visibilityProperty: true }) && node.clientWidth > 2)
    .filter((node) => node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== "visible")
    .map((node) => `${node.textContent}: ${node.clientWidth} of ${node.scrollWidth} pixels`)"""
RAW_MARKUP = re.compile(r"\*\*|\|-|`|\\|^#|_\{", re.MULTILINE)

FAMILY_NAMES = [family.name for family in FAMILIES]
PINS = [("pin", Pin(name, preset.experiment).to_link()) for name, preset in zip(("One", "Two"), PRESETS, strict=False)]
ADDRESSES = {
    "start": "/",
    "learn": "/learn",
    "lesson": "/learn?lesson=steps&step=2",
    "lesson_outcome": "/learn?lesson=shrink&step=3",
    "budget_planner": "/budget_planner",
    "compare": "/compare",
    "compare_pins": f"/compare?{urlencode(PINS)}",
    "audit": "/audit",
    **{name: f"/{name}" for name in FAMILY_NAMES},
}
DESK, PHONE = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}
LOOKS = {"light": DESK, "dark": PHONE}
FOLD = 800  # pixels from the top of a desk's screen
HIGHEST = {"light": 900, "dark": 1600}  # pixels of a page on which no section is open
SIZES = [  # whether somebody presents, and the window
    *[(False, {"width": 1400, "height": 900}), (False, {"width": 1024, "height": 768}), (False, PHONE)],
    *[(True, {"width": 1920, "height": 1080}), (True, {"width": 1400, "height": 900})],
]
SLIDER, MENU = 144, 240  # pixels of one that can be used, at least
SECTIONS = {
    FAMILY_NAMES[0]: list(NAMES),
    "audit": ["Evidence", "Take away", BACKGROUND],
    "budget_planner": ["Solve for", "What it is worth", "Accounting", "Split a budget", BACKGROUND],
    "compare": ["Final numbers", "What is set differently", "What they cost together"],
}
LOW = {*FAMILY_NAMES, "audit", "compare", "compare_pins"}  # pages that are no higher
TALLEST = 8000  # pixels of a picture
# Not yet: on a telephone, words in the chart of a gradient's signal (Private tuning, Results) meet a label.
NOT_YET = ("bayesian_optimization", "dark", RESULTS)


@pytest.mark.parametrize("scheme", LOOKS)
@pytest.mark.parametrize("name", ADDRESSES)
def test_a_page_is_for_everybody_and_fits(visit: Visit, name: str, scheme: str) -> None:
    page = visit(ADDRESSES[name], viewport=LOOKS[scheme], color_scheme=scheme)
    computed(page, name)
    take(page, f"{name}_{scheme}")
    assert (brightness(page) > 128) == (scheme == "light")
    assert not title_is_covered(page)
    sliders_stand_where_their_numbers_are(page)
    if name in LOW:
        assert page.locator(".stMainBlockContainer").evaluate("node => node.scrollHeight") <= HIGHEST[scheme]
    if name in FAMILY_NAMES and scheme == "light":
        answer_stands_above_the_fold(page)
        run_is_among_the_first_stops(page)
    for view in views(page, name):
        ready(page)
        assert violations(page) == [], view
        assert overflow(page) == 0, view
        if name in FAMILY_NAMES and view in ("first", "More charts", RESULTS) and (name, scheme, view) != NOT_YET:
            words_are_apart(page)
    if name in (*FAMILY_NAMES, "budget_planner"):
        derivations_are_set(page)
    for width in (1100, 768) if name == "start" and scheme == "light" else ():
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_function(WHOLE)


@pytest.mark.parametrize("name", ["learn", "budget_planner", "compare", "audit", *FAMILY_NAMES])
def test_nothing_is_cut_or_covered_in_any_window(visit: Visit, name: str) -> None:
    page = visit(ADDRESSES[name])
    for presented, window in SIZES:
        if presented and "present" not in page.url:
            page.goto(f"{page.url}{'&' if '?' in page.url else '?'}present=1")
        page.set_viewport_size(window)
        computed(page, name)
        at = presented, window
        assert page.evaluate(CUT) == [], at
        assert overflow(page) == 0, at
        until(lambda: not title_is_covered(page))  # the sidebar closes slowly
        tools = page.locator("[class*=_tools] > *:visible").all()
        sliders = page.get_by_role("main").locator(".dpviz-slider input:visible, .stSlider:visible").all()
        assert all(box["y"] >= 0 for tool in tools if (box := tool.bounding_box())), at
        assert all(box["width"] >= SLIDER for slider in sliders if (box := slider.bounding_box())), at
        if name in FAMILY_NAMES:
            menu = page.locator("[class*=_tools] .stSelectbox").bounding_box()
            assert menu is not None and menu["width"] >= MENU, at
        if name in FAMILY_NAMES and window == PHONE:
            picture = page.locator(PICTURE).first.bounding_box()
            assert picture is not None and picture["y"] + picture["height"] <= window["height"]
        if name in FAMILY_NAMES and (presented, window["width"]) == (False, 1024):
            (number, picture) = (page.locator(css).first.bounding_box() for css in ("[class*=_number]", PICTURE))
            assert number is not None and number["y"] + number["height"] < 500, number
            assert picture is not None and picture["y"] + 0.7 * picture["height"] < window["height"], picture
        if name in FAMILY_NAMES and presented:
            assert page.locator(".stMain").evaluate("node => node.scrollHeight - node.clientHeight") <= 0, at


@pytest.mark.parametrize(
    "address",
    [  # a long guarantee; many lines to compare with; a caption of three lines; a picture with a legend on a phone
        "/accelerated?preset=figure-4-batches-of-1000",
        "/mirror_descent?preset=a-thousand-strategies",
        "/second_order?preset=the-papers-loose-targets-honestly",
        "/accelerated?preset=six-methods-one-budget",
    ],
)
def test_a_preset_fits_the_screen_of_a_desk_and_its_picture_that_of_a_phone(visit: Visit, address: str) -> None:
    page = visit(address, viewport=SIZES[0][1])
    done(page)
    expect(page.get_by_text("Its lines are being computed.")).to_have_count(0)
    assert page.locator(".stMain").evaluate("node => node.scrollHeight - node.clientHeight") <= 0
    page.set_viewport_size(PHONE)
    ready(page)
    page.wait_for_function(WHOLE)
    assert page.locator(".stMainBlockContainer").evaluate("node => node.scrollHeight") <= HIGHEST["dark"]
    picture = page.locator(PICTURE).first.bounding_box()
    assert picture is not None and picture["y"] + picture["height"] <= PHONE["height"]


def test_an_audit_that_finds_two_faults_fits_a_desk(visit: Visit) -> None:
    query = urlencode({"audit_family": "Broken on purpose", "audit_mistake": "Laplace noise from the L2 norm"})
    page = visit(f"/audit?{query}", viewport=DESK)
    computed(page, "audit")
    expect(page.get_by_text("NOT AS DECLARED", exact=True)).to_be_visible()
    assert page.locator(".stMainBlockContainer").evaluate("node => node.scrollHeight") <= HIGHEST["light"]


def test_a_slider_says_its_name_its_value_and_its_range(visit: Visit) -> None:
    page = visit("/accelerated?accel_follow=false")
    slider = page.get_by_role("slider", name="Privacy budget ε", exact=True)
    expect(slider).to_have_accessible_description(re.compile("."))
    expect(slider).to_have_attribute("aria-valuetext", "2")
    low, high, now = map(int, slider.evaluate("({ min, max, value }) => [min, max, value]"))
    assert low < now < high
    tab_to(page, page.get_by_role("button", name="Help for Privacy budget ε"))
    page.keyboard.press("Enter")
    expect(page.locator(".dpviz-slider [popover]:popover-open")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    tab_to(page, slider, 1)


def test_a_page_that_turns_dark_while_it_is_open_can_be_read(visit: Visit) -> None:
    page = visit("/budget_planner", color_scheme="light")
    page.emulate_media(color_scheme="dark")
    value = page.get_by_test_id("stSliderThumbValue").first
    expect(value).to_have_css("color", rgb(PRESSED["dark"]))  # drawn by the server, which has to hear of it
    assert violations(page) == []
    page.emulate_media(color_scheme="light")
    expect(value).to_have_css("color", rgb(PRESSED["light"]))


def test_what_opens_on_a_page_is_for_everybody(visit: Visit) -> None:
    page = visit("/accelerated", color_scheme="dark")
    done(page)
    for name in ("Pin this run", "Pins", "Copy link", "Words", "Edit Pin 1"):
        page.get_by_role("button", name=name, exact=True).click()
        assert violations(page) == [], name
        page.keyboard.press("Escape")
    page.get_by_role("button", name="Edit Pin 1").click()
    page.get_by_label("Name", exact=True).fill("Canary")  # a term of the glossary, but no name is explained
    page.get_by_label("Name", exact=True).press("Enter")
    expect(page.locator("strong", has_text="Canary")).to_be_visible()
    page.get_by_role("button", name="Words", exact=True).click()
    words = page.get_by_role("dialog", name="Words of this page").locator("dt")
    expect(words.first).to_be_visible()
    expect(words.filter(has_text="Canary")).to_have_count(0)


def computed(page: Page, name: str) -> None:
    """Wait until what starts by itself has come to its end, and all charts that can be seen are drawn."""
    if name in FAMILY_NAMES:
        done(page)
        expect(page.locator(PICTURE).first.locator(".js-line, .point").first).to_be_attached()
    if name == "compare_pins":  # a pin whose lines are still computed has a line of text more
        expect(page.get_by_text("lines are being computed")).to_have_count(0)
    if name == "audit":
        expect(page.get_by_role("heading", name="What the attack has found")).to_be_visible()
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    ready(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    # Asked of all at once: a page that is drawn again meanwhile has other charts than those listed before.
    expect(page.locator(".dpviz-plot:visible:not(:has(.main-svg))")).to_have_count(0)


def views(page: Page, name: str) -> Iterator[str]:
    """The page as it opens, then with each of its tabs and sections; of the first family with all of them."""
    yield "first"
    for tab in page.get_by_role("tab").all()[1:]:
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        yield tab.inner_text()
    sections = [RESULTS, BACKGROUND] if name in FAMILY_NAMES[1:] else SECTIONS.get(name, [])
    for title in sections:
        section(page, title)
        yield title


def derivations_are_set(page: Page) -> None:
    """Open them; they are no raw Markdown, and tables that are wide move by themselves (not yet by keyboard)."""
    box = page.get_by_test_id("stExpander").filter(has_text="Derivations and sources")
    box.locator("summary").click()
    expect(box.get_by_role("listitem").first).to_be_visible()
    assert not RAW_MARKUP.search(box.inner_text())
    assert overflow(page) == 0


def answer_stands_above_the_fold(page: Page) -> None:
    main = page.get_by_role("main")
    seen: dict[str, Locator] = {
        "the question": main.get_by_text("?", exact=False).first,
        "the budget": main.get_by_role("slider", name=re.compile("Privacy budget")).first,
        "the other slider": main.get_by_role("slider").nth(1),
        "the picture": page.locator(PICTURE).first,
        "the number": main.get_by_test_id("stMetricValue").first,
        "Run": main.get_by_role("button", name="Run", exact=True),
    }
    for what, element in seen.items():
        box = element.bounding_box()
        assert box is not None and box["y"] + box["height"] <= FOLD, (what, box)


def sliders_stand_where_their_numbers_are(page: Page) -> None:
    """A page learns its width while it is drawn for the first time; no slider may lose its value over that."""
    for slider in page.get_by_role("main").get_by_role("slider").all():
        name = slider.get_attribute("aria-label") or ""
        box = page.get_by_label(f"{name}, exact value", exact=True)
        if name and box.count() == 1:
            shown = (slider.get_attribute("aria-valuetext") or "").replace(",", "")
            assert float(shown) == float(box.input_value()), name


def words_are_apart(page: Page) -> None:
    """Words of charts are large and within them, none lies on another, and charts have the width of their place."""
    figures = page.locator(".dpviz-plot:visible")
    expect(figures.nth(2)).to_be_visible()
    for number in range(figures.count()):
        figure = figures.nth(number)
        figure.evaluate("node => node.scrollIntoView({ block: 'center' })")
        width = figure.evaluate("node => String(node.clientWidth)")
        expect(figure.locator(".main-svg").first).to_have_attribute("width", width)
        words = figure.evaluate(WORDS)
        right = figure.evaluate("node => node.getBoundingClientRect().right")
        assert words and min(word["size"] for word in words) >= 13, words
        ends = [word for word in words if "annotation" in (word["kind"] or "")]
        assert all(word["right"] <= right + 1 for word in ends), (number, ends)
        for one, other in combinations(words, 2):
            across = min(one["right"], other["right"]) - max(one["left"], other["left"])
            up = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
            assert across <= INSIDE or up <= 2 * INSIDE, (number, one, other)


def take(page: Page, name: str) -> None:
    """A picture of the first screen, and one of the whole page."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    size = page.viewport_size
    assert size is not None
    height = int(page.locator(".stMain").evaluate("element => element.scrollHeight"))
    page.set_viewport_size({"width": size["width"], "height": min(height, TALLEST)})
    page.screenshot(path=SCREENSHOTS / f"{name}_full.png")
    page.set_viewport_size(size)


def brightness(page: Page) -> float:
    """Brightness of the page's background, 0 to 255."""
    colour = page.locator(".stApp").evaluate("element => getComputedStyle(element).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def rgb(colour: str) -> str:
    """A colour "#RRGGBB" as a browser says it."""
    return "rgb({}, {}, {})".format(*bytes.fromhex(colour[1:]))


def violations(page: Page) -> list[str]:
    """What axe-core finds on all of the page, without what is Streamlit's own."""
    page.mouse.move(0, 0)  # what fades in below the pointer is half there
    ready(page)
    page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(FOUND, THEIRS)
    return found
