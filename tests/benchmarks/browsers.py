"""Pages in Chromium, and how long they take to show something, by their own clock.

Playwright's `expect` looks again after 0.1, 0.25, 0.5 and then every second: what it says of a page that takes 0.9 s is
1.9 s. Here the page is asked itself: from the moment at which the key or the click reached the browser to the frame
after the one that has what was waited for.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.serving import ARGUMENTS, Server, executable

PATIENCE = 60_000.0  # milliseconds
SLIDER = "Privacy budget ε"
# What `seen` waits for a change of: a sentence, or whether there are lines.
TEXTS = "[...document.querySelectorAll('p')].map(p => p.textContent)"
GUARANTEE = f"{TEXTS}.find(text => text.includes('Guarantee of each method'))"
CURVES = "document.querySelectorAll('[class*=\"_hero \"] path.js-line').length > 0"

_WATCH = """([event, what]) => {
  const look = new Function(`return ${what}`), before = look();
  window.dpvizSeen = new Promise((resolve) => addEventListener(event, ({ timeStamp }) => {
    let looking = false;
    const observer = new MutationObserver(() => {
      if (looking) return;
      looking = true;
      requestAnimationFrame(() => {
        looking = false;
        if (look() === before) return;
        observer.disconnect();
        requestAnimationFrame(() => resolve((performance.now() - timeStamp) / 1000));
      });
    });
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
  }, { capture: true, once: true }));
}"""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Closed at the end."""
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS))
        yield browser
        await browser.close()


async def opened(browser: Browser, server: Server, query: str) -> Page:
    """A page of accelerated methods, drawn, in a session of its own."""
    page = await (await browser.new_context(viewport={"width": 1400, "height": 1000})).new_page()
    page.set_default_timeout(PATIENCE)
    await page.goto(f"{server.url}/accelerated?{query}")
    await expect(page.locator('.stApp[data-test-script-state="notRunning"]')).to_be_visible()
    await expect(page.get_by_role("slider", name=SLIDER)).to_be_visible()
    return page


async def seen(page: Page, event: str, what: str, act: Callable[[], Awaitable[None]]) -> float:
    """Seconds from the event that `act` sets off to the frame in which `what`, a JavaScript expression, is another.

    Raises TimeoutError when nothing has changed for a quarter of PATIENCE.
    """
    await page.evaluate(_WATCH, [event, what])
    await act()
    return await asyncio.wait_for(page.evaluate("window.dpvizSeen"), PATIENCE / 4000)
