// Flights: computes which mark is where at an instant, as a pure function of the tables of the run and the time. So
// playing, rewinding and scrubbing need no state.
//
// The engine's events take no time, but the flight of a mark does. The flight of a transfer, an accept or a release
// ends at its event; that of a completion, a held completion, a delivery or a lock begins at its event. A count
// changes when its mark lands (landed.js), so a cell of a window is occupied for longer in the picture than in the
// run. This must not overflow a window: where the next transfer needs the cell, the two flights share the time between
// their events. Times are those of the picture (track.js).

import { clamp, firstOf, mix } from "./numbers.js";
import { NEVER } from "./timeline.js";

// Seconds of real time that the flight of a mark takes, whatever the speed of the run.
export const TAKES = {
  transfer: 0.4,
  completion: 0.34,
  pile: 0.3,
  delivery: 0.38,
  accept: 0.26,
  release: 0.36,
  discard: 0.4,
  close: 0.35,
  lock: 0.6,
  snap: 0.16,
  unlock: 0.7,
  gate: 0.18,
  death: 0.55,
  glow: 0.45,
};
export const LEAST = 0.12;
const STAGGER = 0.05;
const ALL_THROUGH = 1.2;
// The most seconds after its event at which a completion arrives at its producer.
export const LAST_HOME = 2.1;
// The most seconds between two completions that pass an open gate.
const MOST_APART = 0.5;
export const SINGLE = 60;
export const MOST_MARKS = 320;
export const DASHES = 16;
// The limits of a picture that is playing: the whole run is known, and nothing rests.
export const IN_THE_AIR = { landed: -Infinity, landing: 0, horizon: Infinity };

export class Flights {
  constructor(timeline) {
    const { sendings, stays, holdings, locks, picture, count } = timeline;
    this.timeline = timeline;
    this.died = new Map(picture.deaths.map(([frame, producer]) => [producer, frame]));
    // A message gets the first slot of a prefetch, or place in a pile, that is free when it is needed.
    const { kept } = timeline;
    this.slots = placesOf(holdings, "consumer", "start", "end", kept?.slots);
    this.piles = placesOf(stays, "queue", "held_start", "held_end", kept?.piles);
    const ordersBy = (name) =>
      Object.fromEntries(
        Object.entries({ sendings, stays, holdings, locks }).map(([kind, table]) => [
          kind,
          orderBy(table, name, count),
        ]),
      );
    [this.byStart, this.byEnd] = [ordersBy("start"), ordersBy("end")];
    this.byHold = orderBy(stays, "held_start", count);
    this.byFreed = orderBy(stays, "held_end", count);
    this.turns = timeline.topology.queues.map((_, queue) =>
      changesOf(timeline, timeline.column("queue", queue, "flow")),
    );
    this.pairStays();
    this.findReturns();
    this.findDepartures();
    this.shown = new Shown(sendings, stays, holdings, locks);
    Object.assign(this, IN_THE_AIR);
  }

  // The picture time of a frame. If the picture rests, nothing later is shown, and marks that have started get time to
  // arrive (player.js).
  time(frame) {
    const time = frame < this.timeline.count ? this.timeline.shown[frame] : Infinity;
    if (time > this.horizon) return Infinity;
    return time > this.landed ? time : time - this.landing;
  }

  // Match the stays with the transfers: a stay begins in the step in which its transfer is sent.
  pairStays() {
    const { sendings, stays } = this.timeline;
    const [sent, laid] = [sendings.columns, stays.columns];
    this.sendingOf = new Int32Array(stays.count).fill(-1);
    this.stayOf = new Int32Array(sendings.count).fill(-1);
    // If several queues held a completion, the one that held it longest is shown.
    this.heldIn = new Int32Array(sendings.count).fill(-1);
    let first = 0;
    for (let row = 0; row < stays.count; row += 1) {
      while (first < sendings.count && sent.start[first] < laid.start[row]) first += 1;
      for (let one = first; one < sendings.count && sent.start[one] === laid.start[row]; one += 1) {
        if (sent.number[one] !== laid.number[row] || sent.producer[one] + 1 !== laid.producer[row]) continue;
        this.sendingOf[row] = one;
        if (this.stayOf[one] < 0) this.stayOf[one] = row;
        const before = this.heldIn[one];
        if (laid.held_start[row] < NEVER && (before < 0 || laid.held_end[before] < laid.held_end[row]))
          this.heldIn[one] = row;
      }
    }
  }

  // Completions that arrive in one step fly one after the other, in their order.
  findReturns() {
    const { rows: order, column: end } = this.byEnd.sendings;
    this.rank = new Int32Array(end.length);
    this.many = new Int32Array(end.length);
    for (let from = 0, to; from < order.length; from = to) {
      for (to = from; to < order.length && end[order[to]] === end[order[from]]; to += 1)
        this.rank[order[to]] = to - from;
      for (let at = from; at < to; at += 1) this.many[order[at]] = to - from;
    }
  }

  // Find, for each transfer, the frame in which its producer was last allowed to continue.
  findDepartures() {
    const { sendings, topology } = this.timeline;
    this.free = new Int32Array(sendings.count).fill(-1);
    const heads = topology.producers.map((_, producer) => ({
      changes: changesOf(this.timeline, this.timeline.column("producer", producer, "blocked")),
      at: 0,
      free: -1,
    }));
    const { producer, start } = sendings.columns;
    for (let row = 0; row < sendings.count; row += 1) {
      const head = heads[producer[row]];
      while (head.at < head.changes.length && head.changes[head.at][0] <= start[row]) {
        if (!head.changes[head.at][1]) head.free = head.changes[head.at][0];
        head.at += 1;
      }
      this.free[row] = head.free;
    }
  }

  // Compute the duration of each flight at a pace, and the cell of each transfer in its producer's window. A picture
  // that follows a server keeps its cells, and shows the counts of the run.
  layOut(pace) {
    const { timeline } = this;
    const { sendings, kept, count, shown } = timeline;
    if (this.laid === shown) return;
    Object.assign(this, { laid: shown, pace });
    const { producer, end } = sendings.columns;
    this.out = new Float64Array(sendings.count).fill(TAKES.transfer * pace);
    this.wait = new Float64Array(sendings.count);
    this.back = new Float64Array(sendings.count);
    for (const row of this.byEnd.sendings.rows) {
      const [all, died] = [timeline.through(end[row]) ?? ALL_THROUGH, this.died.get(producer[row]) ?? count];
      const most = died < count ? Math.max(0, shown[died] - shown[end[row]]) : Infinity;
      const each = timeline.through(end[row]) === null ? STAGGER : MOST_APART;
      this.wait[row] = Math.min(most, this.rank[row] * Math.min(each, all / Math.max(1, this.many[row] - 1)) * pace);
      this.back[row] = Math.min(most, this.wait[row] + TAKES.completion * pace);
    }
    if (kept) this.cells = placesOf(sendings, "producer", "start", "end", kept.cells);
    else this.findCells();
  }

  // Find a cell for each transfer: the first one whose completion has arrived when the transfer starts. There are as
  // many cells as transfers are ever outstanding in the run, or at least one less than the window; if none is free,
  // the one that is free soonest.
  findCells() {
    const { timeline, pace, wait, back, out } = this;
    const { sendings, topology, shown, count } = timeline;
    const { producer, start, end } = sendings.columns;
    this.cells = new Int32Array(sendings.count);
    const windows = topology.producers.map(({ capacity }, index) => ({
      last: [],
      capacity,
      outstanding: timeline.column("producer", index, "outstanding"),
    }));
    const landing = (row) => (end[row] < count ? shown[end[row]] + back[row] : Infinity);
    for (let row = 0; row < sendings.count; row += 1) {
      const { last, capacity, outstanding } = windows[producer[row]];
      const begins = shown[start[row]];
      const free = this.free[row] < 0 ? -Infinity : shown[this.free[row]] + TAKES.completion * pace;
      let departs = Math.max(Math.min(free, begins - LEAST * pace), begins - TAKES.transfer * pace);
      let [cell, busy, soonest] = [-1, 0, -1];
      for (let at = 0; at < last.length; at += 1) {
        const lands = landing(last[at]);
        if (lands <= departs) cell = cell < 0 ? at : cell;
        else {
          busy += 1;
          if (end[last[at]] <= start[row] && (soonest < 0 || lands < landing(last[soonest]))) soonest = at;
        }
      }
      const before = last[soonest];
      const from = soonest < 0 ? begins : shown[end[before]];
      const most = Math.max(from < begins ? capacity - 1 : capacity, outstanding[start[row]]);
      if (busy >= most && soonest >= 0) {
        back[before] = Math.min(back[before], 0.46 * (begins - from));
        wait[before] = Math.min(wait[before], 0.5 * back[before]);
        departs = Math.max(departs, from + back[before]);
        cell = soonest;
      }
      this.cells[row] = cell < 0 ? last.length : cell;
      last[this.cells[row]] = row;
      out[row] = begins - departs;
    }
  }

  // Call `act` with the rows of an ordered table whose times are between two times.
  each(order, from, until, act) {
    const { rows, column } = order;
    for (let at = this.first(order, from); at < rows.length; at += 1) {
      const time = this.time(column[rows[at]]);
      if (time > until) return;
      act(rows[at], time);
    }
  }

  first({ rows, column }, from) {
    return firstOf(rows, (row) => this.time(column[row]) >= from);
  }

  // The number of rows of an ordered table in one second of real time around an instant.
  rate(order, time, pace) {
    const seen = this.first(order, time + pace / 2) - this.first(order, time - pace / 2);
    // Of a very busy run, the tables contain only one row in `every`.
    return seen * (this.timeline.picture.every ?? 1);
  }

  // Whether no client gets a completion, because its producer has died.
  isLost(row) {
    const { sendings } = this.timeline;
    return this.died.get(sendings.get(row, "producer")) === sendings.end[row];
  }

  // The time at which a transfer starts in order to arrive at a time: not before the first completion has arrived at a
  // producer that had to wait.
  departure(row, time) {
    return Math.max(time - this.out[row], Math.min(this.landed, time - Math.min(this.out[row], LEAST * this.pace)));
  }

  // The times at which a completion starts, and at which it arrives.
  release(row) {
    return this.time(this.timeline.sendings.end[row]) + this.wait[row];
  }

  home(row) {
    return this.time(this.timeline.sendings.end[row]) + this.back[row];
  }

  // The times at which a held completion arrives behind the gate, and at which it leaves.
  piled(stay) {
    const { held_start: from, held_end: to } = this.timeline.stays.columns;
    const [held, freed] = [this.time(from[stay]), this.time(to[stay])];
    return held + Math.min(TAKES.pile * this.pace, 0.5 * (freed - held));
  }

  freed(stay) {
    const [row, to] = [this.sendingOf[stay], this.timeline.stays.columns.held_end[stay]];
    return row >= 0 && this.timeline.sendings.end[row] === to ? this.release(row) : this.time(to);
  }

  // Whether a held completion leaves while its queue is ON, as its own message has left the queue; the gate then stays
  // shut.
  isAlone(stay) {
    const { queue, held_end: to } = this.timeline.stays.columns;
    return to[stay] < this.timeline.count && this.timeline.column("queue", queue[stay], "flow")[to[stay]] === 1;
  }

  // The time at which a message arrives in a consumer's slot, and the time at which it leaves the slot or is settled.
  arrival(row) {
    const { start, end } = this.timeline.holdings.columns;
    const from = this.time(start[row]);
    return from + Math.min(TAKES.delivery * this.pace, 0.6 * (this.time(end[row]) - from));
  }

  farewell(row) {
    const { stays, holdings } = this.timeline;
    const [stay, end] = [holdings.get(row, "stay"), holdings.end[row]];
    const isOver = stay >= 0 && stays.end[stay] === end;
    return this.time(end) - (isOver ? 0 : this.answer(row, "release"));
  }

  // The duration of the flight of a consumer's settlement.
  answer(row, reason) {
    const { holdings } = this.timeline;
    const at = this.time(holdings.end[row]);
    return Math.max(
      LEAST * this.pace,
      Math.min(
        (TAKES[reason] ?? TAKES.accept) * this.pace,
        (at - this.time(holdings.start[row])) * 0.4,
        at - this.landed,
      ),
    );
  }
}

// The marks that were shown, each counted once by kind; a test compares the counts with the trace.
class Shown {
  constructor(sendings, stays, holdings, locks) {
    const counts = {
      transfer: sendings,
      completion: sendings,
      held: stays,
      delivery: holdings,
      accept: holdings,
      release: holdings,
      reject: holdings,
      discard: stays,
      lock: locks,
      unlock: locks,
    };
    this.seen = Object.fromEntries(Object.entries(counts).map(([kind, table]) => [kind, new Uint8Array(table.count)]));
    this.counts = Object.fromEntries(Object.keys(counts).map((kind) => [kind, 0]));
    this.now = 0;
  }

  see(kind, row) {
    this.now += 1;
    if (this.seen[kind][row]) return;
    this.seen[kind][row] = 1;
    this.counts[kind] += 1;
  }
}

// The rows of a table in the order of the frames in one of its columns, with that column.
export function orderBy(table, name, count) {
  const column = table.columns[name];
  const heads = new Int32Array(count + 1);
  for (let row = 0; row < table.count; row += 1) if (column[row] < count) heads[column[row] + 1] += 1;
  for (let frame = 0; frame < count; frame += 1) heads[frame + 1] += heads[frame];
  const rows = new Int32Array(heads[count]);
  for (let row = 0; row < table.count; row += 1) if (column[row] < count) rows[heads[column[row]]++] = row;
  return { rows, column };
}

// For each row, the lowest place that is free from one frame to another among the rows of the same owner, or -1 if
// there is none. If the picture follows a server, `kept` has the places that rows had before.
export function placesOf(table, owner, from, to, kept = null) {
  const [owners, starts, ends] = [owner, from, to].map((name) => table.columns[name]);
  const found = new Int32Array(table.count).fill(-1);
  const taken = [];
  for (let row = 0; row < table.count; row += 1) {
    const start = starts[row];
    if (start === NEVER) continue;
    const until = (taken[owners[row]] ??= []);
    const before = kept?.before.get(kept.key(row));
    let place = before ?? 0;
    if (before === undefined) while (place < until.length && until[place] > start) place += 1;
    kept?.now.set(kept.key(row), place);
    // A frame of a live picture is a thirtieth of a second, in which several rows may use one place after the other.
    until[place] = Math.max(ends[row], kept ? start : start + 1);
    found[row] = place;
  }
  return found;
}

// The changes of a column, as [frame, value].
export function changesOf(timeline, column) {
  const found = [];
  for (let frame = 0, before = 0; frame < timeline.count; frame += 1) {
    if (column[frame] !== before) found.push([frame, (before = column[frame])]);
  }
  return found;
}

// Points along a drawn line, for marks that move along it. They are cached, as browsers take long to compute them, and
// most lines recur.
export function sampled(path) {
  const shape = path.getAttribute("d");
  if (SAMPLED.size > 300) SAMPLED.clear();
  if (!SAMPLED.has(shape)) {
    const length = path.getTotalLength();
    const at = Array.from({ length: 33 }, (_, index) => path.getPointAtLength((length * index) / 32));
    SAMPLED.set(
      shape,
      at.map(({ x, y }) => [x, y]),
    );
  }
  return SAMPLED.get(shape);
}

const SAMPLED = new Map();

// The point at a part of a path of straight pieces, each of which takes the same time.
export function along(way, part) {
  const at = clamp(part, 0, 1) * (way.length - 1);
  const index = Math.min(way.length - 2, Math.floor(at));
  return [mix(way[index][0], way[index + 1][0], at - index), mix(way[index][1], way[index + 1][1], at - index)];
}
