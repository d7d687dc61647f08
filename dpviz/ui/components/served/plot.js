// Plotly charts that are drawn when they come near the screen, and moved to new data in place.
const states = new WeakMap(); // one per mounted element

// `near` is true when the element is on the screen or one turn of the wheel away.
const screen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    states.get(target).near = isIntersecting;
    draw(target);
  }
}, { rootMargin: "200px", scrollMargin: "200px" });
const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => draw(target)));
// While a slider is dragged, and until the server has answered: the charts of its page at the present stop, by name; null
// when the page has the settings that the server knows. The lines before stay, pale. A chart that has none at the stop is
// old; but along the axis of what is dragged, its mark moves.
addEventListener("dpviz-stop", ({ detail: { group, stop, control, value } }) => {
  for (const node of document.querySelectorAll(".dpviz-plot")) {
    const state = states.get(node);
    if (state?.data.group !== group) continue;
    const figure = stop?.figures[state.data.name];
    const isAlong = stop && plain(node._fullLayout?.xaxis?.title?.text ?? "") === control && !state.data.pale;
    const at = isAlong ? Number(value.replaceAll(",", "")) : NaN;
    state.mark = at > 0 ? { at, value } : null;
    state.stop = figure ? { figure, control } : null;
    state.wanted = stop && !figure && !state.mark ? stop.settings : null;
    shade(node);
    draw(node);
  }
});
addEventListener("beforeprint", () => document.querySelectorAll(".dpviz-plot").forEach((node) => draw(node, true)));

const fullscreen = {
  name: "Fullscreen",
  title: "Fullscreen",
  icon: { width: 24, height: 24, path: "M3 9V3h6v2H5v4zM15 3h6v6h-2V5h-4zM5 15v4h4v2H3v-6zM19 15h2v6h-6v-2h4z" },
  click: (node) => (document.fullscreenElement ? document.exitFullscreen() : node.requestFullscreen()),
};
const numbers = {
  name: "Numbers",
  title: "Numbers as a table",
  icon: { width: 24, height: 24, path: "M3 4h18v16H3zM5 9v3h5V9zm7 0v3h7V9zm-7 5v4h5v-4zm7 0v4h7v-4z" },
  click: (node) => table(node),
};
const menu = {
  showSendToCloud: false, // else Plotly's own server is offered the numbers of every chart
  displaylogo: false,
  displayModeBar: "hover",
  toImageButtonOptions: { format: "png", scale: 2 },
  modeBarButtonsToAdd: [numbers, ...(document.fullscreenEnabled ? [fullscreen] : [])], // not on every telephone
  modeBarButtonsToRemove: ["lasso2d", "select2d"], // nothing happens to what is selected
  responsive: false,
};

function library(address) {
  if (!window.dpvizPlotly) {
    window.dpvizPlotly = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL(address, document.baseURI).href;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => {
        window.dpvizPlotly = undefined;
        reject(new Error("the chart library could not be loaded"));
      };
      document.head.append(script);
    });
  }
  return window.dpvizPlotly;
}

// One pointer over charts of a group that share a horizontal axis: hovering over one, or the arrow keys, marks all.
const axisOf = (node) => {
  const group = states.get(node)?.data.group;
  const title = node._fullLayout?.xaxis?.title?.text;
  return group && title ? `${group} ${title}` : "";
};

function point(node, x) {
  const axis = axisOf(node);
  for (const other of axis ? document.querySelectorAll(".dpviz-plot") : []) {
    if (axisOf(other) !== axis) continue;
    const { xaxis, _size: frame } = other._fullLayout;
    const at = x === null ? -1 : xaxis.d2p(x);
    let line = other.querySelector(":scope > .pointer");
    if (!line) {
      line = document.createElement("i");
      line.className = "pointer";
      other.append(line);
    }
    line.hidden = !(at >= 0 && at <= frame.w);
    Object.assign(line.style, { left: `${frame.l + at}px`, top: `${frame.t}px`, height: `${frame.h}px` });
  }
}

const linesOf = (node) =>
  node.calcdata.filter(([{ trace }]) => trace._input.name && trace.mode?.includes("lines") && trace.fill === "none");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const plain = (text) => new DOMParser().parseFromString(text, "text/html").body.textContent;

const stepsOf = (lines) => [...new Set(lines.flatMap((line) => line.map(({ x }) => x)))].sort((a, b) => a - b);
const valueAt = (line, x) =>
  line[0].x <= x && x <= line[line.length - 1].x ? short.format(line.findLast((at) => at.x <= x).y) : "";

// The method, or methods, of a line, without what its label says of its end.
const nameOf = ([{ trace }]) => plain(Array.isArray(trace.meta) ? trace.meta.join(" = ") : trace.name);

// The values of all lines at the step that the arrow keys have come to, to be read out.
function walk(node, by) {
  const lines = linesOf(node);
  const steps = stepsOf(lines);
  const state = states.get(node);
  const place = Math.min(steps.length - 1, Math.max(0, (state.place ?? (by > 0 ? -1 : steps.length)) + by));
  if (!steps.length) return;
  state.place = place;
  const x = steps[place];
  const values = lines
    .filter((line) => valueAt(line, x))
    .map((line) => `${nameOf(line)} ${valueAt(line, x)}`);
  let said = node.querySelector(":scope > output");
  if (!said) {
    said = document.createElement("output");
    node.append(said);
  }
  said.textContent = `${plain(node._fullLayout.xaxis.title.text)} ${short.format(x)}: ${values.join("; ")}`;
  point(node, x);
}

// All values of a chart's lines, step by step; what has no lines shows its points.
function table(node) {
  const lines = linesOf(node);
  const { xaxis, yaxis } = node._fullLayout;
  const title = (axis) => plain(axis.title.text ?? "");
  const noted = (kind) => node._fullLayout.annotations.find(({ name }) => name === kind)?.text;
  const heading = plain([noted("title") ?? title(yaxis), noted("not private")].filter(Boolean).join("; "));
  let rows;
  if (lines.length) {
    rows = stepsOf(lines).map((x) => [short.format(x), ...lines.map((line) => valueAt(line, x))]);
    rows.unshift([title(xaxis), ...lines.map(nameOf)]);
  } else {
    const shown = node.calcdata.filter(([{ trace }]) => trace._input.name && trace.type === "scatter");
    rows = shown.flatMap((points) =>
      points.map(({ x, y }) => [plain(points[0].trace.name), short.format(x), short.format(y)]),
    );
    rows.unshift(["", title(xaxis), title(yaxis)]);
  }
  const dialog = document.createElement("dialog");
  dialog.className = "dpviz-numbers";
  dialog.setAttribute("aria-label", `Numbers of the chart ${heading}`);
  const grid = document.createElement("table");
  rows.forEach((cells, i) => {
    const row = grid.insertRow();
    cells.forEach((text, j) => {
      const cell = document.createElement(i && j ? "td" : "th");
      cell.textContent = text;
      if (!i) cell.scope = "col";
      else if (!j) cell.scope = "row";
      row.append(cell);
    });
  });
  const close = document.createElement("button");
  close.textContent = "Close";
  close.onclick = () => dialog.close();
  const scroll = document.createElement("div");
  scroll.tabIndex = 0;
  scroll.append(grid);
  dialog.append(heading, scroll, close);
  dialog.onclose = () => dialog.remove();
  node.append(dialog);
  dialog.showModal();
}

function onKey(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const node = event.currentTarget;
  if (event.target !== node || !node._fullLayout) return;
  if (by) {
    event.preventDefault();
    walk(node, by);
  } else if (event.key === "Escape") point(node, null);
  else if (event.key === "Enter") table(node);
}

// A chart of other settings than the page's is pale at once; it is full again when what has come is drawn.
const isOld = ({ data, wanted }) => Boolean(data.pale || (wanted && data.settings !== wanted));
const shade = (node) => isOld(states.get(node)) && node.classList.add("pale");

// Text, lines and background are the page's; a figure sets none of them.
const LINE = "rgba(128, 132, 149, 0.25)"; // on the light and on the dark page

function template(node) {
  const style = getComputedStyle(node);
  const [page, family, text, border] = ["background-color", "font", "text-color", "border-color"].map((name) =>
    style.getPropertyValue(`--st-${name}`).trim(),
  );
  const title = { font: { size: 13 }, standoff: 10 };
  const axis = { gridcolor: LINE, zerolinecolor: LINE, linecolor: LINE, tickcolor: LINE, automargin: true, title };
  return {
    layout: {
      paper_bgcolor: page,
      plot_bgcolor: page,
      font: { family, color: text, size: 13 },
      margin: { pad: 4 },
      hoverlabel: { bgcolor: page, bordercolor: border, font: { family, color: text, size: 13 } },
      xaxis: axis,
      yaxis: axis,
      coloraxis: { colorbar: { outlinewidth: 0, title } },
    },
  };
}

// What the dark page needs otherwise: the words "not private", which have a colour of their own, faint bands and lines.
const stronger = (color) => color?.replace(/(?<=^rgba.*)[\d.]+(?=\)$)/, (opacity) => Math.min(1, 1.7 * opacity));

function onThisPage({ data, layout }, page, dark) {
  if (luminance(colorOf(page)) > 0.2) return { data, layout };
  for (const note of layout.annotations ?? []) if (note.name === "not private") note.font.color = dark;
  for (const { line } of layout.shapes ?? []) if (line) line.color = stronger(line.color);
  for (const trace of data) {
    trace.fillcolor = stronger(trace.fillcolor);
    if (trace.opacity && trace.line?.color) trace.opacity = paleness(trace.line.color, page);
  }
  return { data, layout };
}

// The picture before the control was moved that is moved now: until another one is, its lines stay, pale.
function remember(state, { figure, leads, settings, pale }) {
  if (pale) return;
  if (!settings) return Object.assign(state, { before: undefined, last: undefined, control: undefined });
  const { last, control } = state;
  if (last && last.settings !== settings) {
    const [moved, more] = Object.keys(leads).filter((title) => leads[title] !== last.leads[title]);
    if (!moved || more || state.before?.settings === settings) state.before = state.control = undefined;
    else if (moved !== control) Object.assign(state, { before: last, control: moved });
  }
  state.last = { figure, leads, settings };
}

// The picture whose lines stand, pale, beneath those that are drawn, and the control that was moved since.
function beneath({ stop, before, control, last }) {
  const moved = stop ? stop.control : control;
  const picture = stop && stop.control !== control ? last : before;
  return picture && moved in picture.leads ? { figure: picture.figure, words: picture.leads[moved] } : null;
}

const PALE = 2.2; // contrast of the lines before with the page, below the 3 that present lines have at least
const LINE_HEIGHT = 17; // pixels
const ROW = 18; // letters of a name beside handles, at most: these keep 24 pixels between them
const PAUSE = 4000; // milliseconds for which an axis holds what it has held
const sameData = (one, other) => ["x", "y"].every((axis) => JSON.stringify(one[axis]) === JSON.stringify(other[axis]));

const headingOf = ({ layout }) => layout.annotations?.find(({ name }) => name === "title"); // of the vertical axis
const isBars = ({ data }) => data[0]?.type === "bar"; // horizontal ones: their values are along the other axis
const scaleOf = (figure) => figure.layout[isBars(figure) ? "xaxis" : "yaxis"];
const kindOf = ({ data, layout }) => {
  if (isBars({ data })) return `${layout.xaxis.title.text} ${data[0].y}`;
  const isMap = data.some(({ type }) => type !== "scatter");
  return isMap || !layout.yaxis?.range ? NaN : `${headingOf({ layout })?.text} ${layout.yaxis.type}`; // no map is like another
};

const colorOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
const luminance = (color) => {
  const [red, green, blue] = color.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};

// The opacity at which a line has the contrast of those before, on a page of this colour.
function paleness(color, page) {
  const ground = colorOf(page);
  for (let opacity = 0.3; opacity < 1; opacity += 0.02) {
    const mixed = colorOf(color).map((part, i) => opacity * part + (1 - opacity) * ground[i]);
    const [low, high] = [luminance(mixed), luminance(ground)].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) >= PALE) return opacity;
  }
  return 1;
}

// The picture before, in a figure of the same kind: its lines that are others now, or its bars, which are broader, behind
// the present ones; and in words what was set.
function withBefore(figure, { figure: text, words }, width, page) {
  const old = JSON.parse(text);
  if (kindOf(figure) !== kindOf(old)) return;
  const isLine = ({ name, mode, line, fill, opacity }) => name && mode !== "none" && !fill && line?.width && !opacity;
  const lines = old.data.filter(
    (line) => (isBars(old) || isLine(line)) && !figure.data.some((now) => sameData(now, line)),
  );
  if (!lines.length) return;
  const silent = { name: "", showlegend: false, hoverinfo: "skip", hovertemplate: null, legendgroup: "before" };
  figure.data = [
    ...lines.map((line) => ({ ...line, ...silent, opacity: paleness(line.line?.color ?? line.marker.color[0], page) })),
    ...figure.data,
  ];
  if (isBars(old)) {
    figure.data.forEach((bars, i) => Object.assign(bars, i ? { width: 0.66 } : { width: 0.94, textposition: "none" }));
    figure.layout.barmode = "overlay";
    figure.layout.margin.t += LINE_HEIGHT;
    const above = { xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", showarrow: false };
    figure.layout.annotations = [{ ...above, name: "title", text: "" }];
  }
  const fits = (...parts) => 22 + 5.4 * plain(parts.join(" ")).length < width;
  const [heading, inFull] = [headingOf(figure), `pale: before, ${words}`];
  const said = fits(inFull) ? inFull : `pale: before, other ${words.replace(/ [=−\d].*/, "")}`;
  const isBeside = fits(heading.text, said);
  if (!isBeside) figure.layout.margin.t += LINE_HEIGHT;
  heading.text += `${isBeside ? " " : "<br>"}<span style="opacity:0.7">${said}</span>`;
  hold(figure, scaleOf(old).range);
}

const isInMargin = ({ name, yref }) => name === "end label" && yref === "paper"; // other names move with their line
const rowsOf = ({ text }) => text.split("<br>").length;

// Let the axis of a figure's values also hold a range; the names at its lines move along.
function hold(figure, other) {
  const axis = scaleOf(figure);
  const [[low, high], range] = [axis.range, [0, 1].map((end) => Math[end ? "max" : "min"](axis.range[end], other[end]))];
  if (range[0] === low && range[1] === high) return;
  axis.range = range;
  axis.uirevision = range.join(" ");
  stack(figure.layout, (y) => (y * (high - low) + low - range[0]) / (range[1] - range[0]));
}

// Put the names in the margin where they are wanted, given where they are, as far as they leave each other room.
function stack({ annotations, shapes, height, margin }, wantedAt) {
  const [texts, dashes] = [annotations ?? [], shapes ?? []].map((all) => all.filter(isInMargin));
  const places = texts.map(({ y }, i) => [wantedAt(y), i]).sort((a, b) => a[0] - b[0]);
  const halfOf = (i) => (rowsOf(texts[i]) * LINE_HEIGHT) / 2 / (height - margin.t - margin.b);
  let above = -Infinity; // where the name below ends
  for (const [y, i] of places) {
    texts[i].y = Math.max(y, above + halfOf(i));
    above = texts[i].y + halfOf(i);
  }
  let below = Infinity; // where the name above begins
  for (const [, i] of places.reverse()) {
    texts[i].y = Math.min(texts[i].y, 1, below - halfOf(i));
    below = texts[i].y - halfOf(i);
    if (dashes[i]) dashes[i].y0 = dashes[i].y1 = texts[i].y;
  }
}

const ARRAYS = { f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array };
const decoded = (values) =>
  values.bdata ? new ARRAYS[values.dtype](Uint8Array.from(atob(values.bdata), (sign) => sign.charCodeAt(0)).buffer) : values;

// A limit goes across the frame, and its label stands where no line crosses it: at the left or the right end, above the
// limit or below; else in the margin, if there are names and room; else where the fewest lines are.
function placeLimits({ data, layout }, width) {
  const limits = data.filter(({ mode }) => mode === "lines+text");
  const { margin, height, xaxis, yaxis } = layout;
  if (!limits.length || !yaxis.range) return;
  const at = (axis, value) => (axis.type === "log" ? Math.log10(value) : value);
  const lines = data.filter(({ mode, line }) => mode?.includes("lines") && line?.width);
  const ends = lines.flatMap(({ x }) => [decoded(x).at(0), decoded(x).at(-1)]);
  const span = [Math.min(...ends), Math.max(...ends)];
  const [first, last] = span.map((end) => at(xaxis, end));
  const [[low, high], across, down] = [yaxis.range, width - margin.l - margin.r, height - margin.t - margin.b];
  const pointsOf = (trace) => {
    const [x, y] = [decoded(trace.x), decoded(trace.y)];
    const share = (value) => (at(xaxis, value) - first) / (last - first);
    return Array.from(x, (_, i) => [share(x[i]) * across, ((high - at(yaxis, y[i])) / (high - low)) * down]);
  };
  const crosses = ([x0, y0], [x1, y1], { left, right, top, bottom }) => {
    if (x1 < left || x0 > right) return false;
    const heightAt = (x) => y0 + ((y1 - y0) * (Math.min(x1, Math.max(x0, x)) - x0)) / (x1 - x0 || 1);
    const [one, other] = x1 > x0 ? [heightAt(left), heightAt(right)] : [y0, y1];
    return Math.max(one, other) > top && Math.min(one, other) < bottom;
  };
  const paths = lines.map((trace) => [trace, pointsOf(trace)]);
  const boxes = [];
  for (const limit of limits) {
    const [label, [[, y]], [side]] = [limit.text[0], pointsOf(limit), limit.textposition.split(" ")];
    const size = 6.5 * plain(label).length;
    const costOf = ({ left, right, top, bottom }) => {
      if (top < -LINE_HEIGHT / 2 || bottom > down) return 9;
      const isOver = (box) => left < box.right && box.left < right && top < box.bottom && box.top < bottom;
      const isCrossed = ([trace, points]) =>
        trace !== limit && points.some((point, i) => i && crosses(points[i - 1], point, { left, right, top, bottom }));
      return paths.filter(isCrossed).length + 9 * boxes.some(isOver);
    };
    const places = [0, 1].flatMap((end) => [side, side === "top" ? "bottom" : "top"].map((next) => {
      const top = next === "top" ? y - LINE_HEIGHT - 1 : y + 1;
      const box = { left: end ? across - size : 0, right: end ? across : size, top, bottom: top + LINE_HEIGHT };
      return { box, cost: costOf(box), text: end ? ["", label] : [label, ""], side: `${next} ${end ? "left" : "right"}` };
    }));
    const best = places.reduce((one, other) => (other.cost < one.cost ? other : one));
    const names = (layout.annotations ?? []).filter(isInMargin);
    const isRoom = LINE_HEIGHT * names.reduce((rows, name) => rows + rowsOf(name), 1) <= down + 4;
    limit.x = span;
    if (best.cost && names.length && isRoom) {
      const [place, stroke] = [1 - y / down, layout.shapes.find(isInMargin)];
      limit.text = ["", ""];
      layout.annotations.push({ ...names[0], text: label, y: place });
      layout.shapes.push({ ...stroke, line: { ...limit.line, width: 2 }, y0: place, y1: place });
      margin.r = Math.max(margin.r, 24 + size);
    } else {
      boxes.push(best.box);
      Object.assign(limit, { text: best.text, textposition: best.side });
    }
  }
  stack(layout, (place) => place);
}

// The mark of the present value, where the slider is.
function moveMark({ annotations = [], shapes = [] }, { at, value }) {
  for (const line of shapes.filter(({ name }) => name === "vertical")) line.x0 = line.x1 = at;
  for (const note of annotations.filter(({ name }) => name === "vertical")) {
    Object.assign(note, { x: Math.log10(at), text: note.text.replace(/= .*/, `= ${value}`) });
  }
}

// What is drawn: the newest figure with the lines before; its axis widens at once, and shrinks after a pause.
function composed(state, before, node, page) {
  const figure = JSON.parse(state.stop?.figure ?? state.data.figure);
  if (state.mark) moveMark(figure.layout, state.mark);
  const of = (state.of = state.data.handles && figure.handles);
  if (of) {
    const top = Object.values(of.lines)[0][1] + of.limit; // where the noise at a handle is, far up among even ones
    hold(figure, [top - 2 * of.limit, top]);
    const names = figure.layout.annotations.filter(isInMargin);
    for (const note of names) {
      const isLong = names.length === 1 || plain(note.text).length > ROW;
      if (isLong && !note.text.includes("<br>")) note.text = note.text.replace(/\s*<b>/, "<br><b>");
    }
    const longest = Math.max(...names.flatMap(({ text }) => text.replace(/<b>.*/, "0.00001").split("<br>").map((row) => row.length)));
    if (names.length) figure.layout.margin.r = 24 + 7 * longest; // whatever the number is: the frame stays as wide
    figure.layout.yaxis.ticklabelstandoff = 7; // beside the first handle
  }
  const kind = kindOf(figure);
  if (!(headingOf(figure) || isBars(figure)) || Number.isNaN(kind) || !state.data.group) return figure;
  if (before) withBefore(figure, before, node.clientWidth, page);
  const { range } = scaleOf(figure);
  clearTimeout(state.axis?.timer);
  if (state.axis?.kind === kind) hold(figure, state.axis.range);
  const held = scaleOf(figure).range;
  state.axis = { kind, range: held, timer: held === range ? 0 : setTimeout(shrink, PAUSE, state, node) };
  return figure;
}

function shrink(state, node) {
  state.axis = state.drawn = undefined;
  draw(node);
}

// Handles on a line of noise: a schedule of one's own, whose numbers say the shape, in powers of ten, while the budget says
// how much noise there is: `even_level` of the family's theory has the formula. It is exact for Laplace noise under pure ε
// and for Gaussian noise on all rows; elsewhere it is close, and what the server sends after the release corrects it.
const [STEP, LEAP, KEYED] = [0.1, 0.5, 300]; // of an arrow, of a page key; milliseconds after which a key counts as released
const DRAWN = 200; // points of a line while it moves, at most

function noiseOf({ knots, power }, [steps, even]) {
  const shape = Array.from({ length: steps }, (_, t) => {
    const place = (t / Math.max(1, steps - 1)) * (knots.length - 1);
    const i = Math.min(Math.floor(place), knots.length - 2);
    return knots[i] + (place - i) * (knots[i + 1] - knots[i]);
  });
  const mean = shape.reduce((sum, log) => sum + 10 ** (-power * log), 0) / steps;
  return { shape, level: even + Math.log10(mean) / power };
}

// A figure, as text, with the lines of other knots and their names at these.
function reshaped(text, knots) {
  const figure = JSON.parse(text);
  const handles = Object.assign(figure.handles, { knots });
  const [low, high] = figure.layout.yaxis.range;
  const [texts, dashes] = [figure.layout.annotations, figure.layout.shapes].map((all) =>
    (all ?? []).filter(({ name }) => name === "end label"),
  );
  for (const trace of figure.data) {
    const line = handles.lines[trace.legendgroup];
    if (!line) continue;
    const { shape, level } = noiseOf(handles, line);
    const every = Math.ceil(line[0] / DRAWN);
    const kept = [...shape.keys()].filter((t) => t % every === 0 || t === line[0] - 1);
    trace.x = kept.map((t) => t + 1);
    trace.y = kept.map((t) => 10 ** (level + shape[t]));
    const i = dashes.findIndex(({ line: { color, dash } }) => color === trace.line.color && dash === trace.line.dash);
    if (i < 0 || texts[i].yref !== "paper") continue;
    const place = Math.min(1, Math.max(0, (level + shape.at(-1) - low) / (high - low)));
    if (texts.length === 1) texts[i].y = dashes[i].y0 = dashes[i].y1 = place; // several stay apart
    texts[i].text = texts[i].text.replace(/<b>.*<\/b>/, `<b>${short.format(trace.y.at(-1))}</b>`);
  }
  return JSON.stringify(figure);
}

const drawnHandles = (node) => {
  const { data, of } = states.get(node);
  return data.handles && of && Object.values(of.lines)[0][0] > 1 ? of : null;
};

// The handles, each where its line is now, with what it stands for in words.
function placeHandles(node) {
  const of = drawnHandles(node);
  let parts = [...node.querySelectorAll(":scope > .handle")];
  if (parts.length !== (of?.knots.length ?? 0)) {
    parts.forEach((part) => part.remove());
    parts = (of?.knots ?? []).map((_, i) => handleBorn(node, i));
  }
  if (!of) return;
  const { xaxis, yaxis, _size: frame } = node._fullLayout;
  const [label, line] = Object.entries(of.lines)[0];
  const { level } = noiseOf(of, line);
  const color = node.data.find(({ legendgroup }) => legendgroup === label)?.line.color;
  of.knots.forEach((knot, i) => {
    const [share, noise] = [i / (of.knots.length - 1), 10 ** (level + knot)];
    const [left, top] = [xaxis.d2p(1 + share * (line[0] - 1)), yaxis.d2p(noise)];
    const isOutside = left < -1 || left > frame.w + 1 || top < -1 || top > frame.h + 1;
    Object.assign(parts[i].style, { left: `${frame.l + left}px`, top: `${frame.t + top}px`, color });
    parts[i].style.visibility = isOutside ? "hidden" : "";
    const said = { label: `Noise at ${short.format(100 * share)} % of the steps`, valuetext: short.format(noise) };
    for (const [name, value] of Object.entries({ ...said, valuemin: -of.limit, valuemax: of.limit, valuenow: knot })) {
      parts[i].setAttribute(`aria-${name}`, value);
    }
  });
}

function handleBorn(node, i) {
  const part = document.createElement("i");
  const state = states.get(node);
  part.className = "handle";
  part.tabIndex = 0;
  part.setAttribute("role", "slider");
  part.setAttribute("aria-orientation", "vertical");
  part.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault(); // no zoom, no selection
    event.stopPropagation();
    const [of, { yaxis, _size: frame }] = [drawnHandles(node), node._fullLayout];
    const { level } = noiseOf(of, Object.values(of.lines)[0]);
    part.focus({ preventScroll: true });
    part.setPointerCapture(event.pointerId);
    // By the scale that the axis has now: it may widen meanwhile.
    state.held = { y: event.clientY, log: level + of.knots[i], scale: (yaxis.range[1] - yaxis.range[0]) / frame.h };
  });
  part.addEventListener("pointermove", ({ clientY }) => {
    if (!state.held?.scale) return;
    const wanted = state.held.log + (state.held.y - clientY) * state.held.scale;
    if (clientY !== state.held.y || state.knots) moveHandle(node, i, knotFor(drawnHandles(node), i, wanted));
  });
  part.addEventListener("pointerup", () => release(node));
  part.addEventListener("pointercancel", () => release(node, false));
  part.addEventListener("blur", () => release(node));
  part.addEventListener("keydown", (event) => {
    const of = drawnHandles(node);
    const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: LEAP, PageDown: -LEAP };
    const to = { Home: -of.limit, End: of.limit };
    if (event.key === "Escape" && state.held) return release(node, false);
    if (!(event.key in by) && !(event.key in to)) return;
    event.preventDefault();
    event.stopPropagation();
    state.held ??= {};
    moveHandle(node, i, to[event.key] ?? (state.knots ?? of.knots)[i] + by[event.key]);
    clearTimeout(state.keyed);
    state.keyed = setTimeout(release, KEYED, node);
  });
  node.append(part);
  return part;
}

// The number of a handle at which the noise there is the wanted one, to the pixel: the more of it at a step, the more
// budget is left to all others.
function knotFor(of, i, wanted) {
  let [low, high] = [-of.limit, of.limit];
  const [steps, even] = Object.values(of.lines)[0];
  for (let turn = 0; turn < 12; turn++) {
    const middle = (low + high) / 2;
    const { level } = noiseOf({ ...of, knots: of.knots.with(i, middle) }, [Math.min(steps, DRAWN), even]);
    if (level + middle < wanted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

function moveHandle(node, i, knot) {
  const [state, of] = [states.get(node), drawnHandles(node)];
  const near = Math.min(of.limit, Math.max(-of.limit, Math.round(100 * knot) / 100));
  state.knots = (state.knots ?? of.knots).with(i, near);
  tellKnots(state);
}

// What belongs to the schedule before is pale meanwhile, as while a slider is dragged.
function tellKnots({ data, knots }) {
  const stop = knots ? { figures: { [data.name]: reshaped(data.figure, knots) }, settings: data.name } : null;
  const detail = { group: data.group, stop, control: data.handles.title, by: data.name };
  dispatchEvent(new CustomEvent("dpviz-stop", { detail }));
}

function release(node, isMeant = true) {
  const state = states.get(node);
  clearTimeout(state.keyed);
  if (!state.held) return;
  state.held = undefined;
  const before = state.sent?.values ?? JSON.parse(state.data.figure).handles?.knots;
  if (!isMeant || !state.knots || String(state.knots) === String(before)) {
    state.knots = state.sent?.values;
    return tellKnots(state);
  }
  state.sent = { values: state.knots, turn: Math.max(state.data.handles.turn, state.sent?.turn ?? 0) + 1 };
  state.send("handles", state.sent);
}

// One draw at a time: what arrives meanwhile is drawn when it has ended, and only the newest of it.
async function draw(node, printed = false) {
  const state = states.get(node);
  if (!state || state.drawing || !(state.near || printed)) return;
  state.drawing = true;
  try {
    const Plotly = await library(state.data.library);
    while (node.clientWidth) {
      const [figure, before] = [state.stop?.figure ?? state.data.figure, beneath(state)];
      const [width, height, look] = [node.clientWidth, node.clientHeight, template(node)];
      const wanted = [figure, before?.figure, before?.words, state.mark?.at, width, height, JSON.stringify(look)].join();
      if (wanted === state.drawn) return;
      state.drawn = wanted;
      const page = look.layout.paper_bgcolor;
      const { data, layout } = onThisPage(composed(state, before, node, page), page, state.data.dark);
      const across = width - (layout.margin?.l ?? 0) - (layout.margin?.r ?? 0);
      if (layout.xaxis && across < 10 * (layout.font?.size ?? 13)) layout.xaxis.nticks ??= 3; // five would be turned
      placeLimits({ data, layout }, width);
      if (!layout.showlegend) delete node._fullLayout?._reservedMargin?.legend; // Plotly keeps the room of a former one
      await Plotly.react(node, data, { ...layout, template: look, width, height }, menu);
      for (const svg of node.querySelectorAll(".main-svg")) svg.setAttribute("viewBox", `0 0 ${width} ${height}`); // shrinks on paper
      if (state.data.group && !isBars({ data }) && !state.heard) {
        state.heard = true;
        node.tabIndex = 0;
        node.setAttribute("aria-description", "The arrow keys read out its values, Enter shows them as a table.");
        node.on("plotly_hover", ({ points }) => point(node, points[0].x));
        node.on("plotly_unhover", () => point(node, null));
        node.addEventListener("keydown", onKey);
        node.addEventListener("blur", () => point(node, null));
        node.on("plotly_afterplot", () => placeHandles(node)); // also after a zoom
      }
      placeHandles(node);
    }
  } catch (error) {
    const line = document.createElement("p");
    line.className = "failed";
    line.textContent = `This chart cannot be drawn: ${error.message}. Reload the page to try again.`;
    node.replaceChildren(line);
  } finally {
    state.drawing = false;
    node.classList.toggle("pale", isOld(state));
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  if (!data) return;
  if (!data.figure) {
    // Ahead of the first figure, when the page is drawn. What goes wrong is said when there is a figure.
    const whenIdle = window.requestIdleCallback ?? setTimeout; // Safari has none
    whenIdle(() => library(data.library).catch(() => undefined));
    return;
  }
  const node = parentElement.querySelector(".dpviz-plot");
  if (!node) return;
  const known = states.get(node);
  const state = Object.assign(known ?? {}, { data, send: setTriggerValue });
  states.set(node, state);
  remember(state, data);
  const before = beneath(state);
  node.setAttribute("aria-label", `${data.alt}${before ? ` Pale ${data.figure.includes('"type":"bar"') ? "bars" : "lines"}: before, ${before.words}.` : ""}`);
  node.style.height = `${data.height}px`;
  shade(node);
  if (data.handles) {
    if (!(state.sent?.turn > data.handles.turn)) state.sent = undefined;
    if (!state.held && !state.sent) {
      state.knots = undefined;
      dispatchEvent(new CustomEvent("dpviz-answer", { detail: { group: data.group, by: data.name } }));
    } else if (state.knots && JSON.parse(data.figure).handles) tellKnots(state);
  }
  draw(node);
  if (known) return;
  screen.observe(node);
  sizes.observe(node);
}
