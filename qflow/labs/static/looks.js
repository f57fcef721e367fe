// Looks: the times at which each look of a consumer at a message begins and ends, in a picture that shows the eyes of
// consumers (conveyor.js).

// Seconds of real time for a look that passes over, the closing of a lock, a flight, the return of an eye, and so on.
export const EYE = { look: 0.2, snap: 0.2, fly: 0.5, home: 0.35, trail: 1.8, done: 0.6, most: 2.4 };
export const PASSED = 0;
export const TAKEN = 1;

// The begin and end of each look, in seconds after its frame, and the time at which a taken message starts to fly.
export class Looks {
  constructor(timeline) {
    const { looks, holdings } = timeline;
    const { consumer, stay, kind, start } = looks.columns;
    this.of = timeline.topology.consumers.map(() => []);
    this.beats = new Map();
    this.takes = new Map();
    for (let from = 0, to; from < looks.count; from = to) {
      for (to = from; to < looks.count && start[to] === start[from]; to += 1);
      const raw = Array.from({ length: to - from }, (_, at) =>
        kind[from + at] === TAKEN ? EYE.look + EYE.snap : EYE.look,
      );
      const scale = Math.min(1, EYE.most / raw.reduce((sum, one) => sum + one, 0));
      let at = 0;
      for (let row = from; row < to; row += 1) {
        const until = at + raw[row - from] * scale;
        this.of[consumer[row] - 1].push({ frame: start[row], at, until, stay: stay[row], kind: kind[row] });
        if (kind[row] === TAKEN) this.takes.set(`${stay[row]} ${start[row]}`, until);
        at = until;
      }
      this.beats.set(start[from], at + EYE.fly);
    }
    this.holdings = holdings;
  }

  // The seconds after its frame at which a message that a consumer took leaves the line.
  setsOut(row) {
    const { stay, start } = this.holdings.columns;
    return this.takes.get(`${stay[row]} ${start[row]}`) ?? 0;
  }
}
