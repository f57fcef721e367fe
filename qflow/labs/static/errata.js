// Errata: sentences of a page; a click on one asks the kernel, whose engine tries it.

function render({ model, el }) {
  const root = html("div", { class: "qflow-scene qf-errata" }, el);
  const head = html("p", { class: "qf-errata-head" }, root);
  const list = html("ol", { class: "qf-errata-list" }, root);
  const score = html("p", { class: "qf-errata-score", "aria-live": "polite" }, root);
  const { heading, sentences } = model.get("page");
  write(head, `${heading}: click each sentence that you think is wrong`);

  const items = sentences.map((sentence, place) => {
    const item = html("li", {}, list);
    const button = html("button", { class: "qf-errata-sentence", "data-place": place }, item, sentence.text);
    html("span", { class: "qf-errata-from" }, item, sentence.from);
    const answer = html("div", { class: "qf-errata-answer", "aria-live": "polite", hidden: "" }, item);
    button.addEventListener("click", () => {
      const clicked = model.get("clicked");
      if (clicked.includes(place)) return;
      model.set("clicked", [...clicked, place]);
      model.save_changes();
    });
    return { item, button, answer };
  });
  const show = () => {
    const answers = model.get("answers");
    items.forEach(({ item, button, answer }, place) => {
      const found = answers[place];
      classify(item, found ? (found.isWrong ? "qf-errata-wrong" : "qf-errata-true") : "");
      set(button, { "aria-pressed": Boolean(found) });
      answer.hidden = !found;
      if (!found || answer.childElementCount) return;
      html("p", { class: "qf-errata-truth" }, answer, found.isWrong ? `✗ wrong (${found.id}). In truth: ${found.truth}.` : `✓ ${found.truth}.`);
      html("p", { class: "qf-errata-by" }, answer, "The engine tried it:");
      const steps = html("ul", {}, answer);
      for (const [tried, seen] of found.steps) {
        const step = html("li", {}, steps, `${tried}: `);
        html("b", {}, step, seen);
      }
    });
    write(score, model.get("score"));
    set(root, { "data-answers": Object.keys(answers).length });
  };
  const leave = listen(model, { answers: show, score: show });
  show();
  return () => {
    leave();
    el.replaceChildren();
  };
}

export default { render };
