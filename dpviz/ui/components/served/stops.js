// What a page is at every stop of the slider that was pressed last: its charts, which `plot.js` draws, and its guarantee.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

// The guarantee at a stop, in place of the page's; what belongs to the settings before is pale, as `shell.css` says.
function said(group, stop) {
  document.body.toggleAttribute("data-dragged", Boolean(stop));
  for (const node of document.querySelectorAll(`.st-key-${group}_guarantee`)) {
    if (stop?.line !== undefined) node.dataset.stop = stop.line; // handles change no guarantee
    else delete node.dataset.stop;
  }
}

// Which control of a group is ahead of the server. The page at its stop stays until all of the server's answer has come.
const ahead = new Map();
addEventListener("dpviz-stop", ({ detail: { group, stop, by } }) => {
  ahead.set(group, stop && by);
  said(group, stop);
});
addEventListener("dpviz-answer", ({ detail: { group, by } }) => {
  if (ahead.get(group) === by) ahead.set(group, null);
});

// Comes last of all that a page says.
export default async function ({ data }) {
  if (!data) return;
  if (!ahead.get(data.group)) dispatchEvent(new CustomEvent("dpviz-stop", { detail: { group: data.group, stop: null } }));
  window.dpvizStops ??= {};
  Object.assign((window.dpvizStops[data.group] ??= { settings: [] }), { now: data.settings });
  if (!data.packed) return;
  const { charts, lines, ...stops } = await unpacked(data.packed);
  const figures = (index) => Object.fromEntries(Object.entries(charts).map(([name, all]) => [name, all[index]]));
  stops.at = (index) => ({ line: lines[index], figures: figures(index), settings: stops.settings[index] });
  Object.assign(window.dpvizStops[data.group], stops);
  dispatchEvent(new CustomEvent("dpviz-stops"));
}
