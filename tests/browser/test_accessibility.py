"""What axe-core finds on each page, light and dark: nothing of ours; and Run is near for the keyboard on every page."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import Visit, done, ready
from tests.browser.test_run_first import run_is_among_the_first_stops

# Rule and place of what Streamlit itself draws so, whatever a page says; every other rule is checked there, too.
THEIRS = [
    # The menu puts the pages of each section into a `div` between `ul` and `li`.
    ("list", '[data-testid="stSidebarNavItems"]'),
    ("listitem", '[data-testid="stSidebarNavItems"]'),
]
FOUND = """async theirs => {
    const found = await axe.run(document, { resultTypes: ["violations"], elementRef: true });
    const ours = (rule, node) => !theirs.some(([of, place]) => of === rule && node.element.closest(place));
    return found.violations.flatMap(({ id, nodes }) => nodes.filter(node => ours(id, node))
        .map(node => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""
ADDRESSES = [
    "/",
    "/learn",
    "/learn?learn_tabs=Glossary",
    "/learn?lesson=steps&step=2",
    "/budget_planner",
    "/compare",
    "/audit",
]
QUICK = {("/", "light"), ("/audit", "dark")}


@pytest.mark.parametrize(
    ("address", "scheme"),
    [
        (address, scheme) if (address, scheme) in QUICK else pytest.param(address, scheme, marks=pytest.mark.slow)
        for address in ADDRESSES
        for scheme in ("light", "dark")
    ],
)
def test_nothing_of_ours_stands_in_the_way_of_anybody(visit: Visit, address: str, scheme: str) -> None:
    page = visit(address, color_scheme=scheme)
    assert violations(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [family.name for family in FAMILIES])
def test_an_algorithm_page_is_for_everybody_and_run_is_among_the_first_stops(
    visit: Visit, name: str, scheme: str
) -> None:
    page = visit(f"/{name}", color_scheme=scheme)
    done(page)  # it starts by itself
    assert violations(page) == []
    run_is_among_the_first_stops(page)


def violations(page: Page) -> list[str]:
    """What axe-core finds on all of the page, without what is Streamlit's own."""
    ready(page)
    page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(FOUND, THEIRS)
    return found
