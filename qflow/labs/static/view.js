// View: one run with its name, stage, sentences and plots.

import { buildConveyor } from "./conveyor.js";
import { AGAIN, colorOf, shapeOf } from "./glyphs.js";
import { Brush } from "./marks.js";
import { buildPlots } from "./plot.js";
import { buildStage, roomOf } from "./stage.js";
import { buildSession } from "./strip.js";
import { html, keepFocus, patterns, set, svg, textWidth, write } from "./svg.js";
import { NEVER } from "./timeline.js";
import { caption, captionAt, outlookSentence, stateSentence, stepSentence } from "./words.js";

// The forms of drawing other than tanks and gates.
const FORMS = { conveyor: buildConveyor, strip: buildSession };

// While the picture plays, a screen reader announces only these turns, at most one per second for all runs; otherwise
// there would be sixty sentences a second.
const ANNOUNCED = ["turned_on", "turned_on_bytes", "turned_on_at", "turned_off", "refused", "died", "destroyed"];
const announced = { at: -Infinity };

const MOST_TALL = 400;
const MOST_TALL_BESIDE = 330;

// One run with its name, stage, sentences and plots. The elements are kept when another run is drawn in them.
export class View {
  constructor(parent, index) {
    this.root = html("div", { class: "qf-view", "data-view": index }, parent);
    this.name = html("h4", { class: "qf-view-name", hidden: "" }, this.root);
    this.picture = html("div", { class: "qf-picture" }, this.root);
    this.stage = svg(
      "svg",
      { class: "qf-stage", role: "group", "aria-label": "Producers, queues and consumers" },
      this.picture,
    );
    this.brush = new Brush(html("canvas", { "aria-hidden": "true" }, this.picture), this.picture);
    this.brush.heed(() => this.now && this.drawn.paintMarks(this.brush, this.now, this.before));
    this.callout = html("div", { class: "qf-callout", role: "alert" }, this.picture);
    this.says = html("div", { class: "qf-says" }, this.root);
    const line = html("div", {}, this.says);
    this.step = html("p", { class: "qf-step" }, line);
    this.outlook = html("p", { class: "qf-outlook" }, line);
    this.heard = html("p", { class: "qf-heard", "aria-live": "polite" }, this.root);
    this.state = html("p", { class: "qf-state qf-extra" }, this.root);
    this.plots = html("div", { class: "qf-plots" }, this.root);
  }

  load(timeline, id, track, seek) {
    const { isNarrow } = track;
    this.timeline = timeline;
    this.name.hidden = !timeline.picture.name;
    // A note about the run, below its name.
    const [name, note] = (timeline.picture.name ?? "").split(" (");
    this.name.replaceChildren(name);
    if (note) html("small", {}, this.name, `(${note}`);
    const form = FORMS[timeline.picture.form];
    this.drawn = form
      ? form(this.stage, timeline, isNarrow)
      : buildStage(this.stage, timeline, id, isNarrow, roomOf(track));
    this.plots.hidden = Boolean(form);
    this.root.classList.toggle("qf-has-form", Boolean(form));
    this.paintPlots = form ? () => {} : buildPlots(this.plots, timeline, id, seek, isNarrow, track.room, this.ghost);
    this.brush.forget(timeline.picture.groups);
    const { width, tank } = this.drawn.geometry;
    // A tall drawing is made narrower, so that the lab fits on a screen.
    this.picture.style.setProperty("--qf-shape", width / this.drawn.places.height);
    this.picture.style.maxWidth =
      form || timeline.isPhone
        ? ""
        : `${Math.round(((isNarrow ? MOST_TALL_BESIDE : MOST_TALL) * width) / this.drawn.places.height)}px`;
    this.reserve(timeline, track.timelines);
    if (track.timelines.length > 1) this.says.after(this.callout);
    else this.picture.append(this.callout);
    // If there is only one queue, there is most room beside its name.
    const [queue, ...others] = timeline.topology.queues;
    const beside = others.length
      ? tank.width
      : Math.max(1.65 * textWidth(`${queue.name}${queue.policy ?? ""}`), 1.65 * textWidth("1000 messages"));
    set(this.callout, { style: `left:${(100 * (tank.x + beside + 16)) / width}%` });
    this.before = -1;
    this.plotted = this.painted = 0;
    this.announcedTurn = undefined;
  }

  // If there are several runs, room for the text of a refusal is reserved from the beginning, beside another that has
  // it, too.
  reserve(timeline, timelines) {
    const [first] = (timelines.length > 2 ? [timeline] : timelines).filter(({ picture }) => picture.deaths.length);
    const [death] = first?.picture.deaths ?? [];
    this.root.classList.toggle("qf-dies", Boolean(death));
    if (death) this.tell(first, death);
  }

  tell(timeline, death) {
    this.told = death;
    this.callout.replaceChildren();
    html("b", {}, this.callout, `${timeline.topology.producers[death[1]].name} is dead`);
    html("span", {}, this.callout, ` ${death[2]}`);
  }

  // Everything shows the same instant: the marks at its time, the texts and numbers of its frame.
  paint(frame, now) {
    const { timeline } = this;
    const clock = performance.now();
    this.now = now;
    // A browser without a graphics card redraws everything between two changes, so the cursor moves ten times a
    // second.
    if (!now.isPlaying || clock - this.plotted > 100) {
      this.paintPlots(frame, now.time);
      this.plotted = clock;
    }
    const counted = this.drawn.count?.(now, frame) ?? null;
    if (frame !== this.before || counted?.key !== this.counted) {
      this.counted = counted?.key;
      // A leaving message removes its element; if it had the focus, its client or the lab gets it.
      const client = document.activeElement.closest?.(".qf-consumer, .qf-producer");
      const lab = this.root.closest(".qflow-scene");
      keepFocus(this.stage, () => this.drawn.paint(frame, counted), client, lab);
      mark(this.stage, timeline, frame);
      this.paintDeath(frame);
    }
    this.drawn.paintMarks(this.brush, now, frame);
    if (now.isPlaying) this.brush.keepUp(clock - this.painted);
    this.painted = clock;
    this.plots.classList.toggle(
      "qf-extra",
      !timeline.topology.queues.some((queue) => queue.stop_count || queue.stop_size),
    );
    write(
      this.step,
      timeline.picture.captions
        ? captionAt(timeline.picture, frame)
        : now.isPlaying
          ? caption(timeline, frame)
          : stepSentence(timeline, frame),
    );
    write(this.outlook, outlookSentence(timeline, frame, counted));
    // A step that the reader requested is announced to screen readers; a step of a playing run is not.
    set(this.step, { "aria-live": now.isPlaying ? "off" : "polite" });
    if (now.isPlaying) this.announce(frame, clock);
    write(this.state, stateSentence(timeline, frame, counted));
    this.before = frame;
  }

  recolour() {
    this.brush.forget();
    if (this.now) this.drawn.paintMarks(this.brush, this.now, this.before);
  }

  announce(frame, clock) {
    const { picture } = this.timeline;
    const bits = ANNOUNCED.reduce((sum, part) => sum | (1 << picture.words.parts.indexOf(part)), 0);
    const turn = picture.turns.findLast((at) => at <= frame && this.timeline.step(at).parts & bits);
    if (turn === undefined || turn === this.announcedTurn || clock - announced.at < 1000) return;
    [this.announcedTurn, announced.at] = [turn, clock];
    write(this.heard, caption(this.timeline, turn));
  }

  // Show the broker's error text where it happened.
  paintDeath(frame) {
    const death = this.timeline.picture.deaths.findLast(([at]) => at <= frame);
    this.callout.classList.toggle("qf-is-shown", Boolean(death));
    if (death && this.told !== death) this.tell(this.timeline, death);
  }
}

// Build the legend of marks and signs, once for all runs.
export function buildKey(views, timelines, id, width) {
  const [timeline] = [...timelines].sort((one, other) => other.picture.groups.length - one.picture.groups.length);
  const before = views.parentElement.querySelector(".qf-key");
  const said = JSON.stringify([timeline.picture.form, timeline.picture.groups, hasAgain(timeline), width]);
  if (before?.said === said) return;
  before?.remove();
  const key = Object.assign(html("div", { class: timelines.length > 1 ? "qf-key qf-extra" : "qf-key" }), { said });
  views.after(key);
  const drawing = svg("svg", { role: "img", "aria-label": "What the marks mean" }, key);
  const lines = buildLegend(drawing, timeline, 14, { width }, patterns(drawing, `${id}-key`));
  set(drawing, { viewBox: `0 0 ${width} ${lines + 20}` });
}

const hasAgain = (timeline) => timeline.stays.columns.again.some((frame) => frame < NEVER);

const TICK = "M-3,0.3L-0.9,2.4L3.2,-2.4";
// The signs in the legend: drawings around 0, 0, of path, fill and edge.
const SIGNS = {
  completion: [
    ["M-6,0a6,6 0 1 0 12,0a6,6 0 1 0 -12,0", "go"],
    [TICK, null, "card"],
  ],
  accept: [[TICK, null, "go"]],
  waits: [
    ["M-6.5,-6.5h13v13h-13z", "card", "stop"],
    ["M-3.5,-3.5h7v7h-7z", "blue"],
  ],
  eye: [
    ["M-7,0Q0,-7.5 7,0Q0,7.5 -7,0Z", "card", "stop"],
    ["M-2.4,0a2.4,2.4 0 1 0 4.8,0a2.4,2.4 0 1 0 -4.8,0", "stop"],
  ],
  passed: [["M-7,-3Q0,6 7,-3", null, "stop"]],
  lock: [
    ["M-3,-1V-3.5A3,3 0 0 1 3,-3.5V-1", null, "stop"],
    ["M-4.5,-1h9v7h-9z", "stop"],
  ],
  wrong: [["M-6,0a6,6 0 1 0 12,0a6,6 0 1 0 -12,0", null, "bad"]],
  flag: [["M-5,6V-6L5,-3L-5,1", "stop-pale", "stop"]],
};
const CIRCLE = SIGNS.wrong[0][0];

// The entries of the legend for each form of drawing.
function entriesOf(timeline, marks) {
  const { form, groups } = timeline.picture;
  const sign = (name) => (group) => {
    for (const [d, fill, edge] of SIGNS[name])
      svg(
        "path",
        { d, style: `fill:${fill ? `var(--qf-${fill})` : "none"}`, "stroke-width": 1.8, ...inEdge(edge) },
        group,
      );
  };
  const cell = (name, fill, isDotted) => (group) => {
    const box = svg("g", { class: name }, group);
    svg("rect", { x: -6.5, y: -6.5, width: 13, height: 13, rx: 2, fill }, box);
    if (isDotted) svg("circle", { r: 2.6, class: "qf-glyph-plain" }, box);
  };
  const held = (group) => svg("path", { d: CIRCLE, fill: marks.held, ...inEdge("stop") }, group);
  const path = (d, looks) => (group) => svg("path", { d, ...looks }, group);
  const again = hasAgain(timeline) ? [[path(AGAIN, { class: "qf-again" }), "redelivered"]] : [];
  if (form === "strip")
    return [
      [sign("completion"), "completion"],
      [held, "held completion"],
      [sign("flag"), "a sync, as long as it waits"],
    ];
  if (form === "conveyor")
    return [
      [sign("eye"), "where a consumer looks"],
      [sign("passed"), "passed over"],
      [sign("lock"), "the number of its group's owner"],
      [path(CIRCLE, { class: "qf-legend-place" }), "at that consumer, still on the queue"],
      [sign("wrong"), "removed before it was added"],
      ...again,
    ];
  const shapes = groups.slice(0, 10).map((name, index) => [name, index + 1]);
  shapes.sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  return [
    [cell("qf-cell qf-cell-free", "none"), "free"],
    [cell("qf-cell qf-cell-full", "none", true), "outstanding"],
    [cell("qf-cell qf-cell-held", marks.held), "completion held"],
    [(group) => svg("rect", { x: -5.5, y: -5.5, width: 11, height: 11, rx: 2, class: "qf-sent" }, group), "on its way"],
    [sign("waits"), "waits to be sent"],
    [cell("qf-entry qf-entry-full", "none"), "on the queue"],
    [cell("qf-taken", marks.taken), "at a consumer, too"],
    [sign("completion"), "completion"],
    [sign("accept"), "accept"],
    ...again,
    ...shapes.map(([name, number]) => [path(shapeOf(number), { fill: colorOf(number), class: "qf-glyph" }), name]),
  ];
}

const inEdge = (colour) => (colour ? { stroke: `var(--qf-${colour})` } : {});

// Build the legend of patterns, marks, signs and shapes; return the position of its last line.
function buildLegend(root, timeline, y, geometry, marks) {
  const group = svg("g", { class: "qf-legend", transform: `translate(8,${y})` }, root);
  let [x, line] = [0, 0];
  for (const [draw, label] of entriesOf(timeline, marks)) {
    const width = 37 + textWidth(label);
    if (x + width > geometry.width - 16) [x, line] = [0, line + 18];
    draw(svg("g", { transform: `translate(${x + 6.5},${line - 4.5})` }, group));
    svg("text", { x: x + 19, y: line }, group, label);
    x += width;
  }
  return line;
}

// Set attributes that tests and scripts of a page can read.
export function mark(stage, timeline, frame) {
  const seen = timeline.seen("queue", 0, frame);
  set(stage, {
    "data-run": timeline.run,
    "data-whole": timeline.isWhole ? "yes" : "no",
    "data-frame": frame,
    "data-frames": timeline.count,
    "data-time": timeline.time(frame),
    "data-depth": seen.depth,
    "data-flow": seen.flow ? "ON" : "OFF",
    "data-held": seen.held,
    "data-stop": timeline.topology.queues[0].stop_count,
    "data-resume": timeline.topology.queues[0].resume_count,
  });
}
