// The time of a picture: frames of a run, runs beside each other, and how long a reader sees each instant.

import assert from "node:assert/strict";
import test from "node:test";

import { Player } from "../../../qflow/labs/static/player.js";
import { BEAT } from "../../../qflow/labs/static/timeline.js";
import { part, timelineOf, trackOf } from "./run.js";

const STEPS = [
  [0, {}],
  [100, { queue: { depth: 1 } }],
  [100, { queue: { depth: 2 } }],
  [300, { queue: { depth: 1 } }],
];

test("a time shows the last frame that is not later", () => {
  const timeline = timelineOf({ frames: STEPS });
  assert.deepEqual(
    [-5, 0, 99, 100, 299, 300, 1000].map((time) => timeline.at(time)),
    [0, 0, 0, 2, 2, 3, 3],
  );
  assert.deepEqual([...timeline.column("queue", 0, "depth")], [0, 1, 2, 1]);
  assert.equal(timeline.most("queue", 0, "depth"), 2);
});

test("rows that last over a frame are found, however many frames there are", () => {
  const frames = Array.from({ length: 700 }, (_, at) => [at, {}]);
  const stays = frames.map((_, at) => ({ start: at, end: at + 1 + (at % 7) }));
  const timeline = timelineOf({ frames, tables: { stays } });
  for (const frame of [0, 255, 256, 257, 511, 512, 699]) {
    const alive = stays
      .map((row, at) => [row, at])
      .filter(([row]) => row.start <= frame && frame < row.end)
      .map(([, at]) => at);
    assert.deepEqual(timeline.stays.alive(frame), alive, `frame ${frame}`);
  }
  assert.equal(
    timeline.stays.next(300, (row) => row % 10 === 0),
    310,
  );
  assert.equal(
    timeline.stays.next(699, () => true),
    -1,
  );
  assert.deepEqual(
    timeline.stays.ended(10, 12, 2).map((row) => stays[row].end),
    [12, 11],
  );
});

test("runs beside each other have one order of time, and a place shows the last frame of each", () => {
  const track = trackOf(
    timelineOf({ frames: STEPS }),
    timelineOf({
      frames: [
        [0, {}],
        [200, {}],
      ],
    }),
  );
  assert.deepEqual(track.times, [0, 0, 100, 100, 200, 300]);
  assert.deepEqual(
    track.times.map((_, place) => [track.frame(0, place), track.frame(1, place)]),
    [
      [0, 0],
      [0, 0],
      [1, 0],
      [2, 0],
      [2, 1],
      [3, 1],
    ],
  );
  assert.equal(track.place(1, 1), 4);
  assert.equal(track.at(250), 4);
});

test("the picture waits after a turn, and each of its instants leads back to its time", () => {
  const frames = [
    [0, {}],
    [1000, { parts: part("turned_on") }],
    [2000, {}],
    [2000, { parts: part("turned_off") }],
    [9000, {}],
  ];
  const timeline = timelineOf({ frames, turns: [1, 3] });
  const track = trackOf(timeline);
  const [start, on, before, off, after] = track.shown;
  assert.equal(start, 0);
  assert.equal(before - on, 1e6 * BEAT.on);
  assert.equal(after - off, 1e6 * (BEAT.home + timeline.through(3)));
  assert.ok(off - before > 0 && off - before <= 1e6 * BEAT.step, "of one instant each is seen");
  for (let place = 0; place < track.count; place += 1) {
    assert.equal(track.placeAt(track.shown[place]), place);
    assert.equal(track.timeAt(track.shown[place]), track.time(place));
  }
  assert.deepEqual(track.turns, [1, 3]);
});

test("the first window that fills after ON takes more than a second", () => {
  const on = { flow: 1, depth: 3 };
  const frames = [
    [0, {}],
    [10, { queue: on, parts: part("turned_on") }],
    [20, { queue: on }],
    [30, { queue: on, parts: part("blocked") }],
    [900, {}],
  ];
  const timeline = timelineOf({ frames });
  assert.deepEqual(timeline.filled, [1, 3]);
  const track = trackOf(timeline);
  assert.ok((track.shown[3] - track.shown[1]) / track.pace >= 1.5);
});

test("an earlier run, or the beginning of one that is there, is not drawn over a later", () => {
  const track = trackOf(timelineOf({ frames: STEPS, run: 5 }));
  assert.deepEqual(
    [4, 5, 6].map((run) => track.isAsNewAs(run)),
    [true, true, false],
  );
});

// A browser's clock, which a test moves.
function stage(calm = false) {
  let [asked, now] = [[], 0];
  globalThis.window = { matchMedia: (query) => ({ matches: calm && query === "(prefers-reduced-motion: reduce)" }) };
  globalThis.requestAnimationFrame = (act) => asked.push(act);
  globalThis.cancelAnimationFrame = () => (asked = []);
  globalThis.performance.now = () => now;
  return (seconds, every = 0.05) => {
    for (let gone = 0; gone < seconds; gone += every) {
      now += 1000 * every;
      const due = asked;
      asked = [];
      for (const act of due) act(now);
    }
  };
}

const LONG = Array.from({ length: 101 }, (_, at) => [at * 100_000, { queue: { depth: at } }]);

test("a run plays to its end, rests there, and begins again", () => {
  const run = stage();
  const player = new Player(() => {});
  player.load(trackOf(timelineOf({ frames: LONG })));
  player.play();
  run(5);
  assert.ok(player.isPlaying && player.place > 0 && player.place < 100);
  const time = player.time;
  player.setSpeed(1);
  assert.ok(Math.abs(player.time - time) < 1, "another speed, the same instant");
  run(60);
  assert.deepEqual([player.isPlaying, player.place], [false, 100]);
  player.play();
  assert.equal(player.place, 0);
});

test("what is resumed goes on from where it rested; a jump goes to a turn", () => {
  stage();
  const player = new Player(() => {});
  player.load(trackOf(timelineOf({ frames: LONG, turns: [20, 60] })));
  player.show(40);
  player.play();
  player.pause();
  assert.equal(player.air.landed, player.track.shown[40]);
  player.jump(1);
  assert.equal(player.place, 60);
  player.jump(-1);
  assert.equal(player.place, 20);
  player.step(-1);
  assert.equal(player.place, 19);
});

test("a run plays to a place, rests there, and says so", () => {
  const run = stage();
  const player = new Player(() => {});
  player.load(trackOf(timelineOf({ frames: LONG })));
  const arrived = [];
  player.playTo(40, () => arrived.push(player.place));
  run(10);
  assert.deepEqual([arrived, player.isPlaying, player.place], [[40], false, 40]);
  player.playTo(40, () => arrived.push("at once"));
  assert.deepEqual(arrived, [40, "at once"]);
});

test("a run of few steps is not shown slower than they can be followed", () => {
  stage();
  for (const count of [5, 12, 101]) {
    const player = new Player(() => {});
    player.load(trackOf(timelineOf({ frames: LONG.slice(0, count) })));
    const { track, factor } = player;
    const seconds = track.end / 1e6 / factor;
    assert.ok(seconds >= Math.min(18, 0.3 * count) && seconds / track.count <= 1, `${count}: ${seconds}`);
  }
});

test("less motion: a few still pictures a second, and nothing flies to its place", () => {
  const run = stage(true);
  const seen = new Set();
  const player = new Player((now) => seen.add(now.clock));
  player.load(trackOf(timelineOf({ frames: LONG })));
  player.show(0);
  player.play();
  run(2);
  assert.ok(seen.size >= 3 && seen.size <= 7, `${seen.size} pictures`);
});
