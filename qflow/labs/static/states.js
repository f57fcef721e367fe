// States: the graph of all states that a configuration can reach; a click or the arrow keys choose a state.

import { crossOf } from "./glyphs.js";
import { smooth } from "./numbers.js";
import { html, isPhonePage, keep, listen, set, svg, write } from "./svg.js";

export function renderStates({ model, el }) {
  const root = html(
    "div",
    {
      class: "qflow-scene qf-states",
      tabindex: 0,
      role: "group",
      "aria-label": "States. Arrow keys go along a way, Home goes to the start.",
    },
    el,
  );
  const head = html("p", { class: "qf-states-head", "aria-live": "polite" }, root);
  const stage = svg(
    "svg",
    { class: "qf-graph", role: "img", "aria-label": "All states and the ways between them" },
    root,
  );
  let drawn = null;

  const choose = (node) => {
    model.set("chosen", node);
    model.save_changes();
  };
  const draw = () => {
    drawn = drawStates(stage, model.get("graph"), choose);
    drawn.walk([], model.get("walk"));
    show();
  };
  const show = () => {
    const { nodes } = model.get("graph");
    const chosen = model.get("chosen");
    if (!nodes?.[chosen]) return;
    drawn.show(chosen);
    write(head, `state ${chosen} of ${nodes.length}: ${nodes[chosen][3]}`);
    set(root, { "data-chosen": chosen });
  };
  root.addEventListener("keydown", (event) => {
    const { ways, nodes } = model.get("graph");
    const now = model.get("chosen");
    const on = ways.filter(([from, to]) => from === now && to !== now).map(([, to]) => to);
    const back = ways.filter(([from, to]) => to === now && from !== now).map(([from]) => from);
    const goals = { ArrowRight: on[0], ArrowLeft: Math.min(...back), ArrowUp: now + 1, ArrowDown: now - 1, Home: 0 };
    const goal = goals[event.key];
    if (goal === undefined || !nodes[goal]) return;
    keep(event);
    choose(goal);
  });
  // In the game, a mark moves from state to state.
  let walked = [];
  const walk = () => {
    const next = model.get("walk");
    drawn.walk(walked, next);
    walked = next;
    set(root, { "data-walk": next.join(" ") });
  };
  const leave = listen(model, { graph: draw, chosen: show, walk });
  draw();
  walk();
  return () => {
    leave();
    el.replaceChildren();
  };
}

const FIELD = { width: 1040, height: 260, left: 60, right: 30, top: 46, bottom: 64, dot: 13 };
// On a telephone the key has lines of its own.
const PHONE = { width: 340, height: 284, left: 40, right: 12, top: 46, bottom: 112, dot: 7 };

function drawStates(root, graph, choose) {
  const isPhone = isPhonePage();
  root.replaceChildren();
  root.classList.toggle("qf-is-phone", isPhone);
  const { width, height, left, right, top, bottom, dot } = isPhone ? PHONE : FIELD;
  set(root, { viewBox: `0 0 ${width} ${height}` });
  const { nodes, ways, stop } = graph;
  const deepest = Math.max(1, ...nodes.map(([x]) => x));
  const most = Math.max(1, ...nodes.map(([, y]) => y));
  const x = (depth) => left + ((width - left - right) * depth) / (deepest + 0.3);
  const y = (held) => height - bottom - ((height - top - bottom) * held) / most;
  const radius = Math.max(3.5, Math.min(dot, 260 / nodes.length + 4));

  svg(
    "line",
    {
      x1: x(stop) + (x(1) - x(0)) / 2 + 10,
      x2: x(stop) + (x(1) - x(0)) / 2 + 10,
      y1: 8,
      y2: height - bottom + 8,
      class: "qf-mark qf-mark-stop",
    },
    root,
  );
  svg(
    "text",
    { x: x(stop) + (x(1) - x(0)) / 2 + 16, y: 20, class: "qf-word-stop qf-states-word" },
    root,
    `more than stop ${stop}`,
  );
  for (let depth = 0; depth <= Math.floor(deepest); depth += 1)
    svg("text", { x: x(depth), y: height - bottom + 26, class: "qf-tick" }, root, depth);
  svg("text", { x: width - right, y: height - bottom + 42, class: "qf-level-word" }, root, "messages on the queue");
  drawKey(root, nodes, isPhone ? height - bottom + 62 : height - 8, width);
  svg("text", { x: 8, y: 20, class: "qf-states-word" }, root, "transfers held");
  for (let held = 0; held <= most; held += 1)
    svg("text", { x: left - 26, y: y(held) + 4, class: "qf-level-word" }, root, held);

  const lines = ways.map(([from, to, action]) => {
    const [one, other] = [nodes[from], nodes[to]];
    const bend = Math.sign(x(other[0]) - x(one[0])) * Math.min(26, Math.abs(x(other[0]) - x(one[0])) * 0.18) + 4;
    const middle = [(x(one[0]) + x(other[0])) / 2, (y(one[1]) + y(other[1])) / 2 - bend];
    const line = svg(
      "path",
      { d: `M${x(one[0])},${y(one[1])}Q${middle[0]},${middle[1]} ${x(other[0])},${y(other[1])}`, class: "qf-way" },
      root,
    );
    svg("title", {}, line, action);
    return line;
  });
  const dots = nodes.map(([depth, held, marks, label], node) => {
    const group = svg(
      "g",
      {
        class: `qf-state-node ${marks.map((mark) => `qf-state-${mark}`).join(" ")}`,
        "data-node": node,
        transform: `translate(${x(depth)},${y(held)})`,
      },
      root,
    );
    svg("circle", { r: radius }, group);
    if (marks.includes("overflow")) svg("path", { d: crossOf(radius * 0.6), class: "qf-cross" }, group);
    else if (marks.includes("stalled"))
      svg(
        "rect",
        { x: -radius * 0.5, y: -radius * 0.5, width: radius, height: radius, class: "qf-state-stall" },
        group,
      );
    svg(
      "title",
      {},
      group,
      `state ${node}: ${label}${marks.length ? ` (${marks.map((mark) => graph.marks[mark]).join("; ")})` : ""}`,
    );
    group.addEventListener("click", () => choose(node));
    return group;
  });
  const show = (chosen) => {
    dots.forEach((dot, node) => dot.classList.toggle("qf-chosen", node === chosen));
    lines.forEach((line, index) => {
      const [from, to] = ways[index];
      set(line, { class: from === chosen ? "qf-way qf-way-on" : to === chosen ? "qf-way qf-way-back" : "qf-way" });
    });
  };
  return { show, walk: walker(root, ways, lines, dots, radius) };
}

const STRIDE = 550;

// Show the learner's path: its lines, and a mark that moves along the last of them.
function walker(root, ways, lines, dots, radius) {
  const taken = svg("g", { class: "qf-walk" }, root);
  const mark = svg("circle", { r: radius * 0.62, class: "qf-walker", visibility: "hidden" }, root);
  const lineOf = (from, to) => lines[ways.findIndex(([one, other]) => one === from && other === to)];
  const at = (node) =>
    dots[node]
      .getAttribute("transform")
      .match(/-?[\d.]+/g)
      .map(Number);
  let walking = 0;
  const stand = (node) => {
    const [cx, cy] = at(node);
    set(mark, { cx, cy, "data-at": node });
  };
  return (before, walk) => {
    cancelAnimationFrame(walking);
    taken.replaceChildren();
    set(mark, { visibility: walk.length && dots.length ? "visible" : "hidden" });
    if (!walk.length || walk.some((node) => !dots[node])) return;
    for (let step = 1; step < walk.length; step += 1) {
      const line = lineOf(walk[step - 1], walk[step]);
      if (line) svg("path", { d: line.getAttribute("d"), class: "qf-way-walked" }, taken);
    }
    const here = walk.at(-1);
    const line = walk.length === before.length + 1 && lineOf(before.at(-1), here);
    if (!line || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      stand(here);
      return;
    }
    const [length, begun] = [line.getTotalLength(), performance.now()];
    const step = (now) => {
      const part = Math.min(1, (now - begun) / STRIDE);
      const { x, y } = line.getPointAtLength(length * smooth(part));
      set(mark, { cx: x, cy: y });
      if (part < 1) walking = requestAnimationFrame(step);
      else stand(here);
    };
    walking = requestAnimationFrame(step);
  };
}

// Draw the key of marks, shapes and lines, without those that no state has.
function drawKey(root, nodes, y, width) {
  const has = (mark) => nodes.some(([, , marks]) => marks.includes(mark));
  let x = 34;
  const item = (label, draw) => {
    if (x + 28 + label.length * 6.4 > width) [x, y] = [34, y + 19];
    draw(svg("g", { transform: `translate(${x},${y - 4})` }, root));
    svg("text", { x: x + 16, y, class: "qf-states-word" }, root, label);
    x += 52 + label.length * 6.4;
  };
  const dot = (name) => (group) => {
    set(group, { class: `qf-state-key ${name}` });
    svg("circle", { r: 7 }, group);
    if (name === "qf-state-stalled")
      svg("rect", { x: -3.5, y: -3.5, width: 7, height: 7, class: "qf-state-stall" }, group);
    if (name === "qf-state-overflow") svg("path", { d: crossOf(4), class: "qf-cross" }, group);
  };
  const way = (name) => (group) => svg("path", { d: "M-10,0H10", class: `qf-way ${name}` }, group);
  item("OFF", dot(""));
  if (has("on")) item("ON", dot("qf-state-on"));
  if (has("stalled")) item("no producer can send", dot("qf-state-stalled"));
  if (has("overflow")) item("a session died", dot("qf-state-overflow"));
  item("what can come next", way("qf-way-on"));
  item("what led here", way("qf-way-back"));
}

export default { render: renderStates };
