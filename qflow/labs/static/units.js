// Units: a queue counts its messages and their bytes, and compares each with thresholds of its own. The second tank is that of the bytes.

import { asHandle, handleOf } from "./handles.js";
import { set, svg, textWidth, write } from "./svg.js";
import { labelPlaces, slab } from "./tank.js";

const thousands = (number) => number.toLocaleString("en");

// What each unit says of ON or OFF comes with the run; it stands below its tank.
export function buildUnits(root, timeline, tank, geometry, source) {
  const spot = timeline.topology.queues[0];
  const { verdicts } = timeline.picture;
  const { x, width } = geometry.bytes;
  const { top, bottom } = tank;
  const scale = 1.06 * Math.max(1, spot.stop_size, timeline.most("queue", 0, "bytes"));
  const y = (size) => bottom - ((bottom - top) * Math.min(size, scale)) / scale;
  const group = svg("g", { class: "qf-units" }, root);
  svg("text", { x, y: top - 30, class: "qf-count" }, group, "in bytes");
  const amount = svg("text", { x, y: top - 12, class: "qf-note" }, group);
  svg("rect", { x, y: top, width, height: bottom - top, class: "qf-tank" }, group);
  const level = svg("rect", { x: x + 1.5, width: width - 3, class: "qf-level" }, group);
  svg("rect", { x, y: top, width, height: bottom - top, class: "qf-glass" }, group);
  const wanted = [["stop_size", spot.stop_size], ["resume_size", spot.stop_size ? spot.resume_size : 0]].filter(([, size]) => size > 0);
  const labels = labelPlaces(wanted.map(([, size]) => [y(size), 24]), bottom + 14);
  const lines = wanted.map(([setting, size], place) => buildByteLine(group, timeline, setting, size, y(size), labels[place], geometry.bytes));
  const words = [["messages", geometry.tank.x, spot.stop_count], ["bytes", x, spot.stop_size]].map(([unit, left]) => [verdicts[unit], svg("text", { x: left, y: bottom + 46, class: "qf-verdict", "data-unit": unit }, group)]);
  buildSize(root, timeline, source, geometry);
  const paint = (seen, frame) => {
    slab(level, y, 0, seen.bytes);
    write(amount, `${thousands(seen.bytes)} bytes`);
    for (const line of lines) line.classList.toggle("qf-armed", line.dataset.word === (seen.flow ? "resume" : "stop"));
    for (const [said, text] of words) {
      const word = said.findLast(([at]) => at <= frame)?.[1] ?? "";
      write(text, word);
      text.classList.toggle("qf-is-met", word.startsWith(seen.flow ? "below" : "above"));
      text.classList.toggle("qf-for-off", Boolean(seen.flow));
    }
    set(group, { "data-bytes": seen.bytes });
  };
  return { paint, levels: [{ y }] };
}

function buildByteLine(group, timeline, setting, size, at, label, { x, width }) {
  const word = setting.split("_")[0];
  const right = x + width;
  // The second of the stage's levels, for the hand.
  const line = svg("g", { class: `qf-line qf-line-${word}`, "data-queue": 1, "data-word": word }, group);
  const handle = handleOf(timeline, setting);
  if (handle) svg("rect", { x: x - 8, y: at - 8, width: width + 16, height: 16, class: "qf-catch-line" }, line);
  svg("line", { x1: x - 7, x2: right + 7, y1: at, y2: at }, line);
  svg("path", { d: `M${right + 7},${at} L${right + 13},${label}`, class: "qf-leader" }, line);
  const words = `${word} ${size}`;
  if (handle) svg("rect", { x: right + 9, y: label - 10.5, width: 18 + 1.15 * textWidth(words), height: 21, rx: 10.5, class: "qf-pill" }, line);
  svg("text", { x: right + 17, y: label + 4.5, class: "qf-line-name" }, line, words);
  if (handle) {
    svg("title", {}, line, `${word} ${size} bytes: drag, or use the arrow keys`);
    asHandle(line, handle, size, `${word} of orders in bytes`, "bytes");
  }
  return line;
}

// How large each message is, as large as that in the picture, with a grip.
function buildSize(root, timeline, source, geometry) {
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
  asHandle(grip, handle, timeline.picture.size, "size of each message", "p1");
}
