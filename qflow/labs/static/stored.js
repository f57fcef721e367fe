// Stored: a run that is shown without a kernel, in an executed notebook, a saved page, or a page of the site. What a
// widget would request from its kernel is answered from the stored data; the question "why?" has no answer here.

import { sayingOf } from "./judged.js";
import { unpacked } from "./packed.js";
import { render } from "./scene.js";
import { renderStates } from "./states.js";
import { StoredModel } from "./stored_model.js";

export const withNumbers = (picture) => ({ ...picture, numbers: unpacked(picture.numbers) });

// A run that plays by itself does so only while it is visible.
function playWhenSeen(element, model) {
  let [isSeen, wasPlaying] = [false, true];
  const watch = new IntersectionObserver(
    ([{ intersectionRatio, intersectionRect, rootBounds }]) => {
      const seen = intersectionRatio > 0.7 || intersectionRect.height > 0.6 * (rootBounds?.height ?? Infinity);
      const player = element.querySelector(".qflow-scene").scene?.player;
      if (seen === isSeen || (!seen && intersectionRatio > 0.1)) return;
      isSeen = seen;
      if (!model.get("plays")) model.change({ plays: true });
      else if (!seen) {
        wasPlaying = player.isPlaying;
        player.pause();
      } else if (wasPlaying && !player.isPlaying) player.toggle();
    },
    { threshold: [0, 0.1, 0.3, 0.5, 0.7, 0.9] },
  );
  watch.observe(element);
}

// Show the graph of states above a run that passes through some of them. It follows the run, and a click on one of
// these states moves the run there.
function showStates(scene, model, { graph, walk, pause }) {
  const el = document.createElement("div");
  scene.before(el);
  const drawn = new StoredModel({ graph, chosen: walk.at(-1), walk });
  const player = () => scene.querySelector(".qflow-scene").scene.player;
  drawn.set = (_, node) => walk.includes(node) && player().seek(pause * walk.indexOf(node));
  model.set = (name, time) => {
    const step = Math.min(walk.length, 1 + Math.floor(time / pause));
    if (name === "cursor" && step !== drawn.get("walk").length)
      drawn.change({ walk: walk.slice(0, step), chosen: walk[step - 1] });
  };
  renderStates({ model: drawn, el });
}

// Ask the questions of a picture one after the other; the page contains the answers and comments.
function askStored(model, asks, asked) {
  let number = 0;
  const ask = (more) =>
    model.change({ asking: number < asks.length ? { guess: null, sure: null, ...asks[number].asking, ...more } : {} });
  model.answer = (content) => {
    asked.push(content);
    if (content.ask === "next") {
      number += 1;
      ask();
    } else if (content.ask === "guess") {
      const { answered, told } = asks[number];
      const { guess } = content;
      ask({ ...answered, guess, said: `${told} ${sayingOf(guess, answered.answer, asks[number])}` });
    }
  };
  ask();
}

// The runs that are drawn, by their element, for a page whose Python takes them over: the model, its element, and the
// reader's answers.
export const films = new WeakMap();

// The runs of a page of the book are in files; each is loaded when its place is almost visible.
function loadWhenNear(home, place) {
  const watch = new IntersectionObserver(
    async ([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      watch.disconnect();
      showStored(home, await globalThis.qflowLoad(place));
    },
    { rootMargin: "300px" },
  );
  watch.observe(home);
}

function showStored(home, { pictures, plays, states, asks, ...values }) {
  const scene = document.createElement("div");
  home.querySelector(".qf-still")?.remove();
  home.prepend(scene);
  // The run number is below that of the first run of a kernel that takes the picture over.
  const model = new StoredModel({ run: 0.5, ...values, pictures: pictures.map(withNumbers) });
  const asked = [];
  if (states) showStates(scene, model, states);
  if (asks) askStored(model, asks, asked);
  render({ model, el: scene });
  films.set(home, { model, scene, asked });
  if (plays) playWhenSeen(scene, model);
}

// Draw each stored run in the page once.
globalThis.qflowShow = () => {
  for (const home of document.querySelectorAll(".qflow-stored:not([data-shown])")) {
    home.dataset.shown = "";
    const { textContent, dataset } = home.querySelector(".qf-run");
    if (dataset.src) loadWhenNear(home, dataset.src);
    else showStored(home, JSON.parse(textContent));
  }
};
globalThis.qflowShow();
