// Small helpers for making elements, and for hearing of a model.

export const SVG = "http://www.w3.org/2000/svg";

export const svg = (tag, ...rest) => made(document.createElementNS(SVG, tag), ...rest);
export const html = (tag, ...rest) => made(document.createElement(tag), ...rest);

function made(element, attributes = {}, parent = null, text = null) {
  set(element, attributes);
  if (text !== null) element.textContent = text;
  parent?.append(element);
  return element;
}

export function button(attributes, parent, text, act) {
  const element = html("button", { type: "button", ...attributes }, parent, text);
  element.addEventListener("click", act);
  return element;
}

// How many steps a key means, for what is set as a slider is.
export const stepsOf = ({ key }) =>
  ({ ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 })[key];

// What an event means here is nothing for the browser, or for what is around.
export function keep(event) {
  event.preventDefault();
  event.stopPropagation();
}

// While a hand holds an element: what `take` returns hears where it moves, and that it lets go. The element may be
// drawn anew meanwhile.
export function drag(element, take) {
  element.addEventListener("pointerdown", (event) => {
    const { move, leave = () => {} } = take(event) ?? {};
    if (!move) return;
    event.preventDefault();
    const held = new AbortController();
    const end = () => {
      held.abort();
      leave();
    };
    for (const [name, hear] of [
      ["pointermove", move],
      ["pointerup", end],
      ["pointercancel", end],
    ])
      window.addEventListener(name, hear, { signal: held.signal });
  });
}

const CAN_FOCUS = "[tabindex], button, input, select, textarea, summary, a[href]";
const canFocus = (one) => one?.isConnected && !one.disabled && one.getClientRects().length && one.matches(CAN_FOCUS);

// Change what is drawn, and keep the focus: if its element is then gone, hidden or disabled, the first of the others
// that can have it gets it. A focus that was elsewhere on the page stays there.
export function keepFocus(inside, change, ...others) {
  const focused = document.activeElement;
  change();
  const isMoved = document.activeElement !== focused && document.activeElement !== document.body;
  if (isMoved || !inside.contains(focused) || canFocus(focused)) return;
  others.find(canFocus)?.focus({ preventScroll: true });
}

// Whether nothing else on the page has the focus: a lab may take it then.
export const mayFocus = (root) => document.activeElement === document.body || root.contains(document.activeElement);

// Setting what is set already would still cost style and layout.
export function set(element, attributes) {
  for (const name in attributes) {
    const value = String(attributes[name]);
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// Changing text costs layout, so leave alone what is right already.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Hear of a model's changes; what comes back ends that.
export function listen(model, changes) {
  for (const [name, heard] of Object.entries(changes)) model.on(`change:${name}`, heard);
  return () => {
    for (const [name, heard] of Object.entries(changes)) model.off(`change:${name}`, heard);
  };
}

// Three fills that differ in pattern as well as in colour. Ids are unique to each picture on the page.
export function patterns(parent, id) {
  const defs = svg("defs", {}, parent);
  const hatch = svg("pattern", { id: `${id}-held`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, defs);
  set(hatch, { patternTransform: "rotate(45)" });
  svg("rect", { width: 6, height: 6, class: "qf-held-ground" }, hatch);
  svg("rect", { width: 3, height: 6, class: "qf-held-stripe" }, hatch);
  const dots = svg("pattern", { id: `${id}-taken`, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, defs);
  svg("rect", { width: 8, height: 8, class: "qf-taken-ground" }, dots);
  svg("circle", { cx: 2, cy: 2, r: 1.3, class: "qf-taken-dot" }, dots);
  svg("circle", { cx: 6, cy: 6, r: 1.3, class: "qf-taken-dot" }, dots);
  const band = svg("pattern", { id: `${id}-on`, width: 7, height: 7, patternUnits: "userSpaceOnUse" }, defs);
  set(band, { patternTransform: "rotate(45)" });
  svg("rect", { width: 7, height: 7, class: "qf-on-ground" }, band);
  svg("rect", { width: 1.6, height: 7, class: "qf-on-stripe" }, band);
  arrow(defs, `${id}-arrow`, "qf-arrow");
  arrow(defs, `${id}-back`, "qf-arrow-back");
  return {
    held: `url(#${id}-held)`,
    taken: `url(#${id}-taken)`,
    on: `url(#${id}-on)`,
    arrow: `url(#${id}-arrow)`,
    back: `url(#${id}-back)`,
  };
}

function arrow(defs, id, name) {
  const attributes = { id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 9, markerHeight: 9 };
  const marker = svg("marker", { ...attributes, orient: "auto", markerUnits: "userSpaceOnUse" }, defs);
  svg("path", { d: "M0,0.5 L10,5 L0,9.5 z", class: name }, marker);
}

// How wide a text of 12 pixels is; an element says so only once it is on the page.
export function textWidth(text) {
  textWidth.pen ??= document.createElement("canvas").getContext("2d");
  textWidth.pen.font = "12px system-ui, sans-serif";
  return textWidth.pen.measureText(text).width;
}

// As much of a text as there is room for; the factor is its size and weight against what is measured.
export function fitted(text, room, factor = 1.1) {
  // The number at its end is often all that two names differ in.
  const end = text.match(/\D?\d{1,4}$/)?.[0] ?? "";
  let shown = text;
  for (let length = text.length - end.length - 1; length > 0 && factor * textWidth(shown) > room; length -= 1)
    shown = `${text.slice(0, length)}…${end}`;
  return shown;
}

// Whether there is a kernel that answers questions.
export const isLive = (model) => model.get("is_live") !== false;

// What plays by itself is seen as a whole, if the reader is at it.
export function bringIntoView(root) {
  const { top, bottom } = root.getBoundingClientRect();
  if (bottom > 0 && top < window.innerHeight) root.scrollIntoView({ block: "nearest" });
}

// A page's theme may change below a picture, which knows its colours by then. What comes back ends that.
export function heedTheme(changed) {
  const theme = new MutationObserver(changed);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  return () => theme.disconnect();
}
