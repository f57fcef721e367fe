// Ask: the questions that a page of the book asks without a kernel: predictions, the errata game and exercises. What
// is known when the site is built is in the page, compressed. An exercise is checked by Python in a worker, which is
// loaded at the first check. The reader's answers are stored on the device if the browser allows it. Other scripts of
// the page learn of them by the events qflow-prediction and qflow-exercise of the document.

import { render } from "../../labs/static/errata.js";
import { isRight, judgeGuesses, sayingOf } from "../../labs/static/judged.js";
import { unpackedJson } from "../../labs/static/packed.js";
import { StoredModel } from "../../labs/static/stored_model.js";
import { button, html, set, write } from "../../labs/static/svg.js";
import { loadingWords, loadPython } from "./worker.js";

const isFolder = location.protocol === "file:";
const script = new URL(`${document.body.dataset.book}python.js`, location.href);
const KEPT = "qflow-answers";

// Read again each time, as the same site may be open in another tab.
function readKept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

// The answers given in this page, whether they could be stored or not.
const answers = { ...readKept() };

function keep(id, answer) {
  answers[id] = answer;
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...readKept(), [id]: answer }));
  } catch {
    // The browser may refuse to store anything, or have no room left.
  }
}

const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

const unpack = ({ packed }) => unpackedJson(packed);

// Predictions: a guess, and the outcome when the reader asks for it. The outcomes are stored with the comparison at
// the end of the chapter.

const answered = new Map();

async function answerOf({ id }) {
  if (!answered.has(id))
    answered.set(id, unpack(places.flatMap(({ place }) => place.asked ?? []).find((asked) => asked.id === id)));
  return answered.get(id);
}

const inWords = ({ guess, sure }) => `Your guess: ${guess}${sure ? ` (${sure} % sure)` : ""}.`;

function showPrediction(home, place) {
  const { id, question, choices, certainties } = place;
  const root = html("div", { class: "qflow-scene" }, home);
  const form = html("form", { class: "qf-ask" }, root);
  const asked = html("fieldset", {}, form);
  html("legend", { class: "qf-ask-question" }, asked, question);
  const fields = html("div", { class: "qf-ask-form" }, asked);
  for (const choice of choices) {
    const label = html("label", { class: "qf-choice" }, fields);
    html("input", { type: "radio", name: id, value: choice, required: "" }, label);
    label.append(choice);
  }
  if (!choices.length)
    html(
      "input",
      {
        type: "number",
        name: id,
        step: "any",
        required: "",
        "aria-label": "Your guess, a number",
        placeholder: "a number",
      },
      fields,
    );
  const sure = html("select", { "aria-label": "How sure", name: "sure" }, fields);
  html("option", { value: "" }, sure, "how sure?");
  for (const percent of certainties) html("option", { value: percent }, sure, `${percent} % sure`);
  html("button", { class: "qf-ask-go" }, fields, "keep my guess");
  const told = html("p", { class: "qf-ask-told", role: "status" }, form);
  const show = button({ class: "qf-ask-show", hidden: "" }, form, "show what came", () => {
    keep(id, { ...answers[id], isSeen: true });
    draw();
  });

  const draw = async () => {
    const answer = answers[id];
    if (!answer) return;
    fields.hidden = show.hidden = Boolean(answer.isSeen);
    if (!answer.isSeen) write(told, `${inWords(answer)} The chapter finds out; compare at its end, or now.`);
    else {
      const known = await answerOf(place);
      writeRules(told, `What came: ${known.came}. ${sayingOf(answer.guess, known.came, known)}`);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    const guess = choices.length ? given.get(id) : Number(given.get(id));
    keep(id, { guess, sure: Number(given.get("sure")) || null });
    // A script that shows the guesses of the class needs all choices, and in the end the outcome.
    answerOf(place).then(({ came }) => {
      const [kind, truth] = choices.length ? ["choice", came] : ["number", Number(came)];
      tell("qflow-prediction", { id, question, answer: guess, kind, choices, truth });
    });
    draw();
    show.focus();
  });
  draw();
}

// A question that a lab asked in its picture counts in the comparison, too.
document.addEventListener("qflow-prediction", ({ detail }) => {
  const asked = places.flatMap(({ place }) => place.asked ?? []).find(({ question }) => question === detail.question);
  if (asked && answers[asked.id]?.guess !== detail.answer)
    keep(asked.id, { guess: detail.answer, sure: detail.sure ?? null, isSeen: true });
});

function showComparison(home, { asked, words }) {
  button({ class: "qf-button-plain" }, home, "compare my guesses with what came", async () => {
    const rows = html("dl", {}, clear(list));
    const made = [];
    for (const question of asked) {
      const [known, answer] = [await answerOf(question), answers[question.id]];
      html("dt", {}, rows, question.question);
      writeRules(html("dd", {}, rows), `What came: ${known.came}. ${sayingOf(answer?.guess, known.came, known)}`);
      if (answer) made.push({ sure: answer.sure, isRight: isRight(answer.guess, known.came, known.within) });
    }
    for (const line of made.length ? judgeGuesses(made, words) : [words.none]) html("p", {}, list, line);
  });
  const list = html("div", { class: "qf-compared", role: "status" }, home);
}

// Write a text in which the ids of rules link to the rules, as everywhere in the book.
function writeRules(element, text) {
  clear(element);
  text.split(/\b([A-Z]{2,3}-\d\d)\b/).forEach((part, number) => {
    if (number % 2)
      html(
        "a",
        { class: "rule", href: new URL(`notebooks/reference/rules.html#${part.toLowerCase()}`, script) },
        element,
        part,
      );
    else element.append(part);
  });
}

// The errata game, drawn as in a notebook: see errata.js.

function showErrata(home, place) {
  const model = new StoredModel({ page: place.page, marked: [], is_judged: false, answers: [], score: "" });
  model.set = (name, value) => model.change({ [name]: value });
  model.save_changes = async () => {
    if (!model.get("is_judged") || model.get("score")) return;
    const { answers: known, scores } = await unpack(place);
    const found = model.get("marked").filter((at) => known[at].isWrong).length;
    model.change({ answers: known, score: scores[`${found} ${model.get("marked").length - found}`] });
  };
  render({ model, el: home });
}

// Exercises: a text area for code, a check, and hints, one at a time.

const NO_PYTHON =
  "This page is opened from a folder, where a browser starts no Python. To check your answer, start a server in " +
  "the folder of the site (python -m http.server) and open the address that it prints; or open the exercise as a " +
  "notebook, with qflow lab.";
const SHOW_CASE = "show me this case";
let python = null;
let progress = { loaded: 0, total: Infinity };

// Python is started when the reader first touches an exercise, so that it is ready for the first check.
function startPython() {
  python ??= loadPython(script, "book_questions", {
    report: (now) => {
      progress = now;
      tell("qflow-loading");
    },
  });
  return python;
}

function clear(element) {
  element.replaceChildren();
  return element;
}

function showExercise(home, place) {
  const { id, title, setup, code } = place;
  home.closest(".cell").querySelector(".input").hidden = true;
  const root = html("section", { class: "qf-exercise", "aria-label": `Exercise: ${title}` }, home);
  // A failure to start is reported at the check.
  if (!isFolder) root.addEventListener("focusin", () => startPython().catch(() => {}), { once: true });
  const box = html(
    "textarea",
    {
      "aria-label": `Your code: ${title}`,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      wrap: "off",
    },
    root,
  );
  box.value = answers[id]?.code ?? code;
  const buttons = html("div", { class: "qf-exercise-buttons" }, root);
  const check = button({ class: "qf-check" }, buttons, "check", async () => {
    // A disabled button would lose the focus, so presses are ignored during a check.
    if (check.ariaDisabled === "true") return;
    check.ariaDisabled = "true";
    await judge().catch((error) => say([`Python could not be loaded here (${error.message}).`]));
    check.ariaDisabled = "false";
  });
  const hint = button({ class: "qf-hint" }, buttons, "hint", async () => {
    const known = await unpack(place);
    if (shown === known.length) return;
    shown += 1;
    writeRules(html("p", {}, hints), `Hint ${shown} of ${known.length}: ${known[shown - 1]}`);
    hint.ariaDisabled = String(shown === known.length);
    write(hint, shown === known.length ? "no more hints" : "next hint");
  });
  button({ class: "qf-again" }, buttons, "begin again", () => {
    box.value = code;
    remember({});
    size();
  });
  const solved = html("span", { class: "qf-solved" }, buttons);
  const verdict = html("div", { class: "qf-verdict", role: "status" }, root);
  const hints = html("div", { class: "qf-hints", role: "status" }, root);
  const shows = button({ class: "qf-case", hidden: "" }, buttons, SHOW_CASE, async () => {
    if (shows.textContent !== SHOW_CASE) return closeCase();
    write(shows, "close this case");
    const tellCase = (text) => html("p", {}, clear(stage), text);
    const found = await askPython({ id, setup, code: box.value, shows: true }, tellCase, buttons).catch((error) => ({
      lines: [error.message],
    }));
    tellCase(found.stopped ?? found.lines.join(" "));
    // The run is the same as in the output of a notebook: an element with its scripts.
    if (found.picture) stage.append(document.createRange().createContextualFragment(found.picture));
  });
  const stage = html("div", { class: "qf-case-shown" }, root);
  let shown = 0;

  const remember = (more) => keep(id, { ...answers[id], code: box.value, ...more });
  const size = () => set(box, { rows: Math.max(4, box.value.split("\n").length + 1) });
  const draw = () => write(solved, answers[id]?.isSolved ? "solved on this device" : "");
  const say = (lines, printed = "") => {
    clear(verdict);
    lines.forEach((line, at) => writeRules(html(at || lines.length === 1 ? "p" : "strong", {}, verdict), line));
    if (printed) html("pre", {}, verdict, printed);
  };
  const closeCase = () => {
    clear(stage);
    write(shows, SHOW_CASE);
  };
  const judge = async () => {
    closeCase();
    shows.hidden = true;
    if (isFolder) return say([NO_PYTHON]);
    remember({});
    const found = await askPython({ id, setup, code: box.value }, (text) => say([text]), buttons);
    if (found.stopped) return say([found.stopped]);
    shown = Math.max(shown, found.hints ?? 0);
    shows.hidden = !found.shows;
    say(found.lines, found.printed);
    if (found.passed) remember({ isSolved: true });
    draw();
    tell("qflow-exercise", { id, passed: found.passed, message: found.lines.join(" ") });
  };
  box.addEventListener("input", size);
  box.addEventListener("change", () => remember({}));
  box.addEventListener("keydown", (event) => typeCode(event, box, check));
  size();
  draw();
}

// Enter keeps the indentation, and increases it after a colon; with Ctrl or Shift it checks the code.
function typeCode(event, box, check) {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  if (event.ctrlKey || event.shiftKey || event.metaKey) {
    check.click();
    return;
  }
  const line = box.value.slice(0, box.selectionStart).split("\n").at(-1);
  const indent = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
  box.setRangeText(`\n${indent}`, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
}

// Send a question to the worker. If the answer takes too long, the worker is stopped; the next check starts another.
async function askPython(question, say, buttons) {
  let end;
  const stopped = new Promise((resolve) => (end = () => resolve(null)));
  const stop = button({ class: "qf-stop" }, buttons, "stop", end);
  const report = () => say(loadingWords(progress));
  document.addEventListener("qflow-loading", report);
  try {
    report();
    const answer = startPython().then((ask) => {
      document.removeEventListener("qflow-loading", report);
      say("Your answer is tried on the engine …");
      return ask(question);
    });
    const found = await Promise.race([answer, stopped]);
    if (found) return found;
    python.then((ask) => ask.end());
    python = null;
    return { stopped: "Stopped. The next check starts Python anew." };
  } catch (error) {
    python = null;
    throw error;
  } finally {
    document.removeEventListener("qflow-loading", report);
    stop.remove();
  }
}

function showProgress(home, { ids }) {
  const line = html("p", { class: "qf-progress", role: "status" }, home);
  const draw = () =>
    write(line, `Solved on this device: ${ids.filter((id) => answers[id]?.isSolved).length} of ${ids.length}.`);
  document.addEventListener("qflow-exercise", draw);
  draw();
}

const KINDS = {
  prediction: showPrediction,
  comparison: showComparison,
  errata: showErrata,
  exercise: showExercise,
  progress: showProgress,
};
const places = [...document.querySelectorAll(".qf-place")].map((home) => ({
  home,
  place: JSON.parse(home.querySelector("script").textContent),
}));
for (const { home, place } of places) {
  clear(home);
  KINDS[place.kind](home, place);
}
