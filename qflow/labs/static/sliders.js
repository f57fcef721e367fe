// Sliders: what the lab hears of them while they are held, so that its picture comes soon or is there already.

import { askRest } from "./handles.js";

const REST = 40;

// A reader who takes hold of a slider says which instant is looked at: it is drawn first when the next run takes longer.
// One who rests with it says where: most sliders are let go of where they rest.
export function heedSliders(el, player, model) {
  let looked = -1;
  let held = null;
  const isOurs = (event) => Boolean(event.target.closest?.(".qf-panel")?.closest(".qflow-lab")?.contains(el));
  const look = () => {
    const time = player.track.time(player.place);
    if (time !== looked) model.send({ ask: "look", time });
    looked = time;
  };
  const take = (event) => {
    if (!player.track || !isOurs(event)) return;
    look();
    if (event.type === "pointerdown") held = heldSlider(event.target.closest(".qf-slider"), model);
  };
  const move = () => held?.move();
  const leave = () => {
    held?.leave();
    held = null;
  };
  const heard = { pointerdown: take, keydown: take, pointermove: move, pointerup: leave, pointercancel: leave };
  for (const [name, hear] of Object.entries(heard)) document.addEventListener(name, hear, true);
  return () => {
    leave();
    for (const [name, hear] of Object.entries(heard)) document.removeEventListener(name, hear, true);
  };
}

// One slider under the pointer. What it says is asked for once the answer before is there: a slow run is not made slower.
function heldSlider(slider, model) {
  const rail = slider?.querySelector(".noUi-target")?.noUiSlider;
  const setting = slider && [...slider.classList].find((name) => name.startsWith("qf-slider-"))?.slice("qf-slider-".length);
  if (!rail || !setting) return null;
  const begun = Number(rail.get());
  let [said, timer, isAwaited] = [begun, 0, false];
  const say = (value) => {
    said = value;
    isAwaited = true;
    askRest(model, setting, value, () => (isAwaited = false));
  };
  const rest = () => {
    const value = Number(rail.get());
    if (isAwaited) move();
    else if (value !== said) say(value);
  };
  const move = () => {
    clearTimeout(timer);
    timer = setTimeout(rest, REST);
  };
  // A slider that comes back to where it was has not changed, and would not tell.
  const leave = () => {
    clearTimeout(timer);
    if (said !== begun) say(Number(rail.get()));
  };
  return { move, leave };
}
