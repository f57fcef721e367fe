// Transport: play, pause, step, step back, scrub, jump to a flow control transition; mouse and keyboard alike.

const SPEEDS = [0.01, 0.05, 0.2, 0.5, 1, 2, 5, 10];
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back or on"],
  ["Shift ← →", "previous or next ON/OFF"],
  ["Home End", "start or end"],
  ["+ −", "faster or slower"],
];
const KEYS_TEXT = KEYS.map(([key, does]) => `${key}: ${does}`).join("; ");

function buildTransport(parent, player) {
  const bar = html("div", { class: "qf-transport", role: "toolbar", "aria-label": "Transport" }, parent);
  const button = (label, title, action) => {
    const made = html("button", { type: "button", title, "aria-label": title.split(" (")[0] }, bar, label);
    made.addEventListener("click", action);
    return made;
  };
  const earlier = button("◂ ON/OFF", "Previous flow control transition (Shift ←)", () => player.jump(-1));
  const back = button("◂ step", "One step back (←)", () => player.step(-1));
  const play = button("", "Play or pause (Space)", () => player.toggle());
  const on = button("step ▸", "One step on (→)", () => player.step(1));
  const later = button("ON/OFF ▸", "Next flow control transition (Shift →)", () => player.jump(1));
  earlier.classList.add("qf-earlier");
  back.classList.add("qf-step-back");
  play.classList.add("qf-play");
  on.classList.add("qf-step-on");
  later.classList.add("qf-later");
  const scrub = html("input", { type: "range", min: 0, class: "qf-scrub", "aria-label": "Step", title: KEYS_TEXT }, bar);
  scrub.addEventListener("input", () => player.show(Number(scrub.value)));
  const label = html("label", { class: "qf-speed" }, bar, "speed ");
  const speed = html("select", { "aria-label": "Speed", title: "Virtual seconds for one of yours (+ −)" }, label);
  for (const factor of SPEEDS) html("option", { value: factor }, speed, `${factor}×`);
  speed.addEventListener("change", () => player.setSpeed(Number(speed.value)));
  const clock = html("output", { class: "qf-clock" }, bar);

  return ({ timeline, frame, isPlaying, factor }) => {
    set(scrub, { max: timeline.count - 1 });
    scrub.value = frame;
    const now = `t = ${seconds(timeline.time(frame))}`;
    scrub.setAttribute("aria-valuetext", `step ${frame} of ${timeline.count - 1}, ${now}`);
    write(clock, `${now} · step ${frame} of ${timeline.count - 1}`);
    classify(play, isPlaying ? "qf-play qf-is-playing" : "qf-play");
    write(play, isPlaying ? "pause" : "play");
    speed.value = factor;
    back.disabled = frame === 0;
    on.disabled = frame === timeline.count - 1;
    earlier.disabled = !timeline.picture.transitions.some(([at]) => at < frame);
    later.disabled = !timeline.picture.transitions.some(([at]) => at > frame);
  };
}

// Where we are in the run. It only ever picks a frame that Python made.
class Player {
  constructor(draw) {
    this.draw = draw;
    this.timeline = null;
    this.frame = 0;
    this.clock = 0;
    this.factor = 1;
    this.request = 0;
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  }

  get isPlaying() {
    return this.request !== 0;
  }

  load(timeline) {
    const first = this.timeline === null;
    const time = first ? 0 : this.timeline.time(this.frame);
    this.timeline = timeline;
    this.show(first ? timeline.picture.start : timeline.at(time));
  }

  show(frame) {
    this.frame = Math.min(this.timeline.count - 1, Math.max(0, frame));
    this.clock = this.timeline.time(this.frame);
    this.draw(this);
  }

  seek(time) {
    this.show(this.timeline.at(time));
  }

  step(by) {
    this.pause();
    this.show(this.frame + by);
  }

  jump(direction) {
    this.pause();
    const frames = this.timeline.picture.transitions.map(([frame]) => frame);
    const found = direction > 0 ? frames.find((frame) => frame > this.frame) : frames.findLast((frame) => frame < this.frame);
    if (found !== undefined) this.show(found);
  }

  setSpeed(factor) {
    this.factor = factor;
    this.draw(this);
  }

  changeSpeed(by) {
    const index = SPEEDS.indexOf(this.factor) + by;
    this.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, index))]);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
    this.draw(this);
  }

  pause() {
    cancelAnimationFrame(this.request);
    this.request = 0;
  }

  play() {
    if (this.frame === this.timeline.count - 1) this.show(0);
    let before = performance.now();
    const tick = (now) => {
      // Somebody who asked for less motion gets the same run as a few still pictures a second.
      const pause = this.calm.matches ? 400 : 0;
      if (now - before >= pause) {
        this.clock += (now - before) * 1000 * this.factor;
        before = now;
        this.frame = this.timeline.at(this.clock);
        if (this.clock >= this.timeline.end) {
          this.request = 0;
          this.frame = this.timeline.count - 1;
          this.draw(this);
          return;
        }
        this.draw(this);
      }
      this.request = requestAnimationFrame(tick);
    };
    this.request = requestAnimationFrame(tick);
  }
}

function listenToKeys(root, player) {
  const actions = {
    " ": () => player.toggle(),
    ArrowRight: (event) => (event.shiftKey ? player.jump(1) : player.step(1)),
    ArrowLeft: (event) => (event.shiftKey ? player.jump(-1) : player.step(-1)),
    Home: () => player.show(0),
    End: () => player.show(player.timeline.count - 1),
    "+": () => player.changeSpeed(1),
    "-": () => player.changeSpeed(-1),
  };
  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !player.timeline) return;
    const isChoosing = event.target.tagName === "SELECT";
    const isPressing = event.target.tagName === "BUTTON" && event.key === " ";
    const action = actions[event.key];
    if (!action || isChoosing || isPressing) return;
    event.preventDefault();
    event.stopPropagation();
    action(event);
  });
}
