// Moments: the three pages that take a minute each. The engine made their runs when the site was built; for other
// settings, the second page uses the site's own Python.

import { unpackedJson } from "../../labs/static/packed.js";
import { render } from "../../labs/static/scene.js";
import { films, withNumbers } from "../../labs/static/stored.js";
import { StoredModel } from "../../labs/static/stored_model.js";
import { button, html, write } from "../../labs/static/svg.js";
import { showCliff } from "./cliff.js";
import { loadingWords, loadPython } from "./worker.js";

const said = document.querySelector(".moment-said");
const moment = JSON.parse(document.querySelector(".qf-moment").textContent);

// The guess: releasing the mark is the guess, and the run continues.
function showGuess({ real }) {
  const { scene } = films.get(document.querySelector(".qflow-stored"));
  const root = scene.querySelector(".qflow-scene");
  let isHeld = false;
  root.addEventListener("pointerdown", ({ target }) => (isHeld = Boolean(target.closest(".qf-guess"))), true);
  addEventListener("pointerup", () => {
    if (isHeld) root.querySelector(".qf-ask-go").click();
    isHeld = false;
  });
  let guess = null;
  document.addEventListener("qflow-prediction", ({ detail }) => (guess = detail.answer));
  const told = new MutationObserver(() => {
    if (!root.classList.contains("qf-is-answered") || said.childElementCount) return;
    told.disconnect();
    const most = html("p", {}, said);
    html("b", {}, most, guess === real.deepest ? `${guess}, as you said. ` : `You said ${guess}; it gets 165 deep. `);
    most.append(
      "At 101 the gate closes for completions, not for messages: C1 sends on until 50 are unanswered, C2 until 15 " +
        "are. 100 + 50 + 15 = 165.",
    );
    html(
      "p",
      {},
      said,
      `The real broker, recorded with two such clients: ${real.deepest} at its deepest, in ${real.reports} reports of ` +
        "its own.",
    );
    button({ class: "qf-button-plain" }, said, "guess again", () => location.reload());
  });
  told.observe(root, { attributes: true, attributeFilter: ["class"] });
}

// Who killed p1: the page opens at the death; dragging shows another run, until one in which p1 lives.
async function showWho({ settings: begun, handles, runs, time }) {
  const held = await unpackedJson(runs);
  let [settings, run, asked, python] = [{ ...begun, ...linked(handles) }, 1, 0, null];
  const pictureOf = async (wanted) => {
    const moved = handles.map(([name]) => name).filter((name) => wanted[name] !== begun[name]);
    const name = moved[0] ?? "stop";
    const known = moved.length < 2 && held[`${name} ${wanted[name]}`];
    if (known) return { picture: known };
    if (location.protocol === "file:") return { refusal: "From a folder this page holds the runs of one move." };
    const report = (progress) => write(said, loadingWords(progress));
    python ??= loadPython(new URL("book/python.js", location.href), "front_door", { report });
    return (await python)(wanted);
  };
  const first = withNumbers((await pictureOf(settings)).picture ?? held[`stop ${begun.stop}`]);
  const model = new StoredModel(
    { pictures: [first], handles, offers: [], token: "", site: "", place: { time, back: 0 } },
    async ({ ask, setting, value }, callbacks) => {
      if (ask !== "rest" && ask !== "set") return;
      const number = ++asked;
      const wanted = { ...settings, [setting]: value };
      const found = await pictureOf(wanted);
      if (number === asked) {
        model.change({ refusal: found.refusal ?? "" });
        if (found.picture) {
          settings = wanted;
          run += 1;
          model.change({ run, pictures: [withNumbers(found.picture)] });
          judge(found.picture);
        }
      }
      callbacks?.iopub?.status({ content: { execution_state: "idle" } });
    },
  );
  const judge = (picture) => {
    const { stop, capacity, limit } = settings;
    const sum = `${stop} + ${capacity} = ${stop + capacity}`;
    const moves = handles.filter(([name]) => settings[name] !== begun[name]);
    const isDead = picture.deaths.length > 0;
    said.replaceChildren();
    said.classList.toggle("is-solved", !isDead);
    const line = html("p", {}, said);
    html("b", {}, line, isDead ? "p1 dies. " : `Saved in ${["no move", "one move", "two moves"][moves.length]}. `);
    line.append(
      isDead
        ? `When the queue turns ON above ${stop}, p1 may still send until ${capacity} are unanswered: ${sum}, and the ` +
            `limit is ${limit}. One more is refused, and its session dies of it.`
        : `${sum} fits into the limit of ${limit}: flow control stops p1 before the queue is full.`,
    );
    if (isDead) return;
    const link = new URL(`#stop=${stop}&capacity=${capacity}`, location.href).href;
    html(
      "a",
      { class: "case", href: link },
      said,
      moves.map(([name]) => `${name} ${begun[name]} → ${settings[name]}`).join(", "),
    );
    button({ class: "qf-button-plain" }, said, navigator.share ? "share" : "copy the link", async ({ target }) => {
      if (navigator.share) await navigator.share({ title: document.title, url: link }).catch(() => {});
      else await navigator.clipboard.writeText(link).then(() => write(target, "copied"));
    });
  };
  const door = document.querySelector(".door");
  render({ model, el: door });
  judge(first);
  // From the instant to which the reader has moved back, the death is played once more, with the fatal message on its
  // way.
  const replay = ({ target }) => {
    const { player } = target.closest(".qflow-scene").scene;
    const [death] = player.track.timelines[0].picture.deaths;
    const place = death && player.track.place(0, death[0]);
    if (place > player.place && target.type === "range") player.playTo(place, () => {});
  };
  for (const name of ["change", "keyup"]) door.addEventListener(name, replay);
}

// The settings in the address, limited to the ranges of the handles.
function linked(handles) {
  const given = new URLSearchParams(location.hash.slice(1));
  const values = handles.map(([name, least, most]) => [name, Number(given.get(name) ?? Number.NaN), least, most]);
  return Object.fromEntries(
    values
      .filter(([, value, least, most]) => Number.isInteger(value) && value >= least && value <= most)
      .map(([name, value]) => [name, value]),
  );
}

({ guess: showGuess, who: showWho, cliff: (held) => showCliff(document.querySelector(".cliff"), said, held) })[
  moment.kind
](moment);
