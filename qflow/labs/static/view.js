// View: one run: its name, its stage, its sentences, its plots.

import { buildConveyor } from "./conveyor.js";
import { AGAIN, colorOf, shapeOf } from "./glyphs.js";
import { Brush } from "./marks.js";
import { buildPlots } from "./plot.js";
import { buildStage, roomOf } from "./stage.js";
import { buildSession } from "./strip.js";
import { html, keepFocus, patterns, set, svg, textWidth, write } from "./svg.js";
import { NEVER } from "./timeline.js";
import { caption, captionAt, outlookSentence, stateSentence, stepSentence } from "./words.js";

// Drawings of another form than tanks and gates.
const FORMS = { conveyor: buildConveyor, strip: buildSession };

// While the picture plays, a screen reader hears of these turns only, at most one a second of all that is drawn: the
// clock and each step would be sixty sentences a second.
const ANNOUNCED = ["turned_on", "turned_on_bytes", "turned_on_at", "turned_off", "refused", "died", "destroyed"];
const announced = { at: -Infinity };

const MOST_TALL = 400;
const MOST_TALL_BESIDE = 330;

// One run: its name, its stage, its sentences, its plots. The elements stay when another run is drawn in them.
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
    // What is to be known of the run, below its name.
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
    // A tall drawing gets narrower, so that the lab still fits on a screen.
    this.picture.style.setProperty("--qf-shape", width / this.drawn.places.height);
    this.picture.style.maxWidth =
      form || timeline.isPhone
        ? ""
        : `${Math.round(((isNarrow ? MOST_TALL_BESIDE : MOST_TALL) * width) / this.drawn.places.height)}px`;
    this.reserve(timeline, track.timelines);
    if (track.timelines.length > 1) this.says.after(this.callout);
    else this.picture.append(this.callout);
    // Beside the name of the only queue there is the most room.
    const [queue, ...others] = timeline.topology.queues;
    const beside = others.length
      ? tank.width
      : Math.max(1.65 * textWidth(`${queue.name}${queue.policy ?? ""}`), 1.65 * textWidth("1000 messages"));
    set(this.callout, { style: `left:${(100 * (tank.x + beside + 16)) / width}%` });
    this.before = -1;
    this.plotted = this.painted = 0;
    this.announcedTurn = undefined;
  }

  // Among several runs a refusal has its room from the beginning, beside one that has it too.
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

  // Everything is of the same instant: marks of its time, words and numbers of its frame.
  paint(frame, now) {
    const { timeline } = this;
    const clock = performance.now();
    this.now = now;
    // A browser without a graphics card redraws all that lies between two changes; ten cursors a second do.
    if (!now.isPlaying || clock - this.plotted > 100) {
      this.paintPlots(frame, now.time);
      this.plotted = clock;
    }
    const counted = this.drawn.count?.(now, frame) ?? null;
    if (frame !== this.before || counted?.key !== this.counted) {
      this.counted = counted?.key;
      // A message that leaves takes its element with it: its client, or the lab, has the focus then.
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
    // A step that the reader asked for is an answer; one that plays is not.
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

  // The broker's own words, where it happened.
  paintDeath(frame) {
    const death = this.timeline.picture.deaths.findLast(([at]) => at <= frame);
    this.callout.classList.toggle("qf-is-shown", Boolean(death));
    if (death && this.told !== death) this.tell(this.timeline, death);
  }
}

// What the marks mean, once for all runs.
export function buildKey(views, timelines, id, width) {
  const [timeline] = [...timelines].sort((one, other) => other.picture.groups.length - one.picture.groups.length);
  const isNeeded = !timelines[0].picture.form || (timelines.length > 1 && !FORMS[timelines[0].picture.form]);
  const before = views.parentElement.querySelector(".qf-key");
  const said = isNeeded && JSON.stringify([timeline.picture.groups, hasAgain(timeline), width]);
  if (said && before?.said === said) return;
  before?.remove();
  if (!isNeeded) return;
  const key = Object.assign(html("div", { class: timelines.length > 1 ? "qf-key qf-extra" : "qf-key" }), { said });
  views.after(key);
  const drawing = svg("svg", { role: "img", "aria-label": "What the marks mean" }, key);
  const lines = buildLegend(drawing, timeline, 14, { width }, patterns(drawing, `${id}-key`));
  set(drawing, { viewBox: `0 0 ${width} ${lines + 20}` });
}

const hasAgain = (timeline) => timeline.stays.columns.again.some((frame) => frame < NEVER);

// Legend: what patterns, marks and shapes mean.
function buildLegend(root, timeline, y, geometry, marks) {
  const group = svg("g", { class: "qf-legend", transform: `translate(8,${y})` }, root);
  let [x, line] = [0, 0];
  const item = (draw, label) => {
    const width = 37 + textWidth(label);
    if (x + width > geometry.width - 16) [x, line] = [0, line + 18];
    draw(x, line);
    svg("text", { x: x + 19, y: line }, group, label);
    x += width;
  };
  const cell =
    (name, fill, state = "") =>
    (at, down) => {
      const box = svg("g", { class: name }, group);
      svg("rect", { x: at, y: down - 11, width: 13, height: 13, rx: 2, fill }, box);
      if (state) svg("circle", { cx: at + 6.5, cy: down - 4.5, r: 2.6, class: "qf-glyph-plain" }, box);
    };
  item(cell("qf-cell qf-cell-free", "none"), "free");
  item(cell("qf-cell qf-cell-full", "none", "full"), "outstanding");
  item(cell("qf-cell qf-cell-held", marks.held), "held: its completion is withheld");
  item(
    (at, down) => svg("rect", { x: at + 1, y: down - 10, width: 11, height: 11, rx: 2, class: "qf-sent" }, group),
    "on its way, not counted yet",
  );
  item(cell("qf-entry qf-entry-full", "none"), "waiting on the queue");
  item(cell("qf-taken", marks.taken), "at a consumer, still on the queue");
  if (hasAgain(timeline)) {
    item(
      (at, down) => svg("path", { d: AGAIN, class: "qf-again", transform: `translate(${at + 6},${down - 5})` }, group),
      "redelivered",
    );
  }
  const names = timeline.picture.groups.map((name, index) => [name, index + 1]).slice(0, 10);
  names.sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  const glyph = (number) => (at, down) =>
    svg(
      "path",
      { d: shapeOf(number), fill: colorOf(number), class: "qf-glyph", transform: `translate(${at + 7},${down - 4.5})` },
      group,
    );
  for (const [name, number] of names) item(glyph(number), name);
  return line;
}

// What tests and scripts of a page can read off the picture.
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
