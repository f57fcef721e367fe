// Helpers for creating elements, and for listening to models.

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

// The number of steps that a key stands for, as for a slider.
export const stepsOf = ({ key }) =>
  ({ ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 })[key];

// Keep an event from the browser's default action and from surrounding elements.
export function keep(event) {
  event.preventDefault();
  event.stopPropagation();
}

// Call `take` when an element is pressed; the object that it returns is told of the moves and of the release. The
// element may be redrawn meanwhile.
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

// Change the drawing and keep the focus. If the focused element is then gone, hidden or disabled, the first focusable
// one of `others` gets the focus. A focus elsewhere on the page is not changed.
export function keepFocus(inside, change, ...others) {
  const focused = document.activeElement;
  change();
  const isMoved = document.activeElement !== focused && document.activeElement !== document.body;
  if (isMoved || !inside.contains(focused) || canFocus(focused)) return;
  others.find(canFocus)?.focus({ preventScroll: true });
}

// Whether no other element of the page has the focus, so that a lab may take it.
export const mayFocus = (root) => document.activeElement === document.body || root.contains(document.activeElement);

// Only set attributes that change, as setting the same value costs style and layout.
export function set(element, attributes) {
  for (const name in attributes) {
    const value = String(attributes[name]);
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// Only write a text that changes, as writing costs layout.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Listen to changes of a model; return a function that stops listening.
export function listen(model, changes) {
  for (const [name, heard] of Object.entries(changes)) model.on(`change:${name}`, heard);
  return () => {
    for (const [name, heard] of Object.entries(changes)) model.off(`change:${name}`, heard);
  };
}

// Three fills that differ in pattern and in colour. Their ids are unique to each picture on the page.
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

// The width of a text of 12 pixels, measured on a canvas, as an element has a width only when it is on the page.
export function textWidth(text) {
  textWidth.pen ??= document.createElement("canvas").getContext("2d");
  textWidth.pen.font = "12px system-ui, sans-serif";
  return textWidth.pen.measureText(text).width;
}

// As much of a text as fits in the room; the factor is the ratio of its width to the measured one.
export function fitted(text, room, factor = 1.1) {
  // A number at the end is kept, as names often differ only in it.
  const end = text.match(/\D?\d{1,4}$/)?.[0] ?? "";
  let shown = text;
  for (let length = text.length - end.length - 1; length > 0 && factor * textWidth(shown) > room; length -= 1)
    shown = `${text.slice(0, length)}…${end}`;
  return shown;
}

// Whether the page is as narrow as a telephone; an element has no width until it is on the page.
export const isPhonePage = () => matchMedia("(max-width: 480px)").matches;

// Whether a kernel answers messages.
export const isLive = (model) => model.get("is_live") !== false;

// Scroll the whole picture into view when it starts to play by itself, if the reader is near it.
export function bringIntoView(root) {
  const { top, bottom } = root.getBoundingClientRect();
  if (bottom > 0 && top < window.innerHeight) root.scrollIntoView({ block: "nearest" });
}

// Call `changed` when the theme of the page changes, after its colours have; return a function that stops this.
export function heedTheme(changed) {
  const theme = new MutationObserver(changed);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  return () => theme.disconnect();
}
