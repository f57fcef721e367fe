// Share: a token for the visible instant, a file with the whole run, forks, and comparisons of two runs.

import { canFilm, film } from "./film.js";
import { button, html, write } from "./svg.js";

export function buildSharing(parent, root, model, player, shown) {
  const bar = html("div", { class: "qf-share" }, parent);
  const add = (name, label, title, act) => button({ class: `qf-${name}`, title }, bar, label, act);
  const send = (ask, more = {}) => {
    player.pause();
    model.send({
      ask,
      time: player.track.time(player.place),
      back: player.track.at(player.track.time(player.place)) - player.place,
      frame: player.track.frame(0, player.place),
      ...more,
    });
  };
  const forks = html(
    "select",
    {
      class: "qf-fork",
      "aria-label": "Another course of events from here",
      title: "Fork here (F): what if, from this instant on …",
    },
    bar,
  );
  forks.addEventListener("change", () => {
    if (forks.value) send("fork", { action: forks.value });
    forks.value = "";
  });
  // The button is beside the comparison that it ends, also when the other tools are hidden.
  const end = button({ class: "qf-end-comparison", hidden: "" }, root.querySelector(".qf-top"), "stop comparing", () =>
    send("compare"),
  );
  const compare = add("compare", "compare", "Keep this run beside the next (C)", () => send("compare"));
  const token = add("token", "share", "A link, and a line for a cell, that open this instant elsewhere", () =>
    send("token"),
  );
  const filmed = add(
    "film",
    "save as film",
    "The next seconds from here as a moving picture, with the run's settings, among your downloads",
    () => record(),
  );
  const save = add("export", "save as HTML", "One file that plays without a kernel, among your downloads", () =>
    send("html"),
  );
  const said = html("output", { class: "qf-said" }, bar);
  const keep = (content, name) => {
    const address = URL.createObjectURL(content);
    html("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    write(said, `${name} is among your downloads`);
  };
  const record = async () => {
    filmed.disabled = true;
    try {
      keep(await film(shown[0], player, (text) => write(said, text)), "qflow-run.webm");
    } catch (error) {
      write(said, `This browser records no film here: ${error.message}`);
    }
    filmed.disabled = false;
  };
  model.on(
    "msg:custom",
    (message, buffers) => message.page && keep(new Blob(buffers, { type: "text/html" }), message.page),
  );
  const showToken = buildShared(bar, model);
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
      filmed.hidden = !canFilm();
    },
    token: showToken,
  };
}

// Show the two ways to open a token: a link, if there is a site, and a line for a cell.
function buildShared(bar, model) {
  const fields = html("div", { class: "qf-shared", hidden: "" }, bar);
  const link = buildCopy(fields, "link", "A link to this run at this instant");
  const line = buildCopy(fields, "cell", "A line for a cell of a notebook, which opens this run at this instant");
  const note = html(
    "p",
    {},
    fields,
    "For a link, build a site (qflow site build), and name its address in the variable QFLOW_SITE.",
  );
  return () => {
    const text = model.get("token");
    const site = siteOf(model);
    // A page without a kernel shares a link.
    const isLink = text.includes("#");
    fields.hidden = !text;
    link.show(isLink ? text : site && text ? `${site}#${text}` : "");
    line.show(isLink || !text ? "" : `qf.labs.open_token("${text}")`);
    note.hidden = isLink || Boolean(site);
  };
}

// A text with a button that copies it.
function buildCopy(parent, name, title) {
  const row = html("span", { class: `qf-copy qf-copy-${name}` }, parent);
  const field = html("input", { type: "text", class: "qf-token-text", readonly: "", title, "aria-label": title }, row);
  const words = `copy the ${name === "cell" ? "line" : name}`;
  const copy = button({ class: "qf-copy-button" }, row, words, async () => {
    field.select();
    // Without permission to write to the clipboard, the text is selected, so that the reader can copy it.
    await navigator.clipboard?.writeText(field.value).then(
      () => write(copy, "copied"),
      () => {},
    );
  });
  return {
    show(text) {
      row.hidden = !text;
      field.value = text;
      write(copy, words);
    },
  };
}

// The address of the site that opens links, as the kernel knows it, or else that of the current site.
function siteOf(model) {
  const root = document.querySelector("script[data-jupyter-lite-root]")?.dataset.jupyterLiteRoot;
  return model.get("site") || (root ? new URL(`${root}/index.html`, location.href.split("?")[0]).href : "");
}
