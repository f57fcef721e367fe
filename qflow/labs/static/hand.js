// Hand: dragging of handles in the picture, and of the sliders below it. The kernel runs while a handle is held, so
// that the picture is ready soon; the slider of a dragged handle follows.

import { laidOut } from "./cards.js";
import { askRest } from "./handles.js";
import { clamp } from "./numbers.js";
import { drag, keep, set, stepsOf, write } from "./svg.js";
import { tankScale } from "./tank.js";

// The most milliseconds to wait for the picture of the last value, after the kernel has processed it.
const MOST_WAIT = 500;

// Drawing units for one step of a setting that has no cells.
const PULL = 7;

// Handles the dragging in one view. The drawing is rebuilt with each run, so the state of the drag is kept here.
export class Hand {
  constructor(view, model, player) {
    Object.assign(this, { view, model, player, held: null, asked: null, after: null });
    const { stage } = view;
    drag(stage, (event) => this.take(event));
    stage.addEventListener("keydown", (event) => this.press(event));
    // The mouse wheel scrolls the page, except over the handle that has the focus.
    stage.addEventListener("wheel", (event) => this.turn(event), { passive: false });
    stage.addEventListener("click", (event) => this.handleAt(event) && event.stopPropagation());
  }

  read(element) {
    const number = (name) => Number(element.getAttribute(name));
    return {
      key: element.dataset.handle,
      setting: element.dataset.setting,
      low: number("aria-valuemin"),
      high: number("aria-valuemax"),
      step: Number(element.dataset.step),
      value: number("aria-valuenow"),
    };
  }

  // The handle at an event, even if it is below the messages of its tank.
  handleAt({ target }) {
    const over = target.closest("[data-grab]");
    if (!over) return target.closest("[data-handle]");
    return this.view.stage.querySelector(`[data-handle="${CSS.escape(over.dataset.grab)}"]`);
  }

  take(event) {
    const element = this.handleAt(event);
    if (!element) return null;
    // With the pointer captured, the click that ends the drag goes to the stage, where it asks no question.
    this.view.stage.setPointerCapture(event.pointerId);
    element.focus({ focusVisible: false });
    const { timeline, drawn } = this.view;
    const tank = drawn.places.levels?.[Number(element.dataset.queue ?? -1)];
    const unit = this.view.stage.getBoundingClientRect().width / drawn.places.width;
    const isPlaying = this.player.isPlaying;
    this.player.pause();
    this.held = {
      ...this.read(element),
      x: event.clientX,
      y: event.clientY,
      hand: [event.clientX, event.clientY],
      isLevel: Boolean(tank),
      pixels: unit * (tank ? tank.y(0) - tank.y(1) : PULL / Number(element.dataset.step)),
      ghost: timeline,
      isPlaying,
    };
    this.held.begun = this.held.said = this.held.value;
    if (element.dataset.pull) this.held.pull = this.pullOf(element);
    // The scale does not change during a drag.
    timeline.scales = timeline.topology.queues.map((_, index) => tankScale(timeline, index));
    timeline.grids = new Map(
      [...timeline.topology.producers, ...timeline.topology.consumers].map((spot) => [
        spot.name,
        laidOut(timeline, spot),
      ]),
    );
    this.model.send({ ask: "look", time: this.player.track.time(this.player.place) });
    return { move: (moved) => this.held && this.move(moved), leave: () => this.held && this.leave() };
  }

  move(event) {
    const { held } = this;
    held.hand = [event.clientX, event.clientY];
    const pulled = held.isLevel ? held.y - event.clientY : event.clientX - held.x;
    held.value = this.allowed(held, held.pull ? this.pulled(event) : held.begun + pulled / held.pixels);
    this.follow();
    this.say();
  }

  // The positions of the cells of a grip on the drawing, from which the value at the pointer follows.
  pullOf(element) {
    const [x, y, pitch, columns] = element.dataset.pull.split(" ").map(Number);
    const matrix = element.parentElement.getScreenCTM();
    const at = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const right = Number(element.parentElement.querySelector(".qf-card").getAttribute("width"));
    return { x, y, pitch, columns, at, right };
  }

  // The number of cells before the pointer, row by row; to the right of the card, increased by the distance.
  pulled(event) {
    const { x, y, pitch, columns, at } = this.held.pull;
    const hand = at(event);
    const right = this.held.pull.right - PULL;
    const [across, more] = [Math.min(hand.x, right) - x, Math.max(0, hand.x - right) / PULL];
    if (columns === Infinity) return across / pitch + more;
    const row = Math.max(0, Math.floor((hand.y - y) / pitch));
    return row * columns + clamp(Math.round(across / pitch), 0, columns) + more;
  }

  allowed({ low, high, step, begun }, value) {
    return clamp(begun + Math.round((value - begun) / step) * step, low, high);
  }

  // Move the line with the pointer at once; its picture follows when it is ready.
  follow() {
    const { key, value, isLevel } = this.held;
    const { stage, drawn } = this.view;
    const element = stage.querySelector(`[data-handle="${CSS.escape(key)}"]`);
    if (!element) return;
    const tank = drawn.places.levels?.[Number(element.dataset.queue)];
    if (isLevel)
      set(element, {
        transform: `translate(0,${tank.y(value) - tank.y(Number(element.getAttribute("aria-valuenow")))})`,
      });
    else if (this.held.pull) this.followGrip(element);
    const word = element.querySelector(".qf-line-name");
    if (word) write(word, `${element.dataset.word} ${value}`);
  }

  // Move the grip with the pointer, inside its card; its cells come with the picture.
  followGrip(element) {
    const card = element.parentElement.querySelector(".qf-card");
    const [wide, high] = ["width", "height"].map((name) => Number(card.getAttribute(name)));
    const grip = element.querySelector(".qf-grip").getBBox();
    const { x, y } = new DOMPoint(...this.held.hand).matrixTransform(element.parentElement.getScreenCTM().inverse());
    const [left, right] = [2 + grip.width / 2, wide - 2 - grip.width / 2];
    const top = clamp(y - grip.height / 2, 2, Math.max(2, high - grip.height - 2));
    set(element, { transform: `translate(${clamp(x, left, right) - 3},${top - grip.y})` });
  }

  // The next request waits for the picture that answers the last one, as otherwise a pointer that keeps moving would
  // never see one. It does not wait long, as there may be no picture.
  say() {
    const { held } = this;
    if (!held || this.asked || held.said === held.value) return;
    held.said = held.value;
    const asked = (this.asked = {});
    askRest(this.model, held.setting, held.value, () =>
      setTimeout(() => this.asked === asked && this.answered(), MOST_WAIT),
    );
  }

  answered() {
    this.asked = null;
    this.say();
  }

  // A refusal leaves the picture as it was: the line of a released handle returns to its level.
  refused(isRefused) {
    this.answered();
    if (!isRefused || this.held) return;
    for (const line of this.view.stage.querySelectorAll(".qf-line.qf-handle")) {
      line.removeAttribute("transform");
      write(line.querySelector(".qf-line-name"), `${line.dataset.word} ${line.getAttribute("aria-valuenow")}`);
    }
  }

  leave() {
    const { held } = this;
    this.held = null;
    if (held.value === held.begun && held.said === held.begun) {
      if (held.isPlaying) this.player.play();
      return;
    }
    this.after = held;
    this.send(held.setting, held.value);
    this.view.ghost = held.ghost;
  }

  send(setting, value) {
    this.model.send({ ask: "set", setting, value });
  }

  press(event) {
    const element = event.target.closest("[data-handle]");
    const steps = { Home: -Infinity, End: Infinity }[event.key] ?? stepsOf(event);
    if (element && steps) this.step(event, element, steps);
  }

  turn(event) {
    const element = event.target.closest("[data-handle]");
    if (element && element === document.activeElement && event.deltaY)
      this.step(event, element, event.deltaY < 0 ? 1 : -1);
  }

  step(event, element, steps) {
    keep(event);
    const found = this.read(element);
    // Keys may be pressed faster than runs end, so the value is counted here.
    const value = this.pressed?.key === found.key ? this.pressed.value : found.value;
    this.pressed = { key: found.key, value: clamp(value + steps * found.step, found.low, found.high) };
    this.view.ghost = this.view.timeline;
    this.send(found.setting, this.pressed.value);
  }

  // Called before and after a drawing is rebuilt.
  before(timeline) {
    if (this.held) [timeline.scales, timeline.grids] = [this.held.ghost.scales, this.held.ghost.grids];
    this.view.ghost = this.held?.ghost ?? this.view.ghost;
    this.focused = this.view.stage.contains(document.activeElement) ? document.activeElement.dataset.handle : null;
  }

  loaded() {
    const { view, player } = this;
    const element = this.focused && view.stage.querySelector(`[data-handle="${CSS.escape(this.focused)}"]`);
    element?.focus({ preventScroll: true, focusVisible: !this.held });
    if (element && this.pressed && Number(element.getAttribute("aria-valuenow")) === this.pressed.value)
      this.pressed = null;
    if (this.held) this.follow();
    this.answered();
    if (!this.after || !view.timeline.isWhole) return;
    const { ghost, isPlaying } = this.after;
    const changed = firstChange(ghost, view.timeline);
    this.after = null;
    if (!isPlaying) return;
    // Play from just before the first effect of the new setting.
    if (changed !== null) player.lookAt(Math.max(0, changed - 1.3 * player.pace));
    player.play();
  }
}

// The time at which the turns of two runs first differ, or null if they never do.
function firstChange(one, other) {
  const [before, after] = [one, other].map((timeline) => timeline.picture.turns.map((frame) => timeline.time(frame)));
  const at = (before.length > after.length ? before : after).findIndex((_, place) => before[place] !== after[place]);
  return at < 0 ? null : Math.min(before[at] ?? Infinity, after[at] ?? Infinity);
}

// Milliseconds without a movement after which a slider counts as resting.
const REST = 40;

// When the reader takes hold of a slider, tell the kernel which instant is visible, as a longer run draws that first.
// When the slider rests, tell the kernel its value, as most sliders are released where they rest.
export function heedSliders(el, player, model) {
  let looked = -1;
  let held = null;
  const isOurs = (event) => Boolean(event.target.closest?.(".qf-panel")?.closest(".qflow-lab")?.contains(el));
  const look = () => {
    const time = player.track.time(player.place);
    if (time !== looked) model.send({ ask: "look", time });
    looked = time;
  };
  const take = (event) => {
    if (!player.track || !isOurs(event)) return;
    look();
    if (event.type === "pointerdown") held = heldSlider(event.target.closest(".qf-slider"), model);
  };
  const move = () => held?.move();
  const leave = () => {
    held?.leave();
    held = null;
  };
  // Jupyter draws the sliders later than this, and gives their handles no accessible name.
  const name = () => {
    const panel = el.closest(".qflow-lab")?.querySelectorAll(".qf-slider") ?? [];
    for (const slider of panel) {
      const label = slider.querySelector(".widget-label")?.textContent.trim();
      const handle = slider.querySelector(".noUi-handle");
      if (label && handle) set(handle, { "aria-label": label });
    }
    if (panel.length) clearInterval(naming);
  };
  const naming = setInterval(name, 500);
  const over = new AbortController();
  over.signal.addEventListener("abort", () => clearInterval(naming));
  const heard = { pointerdown: take, keydown: take, pointermove: move, pointerup: leave, pointercancel: leave };
  for (const [name, hear] of Object.entries(heard))
    document.addEventListener(name, hear, { capture: true, signal: over.signal });
  return () => {
    leave();
    over.abort();
  };
}

// One slider under the pointer. Its value is requested when the previous request is answered, so that slow runs are
// not made slower.
function heldSlider(slider, model) {
  const rail = slider?.querySelector(".noUi-target")?.noUiSlider;
  const setting =
    slider && [...slider.classList].find((name) => name.startsWith("qf-slider-"))?.slice("qf-slider-".length);
  if (!rail || !setting) return null;
  const begun = Number(rail.get());
  let [said, timer, isAwaited] = [begun, 0, false];
  const say = (value) => {
    said = value;
    isAwaited = true;
    askRest(model, setting, value, () => (isAwaited = false));
  };
  const rest = () => {
    const value = Number(rail.get());
    if (isAwaited) move();
    else if (value !== said) say(value);
  };
  const move = () => {
    clearTimeout(timer);
    timer = setTimeout(rest, REST);
  };
  // A slider that returns to its value has not changed, and would send nothing.
  const leave = () => {
    clearTimeout(timer);
    if (said !== begun) say(Number(rail.get()));
  };
  return { move, leave };
}
