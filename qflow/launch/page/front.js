// Front: the first page of the site. Its handles are answered from the runs in the page, and by Python when that is
// loaded; it always draws a run of the engine. The part of the address after # is a run and an instant: settings of
// this page, or the token of a lab.

import { inflatedBytes, unpacked, unpackedJson } from "../../labs/static/packed.js";
import { render } from "../../labs/static/scene.js";
import { withNumbers } from "../../labs/static/stored.js";
import { StoredModel } from "../../labs/static/stored_model.js";
import { html, write } from "../../labs/static/svg.js";
import { loadingWords, loadPython } from "./worker.js";

const page = { held: null, python: null, settings: null, drawn: null, run: 1, asked: 0 };
const inWords = (text) => write(document.querySelector(".python"), text);
const isFolder = location.protocol === "file:";

async function openDoor() {
  const { first, grid, handles, settings, ...packed } = JSON.parse(document.querySelector(".qf-door").textContent);
  const begun = { ...settings };
  page.settings = begun;
  page.drawn = withNumbers(first);
  const shared = sharedRun(begun);
  const model = new StoredModel(
    { pictures: [page.drawn], handles: grid, plays: !shared, offers: ["token"], token: "", site: "" },
    (question, callbacks) => answerHand(model, begun, question, callbacks),
  );
  render({ model, el: document.querySelector(".door") });
  page.held = holdRuns(packed);
  const count = Object.keys((await page.held).runs).length;
  const addWords = (text) =>
    inWords(`${count} runs of the engine, one for every second stop threshold, are in this page. ${text}`);
  if (shared) await openShared(model, begun, shared);
  if (isFolder)
    return addWords("It is opened from a folder, where a browser starts no Python: the line moves from run to run.");
  addWords("Python, for all others, is loaded when you touch the picture.");
  if (!page.python) await touched(document.querySelector(".door"));
  addWords("Python is being loaded for all others …");
  try {
    await startPython();
    model.change({ handles });
    if (!shared?.token) showRun(model, page.drawn);
    inWords(
      "Python is here, in your browser. Every line, the window and the prefetch can be dragged; each picture is a " +
        "run of the engine, made for you.",
    );
  } catch (error) {
    addWords(`Python could not be loaded here (${error.message}): the line moves from run to run.`);
  }
}

async function holdRuns({ runs, numbers, slice }) {
  const held = await unpackedJson(runs);
  return { ...held, slice, numbers: await inflatedBytes(unpacked(numbers)) };
}

// The picture of a run in the page. The numbers of all runs are interleaved in slices.
async function heldPicture({ shared, runs, numbers, slice }, stop) {
  const { picture } = runs[stop];
  const stops = Object.keys(runs);
  const own = new Uint8Array(picture.numbers + slice);
  for (let at = 0, place = stops.indexOf(String(stop)); at < picture.numbers; at += slice, place += stops.length) {
    own.set(numbers.subarray(place * slice, (place + 1) * slice), at);
  }
  const deflated = new Blob([own.subarray(0, picture.numbers)]).stream().pipeThrough(new CompressionStream("deflate"));
  return { ...shared, ...picture, numbers: new Uint8Array(await new Response(deflated).arrayBuffer()) };
}

// Resolves when a pointer or a key first reaches an element: pages that are only read load no Python.
function touched(element) {
  const hands = ["pointerdown", "keydown", "focusin"];
  return new Promise((resolve) =>
    hands.forEach((hand) => element.addEventListener(hand, resolve, { once: true, capture: true })),
  );
}

async function startPython() {
  page.python ??= loadPython("book/python.js", "front_door", { report: (now) => inWords(loadingWords(now)) });
  return page.python;
}

async function answerHand(model, begun, { ask, setting, value, time }, callbacks) {
  if (ask === "token")
    model.change({ token: `${location.href.split("#")[0]}#${new URLSearchParams({ ...page.settings, t: time })}` });
  if (ask !== "rest" && ask !== "set") return;
  const number = ++page.asked;
  const settings = { ...page.settings, [setting]: value };
  const found = await runOf(begun, settings);
  if (number === page.asked) {
    // Settings that the broker refuses change nothing.
    if (found.picture) page.settings = settings;
    model.change({ refusal: found.refusal ?? "" });
    showRun(model, found.picture ?? page.drawn, found.claims);
  }
  callbacks?.iopub?.status({ content: { execution_state: "idle" } });
}

async function runOf(begun, settings) {
  const held = await page.held;
  const isHeld = Object.keys(begun).every((name) => name === "stop" || begun[name] === settings[name]);
  const run = isHeld && held.runs[settings.stop];
  if (run) return { ...run, picture: await heldPicture(held, settings.stop) };
  if (isFolder)
    return {
      refusal:
        "This page holds the runs of every second stop threshold only. For any other it needs Python, which a " +
        "browser starts from a server: python -m http.server, in the folder of this page.",
    };
  const found = await (await startPython())(settings);
  return found.picture ? { ...found, picture: withNumbers(found.picture) } : found;
}

// The run in the address: a token of a lab, or settings of this page and a time in microseconds; null if there is
// none.
function sharedRun(begun) {
  const text = decodeURIComponent(location.hash.slice(1));
  if (text.startsWith("qf1.")) return { token: text };
  const given = new URLSearchParams(text);
  const settings = Object.fromEntries(Object.keys(begun).map((name) => [name, Number(given.get(name) ?? begun[name])]));
  return given.has("t") && Object.values(settings).every(Number.isInteger)
    ? { settings, time: Number(given.get("t")) || 0 }
    : null;
}

async function openShared(model, begun, { token, settings, time }) {
  if (token && isFolder) {
    model.change({
      refusal:
        "This link opens a run that needs Python, which a browser starts from a server only: python -m http.server, " +
        "in the folder of this page.",
    });
    return;
  }
  if (token) inWords("Python is being loaded for the run of this link …");
  const found = token ? await (await startPython())({ token }) : await runOf(begun, settings);
  model.change({ refusal: found.refusal ?? "" });
  if (settings && found.picture) page.settings = settings;
  const pictures = found.pictures?.map(withNumbers) ?? [found.picture].filter(Boolean);
  if (!pictures.length) return;
  showRun(model, pictures[0], found.claims, pictures);
  model.change({ place: found.place ?? { time, back: 0 } });
}

function showRun(model, picture, claims, pictures = [picture]) {
  page.drawn = picture;
  page.run += 1;
  // The picture is redrawn only if it has changed.
  model.change({ run: page.run, pictures });
  if (!claims) return;
  const list = document.querySelector(".claims");
  list.replaceChildren();
  for (const claim of claims) html("li", {}, list, claim);
}

openDoor();
