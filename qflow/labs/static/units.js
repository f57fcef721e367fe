// Units: a queue counts its messages and their bytes, and compares each with thresholds of its own. The second tank is that of the bytes.

import { HEADROOM, heightOf } from "./axes.js";
import { asHandle, handleOf } from "./handles.js";
import { svg, textWidth, write } from "./svg.js";
import { buildLevel, labelPlaces, slab } from "./tank.js";

const thousands = (number) => number.toLocaleString("en");

// What each unit says of ON or OFF comes with the run; it stands below its tank.
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
  const wanted = [["stop_size", spot.stop_size], ["resume_size", spot.stop_size ? spot.resume_size : 0]].filter(([, size]) => size > 0);
  const labels = labelPlaces(wanted.map(([, size]) => [y(size), 24]), bottom + 14);
  const lines = wanted.map(([setting, level], place) => {
    const [word] = setting.split("_");
    const handle = handleOf(timeline, setting);
    // The second of the stage's levels, for the hand.
    const line = buildLevel(group, geometry.bytes, handle, { word, level, at: y(level), label: labels[place], queue: 1, unit: " bytes" });
    if (handle) asHandle(line, handle, level, `${word} of orders in bytes`, "bytes");
    return line;
  });
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
  };
  return { paint, levels: [{ y }] };
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
