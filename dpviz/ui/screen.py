"""How wide this visitor's charts are, and whether the page turned dark: figures are built on the server, which cannot
see it."""

from typing import Any

import streamlit as st

KEY = "screen"
NARROWEST = 400  # pixels of a chart with labels at the ends of its lines; two side by side at 1400 have 430

# Says whether a chart is narrower than that: one of two side by side, or alone where columns are stacked. Silent, and
# without a rerun, where the answer is what the page knows already; on a wide screen that is always.
_WATCH = """
export default function ({ data, parentElement, setStateValue }) {
  const block = document.querySelector(".stMainBlockContainer");
  if (!block) return;
  let said = data.narrow;
  const look = () => {
    const style = getComputedStyle(block);
    const inside = block.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const beside = document.querySelector('[data-testid="stSidebar"][data-collapsed="false"]');
    const stacked = window.innerWidth <= (beside ? 1000 : 640);
    const narrow = (stacked ? inside : inside / 2) < data.narrowest;
    if (inside > 0 && narrow !== said) setStateValue("narrow", (said = narrow));
  };
  const watcher = new ResizeObserver(look);
  watcher.observe(block);
  const app = block.closest(".stApp");
  const turned = new MutationObserver(() => {
    const theme = getComputedStyle(app).colorScheme;
    if (theme !== data.theme) setStateValue("theme", theme);
  });
  turned.observe(app, { attributeFilter: ["class"] });
  return () => [watcher, turned].forEach((one) => one.disconnect());
}
"""


@st.cache_resource
def _watcher() -> Any:
    return st.components.v2.component("dpviz_screen", html="<span></span>", js=_WATCH)


def watch(theme: str) -> None:
    """Keep `narrow` up to date, and the page drawn for its theme, which is this one now; once per page, before the
    charts."""
    _watcher()(
        key=KEY,
        data={"narrow": narrow(), "narrowest": NARROWEST, "theme": theme},
        on_narrow_change=lambda: None,
        on_theme_change=lambda: None,
        height=1,
    )


def narrow() -> bool:
    """Whether charts are too narrow for labels at the ends of lines. False until the browser says so."""
    return bool((st.session_state.get(KEY) or {}).get("narrow"))
