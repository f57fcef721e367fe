// Film: records a few seconds of the playing picture as a video (WebM) in the browser, with a caption on the run.

import { COLOURS } from "./marks.js";
import { SVG } from "./svg.js";

const FILM = { width: 960, caption: 64, seconds: 6, rate: 12 };

// Whether this browser can record a video.
export const canFilm = () => Boolean(globalThis.MediaRecorder && HTMLCanvasElement.prototype.captureStream);

export async function film(view, player, report) {
  const { width, height } = view.drawn.places;
  const tall = Math.round((FILM.width * height) / width);
  const canvas = Object.assign(document.createElement("canvas"), { width: FILM.width, height: tall + FILM.caption });
  const look = lookOf(view);
  const recorder = new MediaRecorder(canvas.captureStream(FILM.rate), { mimeType: "video/webm" });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const stopped = new Promise((done) => (recorder.onstop = done));
  await drawStill(canvas, view, look, tall);
  recorder.start();
  const begun = performance.now();
  player.play();
  for (let gone = 0; gone < FILM.seconds && player.isPlaying; gone = (performance.now() - begun) / 1000) {
    report(`recording: ${Math.ceil(FILM.seconds - gone)} s`);
    await drawStill(canvas, view, look, tall);
    await new Promise((next) => setTimeout(next, 1000 / FILM.rate));
  }
  player.pause();
  recorder.stop();
  await stopped;
  return new Blob(parts, { type: "video/webm" });
}

// The style rules that apply to the drawing, with the current values of the colours.
function lookOf(view) {
  const rules = [...document.styleSheets].flatMap((sheet) => {
    try {
      return [...sheet.cssRules];
    } catch {
      return []; // another site's sheet is not read
    }
  });
  const style = getComputedStyle(view.picture);
  const colours = COLOURS.map((name) => `--qf-${name}:${style.getPropertyValue(`--qf-${name}`)}`).join(";");
  const css = rules.map((rule) => rule.cssText).filter((text) => text.includes(".qflow-scene"));
  return {
    css: css.join("\n"),
    colours,
    ground: style.getPropertyValue("--qf-ground"),
    ink: style.getPropertyValue("--qf-ink"),
  };
}

async function drawStill(canvas, view, { css, colours, ground, ink }, tall) {
  const { width, height } = view.drawn.places;
  const drawing = new XMLSerializer().serializeToString(view.stage);
  const size = `width="${FILM.width}" height="${tall}" viewBox="0 0 ${width} ${height}"`;
  const sheet = `<style>${css.replace(/&/g, "&amp;").replace(/</g, "&lt;")}</style>`;
  const text =
    `<svg xmlns="${SVG}" ${size} class="qflow-scene" style="border:0;max-width:none;padding:0">` +
    `${sheet}<g style="${colours}">${drawing}</g></svg>`;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const pen = canvas.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, FILM.width, tall);
  pen.drawImage(view.brush.canvas, 0, 0, FILM.width, tall);
  pen.fillStyle = ink;
  captionOf(view).forEach((line, row) => {
    pen.font = `${row ? 400 : 600} 18px system-ui, sans-serif`;
    pen.fillText(line, 16, tall + 24 + 26 * row, FILM.width - 32);
  });
}

// The caption: the settings of the run, and the bound of the capacity law for them.
function captionOf({ timeline }) {
  const { queues, producers } = timeline.topology;
  const [queue] = queues;
  const levels = [
    ["stop", queue.stop_count],
    ["resume", queue.stop_count && queue.resume_count],
    ["limit", queue.max_count],
  ].filter(([, level]) => level);
  const windows = producers.map(({ capacity }) => capacity);
  const settings = [...levels.map(([name, level]) => `${name} ${level}`), `window ${windows.join(" and ")}`].join(", ");
  const most = windows.reduce((sum, one) => sum + one, queue.stop_count);
  const bound = queue.max_count ? `, ${most > queue.max_count ? "above" : "within"} the limit` : "";
  const law =
    queue.stop_count && queues.length === 1
      ? `stop + windows: ${[queue.stop_count, ...windows].join(" + ")} = ${most}${bound}`
      : "";
  return [`${queue.name}: ${settings}`, law].filter(Boolean);
}
