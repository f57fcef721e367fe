// Story: a run told in beats (words.py). Buttons, dots and arrow keys move between beats, never between frames; each
// beat plays by itself and then rests. The camera moves nearer to the drawing and back, to show what matters.

import { clamp } from "./numbers.js";
import { button, html, keep, keepFocus, set, write } from "./svg.js";

const READS = 1800; // milliseconds between two beats that follow by themselves
const NEAREST = 2.3;

export class Story {
  constructor(root, player, shown, views) {
    Object.assign(this, { root, player, shown, at: -1, follows: false });
    this.box = html("section", { class: "qf-story", "aria-label": "This run, told in beats", hidden: "" }, null);
    views.before(this.box);
    this.text = html("p", { class: "qf-story-text", "aria-live": "polite" }, this.box);
    // The bar replaces the transport and has the same height, so that the picture does not move when one replaces the
    // other.
    this.bar = html(
      "div",
      { class: "qf-story-bar", role: "toolbar", "aria-label": "Beats", hidden: "" },
      root.querySelector(".qf-top"),
    );
    const add = (name, title, act, parent = this.bar, text = "") =>
      button({ class: `qf-story-${name}`, title }, parent, text, act);
    this.back = add("back", "The beat before (←)", () => this.turn(-1), this.bar, "back");
    this.dots = html("span", { class: "qf-story-dots" }, this.bar);
    this.next = add("next", "The next beat (→)", () => this.turn(1));
    this.all = add("all", "Play all beats, one after the other (Space)", () => this.toggle());
    this.pace = html("span", { class: "qf-story-pace" }, this.bar);
    this.end = add("end", "Leave the story (Escape)", () => this.leave(), this.bar, "skip");
    this.again = add("begin", "Tell this run in beats", () => this.begin(), this.box, "tell it again");
    root.addEventListener("keydown", (event) => this.press(event), true);
    views.addEventListener(
      "pointerdown",
      (event) =>
        this.isTold && (event.target.closest("[data-handle]") ? this.leave(this.player.isPlaying) : this.rest()),
      true,
    );
  }

  get beats() {
    return this.player.track?.single ? (this.player.track.timelines[0].picture.story ?? []) : [];
  }

  get isTold() {
    return this.at >= 0;
  }

  // Called for another run, which may have no story.
  load() {
    clearTimeout(this.waiting);
    // The space of the bar is kept, so that nothing moves while the reader keeps dragging.
    this.box.hidden &&= !this.beats.length;
    if (!this.beats.length && this.isTold) this.leave();
    this.dots.replaceChildren();
    this.beats.forEach((_, index) => {
      button({ title: `Beat ${index + 1} of ${this.beats.length}` }, this.dots, "", () => this.go(index, false));
    });
    this.say();
    if (this.isTold && this.follows && !this.player.isPlaying) this.arrive();
  }

  begin() {
    this.before = this.player.factor;
    this.go(0, true);
  }

  go(index, follows) {
    const { player, beats } = this;
    clearTimeout(this.waiting);
    player.pause();
    [this.at, this.follows] = [index, follows];
    const from = index ? beats[index - 1].to : 0;
    const { to, seconds } = beats[index];
    const { track } = player;
    player.setSpeed(clamp((track.time(to) - track.time(from)) / 1e6 / seconds, 0.004, 1));
    this.say();
    player.show(player.calm.matches ? to : from);
    this.look();
    player.playTo(to, () => this.arrive());
  }

  arrive() {
    if (this.follows && this.at + 1 < this.beats.length)
      this.waiting = setTimeout(() => this.go(this.at + 1, true), READS + (this.player.calm.matches ? 5000 : 0));
    else this.follows = false;
    this.say();
  }

  turn(by) {
    const next = this.at + by;
    if (next >= this.beats.length) this.leave();
    else this.go(Math.max(0, next), false);
  }

  // Pause or continue.
  toggle() {
    if (!this.isTold) this.begin();
    else if (this.follows) this.rest();
    else this.go(this.player.isPlaying || this.at + 1 === this.beats.length ? 0 : this.at + 1, true);
  }

  rest() {
    clearTimeout(this.waiting);
    this.follows = false;
    this.say();
  }

  // End the story, so that the reader can operate the lab; a hand on a handle pauses the run and continues it later.
  leave(plays = false) {
    clearTimeout(this.waiting);
    const wasAt = this.at;
    [this.at, this.follows, this.player.until] = [-1, false, null];
    if (wasAt >= 0) {
      this.player.setSpeed(this.before ?? this.player.factor);
      if (!plays) {
        this.player.pause();
        this.player.rest(this.player.lands);
        this.player.draw(this.player);
      }
    }
    this.look();
    this.say();
  }

  // A pressed button may be hidden or disabled in the next beat, so the focus is kept on another one.
  say() {
    keepFocus(this.root, () => this.draw(), this.next, this.again, this.root);
  }

  draw() {
    const { beats, at, isTold } = this;
    this.root.classList.toggle("qf-is-told", isTold);
    write(this.text, isTold ? beats[at].text : "Your turn: drag a line, and see the run that it makes.");
    [...this.dots.children].forEach((dot, index) => set(dot, { "aria-current": index === at ? "step" : "false" }));
    this.bar.hidden = !isTold;
    this.again.hidden = isTold || !beats.length;
    this.back.disabled = at <= 0;
    write(this.next, at + 1 === beats.length ? "your turn" : "next");
    write(this.all, this.follows ? "wait" : at + 1 === beats.length ? "again" : "play on");
    write(this.pace, isTold ? `${Number(this.player.factor.toPrecision(1))}× speed` : "");
  }

  look() {
    const [view] = this.shown;
    if (!view) return;
    const { places } = view.drawn;
    // On a phone the whole drawing is already as large as possible.
    const isNear = this.isTold && !view.timeline.isPhone;
    const box = isNear ? CAMERAS[this.beats[this.at].camera](places, view.timeline, this.beats[this.at].to) : null;
    let way = "";
    if (box) {
      const scale = Math.min(NEAREST, places.width / box[2], places.height / box[3]);
      const move = (from, size, all) => clamp(scale * (from + size / 2) - all / 2, 0, (scale - 1) * all);
      const left = (-100 * move(box[0], box[2], places.width)) / places.width;
      const top = (-100 * move(box[1], box[3], places.height)) / places.height;
      way = `translate(${left}%,${top}%) scale(${scale})`;
    }
    view.picture.classList.toggle("qf-is-filmed", this.isTold);
    for (const part of [view.stage, view.brush.canvas]) part.style.transform = way;
  }

  // In a story the arrow keys move from beat to beat.
  press(event) {
    if (
      !this.isTold ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.target.closest("select, input, [data-handle]")
    )
      return;
    const act = {
      ArrowRight: () => this.turn(1),
      ArrowLeft: () => this.turn(-1),
      Escape: () => this.leave(),
      " ": event.target.tagName !== "BUTTON" && (() => this.toggle()),
    }[event.key];
    if (!act) return;
    keep(event);
    act();
  }
}

// The area that each camera shows: left, top, width and height in the units of the drawing; null for all of it.
const CAMERAS = {
  whole: () => null,
  gate: ({ sources: [source], tanks: [tank] }) => [
    source.box.x,
    source.box.y - 20,
    tank.left + 40 - source.box.x,
    source.box.height + 40,
  ],
  queue: ({ tanks: [tank] }) => [tank.left - 200, tank.top - 50, 560, tank.bottom - tank.top + 100],
  held: ({ tanks: [tank] }) => [tank.gate.x - 120, tank.gate.y - 110, 420, 220],
  window: ({ sources: [source], tanks: [tank] }) => [
    source.box.x,
    source.box.y - 40,
    tank.left + 120 - source.box.x,
    source.box.height + 80,
  ],
};
