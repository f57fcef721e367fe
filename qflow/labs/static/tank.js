// Tank: a queue with its messages, its two thresholds, its limit, and the gate that completions pass.

const MOST_CELLS = 160;
const HEADROOM = 1.06;

function buildTank(root, timeline, index, place, room, geometry, marks) {
  const spot = timeline.topology.queues[index];
  const group = svg("g", { class: "qf-queue", "data-name": spot.name, "data-why": `queue:${spot.name}` }, root);
  const box = geometry.tank;
  const top = place + box.head;
  const bottom = place + room - box.foot;
  const scale = tankScale(timeline, index);
  const grid = tankGrid(scale, box.width - 6, bottom - top, timeline.largestBeside(index, deepestOf));
  const y = grid
    ? (depth) => bottom - 2 - (Math.min(depth, grid.rows * grid.columns) / grid.columns) * grid.tall
    : (depth) => bottom - ((bottom - top) * Math.min(depth, scale)) / scale;

  const name = svg("text", { x: box.x, y: place + (geometry.isSmall ? 18 : 26), class: "qf-name" }, group, spot.name);
  if (geometry.isSmall) name.classList.add("qf-name-small");
  if (spot.policy && !geometry.isSmall) svg("text", { x: box.x, y: place + 44, class: "qf-note" }, group, spot.policy);
  const badge = buildBadge(group, box.x + box.width + box.badge, place + (geometry.isSmall ? 14 : 21), geometry.isSmall, spot.stop_count || spot.stop_size);
  svg("rect", { x: box.x, y: top, width: box.width, height: bottom - top, class: "qf-tank" }, group);
  const lines = buildLines(group, spot, scale, y, geometry);
  const fill = grid ? buildCells(group, timeline, index, box, bottom, grid, marks) : buildFluid(group, timeline, index, box, top, bottom, y, marks, geometry);
  svg("rect", { x: box.x, y: top, width: box.width, height: bottom - top, class: "qf-glass" }, group);
  const count = grid ? svg("text", { x: box.x + box.width / 2 + 10, y: top - 6, class: "qf-cell-count" }, group) : null;
  const gateY = top + (bottom - top) * 0.52;
  const gate = geometry.gate ? buildGate(group, gateY, box.x, geometry) : () => {};
  const chute = buildChute(group, timeline, index, box, bottom, geometry);
  const bytes = geometry.isNarrow ? () => {} : buildBytes(group, timeline, index, box, top, bottom);
  const locks = buildLocks(group, timeline, index, box, bottom, geometry);

  const paint = (seen, shown, frame) => {
    fill(seen, shown.queued[index], shown.owner, frame);
    const state = `${seen.flow ? "qf-is-on" : "qf-is-off"}${seen.gone ? " qf-is-gone" : ""}`;
    classify(group, `qf-queue ${state}`);
    if (count) write(count, seen.gone ? "gone" : seen.depth === 1 ? "1 message" : `${seen.depth} messages`);
    badge(seen.flow);
    lines(seen.flow);
    gate(seen.flow, seen.held, spot.stop_count || spot.stop_size);
    chute(seen, frame);
    bytes(seen.bytes);
    locks(shown.locks[index]);
    set(group, { "data-depth": seen.depth, "data-held": seen.held, "data-flow": seen.flow ? "ON" : "OFF", "data-discards": seen.discards, "data-gone": seen.gone });
  };
  return { inlet: place + box.head - (geometry.isSmall ? 17 : 22), top, bottom, outlet: bottom + 18, gate: gateY, paint };
}

const deepestOf = (timeline, index) => timeline.most("queue", index, "depth");

// Runs side by side have one scale: the same level is the same height in all of them.
function tankScale(timeline, index) {
  return timeline.largestBeside(index, levelOf);
}

// The largest level worth drawing: the limit if the run comes near it, else what the run reached.
function levelOf(timeline, index) {
  const spot = timeline.topology.queues[index];
  const deepest = Math.max(spot.stop_count, deepestOf(timeline, index));
  const full = spot.max_count && spot.max_count <= deepest * 2.5 ? spot.max_count : deepest;
  return Math.max(1, Math.max(full, deepest) * HEADROOM);
}

// Cells that are large enough to tell one from another; null where there are too many.
function tankGrid(scale, width, height, deepest) {
  if (deepest > MOST_CELLS) return null;
  const wanted = Math.max(4, Math.ceil(scale));
  let best = null;
  for (let columns = 1; columns <= 16; columns += 1) {
    const rows = Math.ceil(wanted / columns);
    const pitch = Math.min(36, width / columns, (height - 4) / rows);
    if (!best || pitch > best.pitch) best = { columns, rows, pitch, tall: Math.max(pitch, Math.min(36, (height - 4) / rows)), size: pitch - Math.max(1.4, pitch * 0.14) };
  }
  return best.pitch >= 8 ? best : null;
}

// Every message is a cell, the oldest at the bottom left.
function buildCells(group, timeline, index, box, bottom, grid, marks) {
  const cells = [];
  const left = box.x + (box.width - grid.columns * grid.pitch) / 2;
  const { stays } = timeline;
  return (_, rows, owner, frame) => {
    rows.forEach((row, place) => {
      const cell = (cells[place] ??= new Cell(group, grid.size, "entry", marks));
      if (cell.place !== place) cell.move(left + (place % grid.columns) * grid.pitch, bottom - 2 - (Math.floor(place / grid.columns) + 1) * grid.tall + (grid.tall - grid.size) / 2);
      cell.place = place;
      const held = stays.get(row, "held_start") <= frame && stays.get(row, "held_end") > frame;
      const label = timeline.label(stays.get(row, "producer"), stays.get(row, "number"));
      const again = stays.get(row, "again") <= frame;
      const by = owner.get(row) ? `, at ${timeline.topology.consumers[owner.get(row) - 1].name}` : "";
      cell.paint(held ? "held" : owner.has(row) ? "taken" : "full", stays.get(row, "group"), again, label && `message:${label}`, `${label}${by}${held ? ", held" : ""}${again ? ", redelivered" : ""}`);
    });
    for (let place = rows.length; place < cells.length; place += 1) cells[place].paint("gone");
  };
}

// Too many messages for cells: a level, honest in its height, with the number on it and the next in line below.
function buildFluid(group, timeline, index, box, top, bottom, y, marks, geometry) {
  const inner = { x: box.x + 1.5, width: box.width - 3 };
  const level = svg("rect", { ...inner, class: "qf-level" }, group);
  const taken = svg("rect", { ...inner, fill: marks.taken, class: "qf-taken" }, group);
  const held = svg("rect", { ...inner, fill: marks.held, class: "qf-held" }, group);
  const surface = svg("line", { x1: inner.x, x2: inner.x + inner.width, class: "qf-surface" }, group);
  const centre = box.x + box.width / 2;
  const low = geometry.isSmall ? 0.32 : 0.24;
  const big = svg("text", { x: centre, y: bottom - (bottom - top) * low, class: geometry.isSmall ? "qf-depth qf-depth-small" : "qf-depth" }, group);
  const unit = svg("text", { x: centre, y: bottom - (bottom - top) * low + (geometry.isSmall ? 15 : 19), class: "qf-unit" }, group);
  const heads = timeline.picture.groups.length ? Array.from({ length: Math.floor(box.width / 15) }, (_, place) => {
    const cell = new Cell(group, 12, "entry", marks);
    cell.move(box.x + 4 + place * 15, bottom - 16);
    return cell;
  }) : [];
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
      else cell.paint(owner.has(row) ? "taken" : "full", stays.get(row, "group"), false, `message:${timeline.label(stays.get(row, "producer"), stays.get(row, "number"))}`);
    });
  };
}

function slab(rect, y, from, to) {
  const tall = Math.max(0, y(Math.max(0, from)) - y(to));
  set(rect, { y: y(to), height: to > from && to > 0 ? Math.max(1.5, tall) : 0 });
}

function buildLines(group, spot, scale, y, geometry) {
  const wanted = [
    ["limit", spot.max_count, "limit", ""],
    ["stop", spot.stop_count, "stop", "above it: turns ON"],
    ["resume", spot.stop_count ? spot.resume_count : 0, "resume", "below it: turns OFF"],
  ].filter(([, depth]) => depth > 0 && depth <= scale);
  const { x, width } = geometry.tank;
  const right = x + width;
  const hints = !geometry.isSmall;
  let free = -Infinity;
  const drawn = {};
  for (const [name, depth, word, hint] of wanted) {
    const at = y(depth);
    const label = Math.max(at, free);
    free = label + (hint && hints ? 36 : geometry.isSmall ? 14 : 19);
    const line = svg("g", { class: `qf-line qf-line-${name}` }, group);
    svg("line", { x1: x - 7, x2: right + 7, y1: at, y2: at }, line);
    svg("path", { d: `M${right + 7},${at} L${right + 13},${label}`, class: "qf-leader" }, line);
    svg("text", { x: right + 16, y: label + 4.5, class: "qf-line-name" }, line, `${word} ${depth}`);
    if (hint && hints) svg("text", { x: right + 16, y: label + 20, class: "qf-line-hint" }, line, hint);
    drawn[name] = line;
  }
  return (isOn) => {
    for (const [name, armed] of [["stop", !isOn], ["resume", isOn]]) {
      if (drawn[name]) classify(drawn[name], `qf-line qf-line-${name}${armed ? " qf-armed" : ""}`);
    }
  };
}

// The state in shape, word and colour: an octagon that says ON, a circle that says OFF.
function buildBadge(parent, x, y, isSmall, hasFlowControl) {
  if (!hasFlowControl) {
    svg("text", { x: x + (isSmall ? 22 : 16), y: y + 4.5, class: "qf-badge-label" }, parent, "no flow control");
    return () => {};
  }
  const group = svg("g", { class: "qf-badge", transform: `translate(${x},${y})${isSmall ? " scale(0.72)" : ""}` }, parent);
  if (!isSmall) svg("text", { x: -24, y: 4.5, class: "qf-badge-label" }, group, "flow control");
  const corners = [0, 1, 2, 3, 4, 5, 6, 7].map((corner) => {
    const angle = ((corner + 0.5) * Math.PI) / 4;
    return `${(19 * Math.cos(angle)).toFixed(2)},${(19 * Math.sin(angle)).toFixed(2)}`;
  });
  svg("polygon", { points: corners.join(" "), class: "qf-badge-on" }, group);
  svg("circle", { r: 16, class: "qf-badge-off" }, group);
  const word = svg("text", { y: 4.5, class: "qf-badge-word" }, group);
  return (isOn) => write(word, isOn ? "ON" : "OFF");
}

function buildGate(parent, y, tankX, geometry) {
  const x = geometry.gate;
  const group = svg("g", { class: "qf-gate" }, parent);
  svg("path", { d: `M${tankX},${y} H${x}`, class: "qf-back" }, group);
  svg("path", { d: `M${x},${y - 20} V${y - 9} M${x},${y + 9} V${y + 20}`, class: "qf-gate-posts" }, group);
  svg("path", { d: `M${x},${y - 20} V${y + 20}`, class: "qf-gate-bar" }, group);
  const worded = geometry.gateWords;
  const first = worded ? svg("text", { x: x - 12, y: y + 50, class: "qf-gate-word" }, group) : null;
  const second = worded ? svg("text", { x: x - 12, y: y + 65, class: "qf-gate-word" }, group) : null;
  return (isOn, held, hasFlowControl) => {
    classify(group, isOn ? "qf-gate qf-gate-shut" : "qf-gate");
    if (!worded) return;
    write(first, isOn ? `${held} ${held === 1 ? "completion" : "completions"}` : "completions");
    write(second, isOn ? "held back" : hasFlowControl ? "pass" : "always pass");
  };
}

// Bytes have thresholds of their own; a run that comes near them shows them, as a gauge at the tank's side.
function buildBytes(parent, timeline, index, box, top, bottom) {
  const spot = timeline.topology.queues[index];
  const most = timeline.most("queue", index, "bytes");
  if (!spot.stop_size || most < spot.stop_size * 0.4) return () => {};
  const full = spot.max_size && spot.max_size <= most * 2.5 ? spot.max_size : most;
  const scale = Math.max(full, spot.stop_size) * 1.06;
  const y = (size) => bottom - ((bottom - top) * Math.min(size, scale)) / scale;
  const x = box.x - 15;
  const group = svg("g", { class: "qf-bytes" }, parent);
  const title = svg("title", {}, group);
  svg("rect", { x, y: top, width: 7, height: bottom - top, class: "qf-bytes-glass" }, group);
  const level = svg("rect", { x: x + 1, width: 5, class: "qf-bytes-level" }, group);
  svg("line", { x1: x - 4, x2: x + 11, y1: y(spot.stop_size), y2: y(spot.stop_size), class: "qf-bytes-stop" }, group);
  svg("line", { x1: x - 4, x2: x + 11, y1: y(spot.resume_size), y2: y(spot.resume_size), class: "qf-bytes-resume" }, group);
  const word = svg("text", { x: x - 7, y: y(spot.stop_size) + 4, class: "qf-bytes-word" }, group);
  return (size) => {
    slab(level, y, 0, size);
    write(word, `bytes ${Math.round((100 * size) / spot.stop_size)} %`);
    write(title, `${size} bytes on the queue; stop ${spot.stop_size}, resume ${spot.resume_size}`);
    set(group, { "data-bytes": size });
  };
}

// Where messages go that no consumer will read: the last ones, crossed out, and how many there were.
function buildChute(parent, timeline, index, box, bottom, geometry) {
  const group = svg("g", { class: "qf-chute", visibility: "hidden" }, parent);
  // Where a producer's card is close by, they leave below it.
  const [x, y] = geometry.isNarrow ? [box.x - 60, bottom + 13] : [box.x - 26, bottom - 10];
  const way = geometry.isNarrow ? `M${box.x + 4},${bottom} V${bottom + 6}` : `M${box.x},${y} H${box.x - 14}`;
  svg("path", { d: way, class: "qf-chute-path" }, group);
  const text = svg("text", { x: box.x + box.width / 2 - 8, y: bottom + 17, class: "qf-chute-word" }, group);
  const ghosts = [0, 1, 2, 3].map((place) => {
    const ghost = svg("g", { visibility: "hidden", class: "qf-ghost", transform: `translate(${x - place * 17},${y})` }, group);
    const shape = svg("path", { d: SHAPES[0], class: "qf-glyph" }, ghost);
    svg("path", { d: "M-6,-6L6,6M6,-6L-6,6", class: "qf-cross" }, ghost);
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
    const gone = stays.ended(since, frame, 24).filter((row) => stays.get(row, "queue") === index && LOST.has(timeline.picture.reasons[stays.get(row, "reason")]));
    ghosts.forEach(([ghost, shape], place) => {
      const row = gone[place];
      set(ghost, { visibility: row === undefined ? "hidden" : "inherit" });
      if (row === undefined) return;
      const kind = stays.get(row, "group");
      set(shape, { d: kind ? shapeOf(kind) : SHAPES[0], fill: kind ? colorOf(kind) : "var(--qf-blue)" });
    });
    set(group, { "data-leaving": gone.length });
  };
}

const LOST = new Set(["ring", "reject", "lvq", "queue-deleted"]);

// A lock for each group that is owned, with its owner.
function buildLocks(parent, timeline, index, box, bottom, geometry) {
  const rows = [];
  const { locks } = timeline;
  const most = geometry.isSmall ? 2 : 7;
  const x = box.x + box.width + 14;
  const row = (place) =>
    (rows[place] ??= (() => {
      const group = svg("g", { class: "qf-lock" }, parent);
      svg("path", { d: "M1.5,-3V-5.5A3.5,3.5 0 0 1 8.5,-5.5V-3", class: "qf-lock-bow" }, group);
      svg("rect", { x: 0, y: -3, width: 10, height: 8, rx: 1.5, class: "qf-lock-body" }, group);
      const glyph = svg("path", { class: "qf-glyph", transform: "translate(21,0)" }, group);
      const text = svg("text", { x: 31, y: 4.5, class: "qf-lock-word" }, group);
      return { group, glyph, text };
    })());
  return (alive) => {
    const count = Math.min(most, alive.length);
    alive.slice(0, most).forEach((lock, place) => {
      const { group, glyph, text } = row(place);
      const number = locks.get(lock, "group");
      const name = timeline.picture.groups[number - 1];
      const owner = locks.get(lock, "consumer");
      const who = owner ? timeline.topology.consumers[owner - 1].name : "someone";
      const more = place === most - 1 && alive.length > most ? ` +${alive.length - most}` : "";
      const transform = `translate(${x},${bottom - 10 - (count - 1 - place) * 19})`;
      set(group, { transform, visibility: "visible", "data-why": `group:${name}`, "data-group": name, "data-owner": who });
      set(glyph, { d: shapeOf(number), fill: colorOf(number) });
      write(text, `${name}: ${who}${more}`);
    });
    for (let place = alive.length; place < rows.length; place += 1) set(rows[place].group, { visibility: "hidden" });
  };
}
