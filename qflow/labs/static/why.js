// Why: answers the question about whatever is clicked or chosen by keyboard. The answer is on a card over the picture,
// placed to cover as little as possible of the subject; nothing moves. It is a chain of causes that link to their
// instants. A pinned card stays.

import { clamp } from "./numbers.js";
import { button, drag, html, set } from "./svg.js";
import { seconds } from "./words.js";

const PATIENCE = 10; // seconds
const GONE = "The kernel of this lab is gone: it was restarted or shut down. Run the lab's cell again, and ask there.";
const SLOW =
  `No answer for ${PATIENCE} seconds: the kernel is busy, or gone. ` +
  "If it was restarted, run the lab's cell again, and ask there.";

export class WhyPanel {
  // ask(picture, subject) sends the question; show(picture, frame) moves to an instant.
  constructor(parent, root, { ask, show }) {
    Object.assign(this, { root, ask, show, number: 0, card: null });
    this.bar = html("div", { class: "qf-why-bar" }, parent);
    const label = html("label", {}, this.bar, "why? ");
    this.choice = html(
      "select",
      {
        class: "qf-why-choice",
        "aria-label": "Ask why about",
        title: "Ask why (W); or click on anything in the picture",
      },
      label,
    );
    // Messages that are visible now can be asked about by keyboard, too.
    this.choice.addEventListener("focus", () => this.offerNow());
    const chosen = () => this.question(Number(this.choice.selectedOptions[0]?.dataset.picture ?? 0), this.choice.value);
    this.choice.addEventListener("change", chosen);
    button({ class: "qf-why-ask", title: "Ask again at this instant" }, this.bar, "ask", chosen);
    root.addEventListener(
      "pointerdown",
      (event) => !event.target.closest(".qf-why, .qf-why-bar") && this.close(),
      true,
    );
    root.addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "Escape" || !this.card) return;
        event.stopPropagation();
        this.close();
      },
      true,
    );
  }

  // An answer belongs to the run that was asked about: a pinned card stays readable, but its links are removed.
  load(timelines, isAnswered) {
    this.number += 1;
    this.close();
    for (const link of this.root.querySelectorAll(".qf-why-link")) link.disabled = true;
    this.bar.hidden = !isAnswered;
    this.choice.replaceChildren();
    html("option", { value: "" }, this.choice, "choose, or click on anything");
    timelines.forEach((timeline, picture) => {
      const name = timeline.picture.name ? `${timeline.picture.name}: ` : "";
      const named = ["producer", "queue", "consumer"].flatMap((kind) =>
        timeline.topology[`${kind}s`].map((spot) => `${kind}:${spot.name}`),
      );
      const groups = timeline.locks.count ? timeline.picture.groups.map((group) => `group:${group}`) : [];
      for (const value of [...named, ...groups])
        html("option", { value, "data-picture": picture }, this.choice, `${name}${value.replace(":", " ")}`);
    });
  }

  // Offer the oldest held transfers, and the messages of the consumers.
  offerNow() {
    for (const option of this.choice.querySelectorAll(".qf-now")) option.remove();
    for (const view of this.root.querySelectorAll(".qf-view")) {
      const add = (selector, most) => {
        for (const cell of [...view.querySelectorAll(selector)].slice(0, most))
          html(
            "option",
            { class: "qf-now", value: cell.dataset.why, "data-picture": view.dataset.view },
            this.choice,
            cell.dataset.why.replace(":", " "),
          );
      };
      add(".qf-cell-held[data-why]", 5);
      add(".qf-slot[data-why]", 5);
    }
  }

  question(picture, subject, near = null) {
    if (!subject) return;
    this.number += 1;
    const option = [...this.choice.options].find(
      (one) => one.value === subject && Number(one.dataset.picture) === picture,
    );
    if (option) option.selected = true;
    this.open(near ?? this.placeOf(picture, subject));
    const asked = `Asking the engine why ${subject.replace(":", " ")} is as it is …`;
    html("p", { class: "qf-why-wait" }, this.card, asked);
    this.settle();
    clearTimeout(this.waiting);
    try {
      this.ask(picture, subject, this.number);
      this.waiting = setTimeout(() => this.excuse(SLOW), PATIENCE * 1000);
    } catch {
      // After a restart of the kernel, nothing can be sent to the old model.
      this.excuse(GONE);
    }
  }

  placeOf(picture, subject) {
    const view = this.root.querySelector(`.qf-view[data-view="${picture}"]`);
    return (
      view.querySelector(`[data-why="${CSS.escape(subject)}"]`) ?? view.querySelector(".qf-picture")
    ).getBoundingClientRect();
  }

  open(near) {
    this.close();
    const around = this.root.getBoundingClientRect();
    this.near = {
      left: near.left - around.left,
      right: near.right - around.left,
      top: near.top - around.top,
      bottom: near.bottom - around.top,
    };
    this.card = html("section", { class: "qf-why", "aria-live": "polite", tabindex: -1 }, this.root);
  }

  close() {
    this.card?.remove();
    this.card = null;
    this.light(0, null);
  }

  // Place the card beside the subject: on the right if there is room, or else on the left, below or above; within the
  // scene, unless it would cover the subject there.
  settle() {
    const { card, near, root } = this;
    const [wide, tall] = [card.offsetWidth, card.offsetHeight];
    const [most, deep] = [root.clientWidth - wide - 8, root.clientHeight - tall - 8];
    const isBeside = near.right + 10 <= most || near.left - 10 - wide >= 8;
    const left =
      near.right + 10 <= most
        ? near.right + 10
        : isBeside
          ? near.left - 10 - wide
          : clamp((near.left + near.right - wide) / 2, 8, Math.max(8, most));
    const isAbove = near.bottom + 10 > deep && near.top - 10 - tall >= 8;
    const besides = clamp((near.top + near.bottom - tall) / 2, 8, Math.max(8, deep));
    const top = isBeside ? besides : isAbove ? near.top - 10 - tall : near.bottom + 10;
    set(card, { style: `left:${Math.round(left)}px;top:${Math.round(top)}px` });
  }

  // Show why there is no answer; a later answer replaces this.
  excuse(text) {
    if (!this.card) return;
    this.card.replaceChildren();
    html("p", { class: "qf-why-refusal" }, this.card, text);
    this.settle();
  }

  answer(found) {
    // Ignore an answer that arrives after a later question.
    if (!found.number || found.number !== this.number || !this.card) return;
    clearTimeout(this.waiting);
    const { card } = this;
    card.replaceChildren();
    const head = html("header", { title: "Drag the answer out of the way" }, card);
    drag(head, (event) => (event.target.closest("button") ? null : carry(card, event)));
    html("b", {}, head, `Why? ${found.subject.replace(":", " ")}`);
    const pin = button({ class: "qf-why-pin", title: "Keep this answer, and ask on" }, head, "pin", () => {
      pin.remove();
      card.classList.add("qf-is-kept");
      if (this.card === card) this.card = null;
    });
    button({ class: "qf-why-close", "aria-label": "Close the answer" }, head, "×", () => {
      if (this.card === card) this.close();
      else card.remove();
      this.root.focus({ preventScroll: true });
    });
    set(card, { "data-subject": found.subject, "data-links": found.links.length });
    if (found.refusal) html("p", { class: "qf-why-refusal" }, card, found.refusal);
    const list = html("ol", {}, card);
    for (const link of found.links) this.link(list, found.picture, link);
    this.settle();
  }

  link(list, picture, link) {
    const item = html("li", { style: `margin-left:${0.9 * link.level}em`, "data-frame": link.frame }, list);
    const jump = button(
      { class: "qf-why-link", title: `Go to step ${link.frame}, ${seconds(link.time)}` },
      item,
      "",
      () => this.show(picture, link.frame),
    );
    html("span", { class: "qf-why-arrow" }, jump, link.level ? "because " : "");
    html("span", {}, jump, link.text);
    const small = html("small", { title: link.section }, item, ` ${seconds(link.time)} · `);
    link.rules.forEach((rule, index) => small.append(index ? ", " : "", ruleLink(rule)));
    small.append(` · ${link.section}`);
    const over = { pointerenter: link.subject, focusin: link.subject, pointerleave: null, focusout: null };
    for (const [name, subject] of Object.entries(over)) item.addEventListener(name, () => this.light(picture, subject));
  }

  // Highlight what a step names; everything else fades, and nothing moves.
  light(picture, subject) {
    light(this.root.querySelector(`.qf-view[data-view="${picture}"]`), subject);
  }
}

// Let the card be dragged.
function carry(card, { clientX, clientY }) {
  const [left, top] = [card.offsetLeft - clientX, card.offsetTop - clientY];
  return { move: (event) => set(card, { style: `left:${left + event.clientX}px;top:${top + event.clientY}px` }) };
}

// Highlight everything in a picture that has the name of a subject. If nothing has it, nothing fades.
export function light(view, subject) {
  const [kind, name] = (subject ?? "").split(":");
  const wanted =
    kind === "setting"
      ? `[data-setting="${CSS.escape(name)}"], [data-law="${CSS.escape(name)}"]`
      : `[data-why="${CSS.escape(subject ?? "")}"]`;
  const lit = subject ? [...view.querySelectorAll(`.qf-stage :is(${wanted})`)] : [];
  for (const one of view?.querySelectorAll(".qf-lit") ?? []) one.classList.remove("qf-lit");
  view?.classList.toggle("qf-lights", lit.length > 0);
  for (const one of lit) one.classList.add("qf-lit");
}

// The id of a rule as a link to the rule book, if that is in the folder of the open notebook.
function ruleLink(rule) {
  const path = decodeURIComponent(location.pathname).match(/^(.*\/tree\/)(.*)$/);
  const folders = path?.[2].split("/").slice(0, -1);
  if (!folders) return html("span", { class: "qf-rule" }, null, rule);
  if (folders.at(-1) === "exercises") folders.splice(-1, 1, ...(folders.length > 1 ? ["notebooks"] : []));
  return html(
    "a",
    {
      class: "qf-rule",
      href: `${path[1]}${[...folders, "reference", "rules.md"].join("/")}`,
      target: "_blank",
      rel: "noopener",
      title: `${rule} in the rule book`,
    },
    null,
    rule,
  );
}
