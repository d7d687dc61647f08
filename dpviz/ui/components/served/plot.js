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
addEventListener("beforeprint", () => document.querySelectorAll(".dpviz-plot").forEach((node) => draw(node, true)));

const fullscreen = {
  name: "Fullscreen",
  title: "Fullscreen",
  icon: { width: 24, height: 24, path: "M3 9V3h6v2H5v4zM15 3h6v6h-2V5h-4zM5 15v4h4v2H3v-6zM19 15h2v6h-6v-2h4z" },
  click: (node) => (document.fullscreenElement ? document.exitFullscreen() : node.requestFullscreen()),
};
const menu = {
  modeBarButtonsToAdd: document.fullscreenEnabled ? [fullscreen] : [], // not on every telephone
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

// One draw at a time: what arrives meanwhile is drawn when it has ended, and only the newest of it.
async function draw(node, printed = false) {
  const state = states.get(node);
  if (!state || state.drawing || !(state.near || printed)) return;
  state.drawing = true;
  try {
    const Plotly = await library(state.data.library);
    while (node.clientWidth) {
      const { figure, config } = state.data;
      const [width, height, look] = [node.clientWidth, node.clientHeight, template(node)];
      const wanted = [figure, width, height, JSON.stringify(look)].join();
      if (wanted === state.drawn) return;
      state.drawn = wanted;
      const { data, layout } = JSON.parse(figure);
      await Plotly.react(node, data, { ...layout, template: look, width, height }, { ...config, ...menu });
    }
  } catch (error) {
    const line = document.createElement("p");
    line.className = "failed";
    line.textContent = `This chart cannot be drawn: ${error.message}. Reload the page to try again.`;
    node.replaceChildren(line);
  } finally {
    state.drawing = false;
  }
}

export default function ({ data, parentElement }) {
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
  states.set(node, Object.assign(known ?? {}, { data }));
  node.style.height = `${data.height}px`;
  node.setAttribute("aria-label", data.alt);
  node.classList.toggle("pale", Boolean(data.pale));
  draw(node);
  if (known) return;
  screen.observe(node);
  sizes.observe(node);
}
