// What the charts of a page are at every stop of the slider that was pressed last; `plot.js` draws them.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

export default async function ({ data }) {
  if (!data) return;
  window.dpvizStops ??= {};
  Object.assign((window.dpvizStops[data.group] ??= { settings: [] }), { now: data.settings });
  if (!data.packed) return;
  const { charts, ...stops } = await unpacked(data.packed);
  stops.figures = (index) => Object.fromEntries(Object.entries(charts).map(([name, all]) => [name, all[index]]));
  Object.assign(window.dpvizStops[data.group], stops);
  dispatchEvent(new CustomEvent("dpviz-stops"));
}
