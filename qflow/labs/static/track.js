// Track: the frames of all runs in one order of time; a place on it is one frame of each run.

class Track {
  constructor(timelines) {
    this.timelines = timelines;
    this.single = timelines.length === 1;
    this.end = Math.max(...timelines.map((timeline) => timeline.end));
    this.room = Math.max(...timelines.map((timeline) => timeline.room));
    this.isWhole = timelines.every((timeline) => timeline.isWhole);
    this.known = Math.min(...timelines.map((timeline) => (timeline.isWhole ? Infinity : timeline.end)));
    if (this.single) {
      this.count = timelines[0].count;
      return;
    }
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
      heads[next] += 1;
      heads.forEach((head, index) => this.places[index].push(Math.max(0, head - 1)));
    }
    this.count = this.times.length;
  }

  // A run that took longer than a later one must not come back over it, nor its beginning over the whole.
  isAsNewAs(run) {
    const shown = this.timelines[0].run;
    return run < shown || (run === shown && this.isWhole);
  }

  time(place) {
    return this.single ? this.timelines[0].time(place) : this.times[place];
  }

  frame(index, place) {
    return this.single ? place : this.places[index][place];
  }

  // The first place that shows a frame of a run.
  place(index, frame) {
    return this.single ? frame : firstOf(this.places[index], (shown) => shown >= frame);
  }

  // The last place that is not later than a time.
  at(time) {
    if (this.single) return this.timelines[0].at(time);
    return Math.max(0, firstOf(this.times, (shown) => shown > time) - 1);
  }

  transitions() {
    if (!this.found) {
      const places = this.timelines.flatMap((timeline, index) =>
        timeline.picture.turns.map((frame) => this.place(index, frame)),
      );
      this.found = [...new Set(places)].sort((one, other) => one - other);
    }
    return this.found;
  }
}

function firstOf(sorted, holds) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(sorted[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
