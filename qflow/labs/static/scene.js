// Scene: the widget that draws pictures. Python sends them; this module draws them and lets the reader move through
// them.

import { Guess } from "./guess.js";
import { Hand, heedSliders } from "./hand.js";
import { Live } from "./live.js";
import { Player } from "./player.js";
import { buildSharing } from "./share.js";
import { Story } from "./story.js";
import { bringIntoView, button, heedTheme, html, isLive, keep, listen, set, write } from "./svg.js";
import { timelineOf } from "./timeline.js";
import { Track } from "./track.js";
import { buildTransport, KERNEL_KEYS, KEYS, listenToKeys, openMore, setStage } from "./transport.js";
import { buildKey, View } from "./view.js";
import { light, WhyPanel } from "./why.js";

export function render({ model, el }) {
  const scene = new Scene(model, el);
  return () => scene.leave();
}

class Scene {
  constructor(model, el) {
    const id = `qf-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;
    const root = html(
      "div",
      { class: "qflow-scene", tabindex: 0, role: "group", "data-lm-suppress-shortcuts": "true" },
      el,
    );
    const shown = [];
    Object.assign(this, { model, el, id, root, shown, pictures: null, loading: Promise.resolve() });
    this.refuse = buildRefusal(root, model);
    this.waiting = buildWaiting(root, model);
    const top = html("div", { class: "qf-top" }, root);
    const player = new Player((now) => this.paint(now));
    this.player = player;
    this.guess = new Guess(root, model, player, shown);
    this.views = html("div", { class: "qf-views" }, root);
    this.story = new Story(root, player, shown, this.views);
    // Read by scripts of a page and tests: the number of marks of each kind that were shown, and the current instant.
    root.scene = {
      player,
      get view() {
        return shown[0];
      },
      get shown() {
        return shown[0].drawn.motion.shown.counts;
      },
      get marks() {
        return shown[0].drawn.motion.shown.now;
      },
    };
    this.paintTransport = buildTransport(top, player, root);
    Object.assign(this, buildTools(root, model, player, shown));
    this.keys = html("p", { class: "qf-keys qf-extra" }, root);
    this.live = new Live(root, model, id);
    this.sayKeys();
    this.heedReader();
    this.heedKernel();
  }

  // The Python of a page may be loaded after its picture.
  sayKeys() {
    const { model, root } = this;
    const keys = KEYS.filter(([key]) => isLive(model) || !KERNEL_KEYS.includes(key))
      .map(([key, does]) => `${key}: ${does}`)
      .join("; ");
    set(root, { "aria-label": `Picture of a run. Keys: ${keys}` });
    write(this.keys, `Keys: ${keys}.`);
    root.classList.toggle("qf-is-saved", !isLive(model));
  }

  heedReader() {
    const { model, root, views, player, shown, live } = this;
    const leaveStage = () => document.fullscreenElement !== root && setStage(root, player, false);
    root.addEventListener("fullscreenchange", leaveStage);
    heedClicks(views, model, player, this.why, shown);
    heedButtons(views, model, player);
    heedArrows(views);
    views.addEventListener("pointerover", (event) =>
      model.set("over", event.target.closest("[data-why]")?.dataset.why ?? ""),
    );
    this.leaveSliders = heedSliders(this.el, player, model);
    this.leaveTheme = heedTheme(() => [...shown, ...(live.view ? [live.view] : [])].forEach((view) => view.recolour()));
  }

  heedKernel() {
    const { model, shown, player, live, sharing, why, waiting, guess } = this;
    const load = () => this.load();
    // A refusal also answers a handle that is being dragged.
    const refused = () => {
      this.refuse();
      for (const view of shown) view.hand.refused(Boolean(model.get("refusal")));
    };
    // The instant belongs to the run that came with it, which may not be drawn yet.
    const go = async () => {
      await this.loading;
      this.show();
    };
    this.leaveModel = listen(model, {
      run: load,
      pictures: load,
      offers: sharing.load,
      asking: () => guess.load(),
      refusal: refused,
      answer: () => why.answer(model.get("answer")),
      place: go,
      plays: () => this.play(),
      progress: waiting,
      token: sharing.token,
      actions: sharing.load,
      is_followed: () => live.load(player),
      is_live: () => this.sayKeys(),
      // Terms in a text beside the lab, and their marks in the picture, highlight each other (prose.js).
      lit: () => shown.forEach((view) => light(view.root, model.get("lit"))),
    });
    this.load();
    this.refuse();
    waiting();
    live.load(player);
  }

  paint(now) {
    if (!now.track) return;
    this.shown.forEach((view, index) => view.paint(now.track.frame(index, now.place), now));
    this.paintTransport(now);
    // Charts on the page follow the cursor; it is not saved, so the kernel does not receive it.
    this.model.set("cursor", Math.round(now.time));
  }

  load() {
    const { model } = this;
    this.root.classList.toggle("qf-is-empty", model.get("run") === 0 && !model.get("is_followed"));
    // Several values of a run change together, but its pictures are always new.
    if (model.get("run") === 0 || this.pictures === model.get("pictures")) return;
    this.pictures = model.get("pictures");
    this.loading = this.draw(this.pictures, model.get("run"));
  }

  async draw(wanted, run) {
    const { model, root, player, shown, why, guess } = this;
    const timelines = await Promise.all(wanted.map((picture) => timelineOf(picture, run)));
    const before = player.track;
    if (wanted !== this.pictures || before?.isAsNewAs(run)) return;
    const track = new Track(timelines);
    track.isNarrow = timelines.length > 1 || root.clientWidth < NARROW;
    // The finished part of an incomplete run is drawn only if it contains the visible instant.
    if (before && !track.isWhole && (player.isPlaying || player.time > track.known)) return;
    const isPhone = root.clientWidth < PHONE;
    for (const timeline of timelines) Object.assign(timeline, { handles: model.get("handles") ?? [], isPhone });
    loadViews(this.views, shown, track, this.id, player, model);
    this.el.closest(".qflow-lab")?.classList.toggle("qf-is-partial", !track.isWhole);
    this.tools.inert = !track.isWhole;
    why.load(timelines, isLive(model));
    this.sharing.load();
    player.load(track);
    for (const view of shown) view.hand.loaded();
    guess.loaded();
    this.story.load();
    if (before || guess.asks) return;
    this.show();
    this.play();
  }

  play() {
    const { model, player, story } = this;
    if (!player.track || !model.get("plays")) return;
    player.show(0);
    if (story.beats.length) story.begin();
    else if (!player.isPlaying) player.toggle();
    // Without a kernel, the page does not scroll.
    if (isLive(model)) requestAnimationFrame(() => bringIntoView(this.root));
  }

  show() {
    const { player } = this;
    const place = this.model.get("place");
    if (!player.track || place?.time === undefined) return;
    player.show(player.track.at(place.time) - (place.back ?? 0));
    if (!place.plays) player.land();
    else if (!player.isPlaying) player.toggle();
  }

  leave() {
    // A run that is still being decompressed is not drawn, and does not play.
    this.pictures = null;
    this.player.pause();
    this.live.leave();
    this.guess.leave();
    this.leaveTheme();
    this.leaveSliders();
    this.leaveModel();
    this.el.replaceChildren();
  }
}

// The refusal, if there is no new picture, in the broker's words.
function buildRefusal(root, model) {
  const refusal = html("div", { class: "qf-refusal", role: "alert", hidden: "" }, root);
  return () => {
    const text = model.get("refusal");
    refusal.hidden = !text;
    write(refusal, text);
    root.classList.toggle("qf-is-refused", Boolean(text));
  };
}

// The tools for the visible instant of a complete run, for mouse and keyboard.
function buildTools(root, model, player, shown) {
  const tools = html("div", { class: "qf-tools qf-extra" }, root);
  const why = buildWhy(tools, root, model, player);
  const sharing = buildSharing(tools, root, model, player, shown);
  const ready = (act) => () => {
    if (!player.track.isWhole || !isLive(model)) return;
    openMore(root, true);
    act();
  };
  listenToKeys(root, player, {
    w: ready(() => why.choice.focus()),
    c: ready(() => sharing.compare()),
    f: ready(() => sharing.fork()),
  });
  return { tools, why, sharing };
}

// The marks behind a gate are on the canvas, which gets no clicks.
function heldUnder(shown, view, { clientX, clientY }) {
  const { stage, drawn } = shown[Number(view.dataset.view)];
  const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(stage.getScreenCTM().inverse());
  return drawn.motion.heldNear?.(x, y);
}

function heedClicks(views, model, player, why, shown) {
  const ask = (event) => {
    const view = event.target.closest(".qf-view");
    const subject = event.target.closest("[data-why]");
    const isAtGate = !subject || subject.matches("g.qf-queue");
    const held = isAtGate && event.clientX && view?.contains(event.target) && heldUnder(shown, view, event);
    if (held && isLive(model) && player.track.isWhole) {
      why.question(
        Number(view.dataset.view),
        `transfer:${held}`,
        new DOMRect(event.clientX - 8, event.clientY - 8, 16, 16),
      );
      return;
    }
    if (!subject || !view || !player.track.isWhole || !isLive(model)) return;
    // The answer is placed so that the whole card or tank in question stays visible.
    const near = (subject.querySelector(":scope > :is(.qf-card, .qf-tank)") ?? subject).getBoundingClientRect();
    const question = () => why.question(Number(view.dataset.view), subject.dataset.why, near);
    const consumer = subject.closest(".qf-consumer")?.dataset.name;
    if (consumer && subject.classList.contains("qf-slot") && (model.get("actions") ?? []).length)
      openMenu(view, subject, consumer, model, player, question);
    else question();
  };
  views.addEventListener("click", ask);
  views.addEventListener("keydown", (event) => {
    const asks = { Enter: ".qf-consumer, .qf-slot", " ": ".qf-slot" }[event.key];
    if (!asks || !event.target.matches?.(asks)) return;
    keep(event);
    ask(event);
  });
}

// Messages that can be settled by hand: one tab stop for each consumer, arrow keys between its messages, Escape to
// leave.
function heedArrows(views) {
  views.addEventListener("keydown", (event) => {
    const group = event.target.closest?.(".qf-consumer, .qf-takes");
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!group || !(by || event.key === "Escape") || event.target.closest("[data-handle], .qf-menu")) return;
    const items = [...group.querySelectorAll(".qf-slot[role=button], .qf-take")].filter(
      (one) => one.getAttribute("visibility") !== "hidden",
    );
    const at = items.indexOf(event.target);
    const next =
      event.key === "Escape"
        ? group
        : at < 0
          ? event.key === "ArrowDown" && items[0]
          : items[(at + by + items.length) % items.length];
    if (!next || (event.key === "Escape" && at < 0)) return;
    keep(event);
    next.focus();
  });
}

// Send the message of a button or switch of the drawing to the kernel.
function heedButtons(views, model, player) {
  const ask = (event) => {
    const asked = event.target.closest("[data-ask]");
    if (!asked || !player.track?.isWhole || !isLive(model)) return;
    keep(event);
    model.send({ ...JSON.parse(asked.dataset.ask), time: Math.round(player.time), plays: player.isPlaying });
  };
  views.addEventListener("click", ask);
  views.addEventListener("keydown", (event) => ["Enter", " "].includes(event.key) && ask(event));
}

// The menu of a message that a consumer holds.
function openMenu(view, slot, consumer, model, player, question) {
  const plays = player.isPlaying;
  player.pause();
  const picture = view.querySelector(".qf-picture");
  const [label] = slot.dataset.why.split(":").slice(1);
  const [box, around] = [slot.getBoundingClientRect(), picture.getBoundingClientRect()];
  const menu = html(
    "div",
    {
      class: "qf-menu",
      role: "menu",
      "aria-label": `${label} at ${consumer}`,
      style: `left:${Math.min(box.left - around.left, around.width - 110)}px;top:${box.bottom - around.top + 4}px`,
    },
    picture,
  );
  html("b", {}, menu, label);
  // Removing the focused element fires a focusout event.
  let isOpen = true;
  const close = () => {
    if (isOpen) {
      isOpen = false;
      menu.remove();
    }
  };
  const item = (word, act) => {
    button({ role: "menuitem", "data-verdict": word }, menu, word, (event) => {
      event.stopPropagation();
      close();
      act();
    });
  };
  const settle = (verdict) => () =>
    model.send({
      ask: "settle",
      verdict,
      plays,
      message: [consumer, label],
      frame: player.track.frame(Number(view.dataset.view), player.place),
      time: player.track.time(player.place),
    });
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

// Make a view for each run.
function loadViews(parent, shown, track, id, player, model) {
  const { timelines } = track;
  for (const timeline of timelines) timeline.beside = timelines;
  const looks = [
    "qf-views",
    timelines.length > 1 && "qf-many",
    timelines.length > 2 && "qf-crowd",
    timelines.length > 4 && "qf-three",
    track.isNarrow && "qf-slim",
    timelines.some(({ picture }) => picture.name?.includes(" (")) && "qf-is-noted",
  ];
  set(parent, { class: looks.filter(Boolean).join(" ") });
  for (const view of shown.splice(timelines.length)) view.root.remove();
  buildKey(parent, timelines, id, timelines[0].isPhone ? 340 : track.isNarrow && timelines.length === 1 ? 520 : 1040);
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

// In pixels. A narrower page gets the drawing that is used for half of a wide one.
const NARROW = 600;

// In pixels. A page as narrow as a phone held upright gets a drawing that goes downwards, with text of full size.
const PHONE = 480;

// The progress of a long run, with a button to cancel it.
function buildWaiting(root, model) {
  const bar = html("div", { class: "qf-waiting", role: "status", hidden: "" }, root);
  const text = html("span", {}, bar);
  const meter = html("progress", { max: 1 }, bar);
  button({ class: "qf-cancel" }, bar, "cancel", () => {
    model.set("cancelled", model.get("running"));
    model.save_changes();
  });
  return () => {
    const part = model.get("progress");
    bar.hidden = !part;
    // If the amount of work is unknown, the meter only shows that it is in progress.
    const isKnown = part > 0.01;
    if (isKnown) meter.value = part;
    else meter.removeAttribute("value");
    write(text, isKnown ? `running: ${Math.round(100 * part)} %` : "running …");
  };
}

export default { render };
