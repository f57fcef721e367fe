// Scene: the widget. Python sends pictures; this draws them and lets the reader move through them.

function render({ model, el }) {
  const id = `qf-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;
  const root = html("div", { class: "qflow-scene", tabindex: 0, role: "group", "data-lm-suppress-shortcuts": "true" }, el);
  const keys = KEYS.filter(([key]) => isLive(model) || !KERNEL_KEYS.includes(key)).map(([key, does]) => `${key}: ${does}`).join("; ");
  set(root, { "aria-label": `Picture of a run. Keys: ${keys}` });
  const refuse = buildRefusal(root, model);
  const waiting = buildWaiting(root, model);
  const top = html("div", { class: "qf-top" }, root);
  const shown = [];
  let paintTransport = null;

  const paint = (now) => {
    if (!now.track) return;
    shown.forEach((view, index) => view.paint(now.track.frame(index, now.place), now));
    paintTransport(now);
    guess.heed(now);
    story.heed(now);
    // Charts on this page follow; nothing of it is saved, so the kernel never hears of it.
    model.set("cursor", Math.round(now.time));
  };
  const player = new Player(paint);
  const guess = new Guess(root, model, player, shown);
  const views = html("div", { class: "qf-views" }, root);
  const story = new Story(root, player, shown, views);
  // What a page's script may read: how many marks of each kind were shown, and where the picture is.
  root.scene = { player, get shown() { return shown[0].drawn.motion.shown.counts; }, get marks() { return shown[0].drawn.motion.shown.now; } };
  paintTransport = buildTransport(top, player, root);
  const leaveStage = () => document.fullscreenElement !== root && setStage(root, player, false);
  root.addEventListener("fullscreenchange", leaveStage);
  const { tools, why, sharing } = buildTools(root, model, player, keys, shown);
  heedClicks(views, model, player, why);
  heedButtons(views, model, player);
  heedArrows(views);
  root.classList.toggle("qf-is-saved", !isLive(model));
  const leaveSliders = heedSliders(el, player, model);
  const live = new Live(root, model, id);
  const leaveTheme = heedTheme(() => [...shown, ...(live.view ? [live.view] : [])].forEach((view) => view.recolour()));
  let pictures = null;
  let loading = Promise.resolve();
  const load = () => {
    root.classList.toggle("qf-is-empty", model.get("run") === 0 && !model.get("is_followed"));
    // Several of a run's values change at once; its pictures are new ones each time.
    if (model.get("run") === 0 || pictures === model.get("pictures")) return;
    pictures = model.get("pictures");
    loading = draw(pictures, model.get("run"));
  };
  const draw = async (wanted, run) => {
    const timelines = await Promise.all(wanted.map((picture) => timelineOf(picture, run)));
    const before = player.track;
    if (wanted !== pictures || before?.isAsNewAs(run)) return;
    const track = new Track(timelines);
    track.isNarrow = timelines.length > 1 || root.clientWidth < NARROW;
    // The beginning of a run is drawn for the instant that is looked at, or not at all.
    if (before && !track.isWhole && (player.isPlaying || player.time > track.known)) return;
    for (const timeline of timelines) timeline.handles = model.get("handles") ?? [];
    loadViews(views, shown, track, id, player, model);
    el.closest(".qflow-lab")?.classList.toggle("qf-is-partial", !track.isWhole);
    tools.inert = !track.isWhole;
    why.load(timelines, isLive(model));
    sharing.load();
    player.load(track);
    for (const view of shown) view.hand.loaded();
    guess.loaded();
    story.load();
    if (before || guess.asks) return;
    show();
    play();
  };
  const play = () => {
    if (!player.track || !model.get("plays")) return;
    player.show(0);
    if (story.beats.length) story.begin();
    else if (!player.isPlaying) player.toggle();
    // A page keeps its place.
    if (isLive(model)) requestAnimationFrame(() => bringIntoView(root));
  };
  const show = () => {
    const place = model.get("place");
    if (player.track && place && place.time !== undefined) {
      player.show(player.track.at(place.time) - (place.back ?? 0));
      if (!place.plays) player.land();
      else if (!player.isPlaying) player.toggle();
    }
  };
  // An instant is of the run that came with it, which may still be on its way into the picture.
  const go = async () => {
    await loading;
    show();
  };
  const answer = () => why.answer(model.get("answer"));
  // A refusal is an answer to the hand, too.
  const refused = () => {
    refuse();
    for (const view of shown) view.hand.refused(Boolean(model.get("refusal")));
  };
  const changes = {
    run: load, pictures: load, offers: sharing.load, asking: () => guess.load(), refusal: refused, answer, place: go, plays: play,
    progress: waiting, token: sharing.token, actions: sharing.load, is_followed: () => live.load(player),
  };
  // A text beside the lab and the picture light each other up (prose.js).
  changes.lit = () => shown.forEach((view) => light(view.root, model.get("lit")));
  views.addEventListener("pointerover", (event) => model.set("over", event.target.closest("[data-why]")?.dataset.why ?? ""));
  const leaveModel = listen(model, changes);
  load();
  refuse();
  waiting();
  live.load(player);
  return () => {
    // A run that is still being unpacked is not drawn, and does not begin to play.
    pictures = null;
    player.pause();
    live.leave();
    leaveTheme();
    leaveSliders();
    leaveModel();
    el.replaceChildren();
  };
}

// Whether there is a kernel that answers questions.
const isLive = (model) => model.get("is_live") !== false;

// What plays by itself is seen as a whole, if the reader is at it.
function bringIntoView(root) {
  const { top, bottom } = root.getBoundingClientRect();
  if (bottom > 0 && top < window.innerHeight) root.scrollIntoView({ block: "nearest" });
}

// Why there is no new picture, in the broker's words.
function buildRefusal(root, model) {
  const refusal = html("div", { class: "qf-refusal", role: "alert", hidden: "" }, root);
  return () => {
    const text = model.get("refusal");
    refusal.hidden = !text;
    write(refusal, text);
    root.classList.toggle("qf-is-refused", Boolean(text));
  };
}

// What can be asked about the instant that is shown, once the run is whole; by mouse and by keyboard.
function buildTools(root, model, player, keys, shown) {
  const tools = html("div", { class: "qf-tools qf-extra" }, root);
  const why = buildWhy(tools, root, model, player);
  const sharing = buildSharing(tools, root, model, player, shown);
  html("p", { class: "qf-keys qf-extra" }, root, `Keys: ${keys}.`);
  const ready = (act) => () => {
    if (!player.track.isWhole || !isLive(model)) return;
    openMore(root, true);
    act();
  };
  listenToKeys(root, player, { w: ready(() => why.choice.focus()), c: ready(() => sharing.compare()), f: ready(() => sharing.fork()) });
  return { tools, why, sharing };
}

function heedClicks(views, model, player, why) {
  const ask = (event) => {
    const view = event.target.closest(".qf-view");
    const subject = event.target.closest("[data-why]");
    if (!subject || !view || !player.track.isWhole || !isLive(model)) return;
    const near = subject.matches("g.qf-producer, g.qf-consumer, g.qf-queue") && event.clientX ? new DOMRect(event.clientX - 8, event.clientY - 8, 16, 16) : subject.getBoundingClientRect();
    const question = () => why.question(Number(view.dataset.view), subject.dataset.why, near);
    const consumer = subject.closest(".qf-consumer")?.dataset.name;
    if (consumer && subject.classList.contains("qf-slot") && (model.get("actions") ?? []).length) openMenu(view, subject, consumer, model, player, question);
    else question();
  };
  views.addEventListener("click", ask);
  views.addEventListener("keydown", (event) => {
    if (!(event.key === "Enter" && event.target.matches?.(".qf-consumer")) && !(["Enter", " "].includes(event.key) && event.target.matches?.(".qf-slot"))) return;
    event.preventDefault();
    event.stopPropagation();
    ask(event);
  });
}

// Messages that can be answered by hand: one stop for Tab a group, the arrow keys within it, Escape out of it.
function heedArrows(views) {
  views.addEventListener("keydown", (event) => {
    const group = event.target.closest?.(".qf-consumer, .qf-takes");
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!group || !(by || event.key === "Escape") || event.target.closest("[data-handle], .qf-menu")) return;
    const items = [...group.querySelectorAll(".qf-slot[role=button], .qf-take")].filter((one) => one.getAttribute("visibility") !== "hidden");
    const at = items.indexOf(event.target);
    const next = event.key === "Escape" ? group : at < 0 ? event.key === "ArrowDown" && items[0] : items[(at + by + items.length) % items.length];
    if (!next || (event.key === "Escape" && at < 0)) return;
    event.preventDefault();
    event.stopPropagation();
    next.focus();
  });
}

// What is a button or a switch of the drawing itself asks its question of the kernel.
function heedButtons(views, model, player) {
  const ask = (event) => {
    const button = event.target.closest("[data-ask]");
    if (!button || !player.track?.isWhole || !isLive(model)) return;
    event.preventDefault();
    event.stopPropagation();
    model.send({ ...JSON.parse(button.dataset.ask), time: Math.round(player.time), plays: player.isPlaying });
  };
  views.addEventListener("click", ask);
  views.addEventListener("keydown", (event) => ["Enter", " "].includes(event.key) && ask(event));
}

// What can be done with a message that a consumer has.
function openMenu(view, slot, consumer, model, player, question) {
  const plays = player.isPlaying;
  player.pause();
  const picture = view.querySelector(".qf-picture");
  const [label] = slot.dataset.why.split(":").slice(1);
  const [box, around] = [slot.getBoundingClientRect(), picture.getBoundingClientRect()];
  const menu = html("div", { class: "qf-menu", role: "menu", "aria-label": `${label} at ${consumer}`, style: `left:${Math.min(box.left - around.left, around.width - 110)}px;top:${box.bottom - around.top + 4}px` }, picture);
  html("b", {}, menu, label);
  // Removing what has the focus is heard as leaving it.
  let isOpen = true;
  const close = () => {
    if (isOpen) {
      isOpen = false;
      menu.remove();
    }
  };
  const item = (word, act) => {
    const button = html("button", { type: "button", role: "menuitem", "data-verdict": word }, menu, word);
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      close();
      act();
    });
  };
  const settle = (verdict) => () => model.send({ ask: "settle", verdict, plays, message: [consumer, label], frame: player.track.frame(Number(view.dataset.view), player.place), time: player.track.time(player.place) });
  for (const verdict of ["accept", "release", "reject"]) item(verdict, settle(verdict));
  item("why?", question);
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.querySelectorAll("button")];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    event.stopPropagation();
    if (by) items[(items.indexOf(document.activeElement) + by + items.length) % items.length].focus();
    if (event.key === "Escape") close();
    if (by || event.key === "Escape") event.preventDefault();
  });
  menu.addEventListener("focusout", (event) => !menu.contains(event.relatedTarget) && close());
  menu.querySelector("button").focus();
}

// As many views as there are runs, each with its own.
function loadViews(parent, shown, track, id, player, model) {
  const { timelines } = track;
  for (const timeline of timelines) timeline.beside = timelines;
  classify(parent, `qf-views${timelines.length > 1 ? " qf-many" : ""}${timelines.length > 2 ? " qf-crowd" : ""}${timelines.length > 4 ? " qf-three" : ""}${track.isNarrow ? " qf-slim" : ""}${timelines.some(({ picture }) => picture.name?.includes(" (")) ? " qf-is-noted" : ""}`);
  for (const view of shown.splice(timelines.length)) view.root.remove();
  buildKey(parent, timelines, id, track.isNarrow && timelines.length === 1 ? 520 : 1040);
  timelines.forEach((timeline, index) => {
    if (!shown[index]) {
      shown[index] = new View(parent, index);
      shown[index].hand = new Hand(shown[index], model, player);
    }
    shown[index].hand.before(timeline);
    shown[index].load(timeline, `${id}-${index}`, track, (time) => player.seek(time));
  });
}

function buildWhy(tools, root, model, player) {
  return new WhyPanel(tools, root, {
    ask: (picture, subject, number) => {
      player.pause();
      model.send({ ask: "why", picture, subject, number, frame: player.track.frame(picture, player.place) });
    },
    show: (picture, frame) => player.show(player.track.place(picture, frame)),
  });
}

// Drawings of another form than tanks and gates.
const FORMS = { conveyor: buildConveyor, strip: buildSession };

// Pixels; a narrower page, such as that of a telephone, gets the picture that has half of a wide one.
const NARROW = 600;
const MOST_TALL = 400;
const MOST_TALL_BESIDE = 330;

// One run: its name, its stage, its sentences, its plots. The elements stay when another run is drawn in them.
class View {
  constructor(parent, index) {
    this.root = html("div", { class: "qf-view", "data-view": index }, parent);
    this.name = html("h4", { class: "qf-view-name", hidden: "" }, this.root);
    this.picture = html("div", { class: "qf-picture" }, this.root);
    this.stage = svg("svg", { class: "qf-stage", role: "group", "aria-label": "Producers, queues and consumers" }, this.picture);
    this.brush = new Brush(html("canvas", { "aria-hidden": "true" }, this.picture), this.picture);
    this.brush.heed(() => this.now && this.drawn.paintMarks(this.brush, this.now, this.before));
    this.callout = html("div", { class: "qf-callout", role: "alert" }, this.picture);
    this.says = html("div", { class: "qf-says" }, this.root);
    const line = html("div", {}, this.says);
    this.step = html("p", { class: "qf-step" }, line);
    this.outlook = html("p", { class: "qf-outlook" }, line);
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
    this.drawn = form ? form(this.stage, timeline, id, isNarrow) : buildStage(this.stage, timeline, id, isNarrow, roomOf(track));
    this.plots.hidden = Boolean(form);
    this.root.classList.toggle("qf-has-form", Boolean(form));
    this.paintPlots = form ? () => {} : buildPlots(this.plots, timeline, id, seek, isNarrow, track.room, this.ghost);
    this.brush.forget(timeline.picture.groups);
    const { width, tank } = this.drawn.geometry;
    // A tall drawing gets narrower, so that the lab still fits on a screen.
    this.picture.style.setProperty("--qf-shape", width / this.drawn.places.height);
    this.picture.style.maxWidth = form ? "" : `${Math.round(((isNarrow ? MOST_TALL_BESIDE : MOST_TALL) * width) / this.drawn.places.height)}px`;
    this.reserve(timeline, track.timelines);
    if (track.timelines.length > 1) this.says.after(this.callout);
    else this.picture.append(this.callout);
    // Beside the name of the only queue there is the most room.
    const [queue, ...others] = timeline.topology.queues;
    const beside = others.length ? tank.width : Math.max(1.65 * textWidth(`${queue.name}${queue.policy ?? ""}`), 1.65 * textWidth("1000 messages"));
    set(this.callout, { style: `left:${(100 * (tank.x + beside + 16)) / width}%` });
    this.before = -1;
    this.plotted = this.painted = 0;
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
    if (frame !== this.before) {
      this.drawn.paint(frame);
      mark(this.stage, timeline, frame);
      this.paintDeath(frame);
    }
    this.drawn.paintMarks(this.brush, now, frame);
    if (now.isPlaying) this.brush.keepUp(clock - this.painted);
    this.painted = clock;
    this.plots.classList.toggle("qf-extra", !timeline.topology.queues.some((queue) => queue.stop_count || queue.stop_size));
    write(this.step, timeline.picture.captions ? captionAt(timeline.picture, frame) : now.isPlaying ? caption(timeline, frame) : stepSentence(timeline, frame));
    write(this.outlook, outlookSentence(timeline, frame));
    // While the picture moves, a screen reader gets the turns; sixty sentences a second would be too many.
    set(this.step, { "aria-live": "polite" });
    set(this.state, { "aria-live": now.isPlaying ? "off" : "polite" });
    write(this.state, stateSentence(timeline, frame));
    this.before = frame;
  }

  recolour() {
    this.brush.forget();
    if (this.now) this.drawn.paintMarks(this.brush, this.now, this.before);
  }

  // The broker's own words, where it happened.
  paintDeath(frame) {
    const death = this.timeline.picture.deaths.findLast(([at]) => at <= frame);
    this.callout.classList.toggle("qf-is-shown", Boolean(death));
    if (death && this.told !== death) this.tell(this.timeline, death);
  }
}

// What the marks mean, once for all runs.
function buildKey(views, timelines, id, width) {
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

// A run that takes long: how far it is, and a way not to wait for it.
function buildWaiting(root, model) {
  const bar = html("div", { class: "qf-waiting", role: "status", hidden: "" }, root);
  const text = html("span", {}, bar);
  const meter = html("progress", { max: 1 }, bar);
  const cancel = html("button", { type: "button", class: "qf-cancel" }, bar, "cancel");
  cancel.addEventListener("click", () => {
    model.set("cancelled", model.get("running"));
    model.save_changes();
  });
  return () => {
    const part = model.get("progress");
    bar.hidden = !part;
    // Of some work it is not known how much there is: the meter then only shows that it goes on.
    const isKnown = part > 0.01;
    if (isKnown) meter.value = part;
    else meter.removeAttribute("value");
    write(text, isKnown ? `running: ${Math.round(100 * part)} %` : "running …");
  };
}

// What tests and scripts of a page can read off the picture.
function mark(stage, timeline, frame) {
  const seen = timeline.queue(frame, 0);
  set(stage, {
    "data-run": timeline.run,
    "data-whole": timeline.isWhole ? "yes" : "no",
    "data-frame": frame,
    "data-frames": timeline.count,
    "data-time": timeline.time(frame),
    "data-count": seen.depth,
    "data-depth": seen.depth,
    "data-flow": seen.flow ? "ON" : "OFF",
    "data-held": seen.held,
    "data-stop": timeline.topology.queues[0].stop_count,
    "data-resume": timeline.topology.queues[0].resume_count,
  });
}

export default { render };
