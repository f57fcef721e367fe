// Why: whatever is clicked, or chosen by keyboard, is asked about; the answer is a chain whose links lead to their instants.

const PATIENCE = 10; // seconds
const GONE = "The kernel of this lab is gone: it was restarted or shut down. Run the lab's cell again, and ask there.";
const SLOW = `No answer for ${PATIENCE} seconds: the kernel is busy, or gone. If it was restarted, run the lab's cell again, and ask there.`;

class WhyPanel {
  // ask(picture, subject) sends the question; show(picture, frame) goes to an instant.
  constructor(parent, { ask, show }) {
    this.ask = ask;
    this.show = show;
    this.number = 0;
    this.bar = html("div", { class: "qf-why-bar" }, parent);
    const label = html("label", {}, this.bar, "why? ");
    this.choice = html("select", { class: "qf-why-choice", "aria-label": "Ask why about", title: "Ask why (W); or click on anything in the picture" }, label);
    // What lies somewhere now can be asked about by keyboard too.
    this.choice.addEventListener("focus", () => this.offerNow());
    this.choice.addEventListener("change", () => this.question(Number(this.choice.selectedOptions[0].dataset.picture), this.choice.value));
    this.again = html("button", { type: "button", class: "qf-why-ask", title: "Ask again at this instant" }, this.bar, "ask");
    this.again.addEventListener("click", () => this.question(Number(this.choice.selectedOptions[0]?.dataset.picture ?? 0), this.choice.value));
    this.panel = html("section", { class: "qf-why", "aria-live": "polite", hidden: "" }, parent);
  }

  // An answer is of the run that was asked about.
  load(timelines, isAnswered) {
    this.number += 1;
    this.panel.hidden = true;
    this.bar.hidden = !isAnswered;
    for (const option of this.choice.querySelectorAll(".qf-now")) option.remove();
    const names = ({ picture, topology, locks }) => [picture.name, ...["producers", "queues", "consumers"].map((kind) => topology[kind].map((spot) => spot.name)), locks.count ? picture.groups : []];
    const offered = JSON.stringify(timelines.map(names));
    if (offered === this.offered) {
      this.choice.value = "";
      return;
    }
    this.offered = offered;
    this.choice.replaceChildren();
    html("option", { value: "" }, this.choice, "choose, or click on anything");
    timelines.forEach((timeline, picture) => {
      const name = timeline.picture.name ? `${timeline.picture.name}: ` : "";
      const { producers, queues, consumers } = timeline.topology;
      const add = (kind, one) => html("option", { value: `${kind}:${one}`, "data-picture": picture }, this.choice, `${name}${kind} ${one}`);
      producers.forEach((spot) => add("producer", spot.name));
      queues.forEach((spot) => add("queue", spot.name));
      consumers.forEach((spot) => add("consumer", spot.name));
      if (timeline.locks.count) timeline.picture.groups.forEach((group) => add("group", group));
    });
  }

  // The oldest transfers that are held, and what the consumers have.
  offerNow() {
    for (const option of this.choice.querySelectorAll(".qf-now")) option.remove();
    for (const view of this.panel.closest(".qflow-scene").querySelectorAll(".qf-view")) {
      const add = (selector, most) => {
        for (const cell of [...view.querySelectorAll(selector)].slice(0, most)) html("option", { class: "qf-now", value: cell.dataset.why, "data-picture": view.dataset.view }, this.choice, cell.dataset.why.replace(":", " "));
      };
      add(".qf-cell-held[data-why]", 5);
      add(".qf-slot[data-why]", 5);
    }
  }

  question(picture, subject) {
    if (!subject) return;
    this.number += 1;
    const option = [...this.choice.options].find((one) => one.value === subject && Number(one.dataset.picture) === picture);
    if (option) option.selected = true;
    openMore(this.panel.closest(".qflow-scene"), true);
    this.panel.hidden = false;
    this.panel.replaceChildren();
    html("p", { class: "qf-why-wait" }, this.panel, `Asking the engine why ${subject.replace(":", " ")} is as it is …`);
    clearTimeout(this.waiting);
    try {
      this.ask(picture, subject, this.number);
      this.waiting = setTimeout(() => this.excuse(SLOW), PATIENCE * 1000);
    } catch {
      // Where a kernel was restarted, nothing can be sent to what was there before.
      this.excuse(GONE);
    }
  }

  // Say why there is no answer; one that comes later takes its place.
  excuse(text) {
    this.panel.replaceChildren();
    html("p", { class: "qf-why-refusal" }, this.panel, text);
  }

  answer(found) {
    // An answer that comes after a later question is of no use any more.
    if (!found.number || found.number !== this.number) return;
    clearTimeout(this.waiting);
    this.panel.hidden = false;
    this.panel.replaceChildren();
    const head = html("header", {}, this.panel);
    html("b", {}, head, `Why? ${found.subject.replace(":", " ")}`);
    const close = html("button", { type: "button", class: "qf-why-close", "aria-label": "Close the answer" }, head, "×");
    close.addEventListener("click", () => {
      this.panel.hidden = true;
    });
    set(this.panel, { "data-subject": found.subject, "data-links": found.links.length });
    if (found.refusal) html("p", { class: "qf-why-refusal" }, this.panel, found.refusal);
    const list = html("ol", {}, this.panel);
    for (const link of found.links) this.link(list, found.picture, link);
    this.panel.scrollIntoView({ block: "nearest" });
  }

  link(list, picture, link) {
    const item = html("li", { style: `margin-left:${1.15 * link.level}em`, "data-frame": link.frame }, list);
    const jump = html("button", { type: "button", class: "qf-why-link", title: `Go to step ${link.frame}, ${seconds(link.time)}` }, item);
    html("span", { class: "qf-why-arrow" }, jump, link.level ? "because " : "");
    html("span", {}, jump, link.text);
    html("small", { title: link.section }, item, ` ${seconds(link.time)} · ${link.rules.join(", ")} · ${link.section}`);
    jump.addEventListener("click", () => this.show(picture, link.frame));
  }
}
