// A curve that is drawn by moving handles, by pointer or by keyboard. Places are shares of the frame, from 0 to 1.
const NS = "http://www.w3.org/2000/svg";
const [TOP, RIGHT, BOTTOM, LEFT] = [30, 20, 48, 66]; // pixels around the frame, as in a chart
const NARROW = 500; // pixels of a screen on which the frame takes the whole width
const LATER = 120; // milliseconds after the last movement, until the server hears of it
const [STEP, PAGE] = [0.02, 0.1]; // of an arrow, and of a page key
const SIDEWAYS = 12; // pixels after which a finger draws
const states = new WeakMap(); // one per mounted element

function add(parent, name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// What a place along the vertical axis stands for, in words.
function told({ low, high, log }, place) {
  const value = low + place * (high - low);
  return Number((log ? 10 ** value : value).toPrecision(2)).toString();
}

function build(state) {
  const { data, svg } = state;
  const width = Math.max(200, svg.parentElement.clientWidth);
  const [w, h] = [width - LEFT - (width > NARROW ? data.margin : RIGHT), data.height - TOP - BOTTOM];
  state.at = (x, y) => [LEFT + x * w, TOP + (1 - y) * h];
  state.place = (event) => {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left - LEFT) / w, 1 - (event.clientY - box.top - TOP) / h];
  };
  const focused = (state.handles ?? []).indexOf(svg.getRootNode().activeElement);
  svg.replaceChildren();
  svg.setAttribute("width", width);
  svg.setAttribute("height", data.height);
  for (const [place, label] of data.y.ticks) {
    const [x, y] = state.at(0, place);
    add(svg, "line", { x1: x, x2: x + w, y1: y, y2: y, class: "grid" });
    add(svg, "text", { x: x - 14, y: y + 4, "text-anchor": "end" }, label);
  }
  for (const [place, label] of data.x.ticks) {
    const [x, y] = state.at(place, 0);
    add(svg, "text", { x, y: y + 18, "text-anchor": "middle" }, label);
  }
  add(svg, "text", { x: LEFT + w / 2, y: data.height - 6, "text-anchor": "middle" }, data.x.title);
  add(svg, "text", { x: LEFT - 16, y: 16 }, data.y.title);
  add(svg, "polyline", { points: data.known.map(([x, y]) => state.at(x, y).join()).join(" "), class: "known" });
  state.line = add(svg, "polyline", { class: "drawn" });
  state.near = [];
  state.handles = data.handles.map((x, i) => {
    state.near[i] = add(svg, "circle", { r: 22, class: "near" }); // for a finger
    const handle = add(svg, "circle", {
      r: 9,
      class: "handle",
      tabindex: 0,
      role: "slider",
      "aria-orientation": "vertical",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-label": data.labels[i],
    });
    handle.addEventListener("keydown", (event) => pressed(state, i, event));
    return handle;
  });
  state.handles[focused]?.focus();
  show(state);
}

function show(state) {
  const { data, values } = state;
  const points = data.handles.map((x, i) => [x, values[i]]);
  if (data.start) points.unshift(data.start);
  state.line.setAttribute("points", points.map(([x, y]) => state.at(x, y).join()).join(" "));
  state.handles.forEach((handle, i) => {
    const [x, y] = state.at(data.handles[i], values[i]);
    for (const circle of [handle, state.near[i]]) {
      circle.setAttribute("cx", x);
      circle.setAttribute("cy", y);
    }
    handle.setAttribute("aria-valuenow", Math.round(100 * values[i]));
    handle.setAttribute("aria-valuetext", told(data.y, values[i]));
  });
}

function move(state, i, place) {
  state.values[i] = Math.min(1, Math.max(0, place));
  show(state);
  clearTimeout(state.timer);
  state.timer = setTimeout(() => state.send("values", [...state.values]), LATER);
}

function pressed(state, i, event) {
  const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: PAGE, PageDown: -PAGE };
  const to = { Home: 0, End: 1 };
  if (!(event.key in by) && !(event.key in to)) return;
  event.preventDefault();
  event.stopPropagation(); // the arrows turn the lesson's pages elsewhere
  move(state, i, event.key in to ? to[event.key] : state.values[i] + by[event.key]);
}

// The pointer takes the nearest handle along, and then the next ones: a curve can be drawn in one sweep.
function swept(state, event) {
  const [x, y] = state.place(event);
  const distances = state.data.handles.map((at) => Math.abs(at - x));
  move(state, distances.indexOf(Math.min(...distances)), y);
}

function born(node) {
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("role", "group");
  node.replaceChildren(svg);
  const state = { svg };
  // On a handle it does not scroll; browsers do not heed `touch-action` of what is inside of a drawing.
  const held = (event) => event.target.matches("circle") && event.preventDefault();
  svg.addEventListener("touchstart", held, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    state.down = true;
    // A finger beside the handles may be about to scroll: it draws once it has gone sideways, or is lifted.
    state.waits = event.pointerType === "touch" && !event.target.matches("circle") ? event.clientX : null;
    if (state.waits === null) swept(state, event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!state.down || (state.waits !== null && Math.abs(event.clientX - state.waits) < SIDEWAYS)) return;
    state.waits = null;
    swept(state, event);
  });
  svg.addEventListener("pointerup", (event) => {
    if (state.down && state.waits !== null) swept(state, event);
    state.down = false;
  });
  svg.addEventListener("pointercancel", () => (state.down = false));
  new ResizeObserver(() => state.width !== node.clientWidth && resized(state, node)).observe(node);
  states.set(node, state);
  return state;
}

function resized(state, node) {
  if (!node.clientWidth) return;
  state.width = node.clientWidth;
  build(state);
}

export default function ({ data, parentElement, setStateValue }) {
  const node = data && data.handles && parentElement.querySelector(".curve");
  if (!node) return;
  const known = states.get(node);
  const state = known ?? born(node);
  state.send = setStateValue;
  if (!known) state.values = [...data.values]; // else what was drawn is newer than what the server has heard of
  state.data = data;
  state.svg.setAttribute("aria-label", data.label);
  resized(state, node);
}
