// Spans: tables of what lasts for some frames, such as a message's stay on a queue. Looked up, never worked out.

const EVERY = 256;

class Spans {
  constructor(names, columns, count) {
    this.columns = Object.fromEntries(names.map((name, index) => [name, columns[index]]));
    this.count = count;
    this.start = this.columns.start;
    this.end = this.columns.end;
    this.marks = null;
    this.seen = [-1, []];
  }

  get(row, name) {
    return this.columns[name][row];
  }

  // Every so many frames, what lasts over that frame; and the first row that begins after it.
  index() {
    this.marks = [];
    let [row, active] = [0, []];
    const last = this.count ? this.start[this.count - 1] : 0;
    for (let frame = 0; frame <= last + EVERY; frame += EVERY) {
      while (row < this.count && this.start[row] <= frame) active.push(row++);
      active = active.filter((one) => this.end[one] > frame);
      this.marks.push([active.slice(), row]);
    }
  }

  // The rows that last over a frame, in the order in which they began.
  alive(frame) {
    if (this.seen[0] === frame) return this.seen[1];
    if (!this.marks) this.index();
    const [before, next] = this.marks[Math.min(this.marks.length - 1, Math.floor(frame / EVERY))];
    const found = before.filter((row) => this.end[row] > frame);
    for (let row = next; row < this.count && this.start[row] <= frame; row += 1) {
      if (this.end[row] > frame) found.push(row);
    }
    this.seen = [frame, found];
    return found;
  }

  // The first row that begins after a frame and is of the wanted kind; -1 for none.
  next(frame, isWanted) {
    let row = firstOf(this.start, (start) => start > frame);
    while (row < this.count && !isWanted(row)) row += 1;
    return row < this.count ? row : -1;
  }

  // The rows whose end lies after one frame and not after another, at most so many.
  ended(after, until, most) {
    const found = [];
    for (let row = this.count - 1; row >= 0 && found.length < most; row -= 1) {
      const end = this.end[row];
      if (end > after && end <= until) found.push(row);
    }
    return found;
  }
}
