// Map: a grid of stop thresholds and capacities with a run in each cell. The kernel makes the runs and the drawing;
// here the cells are filled as their results arrive, and can be pointed at and clicked.

import { drawFrame, drawLevels, HEADROOM, heightOf } from "./axes.js";
import { cellBeside, readCells } from "./cells.js";
import { button, html, isPhonePage, keep, listen, set, svg, write } from "./svg.js";

const MAP_VIEWS = { kind: "what happens", depth: "greatest depth", blocked: "time blocked" };
const MAP_STRIDES = [1, 2, 4, 8];

function render({ model, el }) {
  const help = "Map of settings. Arrow keys choose a cell, Enter moves the lab there.";
  const root = html("div", { class: "qflow-scene qf-map", tabindex: 0, role: "group", "aria-label": help }, el);
  const bar = html("div", { class: "qf-map-bar" }, root);
  const field = html("div", { class: "qf-map-field" }, root);
  const words = html("ul", { class: "qf-map-words", "aria-live": "polite" }, root);
  const state = { view: "kind", cursor: -1, drawn: null, chosen: false };

  buildViews(bar, state.view, (name) => {
    state.view = name;
    fill();
  });
  const done = html("progress", { class: "qf-map-progress", "aria-label": "cells that are run" }, bar);
  const head = html("span", { class: "qf-map-head" }, bar);

  const cells = () => readCells(model.get("cells"), model.get("courses"));
  const point = (place) => {
    state.cursor = place;
    state.drawn.point(place, cells());
  };
  const choose = (place) => {
    const { across, up } = model.get("axes");
    const chosen = {
      stop: across.values[place % across.values.length],
      capacity: up.values[Math.floor(place / across.values.length)],
    };
    state.chosen = true;
    model.set("chosen", { ...chosen, number: (model.get("chosen").number ?? 0) + 1 });
    model.save_changes();
  };
  const fill = () => {
    const all = cells();
    const known = all.filter(Boolean).length;
    state.drawn.fill(all, state.view);
    if (state.cursor >= 0) state.drawn.point(state.cursor, all);
    set(done, { value: known, max: all.length });
    done.style.visibility = known < all.length ? "visible" : "hidden";
    write(
      head,
      known < all.length
        ? `${known} of ${all.length} runs`
        : state.chosen
          ? `set in the lab: stop ${model.get("dot")[0]}, capacity ${model.get("dot")[1]}`
          : "point at a cell; a click moves the lab there",
    );
    set(root, { "data-known": known, "data-cells": all.length, "data-view": state.view });
  };
  const draw = () => {
    state.drawn = drawMap(field, model.get("axes"), { point, choose });
    state.cursor = Math.min(state.cursor, model.get("axes").safe.length - 1);
    fill();
    place();
  };
  const place = () => {
    state.drawn.place(model.get("dot"));
    if (state.chosen) fill();
  };
  const say = () => {
    words.replaceChildren();
    for (const sentence of model.get("words")) html("li", {}, words, sentence);
  };
  root.addEventListener("keydown", (event) => {
    if (event.target !== root) return;
    const at = state.cursor < 0 ? state.drawn.nearest(model.get("dot")) : state.cursor;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(at);
      return;
    }
    const { across, safe } = model.get("axes");
    const next = cellBeside(at, event.key, across.values.length, safe.length);
    if (next === undefined) return;
    keep(event);
    point(next);
  });

  const leave = listen(model, { axes: draw, cells: fill, dot: place, words: say });
  draw();
  say();
  // Request the remaining runs now that the map is displayed.
  model.send({ ask: "runs" });
  return () => {
    leave();
    el.replaceChildren();
  };
}

// A choice between the quantities that the colours of the cells show.
function buildViews(bar, chosen, choose) {
  const views = html("div", { class: "qf-map-views", role: "radiogroup", "aria-label": "what the colours show" }, bar);
  for (const [name, label] of Object.entries(MAP_VIEWS)) {
    button({ role: "radio", "aria-checked": name === chosen, "data-view": name }, views, label, () => {
      for (const one of views.children) set(one, { "aria-checked": one.dataset.view === name });
      choose(name);
    });
  }
}

function drawMap(field, axes, on) {
  const isPhone = isPhonePage();
  field.innerHTML = isPhone ? axes.phone : axes.drawing;
  const root = field.firstElementChild;
  root.removeAttribute("width");
  root.classList.toggle("qf-is-phone", isPhone);
  // The positions of the cells and the key are read from the kernel's drawing, which has room for a run beside them.
  const box = (query) =>
    ["x", "y", "width", "height"].map((name) => Number(root.querySelector(query).getAttribute(name)));
  const [left, top, wide, high] = box(".qf-map-ground");
  const [side, key] = box(".qf-map-key rect");
  const { width, height } = root.viewBox.baseVal;
  const run = isPhone ? { y: height + 14, width: width - side } : { y: 150, width: 476 };
  set(root, { viewBox: isPhone ? `0 0 ${width} ${run.y + 230}` : `0 0 ${side + 500} ${height}` });
  const { across, up, safe, limit } = axes;
  const [columns, rows] = [across.values.length, up.values.length];
  const [w, h] = [wide / columns, high / rows];
  const floor = top + high;
  const layer = root.querySelector(".qf-map-cells");
  layer.replaceChildren();
  const rects = safe.map((_, place) => {
    const [x, y] = [left + (place % columns) * w, floor - (Math.floor(place / columns) + 1) * h];
    return svg(
      "rect",
      { x: x.toFixed(2), y: y.toFixed(2), width: (w + 0.3).toFixed(2), height: (h + 0.3).toFixed(2) },
      layer,
    );
  });
  const ring = svg("rect", { width: w + 2, height: h + 2, class: "qf-map-ring", visibility: "hidden" }, root);
  const dot = svg("circle", { r: 7, class: "qf-map-dot" }, root);
  svg("title", {}, dot, "the lab is here");
  const panel = drawPanel(root, axes, side, key, run);

  const placeAt = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
    const [column, row] = [Math.floor((at.x - left) / w), Math.floor((floor - at.y) / h)];
    return column < 0 || column >= columns || row < 0 || row >= rows ? -1 : row * columns + column;
  };
  root.onpointermove = (event) => placeAt(event) >= 0 && on.point(placeAt(event));
  root.onclick = (event) => placeAt(event) >= 0 && on.choose(placeAt(event));

  return {
    fill(cells, view) {
      const deepest = limit || Math.max(1, ...cells.map((cell) => cell?.depth ?? 0));
      rects.forEach((rect, place) => set(rect, dressOf(cells, place, columns, safe[place], view, deepest)));
      panel.key(view, deepest);
    },
    point(place, cells) {
      const [row, column] = [Math.floor(place / columns), place % columns];
      set(ring, { x: left + column * w - 1, y: floor - (row + 1) * h - 1, visibility: "visible" });
      panel.show(across.values[column], up.values[row], cells[place], safe[place]);
    },
    place([stop, capacity]) {
      set(dot, {
        cx: left + (stepsTo(across.values, stop) + 0.5) * w,
        cy: floor - (stepsTo(up.values, capacity) + 0.5) * h,
        "data-stop": stop,
        "data-capacity": capacity,
      });
    },
    nearest: ([stop, capacity]) =>
      Math.round(stepsTo(up.values, capacity)) * columns + Math.round(stepsTo(across.values, stop)),
  };
}

// The look of a cell; one without a result looks like the coarser cell that contains it.
function dressOf(cells, place, columns, isSafe, view, deepest) {
  const [row, column] = [Math.floor(place / columns), place % columns];
  const holder = (stride) => cells[(row - (row % stride)) * columns + column - (column % stride)];
  const stride = MAP_STRIDES.find(holder);
  const cell = stride && holder(stride);
  const guess = stride > 1 ? " qf-map-guess" : "";
  // That a cell is safe by the law is known without its run; the luck of a neighbour is not its own.
  const isOwn = cell && (stride === 1 || view !== "kind" || (!isSafe && cell.kind !== "safe"));
  if (!isOwn) return { class: isSafe ? "qf-map-unknown qf-map-promised" : "qf-map-unknown", style: "" };
  if (view === "kind") return { class: `qf-map-cell qf-map-${cell.kind}${guess}`, style: "" };
  const share = view === "depth" ? cell.depth / deepest : cell.blocked;
  return {
    class: `qf-map-cell qf-map-heat${guess}`,
    style: `fill-opacity:${(0.06 + 0.94 * Math.min(1, share)).toFixed(3)}`,
  };
}

// The position of a value on an axis, in steps.
function stepsTo(values, value) {
  const next = values.findIndex((one) => one >= value);
  if (next < 0) return values.length - 1;
  if (next === 0) return 0;
  return next - (values[next] - value) / (values[next] - values[next - 1]);
}

// Beside the map, or below it: the key of the shades, and the run of the cell that is pointed at.
function drawPanel(root, { limit, producers }, side, key, { y, width }) {
  const kinds = root.querySelector(".qf-map-key");
  const shades = svg("g", {}, root);
  for (let part = 0; part < 20; part += 1)
    svg(
      "rect",
      {
        x: side + part * 12,
        y: key + 2,
        width: 12,
        height: 16,
        class: "qf-map-heat",
        style: `fill-opacity:${0.06 + (0.94 * part) / 19}`,
      },
      shades,
    );
  const least = svg("text", { x: side, y: key + 36, class: "qf-map-facts" }, shades);
  const most = svg("text", { x: side + 240, y: key + 36, class: "qf-map-facts qf-map-tick-up" }, shades);
  const run = svg("g", { class: "qf-map-run" }, root);
  const form = { left: side + 56, right: 0, width: side + width, top: y + 62, height: 134 };
  const title = svg("text", { x: side, y, class: "qf-map-title" }, run, "point at a cell to see its run");
  const facts = svg("text", { x: side, y: y + 22, class: "qf-map-facts", "aria-live": "polite" }, run);
  const waited = svg("text", { x: side, y: y + 42, class: "qf-map-facts" }, run);
  const plot = svg("g", {}, run);
  return {
    key(view, deepest) {
      set(kinds, { visibility: view === "kind" ? "visible" : "hidden" });
      set(shades, { visibility: view === "kind" ? "hidden" : "visible" });
      write(least, view === "depth" ? "0 messages" : "never");
      write(most, view === "depth" ? `${deepest} messages` : "always");
    },
    show(stop, capacity, cell, isSafe) {
      write(title, `stop ${stop}, capacity ${capacity}`);
      plot.replaceChildren();
      write(facts, isSafe ? "safe by the law; not run yet" : "not run yet");
      write(waited, "");
      if (!cell) return;
      const deaths = cell.died
        ? `${cell.died} of ${producers} sessions died (506)`
        : isSafe
          ? "safe"
          : "no session died";
      write(facts, `greatest depth ${cell.depth}${limit ? ` of ${limit}` : ""} · ${deaths}`);
      write(waited, `producers waited ${Math.round(cell.blocked * 100)} % of the time`);
      drawCourse(
        plot,
        cell,
        [
          ["limit", limit],
          ["stop", stop],
        ],
        form,
      );
    },
  };
}

// Draw the depth over time in one run, with the limit and the thresholds.
function drawCourse(plot, { course, depth }, levels, form) {
  const { left, top, height, width } = form;
  const bottom = top + height;
  const scale = HEADROOM * Math.max(depth, ...levels.map(([, level]) => level));
  const y = heightOf(scale, top, bottom);
  const step = (width - left) / course.length;
  const way = course
    .map(
      (share, part) => `${part ? "L" : "M"}${(left + (part + 0.5) * step).toFixed(1)},${y(share * depth).toFixed(1)}`,
    )
    .join("");
  drawFrame(plot, form);
  svg("path", { class: "qf-map-area", d: `${way}V${bottom}H${(left + step / 2).toFixed(1)}Z` }, plot);
  drawLevels(
    plot,
    levels.sort(([, one], [, other]) => other - one),
    scale,
    y,
    form,
  );
  svg(
    "text",
    { x: (left + width) / 2, y: bottom + 18, class: "qf-tick" },
    plot,
    "time, until the last message is sent",
  );
}

export default { render };
