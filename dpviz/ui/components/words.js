// Terms of the glossary where they stand on the page: the first of each below every heading has a dotted line, and says
// what it means when it is pressed. The page's own nodes stay as they are: the lines are drawn by the browser over ranges
// of text, and a press is looked up in them. For the keyboard there is one button, with all terms that the page uses.
const NAME = "dpviz-words";
const LATER = 300; // milliseconds from a change of the page until it is looked through
const WHERE = '[data-testid="stMain"], [data-testid="stSidebarUserContent"]';
// What is pressed for another reason, written by the visitor, drawn, or the list of all terms itself.
const NOT = `button, a, input, textarea, select, svg, code, pre, summary, canvas, .katex, [role="tab"], [role="option"],
  [role="radiogroup"] label, [data-testid="stCheckbox"], [data-testid="stTooltipIcon"], .st-key-glossary, .dpviz-plot,
  [class*="_pinned_"] strong, em`;
const HEADING = /^H[1-4]$/;
const MARKED = `::highlight(${NAME}) { text-decoration: underline dotted; text-decoration-thickness: 1px; }
  :root.${NAME} :hover { cursor: help; }`;
let known = null; // by the words of the text, what they stand for; and the expression that finds any of them
let places = new Map(); // element: ranges of its own text, with their terms
let used = []; // the terms of the page, in the glossary's order
let drawn = null; // the panel of the page
let waiting = 0;

function learn(terms) {
  const said = new Map(terms.flatMap((term) => term.forms.map((word) => [word.toLowerCase(), term])));
  const words = [...said.keys()].sort((one, other) => other.length - one.length).map((word) => RegExp.escape?.(word) ??
    word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  known = { terms, said, any: new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join("|")})(?![\\p{L}\\p{N}_])`, "giu") };
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(MARKED);
  document.adoptedStyleSheets.push(sheet);
  new MutationObserver(later).observe(document.body, { childList: true, characterData: true, subtree: true });
  addEventListener("click", pressed, true);
  addEventListener("pointermove", moved, { passive: true });
}

function later() {
  waiting ||= setTimeout(look, LATER);
}

function look() {
  waiting = 0;
  const [found, seen] = [new Map(), new Set()];
  const all = new Set();
  for (const part of document.querySelectorAll(WHERE)) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (node) =>
      node.nodeType === Node.ELEMENT_NODE && node.matches(NOT) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    seen.clear();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.nodeType === Node.ELEMENT_NODE) HEADING.test(node.tagName) && seen.clear();
      else read(node, found, seen, all);
    }
  }
  places = found;
  used = known.terms.filter((term) => all.has(term));
  CSS.highlights?.set(NAME, new Highlight(...[...found.values()].flat().map(({ range }) => range)));
}

function read(node, found, seen, all) {
  for (const match of node.data.matchAll(known.any)) {
    const term = known.said.get(match[0].toLowerCase());
    const parent = node.parentElement;
    if (seen.has(term) || parent.closest("h1, h2, h3, h4") || !parent.checkVisibility()) continue;
    seen.add(term);
    all.add(term);
    const range = new StaticRange({
      startContainer: node, startOffset: match.index, endContainer: node, endOffset: match.index + match[0].length,
    });
    if (!found.has(parent)) found.set(parent, []);
    found.get(parent).push({ range, term });
  }
}

// The term under a pointer, if there is one.
function under({ target, clientX, clientY }) {
  for (const { range, term } of places.get(target) ?? []) {
    const live = document.createRange();
    if (!range.startContainer.isConnected || range.endOffset > range.endContainer.length) continue;
    live.setStart(range.startContainer, range.startOffset);
    live.setEnd(range.endContainer, range.endOffset);
    const inside = ({ left, right, top, bottom }) =>
      clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
    if ([...live.getClientRects()].some(inside)) return term;
  }
  return null;
}

function moved(event) {
  document.documentElement.classList.toggle(NAME, Boolean(drawn && CSS.highlights && under(event)));
}

function pressed(event) {
  const term = drawn && CSS.highlights ? under(event) : null;
  if (!term || !getSelection().isCollapsed) return;
  event.preventDefault(); // a label would go on to its control
  event.stopPropagation();
  drawn.show(term, { left: event.clientX, bottom: event.clientY + 12, top: event.clientY - 12 });
}

function entry({ name, sentence, formula }) {
  const [title, text, code] = ["dt", "dd", "code"].map((kind) => document.createElement(kind));
  [title.textContent, text.textContent, code.textContent] = [name, sentence, formula];
  text.append(code);
  return [title, text];
}

// Below what was pressed, or above it where there is no room.
function place(panel, { left, bottom, top }) {
  const { width, height } = panel.getBoundingClientRect();
  const below = bottom + height <= innerHeight || top < height;
  panel.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  panel.style.top = `${Math.max(8, below ? Math.min(bottom, innerHeight - height - 8) : top - height)}px`;
}

export default function ({ parentElement, setTriggerValue }) {
  const [open, panel, list, all] = [".open", ".panel", "dl", ".all"].map((part) => parentElement.querySelector(part));
  let asked = null; // a term and its place; without one it is the button that opens the panel
  panel.onbeforetoggle = ({ newState }) => {
    if (newState !== "open") return;
    if (!asked) look();
    list.replaceChildren(...(asked ? [asked.term] : used).flatMap(entry));
  };
  panel.ontoggle = ({ newState }) => {
    if (newState !== "open") return;
    place(panel, asked ?? open.getBoundingClientRect());
    asked = null;
  };
  all.onclick = () => {
    panel.hidePopover();
    setTriggerValue("all", true);
  };
  drawn = {
    show(term, beside) {
      panel.hidePopover();
      asked = { term, ...beside };
      panel.showPopover();
    },
  };
  if (!known) learn(TERMS);
  later();
  return () => {
    drawn = null;
    CSS.highlights?.delete(NAME);
  };
}
