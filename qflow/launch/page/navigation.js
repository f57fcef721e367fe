// Navigation: the search of the book, the current section of the page, tables on a phone, and links that do not work
// from a folder.

import { html, write } from "../../labs/static/svg.js";
import { showRules } from "./rules.js";
import { findSections, placeOf, repairedWords, searchedWords } from "./search.js";
import { loadJson, runScript } from "./shelf.js";

const book = new URL(".", document.currentScript.src);
showRules(book);

// The scripts of the labs are loaded when a lab is almost visible, and so is each run (stored.js).
globalThis.qflowLoad = (place) => loadJson(new URL(place, location.href));
const cells = Object.entries(JSON.parse(document.querySelector(".qf-cells")?.textContent ?? "{}"));
const near = new IntersectionObserver(
  (seen) => {
    if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
    near.disconnect();
    runScript(new URL("labs", book));
  },
  { rootMargin: "1000px" },
);
for (const [id, { kind }] of cells) if (kind) near.observe(document.getElementById(`cell-id=${id}`));
if (document.querySelector(".qf-place")) runScript(new URL("ask", book));

let index;

// Show some words around the first search word that is found, with all search words marked.
function showExcerpt(home, text, words) {
  const { start, end } = placeOf(text, words);
  const either = new RegExp(`(${words.map((word) => word.source).join("|")})`, "i");
  const shown = html("span", {}, home, start ? "… " : "");
  text
    .slice(start, end)
    .split(either)
    .forEach((part, number) => (number % 2 ? html("mark", {}, shown, part) : shown.append(part)));
  if (end !== undefined) shown.append(" …");
}

const MOST = 30;
const search = html("search", { class: "search" }, document.querySelector(".bar"));
const input = html(
  "input",
  {
    type: "search",
    placeholder: "Search the book: prefetch, FC-14",
    "aria-label": "Search the book",
    autocomplete: "off",
    spellcheck: "false",
  },
  search,
);
html("kbd", { "aria-hidden": "true" }, search, "/");
const panel = html("div", { class: "found", hidden: "" }, search);
const status = html("p", { role: "status" }, panel);
const list = html("ul", {}, panel);

async function showFound() {
  const asked = input.value;
  panel.hidden = !asked.trim();
  index ??= loadJson(new URL("search-index", book));
  const { pages, synonyms } = await index.catch(() => ({}));
  if (asked !== input.value || !asked.trim()) return;
  const words = pages ? repairedWords(pages, searchedWords(asked, synonyms)) : [];
  const found = pages ? findSections(pages, words) : [];
  const many =
    found.length > MOST
      ? `the first ${MOST} of ${found.length} sections`
      : `${found.length} section${found.length === 1 ? "" : "s"}`;
  write(status, pages ? many : "The words of the book could not be loaded.");
  list.replaceChildren();
  for (const { place, title, heading, text } of found.slice(0, MOST)) {
    const link = html("a", { href: new URL(place, book) }, html("li", {}, list));
    html("b", {}, link, heading);
    if (heading !== title) html("small", {}, link, ` ${title}`);
    showExcerpt(link, text, words);
  }
}

const close = () => {
  panel.hidden = true;
};
input.addEventListener("input", showFound);
input.addEventListener("focus", showFound);
search.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !search.contains(relatedTarget) && close());
document.addEventListener("pointerdown", ({ target }) => search.contains(target) || close());
list.addEventListener("click", close);
search.addEventListener("keydown", (event) => {
  const stops = [input, ...list.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1, Enter: document.activeElement === input ? 1 : 0 }[event.key];
  if (event.key === "Escape") {
    input.focus();
    close();
  } else if (step && stops.length > 1) {
    event.preventDefault();
    const next = stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length];
    if (event.key === "Enter") next.click();
    else next.focus();
  }
});
document.addEventListener("keydown", (event) => {
  if (
    event.key !== "/" ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.target.closest("input, textarea, select, [contenteditable]")
  )
    return;
  event.preventDefault();
  input.focus();
});

// In a page opened from a folder, no browser starts JupyterLab or Python, which need a server.
for (const link of location.protocol === "file:" ? document.querySelectorAll("a.live") : []) {
  link.textContent = "make it live: how";
  link.href = `${document.querySelector("a.home")?.getAttribute("href") ?? ""}#live`;
}

// Lists beside the text on a wide screen are folded on a narrow one.
function foldWhenNarrow(details, width) {
  const wide = matchMedia(`(min-width: ${width}px)`);
  const fold = () => {
    details.open = wide.matches;
  };
  wide.onchange = fold;
  fold();
  return fold;
}

const [contents, sections] = [".contents", ".sections"].map((name) => document.querySelector(`${name} > details`));
if (sections) foldWhenNarrow(sections, 1360);
if (contents) {
  const fold = foldWhenNarrow(contents, 1000);
  // On a narrow screen the contents cover the page, and a touch of the page closes them.
  document.addEventListener("pointerdown", ({ target }) => contents.contains(target) || fold());
}

const links = [...document.querySelectorAll(".sections a")];
const headings = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
function markRead() {
  const read = headings.findLastIndex((heading) => heading.getBoundingClientRect().top < 140);
  links.forEach((link, number) =>
    number === read ? link.setAttribute("aria-current", "location") : link.removeAttribute("aria-current"),
  );
}
addEventListener("scroll", markRead, { passive: true });
markRead();

// A table too wide for a phone becomes a card for each row, in which each cell has the title of its column.
for (const table of matchMedia("(max-width: 760px)").matches ? document.querySelectorAll(".text_cell table") : []) {
  if (table.scrollWidth <= table.clientWidth) continue;
  table.classList.add("cards");
  const heads = [...table.querySelectorAll("th")].map((head) => head.textContent);
  for (const row of table.tBodies[0].rows)
    [...row.cells].forEach((cell, column) => {
      cell.dataset.head = heads[column];
    });
}

// Elements that are too wide can be scrolled by keyboard, too.
function offerScrolling() {
  for (const one of document.querySelectorAll("main :is(pre, table, .output, .output_svg)")) {
    if (one.scrollWidth > one.clientWidth + 1) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}
addEventListener("resize", offerScrolling);
offerScrolling();

// Not scrollIntoView, after which the first Tab would skip the link to the text.
const current = document.querySelector(".contents [aria-current]");
if (current?.offsetParent) current.offsetParent.scrollTop = current.offsetTop - current.offsetParent.clientHeight / 2;
