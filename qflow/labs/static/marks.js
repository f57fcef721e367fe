// Marks: what moves, on a canvas over the drawing. Each kind has a shape of its own: a message is a rounded square (with groups, the
// group's shape), a completion is round with a tick, hatched while it is held, an accept is a bare tick, a lock is a shackle.

import { colorOf, letterOf, shapeOf } from "./glyphs.js";
import { clamp } from "./numbers.js";

export const COLOURS = ["ink", "soft", "rule", "ground", "card", "level", "sky", "blue", "stop", "stop-pale", "go", "real", "glow", "bad", "dead"];

// Draws in the coordinates of the drawing below; a machine that cannot keep up gets a coarser picture, not a slower one.
export class Brush {
  constructor(canvas, root) {
    Object.assign(this, { canvas, root, pen: canvas.getContext("2d"), sharp: 2, slow: 0, sprites: new Map(), look: "" });
    this.forget([]);
  }

  // Another theme has other colours, another run other groups; if not, what is drawn is kept.
  forget(groups = this.groups) {
    this.groups = groups;
    this.colours = null;
  }

  colour(name) {
    return this.colours[name] ?? name;
  }

  learn() {
    const style = getComputedStyle(this.root);
    this.colours = Object.fromEntries(COLOURS.map((one) => [one, style.getPropertyValue(`--qf-${one}`).trim()]));
    const look = JSON.stringify([this.colours, this.groups]);
    if (look !== this.look) this.sprites.clear();
    this.look = look;
  }

  // Measured when it changes: a browser would lay out the page for an answer while it is drawn.
  heed(repaint) {
    new ResizeObserver(([{ contentRect }]) => {
      const isNew = this.room && (this.room.width !== contentRect.width || this.room.height !== contentRect.height);
      this.room = contentRect;
      if (isNew) repaint();
    }).observe(this.canvas);
  }

  begin(width, height) {
    if (!this.colours) this.learn();
    const box = (this.room ??= this.canvas.getBoundingClientRect());
    const ratio = Math.min(this.sharp, window.devicePixelRatio || 1);
    const [wide, tall] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== tall) [this.canvas.width, this.canvas.height] = [wide, tall];
    const scale = wide / width || 1;
    if (scale !== this.scale) this.sprites.clear();
    this.scale = scale;
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    this.pen.clearRect(0, 0, wide, tall);
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
  }

  // Sixty pictures in more than a second and a half: half as many points.
  keepUp(gap) {
    this.slow = gap > 25 ? this.slow + 1 : Math.max(0, this.slow - 1);
    if (this.slow > 60 && this.sharp > 1) [this.sharp, this.slow] = [this.sharp - 0.5, 0];
  }

  // A mark is drawn once for each size and kept: putting it somewhere is then a copy.
  put(kind, x, y, size, alpha = 1, group = 0) {
    const rounded = Math.round(size * 2) / 2;
    this.stamp(`${kind} ${rounded} ${group}`, x, y, rounded + 3, (pen, colour) => DRAWN[kind](pen, rounded, colour, group, this.groups), alpha);
  }

  // Anything else that is drawn once, around 0, 0 and no farther than its reach, and then copied.
  stamp(key, x, y, reach, draw, alpha = 1) {
    if (alpha <= 0.02) return;
    let sprite = this.sprites.get(key);
    if (!sprite) this.sprites.set(key, (sprite = this.sprite(reach, draw)));
    this.pen.globalAlpha = Math.min(1, alpha);
    const half = sprite.width / this.scale / 2;
    this.pen.drawImage(sprite, x - half, y - half, 2 * half, 2 * half);
    this.pen.globalAlpha = 1;
  }

  sprite(reach, draw) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.ceil(2 * reach * this.scale);
    const pen = canvas.getContext("2d");
    pen.setTransform(this.scale, 0, 0, this.scale, canvas.width / 2, canvas.height / 2);
    draw(pen, (name) => this.colour(name));
    return canvas;
  }

  // A part of a circle, clockwise from its top.
  arc(x, y, size, part, colour, line) {
    if (part <= 0) return;
    const { pen } = this;
    [pen.strokeStyle, pen.lineWidth, pen.lineCap] = [this.colour(colour), line, "round"];
    pen.beginPath();
    pen.arc(x, y, size, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * Math.min(1, part));
    pen.stroke();
    pen.lineCap = "butt";
  }

  // A line along a path, in a colour of the page.
  stroke(path, colour, width, { alpha = 1, cap = "butt", dash = [] } = {}) {
    const { pen } = this;
    [pen.globalAlpha, pen.strokeStyle, pen.lineWidth, pen.lineCap] = [alpha, this.colour(colour), width, cap];
    pen.setLineDash(dash);
    pen.stroke(new Path2D(path));
    pen.setLineDash([]);
    [pen.globalAlpha, pen.lineCap] = [1, "butt"];
  }

  // From the right to the left over something.
  bow(x, y, half, part, colour, alpha) {
    this.stroke(`M${x + half},${y}Q${x + half * (1 - part)},${y - 20 * part} ${x + half - 2 * half * part},${y}`, colour, 2.4, { alpha });
  }

  gaze(x, from, to, colour) {
    this.stroke(`M${x},${from}V${to}`, colour, 1.5, { dash: [2, 5] });
  }

  // A bracket over all that is waited for.
  wait(from, to, y, colour) {
    this.stroke(`M${from},${y + 5}V${y}H${to}V${y + 5}`, colour, 1.6, { dash: [4, 4] });
  }

  // An eye, from closed (0), with its lashes, to wide open (1), with its owner's number beside it.
  eye(x, y, open, colour, number) {
    const { pen } = this;
    if (open < 0.3) {
      const lashes = [[-8, 1.2, -2.5, 4.3], [0, 3.2, 0, 5.3], [8, 1.2, 2.5, 4.3]].map(([across, top, out, down]) => `M${x + across},${y + top}l${out},${down}`);
      return this.stroke(`M${x - 13},${y - 3}Q${x},${y + 9} ${x + 13},${y - 3}${lashes.join("")}`, colour, 2.2, { cap: "round" });
    }
    const shape = `M${x - 14},${y}Q${x},${y - 18 * open} ${x + 14},${y}Q${x},${y + 18 * open} ${x - 14},${y}`;
    pen.fillStyle = this.colour("card");
    pen.fill(new Path2D(shape));
    this.stroke(shape, colour, 2.2);
    pen.fillStyle = this.colour(colour);
    pen.beginPath();
    pen.arc(x, y - 1, 4.6, 0, 7);
    pen.fill();
    drawText(pen, String(number), x + 18, y, "700 12px", this.colour(colour), "left");
  }

  // A cross that is drawn stroke after stroke.
  cross(x, y, size, part, width) {
    const [one, other] = [clamp(part * 2, 0, 1), clamp(part * 2 - 1, 0, 1)].map((done) => 2 * size * done);
    const second = other ? `M${x + size},${y - size}l${-other},${other}` : "";
    this.stroke(`M${x - size},${y - size}l${one},${one}${second}`, "bad", width, { cap: "round" });
  }

  line(from, to, colour, width, alpha) {
    this.stroke(`M${from}L${to}`, colour, width, { alpha, cap: "round" });
  }

  // The cell of a window or a prefetch, given by its middle and its size, or what grows around it.
  cell([x, y, size], fill, stroke, line, alpha = 1, grow = 0) {
    const half = size / 2 + grow;
    this.box(x - half, y - half, 2 * half, 2 * half, 3, fill, stroke, line, alpha);
  }

  box(x, y, width, height, radius, fill, stroke = null, line = 1.5, alpha = 1) {
    const { pen } = this;
    pen.globalAlpha = alpha;
    pen.beginPath();
    pen.roundRect(x, y, width, height, radius);
    if (fill) [pen.fillStyle] = [this.colour(fill)];
    if (fill) pen.fill();
    if (stroke) [pen.strokeStyle, pen.lineWidth] = [this.colour(stroke), line];
    if (stroke) pen.stroke();
    pen.globalAlpha = 1;
  }
}

function strokeTick(pen, size, colour, width) {
  [pen.strokeStyle, pen.lineWidth, pen.lineCap, pen.lineJoin] = [colour, width, "round", "round"];
  pen.beginPath();
  pen.moveTo(-size, 0);
  pen.lineTo(-size * 0.3, size * 0.75);
  pen.lineTo(size, -size * 0.75);
  pen.stroke();
}

function fillHatch(pen, size, colour) {
  pen.save();
  pen.clip();
  pen.fillStyle = colour("stop-pale");
  pen.fillRect(-size, -size, 2 * size, 2 * size);
  [pen.strokeStyle, pen.lineWidth] = [colour("stop"), Math.max(1, size / 3.4)];
  pen.beginPath();
  const pitch = Math.max(2.2, size / 1.7);
  for (let at = -4 * size; at <= 4 * size; at += pitch) {
    pen.moveTo(at - 2 * size, 2 * size);
    pen.lineTo(at + 2 * size, -2 * size);
  }
  pen.stroke();
  pen.restore();
}

export function ring(pen, size) {
  pen.beginPath();
  pen.arc(0, 0, size, 0, 7);
}

export function square(pen, size, radius = size / 2) {
  pen.beginPath();
  pen.roundRect(-size, -size, 2 * size, 2 * size, radius);
}

// A shape around 0, 0, filled and with an edge.
export function drawShape(pen, shape, scale, fill, edge, line) {
  const path = new Path2D(shape);
  pen.save();
  pen.scale(scale, scale);
  [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [fill, edge, line];
  pen.fill(path);
  pen.stroke(path);
  pen.restore();
}

const DRAWN = {
  message(pen, size, colour, group, groups) {
    if (group) {
      drawShape(pen, shapeOf(group), size / 5.4, colorOf(group), colour("card"), 0.7);
      pen.scale(size / 5.4, size / 5.4);
      if (size >= 7) drawText(pen, letterOf(groups, group), 0, 0.3, "700 5px", "#fff");
      return;
    }
    pen.fillStyle = colour("blue");
    square(pen, size);
    pen.fill();
    pen.fillStyle = colour("card");
    ring(pen, size * 0.32);
    pen.fill();
  },
  // On its way to a queue, which counts it when it is there.
  sent(pen, size, colour, group) {
    const shape = group ? shapeOf(group) : "M-4.4,-3A1.4,1.4 0 0 1 -3,-4.4H3A1.4,1.4 0 0 1 4.4,-3V3A1.4,1.4 0 0 1 3,4.4H-3A1.4,1.4 0 0 1 -4.4,3Z";
    drawShape(pen, shape, size / 5.4, colour("card"), group ? colorOf(group) : colour("blue"), 1.7);
  },
  waiting(pen, size, colour, group) {
    [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [colour("card"), colour("stop"), 2];
    square(pen, size);
    pen.fill();
    pen.stroke();
    DRAWN.message(pen, size - 4, colour, group);
  },
  completion(pen, size, colour) {
    pen.fillStyle = colour("go");
    ring(pen, size);
    pen.fill();
    if (size >= 3) strokeTick(pen, size * 0.5, colour("card"), Math.max(1, size / 4));
  },
  held(pen, size, colour) {
    ring(pen, size);
    fillHatch(pen, size, colour);
    [pen.strokeStyle, pen.lineWidth] = [colour("stop"), Math.max(1, size / 5)];
    ring(pen, size - 0.3);
    pen.stroke();
  },
  accept: (pen, size, colour) => strokeTick(pen, size * 0.62, colour("go"), Math.max(1.6, size / 2.6)),
  reject(pen, size, colour) {
    [pen.strokeStyle, pen.lineWidth, pen.lineCap] = [colour("bad"), Math.max(1.6, size / 2.6), "round"];
    pen.stroke(new Path2D(`M${-size * 0.5},${-size * 0.5}L${size * 0.5},${size * 0.5}M${size * 0.5},${-size * 0.5}L${-size * 0.5},${size * 0.5}`));
  },
  // A shackle with its owner's number on it.
  lock(pen, size, colour, owner) {
    drawLock(pen, size, colour("ink"));
    drawText(pen, owner || "?", 0, size * 0.36, `700 ${size * 1.15}px`, colour("card"));
  },
  unlocked: (pen, size, colour) => drawLock(pen, size, colour("ink"), size * 0.7),
};

export function drawLock(pen, size, paint, lift = 0) {
  [pen.strokeStyle, pen.lineWidth, pen.fillStyle] = [paint, Math.max(1.4, size / 3.4), paint];
  pen.beginPath();
  pen.arc(0, -size * 0.25 - lift / 2, size * 0.52, Math.PI, lift ? Math.PI * 1.75 : 0);
  pen.stroke();
  pen.beginPath();
  pen.roundRect(-size * 0.8, -size * 0.3, size * 1.6, size * 1.25, size * 0.22);
  pen.fill();
}

// A word of the drawing's letters: its weight and size, its colour, where it stands.
export function drawText(pen, text, x, y, font, paint, align = "center") {
  [pen.font, pen.textAlign, pen.textBaseline, pen.fillStyle] = [`${font} system-ui, sans-serif`, align, "middle", paint];
  pen.fillText(text, x, y);
}
