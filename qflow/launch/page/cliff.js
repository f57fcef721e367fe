// Cliff: the map of stop thresholds and windows, with the tank of the cell under the pointer beside it. Each cell is a
// run of the engine, whose depth over time is played. Zoomed in, the neighbouring cells play as tanks of their own.

import { cellBeside, readCells } from "../../labs/static/cells.js";
import { crossOf } from "../../labs/static/glyphs.js";
import { inflatedBytes, unpacked } from "../../labs/static/packed.js";
import { button, drag, html, keep, set, stepsOf, svg, write } from "../../labs/static/svg.js";

const [SIZE, AROUND] = [320, 2];
const SECONDS = 4;
const PAUSE = 0.25; // the part of a round in which the end stays

export async function showCliff(root, said, { stops, windows, other, limit, safe, cells, courses }) {
  const viewOf = async (bytes) => new DataView((await inflatedBytes(unpacked(bytes))).buffer);
  const known = readCells(await viewOf(cells), await viewOf(courses)).map((cell, place) => ({
    ...cell,
    stop: stops[place % stops.length],
    window: windows[Math.floor(place / stops.length)],
    isDead: cell.kind === "dead",
  }));
  const [columns, rows] = [stops.length, windows.length];
  // The depth at a part of the run's time, from 0 to 1.
  const depthAt = ({ course, depth }, part) =>
    course[Math.min(course.length - 1, Math.floor(part * course.length))] * depth;

  let chosen = rows > 3 ? 3 * columns + Math.floor(columns / 2) : 0;
  let isNear = false;
  const map = svg(
    "svg",
    { class: "cliff-map", viewBox: `0 0 ${SIZE + 34} ${SIZE + 30}`, role: "slider", tabindex: 0 },
    root,
  );
  set(map, {
    "aria-label": "stop threshold and window of C1",
    "aria-valuemin": 0,
    "aria-valuemax": columns * rows - 1,
  });
  const field = svg("g", { transform: "translate(30,4)" }, map);
  svg(
    "text",
    { x: 30 + SIZE / 2, y: SIZE + 26, class: "cliff-axis" },
    map,
    `stop threshold, ${stops[0]} to ${stops.at(-1)}`,
  );
  svg(
    "text",
    { x: -SIZE / 2, y: 18, class: "cliff-axis", transform: "rotate(-90)" },
    map,
    `window of C1, ${windows[0]} to ${windows.at(-1)}`,
  );
  const side = html("div", { class: "cliff-side" }, root);
  const tank = svg("svg", { class: "cliff-tank", viewBox: "0 0 156 300", role: "img" }, side);
  const parts = buildTank(tank, 8, 16, 66, 270, true);
  const zoom = button({ class: "qf-button-plain", "aria-pressed": "false" }, side, "look closer", () => {
    isNear = !isNear;
    set(zoom, { "aria-pressed": isNear });
    write(zoom, isNear ? "the whole map" : "look closer");
    drawField();
  });

  let [w, h, from, tiny, dot] = [];
  const at = (place) => [(place % columns) - from[0], Math.floor(place / columns) - from[1]];
  function drawField() {
    field.replaceChildren();
    tiny = [];
    const [column, row] = [chosen % columns, Math.floor(chosen / columns)];
    const wide = isNear ? 2 * AROUND + 1 : columns;
    const tall = isNear ? 2 * AROUND + 1 : rows;
    const within = (value, most, room) => Math.max(0, Math.min(most - room, value - AROUND));
    from = isNear ? [within(column, columns, wide), within(row, rows, tall)] : [0, 0];
    [w, h] = [SIZE / wide, SIZE / tall];
    let edge = "";
    for (let place = 0; place < columns * rows; place += 1) {
      const [x, y] = at(place);
      if (x < 0 || x >= wide || y < 0 || y >= tall) continue;
      const cell = known[place];
      const [left, top] = [x * w, SIZE - (y + 1) * h];
      svg("rect", { x: left, y: top, width: w, height: h, class: cell.isDead ? "cliff-dead" : "cliff-safe" }, field);
      if (isNear) tiny.push([cell, buildTank(field, left + 0.25 * w, top + 0.1 * h, 0.5 * w, 0.8 * h)]);
      else if (cell.isDead) {
        svg("path", { d: crossOf(3, left + w / 2, top + h / 2), class: "cliff-cross" }, field);
      }
      if (!safe[place]) continue;
      if (x + 1 < wide && !safe[place + 1]) edge += `M${left + w},${top}v${h}`;
      if (y + 1 < tall && !safe[place + columns]) edge += `M${left},${top}h${w}`;
    }
    svg("path", { d: edge, class: "cliff-line" }, field);
    dot = svg("circle", { r: isNear ? 12 : 9, class: "cliff-dot" }, field);
    point(chosen);
  }

  function point(place) {
    chosen = place;
    const cell = known[place];
    const [x, y] = at(place);
    set(dot, { cx: (x + 0.5) * w, cy: SIZE - (y + 0.5) * h });
    const sum = cell.stop + cell.window + other;
    const words =
      `stop ${cell.stop} + windows ${cell.window} and ${other} = ${sum}, ${sum > limit ? "more than" : "within"} the ` +
      `limit of ${limit}: `;
    const end = cell.isDead
      ? `message ${limit + 1} is refused, a producer dies.`
      : `at most ${cell.depth} deep, all live.`;
    write(said, words + end);
    said.classList.toggle("is-solved", !cell.isDead);
    set(map, { "aria-valuenow": place, "aria-valuetext": words + end });
    set(tank, { "aria-label": `The queue of this cell. ${end}` });
  }

  const placeAt = ({ clientX, clientY }) => {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(field.getScreenCTM().inverse());
    const [column, row] = [from[0] + Math.floor(x / w), from[1] + Math.floor((SIZE - y) / h)];
    const isIn = x >= 0 && x < SIZE && y > 0 && y <= SIZE;
    return isIn && column < columns && row < rows ? row * columns + column : chosen;
  };
  drag(map, (event) => {
    map.focus({ preventScroll: true });
    const move = (moved) => point(placeAt(moved));
    move(event);
    return { move };
  });
  map.addEventListener("keydown", (event) => {
    if (!stepsOf(event)) return;
    keep(event);
    const next = cellBeside(chosen, event.key, columns, known.length);
    if (next === undefined) return;
    const [column, row] = [next % columns, Math.floor(next / columns)];
    const isOut = isNear && (column - from[0]) * (from[0] + 2 * AROUND - column) < 0;
    point(next);
    if (isOut || (isNear && (row - from[1]) * (from[1] + 2 * AROUND - row) < 0)) drawField();
  });
  drawField();

  // A reader who prefers reduced motion sees the end of each run.
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const tick = (now) => {
    const part = calm.matches ? 1 : Math.min(1, (((now / 1000) % SECONDS) / SECONDS) * (1 + PAUSE));
    const cell = known[chosen];
    parts.show(cell, depthAt(cell, part), limit, part);
    for (const [one, its] of tiny) its.show(one, depthAt(one, part), limit, part);
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}

// Draw a tank with its content, its stop line and its limit, and a cross if a producer died.
function buildTank(parent, x, y, wide, tall, isNamed = false) {
  const group = svg("g", { class: "cliff-glass" }, parent);
  const level = svg("rect", { x, width: wide, class: "cliff-level" }, group);
  svg("path", { d: `M${x},${y}V${y + tall}H${x + wide}V${y}`, class: "cliff-wall" }, group);
  const stop = svg("path", { class: "cliff-stop" }, group);
  const top = svg("path", { class: "cliff-limit" }, group);
  const cross = svg("path", { class: "cliff-x" }, group);
  const [depth, stopName, limitName] = isNamed
    ? ["cliff-depth", "cliff-name", "cliff-name"].map((name) => svg("text", { x: x + wide + 8, class: name }, group))
    : [];
  if (isNamed) set(depth, { x: x + wide / 2 });
  return {
    show(cell, now, limit, part) {
      const scale = tall / (1.12 * limit);
      const at = (value) => y + tall - scale * value;
      set(level, { y: at(now), height: scale * now });
      set(stop, { d: `M${x - 6},${at(cell.stop)}h${wide + 12}` });
      set(top, { d: `M${x},${at(limit)}h${wide}` });
      // The producer counts as dead from the time of the greatest depth on.
      const peak = cell.course.indexOf(Math.max(...cell.course));
      const isOver = cell.isDead && part * cell.course.length >= peak;
      set(group, { "data-dead": isOver ? "yes" : "no" });
      set(cross, { d: crossOf(Math.min(14, wide / 3), x + wide / 2, at(limit)) });
      if (!isNamed) return;
      write(depth, String(Math.round(now)));
      set(depth, { y: y + tall - 16 });
      write(stopName, `stop ${cell.stop}`);
      set(stopName, { y: at(cell.stop) + (Math.abs(at(cell.stop) - at(limit)) < 16 ? 18 : 5) });
      write(limitName, `limit ${limit}`);
      set(limitName, { y: at(limit) + 5 });
    },
  };
}
