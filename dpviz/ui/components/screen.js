// Opens each page, and each step of a lesson, at its top. Says whether a chart is narrower than `narrowest` pixels: one
// of two side by side, or alone where columns are stacked. Silent, and without a rerun, where the answer is what the page
// knows already; on a wide screen that is always. Adds one entry to the browser's history for each page, and one for each
// step of a lesson: see `streamlit_patches`.
let page = null;
const scrollUp = () => document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
const { pushState, replaceState } = History.prototype;
function enter(change, url) {
  const [, settings, of] = /^(.*?)(?:[?&]of_page=(\w*))?$/.exec(url);
  const target = new URL(settings, location);
  // What a page says of its settings may come before its address.
  if (of !== undefined && target.pathname === location.pathname) target.pathname = target.pathname.replace(/\w*$/, of);
  const address = target.pathname + settings.replace(/^[^?]*/, "");
  const isSame = address === location.pathname + location.search;
  const settle = isSame || (target.pathname === location.pathname && page !== "learn");
  (settle ? replaceState : change).call(history, {}, "", address);
  if (!settle) scrollUp();
}
history.pushState = (_, __, url) => enter(pushState, url);
history.replaceState = (_, __, url) => enter(replaceState, url);
if (location.search.includes("of_page=")) enter(replaceState, location.search); // from before this was loaded
export default function ({ data, parentElement, setStateValue }) {
  if (page !== null && page !== data.page) scrollUp();
  page = data.page;
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
