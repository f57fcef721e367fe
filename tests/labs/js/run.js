// Runs as a picture has them, small enough to be written down: each frame names only the columns that are not 0.

import { NEVER, Timeline } from "../../../qflow/labs/static/timeline.js";
import { Track } from "../../../qflow/labs/static/track.js";

const STEP = [
  "parts",
  "producer",
  "queue",
  "consumer",
  "sender",
  "number",
  "got_sender",
  "got_number",
  "deliveries",
  "freed",
  "waiter",
  "waiters",
  "lost_sender",
  "lost_number",
];
const COLUMNS = {
  producer: ["sent", "outstanding", "held", "blocked", "mood"],
  queue: ["depth", "bytes", "flow", "held", "acquired", "discards", "gone"],
  consumer: ["present", "holds", "accepted"],
};
export const PARTS = ["blocked", "turned_on", "turned_off", "died"];
export const part = (...names) => names.reduce((bits, name) => bits | (1 << PARTS.indexOf(name)), 0);

const TABLES = {
  sendings: ["producer", "start", "end", "held_start", "held_end", "number", "group"],
  stays: ["queue", "start", "end", "held_start", "held_end", "producer", "number", "group", "again", "reason", "size"],
  holdings: ["consumer", "start", "end", "stay", "again"],
  locks: ["queue", "start", "end", "group", "consumer"],
};
const UNLESS = { held_start: NEVER, held_end: NEVER, again: NEVER, end: NEVER };

// frames: [time, { parts, "producer 0": {...}, "queue 0": {...} }]; tables: rows of the columns above.
export function timelineOf({ frames, queue = {}, capacity = 2, tables = {}, turns = [], run = 1, end }) {
  const topology = {
    producers: [{ name: "p1", capacity }],
    queues: [{ name: "q", stop_count: 2, resume_count: 1, max_count: 0, stop_size: 0, resume_size: 0, ...queue }],
    consumers: [{ name: "c1", prefetch: 1 }],
    routes: [[0, 0]],
    end: end ?? frames.at(-1)[0],
  };
  const [from, to, last] = [15, 15 + COLUMNS.producer.length, 15 + COLUMNS.producer.length + COLUMNS.queue.length];
  const columns = {
    step: STEP,
    producer: [from, COLUMNS.producer],
    queue: [to, COLUMNS.queue],
    consumer: [last, COLUMNS.consumer],
  };
  const cells = [frames.map(([time]) => time), ...STEP.map((name) => frames.map(([, seen]) => seen[name] ?? 0))];
  for (const [kind, names] of Object.entries(COLUMNS))
    for (const name of names) cells.push(frames.map(([, seen]) => seen[kind]?.[name] ?? 0));
  const lasting = Object.entries(TABLES).map(([name, names]) => [name, names, (tables[name] ?? []).length]);
  for (const [name, names] of Object.entries(TABLES))
    for (const column of names) cells.push((tables[name] ?? []).map((row) => row[column] ?? UNLESS[column] ?? 0));
  const picture = {
    topology,
    columns,
    lasting,
    turns,
    width: last + COLUMNS.consumer.length,
    count: frames.length,
    words: { parts: PARTS },
    deaths: [],
    groups: [],
    start: 0,
    reasons: ["", "accept"],
  };
  return new Timeline(picture, run, Int32Array.from(cells.flat()).buffer);
}

export function trackOf(...timelines) {
  const track = new Track(timelines);
  track.stretch(1e6);
  return track;
}
