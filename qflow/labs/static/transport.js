// Transport: play, pause, step, step back, scrub, and jump to the next turn of flow control, by mouse and by keyboard.

import { SPEEDS } from "./player.js";
import { button, html, keep, set, write } from "./svg.js";
import { seconds } from "./words.js";

export const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back or on"],
  ["Shift ← →", "previous or next change (ON, OFF, a discard, an end)"],
  ["Home End", "start or end"],
  ["+ −", "faster or slower"],
  ["W", "ask why"],
  ["C", "compare: keep this run beside the next"],
  ["S", "the whole screen"],
  ["M", "more, or less"],
];
const KEYS_TEXT = KEYS.map(([key, does]) => `${key}: ${does}`).join("; ");
// Keys that need a kernel.
export const KERNEL_KEYS = ["W", "C"];

export function buildTransport(parent, player, root) {
  const bar = html("div", { class: "qf-transport", role: "toolbar", "aria-label": "Transport" }, parent);
  // The accessible name of a button includes the text that is visible on it.
  const add = (name, label, title, act) => {
    const [does, word] = [title.split(" (")[0], label.replace(/[◂▸]/g, "").trim()];
    const named = does.toLowerCase().includes(word) ? does : `${word}: ${does}`;
    return button({ class: `qf-${name}`, title, "aria-label": named }, bar, label, act);
  };
  const play = add("play", "", "Play (Space)", () => player.toggle());
  const earlier = add(
    "earlier qf-extra",
    "◂ change",
    "Previous change: flow control, a first discard, an end (Shift ←)",
    () => player.jump(-1),
  );
  const back = add("step-back qf-extra", "◂ step", "One step back (←)", () => player.step(-1));
  const on = add("step-on qf-extra", "step ▸", "One step on (→)", () => player.step(1));
  const later = add("later", "next change ▸", "Next change: flow control, a first discard, an end (Shift →)", () =>
    player.jump(1),
  );
  const scrub = html(
    "input",
    { type: "range", min: 0, class: "qf-scrub", "aria-label": "Step", title: KEYS_TEXT },
    bar,
  );
  scrub.addEventListener("input", () => player.show(Number(scrub.value)));
  const label = html("label", { class: "qf-speed" }, bar, "speed ");
  const speed = html(
    "select",
    {
      "aria-label": "Speed",
      title:
        "Seconds of the run for one of yours (+ −); the picture waits while completions go through the gate, and hurries where nothing happens",
    },
    label,
  );
  for (const factor of SPEEDS) html("option", { value: factor }, speed, `${factor}×`);
  speed.addEventListener("change", () => player.setSpeed(Number(speed.value)));
  const clock = html("span", { class: "qf-clock" }, bar);
  const steps = html("span", { class: "qf-steps qf-extra" }, bar);
  const full = add("full", "full screen", "The whole screen, large type, arrow keys from change to change (S)", () =>
    setStage(root, player),
  );
  full.setAttribute("aria-pressed", "false");
  const more = add("more", "more", "Sliders, steps, why, fork, compare, share, save (M)", () => openMore(root));
  more.setAttribute("aria-expanded", "false");

  return ({ track, place, isPlaying, factor, time }) => {
    set(scrub, { max: track.count - 1 });
    scrub.value = place;
    scrub.setAttribute("aria-valuetext", `step ${place} of ${track.count - 1}, t = ${seconds(track.time(place))}`);
    write(clock, `t = ${seconds(time)}`);
    write(steps, `step ${place} of ${track.count - 1}${track.isWhole ? "" : " so far"}`);
    const does = isPlaying ? "pause" : "play";
    set(play, { class: isPlaying ? "qf-play qf-is-playing" : "qf-play", "aria-pressed": isPlaying });
    set(play, { "aria-label": does, title: `${isPlaying ? "Pause" : "Play"} (Space)` });
    write(play, does);
    speed.value = factor;
    back.disabled = place === 0;
    on.disabled = place === track.count - 1;
    earlier.disabled = !track.turns.some((at) => at < place);
    later.disabled = !track.turns.some((at) => at > place);
  };
}

// At first a lab shows only play, a handle and the scene; everything else is unfolded on request.
export function openMore(root, open = !root.classList.contains("qf-is-open")) {
  for (const part of [root, root.closest(".qflow-lab")]) part?.classList.toggle("qf-is-open", open);
  const more = root.querySelector(".qf-more");
  const [before, word] = [more.textContent, open ? "less" : "more"];
  set(more, { "aria-expanded": open, "aria-label": more.getAttribute("aria-label").replace(before, word) });
  write(more, word);
}

// Stage mode: the picture alone, as large as the screen, or as the window if the page may not use the full screen.
export function setStage(root, player, isStage = !root.classList.contains("qf-is-stage")) {
  root.classList.toggle("qf-is-stage", isStage);
  root.querySelector(".qf-full").setAttribute("aria-pressed", isStage);
  if (isStage) root.requestFullscreen?.().catch(() => {});
  else if (document.fullscreenElement === root) document.exitFullscreen();
  root.focus();
  player.draw(player);
}

export function listenToKeys(root, player, more) {
  const actions = {
    " ": () => player.toggle(),
    // In stage mode, the arrow keys jump from turn to turn.
    ArrowRight: (event) => (event.shiftKey || root.classList.contains("qf-is-stage") ? player.jump(1) : player.step(1)),
    ArrowLeft: (event) =>
      event.shiftKey || root.classList.contains("qf-is-stage") ? player.jump(-1) : player.step(-1),
    s: () => setStage(root, player),
    m: () => openMore(root),
    Escape: () => setStage(root, player, false),
    Home: () => player.show(0),
    End: () => player.show(player.track.count - 1),
    "+": () => player.changeSpeed(1),
    "-": () => player.changeSpeed(-1),
    ...more,
  };
  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !player.track) return;
    const isChoosing = ["SELECT", "TEXTAREA"].includes(event.target.tagName) || event.target.type === "text";
    const isPressing = event.target.tagName === "BUTTON" && event.key === " ";
    const action = actions[event.key];
    // Arrow keys in a list must not move between the cells of the notebook.
    if (isChoosing) event.stopPropagation();
    if (!action || isChoosing || isPressing) return;
    if (event.key === "Escape" && !root.classList.contains("qf-is-stage")) return;
    keep(event);
    action(event);
  });
}
