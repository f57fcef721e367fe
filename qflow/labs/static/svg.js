// Small helpers for making elements, and for hearing of a model.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  if (text !== null) element.textContent = text;
  parent?.append(element);
  return element;
}

function html(tag, attributes = {}, parent = null, text = null) {
  const element = document.createElement(tag);
  set(element, attributes);
  if (text !== null) element.textContent = text;
  parent?.append(element);
  return element;
}

// Setting what is set already would still cost style and layout.
function set(element, attributes) {
  for (const name in attributes) {
    const value = String(attributes[name]);
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// Changing text or a class costs layout, so leave alone what is right already.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function classify(element, name) {
  if (element.getAttribute("class") !== name) element.setAttribute("class", name);
}

// Hear of a model's changes; what comes back ends that.
function listen(model, changes) {
  for (const [name, heard] of Object.entries(changes)) model.on(`change:${name}`, heard);
  return () => {
    for (const [name, heard] of Object.entries(changes)) model.off(`change:${name}`, heard);
  };
}

// Three fills that differ in pattern as well as in colour. Ids are unique to each picture on the page.
function patterns(parent, id) {
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
  return { held: `url(#${id}-held)`, taken: `url(#${id}-taken)`, on: `url(#${id}-on)`, arrow: `url(#${id}-arrow)`, back: `url(#${id}-back)` };
}

function arrow(defs, id, name) {
  const attributes = { id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 9, markerHeight: 9 };
  const marker = svg("marker", { ...attributes, orient: "auto", markerUnits: "userSpaceOnUse" }, defs);
  svg("path", { d: "M0,0.5 L10,5 L0,9.5 z", class: name }, marker);
}
