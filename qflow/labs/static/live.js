// Live: a picture that follows a running server. Python sends the last two seconds ten times a second, in frames of a
// thirtieth of a second. They are played a little later, so that every mark is seen on its way. The browser reports
// when it has drawn them, and Python sends nothing more before that.

import { Flights } from "./flights.js";
import { Hand } from "./hand.js";
import { roundStep } from "./numbers.js";
import { button, html, set, write } from "./svg.js";
import { inflated, Timeline } from "./timeline.js";
import { Track } from "./track.js";
import { setStage } from "./transport.js";
import { mark, View } from "./view.js";
import { caption } from "./words.js";

// Seconds from an event to its picture: the duration of a transfer's flight, and some more.
const LAG = 0.65;
// The least number of messages that a tank has room for, so that it seldom has to be redrawn.
const ROOM = 10;
const MOST_SQUARES = 20;
const TABLE_EVERY = 250;

// The places of marks, keyed by a name for their row, so that a transfer stays in its cell while the picture moves on.
const follow = (kept, key) => ({ key, before: kept?.now ?? new Map(), now: new Map() });

export class Live {
  constructor(root, model, id) {
    Object.assign(this, {
      root,
      model,
      id: `${id}-live`,
      latest: 0,
      asked: 0,
      content: null,
      numbers: null,
      shape: "",
      most: new Map(),
      request: 0,
      offset: null,
      tabled: -TABLE_EVERY,
      times: [],
    });
    this.kept = {};
    this.hear = (content, buffers) => content.live && this.take(content.live, buffers?.[0]);
  }

  get isFollowing() {
    return Boolean(this.model.get("is_followed"));
  }

  build() {
    if (this.box) return;
    this.model.on("msg:custom", this.hear);
    const { root } = this;
    this.box = html("div", { class: "qf-live" }, null);
    root.prepend(this.box);
    const bar = html("div", { class: "qf-live-bar", role: "toolbar", "aria-label": "Live" }, this.box);
    this.state = html("b", { class: "qf-live-state", role: "status" }, bar);
    const add = (name, label, title, act) => button({ class: `qf-live-${name}`, title }, bar, label, act);
    this.pause = add(
      "pause",
      "pause",
      "Make a still of all that has happened, to step back through and to ask why",
      () => this.ask("pause"),
    );
    this.follow = add("follow", "follow again", "Follow the broker as it runs", () => this.ask("follow"));
    this.stop = add("stop", "stop the server", "End every connection; the trace stays", () => this.ask("stop"));
    add("stage", "full screen", "The whole screen, for a room", () => setStage(root, { draw: () => {} }));
    this.counts = html("span", { class: "qf-live-counts" }, bar);
    this.note = html("p", { class: "qf-live-note", role: "status", hidden: "" }, this.box);
    this.scene = html("div", { class: "qf-live-scene" }, this.box);
    this.senders = html("ul", { class: "qf-crowd qf-crowd-senders", "aria-label": "Clients that send" }, this.scene);
    const middle = html("div", { class: "qf-live-view" }, this.scene);
    this.view = new View(middle, 0);
    this.receivers = html(
      "ul",
      { class: "qf-crowd qf-crowd-receivers", "aria-label": "Clients that receive" },
      this.scene,
    );
    this.table = html("table", { class: "qf-clients" }, this.box);
    this.incidents = html("p", { class: "qf-live-incidents" }, this.box);
    // Dragging a level needs no run here, as nothing is simulated.
    const still = { isPlaying: false, pause: () => {}, play: () => {}, track: { time: () => 0 }, place: 0, pace: 1e6 };
    this.hand = new Hand(this.view, { send: () => {} }, still);
    this.hand.send = (_, value) => this.declare((this.hand.after ?? this.hand.pressed).key, value);
    this.hand.say = () => {};
    // A click on the moving picture makes a still picture, about which questions can be asked.
    middle.addEventListener("click", (event) => {
      const isAfterDrag = performance.now() - (this.dragged ?? -1000) < 500;
      if (event.target.closest("[data-why]") && !event.target.closest("[data-handle]") && !isAfterDrag)
        this.ask("pause");
    });
  }

  ask(what) {
    this.model.send({ ask: what });
    if (what === "pause") write(this.state, "a still is being made …");
  }

  declare(key, value) {
    const [, ...queue] = key.split(" ");
    this.model.send({ ask: "set", setting: "stop", queue: queue.join(" "), value });
    this.dragged = performance.now();
    this.hand.after = this.hand.pressed = this.view.ghost = null;
    this.shape = "";
  }

  // Follow the server, or show the scene of a still picture instead.
  load(player) {
    const { root, isFollowing } = this;
    if (!isFollowing && !this.box) return;
    this.build();
    if (isFollowing) player.pause();
    root.classList.toggle("qf-is-live", isFollowing);
    root.classList.toggle("qf-is-still", !isFollowing);
    this.pause.hidden = !isFollowing;
    this.follow.hidden = isFollowing || Boolean(this.isOver);
    this.stop.hidden = Boolean(this.isOver);
    write(
      this.state,
      isFollowing ? "\u25CF live" : this.isOver ? "the server has stopped" : "a still: the broker goes on",
    );
    if (isFollowing) root.classList.remove("qf-is-empty");
    cancelAnimationFrame(this.request);
    if (!isFollowing) return;
    this.model.send({ ask: "drawn", number: this.latest });
    const tick = () => {
      this.draw();
      this.request = requestAnimationFrame(tick);
    };
    this.request = requestAnimationFrame(tick);
  }

  leave() {
    cancelAnimationFrame(this.request);
    if (this.box) this.model.off("msg:custom", this.hear);
  }

  async take(content, packed) {
    if (content.over) {
      this.isOver = true;
      this.note.hidden = false;
      write(this.note, content.note);
      if (this.content) this.content.note = content.note;
      return this.load({ pause: () => {} });
    }
    const numbers = await inflated(
      packed.buffer ? new Uint8Array(packed.buffer, packed.byteOffset, packed.byteLength) : packed,
    );
    if (content.number <= this.latest) return;
    Object.assign(this, { latest: content.number, content, numbers });
    // The difference between the clocks of the broker and the page, estimated from the message with the shortest
    // delay.
    const offset = content.now - 1000 * performance.now();
    const isFar = this.offset === null || Math.abs(offset - this.offset) > 1e6;
    this.offset = isFar ? offset : Math.max(offset, this.offset - 2000);
  }

  draw() {
    if (this.content && this.numbers) {
      this.renew();
      this.numbers = null;
      this.model.send({ ask: "drawn", number: this.latest });
    }
    if (!this.track) return;
    this.paint();
    this.say();
  }

  renew() {
    const { content, view } = this;
    const timeline = new Timeline(content.picture, content.number, this.numbers);
    timeline.kept = this.places(timeline);
    timeline.most = (kind, index, name) => this.mostOf(timeline, kind, index, name);
    timeline.handles = [["stop", 1, 100000, 1]];
    this.track = new Track([timeline]);
    this.track.stretch(1e6);
    const shape = this.shapeOf(timeline);
    // A handle that is being dragged is kept.
    if (shape === this.shape || (this.shape && this.hand.held)) become(view.timeline, timeline);
    else {
      this.shape = shape;
      this.hand.before(timeline);
      view.load(timeline, this.id, this.track, () => {});
      this.hand.loaded();
    }
    view.brush.groups = timeline.picture.groups;
    if (view.timeline !== timeline) view.drawn.motion.flights = new Flights(view.timeline);
    view.before = -1;
  }

  // The places of marks that were in the picture before.
  places({ sendings, stays, holdings }) {
    const name = (table, row) => (row < 0 ? "" : `${table.get(row, "producer")} ${table.get(row, "number")}`);
    const { cells, piles, slots } = this.kept;
    this.kept = {
      cells: follow(cells, (row) => name(sendings, row)),
      piles: follow(piles, (row) => `${stays.get(row, "queue")} ${name(stays, row)}`),
      slots: follow(
        slots,
        (row) =>
          `${holdings.get(row, "consumer")} ${name(stays, holdings.get(row, "stay"))} ${holdings.get(row, "again")}`,
      ),
    };
    return this.kept;
  }

  mostOf(timeline, kind, index, name) {
    const key = `${kind} ${timeline.topology[`${kind}s`][index].name} ${name}`;
    const seen = Math.max(this.most.get(key) ?? 0, Timeline.prototype.most.call(timeline, kind, index, name));
    this.most.set(key, seen);
    return seen ? Math.max(ROOM, roundStep(seen, 1)) : 0;
  }

  shapeOf(timeline) {
    const { topology, picture } = timeline;
    const levels = topology.queues.map((_, index) =>
      ["depth", "held"].map((name) => timeline.most("queue", index, name)),
    );
    return JSON.stringify([
      { ...topology, end: 0 },
      picture.layout,
      Boolean(picture.groups.length),
      levels,
      this.content.is_crowd,
    ]);
  }

  paint() {
    const { view, track } = this;
    const { timeline } = view;
    const clock = 1000 * performance.now() + this.offset - 1e6 * LAG - track.time(0);
    const frame = track.placeAt(Math.max(0, clock));
    if (!timeline.topology.queues.length) return;
    if (frame !== view.before) {
      view.drawn.paint(frame, view.drawn.count({ clock, pace: 1e6 }, frame));
      mark(view.stage, timeline, frame);
      // A frame covers a thirtieth of a second, so that only its turns are described by a sentence.
      if (timeline.picture.turns.some((turn) => turn <= frame)) write(view.step, caption(timeline, frame));
    }
    view.drawn.paintMarks(view.brush, { clock, pace: 1e6, isPlaying: true }, frame);
    view.before = frame;
    // The number of pictures drawn in the last second, for tests and scripts of the page.
    const now = performance.now();
    this.times.push(now);
    while (this.times[0] < now - 1000) this.times.shift();
    this.box.dataset.pictures = this.times.length;
  }

  // Show the connected clients, and what happened to the messages.
  say() {
    const now = performance.now();
    if (now - this.tabled < TABLE_EVERY) return;
    this.tabled = now;
    const { content } = this;
    const { accepted = 0, released = 0, lost = 0, presettled = 0 } = content.outcomes;
    const counts = [
      [accepted, "accepted"],
      [released, "released"],
      [lost, "ended without an outcome"],
      [presettled, "sent settled"],
    ]
      .filter(([count], place) => count || place < 2)
      .map(([count, word]) => `${count.toLocaleString("en")} ${word}`);
    write(this.counts, `${content.url} \u00B7 ${(content.time / 1e6).toFixed(0)} s \u00B7 ${counts.join(" \u00B7 ")}`);
    this.note.hidden = !content.note;
    write(this.note, content.note);
    const ended = [
      ["Closed", content.incidents],
      ["Links refused", content.refusals],
    ].filter(([, list]) => list.length);
    write(this.incidents, ended.map(([word, list]) => `${word}: ${list.join("; ")}`).join(" \u00B7 "));
    this.scene.classList.toggle("qf-is-crowd", content.is_crowd);
    const rows = content.clients.flatMap((client) => client.links.map((link) => this.row(client, link)));
    const isThere = (row) =>
      row.role === "sender" || content.picture.topology.queues.some((queue) => queue.name === row.node);
    const shown = rows.filter(isThere);
    for (const [list, role] of [
      [this.senders, "sender"],
      [this.receivers, "receiver"],
    ])
      fillCrowd(list, content.is_crowd ? shown.filter((row) => row.role === role) : []);
    fillTable(this.table, content.is_crowd ? [] : shown, content.clients.length);
  }

  row(client, link) {
    const node = link.node || "any address";
    const isSender = link.role === "sender";
    const { accepted = 0, released = 0, lost = 0, presettled = 0 } = link.outcomes ?? {};
    const key = `${client.name} ${link.session} ${link.name}`;
    const most = Math.max(this.most.get(key) ?? 0, link.unsettled);
    this.most.set(key, most);
    const told = isSender
      ? [
          `${accepted} accepted`,
          released && `${released} released`,
          presettled && `${presettled} sent settled`,
          lost && `${lost} ended without an outcome`,
        ]
      : [`${link.delivered} received`, link.is_presettled ? "settled when sent" : `credit ${link.credit}`];
    return {
      role: link.role,
      node,
      name: client.name,
      product: client.product,
      address: client.address,
      isGone: client.is_gone,
      unsettled: link.unsettled,
      most,
      released,
      told: told.filter(Boolean).join(", "),
    };
  }
}

// Update a drawing with newer numbers: the elements built from the old timeline read the numbers from the new one.
function become(old, timeline) {
  for (const name of ["sendings", "stays", "holdings", "locks"]) {
    Object.assign(old[name], timeline[name]);
    timeline[name] = old[name];
  }
  Object.assign(old, timeline, { beside: [old] });
}

const wordOf = (row) =>
  row.isGone ? "gone" : row.role === "sender" ? `${row.unsettled} without an outcome` : `holds ${row.unsettled}`;

function fillTable(table, rows, clients) {
  const head = ["client", "from", "", "now", "most at once", "so far"];
  const cells = rows.map((row) => [
    row.name,
    [row.product, row.address].filter(Boolean).join(", "),
    row.role === "sender" ? `sends to ${row.node}` : `reads ${row.node}`,
    wordOf(row),
    String(row.most),
    row.told,
  ]);
  const text = JSON.stringify(cells);
  if (table.told === text) return;
  table.told = text;
  table.replaceChildren();
  if (!rows.length) {
    html("caption", {}, table, clients ? "" : "No client is connected.");
    return;
  }
  const top = html("tr", {}, html("thead", {}, table));
  for (const word of head) html("th", { scope: "col" }, top, word);
  const body = html("tbody", {}, table);
  cells.forEach((words, index) => {
    const line = html(
      "tr",
      { class: rows[index].isGone ? "qf-is-gone" : rows[index].released ? "qf-has-lost" : "" },
      body,
    );
    words.forEach((word) => html("td", {}, line, word));
  });
}

// A list of many clients with their windows: a square for each transfer without an outcome, or for each message that
// is held.
function fillCrowd(list, rows) {
  rows.sort((one, other) => one.name.localeCompare(other.name, "en", { numeric: true }));
  list.style.setProperty(
    "--qf-rows",
    Math.max(1, Math.ceil(rows.length / (rows.length > 20 ? 3 : rows.length > 8 ? 2 : 1))),
  );
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach((row, index) => {
    const item = list.children[index] ?? buildChip(list);
    const looks = [
      "qf-chip",
      row.isGone && "qf-is-gone",
      !row.isGone && row.unsettled && "qf-is-waiting",
      row.released && "qf-has-lost",
    ];
    set(item, { class: looks.filter(Boolean).join(" ") });
    set(item, {
      title: `${row.name}: ${row.product} ${row.address}, ${row.role === "sender" ? "sends to" : "reads"} ${row.node}`,
      "data-name": row.name,
    });
    const [name, squares, word] = item.children;
    write(name, row.name);
    const shown = Math.min(MOST_SQUARES, Math.max(row.most, 1));
    while (squares.children.length > shown) squares.lastChild.remove();
    while (squares.children.length < shown) html("i", {}, squares);
    const full = row.most > MOST_SQUARES ? Math.round((shown * row.unsettled) / row.most) : row.unsettled;
    [...squares.children].forEach((square, place) => square.classList.toggle("qf-is-full", place < full));
    write(word, row.isGone ? "gone" : `${row.unsettled} \u00B7 ${row.told}`);
  });
}

function buildChip(list) {
  const item = html("li", {}, list);
  for (const name of ["b", "span", "small"]) html(name, {}, item);
  return item;
}
