// Marks: everything that moves, on a canvas over the drawing. Each kind has its own shape: a message is a rounded
// square (with groups, the shape of its group), a completion is round with a tick, and hatched while it is held; an
// accept is a tick alone, and a lock is a shackle.

import { colorOf, crossOf, letterOf, shapeOf } from "./glyphs.js";
import { clamp } from "./numbers.js";

export const COLOURS = [
  "ink",
  "soft",
  "rule",
  "ground",
  "card",
  "level",
  "sky",
  "blue",
  "stop",
  "stop-pale",
  "go",
  "real",
  "glow",
  "bad",
  "dead",
];

// Draws in the coordinates of the drawing below. On a slow machine the picture gets coarser instead of slower.
export class Brush {
  constructor(canvas, root) {
    Object.assign(this, {
      canvas,
      root,
      pen: canvas.getContext("2d"),
      sharp: 2,
      slow: 0,
      sprites: new Map(),
      look: "",
    });
    this.forget([]);
  }

  // Forget the marks drawn before if the theme has changed the colours, or another run the groups.
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

  // The size is measured only when it changes, as measuring during drawing would make the browser compute the layout.
  heed(repaint) {
    new ResizeObserver(([{ contentRect }]) => {
      const isNew = this.room && (this.room.width !== contentRect.width || this.room.height !== contentRect.height);
      this.room = contentRect;
      // A lab that is closed or not visible has no size.
      if (isNew && contentRect.width) repaint();
    }).observe(this.canvas);
  }

  begin(width) {
    if (!this.colours) this.learn();
    const box = (this.room ??= this.canvas.getBoundingClientRect());
    const ratio = Math.min(this.sharp, window.devicePixelRatio || 1);
    const [wide, tall] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== tall)
      [this.canvas.width, this.canvas.height] = [wide, tall];
    const scale = wide / width || 1;
    if (scale !== this.scale) this.sprites.clear();
    this.scale = scale;
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    this.pen.clearRect(0, 0, wide, tall);
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
  }

  // If sixty pictures take more than a second and a half, halve the resolution.
  keepUp(gap) {
    this.slow = gap > 25 ? this.slow + 1 : Math.max(0, this.slow - 1);
    if (this.slow > 60 && this.sharp > 1) [this.sharp, this.slow] = [this.sharp - 0.5, 0];
  }

  // A mark is drawn once for each size and kept, so that drawing it again is only a copy.
  put(kind, x, y, size, alpha = 1, group = 0) {
    const rounded = Math.round(size * 2) / 2;
    this.stamp(
      `${kind} ${rounded} ${group}`,
      x,
      y,
      rounded + 3,
      (pen, colour) => DRAWN[kind](pen, rounded, colour, group, this.groups),
      alpha,
    );
  }

  // The same for any other drawing around 0, 0 that does not extend beyond its `reach`.
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

  // Draw a path, with the names of the page's colours; see `paint` below.
  paint(path, { fill, edge, ...look }) {
    paint(this.pen, path, { ...look, fill: fill && this.colour(fill), edge: edge && this.colour(edge) });
  }

  stroke(path, edge, line, look = {}) {
    this.paint(path, { edge, line, ...look });
  }

  // An arc of a circle, clockwise from the top.
  arc(x, y, size, part, colour, line) {
    if (part > 0)
      this.stroke(
        pathOf("arc", x, y, size, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * Math.min(1, part)),
        colour,
        line,
        { isRound: true },
      );
  }

  // An arc from right to left over something.
  bow(x, y, half, part, colour, alpha) {
    this.stroke(
      `M${x + half},${y}Q${x + half * (1 - part)},${y - 20 * part} ${x + half - 2 * half * part},${y}`,
      colour,
      2.4,
      { alpha },
    );
  }

  // An eye between closed (0), with lashes, and wide open (1), with the number of its owner.
  eye(x, y, open, colour, number) {
    if (open < 0.3) {
      const lashes = [
        [-8, 1.2, -2.5, 4.3],
        [0, 3.2, 0, 5.3],
        [8, 1.2, 2.5, 4.3],
      ].map(([across, top, out, down]) => `M${x + across},${y + top}l${out},${down}`);
      return this.stroke(`M${x - 13},${y - 3}Q${x},${y + 9} ${x + 13},${y - 3}${lashes.join("")}`, colour, 2.2, {
        isRound: true,
      });
    }
    this.paint(`M${x - 14},${y}Q${x},${y - 18 * open} ${x + 14},${y}Q${x},${y + 18 * open} ${x - 14},${y}`, {
      fill: "card",
      edge: colour,
      line: 2.2,
    });
    this.paint(ring(4.6, x, y - 1), { fill: colour });
    drawText(this.pen, String(number), x + 18, y, "700 12px", this.colour(colour), "left");
  }

  // A cross, whose two strokes are drawn one after the other.
  cross(x, y, size, part, width) {
    const [one, other] = [clamp(part * 2, 0, 1), clamp(part * 2 - 1, 0, 1)].map((done) => 2 * size * done);
    const second = other ? `M${x + size},${y - size}l${-other},${other}` : "";
    this.stroke(`M${x - size},${y - size}l${one},${one}${second}`, "bad", width, { isRound: true });
  }

  // The cell of a window or a prefetch, given by its centre and size; `grow` enlarges it.
  cell([x, y, size], fill, stroke, line, alpha = 1, grow = 0) {
    const half = size / 2 + grow;
    this.box(x - half, y - half, 2 * half, 2 * half, 3, fill, stroke, line, alpha);
  }

  box(x, y, width, height, radius, fill, edge = null, line = 1.5, alpha = 1) {
    this.paint(pathOf("roundRect", x, y, width, height, radius), { fill, edge, line, alpha });
  }
}

// Fill a path, and draw its edge.
export function paint(pen, path, { fill, edge, line = 1.5, isRound = false, dash = [], alpha = 1 }) {
  const shape = new Path2D(path);
  pen.save();
  [pen.globalAlpha, pen.lineWidth] = [alpha, line];
  [pen.lineCap, pen.lineJoin] = isRound ? ["round", "round"] : ["butt", "miter"];
  pen.setLineDash(dash);
  [pen.fillStyle, pen.strokeStyle] = [fill, edge];
  if (fill) pen.fill(shape);
  if (edge) pen.stroke(shape);
  pen.restore();
}

function pathOf(kind, ...place) {
  const path = new Path2D();
  path[kind](...place);
  return path;
}

export const ring = (size, x = 0, y = 0) => pathOf("arc", x, y, size, 0, 7);
export const square = (size, radius = size / 2) => pathOf("roundRect", -size, -size, 2 * size, 2 * size, radius);

function paintTick(pen, size, edge, line) {
  paint(pen, `M${-size},0L${-size * 0.3},${size * 0.75}L${size},${-size * 0.75}`, { edge, line, isRound: true });
}

function fillHatch(pen, path, size, colour) {
  pen.save();
  pen.clip(path);
  pen.fillStyle = colour("stop-pale");
  pen.fillRect(-size, -size, 2 * size, 2 * size);
  let lines = "";
  const pitch = Math.max(2.2, size / 1.7);
  for (let at = -4 * size; at <= 4 * size; at += pitch)
    lines += `M${at - 2 * size},${2 * size}L${at + 2 * size},${-2 * size}`;
  paint(pen, lines, { edge: colour("stop"), line: Math.max(1, size / 3.4) });
  pen.restore();
}

// Draw a shape around 0, 0 with fill and edge.
export function drawShape(pen, shape, scale, fill, edge, line) {
  pen.save();
  pen.scale(scale, scale);
  paint(pen, shape, { fill, edge, line });
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
    paint(pen, square(size), { fill: colour("blue") });
    paint(pen, ring(size * 0.32), { fill: colour("card") });
  },
  // A message on its way to a queue, which counts it when it has arrived.
  sent(pen, size, colour, group) {
    const shape = group
      ? shapeOf(group)
      : "M-4.4,-3A1.4,1.4 0 0 1 -3,-4.4H3A1.4,1.4 0 0 1 4.4,-3V3A1.4,1.4 0 0 1 3,4.4H-3A1.4,1.4 0 0 1 -4.4,3Z";
    drawShape(pen, shape, size / 5.4, colour("card"), group ? colorOf(group) : colour("blue"), 1.7);
  },
  waiting(pen, size, colour, group) {
    paint(pen, square(size), { fill: colour("card"), edge: colour("stop"), line: 2 });
    DRAWN.message(pen, size - 4, colour, group);
  },
  completion(pen, size, colour) {
    paint(pen, ring(size), { fill: colour("go") });
    if (size >= 3) paintTick(pen, size * 0.5, colour("card"), Math.max(1, size / 4));
  },
  held(pen, size, colour) {
    fillHatch(pen, ring(size), size, colour);
    paint(pen, ring(size - 0.3), { edge: colour("stop"), line: Math.max(1, size / 5) });
  },
  accept: (pen, size, colour) => paintTick(pen, size * 0.62, colour("go"), Math.max(1.6, size / 2.6)),
  reject: (pen, size, colour) =>
    paint(pen, crossOf(size * 0.5), { edge: colour("bad"), line: Math.max(1.6, size / 2.6), isRound: true }),
  // A lock with the number of its owner.
  lock(pen, size, colour, owner) {
    drawLock(pen, size, colour("ink"));
    drawText(pen, owner || "?", 0, size * 0.36, `700 ${size * 1.15}px`, colour("card"));
  },
  unlocked: (pen, size, colour) => drawLock(pen, size, colour("ink"), size * 0.7),
};

export function drawLock(pen, size, colour, lift = 0) {
  const bow = pathOf("arc", 0, -size * 0.25 - lift / 2, size * 0.52, Math.PI, lift ? Math.PI * 1.75 : 0);
  paint(pen, bow, { edge: colour, line: Math.max(1.4, size / 3.4) });
  paint(pen, pathOf("roundRect", -size * 0.8, -size * 0.3, size * 1.6, size * 1.25, size * 0.22), { fill: colour });
}

// Draw a text: its font (weight and size), its colour and its position.
export function drawText(pen, text, x, y, font, colour, align = "center") {
  [pen.font, pen.textAlign, pen.textBaseline, pen.fillStyle] = [
    `${font} system-ui, sans-serif`,
    align,
    "middle",
    colour,
  ];
  pen.fillText(text, x, y);
}
