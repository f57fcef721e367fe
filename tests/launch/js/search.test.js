// The search of the book: what is found, what comes first, and what is shown of it.

import assert from "node:assert/strict";
import test from "node:test";

import { findSections, placeOf, repairedWords, searchedWords } from "../../../qflow/launch/page/search.js";

const PAGES = [
  [
    "01.html",
    "Thresholds",
    [
      ["stop", "Stop", "Above its stop threshold a queue turns ON."],
      ["fc-14", "FC-14", "The stop threshold, in messages."],
    ],
  ],
  ["functions.html", "stop", [["stop", "stop", "A stop threshold of a queue."]]],
  ["reference/functions/a.html", "qflow.a", [["stop", "stop", "stop stop stop"]]],
];
const places = (asked) => findSections(PAGES, searchedWords(asked)).map(({ place }) => place);

test("a section has every word, from where a word begins", () => {
  assert.deepEqual(places("fc-14"), ["01.html#fc-14"]);
  assert.deepEqual(places("thresh queue"), ["01.html#stop", "functions.html#stop"]);
  assert.deepEqual(places("top"), []);
  assert.deepEqual(places("stop tank"), []);
});

test("what a heading says comes first, functions last", () => {
  assert.deepEqual(places("stop").slice(0, 2).sort(), ["01.html#stop", "functions.html#stop"]);
  assert.equal(places("stop")[2], "reference/functions/a.html#stop");
  assert.equal(places("stop").at(-1), "01.html#fc-14");
});

test("signs are looked for as they are", () => assert.deepEqual(places("(stop"), []));

test("what is shown begins at a word, some before the one that was looked for", () => {
  const text = `${"before ".repeat(30)}the threshold ${"after ".repeat(60)}`;
  const { start, end } = placeOf(text, searchedWords("threshold"));
  assert.ok(text.slice(start, end).includes("the threshold") && text[start - 1] === " " && text[end] === " ");
  assert.deepEqual(placeOf("short", searchedWords("none")), { start: 0, end: undefined });
});

const SYNONYMS = { backpressure: ["stop threshold"], "back-pressure": ["stop threshold"] };
const found = (asked) =>
  findSections(PAGES, repairedWords(PAGES, searchedWords(asked, SYNONYMS))).map(({ place }) => place);

test("a word of other products finds the book's", () => {
  assert.deepEqual(found("backpressure").sort(), ["01.html#fc-14", "01.html#stop", "functions.html#stop"]);
  assert.deepEqual(found("backpres"), found("backpressure"), "while it is typed");
});

test("what is typed around a word does not count", () => {
  assert.deepEqual(found("why does my queue stop"), found("queue stop"));
  assert.deepEqual(searchedWords("what is").length, 2, "unless there is nothing else");
});

test("one wrong letter is forgiven, two are not", () => {
  for (const typed of ["treshold", "thresshold", "threshald", "threshol"])
    assert.deepEqual(found(typed), found("threshold"), typed);
  assert.deepEqual(found("trehsold"), []);
});
