// Prose: text beside a lab. Its numbers act as handles of the picture, and its terms and their marks in the picture
// highlight each other.

import { clamp } from "./numbers.js";
import { drag, html, keep, listen, set, stepsOf, write } from "./svg.js";

const STEP_PIXELS = 5;

function renderProse({ model, el }) {
  const root = html("p", { class: "qflow-scene qf-prose" }, el);
  const numbers = new Map();
  const terms = [];
  let scene = null;
  const send = (ask, setting, value) => scene?.send({ ask, setting, value });
  const show = (setting, value) => {
    for (const number of numbers.get(setting)) {
      write(number, String(value));
      set(number, { "aria-valuenow": value });
    }
  };
  const lightUp = (element, subject) => {
    for (const name of ["pointerenter", "focus"]) element.addEventListener(name, () => scene?.set("lit", subject));
    for (const name of ["pointerleave", "blur"]) element.addEventListener(name, () => scene?.set("lit", ""));
  };
  for (const part of model.get("parts")) {
    if (typeof part === "string") root.append(part);
    else if (part.length === 1) {
      const number = html("b", { class: "qf-prose-number", "data-setting": part[0] }, root);
      numbers.set(part[0], [...(numbers.get(part[0]) ?? []), number]);
      heedHand(number, part[0], model, show, send);
      lightUp(number, `setting:${part[0]}`);
    } else {
      const term = html("span", { class: "qf-prose-term", tabindex: 0, "data-subject": part[1] }, root, part[0]);
      terms.push(term);
      lightUp(term, part[1]);
    }
  }
  const follow = () => Object.entries(model.get("values")).forEach(([setting, value]) => show(setting, value));
  const over = () =>
    terms.forEach((term) => term.classList.toggle("qf-is-named", term.dataset.subject === scene.get("over")));
  follow();
  const leave = listen(model, { values: follow });
  model.widget_manager.get_model(model.get("scene").slice("IPY_MODEL_".length)).then((found) => {
    scene = found;
    scene.on("change:over", over);
  });
  return () => {
    leave();
    scene?.off("change:over", over);
    el.replaceChildren();
  };
}

// Let a number be dragged sideways, or changed by keys.
function heedHand(number, setting, model, show, send) {
  const [low, high, step] = model.get("bounds")[setting];
  const allowed = (value) => clamp(low + Math.round((value - low) / step) * step, low, high);
  set(number, {
    role: "slider",
    tabindex: 0,
    "aria-label": setting,
    "aria-valuemin": low,
    "aria-valuemax": high,
    title: "Drag sideways, or use the arrow keys",
  });
  drag(number, ({ clientX }) => {
    number.focus();
    const from = model.get("values")[setting];
    let held = from;
    const move = (event) => {
      const value = allowed(from + Math.round((event.clientX - clientX) / STEP_PIXELS) * step);
      if (value !== held) send("rest", setting, value);
      held = value;
      show(setting, value);
    };
    return { move, leave: () => held !== from && send("set", setting, held) };
  });
  number.addEventListener("keydown", (event) => {
    const steps = stepsOf(event);
    if (!steps) return;
    keep(event);
    const value = allowed(Number(number.textContent) + steps * step);
    show(setting, value);
    send("set", setting, value);
  });
}

export default { render: renderProse };
