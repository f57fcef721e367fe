// Axes: the scale of levels, the scale of time, and the lines of a queue's limits and thresholds; the same in every
// plot.

import { roundStep } from "./numbers.js";
import { svg } from "./svg.js";

// The height of a scale relative to its highest level.
export const HEADROOM = 1.06;

// Return a function from a level to its y position, which is limited to the top of the drawing.
export const heightOf = (most, top, bottom) => (level) => bottom - ((bottom - top) * Math.min(level, most)) / most;

export function drawFrame(root, { left, right, top, height, width }) {
  svg("path", { d: `M${left},${top} V${top + height} H${width - right}`, class: "qf-axis" }, root);
}

export function drawSeconds(root, end, x, y, most) {
  const step = roundStep(end / 1e6, most);
  for (let time = 0; time <= end / 1e6 + 1e-9; time += step) {
    const at = x(time * 1e6);
    svg("line", { x1: at, x2: at, y1: y, y2: y + 4, class: "qf-axis" }, root);
    svg("text", { x: at, y: y + 16, class: "qf-tick" }, root, `${Number(time.toFixed(3))} s`);
  }
}

// The limit and thresholds of a queue that are set, in messages or in bytes, from the highest down. A resume threshold
// counts only beside a stop threshold.
export function levelsOf(spot, unit = "count") {
  const [most, stop, resume] = ["max", "stop", "resume"].map((name) => spot[`${name}_${unit}`]);
  return [
    ["limit", most],
    ["stop", stop],
    ["resume", stop && resume],
  ].filter(([, level]) => level);
}

// Draw lines at a queue's levels, with names that do not overlap; return the y position of the lowest name.
export function drawLevels(root, levels, scale, y, { left, right, width }) {
  let last = -Infinity;
  for (const [name, level] of levels) {
    if (!level || level > scale) continue;
    last = Math.max(y(level), last + 14);
    svg("line", { x1: left, x2: width - right, y1: y(level), y2: y(level), class: `qf-mark qf-mark-${name}` }, root);
    svg("text", { x: left - 8, y: last + 4, class: `qf-level-word qf-word-${name}` }, root, `${name} ${level}`);
  }
  return last;
}
