// Asks the server for news of a run after the time that it has named, and again if no answer comes.
const timers = new WeakMap();

export default function ({ data, parentElement, setTriggerValue }) {
  const later = (seconds) => {
    clearTimeout(timers.get(parentElement));
    timers.set(parentElement, setTimeout(ask, 1000 * seconds));
  };
  const ask = () => {
    if (!parentElement.isConnected) return;
    if (!document.hidden) setTriggerValue("poll", data.turn);
    later(Math.max(2, 4 * data.wait));
  };
  later(data.wait);
}
