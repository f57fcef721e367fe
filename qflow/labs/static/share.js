// Share: a token for this instant, a file with the whole run, another course of events from here, two runs side by side.

function buildSharing(parent, root, model, player) {
  const bar = html("div", { class: "qf-share" }, parent);
  const button = (name, label, title, action) => {
    const made = html("button", { type: "button", class: `qf-${name}`, title }, bar, label);
    made.addEventListener("click", action);
    return made;
  };
  const send = (ask, more = {}) => {
    player.pause();
    model.send({ ask, time: player.track.time(player.place), back: player.track.at(player.track.time(player.place)) - player.place, frame: player.track.frame(0, player.place), ...more });
  };
  const forks = html("select", { class: "qf-fork", "aria-label": "Another course of events from here", title: "Fork here (F): what if, from this instant on …" }, bar);
  forks.addEventListener("change", () => {
    if (forks.value) send("fork", { action: forks.value });
    forks.value = "";
  });
  // Beside what it ends, also where the rest of the tools is out of sight.
  const end = html("button", { type: "button", class: "qf-end-comparison", hidden: "" }, root.querySelector(".qf-top"), "stop comparing");
  end.addEventListener("click", () => send("compare"));
  const compare = button("compare", "compare", "Keep this run beside the next (C)", () => send("compare"));
  const token = button("token", "share", "A token that opens this instant elsewhere", () => send("token"));
  const save = button("export", "save as HTML", "One file that plays without a kernel, among your downloads", () => send("html"));
  const said = html("output", { class: "qf-said" }, bar);
  model.on("msg:custom", (message, buffers) => {
    if (!message.page) return;
    const address = URL.createObjectURL(new Blob(buffers, { type: "text/html" }));
    html("a", { href: address, download: message.page }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    write(said, `${message.page} is among your downloads`);
  });
  const field = html("input", { type: "text", class: "qf-token-text", readonly: "", hidden: "", "aria-label": "Token of this instant" }, bar);
  const can = (what) => (model.get("offers") ?? []).includes(what);

  return {
    compare: () => can("compare") && send("compare"),
    fork: () => !forks.hidden && forks.focus(),
    load() {
      const actions = model.get("actions") ?? [];
      forks.replaceChildren();
      html("option", { value: "" }, forks, "fork here …");
      for (const [key, label] of actions) html("option", { value: key }, forks, label);
      forks.hidden = !actions.length;
      compare.hidden = !can("compare") || can("pinned");
      end.hidden = !can("pinned");
      token.hidden = !can("token");
      save.hidden = !can("html");
    },
    token() {
      const text = model.get("token");
      field.hidden = !text;
      field.value = text;
      if (!text) return;
      field.select();
      navigator.clipboard?.writeText(text).catch(() => {});
    },
  };
}
