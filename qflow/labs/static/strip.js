// Strip: the numbered commands of one session. A transfer flies from its number to its queue, and its completion flies
// back; a held completion waits at its message; a sync is a flag that waits at the end of all commands before it.

import { TAKES } from "./flights.js";
import { buildButton } from "./handles.js";
import { drawShape, drawText, paint, square } from "./marks.js";
import { Painter } from "./motion.js";
import { mix, smooth } from "./numbers.js";
import { set, svg, textWidth, write } from "./svg.js";
import { buildBadge } from "./tank.js";

const STRIP = { tall: 62, row: 88, name: 182, from: 216 };
// Geometry across: for the whole width, for half of it beside another session, and for a phone; cells are as wide as
// the room for all commands allows.
const [ACROSS, HALF, PHONE] = [
  { width: 1040, left: 116, widest: 80, row: STRIP.row, from: [STRIP.from, 40] },
  { width: 548, left: 104, widest: 54, row: STRIP.row, from: [STRIP.from, 40] },
  // On a phone, texts are above what they describe, and messages below the name of their queue.
  { width: 340, left: 8, widest: 54, row: 118, from: [12, 74] },
];
// The indices in a command: [number, kind, sent, held, complete].
const [WHAT, SENT, HELD, COMPLETE] = [1, 2, 3, 4];
// The seconds of real time that a completion flies.
const BACK = 0.55;

class StripMotion extends Painter {
  constructor(timeline, places) {
    super(timeline, places);
    this.commands = timeline.picture.commands;
    const { stays } = timeline;
    // The row of the stay of each transfer, by its number.
    this.stayOf = new Map(Array.from({ length: stays.count }, (_, row) => [stays.get(row, "number"), row]));
  }

  // Count what has landed: the state of each command, and the number of reports and of sets of complete numbers.
  count(now) {
    this.lay(now);
    const is = (frame, seconds = 0) => this.flights.time(frame) + seconds * now.pace <= now.clock;
    const states = this.commands.map((command) => {
      if (!is(command[SENT], command[WHAT] === "sync" ? 0 : -TAKES.transfer)) return "later";
      if (is(command[COMPLETE], command[WHAT] === "sync" ? 0 : BACK)) return "complete";
      if (command[WHAT] === "sync") return "waits";
      return is(command[HELD], TAKES.pile) && !is(command[COMPLETE]) ? "held" : "out";
    });
    const { complete, reports } = this.timeline.picture;
    const last = (changes) => changes.findLast(([at]) => is(at, BACK))?.[1] ?? "";
    const found = { states, complete: last(complete), reports: last(reports) };
    return { ...found, key: JSON.stringify(found) };
  }

  paint(brush, now, frame) {
    this.begin(brush, now, frame);
    this.spots = new Map();
    this.lineUp((row, queue, place) => this.spots.set(row, this.places.spot(queue, place)));
    for (const command of this.commands) this.paintCommand(command);
  }

  paintCommand(command) {
    const { brush, places } = this;
    const [number, what, sent, held, complete] = command;
    const [x, y] = places.cell(number);
    const set = this.at(sent);
    if (what === "sync") {
      if (this.time >= set) this.paintFlag(x, y, this.at(complete), number);
      return;
    }
    const stay = this.stayOf.get(number);
    const spot = this.spots.get(stay);
    const flight = smooth(this.part(set - TAKES.transfer * this.pace, TAKES.transfer));
    if (flight <= 0) return;
    const left = this.at(this.timeline.stays.get(stay, "end"));
    const away = left <= this.time ? smooth(this.part(left, 0.5)) : 0;
    if (flight < 1) this.see("transfer", this.flights.sendingOf[stay]);
    if (away < 1) this.paintMessage(number, mix(x, spot[0], flight), mix(y, spot[1], flight) + 30 * away, 1 - away);
    const done = this.at(complete);
    const back = smooth(this.part(done, BACK));
    if (this.time >= this.at(held) && this.time < done) {
      this.see("held", stay);
      brush.put("held", spot[0] + 18, spot[1] - 18, 9, smooth(this.part(this.at(held), TAKES.pile)));
    } else if (back > 0) {
      if (back < 1) this.see("completion", this.flights.sendingOf[stay]);
      brush.put("completion", mix(spot[0] + 18, x, back), mix(spot[1] - 18, y, back), mix(9, 13, back));
    }
  }

  paintMessage(number, x, y, alpha) {
    const draw = (pen, colour) => {
      paint(pen, square(17, 7), { fill: colour("blue") });
      drawText(pen, String(number), 0, 1, "700 16px", colour("card"));
    };
    this.brush.stamp(`numbered ${number}`, x, y, 20, draw, alpha);
  }

  // Paint the flag of a sync that waits or is answered.
  paintFlag(x, y, done, number) {
    const { brush } = this;
    const isDone = this.time >= done;
    const draw = (pen, colour) => {
      drawShape(
        pen,
        "M-11,17V-17L14,-9L-11,0",
        1,
        colour(isDone ? "go" : "stop-pale"),
        colour(isDone ? "go" : "stop"),
        2.4,
      );
    };
    brush.stamp(`flag ${isDone}`, x, y, 22, draw);
    if (isDone) brush.put("completion", x + 12, y + 10, 7 * smooth(this.part(done, 0.3)) + 2);
    // A bracket over all commands that the sync waits for.
    const first = this.places.cell(0)[0] - this.places.reach;
    if (!isDone && number)
      brush.stroke(`M${first},${y - 39}V${y - 44}H${x - 10}V${y - 39}`, "stop", 1.6, { dash: [4, 4] });
  }
}

export function buildSession(root, timeline, isNarrow) {
  const { picture, topology } = timeline;
  root.replaceChildren();
  const { commands } = picture;
  const form = timeline.isPhone ? PHONE : isNarrow ? HALF : ACROSS;
  const { width, left, widest } = form;
  const pitch = Math.min(widest, (width - left - 8) / Math.max(1, commands.length));
  svg("text", { x: 8, y: 24, class: "qf-name" }, root, "session p1");
  const top = buildMoves(root, timeline, width, isNarrow || timeline.isPhone) + (form === PHONE ? 40 : 31);
  const bars = top + STRIP.tall + (form === PHONE ? 40 : 32);
  const below = bars + 84;
  const height = below + 2 * form.row + 4;
  const cell = (number) => [left + (number + 0.5) * pitch, top + STRIP.tall / 2 + 6];
  const spot = (queue, place) => [
    form.from[0] + (place + 0.5) * (form === ACROSS ? 54 : 42),
    below + queue * form.row + form.from[1],
  ];
  svg("text", { x: 8, y: form === PHONE ? top - 6 : top + 36, class: "qf-count" }, root, "commands");
  const cells = commands.map(([number, what]) =>
    buildCommand(root, number, what, left + number * pitch + 3, top, pitch - 6),
  );
  const rail = { x: left, pitch, numbers: commands.map(([number]) => number) };
  const complete = buildRanges(root, "complete", "go", rail, bars);
  const reported = buildRanges(root, "reported", "blue", rail, bars + 40);
  const queues = topology.queues.map((queue, index) =>
    buildRow(root, timeline, queue, index, below + index * form.row, form),
  );
  const takes = svg(
    "g",
    { class: "qf-takes", tabindex: 0, role: "group", "aria-label": "Messages on the queues. Arrow down: the first" },
    root,
  );
  const spots = Array.from({ length: timeline.stays.count }, (_, row) =>
    buildTake(takes, timeline.labelOf(row), topology.queues[timeline.stays.get(row, "queue")].name),
  );
  const places = { width, height, cell, spot, queues, tanks: [], sources: [], sinks: [], reach: pitch / 2 - 5 };
  const motion = new StripMotion(timeline, places);
  const count = (now) => motion.count(now);
  const paint = (frame, counted) => {
    const shown = timeline.messages(frame);
    paintCells(cells, counted.states);
    paintRanges(complete, counted.complete);
    paintRanges(reported, counted.reports);
    for (const one of spots) set(one, { visibility: "hidden" });
    shown.queued.forEach((rows, queue) => {
      queues[queue](timeline.seen("queue", queue, frame));
      rows.forEach((row, place) => {
        const [x, y] = spot(queue, place);
        set(spots[row], { visibility: "visible", transform: `translate(${x},${y})` });
      });
    });
  };
  const paintMarks = (brush, now, frame) => motion.paint(brush, now, frame);
  set(root, { viewBox: `0 0 ${width} ${height}` });
  return { paint, count, paintMarks, motion, places, geometry: { width, tank: { x: 0, width: 0 } } };
}

// Build the buttons for the reader's moves, in as many rows as needed, and none beside another session; return the end
// of the last row.
function buildMoves(root, timeline, width, isNarrow) {
  let [x, y] = isNarrow ? [8, 37] : [150, 7];
  if (timeline.beside.length > 1) return 31;
  for (const [words, what] of [
    ["send to busy", "busy"],
    ["send to idle", "idle"],
    ["execution.sync", "sync"],
    ["session.flush", "flush"],
    ["start again", "again"],
  ]) {
    if (x + 24 + 1.1 * textWidth(words) > width) [x, y] = [8, y + 30];
    x += buildButton(root, x, y, words, { what }) + 10;
  }
  return y + 24;
}

// Build one command: its number, its kind, and the word "held" while its completion is held.
function buildCommand(root, number, what, x, top, width) {
  const middle = x + width / 2;
  const group = svg("g", { class: "qf-command" }, root);
  svg("rect", { x, y: top, width, height: STRIP.tall, rx: 6 }, group);
  svg("text", { x: x + 6, y: top + 15, class: "qf-number" }, group, String(number));
  svg("text", { x: middle, y: top + STRIP.tall + 16, class: "qf-note qf-middle" }, group, what);
  const word = svg("text", { x: middle, y: top + 42, class: "qf-note qf-middle qf-held-word" }, group);
  return { group, word };
}

// Build a row below the commands for a set of their numbers: a bar for each number, and the ranges as text.
function buildRanges(root, word, colour, { x, pitch, numbers }, y) {
  const group = svg("g", { class: `qf-ranges qf-ranges-${word}` }, root);
  const isAbove = x < 80;
  svg("text", { x: 8, y: y + (isAbove ? 1 : 12), class: "qf-count" }, group, word);
  svg("line", { x1: x, x2: x + numbers.length * pitch, y1: y + 12, y2: y + 12, class: "qf-rail" }, group);
  const marks = numbers.map((number) =>
    svg(
      "rect",
      { x: x + number * pitch, y: y + 7, width: pitch, height: 10, style: `fill:var(--qf-${colour})` },
      group,
    ),
  );
  const text = svg("text", { x: isAbove ? 84 : 8, y: y + (isAbove ? 1 : 28), class: "qf-note" }, group);
  return { group, marks, text };
}

// A message on a queue is a button: a click lets a consumer take it.
function buildTake(parent, label, queue) {
  const words = `${label} on ${queue}: a consumer takes and accepts it`;
  const group = svg(
    "g",
    {
      class: "qf-take",
      tabindex: -1,
      role: "button",
      "aria-label": words,
      "data-ask": JSON.stringify({ ask: "do", what: "take", name: label }),
    },
    parent,
  );
  svg("title", {}, group, words);
  svg("rect", { x: -21, y: -21, width: 42, height: 42, rx: 9, class: "qf-spot" }, group);
  return group;
}

function paintCells(cells, states) {
  cells.forEach(({ group, word }, index) => {
    set(group, { class: `qf-command qf-command-${states[index]}`, "data-state": states[index] });
    write(word, states[index] === "held" ? "held" : "");
  });
}

// Paint a set of numbers as bars with gaps, and as text like that of a report.
function paintRanges({ marks, text, group }, ranges) {
  const inside = new Set();
  for (const range of ranges ? ranges.split(" ") : []) {
    const [first, last = first] = range.split("-").map(Number);
    for (let number = first; number <= last; number += 1) inside.add(number);
  }
  marks.forEach((mark, number) => set(mark, { visibility: inside.has(number) ? "visible" : "hidden" }));
  write(text, ranges || "none");
  set(group, { "data-ranges": ranges });
}

// Build a queue as a row, with its state as word, shape and colour; a clicked message leaves it.
function buildRow(root, timeline, queue, index, y, { width, row }) {
  const group = svg("g", { class: "qf-queue", "data-name": queue.name, "data-why": `queue:${queue.name}` }, root);
  svg("rect", { x: 8, y, width: width - 16, height: row - 10, rx: 8, class: "qf-card" }, group);
  const isPhone = width === PHONE.width;
  svg("text", { x: 22, y: y + (isPhone ? 24 : 34), class: "qf-name" }, group, queue.name);
  const note = queue.stop_count ? `stop ${queue.stop_count}, resume ${queue.resume_count}` : "no flow control";
  svg("text", { x: 22, y: y + (isPhone ? 43 : 56), class: "qf-note" }, group, note);
  if (timeline.beside.length < 2) {
    if (!index && width > HALF.width)
      svg(
        "text",
        { x: width - 136, y: y + 45, class: "qf-note qf-end qf-needs-kernel" },
        group,
        "click a message: a consumer takes it",
      );
    buildButton(root, width - 120, y + (isPhone ? 10 : 28), `purge ${queue.name}`, { what: "purge", name: queue.name });
  }
  const badge = queue.stop_count ? buildBadge(group, STRIP.name, y + (isPhone ? 22 : 38), true) : () => {};
  return (seen) => {
    badge(seen.flow);
    set(group, { class: `qf-queue ${seen.flow ? "qf-is-on" : "qf-is-off"}` });
  };
}
