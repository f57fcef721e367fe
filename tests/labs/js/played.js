// A run that is played with a pen that draws nothing: which marks would have been seen.

import { Conveyor } from "../../../qflow/labs/static/conveyor.js";
import { Motion } from "../../../qflow/labs/static/motion.js";
import { Track } from "../../../qflow/labs/static/track.js";
import { outlookSentence, stepSentence } from "../../../qflow/labs/static/words.js";

const spot = () => [0, 0, 8];
const path = { getAttribute: () => "", getTotalLength: () => 1, getPointAtLength: () => ({ x: 0, y: 0 }) };
const brush = new Proxy({}, { get: () => () => {} });

function placesOf({ topology }) {
  const gate = { x: 0, y: 0, reach: 30, right: 100 };
  const home = new Map(topology.producers.map((_, index) => [index, path]));
  const tanks = topology.queues.map((_, index) => ({
    index,
    left: 0,
    top: 0,
    bottom: 100,
    most: 10,
    gate,
    spot,
    pile: spot,
    hasCells: true,
    home,
  }));
  const sources = topology.producers.map((_, index) => ({
    index,
    right: 0,
    out: 0,
    back: 0,
    cell: spot,
    cross: [0, 0, 8, 2],
  }));
  const sinks = topology.consumers.map(() => ({ left: 0, middle: 0, cell: spot, lockAt: spot }));
  const line = { right: 1000, pitch: 50, race: 600, done: 300, rail: () => 0, eye: spot, slot: spot, lockAt: spot };
  return {
    width: 1000,
    height: 300,
    size: 8,
    say() {},
    tanks,
    sources,
    sinks,
    drains: topology.consumers.map(() => path),
    out: () => [path],
    ...line,
  };
}

// What a picture counts of each member, as lists; of a conveyor, its consumers alone.
const KINDS = { producer: ["sent", "outstanding", "held"], queue: ["depth", "held"], consumer: ["holds", "accepted"] };

function numbersOf(counted) {
  const of = ([kind, names]) => [kind, (counted[kind] ?? []).map((one) => names.map((name) => one[name]))];
  return Object.fromEntries(Object.entries(KINDS).map(of));
}

function begun(timeline, speed) {
  const track = new Track([timeline]);
  const pace = 1e6 * speed;
  track.stretch(pace);
  const motion = new (timeline.picture.form === "conveyor" ? Conveyor : Motion)(timeline, placesOf(timeline));
  return { track, pace, motion };
}

// What is counted and said at each step, where the picture rests there, and how many held completions are drawn.
export function rested(timeline, step = 1) {
  const { track, pace, motion } = begun(timeline, 0.1);
  return Array.from({ length: Math.ceil(timeline.count / step) }, (_, at) => {
    const frame = step * at;
    const clock = track.shown[frame];
    const now = { clock, pace, air: { landed: clock, landing: 6 * pace, horizon: clock } };
    const marks = recorder();
    motion.paint(marks.brush, now, frame);
    const counted = motion.count(now, frame);
    const words = [stepSentence(timeline, frame), outlookSentence(timeline, frame, counted)];
    return { frame, ...numbersOf(counted), words, marks: marks.put };
  });
}

// What is counted while it plays, four times a second of the reader, and the marks under way at that moment.
export function playing(timeline, speed) {
  const { track, pace, motion } = begun(timeline, speed);
  const found = [];
  for (let clock = 0; clock < track.length; clock += 0.23 * pace) {
    const [now, frame, marks] = [{ clock, pace }, track.placeAt(clock), recorder()];
    motion.paint(marks.brush, now, frame);
    const isStream = Boolean(motion.streams);
    found.push({ frame, isStream, ...numbersOf(motion.count(now, frame)), marks: marks.put });
  }
  return found;
}

function recorder() {
  const put = {};
  const count = (kind) => {
    put[kind] = (put[kind] ?? 0) + 1;
  };
  return { put, brush: new Proxy({}, { get: (_, name) => (name === "put" ? count : () => {}) }) };
}

// Twenty pictures a second of the reader; in the end what flies arrives.
export function played(timeline, speed) {
  const { track, pace, motion } = begun(timeline, speed);
  const paint = (clock, air) => motion.paint(brush, { clock, pace, air }, track.placeAt(clock));
  for (let clock = 0; clock < track.length; clock += pace / 20) paint(clock);
  for (let landing = 0; landing < 4 * pace; landing += pace / 20)
    paint(track.length, { landed: track.length, landing, horizon: track.length });
  return motion.shown.counts;
}
