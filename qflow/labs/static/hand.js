// Hand: what takes hold of a handle of the picture, or of a slider below it. The kernel runs while it is held, so
// that the picture comes soon or is there already; where a handle was pulled, its slider follows.

import { laidOut } from "./cards.js";
import { askRest } from "./handles.js";
import { clamp } from "./numbers.js";
import { drag, keep, set, stepsOf, write } from "./svg.js";
import { tankScale } from "./tank.js";

// Milliseconds that a hand waits for the picture of where it was, once the kernel has heard of it.
const MOST_WAIT = 500;

// Drawing units for one more step of what has no cells.
const PULL = 7;

// Hears the handles of one view; the drawing under them is made anew with each run, so the hand is kept here.
export class Hand {
  constructor(view, model, player) {
    Object.assign(this, { view, model, player, held: null, asked: null, after: null });
    const { stage } = view;
    drag(stage, (event) => this.take(event));
    stage.addEventListener("keydown", (event) => this.press(event));
    // A wheel is for the page, but over the handle that has the focus.
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

  // The handle at an event, also where it lies below the messages of its tank.
  handleAt({ target }) {
    const over = target.closest("[data-grab]");
    if (!over) return target.closest("[data-handle]");
    return this.view.stage.querySelector(`[data-handle="${CSS.escape(over.dataset.grab)}"]`);
  }

  take(event) {
    const element = this.handleAt(event);
    if (!element) return null;
    // The click that ends it is then the stage's own, and asks nothing.
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
    // The scale stays as it is while the hand is on it.
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

  // Where the cells of a grip lie on the drawing, and what says where the hand is among them.
  pullOf(element) {
    const [x, y, pitch, columns] = element.dataset.pull.split(" ").map(Number);
    const matrix = element.parentElement.getScreenCTM();
    const at = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const right = Number(element.parentElement.querySelector(".qf-card").getAttribute("width"));
    return { x, y, pitch, columns, at, right };
  }

  // So many cells lie before the hand, row by row; on the right of the card, as many more as it is pulled out by.
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

  // The line is under the hand at once; its picture comes when it is there.
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

  // Under the hand, and inside its card; its cells come with the picture.
  followGrip(element) {
    const card = element.parentElement.querySelector(".qf-card");
    const [wide, high] = ["width", "height"].map((name) => Number(card.getAttribute(name)));
    const grip = element.querySelector(".qf-grip").getBBox();
    const { x, y } = new DOMPoint(...this.held.hand).matrixTransform(element.parentElement.getScreenCTM().inverse());
    const [left, right] = [2 + grip.width / 2, wide - 2 - grip.width / 2];
    const top = clamp(y - grip.height / 2, 2, Math.max(2, high - grip.height - 2));
    set(element, { transform: `translate(${clamp(x, left, right) - 3},${top - grip.y})` });
  }

  // The next question waits for the picture that answers the last, or else a hand that moves on would never see one;
  // but not for long, as there may be none.
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

  // What is refused leaves the picture as it was: a line that has been let go of returns to its level.
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
    // Keys may come faster than runs.
    const value = this.pressed?.key === found.key ? this.pressed.value : found.value;
    this.pressed = { key: found.key, value: clamp(value + steps * found.step, found.low, found.high) };
    this.view.ghost = this.view.timeline;
    this.send(found.setting, this.pressed.value);
  }

  // Before and after a drawing is made anew.
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
    // Time runs from just before what the new setting changed.
    if (changed !== null) player.lookAt(Math.max(0, changed - 1.3 * player.pace));
    player.play();
  }
}

// When two runs first differ in a turn; null if they never do.
function firstChange(one, other) {
  const [before, after] = [one, other].map((timeline) => timeline.picture.turns.map((frame) => timeline.time(frame)));
  const at = (before.length > after.length ? before : after).findIndex((_, place) => before[place] !== after[place]);
  return at < 0 ? null : Math.min(before[at] ?? Infinity, after[at] ?? Infinity);
}

// Milliseconds without a move after which a hand rests on a slider.
const REST = 40;

// A reader who takes hold of a slider says which instant is looked at: it is drawn first when the next run takes
// longer. One who rests with it says where: most sliders are let go of where they rest.
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
  // Jupyter draws the sliders some time after this, and gives their handles no name.
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

// One slider under the pointer. What it says is asked for once the answer before is there: a slow run is not made
// slower.
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
  // A slider that comes back to where it was has not changed, and would not tell.
  const leave = () => {
    clearTimeout(timer);
    if (said !== begun) say(Number(rail.get()));
  };
  return { move, leave };
}
