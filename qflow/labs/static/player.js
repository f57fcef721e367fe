// Player: the current instant of the runs. Texts and numbers are those of a frame that Python made; only marks move
// between two frames.

import { IN_THE_AIR } from "./flights.js";
import { clamp } from "./numbers.js";

export const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
// The least seconds of real time that a run takes at first, so that the reader can follow it.
const FIRST_LOOK = 18;
// The most seconds for each step, so that a run of few steps does not take longer than necessary.
const STEP_LOOK = 0.3;
// The seconds in which everything that flies arrives when the picture rests and its clock stands still, after the beat
// of the step.
const LANDS = 2;

export class Player {
  constructor(draw) {
    this.draw = draw;
    this.track = null;
    this.place = 0;
    this.clock = 0;
    this.factor = 1;
    this.request = 0;
    this.gliding = 0;
    this.air = IN_THE_AIR;
    // The place at which the picture will rest; nothing later is shown.
    this.until = null;
    // A requested instant whose frame has not arrived yet.
    this.wanted = null;
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  }

  get isPlaying() {
    return this.request !== 0;
  }

  // The time of the run, in microseconds. The clock is that of the picture, which waits where much happens in one
  // instant.
  get time() {
    return this.isPlaying ? this.track.timeAt(this.clock) : this.track.time(this.place);
  }

  // Microseconds of the run in a second of the reader.
  get pace() {
    return 1e6 * this.factor;
  }

  load(track) {
    const first = this.track === null;
    const time = first ? 0 : this.track.timeAt(this.clock);
    this.track = track;
    const look = Math.min(FIRST_LOOK, STEP_LOOK * track.count);
    if (first) this.factor = SPEEDS.findLast((speed) => track.end / 1e6 / speed >= look) ?? SPEEDS[0];
    track.stretch(this.pace);
    if (first) this.show((this.start = track.place(0, track.timelines[0].picture.start)));
    else if (this.wanted === null || this.wanted > track.known) this.lookAt(time);
    else this.seek(this.wanted);
  }

  // Keep the time of the run that is shown, also between two frames.
  lookAt(time) {
    this.clock = this.track.clockAt(time);
    this.place = this.track.placeAt(this.clock);
    if (this.isPlaying) this.air = IN_THE_AIR;
    else this.rest(this.lands);
    this.look(this.clock);
  }

  look(clock) {
    this.clock = clock;
    this.place = this.track.placeAt(clock);
    this.draw(this);
  }

  show(place) {
    cancelAnimationFrame(this.gliding);
    this.wanted = null;
    this.place = clamp(place, 0, this.track.count - 1);
    this.clock = this.track.shown[this.place];
    // The first marks of a run are shown flying when it plays.
    this.rest(this.place ? this.lands : 0);
    this.draw(this);
  }

  // The picture time until everything that has started has arrived.
  get lands() {
    return (LANDS + this.track.beatOf(this.place)) * this.pace;
  }

  rest(landing) {
    this.air = { landed: this.clock, landing, horizon: this.clock };
  }

  // Show everything that has started until it arrives, while the clock stands still.
  land() {
    cancelAnimationFrame(this.gliding);
    if (this.calm.matches) {
      this.rest(this.lands);
      this.draw(this);
      return;
    }
    let [before, flown] = [performance.now(), 0];
    this.rest(0);
    const tick = (now) => {
      flown += (now - before) * this.factor * 1000;
      before = now;
      this.rest(Math.min(flown, this.lands));
      this.draw(this);
      if (flown < this.lands && !this.isPlaying) this.gliding = requestAnimationFrame(tick);
    };
    this.gliding = requestAnimationFrame(tick);
  }

  seek(time) {
    this.show(this.track.at(time));
    if (time > this.track.known) this.wanted = time;
  }

  step(by) {
    this.pause();
    this.show(this.place + by);
    if (by > 0) this.land();
  }

  jump(direction) {
    this.pause();
    const { turns } = this.track;
    const found =
      direction > 0 ? turns.find((place) => place > this.place) : turns.findLast((place) => place < this.place);
    if (found === undefined) return;
    this.show(found);
    if (direction > 0) this.land();
  }

  setSpeed(factor) {
    const time = this.track.timeAt(this.clock);
    const isAtFrame = this.clock === this.track.shown[this.place];
    this.factor = factor;
    this.track.stretch(this.pace);
    if (isAtFrame) this.show(this.place);
    else this.lookAt(time);
  }

  changeSpeed(by) {
    this.setSpeed(SPEEDS[clamp(SPEEDS.indexOf(this.factor) + by, 0, SPEEDS.length - 1)]);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
    this.draw(this);
  }

  pause() {
    cancelAnimationFrame(this.request);
    cancelAnimationFrame(this.gliding);
    this.request = 0;
  }

  // Play to a place, rest there, and call `arrived`.
  playTo(place, arrived) {
    Object.assign(this, { until: place, arrived });
    if (this.place >= place) this.arrive();
    else if (!this.isPlaying) this.play();
  }

  arrive() {
    this.pause();
    this.show(this.until);
    this.land();
    this.until = null;
    this.arrived();
  }

  play() {
    if (this.place === this.track.count - 1 && this.track.isWhole) this.show(0);
    cancelAnimationFrame(this.gliding);
    this.wanted = null;
    this.air = { ...this.air, horizon: this.until === null ? Infinity : this.track.shown[this.until] };
    this.draw(this);
    let before = performance.now();
    const tick = (now) => {
      // A reader who prefers reduced motion gets a few still pictures a second.
      const pause = this.calm.matches ? 400 : 0;
      if (now - before >= pause) {
        // A page that was not visible continues where it was, and on a slow machine nothing is skipped.
        this.clock += Math.min(now - before, Math.max(100, pause)) * this.factor * 1000;
        before = now;
        // If the run is incomplete, the picture waits at its last frame for more.
        if (!this.track.isWhole) this.clock = Math.min(this.clock, this.track.length);
        const isOver = this.track.isWhole && this.clock >= this.track.length;
        if (isOver) this.request = 0;
        // Nothing after the place of rest is drawn or described.
        this.look(Math.min(this.clock, this.until === null ? this.track.length : this.track.shown[this.until]));
        if (this.until !== null && this.place >= this.until) return this.arrive();
        if (isOver) return this.land();
      }
      this.request = requestAnimationFrame(tick);
    };
    this.request = requestAnimationFrame(tick);
  }
}
