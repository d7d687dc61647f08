// A Plotly chart that is moved to new data in place. One state per mounted element.
const states = new WeakMap();

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

// Text, lines and background are the theme's; a figure sets none of them.
function themed(layout, element) {
  const style = getComputedStyle(element);
  const text = style.getPropertyValue("--st-text-color").trim() || "#31333F";
  const family = style.getPropertyValue("--st-font").trim() || "sans-serif";
  const page = style.getPropertyValue("--st-background-color").trim() || "#FFFFFF";
  const line = "rgba(128, 132, 149, 0.25)";
  const axis = (given) => ({
    gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, ...given,
    title: { ...(given?.title ?? {}), font: { size: 13, ...(given?.title?.font ?? {}) } },
  });
  return {
    ...layout,
    template: undefined,
    autosize: true,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family, color: text, size: 12, ...(layout.font ?? {}) },
    hoverlabel: { bgcolor: page, bordercolor: line, font: { color: text, family }, ...(layout.hoverlabel ?? {}) },
    xaxis: axis(layout.xaxis),
    yaxis: axis(layout.yaxis),
  };
}

// One draw at a time: what arrives meanwhile is drawn when it has ended, and only the newest of it.
async function draw(state, node) {
  if (state.drawing) {
    state.again = true;
    return;
  }
  state.drawing = true;
  try {
    const Plotly = await library(state.data.library);
    do {
      state.again = false;
      const { figure, height, config } = state.data;
      if (!node.isConnected || !node.clientWidth) return;
      const parsed = JSON.parse(figure);
      const layout = { ...themed(parsed.layout, node), width: node.clientWidth, height };
      await Plotly.react(node, parsed.data, layout, { ...config, responsive: false });
    } while (state.again);
  } catch (error) {
    const line = document.createElement("p");
    line.className = "failed";
    line.textContent = `This chart cannot be drawn: ${error.message}. The numbers stand under Results.`;
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
  let state = states.get(node);
  if (!state) {
    states.set(node, (state = { drawing: false, again: false }));
    new ResizeObserver(() => draw(state, node)).observe(node);
  }
  state.data = data;
  node.style.height = `${data.height}px`;
  node.setAttribute("aria-label", data.alt);
  draw(state, node);
}
