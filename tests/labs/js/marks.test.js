// Which mark is where: places that are free when they are needed, ways, and when what flies sets out and arrives.

import assert from "node:assert/strict";
import test from "node:test";

import { along, changesOf, Flights, orderBy, placesOf, TAKES } from "../../../qflow/labs/static/flights.js";
import { timelineOf, trackOf } from "./run.js";

const frames = Array.from({ length: 11 }, (_, at) => [at * 1e6, {}]);
const sending = (number, start, end, more = {}) => ({ producer: 0, number, start, end, ...more });
const stay = (number, start, end, more = {}) => ({ queue: 0, producer: 1, number, start, end, ...more });

test("a transfer lies in the first cell that is free, and keeps it", () => {
  const timeline = timelineOf({
    frames,
    tables: { sendings: [sending(1, 1, 4), sending(2, 2, 3), sending(3, 3, 6), sending(4, 4, 5)] },
  });
  assert.deepEqual([...placesOf(timeline.sendings, "producer", "start", "end")], [0, 1, 1, 0]);
});

test("rows come in the order of a column, and what never comes is left out", () => {
  const timeline = timelineOf({
    frames,
    tables: { sendings: [sending(1, 1, 9), sending(2, 2, undefined), sending(3, 3, 4)] },
  });
  assert.deepEqual([...orderBy(timeline.sendings, "end", timeline.count).rows], [2, 0]);
});

test("a column's changes", () => {
  const seen = [0, 0, 1, 1, 0].map((flow, at) => [at, { queue: { flow } }]);
  const timeline = timelineOf({ frames: seen });
  assert.deepEqual(changesOf(timeline, timeline.column("queue", 0, "flow")), [
    [2, 1],
    [4, 0],
  ]);
});

test("a way is gone along from its beginning to its end", () => {
  const way = [
    [0, 0],
    [10, 0],
    [10, 20],
  ];
  assert.deepEqual(
    [-1, 0, 0.25, 0.5, 0.75, 1, 2].map((part) => along(way, part)),
    [
      [0, 0],
      [0, 0],
      [5, 0],
      [10, 0],
      [10, 10],
      [10, 20],
      [10, 20],
    ],
  );
});

function flightsOf(tables, seen = frames) {
  const timeline = timelineOf({ frames: seen, tables });
  trackOf(timeline);
  const flights = new Flights(timeline);
  flights.layOut(1e6);
  return flights;
}

test("each transfer knows its stay, and of several queues the one that held it longest", () => {
  const flights = flightsOf({
    sendings: [sending(1, 1, 9), sending(2, 2, 3)],
    stays: [
      stay(1, 1, 5, { held_start: 1, held_end: 4 }),
      stay(1, 1, 9, { held_start: 1, held_end: 9 }),
      stay(2, 2, 8),
    ],
  });
  assert.deepEqual([...flights.sendingOf], [0, 0, 1]);
  assert.deepEqual([...flights.stayOf], [0, 2]);
  assert.deepEqual([...flights.heldIn], [1, -1]);
});

test("a transfer arrives at its event, and sets out before it; a completion sets out at its own", () => {
  const flights = flightsOf({ sendings: [sending(1, 2, 5)], stays: [stay(1, 2, 9)] });
  const arrives = flights.time(2);
  assert.equal(arrives - flights.departure(0, arrives), TAKES.transfer * 1e6);
  assert.equal(flights.release(0), flights.time(5));
});

test("completions of one step go one after the other, in their order", () => {
  const flights = flightsOf({ sendings: [1, 2, 3].map((number) => sending(number, number, 6)), stays: [] });
  const times = [0, 1, 2].map((row) => flights.release(row));
  assert.equal(times[0], flights.time(6));
  assert.ok(times[0] < times[1] && times[1] < times[2]);
});

test("a producer that had to wait sends again when a completion is back", () => {
  const waits = frames.map(([time], at) => [time, { producer: { blocked: Number(at >= 3 && at < 6) } }]);
  const flights = flightsOf({ sendings: [sending(1, 1, 6), sending(2, 6, 9)], stays: [] }, waits);
  assert.deepEqual([...flights.free], [-1, 6]);
  assert.ok(flights.departure(1, flights.time(6)) < flights.time(6));
});

test("a mark is counted once, however often it is drawn", () => {
  const { shown } = flightsOf({ sendings: [sending(1, 1, 2)], stays: [] });
  for (let again = 0; again < 3; again += 1) shown.see("transfer", 0);
  assert.deepEqual([shown.counts.transfer, shown.now], [1, 3]);
});

test("where the picture rests, nothing later has set out, and what flew has time to land", () => {
  const flights = flightsOf({ sendings: [], stays: [] });
  const rest = flights.time(4);
  Object.assign(flights, { landed: rest, landing: 2e6, horizon: rest });
  assert.equal(flights.time(5), Infinity);
  assert.equal(flights.time(4), rest - 2e6);
});
