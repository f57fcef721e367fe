// Labs: the labs of a page of the book. Each plays its stored run; when the reader first touches it, the site's Python
// is loaded, runs the cells that made the lab, and takes the run over at the instant that it shows.

import { films } from "../../labs/static/stored.js";
import { button, html, write } from "../../labs/static/svg.js";
import { PageKernel } from "./kernel.js";
import { drawWidget } from "./widgets.js";
import { loadingWords } from "./worker.js";

const script = new URL(`${document.body.dataset.book}python.js`, location.href);
const NO_PYTHON =
  "It plays what is stored. This page is opened from a folder, where a browser starts no Python: start a server in " +
  "the folder of the site (python -m http.server) and open the address that it prints.";
const isFolder = location.protocol === "file:";

const cells = JSON.parse(document.querySelector(".qf-cells").textContent);
const places = new Map();
let kernel = null;
let last = Promise.resolve();

for (const [id, cell] of Object.entries(cells)) {
  if (cell.kind) places.set(id, placeOf(id, cell));
}

// The elements of a cell's lab, and of the status below it.
function placeOf(id, cell) {
  const home = document.getElementById(`cell-id=${id}`);
  const output = home.querySelector(".output");
  const bar = html("p", { class: "beside qf-touch" }, null);
  const isLab = cell.kind === "lab";
  const take = isLab && !isFolder ? button({ class: "qf-touch-go" }, bar, "touch to take over", () => begin()) : null;
  const said = html("span", { role: "status" }, bar);
  const meter = html("progress", { max: 1, hidden: "", "aria-label": "How much of Python is here" }, bar);
  if (isLab) output.append(bar);
  if (isLab)
    write(said, isFolder ? NO_PYTHON : "It plays what is stored. In your hand, it is the engine that answers.");
  const heard = new AbortController();
  const begin = () => {
    if (isFolder || heard.signal.aborted) return;
    heard.abort();
    if (take) take.hidden = true;
    takeOver(id);
  };
  // Scrolling with a finger over a lab does not count as a touch, nor does passing it with Tab.
  for (const [name, counts] of [
    ["click", () => true],
    ["pointerdown", ({ pointerType }) => pointerType === "mouse"],
    ["keydown", ({ key }) => !["Tab", "Shift"].includes(key)],
  ])
    output.addEventListener(name, (event) => counts(event) && begin(), { capture: true, signal: heard.signal });
  return { id, cell, output, bar, said, meter, isTaken: false, end: () => heard.abort() };
}

function report(progress) {
  for (const { said, meter, isWaiting } of places.values()) {
    if (!isWaiting) continue;
    meter.value = progress.loaded / progress.total;
    if (progress.loaded === progress.total) write(said, loadingWords(progress));
  }
}

// Take over a lab, after the labs that its code needs, and before the text whose numbers belong to it.
function takeOver(id) {
  const place = places.get(id);
  const wanted = [...place.cell.needs, id].filter((other) => places.has(other));
  const its = wanted.filter((other) => cells[other].kind === "lab");
  wanted.push(
    ...[...places.values()]
      .filter(({ cell }) => cell.kind === "prose" && cell.needs.some((other) => its.includes(other)))
      .map((prose) => prose.id),
  );
  for (const other of new Set(wanted)) {
    places.get(other).end();
    last = last.then(() => draw(places.get(other)));
  }
  for (const other of wanted) wait(places.get(other));
  return last;
}

function wait(place) {
  if (place.isTaken) return;
  place.isWaiting = true;
  place.output.classList.add("qf-is-taken");
  place.bar.querySelector("button")?.setAttribute("hidden", "");
  place.meter.hidden = false;
  write(place.said, kernel ? "This lab is made for you …" : "Python is fetched, once for the whole site …");
  kernel ??= new PageKernel(script, report);
}

async function draw(place) {
  if (place.isTaken) return;
  const { id, cell, output, bar, said, meter } = place;
  try {
    await kernel.python;
    place.isWaiting = false;
    meter.removeAttribute("value");
    write(said, "This lab is made for you …");
    const shown = await kernel.run(
      [...cell.needs, id].map((one) => ({ id: one, source: cells[one].source })),
      { files: cell.files, libraries: cell.libraries },
    );
    place.isTaken = true;
    const homes = [...output.querySelectorAll(".qflow-stored")];
    const its = homes.map((home) => films.get(home)).filter(Boolean);
    const stood = [...output.querySelectorAll(":scope > .output_area")].filter((area) =>
      area.querySelector(".output_html, .output_svg, .output_text"),
    );
    const root = html("div", { class: "qf-widgets" }, null);
    bar.before(root);
    if (!bar.isConnected) output.append(root);
    for (const model of shown) drawWidget(model, root, its);
    for (const area of stood) area.remove();
    write(said, "Live: the engine runs in this page, and answers to your hand.");
  } catch (error) {
    place.isWaiting = false;
    write(said, `It plays what is stored: Python cannot run this lab here (${error.message}).`);
  }
  meter.hidden = true;
}
