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
addEventListener("dpviz-stop", ({ detail: { group, stop } }) => said(group, stop));

export default async function ({ data }) {
  if (!data) return;
  said(data.group, null); // what was dragged to has come
  window.dpvizStops ??= {};
  Object.assign((window.dpvizStops[data.group] ??= { settings: [] }), { now: data.settings });
  if (!data.packed) return;
  const { charts, lines, ...stops } = await unpacked(data.packed);
  const figures = (index) => Object.fromEntries(Object.entries(charts).map(([name, all]) => [name, all[index]]));
  stops.at = (index) => ({ line: lines[index], figures: figures(index) });
  Object.assign(window.dpvizStops[data.group], stops);
  dispatchEvent(new CustomEvent("dpviz-stops"));
}
