// Handles: settings that are changed in the picture itself. A level is dragged on the tank, a window at its producer,
// a prefetch at its consumer; arrow keys do the same. The kernel runs while a handle is held, as for a slider, and the
// slider follows.

import { set, svg, textWidth } from "./svg.js";

// The handle of a setting, if the lab has one: [setting, minimum, maximum, step].
export const handleOf = (timeline, ...names) => (timeline.handles ?? []).find(([setting]) => names.includes(setting));

// Make an element of the drawing a handle, for the mouse, the keyboard and a screen reader.
export function asHandle(element, [setting, low, high, step], value, label, place, unit = "messages") {
  element.classList.add("qf-handle");
  set(element, {
    role: "slider",
    tabindex: 0,
    "aria-label": label,
    "aria-valuemin": low,
    "aria-valuemax": high,
    "aria-valuenow": value,
    "aria-valuetext": `${setting.split("_")[0]} ${value} ${unit}`,
    "data-handle": `${setting} ${place}`,
    "data-setting": setting,
    "data-step": step,
  });
}

// Request the run for a value at which a handle rests; call `heard` when the kernel has processed the request.
export function askRest(model, setting, value, heard) {
  const status = ({ content }) => content.execution_state === "idle" && heard();
  model.send({ ask: "rest", setting, value }, { iopub: { status } });
}

// A grip at the end of a strip of cells, which is dragged from cell to cell; `pull` has the position of the first
// cell, the distance of cells, and the cells in a row.
export function buildGrip(group, timeline, settings, spot, value, { end: [atEnd, y, tall], pull }) {
  const handle = handleOf(timeline, ...settings.flatMap((setting) => [setting, `${setting}-${spot.name}`]));
  if (!handle) return;
  const [wide, high] = timeline.isPhone ? [30, Math.max(30, tall + 6)] : [16, tall + 6];
  // The grip stays inside its card, however wide the cells are.
  const x = Math.min(atEnd, Number(group.querySelector(".qf-card").getAttribute("width")) - 5 - wide / 2);
  const grip = svg("g", { transform: `translate(${x},${y})` }, group);
  svg("rect", { x: 3 - wide / 2, y: (tall - high) / 2, width: wide, height: high, rx: 8, class: "qf-grip" }, grip);
  svg("path", { d: `M1,${tall / 2 - 5}v10M5,${tall / 2 - 5}v10`, class: "qf-grip-lines" }, grip);
  svg("title", {}, grip, `${settings[0]} ${value}: drag, or use the arrow keys`);
  asHandle(grip, handle, value, `${settings[0]} of ${spot.name}`, spot.name);
  set(grip, { "data-pull": pull.join(" "), "data-at": `${x} ${y}` });
}

// A button of the picture, or a switch: a click sends a message to the kernel. Returns its width.
export function buildButton(root, x, y, words, question, { isOn, extra = "" } = {}) {
  const isSwitch = isOn !== undefined;
  const asked = { tabindex: 0, "aria-label": words, "data-ask": JSON.stringify({ ask: "do", ...question }) };
  const role = isSwitch ? { role: "switch", "aria-checked": isOn } : { role: "button" };
  const group = svg(
    "g",
    { class: `${isSwitch ? "qf-switch" : "qf-button"} ${extra}`, transform: `translate(${x},${y})`, ...role, ...asked },
    root,
  );
  const [width, height] = [(isSwitch ? 46 : 24) + 1.1 * textWidth(words), isSwitch ? 22 : 24];
  svg("rect", { width, height, rx: height / 2, class: "qf-pill" }, group);
  if (isSwitch)
    svg("rect", { x: 4, y: 4, width: 26, height: 14, rx: 7, class: isOn ? "qf-switch-on" : "qf-switch-off" }, group);
  if (isSwitch) svg("circle", { cx: isOn ? 23 : 11, cy: 11, r: 5, class: "qf-switch-knob" }, group);
  svg("text", { x: isSwitch ? 37 : width / 2, y: height / 2 + 4.5, class: isSwitch ? "" : "qf-middle" }, group, words);
  return width;
}
