// Tank: a queue with its level, its two thresholds, its limit, and the gate that completions pass.

function buildTank(root, timeline, index, place, room, marks) {
  const spot = timeline.topology.queues[index];
  const group = svg("g", { class: "qf-queue", "data-name": spot.name }, root);
  const top = place + TANK.head;
  const bottom = place + room - TANK.foot;
  const scale = tankScale(timeline, index);
  const y = (depth) => bottom - ((bottom - top) * Math.min(depth, scale)) / scale;

  svg("text", { x: TANK.x, y: place + 26, class: "qf-name" }, group, spot.name);
  const badge = buildBadge(group, TANK.x + TANK.width + 130, place + 21);
  svg("rect", { x: TANK.x, y: top, width: TANK.width, height: bottom - top, class: "qf-tank" }, group);
  const box = { x: TANK.x + 1.5, width: TANK.width - 3 };
  const level = svg("rect", { ...box, class: "qf-level" }, group);
  const taken = svg("rect", { ...box, fill: marks.taken, class: "qf-taken" }, group);
  const held = svg("rect", { ...box, fill: marks.held, class: "qf-held" }, group);
  const surface = svg("line", { x1: box.x, x2: box.x + box.width, class: "qf-surface" }, group);
  const lines = buildLines(group, spot, scale, y);
  svg("rect", { x: TANK.x, y: top, width: TANK.width, height: bottom - top, class: "qf-glass" }, group);
  const centre = TANK.x + TANK.width / 2;
  const big = svg("text", { x: centre, y: bottom - (bottom - top) * 0.24, class: "qf-depth" }, group);
  const unit = svg("text", { x: centre, y: bottom - (bottom - top) * 0.24 + 19, class: "qf-unit" }, group);
  const gateY = top + (bottom - top) * 0.52;
  const gate = buildGate(group, gateY);

  const paint = (seen) => {
    slab(level, y, 0, seen.depth);
    slab(taken, y, 0, seen.acquired);
    slab(held, y, seen.depth - seen.held, seen.depth);
    set(surface, { y1: y(seen.depth), y2: y(seen.depth) });
    write(big, String(seen.depth));
    write(unit, seen.depth === 1 ? "message" : "messages");
    classify(group, seen.flow ? "qf-queue qf-is-on" : "qf-queue qf-is-off");
    badge(seen.flow);
    lines(seen.flow);
    gate(seen.flow, seen.held, spot.stop_count || spot.stop_size);
    set(group, { "data-depth": seen.depth, "data-held": seen.held, "data-flow": seen.flow ? "ON" : "OFF" });
  };
  return { inlet: place + TANK.head - 22, top, bottom, outlet: bottom + 18, gate: gateY, paint };
}

// The largest level worth drawing: the limit if the run comes near it, else what the run reached.
function tankScale(timeline, index) {
  const spot = timeline.topology.queues[index];
  const column = timeline.column("queue", index, "depth");
  let deepest = spot.stop_count;
  for (let at = column; at < timeline.numbers.length; at += timeline.width) deepest = Math.max(deepest, timeline.numbers[at]);
  const full = spot.max_count && spot.max_count <= deepest * 2.5 ? spot.max_count : deepest;
  return Math.max(1, Math.max(full, deepest) * 1.06);
}

function slab(rect, y, from, to) {
  const tall = Math.max(0, y(Math.max(0, from)) - y(to));
  set(rect, { y: y(to), height: to > from && to > 0 ? Math.max(1.5, tall) : 0 });
}

function buildLines(group, spot, scale, y) {
  const wanted = [
    ["limit", spot.max_count, "limit", ""],
    ["stop", spot.stop_count, "stop", "above it: turns ON"],
    ["resume", spot.stop_count ? spot.resume_count : 0, "resume", "below it: turns OFF"],
  ].filter(([, depth]) => depth > 0 && depth <= scale);
  const right = TANK.x + TANK.width;
  let free = -Infinity;
  const drawn = {};
  for (const [name, depth, word, hint] of wanted) {
    const at = y(depth);
    const label = Math.max(at, free);
    free = label + (hint ? 36 : 19);
    const line = svg("g", { class: `qf-line qf-line-${name}` }, group);
    svg("line", { x1: TANK.x - 7, x2: right + 7, y1: at, y2: at }, line);
    svg("path", { d: `M${right + 7},${at} L${right + 17},${label}`, class: "qf-leader" }, line);
    svg("text", { x: right + 22, y: label + 4.5, class: "qf-line-name" }, line, `${word} ${depth}`);
    if (hint) svg("text", { x: right + 22, y: label + 20, class: "qf-line-hint" }, line, hint);
    drawn[name] = line;
  }
  return (isOn) => {
    for (const [name, armed] of [["stop", !isOn], ["resume", isOn]]) {
      if (drawn[name]) classify(drawn[name], `qf-line qf-line-${name}${armed ? " qf-armed" : ""}`);
    }
  };
}

// The state in shape, word and colour: an octagon that says ON, a circle that says OFF.
function buildBadge(parent, x, y) {
  const group = svg("g", { class: "qf-badge", transform: `translate(${x},${y})` }, parent);
  svg("text", { x: -24, y: 4.5, class: "qf-badge-label" }, group, "flow control");
  const corners = [0, 1, 2, 3, 4, 5, 6, 7].map((corner) => {
    const angle = ((corner + 0.5) * Math.PI) / 4;
    return `${(19 * Math.cos(angle)).toFixed(2)},${(19 * Math.sin(angle)).toFixed(2)}`;
  });
  svg("polygon", { points: corners.join(" "), class: "qf-badge-on" }, group);
  svg("circle", { r: 16, class: "qf-badge-off" }, group);
  const word = svg("text", { y: 4.5, class: "qf-badge-word" }, group);
  return (isOn) => write(word, isOn ? "ON" : "OFF");
}

function buildGate(parent, y) {
  const group = svg("g", { class: "qf-gate" }, parent);
  svg("path", { d: `M${TANK.x},${y} H${GATE}`, class: "qf-back" }, group);
  svg("path", { d: `M${GATE},${y - 20} V${y - 9} M${GATE},${y + 9} V${y + 20}`, class: "qf-gate-posts" }, group);
  svg("path", { d: `M${GATE},${y - 20} V${y + 20}`, class: "qf-gate-bar" }, group);
  const first = svg("text", { x: GATE, y: y + 36, class: "qf-gate-word" }, group);
  const second = svg("text", { x: GATE, y: y + 51, class: "qf-gate-word" }, group);
  return (isOn, held, hasFlowControl) => {
    classify(group, isOn ? "qf-gate qf-gate-shut" : "qf-gate");
    write(first, isOn ? `${held} ${held === 1 ? "completion" : "completions"}` : "completions");
    write(second, isOn ? "held back" : hasFlowControl ? "pass" : "always pass");
  };
}
