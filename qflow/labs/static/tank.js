// Tank: a queue with its messages, its thresholds, its limit, and the gate that completions pass.

import { HEADROOM, heightOf, levelsOf } from "./axes.js";
import { Cell, colorOf, crossOf, SHAPES, shapeOf } from "./glyphs.js";
import { asHandle, handleOf } from "./handles.js";
import { fitted, set, svg, textWidth, write } from "./svg.js";

const MOST_CELLS = 160;

export function buildTank(root, timeline, index, place, room, geometry, marks) {
  const spot = timeline.topology.queues[index];
  const group = svg("g", { class: "qf-queue", "data-name": spot.name, "data-why": `queue:${spot.name}` }, root);
  const box = geometry.tank;
  const top = place + box.head;
  const bottom = place + room - box.foot;
  const scale = tankScale(timeline, index);
  const grid = tankGrid(scale, box.width - 6, bottom - top, timeline.largestBeside(index, deepestOf));
  const y = grid
    ? (depth) => bottom - 2 - (Math.min(depth, grid.rows * grid.columns) / grid.columns) * grid.tall
    : heightOf(scale, top, bottom);

  const shown = buildName(group, spot, place, geometry, Boolean(grid));
  svg("rect", { x: box.x, y: top, width: box.width, height: bottom - top, class: "qf-tank" }, group);
  const lines = buildLines(group, timeline, index, scale, y, bottom, geometry);
  const fill = grid
    ? buildCells(group, timeline, box, bottom, grid, marks)
    : buildFluid(group, timeline, box, top, bottom, y, marks, geometry);
  svg("rect", { x: box.x, y: top, width: box.width, height: bottom - top, class: "qf-glass" }, group);
  for (const line of group.querySelectorAll(".qf-line.qf-handle")) buildCatch(group, line);
  const count = grid ? buildCount(group, shown, place, geometry) : null;
  // The law is known before the run is complete, so that its brackets are drawn from the beginning.
  const hasLaw = Boolean(timeline.picture.law || handleOf(timeline, "capacity_1")) && !geometry.isNarrow;
  const middle = top + (bottom - top) * 0.48;
  // The brackets of the capacity law are above the gate, if its text has room below them.
  const low = Math.min(y(spot.stop_count) + geometry.reach + 8, bottom - geometry.reach - 78);
  const gate = { x: geometry.gate, y: hasLaw ? Math.max(middle, low) : middle, reach: geometry.reach, right: box.x };
  const hasFlowControl = Boolean(spot.stop_count || spot.stop_size);
  const pile = pileIn(gate, timeline.most("queue", index, "held"));
  const paintGate = buildGate(group, gate, geometry, hasFlowControl, pile, marks);
  const badge = hasFlowControl
    ? buildBadge(group, geometry.sign ?? gate.x, gate.y + gate.reach + (geometry.isSmall ? 22 : 36), geometry.isSmall)
    : () => {};
  const chute = buildChute(group, timeline, index, box, bottom, geometry);
  const law = hasLaw ? buildLaw(group, timeline, index, box, y, scale, gate.y - gate.reach - 8) : () => {};
  const bytes = geometry.isNarrow || geometry.bytes ? () => {} : buildBytes(group, timeline, index, box, top, bottom);

  const paint = (seen, shown, frame, held) => {
    fill(seen, shown.queued[index], shown.owner, frame, held);
    if (count) write(count, seen.gone ? "gone" : seen.depth === 1 ? "1 message" : `${seen.depth} messages`);
    badge(seen.flow);
    lines(seen.flow);
    paintGate(seen.flow, seen.held);
    chute(seen, frame);
    bytes(seen.bytes);
    law(seen);
    const state = `${seen.flow ? "qf-is-on" : "qf-is-off"}${seen.gone ? " qf-is-gone" : ""}`;
    set(group, { class: `qf-queue ${state}`, "data-held": seen.held });
  };
  const spots = grid
    ? (at) => [
        box.x + (box.width - grid.columns * grid.pitch) / 2 + ((at % grid.columns) + 0.5) * grid.pitch,
        bottom - 2 - (Math.floor(at / grid.columns) + 0.5) * grid.tall,
        grid.size,
      ]
    : (at) => [box.x + box.width / 2, y(at + 0.5), 8];
  const most = Math.floor(Math.min(scale, grid ? grid.rows * grid.columns : scale));
  return {
    index,
    inlet: place + box.head - (geometry.isSmall ? 17 : 22),
    top,
    bottom,
    left: box.x,
    most,
    outlet: bottom + 18,
    gate,
    spot: spots,
    pile,
    hasCells: Boolean(grid),
    home: new Map(),
    y,
    scale,
    paint,
  };
}

// The name of the queue above its tank, shortened to fit, with its policy beside it on a large card; returns the text
// shown.
function buildName(group, spot, place, geometry, hasCells) {
  const { isSmall, tank: box } = geometry;
  const across = (geometry.form.isTiny ? geometry.width : geometry.desk.x) - box.x - 12;
  const hasPolicy = spot.policy && !isSmall;
  let [high, taken, scale] = [hasCells ? 20 : 26, hasPolicy ? 90 : 0, 1.6];
  if (isSmall) [high, taken, scale] = [18, hasCells ? 125 : 0, 1.35];
  const shown = fitted(spot.name, across - taken, scale);
  const name = svg("text", { x: box.x, y: place + high, class: "qf-name" }, group, shown);
  if (shown !== spot.name) svg("title", {}, group, spot.name);
  if (isSmall) name.classList.add("qf-name-small");
  if (hasPolicy)
    svg("text", { x: box.x + 12 + textWidth(shown) * scale, y: place + 26, class: "qf-note" }, group, spot.policy);
  return shown;
}

// The number of messages in a tank of cells, below the name, or beside it on a small card.
function buildCount(group, shown, place, geometry) {
  const { x } = geometry.tank;
  const beside = { x: x + 10 + textWidth(shown) * (geometry.form.isTiny ? 1.5 : 1.35), y: place + 18 };
  return svg("text", { ...(geometry.isSmall ? beside : { x, y: place + 39 }), class: "qf-cell-count" }, group);
}

// The place of a held completion behind the gate, as [x, y, size]; null if there are too many to draw each.
export function pileIn({ x, y, reach, right }, most) {
  const [wide, tall] = [right - x - 12, 2 * reach - 4];
  const fits = (pitch) => Math.floor(wide / pitch) * Math.floor(tall / pitch) >= most;
  let pitch = 18;
  while (pitch >= 5 && !fits(pitch)) pitch -= 0.25;
  if (pitch < 5 || most > 240) return () => null;
  const rows = Math.floor(tall / pitch);
  return (place) => {
    const row = place % rows;
    // They are placed from the middle outwards, so that a few are near the gate.
    const down = (row % 2 ? 1 : -1) * Math.ceil(row / 2) * pitch + (rows % 2 ? 0 : -pitch / 2);
    return [x + 8 + (Math.floor(place / rows) + 0.5) * pitch, y + down, pitch * 0.46];
  };
}

const deepestOf = (timeline, index) => timeline.most("queue", index, "depth");

// Runs side by side have the same scale, so that a level has the same height in all of them.
export function tankScale(timeline, index) {
  return timeline.scales?.[index] ?? timeline.largestBeside(index, levelOf);
}

// The largest level to draw: the limit if the run comes near it, or else the greatest depth or threshold.
export function levelOf(timeline, index) {
  const spot = timeline.topology.queues[index];
  const deepest = Math.max(spot.stop_count, deepestOf(timeline, index));
  const full = spot.max_count && spot.max_count <= deepest * 2.5 ? spot.max_count : deepest;
  return Math.max(1, Math.max(full, deepest) * HEADROOM);
}

// A grid of cells that are large enough to distinguish, or null if there are too many.
export function tankGrid(scale, width, height, deepest) {
  if (deepest > MOST_CELLS) return null;
  const wanted = Math.max(4, Math.ceil(scale));
  let best = null;
  for (let columns = 1; columns <= 16; columns += 1) {
    const rows = Math.ceil(wanted / columns);
    const pitch = Math.min(36, width / columns, (height - 4) / rows);
    if (!best || pitch > best.pitch)
      best = {
        columns,
        rows,
        pitch,
        tall: Math.max(pitch, Math.min(36, (height - 4) / rows)),
        size: pitch - Math.max(1.4, pitch * 0.14),
      };
  }
  return best.pitch >= 8 ? best : null;
}

// Draw every message as a cell, the oldest at the bottom left.
function buildCells(group, timeline, box, bottom, grid, marks) {
  // Cells are created when the queue gets deeper, below everything that is built later.
  const home = svg("g", {}, group);
  const cells = [];
  const left = box.x + (box.width - grid.columns * grid.pitch) / 2;
  const corner = (place) => [
    left + (place % grid.columns) * grid.pitch,
    bottom - 2 - (Math.floor(place / grid.columns) + 1) * grid.tall + (grid.tall - grid.size) / 2,
  ];
  const { stays } = timeline;
  return (_, rows, owner, frame, waits) => {
    rows.forEach((row, place) => {
      const cell = (cells[place] ??= new Cell(home, corner(place), grid.size, "entry", marks));
      const held = waits.has(row);
      const label = timeline.labelOf(row);
      const again = stays.get(row, "again") <= frame;
      const by = owner.get(row) ? `, at ${timeline.topology.consumers[owner.get(row) - 1].name}` : "";
      cell.paint(
        held ? "held" : owner.has(row) ? "taken" : "full",
        stays.get(row, "group"),
        again,
        label && `message:${label}`,
        `${label}${by}${held ? ", held" : ""}${again ? ", redelivered" : ""}`,
      );
    });
    for (let place = rows.length; place < cells.length; place += 1) cells[place].paint("gone");
  };
}

// If there are too many messages for cells, draw a level of the right height with their number, and the next messages
// below it.
function buildFluid(group, timeline, box, top, bottom, y, marks, geometry) {
  const inner = { x: box.x + 1.5, width: box.width - 3 };
  const level = svg("rect", { ...inner, class: "qf-level" }, group);
  const taken = svg("rect", { ...inner, fill: marks.taken, class: "qf-taken" }, group);
  const held = svg("rect", { ...inner, fill: marks.held, class: "qf-held" }, group);
  const surface = svg("line", { x1: inner.x, x2: inner.x + inner.width, class: "qf-surface" }, group);
  const centre = box.x + box.width / 2;
  const low = geometry.isSmall ? 0.32 : 0.24;
  const big = svg(
    "text",
    { x: centre, y: bottom - (bottom - top) * low, class: geometry.isSmall ? "qf-depth qf-depth-small" : "qf-depth" },
    group,
  );
  const unit = svg(
    "text",
    { x: centre, y: bottom - (bottom - top) * low + (geometry.isSmall ? 15 : 19), class: "qf-unit" },
    group,
  );
  const heads = timeline.picture.groups.length
    ? Array.from(
        { length: Math.floor(box.width / 15) },
        (_, place) => new Cell(group, [box.x + 4 + place * 15, bottom - 16], 12, "entry", marks),
      )
    : [];
  const { stays } = timeline;
  return (seen, rows, owner) => {
    slab(level, y, 0, seen.depth);
    slab(taken, y, 0, seen.acquired);
    slab(held, y, seen.depth - seen.held, seen.depth);
    set(surface, { y1: y(seen.depth), y2: y(seen.depth) });
    write(big, seen.gone ? "gone" : String(seen.depth));
    write(unit, seen.gone ? "" : seen.depth === 1 ? "message" : "messages");
    heads.forEach((cell, place) => {
      const row = rows[place];
      if (row === undefined) cell.paint("gone");
      else
        cell.paint(
          owner.has(row) ? "taken" : "full",
          stays.get(row, "group"),
          false,
          `message:${timeline.labelOf(row)}`,
        );
    });
  };
}

function slab(rect, y, from, to) {
  const tall = Math.max(0, y(Math.max(0, from)) - y(to));
  set(rect, { y: y(to), height: to > from && to > 0 ? Math.max(1.5, tall) : 0 });
}

function buildLines(group, timeline, index, scale, y, bottom, geometry) {
  const spot = timeline.topology.queues[index];
  const hints =
    geometry.isSmall || geometry.bytes ? {} : { stop: "more than this: ON", resume: "fewer than this: OFF" };
  const wanted = levelsOf(spot)
    .filter(([, depth]) => depth <= scale)
    .map(([word, depth]) => [word, depth, hints[word]]);
  return buildLevels(group, timeline, geometry.tank, wanted, y, bottom, {
    queue: index,
    of: spot.name,
    place: spot.name,
    wide: geometry.form.isTiny ? 1.4 : 1.15,
  });
}

// Draw levels as lines across a tank, with their names beside them; a level that can be dragged has a pill around its
// name. Returns a function that shows which levels matter now.
function buildLevels(group, timeline, { x, width }, wanted, y, bottom, { queue, of, place, unit = "", wide = 1.15 }) {
  const right = x + width;
  const labels = labelPlaces(
    wanted.map(([, level, hint]) => [y(level), hint ? 40 : timeline.isPhone ? 27 : 24]),
    bottom + 14,
  );
  // The size of the part to grab, which fits a thumb on a phone.
  const [thick, tall] = timeline.isPhone ? [30, 24] : [16, 21];
  const lines = wanted.map(([setting, level, hint], index) => {
    const [word] = setting.split("_");
    const [words, at, label, handle] = [`${word} ${level}`, y(level), labels[index], handleOf(timeline, setting)];
    const line = svg("g", { class: `qf-line qf-line-${word}`, "data-queue": queue, "data-word": word }, group);
    if (handle)
      svg("rect", { x: x - 8, y: at - thick / 2, width: width + 16, height: thick, class: "qf-catch-line" }, line);
    svg("line", { x1: x - 7, x2: right + 7, y1: at, y2: at }, line);
    svg("path", { d: `M${right + 7},${at} L${right + 13},${label}`, class: "qf-leader" }, line);
    if (handle)
      svg(
        "rect",
        {
          x: right + 9,
          y: label - tall / 2,
          width: 18 + wide * textWidth(words),
          height: tall,
          rx: tall / 2,
          class: "qf-pill",
        },
        line,
      );
    svg("text", { x: right + 17, y: label + 4.5, class: "qf-line-name" }, line, words);
    if (handle) svg("title", {}, line, `${words}${unit}: drag, or use the arrow keys`);
    if (handle) asHandle(line, handle, level, `${word} of ${of}`, place, unit.trim() || "messages");
    if (hint) svg("text", { x: right + 17, y: label + 24, class: "qf-line-hint" }, line, hint);
    return line;
  });
  return (isOn) =>
    lines.forEach((line) => line.classList.toggle("qf-armed", line.dataset.word === (isOn ? "resume" : "stop")));
}

// A level is drawn below the messages, so a transparent line above them catches the pointer.
function buildCatch(group, line) {
  const below = line.querySelector(".qf-catch-line");
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => below.getAttribute(name));
  svg("rect", { x, y, width, height, class: "qf-catch-line qf-catch-over", "data-grab": line.dataset.handle }, group);
}

// Draw the capacity law as brackets at the tank: the stop threshold, with every window on top of it.
function buildLaw(group, timeline, index, box, y, scale, free) {
  const spot = timeline.topology.queues[index];
  const windows = timeline.topology.producers.map(({ name, capacity }, place) => [
    name,
    capacity,
    `capacity_${place + 1}`,
  ]);
  let from = spot.stop_count;
  const x = box.x - 8;
  const root = svg("g", { class: "qf-law" }, group);
  const said = [];
  for (const [name, capacity, setting] of windows) {
    const [low, high] = [from, from + capacity];
    from = high;
    if (!spot.stop_count || high > scale || high <= low) continue;
    const part = svg("g", { "data-law": setting }, root);
    // A bracket that would overlap the gate is left open below.
    const ends = y(low) - 1 > free ? `M${x - 6},${free}` : `M${x},${y(low) - 1}h-6`;
    if (y(high) < free) svg("path", { d: `${ends}V${y(high) + 1}h6` }, part);
    said.push([(Math.min(free, y(low)) + y(high)) / 2 + 4.5, `${capacity} ${name}`, part]);
  }
  const sum = [spot.stop_count, ...windows.map(([, capacity]) => capacity)].join(" + ");
  if (spot.stop_count && from <= scale) said.push([y(from) - 6, `${sum} = ${from}`, root]);
  said.reverse();
  const lines = labelPlaces(
    said.map(([at]) => [at, 17]),
    free + 13,
  );
  said.forEach(([, words, parent], at) => svg("text", { x: x - 11, y: lines[at] }, parent, words));
  // The brackets are faint while flow control is OFF, as nothing is then held.
  return (seen) => set(root, { opacity: seen.flow ? 1 : 0.4 });
}

// Positions for labels, pairs of level and height from the top: near their levels, without overlaps, and not below the
// end.
export function labelPlaces(wanted, end) {
  let free = -Infinity;
  const places = wanted.map(([level, tall]) => {
    const place = Math.max(level, free);
    free = place + tall;
    return place;
  });
  let below = end;
  for (let at = wanted.length - 1; at >= 0; at -= 1) {
    places[at] = Math.min(places[at], below - wanted[at][1]);
    below = places[at];
  }
  return places;
}

// Draw the flow control state by shape, word and colour: an octagon for ON, a circle for OFF.
export function buildBadge(parent, x, y, isSmall) {
  const group = svg(
    "g",
    { class: "qf-badge", transform: `translate(${x},${y})${isSmall ? " scale(0.72)" : ""}` },
    parent,
  );
  svg(
    "polygon",
    {
      points: "19.40,8.04 8.04,19.40 -8.04,19.40 -19.40,8.04 -19.40,-8.04 -8.04,-19.40 8.04,-19.40 19.40,-8.04",
      class: "qf-badge-on",
    },
    group,
  );
  svg("circle", { r: 18, class: "qf-badge-off" }, group);
  const word = svg("text", { y: 4.5, class: "qf-badge-word" }, group);
  svg("title", {}, group, "flow control of this queue (flowStopped)");
  return (isOn) => write(word, isOn ? "ON" : "OFF");
}

// Draw the corridor of completions with its gate; the canvas above it draws what moves.
function buildGate(parent, { x, y, reach, right }, geometry, hasFlowControl, pile, marks) {
  const group = svg("g", { class: "qf-gate" }, parent);
  if (!hasFlowControl) {
    svg("path", { d: `M${right},${y} H${x}`, class: "qf-back" }, group);
    return () => {};
  }
  svg("path", { d: `M${x},${y - reach} H${right} M${x},${y + reach} H${right}`, class: "qf-corridor" }, group);
  const isHeap = !pile(0);
  const heap = svg(
    "rect",
    {
      x: x + 8,
      y: y - reach + 3,
      width: right - x - 14,
      height: 2 * reach - 6,
      rx: 3,
      fill: marks.held,
      visibility: "hidden",
    },
    group,
  );
  const words = x + 28;
  const number = svg(
    "text",
    { x: words, y: y + reach + 27, class: geometry.gateWords ? "qf-gate-number" : "qf-gate-word" },
    group,
  );
  const [first, second, third] = [44, 60, 77].map((down) =>
    svg("text", { x: words, y: y + reach + down, class: "qf-gate-word" }, group),
  );
  return (isOn, held) => {
    set(group, { class: isOn ? "qf-gate qf-gate-shut" : "qf-gate" });
    set(heap, { visibility: isHeap && held ? "visible" : "hidden" });
    write(number, held && !geometry.isNarrow ? String(held) : "");
    if (!geometry.gateWords) return;
    write(first, held === 1 ? "completion" : "completions");
    write(second, isOn ? "held back" : "pass");
    write(third, `flow control ${isOn ? "ON" : "OFF"}`);
  };
}

// Draw a gauge for bytes at the side of the tank, if the run comes near the thresholds in bytes.
function buildBytes(parent, timeline, index, box, top, bottom) {
  const spot = timeline.topology.queues[index];
  const most = timeline.most("queue", index, "bytes");
  if (!spot.stop_size || most < spot.stop_size * 0.4) return () => {};
  const full = spot.max_size && spot.max_size <= most * 2.5 ? spot.max_size : most;
  const scale = Math.max(full, spot.stop_size) * HEADROOM;
  const y = heightOf(scale, top, bottom);
  const x = box.x + box.width - 12;
  const group = svg("g", { class: "qf-bytes" }, parent);
  const title = svg("title", {}, group);
  svg("rect", { x, y: top, width: 7, height: bottom - top, class: "qf-bytes-glass" }, group);
  const level = svg("rect", { x: x + 1, width: 5, class: "qf-bytes-level" }, group);
  svg("line", { x1: x - 4, x2: x + 11, y1: y(spot.stop_size), y2: y(spot.stop_size), class: "qf-bytes-stop" }, group);
  svg(
    "line",
    { x1: x - 4, x2: x + 11, y1: y(spot.resume_size), y2: y(spot.resume_size), class: "qf-bytes-resume" },
    group,
  );
  const word = svg("text", { x: box.x + box.width + 14, y: bottom - 4, class: "qf-bytes-word" }, group);
  return (size) => {
    slab(level, y, 0, size);
    write(word, `bytes ${Math.round((100 * size) / spot.stop_size)} %`);
    write(title, `${size} bytes on the queue; stop ${spot.stop_size}, resume ${spot.resume_size}`);
  };
}

// Draw the chute for messages that no consumer will get: the last ones, crossed out, and their number.
function buildChute(parent, timeline, index, box, bottom, geometry) {
  const group = svg("g", { class: "qf-chute", visibility: "hidden" }, parent);
  // If a producer's card is close, the chute is below it.
  const [x, y] = geometry.isNarrow
    ? [box.x - (geometry.form.isTiny ? 94 : 60), bottom + 13]
    : [box.x - 26, bottom - 10];
  const way = geometry.isNarrow ? `M${box.x + 4},${bottom} V${bottom + 6}` : `M${box.x},${y} H${box.x - 14}`;
  svg("path", { d: way, class: "qf-chute-path" }, group);
  const text = svg("text", { x: box.x + box.width / 2 - 8, y: bottom + 17, class: "qf-chute-word" }, group);
  const ghosts = [0, 1, 2, 3].map((place) => {
    const ghost = svg(
      "g",
      { visibility: "hidden", class: "qf-ghost", transform: `translate(${x - place * 17},${y})` },
      group,
    );
    const shape = svg("path", { d: SHAPES[0], class: "qf-glyph" }, ghost);
    svg("path", { d: crossOf(6), class: "qf-cross" }, ghost);
    return [ghost, shape];
  });
  const { stays } = timeline;
  let before = 0;
  return (seen, frame) => {
    set(group, { visibility: seen.discards ? "visible" : "hidden" });
    if (!seen.discards) return;
    write(text, `${seen.discards} discarded`);
    const since = frame > before && frame - before < 400 ? before : frame - 1;
    before = frame;
    const gone = stays
      .ended(since, frame, 24)
      .filter(
        (row) => stays.get(row, "queue") === index && LOST.has(timeline.picture.reasons[stays.get(row, "reason")]),
      );
    ghosts.forEach(([ghost, shape], place) => {
      const row = gone[place];
      set(ghost, { visibility: row === undefined ? "hidden" : "inherit" });
      if (row === undefined) return;
      const kind = stays.get(row, "group");
      set(shape, { d: kind ? shapeOf(kind) : SHAPES[0], fill: kind ? colorOf(kind) : "var(--qf-blue)" });
    });
  };
}

export const LOST = new Set(["ring", "reject", "lvq", "queue-deleted"]);

// The second tank is for bytes: a queue counts messages and bytes, and compares each with its own thresholds.

// The captions on each unit are part of the run; they are drawn below the tanks.
export function buildUnits(root, timeline, tank, geometry, source) {
  const spot = timeline.topology.queues[0];
  const { verdicts } = timeline.picture;
  const { x, width } = geometry.bytes;
  const { top, bottom } = tank;
  const y = heightOf(HEADROOM * Math.max(1, spot.stop_size, timeline.most("queue", 0, "bytes")), top, bottom);
  const group = svg("g", { class: "qf-units" }, root);
  svg("text", { x, y: top - 30, class: "qf-count" }, group, "in bytes");
  const amount = svg("text", { x, y: top - 12, class: "qf-note" }, group);
  svg("rect", { x, y: top, width, height: bottom - top, class: "qf-tank" }, group);
  const level = svg("rect", { x: x + 1.5, width: width - 3, class: "qf-level" }, group);
  svg("rect", { x, y: top, width, height: bottom - top, class: "qf-glass" }, group);
  const wanted = levelsOf(spot, "size")
    .filter(([word]) => word !== "limit")
    .map(([word, size]) => [`${word}_size`, size]);
  // These levels are the second set on the stage, for dragging.
  const lines = buildLevels(group, timeline, geometry.bytes, wanted, y, bottom, {
    queue: 1,
    of: "orders in bytes",
    place: "bytes",
    unit: " bytes",
  });
  const words = [
    ["messages", geometry.tank.x, spot.stop_count],
    ["bytes", x, spot.stop_size],
  ].map(([unit, left]) => [
    verdicts[unit],
    svg("text", { x: left, y: bottom + 46, class: "qf-verdict", "data-unit": unit }, group),
  ]);
  buildSize(root, timeline, source);
  const paint = (seen, frame) => {
    slab(level, y, 0, seen.bytes);
    write(amount, `${seen.bytes.toLocaleString("en")} bytes`);
    lines(seen.flow);
    for (const [said, text] of words) {
      const word = said.findLast(([at]) => at <= frame)?.[1] ?? "";
      write(text, word);
      text.classList.toggle("qf-is-met", word.startsWith(seen.flow ? "below" : "above"));
      text.classList.toggle("qf-for-off", Boolean(seen.flow));
    }
  };
  return { paint, levels: [{ y }] };
}

// Draw the size of the messages, with a grip to change it.
function buildSize(root, timeline, source) {
  const { stays } = timeline;
  const size = stays.count ? stays.get(0, "size") : 0;
  const { x, y, height } = source.box;
  const group = svg("g", { class: "qf-size", transform: `translate(${x},${y + height + 18})` }, root);
  const side = 8 + 22 * Math.min(1, Math.sqrt(size / 1000));
  svg("rect", { x: 14, y: 16 - side / 2, width: side, height: side, rx: 4, class: "qf-size-mark" }, group);
  const words = `${size} bytes each`;
  svg("text", { x: 54, y: 20.5, class: "qf-count" }, group, words);
  const handle = handleOf(timeline, "size");
  const at = 62 + 1.2 * textWidth(words);
  if (!handle) return;
  const grip = svg("g", { transform: `translate(${at},4)` }, group);
  svg("rect", { width: 44, height: 24, rx: 12, class: "qf-grip qf-pill" }, grip);
  svg("text", { x: 22, y: 16.5, class: "qf-middle" }, grip, "◂ ▸");
  svg("title", {}, grip, "size of each message: drag, or use the arrow keys");
  asHandle(grip, handle, timeline.picture.size, "size of each message", "p1", "bytes");
}
