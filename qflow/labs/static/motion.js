// Motion: the marks of one run at one instant, on the canvas over its drawing.

import { along, DASHES, Flights, IN_THE_AIR, LAST_HOME, MOST_MARKS, SINGLE, sampled, TAKES } from "./flights.js";
import { heldAt, landed } from "./landed.js";
import { clamp, easeOut, mix, smooth } from "./numbers.js";
import { LOST } from "./tank.js";

// The base of the painters of all forms of drawing: the run, the positions of everything, and the instant to paint.
export class Painter {
  constructor(timeline, places) {
    this.timeline = timeline;
    this.flights = new Flights(timeline);
    this.places = places;
  }

  get shown() {
    return this.flights.shown;
  }

  // pace: microseconds of the run in a second of real time; air: which marks have landed where the picture rests
  // (player.js).
  begin(brush, now, frame) {
    const { clock: time, pace } = now;
    this.lay(now);
    brush.begin(this.places.width);
    // The time of the previous picture, if this one follows it.
    this.past = this.time < time && time - this.time < 0.2 * pace ? this.time : time;
    Object.assign(this, { brush, time, pace, frame });
    this.shown.now = 0;
  }

  lay({ pace, air = IN_THE_AIR }) {
    Object.assign(this.flights, air);
    this.flights.layOut(pace);
  }

  // The counts at an instant.
  count(now, frame) {
    this.lay(now);
    return landed(this.flights, now.clock, frame);
  }

  see(kind, row) {
    if (row >= 0) this.shown.see(kind, row);
  }

  // Call `act` with the rows of an ordered table between two times; if there are too many to draw, with one of every
  // few.
  some(order, from, until, act, since = from) {
    const { flights } = this;
    const every = Math.max(1, Math.ceil((flights.first(order, until) - flights.first(order, since)) / MOST_MARKS));
    flights.each(order, from, until, (row, at) => row % every === 0 && act(row, at));
  }

  // Compute the place of each message in its queue, as later ones move up when one leaves; return the length of each
  // queue.
  lineUp(lay) {
    const { stays, topology } = this.timeline;
    const lengths = topology.queues.map(() => 0);
    for (let row = 0; row < stays.count; row += 1) {
      const [queue, left] = [stays.get(row, "queue"), this.at(stays.get(row, "end"))];
      const begins = this.at(stays.get(row, "start")) - TAKES.transfer * this.pace;
      const gone = left <= this.time ? smooth(this.part(left, TAKES.close)) : 0;
      lay(row, queue, lengths[queue], { begins, gone });
      if (begins <= this.time) lengths[queue] += 1 - gone;
    }
    return lengths;
  }

  // Paint the locks that the last accept of a group opens.
  paintUnlocked(size) {
    const { flights, time, pace } = this;
    flights.each(flights.byEnd.locks, time - TAKES.unlock * pace, time, (row, at) => {
      const home = this.lockHome(row);
      if (!home) return;
      const part = this.part(at, TAKES.unlock);
      this.see("unlock", row);
      this.brush.put("unlocked", home[0], home[1] - 22 * part, size, 1 - part);
    });
  }

  // Paint, on each consumer's card, the locks of its groups that have arrived there.
  paintOwned(sinks) {
    const { locks, topology } = this.timeline;
    const alive = locks.alive(this.frame);
    sinks.forEach((sink, index) =>
      sink.paintLocks(
        alive.filter((row) => locks.get(row, "consumer") === index + 1),
        topology.consumers[index].name,
        (lock) => this.hasLanded(lock),
      ),
    );
  }

  // The time that is some seconds of real time after a frame.
  at(frame, seconds = 0) {
    return this.flights.time(frame) + seconds * this.pace;
  }

  // The finished part, at this instant, of something that takes some seconds of real time.
  part(from, seconds) {
    return (this.time - from) / (seconds * this.pace);
  }
}

// The part of its flight after which a completion has passed the gate.
const GATE = 0.35;

export class Motion extends Painter {
  constructor(timeline, places) {
    super(timeline, places);
    this.ways = new Map();
  }

  paint(brush, now, frame) {
    this.begin(brush, now, frame);
    this.seen = null;
    this.paintGates();
    this.paintWindows();
    this.paintPiles();
    this.paintReturns();
    this.paintTransfers();
    this.paintDeliveries();
    this.paintEnds();
    this.paintDiscards();
    this.paintLocks();
    this.paintDeaths();
  }

  way(key, make) {
    if (!this.ways.has(key)) this.ways.set(key, make());
    return this.ways.get(key);
  }

  // The size of marks, and how many are left out, if the rate is too high for an eye to follow.
  sizeAt(rate) {
    const { size } = this.places;
    return rate <= SINGLE ? size : Math.max(2, size * (SINGLE / rate) ** 0.4);
  }

  // The cell of the tank, or the level, at which a message is.
  spotOf(stay) {
    const { timeline, places } = this;
    const queue = timeline.stays.get(stay, "queue");
    if (!this.seen) {
      this.seen = new Map();
      const heads = timeline.topology.queues.map(() => 0);
      for (const row of timeline.stays.alive(this.frame)) this.seen.set(row, heads[timeline.stays.get(row, "queue")]++);
    }
    return places.tanks[queue].spot(this.seen.get(stay) ?? 0);
  }

  paintGates() {
    const { brush, places, flights, timeline } = this;
    places.tanks.forEach((tank, queue) => {
      const spot = timeline.topology.queues[queue];
      const isThere = spot.stop_count || spot.stop_size;
      if (!isThere) return;
      const turns = flights.turns[queue];
      const turn = turns.findLast(([at]) => at <= this.frame);
      const since = turn ? flights.time(turn[0]) : 0;
      const part = turn ? smooth(this.part(since, TAKES.gate)) : 1;
      const shut = turn?.[1] ? part : turn ? 1 - part : 0;
      const { x, y, reach, right } = tank.gate;
      const glow = turn?.[1] ? 0.16 * shut : turn ? 0.24 * (1 - easeOut(this.part(since, 1.6))) : 0;
      brush.box(x, y - reach, right - x, 2 * reach, 0, turn?.[1] ? "stop" : "go", null, 0, glow);
      const colour = turn?.[1] ? "stop" : "go";
      brush.box(x - 4, y - reach - 9, 8, 9 + reach * shut, 3, colour);
      brush.box(x - 4, y + reach - reach * shut, 8, 9 + reach * shut, 3, colour);
    });
  }

  // A producer that has to wait shows its next message at the exit.
  paintWindows() {
    const { brush, places, timeline } = this;
    places.sources.forEach((source, index) => {
      if (timeline.column("producer", index, "blocked")[this.frame])
        brush.put("waiting", source.right + 2, source.out, places.size + 4);
    });
  }

  // Paint the held completions behind the gate; if they are too many, the drawing itself shows a pile with their
  // number.
  paintPiles() {
    const { flights } = this;
    const { stays } = this.timeline;
    const isOver = (row) => flights.freed(row) <= this.time;
    for (const row of heldAt(flights, this.time, this.frame))
      this.paintHeld(row, flights.time(stays.get(row, "held_start")));
    // A completion that was held for less than a picture is shown in one picture.
    if (this.past < this.time)
      flights.each(flights.byHold, this.past, this.time, (row, held) => isOver(row) && this.paintHeld(row, held));
    this.paintFallen();
  }

  paintHeld(row, held) {
    const { brush, flights, timeline, places } = this;
    const tank = places.tanks[timeline.stays.get(row, "queue")];
    const rest = tank.pile(flights.piles[row]);
    this.see("held", row);
    if (!rest) return;
    const part = this.part(held, TAKES.pile);
    const [x, y] = part < 1 ? this.curve(easeOut(part), this.from(tank, row), rest) : rest;
    brush.put("held", x, y, rest[2]);
  }

  // The name of the message whose held completion is at a point of the drawing, or "".
  heldNear(x, y) {
    const { flights, places, timeline } = this;
    const held = heldAt(flights, this.time, this.frame);
    const heap = places.tanks.find(
      ({ gate, pile }) => !pile(0) && x > gate.x && x < gate.right && Math.abs(y - gate.y) < gate.reach,
    );
    if (heap) {
      // In order of time: the completions held first are at the gate.
      const its = held.filter((row) => timeline.stays.get(row, "queue") === heap.index).sort((one, two) => one - two);
      const place = Math.floor((its.length * (x - heap.gate.x)) / (heap.gate.right - heap.gate.x));
      return its.length ? timeline.labelOf(its[place]) : "";
    }
    const near = held.map((row) => {
      const rest = places.tanks[timeline.stays.get(row, "queue")].pile(flights.piles[row]);
      return [rest ? Math.hypot(rest[0] - x, rest[1] - y) - rest[2] : Infinity, row];
    });
    const [far, row] = near.reduce((best, one) => (one[0] < best[0] ? one : best), [Infinity, -1]);
    return far < 3 ? timeline.labelOf(row) : "";
  }

  // The completions of a dead producer fall out of the pile, as no client waits for them.
  paintFallen() {
    const { brush, flights, timeline, places } = this;
    const { stays } = timeline;
    for (const [producer, frame] of flights.died) {
      const part = this.part(flights.time(frame), TAKES.death);
      if (part < 0 || part >= 1) continue;
      flights.each(flights.byHold, 0, flights.time(frame), (row) => {
        const wasHeld = stays.get(row, "producer") === producer + 1 && stays.get(row, "held_end") === frame;
        const rest = wasHeld && places.tanks[stays.get(row, "queue")].pile(flights.piles[row]);
        if (rest) brush.put("held", rest[0], rest[1] + 40 * part * part, rest[2], 1 - part);
      });
    }
  }

  from(tank, stay) {
    return [tank.left, clamp(this.spotOf(stay)[1], tank.top + 8, tank.bottom - 4)];
  }

  curve(part, from, to) {
    const middle = [mix(from[0], to[0], 0.35), from[1]];
    const rest = 1 - part;
    return [0, 1].map((axis) => rest * rest * from[axis] + 2 * rest * part * middle[axis] + part * part * to[axis]);
  }

  // Paint the completions on their way to the cells that they free.
  paintReturns() {
    const { flights, pace } = this;
    const order = flights.byEnd.sendings;
    const size = this.sizeAt(flights.rate(order, this.time, pace));
    const from = this.time - (LAST_HOME + TAKES.glow) * pace;
    this.some(order, from, this.time, (row) => {
      const [begins, lands] = [flights.release(row), flights.home(row)];
      if (flights.isLost(row) || begins > this.time) return;
      // A flight shorter than a picture is shown in one picture.
      const part = lands > this.past && lands <= this.time ? 0.99 : (this.time - begins) / (lands - begins);
      this.paintReturn(row, part, Math.min(size, this.places.size), lands);
    });
  }

  paintReturn(row, part, size, lands) {
    const { brush, flights, timeline, places } = this;
    const source = places.sources[timeline.sendings.get(row, "producer")];
    const cell = source.cell(flights.cells[row]);
    const wasHeld = flights.heldIn[row] >= 0;
    const stay = wasHeld ? flights.heldIn[row] : flights.stayOf[row];
    // A message that no queue accepted flies back as it is, marked as refused.
    const [kind, colour] = stay < 0 ? ["reject", "bad"] : ["completion", "go"];
    const tank = places.tanks[stay < 0 ? this.routeOf(row) : timeline.stays.get(stay, "queue")];
    if (part >= 1) {
      const glow = this.part(lands, TAKES.glow);
      if (cell && glow < 1) brush.cell(cell, null, colour, 2.5, 1 - glow, 4 * glow);
      return;
    }
    this.see("completion", row);
    const rest = wasHeld ? (tank.pile(flights.piles[stay]) ?? [tank.gate.x + 20, tank.gate.y, size]) : this.wall(tank);
    const isAlone = wasHeld && flights.isAlone(stay);
    const way = isAlone ? smooth(part) : this.beforeItShuts(tank, row, smooth(part));
    const [x, y] = this.homeward(tank, source, cell, rest, way, isAlone);
    brush.put(kind, x, y, wasHeld ? Math.max(rest[2], Math.min(size, 5)) : size);
  }

  wall(tank) {
    const level = this.timeline.column("queue", tank.index, "depth")[this.frame];
    return [tank.left, clamp(tank.spot(Math.max(0, level - 1))[1], tank.top + 8, tank.bottom - 4)];
  }

  // A completion that starts before its queue turns ON has passed the gate before it closes.
  beforeItShuts(tank, row, part) {
    const { flights } = this;
    const turn = flights.turns[tank.index].find(([frame, isOn]) => isOn && frame > this.timeline.sendings.end[row]);
    const [begins, lands] = [flights.release(row), flights.home(row)];
    const at = turn ? Math.max(0.02, (flights.time(turn[0]) - begins) / (lands - begins)) : 1;
    if (at >= GATE) return part;
    return part < at ? (part / at) * GATE : GATE + ((part - at) / (1 - at)) * (1 - GATE);
  }

  // The path of a completion from behind the gate through it, along the line to the card and to the cell; or over the
  // gate if that stays shut.
  homeward(tank, source, cell, from, part, isOver) {
    const home = this.way(`home ${source.index} ${tank.index}`, () => sampled(tank.home.get(source.index)));
    const to = cell ?? [source.right - 20, source.back];
    const { gate } = tank;
    const over = [gate.x - 12, gate.y - gate.reach - 22];
    if (isOver && part < 0.2) return this.curve(part / 0.2, from, [gate.x + 12, over[1]]);
    if (isOver && part < GATE) return along([[gate.x + 12, over[1]], over, home[0]], (part - 0.2) / (GATE - 0.2));
    if (part < GATE)
      return this.curve(part / GATE, from, [tank.gate.x, tank.gate.y + clamp((from[1] - tank.gate.y) * 0.3, -8, 8)]);
    if (part < 0.7) return along(home, (part - GATE) / GATE);
    const end = home[home.length - 1];
    return [mix(end[0], to[0], (part - 0.7) / 0.3), mix(end[1], to[1], (part - 0.7) / 0.3)];
  }

  routeOf(row) {
    const { sendings, topology } = this.timeline;
    return topology.routes.find(([producer]) => producer === sendings.get(row, "producer"))?.[1] ?? 0;
  }

  paintTransfers() {
    const { flights, timeline, time, pace } = this;
    const order = flights.byStart.sendings;
    const rate = flights.rate(order, time, pace);
    const [from, until] = [time - 3 * TAKES.death * pace, time + TAKES.transfer * pace];
    const isSlow = timeline.slowed && this.frame >= timeline.slowed.from && this.frame < timeline.slowed.to;
    this.places.say(
      "transfer",
      isSlow ? "slowed down here" : rate > SINGLE ? `${Math.round((1e6 * rate) / pace)} sent a second` : "",
    );
    this.streams = rate > SINGLE ? new Map() : null;
    const paint = (row, at) => {
      const begins = flights.departure(row, at);
      const part = at > this.past && at <= time ? 0.99 : (time - begins) / Math.max(1, at - begins);
      if (part >= 0 && part < 1) this.paintTransfer(row, part, this.sizeAt(rate));
      else if (part >= 1 && flights.stayOf[row] < 0) this.paintRefused(row, at);
    };
    this.some(order, from, until, paint, time);
    for (const stream of this.streams?.values() ?? []) this.paintStream(stream, rate);
  }

  // Too many transfers to count are painted as a stream, whose width shows the rate.
  paintStream({ from, to, at }, rate) {
    const beats = this.time / (TAKES.transfer * this.pace);
    for (let dash = 0; dash < DASHES; dash += 1) {
      const part = (beats + dash / DASHES) % 1;
      if (part >= from && part <= to)
        this.brush.stroke(`M${at(part)}L${at(Math.min(to, part + 0.45 / DASHES))}`, "blue", clamp(rate / 60, 2, 7), {
          alpha: 0.6,
          isRound: true,
        });
    }
  }

  paintTransfer(row, part, size) {
    const { flights, timeline } = this;
    const { sendings, stays } = timeline;
    this.see("transfer", row);
    const group = sendings.get(row, "group");
    const producer = sendings.get(row, "producer");
    let stay = flights.stayOf[row];
    if (stay < 0) this.paintOnItsWay(producer, this.routeOf(row), null, part, size, group);
    // A message to a fanout exchange arrives at several queues.
    for (; stay >= 0 && stay < stays.count && flights.sendingOf[stay] === row; stay += 1)
      this.paintOnItsWay(producer, stays.get(stay, "queue"), stay, part, size, group);
  }

  paintOnItsWay(producer, queue, stay, part, size, group) {
    const { places, timeline } = this;
    const tank = places.tanks[queue];
    const way = this.way(`out ${producer} ${queue}`, () => places.out(producer, queue).flatMap(sampled));
    const level =
      stay === null
        ? tank.most
        : Math.max(0, timeline.column("queue", queue, "depth")[timeline.stays.get(stay, "start")] - 1);
    const at = (gone) =>
      gone < 0.66
        ? along(way, smooth(gone / 0.66))
        : this.falling(way[way.length - 1], tank.spot(level), ((gone - 0.66) / 0.34) ** 1.7);
    if (!this.streams) {
      // A message that no queue will accept is marked from the start, as it will be refused or lost.
      const [x, y] = at(part);
      if (stay === null) this.brush.box(x - 11, y - 11, 22, 22, 11, "glow", "bad", 2.5, 0.75);
      this.brush.put("sent", x, y, size, 1, group);
      return;
    }
    const stream = this.streams.get(`${producer} ${queue}`);
    if (!stream) this.streams.set(`${producer} ${queue}`, { from: part, to: part, at });
    else [stream.from, stream.to] = [Math.min(stream.from, part), Math.max(stream.to, part)];
  }

  falling(from, to, part) {
    return [mix(from[0], to[0], smooth(part)), mix(from[1], to[1], part)];
  }

  // A message that the queue did not accept gets a cross where it was refused.
  paintRefused(row, at) {
    const part = this.part(at, TAKES.death);
    const tank = this.places.tanks[this.routeOf(row)];
    const [x, y] = tank.spot(tank.most);
    if (part < 3) this.brush.cross(x, y - 6, 8, part, 4);
  }

  // Paint the messages on their way from the tank to a consumer. The slot is filled when the mark arrives.
  paintDeliveries() {
    const { brush, flights, timeline, time, pace } = this;
    const { holdings } = timeline;
    const order = flights.byStart.holdings;
    const size = this.sizeAt(flights.rate(order, time, pace));
    const from = time - TAKES.delivery * pace;
    this.some(order, from, time, (row, at) => {
      const consumer = holdings.get(row, "consumer");
      if (!consumer) return;
      const lands = flights.arrival(row);
      const part = lands > this.past && lands <= time ? 0.99 : (time - at) / (lands - at);
      if (!(part < 1)) return;
      this.see("delivery", row);
      const stay = holdings.get(row, "stay");
      const group = stay < 0 ? 0 : timeline.stays.get(stay, "group");
      const [x, y] = along(this.outward(row, stay, consumer), smooth(part));
      brush.put("message", x, y, size, 1, group);
    });
  }

  // The path of a message from its place in the tank to its slot.
  outward(row, stay, consumer) {
    const { places, flights } = this;
    const sink = places.sinks[consumer - 1];
    const pipe = this.way(`drain ${consumer}`, () => sampled(places.drains[consumer - 1]));
    const slot = sink.cell(flights.slots[row]) ?? [sink.left + 20, sink.middle];
    return [stay < 0 ? pipe[0] : this.spotOf(stay), ...pipe.filter((_, index) => index % 4 === 0), slot];
  }

  // Paint the settlements of consumers: a tick, a cross, or the returning message. They arrive when the queue counts
  // them.
  paintEnds() {
    const { flights, timeline, time, pace } = this;
    const { holdings } = timeline;
    const order = flights.byEnd.holdings;
    const rate = flights.rate(order, time, pace);
    const size = this.sizeAt(rate);
    this.places.say("accept", rate > SINGLE ? `${Math.round((1e6 * rate) / pace)} accepted a second` : "");
    this.some(
      order,
      time,
      time + TAKES.release * pace,
      (row, at) => holdings.get(row, "consumer") && this.paintEnd(row, at, size),
    );
  }

  paintEnd(row, at, size) {
    const { brush, flights, timeline, time } = this;
    const { stays, holdings } = timeline;
    const [stay, consumer] = [holdings.get(row, "stay"), holdings.get(row, "consumer")];
    const reason =
      stay >= 0 && stays.get(stay, "end") === holdings.get(row, "end")
        ? timeline.picture.reasons[stays.get(stay, "reason")]
        : "release";
    if (!(reason in TAKES) && reason !== "reject") return;
    const takes = flights.answer(row, reason);
    const part = 1 - (at - time) / takes;
    if (part < 0) return;
    this.see(reason, row);
    const way = this.outward(row, stay, consumer);
    const slot = way[way.length - 1];
    const [x, y] = along([slot, ...way.slice(1, -1).reverse(), way[0]], smooth(part));
    if (reason === "release") brush.put("message", x, y, size, 1, stay < 0 ? 0 : stays.get(stay, "group"));
    else brush.put(reason, x, y + (part < 0.85 ? 7 : 0), size);
  }

  // Paint the messages that leave a queue without being consumed.
  paintDiscards() {
    const { brush, flights, timeline, time, pace, places } = this;
    const { stays, picture } = timeline;
    flights.each(flights.byEnd.stays, time - TAKES.discard * pace, time, (row, at) => {
      const reason = picture.reasons[stays.get(row, "reason")];
      if (!LOST.has(reason) && reason !== "purge" && reason !== "expired") return;
      const part = this.part(at, TAKES.discard);
      const tank = places.tanks[stays.get(row, "queue")];
      const [x, y] = tank.spot(0);
      this.see("discard", row);
      const to = [mix(x, tank.left - 26, smooth(part)), y + 10 * part];
      brush.put("message", ...to, places.size * 0.8, 1 - part, stays.get(row, "group"));
      brush.put("reject", ...to, places.size, 1 - part);
    });
  }

  // Paint the locks that close on the first message of a group and fly to the owner.
  paintLocks() {
    const { brush, flights, timeline, time, pace } = this;
    const { locks } = timeline;
    if (!locks.count) return;
    this.paintBadges();
    flights.each(flights.byStart.locks, time - (TAKES.snap + TAKES.lock) * pace, time, (row, at) => {
      this.see("lock", row);
      const snap = this.part(at, TAKES.snap);
      const from = this.lockFrom(row);
      if (snap < 1)
        brush.put("lock", from[0] + 8, from[1] - 8, 14 - 5 * smooth(snap), smooth(snap), locks.get(row, "consumer"));
      else {
        const [x, y] = this.curve(smooth(this.part(at + TAKES.snap * pace, TAKES.lock)), from, this.lockHome(row));
        brush.put("lock", x, y, 9, 1, locks.get(row, "consumer"));
      }
    });
    this.paintUnlocked(8);
  }

  lockFrom(lock) {
    const { locks, holdings, stays } = this.timeline;
    const held = holdings.alive(this.frame).map((row) => holdings.get(row, "stay"));
    const first = held.find(
      (stay) => stay >= 0 && ["group", "queue"].every((name) => stays.get(stay, name) === locks.get(lock, name)),
    );
    return first === undefined ? this.places.tanks[locks.get(lock, "queue")].spot(0) : this.spotOf(first);
  }

  lockHome(lock) {
    const { locks } = this.timeline;
    const consumer = locks.get(lock, "consumer");
    const tank = this.places.tanks[locks.get(lock, "queue")];
    return consumer ? this.places.sinks[consumer - 1].lockAt(lock) : [tank.left + 10, tank.bottom - 10];
  }

  // Whether a lock has arrived at its owner.
  hasLanded(lock) {
    return (
      this.time >= this.flights.time(this.timeline.locks.get(lock, "start")) + (TAKES.snap + TAKES.lock) * this.pace
    );
  }

  // Every message of an owned group shows the owner's number; the numbers appear along the queue from its head.
  paintBadges() {
    const { brush, flights, timeline, places } = this;
    const { locks, stays } = timeline;
    const owners = new Map();
    for (const row of locks.alive(this.frame)) owners.set(`${locks.get(row, "queue")} ${locks.get(row, "group")}`, row);
    const rows = stays.alive(this.frame);
    rows.forEach((row, place) => {
      const lock = owners.get(`${stays.get(row, "queue")} ${stays.get(row, "group")}`);
      const tank = places.tanks[stays.get(row, "queue")];
      if (lock === undefined || !tank.hasCells) return;
      const part = this.part(flights.time(locks.get(lock, "start")) + place * 0.05 * this.pace, TAKES.snap);
      const [x, y, size] = this.spotOf(row);
      brush.put(
        "lock",
        x + size * 0.36,
        y - size * 0.32,
        clamp(size * 0.22, 5, 8),
        smooth(part),
        locks.get(lock, "consumer"),
      );
    });
  }

  // Paint the death of a producer: its card is crossed out, stroke after stroke.
  paintDeaths() {
    for (const [producer, frame] of this.flights.died) {
      const part = this.part(this.flights.time(frame), TAKES.death);
      const [x, y, size, stroke] = this.places.sources[producer].cross;
      if (part >= 0) this.brush.cross(x, y, size, part, stroke);
    }
  }
}
