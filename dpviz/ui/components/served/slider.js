// A slider whose stops are drawn while it is dragged, without the server, which hears of the press and of the release.
// After the press it sends once what the charts of the page are at all stops: see `stops.js`.
const LATER = 300; // milliseconds after the last key, until that counts as the release
const states = new WeakMap(); // one per mounted element

function show({ node, data, input, bubble }) {
  const text = data.texts[input.value];
  input.setAttribute("aria-valuetext", text);
  bubble.value = text;
  node.style.setProperty("--share", input.value / Math.max(1, input.max));
}

const isAhead = ({ data, sent }) => sent?.turn > data.turn; // the server has not answered to a release

function tell({ group, name, title, texts }, stop, index) {
  const detail = { group, stop, control: title, value: texts[index], by: name };
  dispatchEvent(new CustomEvent("dpviz-stop", { detail }));
}

// Draw the charts at the present stop; false if the server is to send them, as it has not for these settings.
function draw(state) {
  const { data, input, held } = state;
  const [stops, index] = [window.dpvizStops?.[data.group], Number(input.value)];
  if (!stops) return true; // this page draws none
  if (stops.slider !== data.name || !stops.settings.includes(stops.now)) return false;
  if (held) tell(data, index === data.index && !isAhead(state) ? null : stops.at(index), index);
  return true;
}

function press(state, keyed) {
  state.keyed = keyed;
  if (state.held) return;
  state.held = true;
  state.node.classList.add("held");
  if (!draw(state)) state.send("press", true);
}

function release(state) {
  clearTimeout(state.timer);
  if (!state.held) return;
  state.held = false;
  state.node.classList.remove("held");
  const index = Number(state.input.value);
  if (!isAhead(state)) state.sent = undefined;
  if (!state.sent && index === state.data.index) return tell(state.data, null);
  if (index === state.sent?.index) return;
  state.sent = { index, turn: Math.max(state.data.turn, state.sent?.turn ?? 0) + 1 };
  state.send("move", state.sent);
}

function born(node) {
  const state = { node, input: node.querySelector("input"), bubble: node.querySelector("output") };
  const on = (name, heard) => state.input.addEventListener(name, heard);
  on("pointerdown", () => press(state, false));
  on("keydown", ({ key }) => /^(Arrow|Page|Home|End)/.test(key) && press(state, true));
  on("input", () => {
    press(state, state.keyed);
    show(state);
    draw(state);
    clearTimeout(state.timer);
    if (state.keyed) state.timer = setTimeout(release, LATER, state);
  });
  for (const end of ["change", "pointerup", "pointercancel"]) on(end, () => state.keyed || release(state));
  on("blur", () => release(state));
  addEventListener("dpviz-stops", () => node.isConnected && draw(state));
  return state;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const node = data && parentElement.querySelector(".dpviz-slider");
  if (!node) return;
  const state = states.get(node) ?? born(node);
  states.set(node, state);
  Object.assign(state, { data, send: setTriggerValue });
  const [label, help, note] = ["label", "button", "[popover]"].map((part) => node.querySelector(part));
  const [, name, index, rest] = data.title.match(/^(.*)_(\w+)(.*)$/) ?? ["", data.title, "", ""]; // such as ε_H
  label.replaceChildren(name, Object.assign(document.createElement("sub"), { textContent: index }), rest);
  help.setAttribute("aria-label", `Help for ${data.title}`);
  help.hidden = !data.help;
  note.textContent = data.help;
  note.id = `help-${data.name}`;
  help.setAttribute("popovertarget", note.id);
  state.input.setAttribute("aria-label", data.title);
  state.input.setAttribute("aria-description", data.help);
  state.input.max = data.texts.length - 1;
  if (state.held || isAhead(state)) return;
  state.sent = undefined;
  dispatchEvent(new CustomEvent("dpviz-answer", { detail: { group: data.group, by: data.name } }));
  state.input.value = data.index;
  show(state);
}
