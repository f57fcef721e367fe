// Conveyor: a queue drawn as one line with its head at the right. The eye of a consumer moves over the messages that
// the consumer may not have; a lock closes on a message that it takes, and flies to the owner of the group. The looks
// and their order are part of the run; here they only get a duration, so that they can be seen.

import { buildCard, buildLocks, laidOut } from "./cards.js";
import { TAKES } from "./flights.js";
import { AGAIN, colorOf, letterOf, offerAnswer, shapeOf } from "./glyphs.js";
import { buildButton, buildGrip } from "./handles.js";
import { EYE, PASSED, TAKEN } from "./looks.js";
import { drawLock, drawShape, drawText, paint, ring } from "./marks.js";
import { Painter } from "./motion.js";
import { clamp, easeOut, mix, smooth } from "./numbers.js";
import { fitted, set, svg, textWidth, write } from "./svg.js";

const OWNERS = ["stop", "ink", "real", "go", "blue", "soft"];
const LINE = { top: 34, middle: 70, bottom: 128, rail: 148, gap: 18, card: 148 };
// Geometry across: for the whole width, for half of it beside another run, and for a phone; `race` is where the wrong
// carts are counted, beside the accepted messages or below them.
const [WIDE, SLIM, PHONE] = [
  { width: 1040, right: 1004, pitch: 60, race: 640, below: 0 },
  { width: 560, right: 528, pitch: 46, race: 560, below: 56 },
  // On a phone the consumers are below one another.
  { width: 340, right: 308, pitch: 46, race: 340, below: 86 },
];

const ownerColour = (consumer) => OWNERS[(consumer - 1) % OWNERS.length];
const isRemove = (number) => number % 2 === 0;

export class Conveyor extends Painter {
  constructor(timeline, places) {
    super(timeline, places);
    this.looks = timeline.looksInTime;
    // The accepted messages in order, as [frame, stay].
    const { stays, picture } = timeline;
    this.done = this.flights.byEnd.stays.rows.filter((row) => picture.reasons[stays.get(row, "reason")] === "accept");
    this.wrong = new Map(picture.wrong.map(([frame, row]) => [row, frame]));
    this.byStay = new Map();
    timeline.holdings.columns.stay.forEach((stay, row) => this.byStay.set(stay, [...this.had(stay), row]));
  }

  // The rows of the holdings of a message, one after the other.
  had(stay) {
    return this.byStay.get(stay) ?? [];
  }

  paint(brush, now, frame) {
    this.begin(brush, now, frame);
    this.layOut();
    this.paintTrails();
    this.paintLine();
    this.paintHeld();
    this.paintDone();
    this.paintRejected();
    this.paintLocks();
    this.timeline.topology.consumers.forEach((_, index) => this.paintEye(index));
  }

  // Count the messages that are in their slots, and the carts whose ring is drawn.
  count(now, frame) {
    this.lay(now);
    Object.assign(this, { time: now.clock, pace: now.pace });
    const { holdings, topology, picture } = this.timeline;
    const inSlots = holdings
      .alive(frame)
      .filter((row) => this.at(holdings.get(row, "start"), this.looks.setsOut(row) + EYE.fly) <= this.time);
    const consumer = topology.consumers.map((_, index) => ({
      ...this.timeline.seen("consumer", index, frame),
      holds: inSlots.filter((row) => holdings.get(row, "consumer") === index + 1).length,
    }));
    const wrong = picture.carts.findLast(([at]) => this.at(at, EYE.done) <= this.time)?.[1] ?? 0;
    return { consumer, wrong, key: `${frame} ${inSlots} ${wrong}` };
  }

  layOut() {
    this.x = new Map();
    [this.length] = this.lineUp((row, _, place, { begins, gone }) => {
      if (begins > this.time || gone === 1) return;
      const part = this.part(begins, TAKES.transfer);
      if (part < 1) this.see("transfer", this.flights.sendingOf[row]);
      this.x.set(row, mix(-40, this.places.right - (place + 0.5) * this.places.pitch, easeOut(part)));
    });
  }

  // The consumer that has a message now, and how far the message is on its way to the slot.
  held(stay) {
    const { holdings } = this.timeline;
    for (const row of this.had(stay)) {
      const from = this.at(holdings.get(row, "start"), this.looks.setsOut(row));
      const until = this.at(holdings.get(row, "end"));
      if (from <= this.time && this.time < until) return { row, consumer: holdings.get(row, "consumer"), from, until };
    }
    return null;
  }

  size() {
    return Math.min(19, this.places.pitch * 0.36);
  }

  item(stay, x, y, size, alpha = 1) {
    const { stays } = this.timeline;
    const [group, number] = [stays.get(stay, "group"), stays.get(stay, "number")];
    const label = this.timeline.label(stays.get(stay, "producer"), number);
    const kind = group || this.timeline.picture.groups.length + stays.get(stay, "producer");
    const again = stays.get(stay, "again") <= this.frame;
    const draw = (pen, colour) => {
      drawShape(pen, shapeOf(kind), size / 5.4, colorOf(kind), colour("card"), 0.5);
      const { pitch } = this.places;
      const small = size < 10 ? 11 : 12;
      drawText(
        pen,
        letterOf([label.split("-")[0]], 1),
        0,
        size * 0.1,
        `700 ${Math.round(size * 0.7)}px`,
        DARK.has(colorOf(kind)) ? "#fff" : "#1c2126",
      );
      drawText(
        pen,
        size < 10 ? label.split("-").at(-1) : fittedLabel(label, pitch),
        0,
        size + small,
        `650 ${small}px`,
        colour("ink"),
      );
      if (size > 12)
        drawText(pen, isRemove(number) ? "remove" : "add", 0, size + 25, `${pitch < 52 ? 11 : 12}px`, colour("soft"));
      pen.translate(-size, -size * 0.8);
      if (again) paint(pen, AGAIN, { edge: colour("ink"), line: 1.8 });
    };
    this.brush.stamp(`item ${label} ${size} ${again}`, x, y, size + 34, draw, alpha);
  }

  paintLine() {
    const { stays } = this.timeline;
    const { pitch } = this.places;
    const size = this.size();
    for (const [stay, x] of this.x) {
      if (x < 8 - pitch) continue;
      const left = this.at(stays.get(stay, "end"));
      const held = this.held(stay);
      if (held || left <= this.time) {
        // The place of a taken message stays empty until it is accepted, with the number of the consumer that has it.
        const taker = held?.consumer ?? this.timeline.holdings.get(this.had(stay).at(-1) ?? 0, "consumer");
        const alpha = left <= this.time ? 1 - this.part(left, TAKES.close) : 0.8;
        if (taker)
          this.brush.stamp(
            `place ${taker} ${size}`,
            x,
            LINE.middle,
            size + 4,
            (pen, colour) => drawPlace(pen, colour, size, taker, this.timeline.topology.consumers[taker - 1].name),
            alpha,
          );
        continue;
      }
      const back = this.lastRelease(stay);
      if (back && this.part(back.until, TAKES.release) < 1) {
        const [sx, sy] = this.places.slot(back.consumer, back.row);
        const part = smooth(this.part(back.until, TAKES.release));
        this.see("release", back.row);
        this.item(stay, mix(sx, x, part), mix(sy, LINE.middle, part), size);
      } else this.item(stay, x, LINE.middle, size, this.isLocked(stay) ? 0.62 : 1);
    }
  }

  lastRelease(stay) {
    const { consumer, end } = this.timeline.holdings.columns;
    const row = this.had(stay).findLast((one) => this.at(end[one]) <= this.time);
    return row === undefined ? null : { row, consumer: consumer[row], until: this.at(end[row]) };
  }

  // Paint the messages of the consumers: on their way, in their slots, in progress.
  paintHeld() {
    const { brush, places, timeline } = this;
    const size = this.size();
    const working = new Map();
    for (const stay of this.byStay.keys()) {
      const held = this.held(stay);
      if (!held?.consumer) continue;
      const [sx, sy] = places.slot(held.consumer, held.row);
      const part = smooth(this.part(held.from, EYE.fly));
      if (part < 1) this.see("delivery", held.row);
      const x = this.x.get(stay) ?? this.places.right;
      this.item(stay, mix(x, sx, part), mix(LINE.middle, sy, part * part * 0.4 + part * 0.6), size);
      if (part >= 1 && timeline.picture.works && !working.has(held.consumer)) {
        working.set(held.consumer, held);
        const begun = Math.max(held.from + EYE.fly * this.pace, this.freeSince(held));
        brush.arc(sx, sy, size + 5, clamp((this.time - begun) / Math.max(1, held.until - begun), 0, 1), "glow", 4);
      }
    }
  }

  // The time at which a consumer last finished another message.
  freeSince({ consumer, row }) {
    const { rows, column: end } = this.flights.byEnd.holdings;
    const isDone = (other) =>
      other !== row && this.timeline.holdings.get(other, "consumer") === consumer && this.at(end[other]) <= this.time;
    const last = rows.findLast(isDone);
    return last === undefined ? -Infinity : this.at(end[last]);
  }

  paintDone() {
    const { places, timeline } = this;
    const { stays } = timeline;
    const done = [...this.done].filter((row) => this.at(stays.get(row, "end")) <= this.time);
    // The accepted messages have to fit in the row, above all those that made a cart wrong.
    const pitch = Math.min(34, (places.race - 40) / Math.max(1, this.done.length));
    done.forEach((stay, at) => {
      const place = done.length - 1 - at;
      const end = this.at(stays.get(stay, "end"));
      const part = smooth(this.part(end, EYE.done));
      // The row moves on when the newest message arrives.
      const last = this.at(stays.get(done.at(-1), "end"));
      const shift = place ? 1 - smooth(this.part(last, EYE.done)) : 0;
      const rest = [places.race - 30 - (place - shift) * pitch, places.done];
      const row = this.had(stay).at(-1);
      if (part < 1) this.see("accept", row ?? -1);
      const from = row === undefined ? rest : places.slot(timeline.holdings.get(row, "consumer"), row);
      const [x, y] = [mix(from[0], rest[0], part), mix(from[1], rest[1], part)];
      const size = Math.min(12, Math.round(pitch * 0.36));
      this.item(stay, x, y, Math.round(mix(this.size(), size, part)), clamp((x - 2) / 10, 0, 1));
      if (this.wrong.has(stay))
        this.brush.arc(x, y, size + 5, smooth(this.part(end + EYE.done * this.pace, 0.4)), "bad", 3);
    });
  }

  // Paint the messages that a consumer rejected: they fade under a cross.
  paintRejected() {
    const { brush, flights, timeline } = this;
    const { holdings, stays, picture } = timeline;
    flights.each(flights.byEnd.holdings, this.time - 2 * TAKES.discard * this.pace, this.time, (row, at) => {
      const [stay, consumer] = [holdings.get(row, "stay"), holdings.get(row, "consumer")];
      if (
        !consumer ||
        stay < 0 ||
        stays.get(stay, "end") !== holdings.get(row, "end") ||
        picture.reasons[stays.get(stay, "reason")] !== "reject"
      )
        return;
      const part = this.part(at, 2 * TAKES.discard);
      const [x, y] = this.places.slot(consumer, row);
      this.see("reject", row);
      this.item(stay, x, y + 16 * part, this.size(), 1 - part);
      brush.put("reject", x, y + 16 * part, this.size(), 1 - part);
    });
  }

  // Whether a message in the line shows the lock of its group, which has closed.
  isLocked(stay) {
    const { stays, locks } = this.timeline;
    return this.aliveLocks().some(
      (row) => locks.get(row, "group") === stays.get(stay, "group") && this.snapped(row) <= this.time,
    );
  }

  aliveLocks() {
    const { locks } = this.timeline;
    return locks.alive(this.frame).filter((row) => locks.get(row, "consumer"));
  }

  // The lock of a group closes on the first message that its owner takes.
  first(lock) {
    const { locks, stays } = this.timeline;
    const [group, frame, consumer] = ["group", "start", "consumer"].map((name) => locks.get(lock, name));
    return this.looks.of[consumer - 1]?.find(
      (look) => look.frame === frame && look.kind === TAKEN && stays.get(look.stay, "group") === group,
    );
  }

  snapped(lock) {
    const look = this.first(lock);
    return this.at(this.timeline.locks.get(lock, "start"), look ? look.until - EYE.snap : 0);
  }

  paintLocks() {
    const { timeline } = this;
    const { locks } = timeline;
    const size = this.size();
    for (const row of this.aliveLocks()) {
      const at = this.snapped(row);
      if (at > this.time) continue;
      const consumer = locks.get(row, "consumer");
      const look = this.first(row);
      const x = this.x.get(look?.stay) ?? this.places.right;
      for (const [stay, place] of this.x) {
        if (
          timeline.stays.get(stay, "group") !== locks.get(row, "group") ||
          this.held(stay) ||
          place < 0 ||
          this.at(timeline.stays.get(stay, "start")) > this.time
        )
          continue;
        // Badges appear along the line, starting from where the lock closed.
        const part = clamp((this.part(at, 1) - Math.abs(place - x) / 2200) / 0.18, 0, 1);
        this.shackle(place + size * 0.78, LINE.middle - size * 0.92, 8, consumer, part);
      }
      const snap = this.part(at, EYE.snap);
      const home = this.lockHome(row);
      const part = smooth(this.part(at + EYE.snap * this.pace, TAKES.lock));
      if (part < 1) this.see("lock", row);
      if (part < 1)
        this.shackle(
          mix(x + size * 0.78, home[0], part),
          mix(LINE.middle - size * 0.92, home[1], part),
          mix(16 - 3 * smooth(snap), 9, part),
          consumer,
          1,
        );
    }
    this.paintUnlocked(10);
  }

  lockHome(lock) {
    const consumer = this.timeline.locks.get(lock, "consumer");
    return consumer ? this.places.lockAt(consumer, lock) : null;
  }

  shackle(x, y, size, consumer, alpha) {
    this.brush.stamp(
      `lock ${size.toFixed(1)} ${consumer}`,
      x,
      y,
      size * 2,
      (pen, colour) => drawOwnersLock(pen, size, colour, consumer),
      alpha,
    );
  }

  hasLanded(lock) {
    return this.time >= this.snapped(lock) + (EYE.snap + TAKES.lock) * this.pace;
  }

  // Paint an arc below each message that was passed over, in the colour of the consumer.
  paintTrails() {
    this.looks.of.forEach((looks, index) => {
      const y = this.places.rail(index);
      for (const look of looks) {
        if (look.kind !== PASSED) continue;
        const since = this.part(this.at(look.frame, look.at), 1);
        const x = this.x.get(look.stay);
        if (since <= 0 || since > EYE.trail || x === undefined) continue;
        this.brush.bow(
          x,
          y,
          this.places.pitch * 0.46,
          smooth(since / (look.until - look.at)),
          ownerColour(index + 1),
          0.9 * (1 - since / EYE.trail),
        );
      }
    });
  }

  paintEye(index) {
    const { places } = this;
    const [homeX, homeY] = places.eye(index);
    const rail = places.rail(index);
    const looks = this.looks.of[index];
    const at = looks.findLastIndex((one) => this.at(one.frame, one.at) <= this.time);
    const look = looks[at];
    const spot = (one) => [
      one.stay < 0
        ? Math.max(16, this.places.right - (this.length + 0.5) * places.pitch)
        : (this.x.get(one.stay) ?? this.places.right),
      rail,
    ];
    let [x, y, open] = [homeX, homeY, 0.12];
    if (look) {
      const [begun, ended] = [this.at(look.frame, look.at), this.at(look.frame, look.until)];
      const before = looks[at - 1];
      const from =
        before && this.at(before.frame, before.until) >= begun - EYE.home * this.pace ? spot(before) : [homeX, homeY];
      const step = smooth(this.part(begun, Math.min(0.14, look.until - look.at)));
      const to = spot(look);
      [x, y, open] = [
        mix(from[0], to[0], step),
        mix(from[1], to[1], step),
        look.kind === PASSED && step > 0.7 && this.part(begun, 1) < 0.2 ? 0.15 : 1,
      ];
      if (this.time > ended) {
        const back = smooth(this.part(ended, EYE.home));
        [x, y, open] = [mix(to[0], homeX, back), mix(to[1], homeY, back), mix(1, 0.12, back)];
      } else this.brush.stroke(`M${x},${y - 10}V${LINE.bottom - 8}`, ownerColour(index + 1), 1.5, { dash: [2, 5] });
    }
    this.brush.eye(x, y, open, ownerColour(index + 1), Math.abs(y - rail) < 3 ? index + 1 : "");
  }
}

// The name of a message, with its group shortened if there is not enough room.
function fittedLabel(label, room) {
  const [group, number] = label.split("-");
  return `${fitted(group, room - 4 - 1.15 * textWidth(`-${number}`), 1.15)}-${number}`;
}

const DARK = new Set(["#0072b2", "#009e73", "#d55e00", "#7a5195"]);

function drawPlace(pen, colour, size, consumer, name) {
  paint(pen, ring(size), { edge: colour(ownerColour(consumer)), line: 1.6, dash: [3, 4] });
  drawText(pen, name, 0, 1, "650 13px", colour(ownerColour(consumer)));
}

// Draw a lock in the colour of its owner, with the owner's number.
function drawOwnersLock(pen, size, colour, consumer) {
  drawLock(pen, size, colour(ownerColour(consumer)));
  drawText(pen, String(consumer), 0, size * 0.36, `700 ${size * 1.1}px`, colour("card"));
}

// Build the part of the drawing that does not move: rails, cards with slots, texts and counters.
export function buildConveyor(root, timeline, isNarrow) {
  const { consumers, queues } = timeline.topology;
  const { picture } = timeline;
  root.replaceChildren();
  const cards = LINE.rail + consumers.length * LINE.gap + 6;
  const { isPhone } = timeline;
  const across = isPhone ? PHONE : isNarrow ? SLIM : WIDE;
  const rows = isPhone ? consumers.length : 1;
  const width = isPhone ? across.width - 16 : (across.width - 16 - 12 * (consumers.length - 1)) / consumers.length;
  const ends = cards + rows * (LINE.card + 10) - 10;
  const done = ends + 46;
  const height = done + 50 + across.below;
  const most = timeline.most("queue", 0, "depth");
  const pitch = clamp((across.right - 12) / Math.max(1, most), isPhone ? across.pitch : 40, across.pitch);
  const { race, right } = across;
  for (const y of [LINE.top, LINE.bottom]) svg("line", { x1: 8, x2: right + 28, y1: y, y2: y, class: "qf-rail" }, root);
  svg("text", { x: 8, y: 22, class: "qf-name", "data-why": `queue:${queues[0].name}` }, root, queues[0].name);
  // On a phone the buttons need the rest of the row.
  svg("text", { x: right + 28, y: isPhone ? LINE.bottom + 16 : 22, class: "qf-note qf-end" }, root, "head →");
  const groups = picture.grouped ? "groups on" : "groups off";
  const from = isPhone ? 20 + 1.6 * textWidth(queues[0].name) : 110;
  let x = from + 10 + buildButton(root, from, 8, groups, { what: "groups" }, { isOn: picture.grouped });
  // A reader who acts for the consumers may send messages, too.
  if (!picture.works && timeline.beside.length < 2)
    x += 10 + buildButton(root, x, 7, "send one more", { what: "send" });
  buildButton(
    root,
    ...(isPhone ? [8, height - 26] : [x, 8]),
    isNarrow && !isPhone ? "they work by themselves" : "consumers work by themselves",
    { what: "work" },
    { isOn: picture.works, extra: "qf-extra" },
  );
  svg("text", { x: 8, y: ends + 22, class: "qf-note" }, root, "done, in this order");
  svg("line", { x1: 8, x2: race - 8, y1: done + 34, y2: done + 34, class: "qf-rail" }, root);
  const spots = Array.from({ length: Math.min(most, Math.floor(right / pitch)) }, (_, place) =>
    svg(
      "rect",
      {
        x: right - (place + 1) * pitch + 4,
        y: LINE.top + 8,
        width: pitch - 8,
        height: LINE.bottom - LINE.top - 16,
        class: "qf-spot",
      },
      root,
    ),
  );
  const sinks = consumers.map((_, index) =>
    isPhone
      ? buildReader(root, timeline, index, 8, cards + index * (LINE.card + 10), width)
      : buildReader(root, timeline, index, 8 + index * (width + 12), cards, width),
  );
  const [raceX, raceY] = isNarrow || isPhone ? [8, done + 56] : [race + 20, ends + 22];
  const paintRace = buildRace(root, timeline, raceX, raceY);
  const places = {
    width: across.width,
    right,
    height,
    pitch,
    race,
    done,
    tanks: [],
    sources: [],
    sinks,
    rail: (index) => LINE.rail + index * LINE.gap,
    eye: (index) => [sinks[index].x + 28, sinks[index].y + 24],
    slot: (consumer, row) => sinks[consumer - 1].slot(motion.flights.slots[row]),
    lockAt: (consumer, row) => sinks[consumer - 1].lockAt(row),
  };
  const motion = new Conveyor(timeline, places);
  const count = (now, frame) => motion.count(now, frame);
  const paint = (frame, counted) => {
    const shown = timeline.messages(frame);
    shown.queued[0].slice(0, spots.length).forEach((row, place) => {
      const label = timeline.labelOf(row);
      set(spots[place], { "data-why": `message:${label}`, visibility: "visible" });
    });
    for (const spot of spots.slice(shown.queued[0].length)) set(spot, { visibility: "hidden" });
    sinks.forEach((sink, index) => sink.paint(counted.consumer[index], shown.taken[index], motion.flights));
    paintRace(counted.wrong);
  };
  const paintMarks = (brush, now, frame) => {
    motion.paint(brush, now, frame);
    motion.paintOwned(sinks);
  };
  set(root, { viewBox: `0 0 ${across.width} ${height}` });
  return { paint, count, paintMarks, motion, places, geometry: { width: across.width, tank: { x: 0, width: 0 } } };
}

// Build one consumer: its eye, its pace, its groups and its slots.
function buildReader(root, timeline, index, x, y, width) {
  const spot = timeline.topology.consumers[index];
  const isSmall = width < 240;
  const form = { name: 30, note: 0, isSmall: false };
  const group = buildCard(root, "consumer", spot, y, LINE.card, { x, width }, form);
  const name = group.querySelector(".qf-name");
  set(name, { x: 52, style: `fill:var(--qf-${ownerColour(index + 1)})` });
  if (!isSmall) svg("text", { x: 80, y: 30, class: "qf-note" }, group, spot.note);
  const own = svg("g", {}, group);
  const [owns, title] = [
    svg("text", { x: width - 14, y: LINE.card - 11, class: "qf-note qf-end" }, own),
    svg("title", {}, own),
  ];
  const holds = svg("text", { x: 14, y: LINE.card - 11, class: "qf-note" }, group);
  const pitch = Math.min(58, (width - 50) / laidOut(timeline, spot));
  const slots = Array.from({ length: spot.prefetch }, (_, place) =>
    svg(
      "rect",
      { x: 14 + place * pitch, y: 40, width: pitch - 6, height: 78, rx: 9, class: "qf-slot qf-slot-free" },
      group,
    ),
  );
  buildGrip(group, timeline, ["prefetch"], spot, spot.prefetch, {
    end: [18 + spot.prefetch * pitch, 50, 54],
    pull: [14, 40, pitch, Infinity],
  });
  const locks = buildLocks(group, timeline, { width }, form, isSmall ? 86 : 86 + 1.1 * textWidth(spot.note));
  const { holdings, picture } = timeline;
  let isHere = false;
  const paint = (seen, rows, flights) => {
    isHere = Boolean(seen.present);
    const taken = [];
    for (const row of rows) taken[flights.slots[row]] = row;
    slots.forEach((slot, place) => {
      const stay = taken[place] === undefined ? -1 : holdings.get(taken[place], "stay");
      const label = timeline.labelOf(stay);
      if (label) set(slot, { "data-why": `message:${label}` });
      else slot.removeAttribute("data-why");
      offerAnswer(slot, label && `${label} at ${spot.name}: accept, release or reject`);
    });
    write(holds, !seen.present ? "not here" : `${seen.holds} of ${spot.prefetch}${isSmall ? "" : " prefetched"}`);
  };
  const paintLocks = (alive, owner, hasLanded) => {
    locks.paint(alive, owner, hasLanded);
    const names = alive.filter(hasLanded).map((row) => picture.groups[timeline.locks.get(row, "group") - 1]);
    const words = !picture.grouped || !isHere ? "" : names.length ? `owns ${names.join(", ")}` : "owns no group";
    if (words !== title.textContent) write(owns, fitted(words, width - (isSmall ? 70 : 150)));
    write(title, words);
  };
  const slot = (place) => [x + 14 + Math.min(place, spot.prefetch - 1) * pitch + (pitch - 6) / 2, y + 64];
  return { x, y, paint, paintLocks, slot, lockAt: (row) => [x + locks.x(row) + 5, y + 25] };
}

// Build the counters of wrong carts, with groups and without.
function buildRace(root, timeline, x, y) {
  const { picture } = timeline;
  svg("text", { x, y, class: "qf-count" }, root, "an item removed before it was added");
  const columns = [true, false].map((grouped, index) => {
    const group = svg("g", { class: "qf-race", transform: `translate(${x + index * 175},${y})` }, root);
    const number = svg("text", { x: 0, y: 42, class: "qf-race-number" }, group);
    svg("text", { x: 32, y: 24 }, group, grouped ? "with groups" : "without groups");
    const of = svg("text", { x: 32, y: 42, class: "qf-note" }, group);
    return { group, number, of, grouped };
  });
  return (found) => {
    for (const { group, number, of, grouped } of columns) {
      const isNow = grouped === picture.grouped;
      const wrong = isNow ? found : picture.tried;
      write(number, wrong < 0 ? "?" : String(wrong));
      write(of, wrong < 0 ? "not tried yet" : `of ${picture.of} ${picture.of === 1 ? "cart" : "carts"}`);
      set(group, { class: `qf-race${isNow ? " qf-is-now" : ""}${wrong > 0 ? " qf-is-bad" : ""}` });
    }
  };
}
