// Where levels, cells and labels are drawn: every one has its place, none lies on another, none leaves its room.

import assert from "node:assert/strict";
import test from "node:test";

import { HEADROOM, heightOf } from "../../../qflow/labs/static/axes.js";
import { cellGrid, firstThatFits, wordsOf } from "../../../qflow/labs/static/cards.js";
import { readCells } from "../../../qflow/labs/static/cells.js";
import { clamp, easeOut, firstOf, roundStep, smooth } from "../../../qflow/labs/static/numbers.js";
import { inflatedBytes, unpacked } from "../../../qflow/labs/static/packed.js";
import { depthPath } from "../../../qflow/labs/static/plot.js";
import { labelPlaces, levelOf, pileIn, tankGrid, tankScale } from "../../../qflow/labs/static/tank.js";
import { timelineOf } from "./run.js";

// A text is as wide as it has letters.
globalThis.document = {
  createElement: () => ({ getContext: () => ({ measureText: (text) => ({ width: 7 * text.length }) }) }),
};

test("numbers between others", () => {
  assert.deepEqual(
    [-1, 0.5, 2].map((one) => clamp(one, 0, 1)),
    [0, 0.5, 1],
  );
  for (const ease of [smooth, easeOut]) assert.deepEqual([ease(-1), ease(0), ease(1), ease(2)], [0, 0, 1, 1]);
  assert.deepEqual(
    [0, 3, 9].map((wanted) => firstOf([1, 3, 3, 7], (one) => one >= wanted)),
    [0, 1, 4],
  );
});

test("a scale has round steps, and at most so many", () => {
  for (const range of [0.003, 1, 9.9, 10, 37, 1234]) {
    const step = roundStep(range, 8);
    assert.ok(range / step <= 8 + 1e-9 && range / step >= 3, `${range}: ${step}`);
    assert.ok([1, 2, 5].includes(Number((step / 10 ** Math.floor(Math.log10(step) + 1e-9)).toFixed(6))), `${step}`);
  }
});

test("a level's height: the floor for 0, the top for the most and all above it", () => {
  const y = heightOf(200, 20, 120);
  assert.deepEqual([0, 100, 200, 900].map(y), [120, 70, 20, 20]);
});

test("a tank reaches to its limit if the run comes near it, and runs beside each other have one scale", () => {
  const frames = (depth) => [
    [0, {}],
    [100, { queue: { depth } }],
  ];
  assert.equal(
    levelOf(timelineOf({ frames: frames(50), queue: { stop_count: 20, max_count: 100 } }), 0),
    100 * HEADROOM,
  );
  assert.equal(
    levelOf(timelineOf({ frames: frames(10), queue: { stop_count: 20, max_count: 1000 } }), 0),
    20 * HEADROOM,
  );
  const [low, high] = [timelineOf({ frames: frames(10) }), timelineOf({ frames: frames(80) })];
  for (const one of [low, high]) one.beside = [low, high];
  assert.equal(tankScale(low, 0), tankScale(high, 0));
});

test("every message has a cell within its tank, or there are none", () => {
  for (const deepest of [1, 7, 40, 105, 160]) {
    const grid = tankGrid(deepest * HEADROOM, 138, 224, deepest);
    assert.ok(
      grid.rows * grid.columns >= deepest && grid.columns * grid.pitch <= 138 + 1e-9 && grid.rows * grid.tall <= 224,
      `${deepest}`,
    );
  }
  assert.equal(tankGrid(161, 138, 224, 161), null);
});

test("a window has as many cells as its capacity, in a card's room, or becomes a bar", () => {
  for (const capacity of [1, 5, 50, 100, 240]) {
    const { rows, columns, pitch } = cellGrid(capacity, 248, { cells: 116 });
    assert.ok(rows * columns >= capacity && columns * pitch <= 248, `${capacity}`);
  }
  assert.equal(cellGrid(241, 248, { cells: 116 }), null);
});

test("held completions lie apart behind the gate, or are one heap", () => {
  const large = { x: 332, y: 150, reach: 31, right: 486 };
  const small = { x: 72, y: 90, reach: 20, right: 126 };
  for (const [gate, most] of [
    [large, 1],
    [large, 15],
    [large, 100],
    [small, 3],
    [small, 4],
    [small, 10],
  ]) {
    const spots = Array.from({ length: most }, (_, place) => pileIn(gate, most)(place));
    const [, , size] = spots[0];
    spots.forEach(([x, y], at) => {
      assert.ok(x - size >= gate.x && x + size <= gate.right, `${at} of ${most}`);
      assert.ok(Math.abs(y - gate.y) + size <= gate.reach, `${at} of ${most}: within the corridor`);
      for (const [left, top] of spots.slice(0, at)) assert.ok(Math.hypot(x - left, y - top) >= 2 * size, "apart");
    });
  }
  assert.equal(pileIn(large, 241)(0), null);
});

test("labels stand at their levels, none on another, none below the end", () => {
  const wanted = [
    [10, 24],
    [12, 40],
    [90, 24],
  ];
  assert.deepEqual(labelPlaces(wanted, 200), [10, 34, 90]);
  assert.deepEqual(labelPlaces(wanted, 100), [10, 34, 76]);
});

test("a card says as much as it has room for", () => {
  const words = wordsOf({ outstanding: 12, held: 3 }, 50, {});
  assert.equal(firstThatFits(words, 400, 1), "12 of 50 outstanding, 3 held");
  assert.equal(firstThatFits(words, 110, 1), "12 out, 3 held");
  assert.equal(firstThatFits(words, 10, 1), "3 held");
});

test("a curve keeps the lowest, the highest and the last level of each pixel", () => {
  const depths = [0, 9, 1, 4, 2];
  const timeline = timelineOf({ frames: depths.map((depth, at) => [at, { queue: { depth } }]), end: 1e6 });
  const form = { left: 100, right: 0, width: 200, end: 1e6 };
  const path = depthPath(
    timeline,
    0,
    (time) => 100 + time / 1e4,
    (depth) => 50 - depth,
    form,
  );
  assert.equal(path, "M100,50H100.0V41.0V50.0V48.0H200");
});

test("the cells of a map are read as Python packs them", () => {
  const cells = new DataView(new ArrayBuffer(16));
  cells.setUint8(8, 3);
  cells.setUint8(9, 2);
  cells.setUint16(10, 2500, true);
  cells.setUint32(12, 70_000, true);
  const courses = new DataView(new ArrayBuffer(80));
  courses.setUint8(40, 255);
  courses.setUint8(79, 51);
  const [none, dead] = readCells(new DataView(new Uint8Array(cells.buffer).fill(255, 0, 8).buffer), courses);
  assert.equal(none, null);
  assert.deepEqual(
    { ...dead, course: [dead.course[0], dead.course[39]] },
    { kind: "dead", died: 2, blocked: 0.25, depth: 70_000, course: [1, 0.2] },
  );
});

test("what Python packs as text is unpacked", async () => {
  assert.deepEqual([...(await inflatedBytes(unpacked("eNoDAAAAAAE=")))], []);
  assert.deepEqual([...unpacked("-_..")], [251, 253, 52]);
});
