// Guess: a question asked in the picture. The run pauses, the learner drags a mark on the tank to the expected depth,
// or chooses a client, and the run continues to the instant that answers; the mark stays, with the true value beside
// it. The kernel sends where to pause, the answer and the comment; this module only draws. The page learns of a guess
// by the event qflow-prediction, whose default action is to continue the run.

import { levelsOf } from "./axes.js";
import { clamp } from "./numbers.js";
import {
  bringIntoView,
  button,
  drag,
  html,
  isLive,
  keepFocus,
  mayFocus,
  set,
  stepsOf,
  svg,
  textWidth,
  write,
} from "./svg.js";

const SNAP = 5;
// As wide as the number of a mark in a tank.
const NUMBER = 50;

export class Guess {
  constructor(root, model, player, shown) {
    Object.assign(this, { root, model, player, shown, value: null, isUnderway: false });
    this.box = html("section", { class: "qf-ask", "aria-label": "A question about this picture", hidden: "" }, root);
    this.count = html("span", { class: "qf-ask-count" }, this.box);
    this.question = html(
      "p",
      { class: "qf-ask-question", id: `qf-ask-${crypto.getRandomValues(new Uint32Array(1))[0]}` },
      this.box,
    );
    this.form = html("form", { class: "qf-ask-form" }, this.box);
    this.label = html("label", {}, this.form, "messages ");
    this.field = html("input", { type: "number", min: 0, step: 1, "aria-describedby": this.question.id }, this.label);
    this.choices = html(
      "span",
      { role: "radiogroup", class: "qf-ask-choices", "aria-labelledby": this.question.id },
      this.form,
    );
    this.sure = html("select", { "aria-label": "How sure" }, this.form);
    this.go = html("button", { type: "submit", class: "qf-ask-go" }, this.form, "go");
    this.wants = html("span", { class: "qf-ask-wants", id: `${this.question.id}-wants` }, this.form);
    set(this.go, { "aria-describedby": this.wants.id });
    this.skip = button({ class: "qf-ask-skip" }, this.form, "no guess", () => this.send(null));
    this.told = html("p", { class: "qf-ask-told", "aria-live": "polite" }, this.box);
    this.next = button({ class: "qf-ask-next" }, this.box, "", () => {
      this.next.disabled = true;
      this.model.send({ ask: "next" });
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(this.value);
    });
    this.field.addEventListener("input", () => this.field.value !== "" && this.put(Number(this.field.value)));
    // Keys that move through the run are blocked, as they would reveal the answer.
    root.addEventListener("keydown", (event) => this.keep(event), true);
    root.addEventListener(
      "click",
      (event) => {
        if (!this.asks || event.target.closest(".qf-ask, .qf-top")) return;
        event.stopPropagation();
        const name = event.target.closest("[data-name]")?.dataset.name;
        if (this.isOpen && this.asking.choices.includes(name)) this.choose(name);
      },
      true,
    );
    this.marks = null;
    // The guesses of the other learners in a class, which the page receives when its own guess is no longer held.
    this.room = new Map();
    this.heed = ({ detail: { id, answers } }) => {
      if (String(this.room.get(id)) === String(answers)) return;
      this.room.set(id, answers);
      if (this.asking.question !== id || !this.isAnswered || this.isUnderway) return;
      this.draw();
      this.say();
    };
    document.addEventListener("qflow-room", this.heed);
  }

  leave() {
    document.removeEventListener("qflow-room", this.heed);
  }

  // Whether a question is open or answered, and which.
  get asks() {
    return Boolean(this.asking.question);
  }

  get asking() {
    return this.model.get("asking") ?? {};
  }

  get isAnswered() {
    return this.asking.answer !== undefined;
  }

  get isOpen() {
    return this.asks && !this.isAnswered && !this.isUnderway;
  }

  // Load another question, an answer, or the end of the questions.
  load() {
    keepFocus(this.root, () => this.pose(), this.root);
  }

  pose() {
    const { asking } = this;
    const wasAsking = !this.box.hidden;
    this.posed = this.player.track && this.asking.question;
    this.box.hidden = !this.asks;
    this.root.classList.toggle("qf-is-asking", this.asks);
    for (const handle of this.root.querySelectorAll("[data-handle]")) set(handle, { tabindex: this.asks ? -1 : 0 });
    if (!this.asks) {
      this.marks?.remove();
      this.shown[0]?.stage.classList.remove("qf-hides-depth");
      if (wasAsking) this.player.play();
      return;
    }
    write(this.count, asking.of > 1 ? `${asking.number} of ${asking.of}` : "");
    write(this.question, asking.question);
    this.root.classList.toggle("qf-is-answered", false);
    this.form.hidden = this.isAnswered;
    this.told.hidden = this.next.hidden = true;
    this.next.disabled = false;
    write(this.next, asking.number < asking.of ? "next question" : "play on");
    if (!this.isAnswered) this.begin(asking);
    if (!this.isAnswered || this.tell()) this.goTo(asking.frame);
  }

  // Announce the guess. A listener that holds the run (a class, until the teacher opens the question) continues it by
  // calling `goOn`.
  tell() {
    const { question, guess, choices, word, answer, frame } = this.asking;
    if (guess === null) return true;
    const {
      name,
      max_count: limit,
      stop_count: stop,
      resume_count: resume,
    } = this.shown[0].timeline.topology.queues[0];
    const about = choices.length
      ? { kind: "choice", choices }
      : { kind: "number", tank: { name, most: this.most, limit, stop, resume } };
    const detail = {
      id: question,
      question,
      answer: guess,
      truth: answer,
      word,
      ...about,
      goOn: () => this.goTo(frame),
    };
    const isGoing = document.dispatchEvent(new CustomEvent("qflow-prediction", { detail, cancelable: true }));
    this.isUnderway = !isGoing;
    return isGoing;
  }

  begin({ guess, sure, choices, certainties }) {
    this.value = guess ?? null;
    this.field.value = choices.length ? "" : (guess ?? "");
    this.sure.replaceChildren();
    html("option", { value: "" }, this.sure, "how sure?");
    for (const percent of certainties) html("option", { value: percent }, this.sure, `${percent} % sure`);
    this.sure.value = sure ?? "";
    this.label.hidden = Boolean(choices.length);
    this.choices.hidden = !choices.length;
    this.choices.replaceChildren();
    for (const choice of choices)
      button({ role: "radio", "data-choice": choice }, this.choices, choice, () => this.choose(choice));
  }

  choose(name) {
    this.value = name;
    this.draw();
  }

  // Play until a frame, and stop there.
  goTo(frame) {
    const { player } = this;
    if (!player.track) return;
    this.isUnderway = true;
    player.playTo(player.track.place(0, frame), () => this.arrive());
    this.draw();
  }

  // Called when a run has been drawn: start the questions with it, unless one is already open.
  loaded() {
    if (!this.asks) return;
    if (this.posed === this.asking.question) {
      this.draw();
      return;
    }
    this.player.pause();
    if (!this.isAnswered && this.asking.number === 1) this.player.show(0);
    this.load();
    if (isLive(this.model)) requestAnimationFrame(() => bringIntoView(this.root));
  }

  arrive() {
    this.isUnderway = false;
    this.draw();
    if (!this.isAnswered) {
      if (this.asking.number > 1 && mayFocus(this.root))
        this.form.querySelector(":not([hidden]) > input, [role=radio]:not([hidden] *)")?.focus({ preventScroll: true });
      return;
    }
    this.root.classList.toggle("qf-is-answered", true);
    this.told.hidden = this.next.hidden = false;
    this.say();
    // Do not take the focus from another element of the page.
    if (!mayFocus(this.root)) return;
    bringIntoView(this.root);
    this.next.focus({ preventScroll: true });
  }

  say() {
    write(this.told, [this.asking.said, this.tellRoom()].filter(Boolean).join(" "));
  }

  send(value) {
    if (this.isUnderway || this.isAnswered) return;
    this.model.send({ ask: "guess", guess: value, sure: this.sure.value || null });
  }

  put(value) {
    this.value = Math.round(clamp(value, 0, this.most));
    if (Number(this.field.value) !== this.value || this.field.value === "") this.field.value = this.value;
    this.draw();
  }

  get tank() {
    return this.shown[0]?.drawn.places.tanks[0];
  }

  get most() {
    return Math.floor(this.tank.scale);
  }

  // Draw the mark, and the true value beside it when the run has reached it.
  draw() {
    const hadFocus = this.marks?.contains(document.activeElement);
    this.marks?.remove();
    this.marks = null;
    const { tank } = this;
    const view = this.shown[0];
    if (!this.asks || !view) return;
    // A guess is accepted only where the run pauses, not on the way there.
    this.skip.disabled = !this.isOpen;
    this.go.disabled = !this.isOpen || this.value === null;
    const wanted = this.asking.choices.length ? "choose one first" : "drag the mark or type a number first";
    write(this.wants, !this.go.disabled ? "" : this.isOpen ? wanted : "the run is on its way to the question");
    const truth = this.isAnswered && !this.isUnderway ? this.asking.answer : null;
    if (this.asking.choices.length) {
      this.drawChoices(view, truth);
      return;
    }
    set(this.field, { max: this.most });
    const wide = view.drawn.geometry.tank.width;
    // The mark is drawn above everything that moves, so that its text stays readable.
    this.marks = svg("svg", { class: "qf-guess", viewBox: view.stage.getAttribute("viewBox") }, view.picture);
    view.stage.classList.remove("qf-hides-depth");
    const { isOpen } = this;
    if (isOpen) {
      const area = svg(
        "rect",
        {
          x: tank.left - 8,
          y: tank.top - 14,
          width: wide + 16,
          height: tank.bottom - tank.top + 14,
          class: "qf-guess-catch",
        },
        this.marks,
      );
      this.listen(area);
    }
    const { word } = this.asking;
    if (this.value !== null || isOpen) {
      const at =
        this.value ??
        this.player.track.timelines[0].seen("queue", 0, this.player.track.frame(0, this.player.place)).depth;
      const name = this.value === null ? "drag me" : `${truth === null ? word : "you:"} ${at}`;
      const line = this.drawLine(tank, wide, at, name, "qf-guess-mark", truth !== null && truth >= at);
      if (isOpen) this.asSlider(line, at, hadFocus);
    }
    if (truth !== null) {
      this.drawLine(tank, wide, truth, `${word} ${truth}`, "qf-guess-truth", this.value !== null && truth < this.value);
      this.drawRoom(tank, wide);
    }
  }

  // Draw a dot for each guess of the class; equal guesses are side by side.
  drawRoom(tank, wide) {
    const rows = new Map();
    for (const guess of this.others) {
      const y = tank.y(clamp(guess, 0, this.most));
      const row = Math.round(y / 8);
      rows.set(row, [...(rows.get(row) ?? []), y]);
    }
    for (const row of rows.values()) {
      const pitch = Math.min(8, (wide - NUMBER) / row.length);
      row.forEach((cy, place) => {
        svg("circle", { cx: tank.left + 6 + pitch * place, cy, r: 3.5, class: "qf-guess-other" }, this.marks);
      });
    }
  }

  get others() {
    return this.room.get(this.asking.question) ?? [];
  }

  tellRoom() {
    const { others } = this;
    if (!others.length) return "";
    const counts = new Map();
    for (const guess of others) counts.set(guess, (counts.get(guess) ?? 0) + 1);
    const shown = [...counts].sort(([a, most], [b, more]) => more - most || Number(a) - Number(b)).slice(0, 5);
    const said = shown.map(([guess, count]) => (count > 1 ? `${guess} (${count} times)` : guess)).join(", ");
    return `The others of your class guessed ${said}${counts.size > 5 ? " and more" : ""}.`;
  }

  // Show the chosen client in the banner and in the picture, and beside it the right one.
  drawChoices(view, truth) {
    this.marks = svg("svg", { class: "qf-guess", viewBox: view.stage.getAttribute("viewBox") }, view.picture);
    for (const radio of this.choices.children) {
      set(radio, { "aria-checked": radio.dataset.choice === this.value });
      const client = view.stage.querySelector(`[data-name="${CSS.escape(radio.dataset.choice)}"]`);
      if (client) client.style.cursor = this.isOpen ? "pointer" : "";
    }
    this.drawFrame(view, this.value, truth === null ? this.asking.word : "you", "qf-guess-mark", false);
    if (truth !== null) this.drawFrame(view, truth, this.asking.word, "qf-guess-truth", truth === this.value);
  }

  drawFrame(view, name, word, kind, isBelow) {
    const client = name && view.stage.querySelector(`[data-name="${CSS.escape(name)}"]`);
    if (!client) return;
    const [card, stage] = [client.querySelector(".qf-card") ?? client, view.stage].map((element) =>
      element.getBoundingClientRect(),
    );
    const unit = view.drawn.places.width / stage.width;
    const box = {
      x: (card.left - stage.left) * unit,
      y: (card.top - stage.top) * unit,
      width: card.width * unit,
      height: card.height * unit,
    };
    const frame = svg("g", { class: kind }, this.marks);
    const inset = isBelow ? 7 : 2;
    svg(
      "rect",
      {
        x: box.x + inset,
        y: box.y + inset,
        width: box.width - 2 * inset,
        height: box.height - 2 * inset,
        rx: 8,
        class: "qf-guess-frame",
      },
      frame,
    );
    const room = 18 + 1.2 * textWidth(word);
    drawPill(
      frame,
      box.x + box.width - room - 8,
      isBelow ? box.y + box.height - 11 : Math.max(1, box.y - 11),
      room,
      word,
    );
  }

  drawLine(tank, wide, value, name, kind, isBelow) {
    const [view] = this.shown;
    const y = tank.y(value);
    const line = svg("g", { class: kind }, this.marks);
    svg("line", { x1: tank.left - 10, x2: tank.left + wide + 10, y1: y, y2: y }, line);
    // The mark extends as far as the names of the levels leave room.
    const hasRoom = this.isAnswered && this.others.length > 0;
    const words = hasRoom ? String(value) : name;
    const room = Math.min(wide + 20, 22 + 1.2 * textWidth(words));
    const down = (isBelow && y + 24 < tank.bottom) || y - 24 < tank.top - 12 ? 3 : -25;
    drawPill(line, tank.left + (hasRoom ? wide + 8 - room : (wide - room) / 2), y + down, room, words);
    // The number on the tank moves out of the way of the mark.
    const number = view.stage.querySelector(".qf-depth")?.getBBox();
    if (number && y + down < number.y + number.height + 18 && y + down + 22 > number.y)
      view.stage.classList.add("qf-hides-depth");
    return line;
  }

  asSlider(line, at, hasFocus) {
    set(line, {
      role: "slider",
      tabindex: 0,
      "aria-label": this.asking.question,
      "aria-valuemin": 0,
      "aria-valuemax": this.most,
      "aria-valuenow": at,
      "aria-valuetext": this.value === null ? "no guess yet" : `${this.asking.word} ${at}`,
    });
    if (hasFocus) line.focus({ preventScroll: true });
    this.listen(line);
  }

  // A pointer anywhere on the tank moves the mark there; near a level of the queue, the mark snaps to it.
  listen(element) {
    const move = ({ clientY }) => this.put(this.valueAt(clientY));
    drag(element, (event) => {
      move(event);
      this.shown[0].picture.querySelector(".qf-guess-mark")?.focus({ preventScroll: true });
      return { move };
    });
  }

  valueAt(clientY) {
    const view = this.shown[0];
    const { tank } = this;
    const box = view.stage.getBoundingClientRect();
    const y = ((clientY - box.top) * view.drawn.places.height) / box.height;
    const spot = view.timeline.topology.queues[0];
    const near = levelsOf(spot).find(([, level]) => Math.abs(tank.y(level) - y) < SNAP)?.[1];
    return near ?? (tank.y(0) - y) / (tank.y(0) - tank.y(1));
  }

  // Arrow keys move the mark; no key moves the run before it has answered the question.
  keep(event) {
    if (!this.asks || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.box.contains(event.target) || event.key === "Tab") {
      event.stopPropagation();
      if (event.key !== "Tab" && event.target === this.box) event.preventDefault();
      return;
    }
    event.stopPropagation();
    const by = stepsOf(event);
    const isMark = event.target.closest?.(".qf-guess-mark");
    if (isMark && by) this.put(Number(isMark.getAttribute("aria-valuenow")) + by);
    if (isMark && event.key === "Enter") this.send(this.value);
    event.preventDefault();
  }
}

function drawPill(parent, x, y, width, words) {
  svg("rect", { x, y, width, height: 22, rx: 11 }, parent);
  svg("text", { x: x + width / 2, y: y + 15.5 }, parent, words);
}
