// Timeline: the frames as Python sent them. It looks numbers up; it works none out.

// Bytes, inflated by the browser itself.
async function inflatedBytes(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The numbers of a picture: first the low bytes of all are sent, then the next.
async function inflated(packed) {
  const places = await inflatedBytes(packed);
  const numbers = new Int32Array(places.length / 4);
  const count = numbers.length;
  for (let at = 0; at < count; at += 1) numbers[at] = places[at] | (places[at + count] << 8) | (places[at + 2 * count] << 16) | (places[at + 3 * count] << 24);
  return numbers.buffer;
}

class Timeline {
  constructor(picture, run, numbers) {
    this.picture = picture;
    this.topology = picture.topology;
    this.count = picture.count;
    this.end = Math.max(1, picture.topology.end);
    // A run that still goes on is known up to its end of now, and its plot has room for more.
    this.isWhole = picture.room === undefined;
    this.room = picture.room ?? this.end;
    this.run = run;
    // The runs that stand side by side, this one among them.
    this.beside = [this];
    // One table after the other, column after column, each number in four bytes.
    let from = 0;
    const take = (rows) => new Int32Array(numbers, 4 * (from += rows) - 4 * rows, rows);
    const table = (width, rows) => Array.from({ length: width }, () => take(rows));
    this.columns = table(picture.width, picture.count);
    [this.times] = this.columns;
    for (const [name, names, rows] of picture.lasting) this[name] = new Spans(names, table(names.length, rows), rows);
    if (this.looks) this.looksInTime = new Looks(this);
  }

  time(frame) {
    return this.times[frame];
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

  // The frames of the first ON and of the first full window after it, before an OFF; null if there is none.
  get filled() {
    if (this.filledFrames === undefined) {
      const flows = this.topology.queues.map((_, index) => this.column("queue", index, "flow"));
      const blocked = 1 << this.picture.words.parts.indexOf("blocked");
      const isOn = (frame) => flows.some((flow) => flow[frame]);
      let from = 0;
      while (from < this.count && !isOn(from)) from += 1;
      let to = from;
      while (to < this.count && isOn(to) && !(this.columns[1][to] & blocked)) to += 1;
      this.filledFrames = to < this.count && to > from && isOn(to) ? [from, to] : null;
    }
    return this.filledFrames;
  }

  // How long the picture stays at a frame at least, in seconds of the reader.
  beat(frame) {
    if (this.picture.beat) return this.picture.beat;
    if (this.looksInTime) return this.looksInTime.beats.get(frame) ?? 0;
    if (!this.beats) {
      this.beats = Object.entries({ died: BEAT.death, refused: BEAT.death, turned_off: BEAT.off, turned_on: BEAT.on, turned_on_at: BEAT.on, turned_on_bytes: BEAT.on }).map(([part, beat]) => [1 << this.picture.words.parts.indexOf(part), beat]);
      this.beating = this.beats.reduce((bits, [bit]) => bits | bit, 0);
    }
    const parts = this.columns[1][frame];
    // Hardly any step has one.
    if (!(parts & this.beating)) return 0;
    for (const [bit, beat] of this.beats) if (parts & bit) return beat;
    return 0;
  }

  row(frame, start, names) {
    return Object.fromEntries(names.map((name, index) => [name, this.columns[start + index][frame]]));
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

  // One column of one member, frame by frame.
  column(kind, index, name) {
    const [start, names] = this.picture.columns[kind];
    return this.columns[start + index * names.length + names.indexOf(name)];
  }

  // The largest number a column ever holds.
  most(kind, index, name) {
    let most = 0;
    for (const number of this.column(kind, index, name)) if (number > most) most = number;
    return most;
  }

  // The largest of what is measured of a queue in every run beside this one that has it, too.
  largestBeside(index, measure) {
    const { name } = this.topology.queues[index];
    const places = this.beside.map((other) => [other, other.topology.queues.findIndex((queue) => queue.name === name)]);
    return Math.max(...places.filter(([, at]) => at >= 0).map(([other, at]) => measure(other, at)));
  }

  // A message's name, its producer counted from 1.
  label(producer, number) {
    return producer ? `${this.topology.producers[producer - 1].name}-${number}` : "";
  }

  // All that a frame shows of messages, as lists by producer, queue and consumer.
  messages(frame) {
    const { producers, queues, consumers } = this.topology;
    const shown = { sent: producers.map(() => []), queued: queues.map(() => []), taken: consumers.map(() => []), locks: queues.map(() => []) };
    for (const row of this.sendings.alive(frame)) shown.sent[this.sendings.get(row, "producer")].push(row);
    for (const row of this.stays.alive(frame)) shown.queued[this.stays.get(row, "queue")].push(row);
    shown.owner = new Map();
    for (const row of this.holdings.alive(frame)) {
      const [stay, consumer] = [this.holdings.get(row, "stay"), this.holdings.get(row, "consumer")];
      shown.owner.set(stay, consumer);
      if (consumer) shown.taken[consumer - 1].push(row);
    }
    for (const row of this.locks.alive(frame)) shown.locks[this.locks.get(row, "queue")].push(row);
    return shown;
  }
}

async function timelineOf(picture, run) {
  return new Timeline(picture, run, await inflated(picture.numbers));
}
