// Player: where we are in the runs. It only ever picks frames that Python made.

const SPEEDS = [0.01, 0.05, 0.2, 0.5, 1, 2, 5, 10];

class Player {
  constructor(draw) {
    this.draw = draw;
    this.track = null;
    this.place = 0;
    this.clock = 0;
    this.factor = 1;
    this.request = 0;
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  }

  get isPlaying() {
    return this.request !== 0;
  }

  get time() {
    return this.isPlaying ? Math.max(this.clock, this.track.time(this.place)) : this.track.time(this.place);
  }

  load(track) {
    const first = this.track === null;
    const time = first ? 0 : this.track.time(this.place);
    this.track = track;
    this.show(first ? track.place(0, track.timelines[0].picture.start) : track.at(time));
  }

  show(place) {
    this.place = Math.min(this.track.count - 1, Math.max(0, place));
    this.clock = this.track.time(this.place);
    this.draw(this);
  }

  seek(time) {
    this.show(this.track.at(time));
  }

  step(by) {
    this.pause();
    this.show(this.place + by);
  }

  jump(direction) {
    this.pause();
    const places = this.track.transitions();
    const found = direction > 0 ? places.find((place) => place > this.place) : places.findLast((place) => place < this.place);
    if (found !== undefined) this.show(found);
  }

  setSpeed(factor) {
    this.factor = factor;
    this.draw(this);
  }

  changeSpeed(by) {
    const index = SPEEDS.indexOf(this.factor) + by;
    this.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, index))]);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
    this.draw(this);
  }

  pause() {
    cancelAnimationFrame(this.request);
    this.request = 0;
  }

  play() {
    if (this.place === this.track.count - 1) this.show(0);
    let before = performance.now();
    const tick = (now) => {
      // A reader who asked for less motion gets the same run as a few still pictures a second.
      const pause = this.calm.matches ? 400 : 0;
      if (now - before >= pause) {
        this.clock += (now - before) * 1000 * this.factor;
        before = now;
        this.place = this.track.at(this.clock);
        if (this.clock >= this.track.end) {
          this.request = 0;
          this.place = this.track.count - 1;
          this.draw(this);
          return;
        }
        this.draw(this);
      }
      this.request = requestAnimationFrame(tick);
    };
    this.request = requestAnimationFrame(tick);
  }
}
