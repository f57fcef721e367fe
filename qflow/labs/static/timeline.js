// Timeline: the frames as Python sent them. It looks numbers up; it works none out.

class Timeline {
  constructor(picture, bytes, run) {
    this.picture = picture;
    this.topology = picture.topology;
    this.count = picture.count;
    this.end = Math.max(1, picture.topology.end);
    this.run = run;
    this.width = picture.columns.width;
    // The view may begin at an odd address inside a larger buffer, where 32 bit numbers cannot be read.
    const { buffer, byteOffset, byteLength } = bytes;
    this.numbers = new Int32Array(buffer.slice(byteOffset, byteOffset + byteLength));
  }

  time(frame) {
    return this.numbers[frame * this.width];
  }

  // The last frame that is not later than a time.
  at(time) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time(middle) <= time) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  row(frame, start, names) {
    const from = frame * this.width + start;
    return Object.fromEntries(names.map((name, index) => [name, this.numbers[from + index]]));
  }

  step(frame) {
    return this.row(frame, 1, this.picture.columns.step);
  }

  member(kind, frame, index) {
    const [start, names] = this.picture.columns[kind];
    return this.row(frame, start + index * names.length, names);
  }

  producer(frame, index) {
    return this.member("producer", frame, index);
  }

  queue(frame, index) {
    return this.member("queue", frame, index);
  }

  consumer(frame, index) {
    return this.member("consumer", frame, index);
  }

  // Where one column of one member stands in every row.
  column(kind, index, name) {
    const [start, names] = this.picture.columns[kind];
    return start + index * names.length + names.indexOf(name);
  }
}
