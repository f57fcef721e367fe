// Why: whatever is clicked, or chosen by keyboard, is asked about; the answer is a chain whose links lead to their instants.

class WhyPanel {
  // ask(picture, subject) sends the question; show(picture, frame) goes to an instant.
  constructor(parent, { ask, show }) {
    this.ask = ask;
    this.show = show;
    this.number = 0;
    this.bar = html("div", { class: "qf-why-bar" }, parent);
    const label = html("label", {}, this.bar, "why? ");
    this.choice = html("select", { class: "qf-why-choice", "aria-label": "Ask why about", title: "Ask why (W); or click on anything in the picture" }, label);
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

  question(picture, subject) {
    if (!subject) return;
    this.number += 1;
    const option = [...this.choice.options].find((one) => one.value === subject && Number(one.dataset.picture) === picture);
    if (option) option.selected = true;
    openMore(this.panel.closest(".qflow-scene"), true);
    this.panel.hidden = false;
    this.panel.replaceChildren();
    html("p", { class: "qf-why-wait" }, this.panel, `Asking the engine why ${subject.replace(":", " ")} is as it is …`);
    this.ask(picture, subject, this.number);
  }

  answer(found) {
    // An answer that comes after a later question is of no use any more.
    if (!found.number || found.number !== this.number) return;
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
