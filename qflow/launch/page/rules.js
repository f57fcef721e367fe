// Rules: shows a rule in a card beside a link to it, when a pointer rests on the link or it has the keyboard focus.
// Escape closes the card, and the pointer may move into it.

import { html, set } from "../../labs/static/svg.js";
import { loadJson } from "./shelf.js";

const LINK = "a.rule";
const RESTS = 250; // milliseconds

// Loaded when a link to a rule is first pointed at.
let rules;

export function showRules(book) {
  const card = html("div", { class: "rule-card", id: "rule-card", role: "tooltip", hidden: "" }, document.body);
  let [shown, timer] = [null, 0];
  const close = () => {
    clearTimeout(timer);
    card.hidden = true;
    shown?.removeAttribute("aria-describedby");
    shown = null;
  };
  const open = async (link) => {
    if (link === shown) return;
    close();
    shown = link;
    rules ??= loadJson(new URL("rules-index", book));
    const found = (await rules.catch(() => ({})))[link.textContent.trim().toUpperCase()];
    if (!found || shown !== link) return;
    const [title, sentence, certainty] = found;
    card.replaceChildren();
    html("b", {}, card, `${link.textContent}: ${title}`);
    html("p", {}, card, sentence);
    html("small", {}, card, certainty);
    card.hidden = false;
    set(link, { "aria-describedby": card.id });
    const { left, bottom, top } = link.getBoundingClientRect();
    const { width, height } = card.getBoundingClientRect();
    const isBelow = bottom + height + 8 < innerHeight || top < height;
    set(card, {
      style: `left:${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8)) + scrollX}px;top:${
        scrollY + (isBelow ? bottom + 4 : top - height - 4)
      }px`,
    });
  };
  const later = (act) => {
    clearTimeout(timer);
    timer = setTimeout(act, RESTS);
  };
  document.addEventListener("pointerover", ({ target, pointerType }) => {
    const link = target.closest?.(LINK);
    if (link && pointerType !== "touch") later(() => open(link));
    else if (card.contains(target)) clearTimeout(timer);
    else if (shown && shown !== document.activeElement) later(close);
  });
  document.addEventListener("focusin", ({ target }) => (target.matches?.(LINK) ? open(target) : close()));
  document.addEventListener("focusout", ({ target }) => target === shown && close());
  document.addEventListener("keydown", ({ key }) => key === "Escape" && close());
}
