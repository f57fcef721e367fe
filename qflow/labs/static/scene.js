// Scene: the widget. Python sends a picture; this draws it and lets the learner move through it.

function render({ model, el }) {
  const id = `qf-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;
  const root = html("div", { class: "qflow-scene", tabindex: 0, role: "group", "data-lm-suppress-shortcuts": "true" }, el);
  set(root, { "aria-label": `Picture of a run. Keys: ${KEYS_TEXT}` });
  const refusal = html("div", { class: "qf-refusal", role: "alert", hidden: "" }, root);
  const stage = svg("svg", { class: "qf-stage", role: "img", "aria-label": "Producers, queues and consumers" }, root);
  const step = html("p", { class: "qf-step" }, root);
  const state = html("p", { class: "qf-state", "aria-live": "polite" }, root);
  const plots = html("div", { class: "qf-plots" }, root);
  let [paintStage, paintPlots, paintTransport] = [null, null, null];

  const draw = (now) => {
    const { timeline, frame, isPlaying } = now;
    paintStage(frame);
    paintPlots(frame);
    paintTransport(now);
    write(step, stepSentence(timeline, frame));
    // While the picture moves, a screen reader would be told sixty sentences a second.
    if (!isPlaying) write(state, stateSentence(timeline, frame));
    mark(stage, timeline, frame);
  };
  const player = new Player(draw);
  paintTransport = buildTransport(root, player);
  html("p", { class: "qf-keys" }, root, `Keys: ${KEYS_TEXT}.`);
  listenToKeys(root, player);

  const load = () => {
    const run = model.get("run");
    // A run that took longer than a later one must not come back over it.
    if (run === 0 || (player.timeline && run <= player.timeline.run)) return;
    const timeline = new Timeline(model.get("picture"), model.get("numbers"), run);
    paintStage = buildStage(stage, timeline, id);
    paintPlots = buildPlots(plots, timeline, id, (time) => player.seek(time));
    player.load(timeline);
  };
  const refuse = () => {
    const text = model.get("refusal");
    refusal.hidden = !text;
    write(refusal, text);
    root.classList.toggle("qf-is-refused", Boolean(text));
  };
  model.on("change:run", load);
  model.on("change:refusal", refuse);
  load();
  refuse();
  return () => {
    player.pause();
    model.off("change:run", load);
    model.off("change:refusal", refuse);
  };
}

// What tests, and anybody who scripts a page, can read off the picture.
function mark(stage, timeline, frame) {
  const seen = timeline.queue(frame, 0);
  set(stage, {
    "data-run": timeline.run,
    "data-frame": frame,
    "data-frames": timeline.count,
    "data-time": timeline.time(frame),
    "data-count": seen.depth,
    "data-depth": seen.depth,
    "data-flow": seen.flow ? "ON" : "OFF",
    "data-held": seen.held,
    "data-stop": timeline.topology.queues[0].stop_count,
    "data-resume": timeline.topology.queues[0].resume_count,
  });
}

export default { render };
