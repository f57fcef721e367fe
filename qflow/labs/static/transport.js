// Transport: play, pause, step, step back, scrub, jump to a flow control transition; mouse and keyboard alike.

const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back or on"],
  ["Shift ← →", "previous or next turn (ON, OFF, a discard, an end)"],
  ["Home End", "start or end"],
  ["+ −", "faster or slower"],
  ["W", "ask why"],
  ["C", "compare: keep this run beside the next"],
];
const KEYS_TEXT = KEYS.map(([key, does]) => `${key}: ${does}`).join("; ");

function buildTransport(parent, player) {
  const bar = html("div", { class: "qf-transport", role: "toolbar", "aria-label": "Transport" }, parent);
  const button = (name, label, title, action) => {
    const made = html("button", { type: "button", class: `qf-${name}`, title, "aria-label": title.split(" (")[0] }, bar, label);
    made.addEventListener("click", action);
    return made;
  };
  const earlier = button("earlier", "◂ turn", "Previous turn: flow control, a first discard, an end (Shift ←)", () => player.jump(-1));
  const back = button("step-back", "◂ step", "One step back (←)", () => player.step(-1));
  const play = button("play", "", "Play or pause (Space)", () => player.toggle());
  const on = button("step-on", "step ▸", "One step on (→)", () => player.step(1));
  const later = button("later", "turn ▸", "Next turn: flow control, a first discard, an end (Shift →)", () => player.jump(1));
  const scrub = html("input", { type: "range", min: 0, class: "qf-scrub", "aria-label": "Step", title: KEYS_TEXT }, bar);
  scrub.addEventListener("input", () => player.show(Number(scrub.value)));
  const label = html("label", { class: "qf-speed" }, bar, "speed ");
  const speed = html("select", { "aria-label": "Speed", title: "Virtual seconds for one of yours (+ −)" }, label);
  for (const factor of SPEEDS) html("option", { value: factor }, speed, `${factor}×`);
  speed.addEventListener("change", () => player.setSpeed(Number(speed.value)));
  const clock = html("output", { class: "qf-clock" }, bar);

  return ({ track, place, isPlaying, factor }) => {
    set(scrub, { max: track.count - 1 });
    scrub.value = place;
    const now = `t = ${seconds(track.time(place))}`;
    scrub.setAttribute("aria-valuetext", `step ${place} of ${track.count - 1}, ${now}`);
    write(clock, `${now} · step ${place} of ${track.count - 1}${track.isWhole ? "" : " so far"}`);
    classify(play, isPlaying ? "qf-play qf-is-playing" : "qf-play");
    write(play, isPlaying ? "pause" : "play");
    speed.value = factor;
    back.disabled = place === 0;
    on.disabled = place === track.count - 1;
    earlier.disabled = !track.transitions().some((at) => at < place);
    later.disabled = !track.transitions().some((at) => at > place);
  };
}

function listenToKeys(root, player, more) {
  const actions = {
    " ": () => player.toggle(),
    ArrowRight: (event) => (event.shiftKey ? player.jump(1) : player.step(1)),
    ArrowLeft: (event) => (event.shiftKey ? player.jump(-1) : player.step(-1)),
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
    // Choosing from a list by arrow keys must not move through the notebook's cells.
    if (isChoosing) event.stopPropagation();
    if (!action || isChoosing || isPressing) return;
    event.preventDefault();
    event.stopPropagation();
    action(event);
  });
}
