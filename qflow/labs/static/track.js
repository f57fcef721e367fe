// Track: the frames of all runs in one order of time; a place on the track is one frame of each run.
//
// Everything that results from released completions happens at the same time, but is shown one after the other. The
// clock of the picture waits while completions pass the gate, and while a session dies; while nothing happens for
// long, it runs faster. So each place has a time of the picture (`shown`) as well as its time in the run.

import { clamp, firstOf } from "./numbers.js";
import { BEAT } from "./timeline.js";

// The steps per second in which a window fills after the first ON, and the least and most seconds for this.
const FILLING = { steps: 45, seconds: [1.5, 5] };

// The most seconds of real time for which the picture stands still.
const STILL = 2.5;

export class Track {
  constructor(timelines) {
    this.timelines = timelines;
    this.single = timelines.length === 1;
    this.end = Math.max(...timelines.map((timeline) => timeline.end));
    this.room = Math.max(...timelines.map((timeline) => timeline.room));
    this.isWhole = timelines.every((timeline) => timeline.isWhole);
    this.known = Math.min(...timelines.map((timeline) => (timeline.isWhole ? Infinity : timeline.end)));
    this.pace = 0;
    this.whose = [];
    const heads = timelines.map(() => 0);
    this.places = timelines.map(() => []);
    this.times = [];
    for (;;) {
      let next = -1;
      timelines.forEach((timeline, index) => {
        if (heads[index] >= timeline.count) return;
        if (next < 0 || timeline.time(heads[index]) < timelines[next].time(heads[next])) next = index;
      });
      if (next < 0) break;
      this.times.push(timelines[next].time(heads[next]));
      this.whose.push(next);
      heads[next] += 1;
      heads.forEach((head, index) => this.places[index].push(Math.max(0, head - 1)));
    }
    this.count = this.times.length;
    // The places where flow control turns, a queue discards for the first time, or a session ends.
    const turns = timelines.flatMap((timeline, index) =>
      timeline.picture.turns.map((frame) => this.place(index, frame)),
    );
    this.turns = [...new Set(turns)].sort((one, other) => one - other);
  }

  // A slow run must not replace a later one, nor the part of a run its complete version.
  isAsNewAs(run) {
    const shown = this.timelines[0].run;
    return run < shown || (run === shown && this.isWhole);
  }

  // Compute the picture times at a pace, which is in microseconds of the run in a second of real time.
  stretch(pace) {
    if (pace === this.pace) return;
    this.pace = pace;
    this.shown = new Float64Array(this.count);
    for (const timeline of this.timelines) timeline.shown = new Float64Array(timeline.count);
    const slow = this.slowing(pace);
    this.timelines[0].slowed = slow.by > 1 ? slow : null;
    let [at, from] = [0, 0];
    let [before, begun] = [0, -1];
    for (let place = 0; place < this.count; place += 1) {
      const time = this.time(place);
      if (place)
        at += Math.max(
          Math.min(STILL * pace, (time - before) * (place > slow.from && place <= slow.to ? slow.by : 1)),
          this.beat(place - 1, from, before, time) * pace,
        );
      if (time !== begun) [from, begun] = [place, time];
      before = time;
      this.shown[place] = at;
      const index = this.whose[place];
      this.timelines[index].shown[this.frame(index, place)] = at;
    }
  }

  // At the first turn ON the picture slows down until a window is full, to show that the window makes a producer wait,
  // and not ON.
  slowing(pace) {
    const [timeline] = this.timelines;
    // A picture that follows a server shows real time.
    const filled = this.single && !timeline.kept && timeline.filled;
    if (!filled) return { from: 0, to: 0, by: 1 };
    const [from, to] = filled;
    const took = timeline.time(to) - timeline.time(from);
    return {
      from,
      to,
      by: Math.max(1, (clamp((to - from) / FILLING.steps, ...FILLING.seconds) * pace) / Math.max(1, took)),
    };
  }

  // The least time for which the picture stays at a place; `from` is the first place at the same time, `time` that
  // time, and `next` the time of the next place.
  beat(place, from, time, next) {
    const least = this.beatOf(place);
    if (least || next !== time) return least;
    if (this.burst?.from !== from) {
      let [to, follows] = [from, false];
      for (; to < this.count && this.time(to) === this.time(from); to += 1) follows ||= this.opens(to);
      this.burst = { from, step: follows ? Math.min(BEAT.step, BEAT.steps / (to - from)) : 0 };
    }
    return this.burst.step;
  }

  opens(place) {
    const index = this.whose[place];
    return this.timelines[index].offs.has(this.frame(index, place));
  }

  beatOf(place) {
    const index = this.whose[place];
    return this.timelines[index].beat(this.frame(index, place));
  }

  // The place that is shown at a picture time; below, the time of the run at a picture time.
  placeAt(clock) {
    return Math.max(0, firstOf(this.shown, (shown) => shown > clock) - 1);
  }

  timeAt(clock) {
    const place = this.placeAt(clock);
    const gone = (clock - this.shown[place]) * this.hurry(place);
    return Math.min(this.nextTime(place), this.time(place) + gone);
  }

  // The picture time at which a time of the run is shown.
  clockAt(time) {
    const place = this.at(time);
    return this.shown[place] + (time - this.time(place)) / this.hurry(place);
  }

  nextTime(place) {
    return place + 1 < this.count ? this.time(place + 1) : this.end;
  }

  // The speed after a place, relative to the picture's pace.
  hurry(place) {
    const takes = (place + 1 < this.count ? this.shown[place + 1] : this.length) - this.shown[place];
    return Math.max(1, (this.nextTime(place) - this.time(place)) / Math.max(1, takes));
  }

  get length() {
    return this.shown[this.count - 1] + Math.min(STILL * this.pace, this.end - this.time(this.count - 1));
  }

  time(place) {
    return this.times[place];
  }

  frame(index, place) {
    return this.places[index][place];
  }

  // The first place that shows a frame of a run.
  place(index, frame) {
    return firstOf(this.places[index], (shown) => shown >= frame);
  }

  // The last place that is not later than a time.
  at(time) {
    return Math.max(0, firstOf(this.times, (shown) => shown > time) - 1);
  }
}
