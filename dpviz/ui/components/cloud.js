// Clouds of runs that move, a panel for each method and one slider for all. Only the browser knows which step is shown.
const FULL = 32767; // the edge of the frame
const [TOP, RIGHT, BOTTOM, LEFT] = [27, 8, 38, 44]; // pixels around a frame
const [EDGE, NAMED] = [8, 15]; // pixels around a triangle, and below it for names
const [WHOLE, QUICK, SLOW] = [8000, 90, 400]; // milliseconds of a film, and at least and at most of a step
const PLAIN = "#6B7280"; // without privacy
const LINE = 1.25; // heights of type from one line of a title to the next
const FRESH = 12; // steps of a way that are drawn in full
const states = new WeakMap(); // one per mounted element
const still = matchMedia("(prefers-reduced-motion: reduce)");

function add(parent, name, attributes = {}, text) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function unpacked(bytes) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const film = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const numbers = new Int16Array(bytes.slice(4 + size).buffer);
  let at = 0;
  const next = (count) => numbers.subarray(at, (at += count));
  for (const walk of film.walks) {
    walk.points = next(2 * walk.runs * film.steps.length);
    walk.referencePoints = next(2 * walk.plain * film.steps.length);
  }
  if (film.ground) film.ground.levels = next(film.ground.shape[0] * film.ground.shape[1]);
  return film;
}

// The height of the ground as shades, a line between two bands; lowest where it is most intense.
function shaded({ shape, levels, bands }, width, height, color) {
  const picture = new OffscreenCanvas(width, height);
  const context = picture.getContext("2d");
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  const image = context.createImageData(width, height);
  const [rows, columns] = shape;
  let above = new Int16Array(width);
  for (let py = 0; py < height; py++) {
    const v = (1 - (py + 0.5) / height) * (rows - 1);
    const [row, dv] = [Math.min(rows - 2, Math.floor(v)), v - Math.min(rows - 2, Math.floor(v))];
    const here = new Int16Array(width);
    for (let px = 0; px < width; px++) {
      const u = ((px + 0.5) / width) * (columns - 1);
      const column = Math.min(columns - 2, Math.floor(u));
      const [at, du] = [row * columns + column, u - column];
      const low = levels[at] * (1 - du) + levels[at + 1] * du;
      const high = levels[at + columns] * (1 - du) + levels[at + columns + 1] * du;
      const band = Math.min(bands - 1, Math.floor((bands * (low * (1 - dv) + high * dv)) / FULL));
      here[px] = band;
      const line = (px && here[px - 1] !== band) || (py && above[px] !== band);
      image.data.set([red, green, blue, 255 * (0.2 * (1 - band / bands) + (line ? 0.14 : 0))], 4 * (py * width + px));
    }
    above = here;
  }
  context.putImageData(image, 0, 0);
  return picture;
}

// What is shown of a panel at a step and the share of the way to the next one.
class View {
  constructor(state, canvas) {
    const { film } = state;
    this.scale = film.scale;
    this.type = 11 * this.scale;
    const [width, ratio] = [canvas.parentElement.clientWidth, window.devicePixelRatio || 1];
    this.look = state.look;
    this.pen = canvas.getContext("2d");
    this.pen.font = `${this.type}px ${this.look.font}`;
    const corners = film.corners.length > 0;
    const room = corners ? [EDGE, EDGE, NAMED] : [LEFT, TOP, BOTTOM];
    [this.left, this.top, this.below] = room.map((pixels) => pixels * this.scale);
    this.up = corners ? [] : this.lines(`↑ ${film.y.title}`, width - 4);
    this.top += Math.max(0, this.up.length - 1) * LINE * this.type;
    this.w = Math.max(40, width - this.left - RIGHT);
    this.h = Math.round(film.shape * this.w);
    const height = this.h + this.top + this.below;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across || canvas.height !== down) {
      [canvas.width, canvas.height] = [across, down];
      [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`]; // whole ones, or it is blurred
    }
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    this.pen.font = `${this.type}px ${this.look.font}`; // forgotten with the size
  }

  // The words of a title, in as many lines as they need.
  lines(text, width) {
    const found = [];
    for (const word of text.split(" ")) {
      const longer = found.length ? `${found.at(-1)} ${word}` : word;
      if (found.length && this.pen.measureText(longer).width > width) found.push(word);
      else found[Math.max(0, found.length - 1)] = longer;
    }
    return found;
  }

  x = (share) => this.left + ((share + 1) / 2) * this.w;
  y = (share) => this.top + ((1 - share) / 2) * this.h;

  text(text, x, y, align = "left", color = this.look.text) {
    const { pen } = this;
    [pen.textAlign, pen.lineWidth, pen.lineJoin] = [align, 3, "round"];
    pen.strokeStyle = this.look.page;
    pen.strokeText(text, x, y);
    pen.fillStyle = color;
    pen.fillText(text, x, y);
  }

  axes({ x, y, corners }) {
    const { pen, type, left, top, w, h } = this;
    if (corners.length) return;
    pen.strokeStyle = this.look.border;
    pen.lineWidth = 1;
    pen.strokeRect(left, top, w, h);
    const below = top + h;
    let free = -Infinity;
    for (const [place, label] of x.ticks) {
      const [at, half] = [left + place * w, pen.measureText(label).width / 2];
      if (at - half < free + 6) continue;
      free = at + half;
      this.text(label, at, below + type + 3, "center");
    }
    free = Infinity;
    for (const [place, label] of y.ticks) {
      const at = top + (1 - place) * h;
      if (at > free - 1.5 * type) continue;
      free = at;
      this.text(label, left - 5, at + type / 3, "right");
    }
    const half = Math.min(pen.measureText(x.title).width, left + w) / 2;
    this.text(x.title, Math.min(left + w / 2, left + w - half), below + 2 * type + 8, "center");
    this.up.forEach((words, line) => this.text(words, 2, top - type - (this.up.length - 1 - line) * LINE * type));
  }

  sides(corners) {
    const { pen, type } = this;
    if (!corners.length) return;
    pen.beginPath();
    for (const [, x, y] of corners) pen.lineTo(this.x(x), this.y(y));
    pen.closePath();
    pen.strokeStyle = this.look.text;
    pen.globalAlpha = 0.5;
    pen.stroke();
    pen.globalAlpha = 1;
    const middle = corners.reduce((sum, [, , y]) => sum + y, 0) / corners.length;
    for (const [name, x, y] of corners) {
      const align = x < -0.3 ? "left" : x > 0.3 ? "right" : "center";
      this.text(name, this.x(x), this.y(y) + (y < middle ? type + 5 : -6), align);
    }
  }

  at(points, runs, run, step, share) {
    const here = 2 * (step * runs + run);
    const there = share ? here + 2 * runs : here;
    const between = (a, b) => (a + share * (b - a)) / FULL;
    return [this.x(between(points[here], points[there])), this.y(between(points[here + 1], points[there + 1]))];
  }

  way(walk, step, share) {
    const { pen } = this;
    const fresh = Math.max(0, step - FRESH);
    const parts = [[0, fresh, walk.color, 1, 0.35], [fresh, step, this.look.page, 4, 1], [fresh, step, walk.color, 1.5, 1]];
    for (const [first, last, color, width, alpha] of parts) {
      pen.beginPath();
      let seen = false;
      for (let i = first; i <= last; i++) {
        const at = this.at(walk.points, walk.runs, 0, i, 0);
        if (seen) pen.lineTo(...at);
        else pen.moveTo(...at);
        seen = !outside(walk.points, i * walk.runs); // beyond the frame the way is not known
      }
      if (seen && share && last === step) pen.lineTo(...this.at(walk.points, walk.runs, 0, step, share));
      [pen.strokeStyle, pen.lineWidth, pen.globalAlpha] = [color, width * this.scale, alpha];
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  // Dots, or rings, which do not cover the dots.
  dots(points, runs, step, share, color, alpha, radius, ring = false) {
    const { pen } = this;
    const strokes = ring ? [[this.look.page, 4], [color, 2]] : [[this.look.page, 0.75]];
    [pen.fillStyle, pen.globalAlpha] = [color, alpha];
    for (let run = 0; run < runs; run++) {
      if (outside(points, step * runs + run)) continue;
      pen.beginPath();
      pen.arc(...this.at(points, runs, run, step, share), radius * this.scale, 0, 2 * Math.PI);
      if (!ring) pen.fill();
      for (const [stroke, width] of strokes) {
        [pen.strokeStyle, pen.lineWidth] = [stroke, width * this.scale];
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
  }

  region(region, step, share) {
    const { pen } = this;
    const next = region[share ? step + 1 : step];
    const [x, y, a, b] = region[step].map((value, i) => value + share * (next[i] - value));
    pen.save();
    pen.beginPath();
    pen.rect(this.left, this.top, this.w, this.h);
    pen.clip();
    pen.beginPath();
    pen.ellipse(this.x(x), this.y(y), (a * this.w) / 2, (b * this.h) / 2, 0, 0, 2 * Math.PI);
    for (const [color, width, dash] of [[this.look.page, 4, []], [this.look.text, 1.5, [7, 5]]]) {
      pen.setLineDash(dash);
      [pen.strokeStyle, pen.lineWidth] = [color, width * this.scale];
      pen.stroke();
    }
    pen.restore();
  }
}

function looks(node) {
  const style = getComputedStyle(node);
  const [page, text, border, font] = ["background-color", "text-color", "border-color", "font"].map((name) =>
    style.getPropertyValue(`--st-${name}`).trim(),
  );
  return { page, text, border, font };
}

function paint(state) {
  const { film, at, panels } = state;
  const [step, part] = [Math.floor(at), still.matches ? 0 : at - Math.floor(at)];
  film.walks.forEach((walk, i) => {
    const { canvas } = panels[i];
    if (!canvas.clientWidth) return;
    const view = new View(state, canvas);
    if (film.ground) {
      const wanted = [view.w, view.h, state.look.text].join();
      if (state.shaded !== wanted) {
        state.ground = shaded(film.ground, Math.round(view.w), view.h, state.look.text);
        state.shaded = wanted;
      }
      view.pen.drawImage(state.ground, view.left, view.top, view.w, view.h);
    }
    view.axes(film);
    view.sides(film.corners);
    view.way(walk, step, part);
    const radius = Math.min(4.5, Math.max(1.6, 11 / walk.runs ** 0.25));
    view.dots(walk.points, walk.runs, step, part, walk.color, 0.8, radius);
    view.dots(walk.referencePoints, walk.plain, step, part, PLAIN, 1, radius + 2.5, true);
    if (walk.region) view.region(walk.region, step, part);
    if (beyond(walk, step) === walk.runs) view.text("off the map", view.left + view.w / 2, view.top + view.h / 2, "center");
    if (film.raw) {
      const words = view.w > 220 * view.scale ? "◉ not private: reads the raw data" : "◉ not private";
      view.text(words, view.left + 6, view.top + view.type + 4, "left", film.mark);
    }
  });
}

// Whether a point is beyond the frame.
const outside = (points, index) => [points[2 * index], points[2 * index + 1]].some((value) => Math.abs(value) === FULL);

function beyond(walk, step) {
  let count = 0;
  for (let run = 0; run < walk.runs; run++) count += outside(walk.points, step * walk.runs + run);
  return count;
}

// Words, when another step is shown: below the panels, at the slider, and for those who cannot see.
function tell(state) {
  const { film, panels, bar } = state;
  const step = Math.floor(state.at);
  if (state.told === step) return;
  state.told = step;
  const number = film.steps[step].toLocaleString("en");
  film.walks.forEach((walk, i) => {
    const value = `${walk.runs > 1 ? "median " : ""}${film.metric} ${walk.median[step]}`;
    const median = film.metric && walk.median[step] ? value : "";
    const outside = beyond(walk, step);
    const edge = outside ? `${outside} of ${walk.runs} beyond the frame` : "";
    const ended = film.steps[step] > walk.last ? `ended at step ${walk.last.toLocaleString("en")}` : "";
    const line = [median, walk.spent[step], ended, edge].filter(Boolean).join(", ");
    panels[i].told.textContent = line.charAt(0).toUpperCase() + line.slice(1);
    const runs = `${walk.runs} private run${walk.runs === 1 ? "" : "s"}`;
    const label = [`${walk.label}: ${runs} at step ${number}`, ended, median, edge].filter(Boolean).join(", ");
    panels[i].canvas.setAttribute("aria-label", label);
  });
  const words = `step ${number} of ${film.steps.at(-1).toLocaleString("en")}`;
  bar.range.value = step;
  bar.range.setAttribute("aria-valuetext", words);
  bar.step.textContent = words;
}

function show(state, at) {
  const last = state.film.steps.length - 1;
  state.at = Math.min(last, Math.max(0, at));
  state.wanted = state.at === last ? Infinity : state.film.steps[Math.floor(state.at)]; // the end stays the end
  tell(state);
  paint(state);
}

function pause(state) {
  state.playing = false;
  state.bar.play.textContent = "Play";
}

function play(state) {
  state.playing = true;
  state.bar.play.textContent = "Pause";
  if (state.wanted === Infinity) show(state, 0);
  let before = performance.now();
  const frame = (now) => {
    if (!state.playing || !state.node.isConnected) return;
    const last = state.film.steps.length - 1;
    const pace = Math.min(SLOW, Math.max(still.matches ? SLOW : QUICK, WHOLE / Math.max(1, last)));
    show(state, state.at + Math.max(0, now - before) / pace);
    before = now;
    if (state.wanted === Infinity) pause(state);
    else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

function step(state, by) {
  pause(state);
  show(state, Math.floor(state.at) + by);
}

function born(node) {
  const state = { node, wanted: Infinity, panels: [], playing: false };
  state.frames = add(node, "div", { class: "panels" });
  const bar = add(node, "div", { class: "bar", role: "group", "aria-label": "Steps of the runs" });
  const back = add(bar, "button", { type: "button", "aria-label": "One step back" }, "‹");
  const toggle = add(bar, "button", { type: "button", class: "play" }, "Play");
  const on = add(bar, "button", { type: "button", "aria-label": "One step forward" }, "›");
  const range = add(bar, "input", { type: "range", min: 0, step: 1, "aria-label": "Step" });
  state.bar = { play: toggle, range, step: add(bar, "span", { class: "step" }) };
  back.onclick = () => step(state, -1);
  on.onclick = () => step(state, 1);
  toggle.onclick = () => (state.playing ? pause(state) : play(state));
  range.oninput = () => {
    pause(state);
    show(state, Number(range.value));
  };
  bar.addEventListener("keydown", (event) => event.stopPropagation()); // arrows turn pages elsewhere
  // Later, as painting changes the height of what is observed.
  new ResizeObserver(() => requestAnimationFrame(() => node.clientWidth && paint(state))).observe(node);
  states.set(node, state);
  return state;
}

function framed(state) {
  const { film, frames, panels } = state;
  const names = film.walks.map((walk) => [walk.label, walk.color, walk.without]).join();
  if (state.names === names) return;
  state.names = names;
  frames.replaceChildren();
  state.panels = film.walks.map((walk) => {
    const panel = add(frames, "div", { class: "panel" });
    const name = add(panel, "div", { class: "name" });
    const entry = (color, text, kind) => {
      const whole = add(name, "span", { class: kind });
      add(whole, "i").style.color = color;
      add(whole, "span", {}, text);
    };
    entry(walk.color, walk.label, "with");
    if (walk.without) entry(PLAIN, walk.without, "without");
    return { canvas: add(panel, "canvas", { role: "img" }), told: add(panel, "div", { class: "told" }) };
  });
}

export default function ({ data, parentElement }) {
  const node = data && data.byteLength && parentElement.querySelector(".cloud");
  if (!node) return;
  const state = states.get(node) ?? born(node);
  const look = looks(node);
  const known = state.bytes?.length === data.length && state.bytes.every((byte, i) => byte === data[i]);
  if (known && Object.entries(look).every(([name, value]) => state.look[name] === value)) return;
  [state.bytes, state.film, state.look] = [data, unpacked(data), look];
  state.told = state.shaded = undefined;
  framed(state);
  const { steps } = state.film;
  state.bar.range.max = steps.length - 1;
  const next = steps.findIndex((number) => number > state.wanted);
  const wanted = state.wanted;
  show(state, next < 0 ? steps.length - 1 : next - 1);
  state.wanted = wanted; // also where this film is too short for it
}
