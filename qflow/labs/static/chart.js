// Chart: a plotly figure with the scene's cursor. Both are connected in the browser; the kernel only sends the figure.

import { button, heedTheme, html, listen, set, write } from "./svg.js";

function render({ model, el }) {
  const root = html("div", { class: "qflow-scene qf-chart", role: "group" }, el);
  const note = html("p", { class: "qf-chart-note", role: "status" }, root, "Fetching plotly.js from the kernel …");
  const stage = html("div", { class: "qf-chart-stage" }, root);
  const place = html("div", { class: "qf-chart-figure" }, stage);
  const rail = html("div", { class: "qf-cursor-rail qf-chart-rail", hidden: "" }, stage);
  const line = html("i", { class: "qf-cursor" }, rail);
  const bar = html("div", { class: "qf-chart-bar", hidden: "" }, root);
  let [plotly, scene, isGone] = [null, null, false];

  const paint = () => {
    const axes = place._fullLayout;
    const time = scene?.get("cursor") ?? -1;
    const at = axes && model.get("has_time") && time >= 0 ? axes.xaxis.l2p(time / 1e6) : -1;
    rail.hidden = !axes || at < 0 || at > axes.xaxis._length;
    set(root, { "data-time": time, "data-cursor": rail.hidden ? "" : at.toFixed(1) });
    if (rail.hidden) return;
    line.style.top = `${axes._size.t}px`;
    line.style.height = `${axes._size.h}px`;
    rail.style.transform = `translateX(${(axes.xaxis._offset + at).toFixed(1)}px)`;
  };
  const draw = async () => {
    set(root, { "aria-label": `Chart. ${model.get("about")}` });
    if (!plotly) return;
    const isDark = document.body.dataset.jpThemeLight === "false";
    const { data, layout } = JSON.parse(
      isDark ? recoloured(model.get("figure"), model.get("dark")) : model.get("figure"),
    );
    await plotly.react(place, data, dressed(layout, root), {
      displaylogo: false,
      responsive: true,
      modeBarButtonsToRemove: ["toImage", "select2d", "lasso2d"],
    });
    set(root, { "data-drawn": data.length });
    place.removeAllListeners?.("plotly_relayout");
    place.on("plotly_relayout", paint);
    paint();
  };
  const drawing = () => {
    const image = html("img", {
      alt: model.get("about"),
      src: `data:image/svg+xml;utf8,${encodeURIComponent(model.get("drawing"))}`,
    });
    place.replaceChildren(image);
  };
  const save = (format) =>
    plotly.downloadImage(place, {
      format,
      filename: "qflow-chart",
      width: place.clientWidth,
      height: place.clientHeight,
      scale: format === "png" ? 2 : 1,
    });
  for (const format of ["png", "svg"]) {
    const name = format.toUpperCase();
    button({ class: `qf-save-${format}`, title: `Save this chart as it is, as ${name}` }, bar, `save as ${name}`, () =>
      save(format),
    );
  }

  const leaveInstants = heedInstants(place, (seconds) => {
    if (scene && model.get("has_time"))
      scene.set("place", { time: Math.max(0, Math.round(seconds * 1e6)), back: 0, number: Math.random() });
  });
  const leaveTheme = heedTheme(draw);
  const size = new ResizeObserver(() => requestAnimationFrame(paint));
  size.observe(stage);

  const begin = async () => {
    scene = await model.widget_manager.get_model(model.get("cursor_of").slice("IPY_MODEL_".length));
    scene.on("change:cursor", paint);
    try {
      plotly = await fetchPlotly(model);
    } catch (reason) {
      if (isGone) return;
      write(note, String(reason.message ?? reason));
      drawing();
      return;
    }
    if (isGone) return;
    note.hidden = true;
    bar.hidden = false;
    await draw();
  };
  const redraw = () => {
    if (plotly) draw();
    else if (place.firstChild) drawing();
  };
  const leaveModel = listen(model, { figure: redraw });
  begin();
  return () => {
    isGone = true;
    leaveModel();
    scene?.off("change:cursor", paint);
    leaveInstants();
    leaveTheme();
    size.disconnect();
    plotly?.purge(place);
    el.replaceChildren();
  };
}

// A click moves the scene to its time; a drag is left to plotly, which zooms.
function heedInstants(place, go) {
  let pressed = null;
  const press = (event) => {
    pressed = event.button === 0 ? [event.clientX, event.clientY] : null;
  };
  const release = (event) => {
    const axes = place._fullLayout;
    if (!pressed || !axes) return;
    const isClick = Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) < 4;
    pressed = null;
    const box = place.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - axes.xaxis._offset, event.clientY - box.top - axes._size.t];
    if (isClick && x >= 0 && x <= axes.xaxis._length && y >= 0 && y <= axes._size.h) go(axes.xaxis.p2l(x));
  };
  place.addEventListener("pointerdown", press, true);
  document.addEventListener("pointerup", release, true);
  return () => document.removeEventListener("pointerup", release, true);
}

// A page loads plotly.js once for all its charts: the first chart requests it from its kernel.
function fetchPlotly(model) {
  globalThis.qflowPlotly ??= new Promise((found, lost) => {
    const hear = (answer, buffers) => {
      if (answer.missing) lost(new Error(answer.missing));
      else if (answer.script === "plotly") install(buffers[0]).then(found, lost);
      else return;
      model.off("msg:custom", hear);
    };
    model.on("msg:custom", hear);
    model.send({ ask: "plotly" });
  }).catch((reason) => {
    globalThis.qflowPlotly = undefined;
    throw reason;
  });
  return globalThis.qflowPlotly;
}

async function install(packed) {
  const text = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const before = globalThis.Plotly;
  await new Promise((loaded, failed) => {
    const script = html("script", { src: url });
    script.addEventListener("load", loaded);
    script.addEventListener("error", () =>
      failed(new Error("The page does not let plotly.js run; this is the drawing.")),
    );
    document.head.append(script);
  });
  URL.revokeObjectURL(url);
  const plotly = globalThis.Plotly;
  if (before) globalThis.Plotly = before;
  return plotly;
}

// Replace the colours for a white page by those for a dark page.
const recoloured = (text, colours) =>
  text.replace(/#[0-9a-f]{6}/gi, (colour) => colours[colour.toLowerCase()] ?? colour);

// Use the colours and the font of the page, so that a chart on a dark page is not a white rectangle.
function dressed(layout, root) {
  const style = getComputedStyle(root);
  const color = (name) => style.getPropertyValue(`--qf-${name}`).trim();
  const grid = { gridcolor: `${color("rule")}80`, linecolor: color("soft"), zerolinecolor: color("rule") };
  const font = { ...layout.font, color: color("ink"), family: style.fontFamily, size: 13 };
  return {
    ...layout,
    width: undefined,
    autosize: true,
    paper_bgcolor: color("ground"),
    plot_bgcolor: color("card"),
    font,
    xaxis: { ...layout.xaxis, ...grid },
    yaxis: { ...layout.yaxis, ...grid },
  };
}

export default { render };
