// Looks: when each look of a consumer at a message begins and ends, in a picture whose consumers' eyes are seen
// (conveyor.js).

// Seconds of the reader: a look that passes over, the snap of a lock, a flight, an eye on its way home.
export const EYE = { look: 0.2, snap: 0.2, fly: 0.5, home: 0.35, trail: 1.8, done: 0.6, most: 2.4 };
export const PASSED = 0;
export const TAKEN = 1;

// When each look begins and ends, in seconds after its frame; and when a message that was taken sets out.
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

  // Seconds after its frame at which a message that a consumer took leaves the line.
  setsOut(row) {
    const { stay, start } = this.holdings.columns;
    return this.takes.get(`${stay[row]} ${start[row]}`) ?? 0;
  }
}
