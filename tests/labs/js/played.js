// A run that is played with a pen that draws nothing: which marks would have been seen.

import { Conveyor } from "../../../qflow/labs/static/conveyor.js";
import { Motion } from "../../../qflow/labs/static/motion.js";
import { Track } from "../../../qflow/labs/static/track.js";

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

// Twenty pictures a second of the reader; in the end what flies arrives.
export function played(timeline, speed) {
  const track = new Track([timeline]);
  const pace = 1e6 * speed;
  track.stretch(pace);
  const motion = new (timeline.picture.form === "conveyor" ? Conveyor : Motion)(timeline, placesOf(timeline));
  const paint = (clock, air) => motion.paint(brush, { clock, pace, air }, track.placeAt(clock));
  for (let clock = 0; clock < track.length; clock += pace / 20) paint(clock);
  for (let landing = 0; landing < 4 * pace; landing += pace / 20)
    paint(track.length, { landed: track.length, landing, horizon: track.length });
  return motion.shown.counts;
}
