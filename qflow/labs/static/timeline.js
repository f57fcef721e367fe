// Timeline: the frames that Python sent. It looks numbers up, and computes none.

import { Looks } from "./looks.js";
import { firstOf } from "./numbers.js";
import { inflatedBytes } from "./packed.js";

export const NEVER = 2 ** 31 - 1;
// Seconds of real time that the picture waits: after a turn ON; after a death; between two steps at the time of an
// OFF, and for all of them together; from the arrival of a completion until the arrival of a waiting message, if the
// producer's own message left the queue; and for the flights of a completion and of the next message.
export const BEAT = { on: 0.3, death: 0.8, step: 0.05, steps: 1.2, own: 0.5, home: 0.74 };
// Seconds of real time in which all held completions pass an open gate, the climax of a run. If there are many OFFs,
// each has a share of the total.
const THROUGH = { most: 1.7, least: 0.4, all: 25 };
const OWNS = 12;
const BEATS = {
  died: BEAT.death,
  refused: BEAT.death,
  turned_on: BEAT.on,
  turned_on_at: BEAT.on,
  turned_on_bytes: BEAT.on,
};

// Decompress the numbers of a picture, of which first all lowest bytes are sent, then all next ones.
export async function inflated(packed) {
  const places = await inflatedBytes(packed);
  const numbers = new Int32Array(places.length / 4);
  const count = numbers.length;
  for (let at = 0; at < count; at += 1)
    numbers[at] =
      places[at] | (places[at + count] << 8) | (places[at + 2 * count] << 16) | (places[at + 3 * count] << 24);
  return numbers.buffer;
}

export class Timeline {
  constructor(picture, run, numbers) {
    this.picture = picture;
    this.topology = picture.topology;
    this.count = picture.count;
    this.end = Math.max(1, picture.topology.end);
    // An incomplete run is known up to its current end, and its plot has room for more.
    this.isWhole = picture.room === undefined;
    this.room = picture.room ?? this.end;
    this.run = run;
    // The runs that are drawn side by side, including this one.
    this.beside = [this];
    // The tables follow one another, column by column, with four bytes for each number.
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
    return Math.max(0, firstOf(this.times, (one) => one > time) - 1);
  }

  // The frames of the first ON, and of the first full window after it and before an OFF; null if there are none.
  get filled() {
    const flows = this.topology.queues.map((_, index) => this.column("queue", index, "flow"));
    const blocked = 1 << this.picture.words.parts.indexOf("blocked");
    const isOn = (frame) => flows.some((flow) => flow[frame]);
    let from = 0;
    while (from < this.count && !isOn(from)) from += 1;
    let to = from;
    while (to < this.count && isOn(to) && !(this.columns[1][to] & blocked)) to += 1;
    return to < this.count && to > from && isOn(to) ? [from, to] : null;
  }

  // The least seconds of real time for which the picture stays at a frame.
  beat(frame) {
    if (this.kept) return 0;
    if (this.picture.beat) return this.picture.beat;
    // A settlement is shown before the look that follows it at the same time.
    if (this.looksInTime)
      return this.looksInTime.beats.get(frame) ?? (this.times[frame + 1] === this.times[frame] ? 0.4 : 0);
    this.beats ??= Object.entries(BEATS).map(([part, beat]) => [1 << this.picture.words.parts.indexOf(part), beat]);
    const parts = this.columns[1][frame];
    const beat = this.beats.find(([bit]) => parts & bit)?.[1];
    if (beat) return beat;
    const through = this.through(frame);
    if (through !== null) return through + BEAT.home;
    const own = Math.min(BEAT.own, OWNS / this.owns.size);
    return this.owns.has(frame) && own > BEAT.step ? own : 0;
  }

  // The frames whose step has a part, such as a turn OFF.
  framesOf(part, isWanted = () => true) {
    const bit = 1 << this.picture.words.parts.indexOf(part);
    const found = new Set();
    this.columns[1].forEach((parts, frame) => parts & bit && isWanted(frame) && found.add(frame));
    return found;
  }

  get offs() {
    return (this.foundOffs ??= this.framesOf("turned_off"));
  }

  // The frames at which a message of a waiting producer leaves the queue, so that its own completion alone is
  // released.
  get owns() {
    if (!this.foundOwns) {
      const opened = new Set([...this.offs].map((frame) => this.time(frame)));
      this.foundOwns = this.framesOf("unblocked", (frame) => !opened.has(this.time(frame)));
    }
    return this.foundOwns;
  }

  // The seconds in which all completions pass the gate that opens at a frame, or null if none opens.
  through(frame) {
    if (this.kept || !this.offs.has(frame)) return null;
    return Math.max(THROUGH.least, Math.min(THROUGH.most, THROUGH.all / this.offs.size));
  }

  row(frame, start, names) {
    return Object.fromEntries(names.map((name, index) => [name, this.columns[start + index][frame]]));
  }

  step(frame) {
    return this.row(frame, 1, this.picture.columns.step);
  }

  // The channels of one member in a frame.
  seen(kind, index, frame) {
    const [start, names] = this.picture.columns[kind];
    return this.row(frame, start + index * names.length, names);
  }

  // One column of one member, for all frames.
  column(kind, index, name) {
    const [start, names] = this.picture.columns[kind];
    return this.columns[start + index * names.length + names.indexOf(name)];
  }

  // The largest number in a column.
  most(kind, index, name) {
    let most = 0;
    for (const number of this.column(kind, index, name)) if (number > most) most = number;
    return most;
  }

  // The largest value of a measurement for a queue, in all runs side by side that have the queue.
  largestBeside(index, measure) {
    const { name } = this.topology.queues[index];
    const places = this.beside.map((other) => [other, other.topology.queues.findIndex((queue) => queue.name === name)]);
    return Math.max(...places.filter(([, at]) => at >= 0).map(([other, at]) => measure(other, at)));
  }

  // The name of a message, given its producer counted from 1, and its number.
  label(producer, number) {
    return producer ? `${this.topology.producers[producer - 1].name}-${number}` : "";
  }

  // The name of the message of a stay, or "" for no stay.
  labelOf(stay) {
    return stay < 0 ? "" : this.label(this.stays.get(stay, "producer"), this.stays.get(stay, "number"));
  }

  // The messages that a frame shows, as lists by producer, queue and consumer.
  messages(frame) {
    const { producers, queues, consumers } = this.topology;
    const shown = {
      sent: producers.map(() => []),
      queued: queues.map(() => []),
      taken: consumers.map(() => []),
    };
    for (const row of this.sendings.alive(frame)) shown.sent[this.sendings.get(row, "producer")].push(row);
    for (const row of this.stays.alive(frame)) shown.queued[this.stays.get(row, "queue")].push(row);
    shown.owner = new Map();
    for (const row of this.holdings.alive(frame)) {
      const [stay, consumer] = [this.holdings.get(row, "stay"), this.holdings.get(row, "consumer")];
      shown.owner.set(stay, consumer);
      if (consumer) shown.taken[consumer - 1].push(row);
    }
    return shown;
  }
}

export async function timelineOf(picture, run) {
  return new Timeline(picture, run, await inflated(picture.numbers));
}

// A table of spans, things that last for several frames, such as the stay of a message on a queue.
class Spans {
  constructor(names, columns, count) {
    this.columns = Object.fromEntries(names.map((name, index) => [name, columns[index]]));
    this.count = count;
    this.start = this.columns.start;
    this.end = this.columns.end;
    this.seen = [-1, []];
  }

  get(row, name) {
    return this.columns[name][row];
  }

  // The rows that last during a frame, in the order in which they began.
  alive(frame) {
    if (this.seen[0] === frame) return this.seen[1];
    const found = [];
    for (let row = 0; row < this.count && this.start[row] <= frame; row += 1)
      if (this.end[row] > frame) found.push(row);
    this.seen = [frame, found];
    return found;
  }

  // The first row that begins after a frame and meets a condition, or -1 if there is none.
  next(frame, isWanted) {
    let row = firstOf(this.start, (start) => start > frame);
    while (row < this.count && !isWanted(row)) row += 1;
    return row < this.count ? row : -1;
  }

  // The rows that end after one frame and not after another, at most `most` of them.
  ended(after, until, most) {
    const found = [];
    for (let row = this.count - 1; row >= 0 && found.length < most; row -= 1) {
      const end = this.end[row];
      if (end > after && end <= until) found.push(row);
    }
    return found;
  }
}
