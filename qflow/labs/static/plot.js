// Plot: the depth of each queue over time, with its thresholds, and lanes that are filled while a condition is true.

import { drawFrame, drawLevels, drawSeconds, HEADROOM, heightOf, levelsOf } from "./axes.js";
import { changesOf } from "./flights.js";
import { crossOf } from "./glyphs.js";
import { clamp } from "./numbers.js";
import { drag, fitted, html, patterns, set, svg, textWidth, write } from "./svg.js";
import { tankScale } from "./tank.js";

function plotForm(timeline, isNarrow) {
  const crowded = timeline.topology.queues.length > 2;
  const sizes = {
    top: 20,
    height: crowded ? 50 : isNarrow || timeline.picture.verdicts ? 64 : 84,
    axis: 22,
    lane: 17,
    ticks: isNarrow ? 4 : 8,
    isNarrow,
  };
  if (timeline.isPhone) return { ...sizes, width: 340, left: 88, right: 8 };
  return isNarrow ? { ...sizes, width: 520, left: 84, right: 10 } : { ...sizes, width: 1040, left: 118, right: 16 };
}

// All runs share one time scale, so that what is drawn above one another happened at the same time.
export function buildPlots(parent, timeline, id, seek, isNarrow, end, ghost) {
  parent.replaceChildren();
  const form = { ...plotForm(timeline, isNarrow), end, ghost };
  const cursors = timeline.topology.queues.map((_, index) =>
    buildPlot(parent, timeline, index, `${id}-p${index}`, seek, form),
  );
  if (timeline.picture.verdicts) cursors.push(buildBytesPlot(parent, timeline, seek, { ...form, height: 50 }));
  // The queue whose flow control turns most often is shown at first; the others can be unfolded.
  const turns = timeline.topology.queues.map(
    (_, index) => changesOf(timeline, timeline.column("queue", index, "flow")).length,
  );
  const first = turns.indexOf(Math.max(...turns));
  [...parent.children].forEach((box, index) =>
    box.classList.toggle("qf-extra", index !== first && index < turns.length),
  );
  return (frame, time) => cursors.forEach((cursor) => cursor(frame, time));
}

function buildPlot(parent, timeline, index, id, seek, form) {
  const { top, axis, lane, end } = form;
  const spot = timeline.topology.queues[index];
  const lanes = timeline.picture.lanes.filter(
    ([queue, , , spans]) =>
      queue === index && (spans.length || (!form.isNarrow && (spot.stop_count || spot.stop_size))),
  );
  // If there are many lanes, the plot of the depth gets lower.
  const height = Math.max(54, form.height - 14 * Math.max(0, lanes.length - 2));
  form = { ...form, height };
  const bottom = top + height + axis + lanes.length * lane;
  const label = `Depth of ${spot.name} over time. The sentences below the picture say what it shows.`;
  const { root, x, finish } = buildFrame(parent, "qf-plot", label, bottom + 4, form);
  const marks = patterns(root, id);
  const scale = tankScale(timeline, index);
  const y = heightOf(scale, top, top + height);

  // While a queue is ON, its depth is near the threshold, so the word ON is placed away from it.
  const isLow = spot.stop_count && y(spot.stop_count) > top + height / 2;
  drawBands(root, lanes, x, marks, form, isLow ? top + 16 : top + height - 7);
  drawAxes(root, spot, end, scale, x, y, form);
  // The previous run, while a handle is dragged.
  if (form.ghost?.topology.queues[index])
    svg("path", { d: depthPath(form.ghost, index, x, y, form), class: "qf-ghost-curve" }, root);
  svg("path", { d: depthPath(timeline, index, x, y, form), class: "qf-curve" }, root);
  drawDeaths(root, timeline, index, x, y);
  if (!timeline.isWhole) drawUnknown(root, x(timeline.end), x(end), form);
  const samples = timeline.picture.samples.filter(([queue]) => queue === index);
  for (const [, label, points] of samples) drawSamples(root, label, points, x, y, form);
  const heard = samples.at(-1)?.[2].at(-1)?.[0] ?? Infinity;
  drawLanes(root, lanes, top + height + axis, x, marks, form, heard);
  const cursor = finish(seek, bottom);
  return (frame, time) => cursor(x(time), y(timeline.seen("queue", index, frame).depth));
}

// The plot of the bytes over the same time, with their own thresholds.
function buildBytesPlot(parent, timeline, seek, form) {
  const bottom = form.top + form.height;
  const [spot] = timeline.topology.queues;
  const { root, x, finish } = buildFrame(
    parent,
    "qf-plot qf-plot-bytes",
    `Bytes on ${spot.name} over time.`,
    bottom + 6,
    form,
  );
  const scale = HEADROOM * Math.max(1, spot.stop_size, timeline.most("queue", 0, "bytes"));
  const y = heightOf(scale, form.top, bottom);
  drawFrame(root, form);
  drawLevels(root, levelsOf(spot, "size"), scale, y, form);
  svg("text", { x: 4, y: form.top - 8, class: "qf-level-word qf-title qf-from-left" }, root, `bytes on ${spot.name}`);
  svg("path", { d: depthPath(timeline, 0, x, y, form, "bytes"), class: "qf-curve" }, root);
  const cursor = finish(seek, bottom);
  return (frame, time) => cursor(x(time), y(timeline.seen("queue", 0, frame).bytes));
}

// A frame for a drawing over time. The layer above it, with the pointer's position and the cursor, is added when the
// drawing is finished.
function buildFrame(parent, kind, label, total, { left, right, top, width, end }) {
  const box = html("div", { class: "qf-plot-box" }, parent);
  const root = svg("svg", { viewBox: `0 0 ${width} ${total}`, class: kind, role: "img", "aria-label": label }, box);
  const span = width - left - right;
  const finish = (seek, bottom) => {
    const area = svg("rect", { x: left, y: 0, width: span, height: total, class: "qf-catch" }, root);
    const move = (event) => {
      const box = area.getBoundingClientRect();
      seek(clamp((event.clientX - box.left) / box.width, 0, 1) * end);
    };
    drag(area, (event) => {
      move(event);
      return { move };
    });
    return buildCursor(box, width, total, top - 6, bottom);
  };
  return { root, x: (time) => left + (span * time) / end, finish };
}

// The cursor has layers of its own above the plot, so that moving it does not repaint the plot.
function buildCursor(box, width, height, top, bottom) {
  const rail = html("div", { class: "qf-cursor-rail" }, box);
  const line = html("i", { class: "qf-cursor" }, rail);
  set(line, { style: `top:${(100 * top) / height}%;height:${(100 * (bottom - top)) / height}%` });
  const spot = html("div", { class: "qf-cursor-rail" }, box);
  html("i", { class: "qf-cursor-dot" }, spot);
  return (x, y) => {
    rail.style.transform = `translateX(${((100 * x) / width).toFixed(3)}%)`;
    spot.style.transform = `translate(${((100 * x) / width).toFixed(3)}%,${((100 * y) / height).toFixed(2)}%)`;
  };
}

function drawBands(root, lanes, x, marks, form, wordAt) {
  const { top, height } = form;
  for (const [, , kind, spans] of lanes) {
    if (kind !== "on") continue;
    for (const [from, to] of spans) {
      const width = Math.max(1, x(to) - x(from));
      svg("rect", { x: x(from), y: top, width, height, fill: marks.on, class: "qf-band" }, root);
      if (width > 34) svg("text", { x: x(from) + width / 2, y: wordAt, class: "qf-band-word" }, root, "ON");
    }
  }
}

// Draw the dead sessions on the curve of the first queue that the producer sends to; those that are close together
// share one label.
function drawDeaths(root, timeline, index, x, y) {
  const near = [];
  for (const [frame, producer] of timeline.picture.deaths) {
    if ((timeline.topology.routes.find(([from]) => from === producer)?.[1] ?? 0) !== index) continue;
    const [across, down] = [x(timeline.time(frame)), y(timeline.seen("queue", index, frame).depth)];
    const group = svg("g", { class: "qf-death" }, root);
    svg("path", { d: crossOf(6, across, down) }, group);
    const last = near[near.length - 1];
    if (!last || across - last.across > 90)
      near.push({ across, group, word: svg("text", { x: across + 12, y: down + 22 }, group), names: [] });
    const { names, word } = near[near.length - 1];
    names.push(timeline.topology.producers[producer].name);
    write(word, `${names.join(", ")} ${names.length > 1 ? "die" : "dies"}`);
  }
}

function drawAxes(root, spot, end, scale, x, y, form) {
  const { left, top, height } = form;
  drawFrame(root, form);
  drawSeconds(root, end, x, top + height, form.ticks);
  const ends = levelsOf(spot);
  const last = drawLevels(root, ends, scale, y, form);
  if (top + height - last >= 14) svg("text", { x: left - 8, y: top + height + 4, class: "qf-level-word" }, root, "0");
  // If no limit or threshold defines the scale, its highest value is labelled.
  const deepest = Math.round(scale / HEADROOM);
  const isFar = ends.every(([, depth]) => depth > scale || Math.abs(y(depth) - y(deepest)) > 15);
  if (deepest && isFar)
    svg("text", { x: left - 8, y: y(deepest) + 4, class: "qf-level-word" }, root, `deepest ${deepest}`);
  svg("text", { x: 4, y: top - 8, class: "qf-level-word qf-title qf-from-left" }, root, `depth of ${spot.name}`);
}

// The path of a curve: for each pixel, the first, lowest, highest and last value, so that nothing visible is lost.
export function depthPath(timeline, index, x, y, { left, right, width, end }, unit = "depth") {
  const depths = timeline.column("queue", index, unit);
  const { times, count } = timeline;
  const steps = [`M${x(0)},${y(0)}`];
  const span = width - left - right;
  let [pixel, low, high, last] = [-1, 0, 0, 0];
  const flush = () => {
    if (pixel < 0) return;
    const at = (left + pixel / 2).toFixed(1);
    steps.push(`H${at}V${y(high).toFixed(1)}V${y(low).toFixed(1)}V${y(last).toFixed(1)}`);
  };
  for (let frame = 0; frame < count; frame += 1) {
    const depth = depths[frame];
    const now = Math.floor((2 * span * times[frame]) / end);
    if (now !== pixel) {
      flush();
      [pixel, low, high] = [now, Math.min(last, depth), Math.max(last, depth)];
    }
    [low, high, last] = [Math.min(low, depth), Math.max(high, depth), depth];
  }
  flush();
  steps.push(`H${x(timeline.end)}`);
  return steps.join("");
}

// The part of an incomplete run that is still unknown.
function drawUnknown(root, from, to, { top, height }) {
  svg("rect", { x: from, y: top, width: Math.max(0, to - from), height, class: "qf-unknown" }, root);
  if (to - from > 110)
    svg(
      "text",
      { x: (from + to) / 2, y: top + height / 2, class: "qf-band-word qf-unknown-word" },
      root,
      "not run yet",
    );
}

function drawSamples(root, label, points, x, y, form) {
  const path = points.map(([time, depth], index) => `${index ? "L" : "M"}${x(time).toFixed(1)},${y(depth).toFixed(1)}`);
  svg("path", { d: path.join(""), class: "qf-samples" }, root);
  const words = `dotted: ${form.width < 400 ? label.replace("reported by the ", "") : label}`;
  svg("text", { x: form.width - form.right, y: 11, class: "qf-samples-word" }, root, words);
}

function drawLanes(root, lanes, top, x, marks, form, heard) {
  lanes.forEach(([, label, kind, spans], row) => {
    const y = top + row * form.lane;
    const name = label.slice(0, label.lastIndexOf(" "));
    const does = label.slice(name.length);
    const group = svg("g", {}, root);
    svg("title", {}, group, label);
    svg(
      "text",
      { x: form.left - 8, y: y + 11, class: "qf-level-word" },
      group,
      `${fitted(name, form.left - 12 - 1.1 * textWidth(does))}${does}`,
    );
    svg("line", { x1: form.left, x2: form.width - form.right, y1: y + 7, y2: y + 7, class: "qf-rail" }, root);
    for (const [from, to] of spans) {
      const box = { x: x(from), y: y + 1, width: Math.max(1.5, x(to) - x(from)), height: 12, rx: 2 };
      svg("rect", { ...box, class: `qf-lane qf-lane-${kind}`, ...(kind === "on" ? { fill: marks.on } : {}) }, root);
      // The real broker's reports end before it turned OFF.
      if (kind !== "real" || to < heard) continue;
      const wide = Math.min(64, form.width - form.right - x(to)) / 4;
      for (let part = 0; part < 4; part += 1)
        svg(
          "rect",
          {
            x: x(to) + part * wide,
            y: y + 1,
            width: Math.max(0, wide),
            height: 12,
            class: "qf-lane-fades",
            style: `opacity:${0.55 - 0.13 * part}`,
          },
          root,
        );
    }
  });
}
