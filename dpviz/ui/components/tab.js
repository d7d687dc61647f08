// Says who the tab was before, once, if it had something then; remembers who it is now. Asks for the page when the
// connection is back: Streamlit alone does not, where nothing was under way.
const KEY = "dpviz_tab";
let lost = false;
export default function ({ data, setStateValue, setTriggerValue }) {
  let before = null;
  try { before = JSON.parse(sessionStorage.getItem(KEY)); } catch {}
  if (before && before.visitor !== data.visitor && before.has.length && data.heard !== before.visitor) {
    setStateValue("before", before);
    return;
  }
  const now = { visitor: data.visitor, server: data.server, has: data.has };
  try { sessionStorage.setItem(KEY, JSON.stringify(now)); } catch {}
  const app = document.querySelector("[data-test-connection-state]");
  if (!app) return;
  const watcher = new MutationObserver(() => {
    const connected = app.getAttribute("data-test-connection-state") === "CONNECTED";
    if (connected && lost && data.has.length) setTriggerValue("back", true);
    lost = !connected;
  });
  watcher.observe(app, { attributeFilter: ["data-test-connection-state"] });
  return () => watcher.disconnect();
}
