// Errata: the game in which the learner marks the sentences of a page that seem wrong. Then all sentences are tested
// on the engine, and the marks are scored.

import { button, html, listen, set, write } from "./svg.js";

export function render({ model, el }) {
  const root = html("div", { class: "qflow-scene qf-errata" }, el);
  const { heading, rule, sentences } = model.get("page");
  html("p", { class: "qf-errata-head" }, root, `${heading}: mark each sentence that you think is wrong`);
  html("p", { class: "qf-errata-rule" }, root, rule);
  const list = html("ol", { class: "qf-errata-list" }, root);
  const judge = button({ class: "qf-errata-judge" }, root, "let the engine try them", () =>
    change({ is_judged: true }),
  );
  const score = html("p", { class: "qf-errata-score", "aria-live": "polite" }, root);

  const items = sentences.map((sentence, place) => {
    const item = html("li", {}, list);
    const toggle = button({ class: "qf-errata-sentence", "data-place": place }, item, sentence.text, () => {
      const marked = model.get("marked");
      if (!model.get("is_judged"))
        change({ marked: marked.includes(place) ? marked.filter((other) => other !== place) : [...marked, place] });
    });
    html("span", { class: "qf-errata-from" }, item, sentence.from);
    return { item, toggle };
  });
  const change = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
    show();
  };
  const show = () => {
    const [marked, answers] = [model.get("marked"), model.get("answers")];
    items.forEach(({ item, toggle }, place) => {
      const isMarked = marked.includes(place);
      set(toggle, { "aria-pressed": isMarked });
      const found = answers[place];
      set(item, {
        class: found ? (found.isWrong ? "qf-errata-wrong" : "qf-errata-true") : isMarked ? "qf-errata-marked" : "",
      });
      if (found && item.childElementCount < 3) showAnswer(item, found, isMarked);
    });
    judge.hidden = model.get("is_judged");
    write(score, model.get("score"));
    set(root, { "data-answers": answers.length });
  };
  const leave = listen(model, { answers: show, score: show, marked: show, is_judged: show });
  show();
  return () => {
    leave();
    el.replaceChildren();
  };
}

// Show the truth about a sentence. Its experiment is unfolded if the learner was wrong about it.
function showAnswer(item, { isWrong, id, truth, steps }, isMarked) {
  const answer = html("div", { class: "qf-errata-answer" }, item);
  const verdict = isWrong
    ? `✗ wrong (${id})${isMarked ? ", and you marked it" : ", and not marked"}. In truth: ${truth}.`
    : `✓ ${truth}${isMarked ? "; but you marked it" : ""}.`;
  html("p", { class: "qf-errata-truth" }, answer, verdict);
  const tried = html("details", isWrong === isMarked ? {} : { open: "" }, answer);
  html("summary", { class: "qf-errata-by" }, tried, "the engine tried it");
  const list = html("ul", {}, tried);
  for (const [what, seen] of steps) html("b", {}, html("li", {}, list, `${what}: `), seen);
}

export default { render };
