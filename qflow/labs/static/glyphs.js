// Glyphs: one shape and one colour for each group, so that neither is needed to tell groups apart.

import { set, svg, write } from "./svg.js";

// Okabe and Ito's colours, in an order in which neighbours differ in brightness too.
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a800", "#7a5195"];
export const SHAPES = [
  "M0,-5A5,5 0 1 1 0,5A5,5 0 1 1 0,-5Z",
  "M-4.4,-4.4H4.4V4.4H-4.4Z",
  "M0,-5.6L5.4,4.2H-5.4Z",
  "M0,-5.8L5.4,0L0,5.8L-5.4,0Z",
  "M-1.8,-5.2H1.8V-1.8H5.2V1.8H1.8V5.2H-1.8V1.8H-5.2V-1.8H-1.8Z",
  "M0,5.6L-5.4,-4.2H5.4Z",
  "M0,-5.8L1.5,-1.9L5.6,-1.7L2.4,0.9L3.5,4.9L0,2.6L-3.5,4.9L-2.4,0.9L-5.6,-1.7L-1.5,-1.9Z",
  "M-2.8,-4.9H2.8L5.6,0L2.8,4.9H-2.8L-5.6,0Z",
];
// The path of a cross around a point; `half` is half of its width.
export const crossOf = (half, x = 0, y = 0) =>
  `M${x - half},${y - half}l${2 * half},${2 * half}m0,${-2 * half}l${-2 * half},${2 * half}`;
export const AGAIN = "M-3.4,-1.2A3.6,3.6 0 1 1 -2.6,2.5M-3.4,-1.2l-1.2,-2.2M-3.4,-1.2l2.4,-.5";

export const colorOf = (group) => COLORS[(group - 1) % COLORS.length];
export const shapeOf = (group) => SHAPES[(group - 1 + Math.floor((group - 1) / COLORS.length)) % SHAPES.length];

// The name of a group if it is short enough to be read on a shape, or else "".
export const letterOf = (groups, group) => ((groups[group - 1] ?? "").length <= 2 ? groups[group - 1] : "");

// Let the message in a consumer's slot be settled by hand, also by keyboard. An empty slot has no label and is no
// element for a screen reader; the text beside the cells says how many there are.
export function offerAnswer(slot, label) {
  if (label) set(slot, { tabindex: -1, role: "button", "aria-haspopup": "menu", "aria-label": label });
  else for (const name of ["tabindex", "role", "aria-haspopup", "aria-label"]) slot.removeAttribute(name);
  if (label) slot.removeAttribute("aria-hidden");
  else set(slot, { "aria-hidden": "true" });
}

// One cell of a window, a queue or a prefetch; its content is shown by fill, pattern, shape and mark.
export class Cell {
  constructor(parent, [x, y], size, kind, marks) {
    Object.assign(this, { kind, marks, size, key: "" });
    this.root = svg(
      "g",
      {
        class: `qf-${kind} qf-${kind}-free`,
        transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
        "aria-hidden": "true",
      },
      parent,
    );
    this.rect = svg("rect", { width: size, height: size, rx: Math.min(3, size / 5), fill: "none" }, this.root);
  }

  // state: free, full, held or taken; group: its number from 1, or 0; why: the label for the question "why?".
  paint(state, group = 0, again = false, why = "", title = "") {
    const key = `${state} ${group} ${again} ${why}`;
    if (key === this.key) return;
    this.key = key;
    set(this.root, { class: `qf-${this.kind} qf-${this.kind}-${state}${group ? " qf-grouped" : ""}` });
    set(this.rect, { fill: state === "held" ? this.marks.held : state === "taken" ? this.marks.taken : "none" });
    if (why) set(this.root, { "data-why": why });
    else this.root.removeAttribute("data-why");
    if (this.kind === "slot") offerAnswer(this.root, why && title);
    this.paintGlyph(state, group);
    this.paintAgain(again && state !== "free");
    if (title) this.title ??= svg("title", {}, this.root);
    if (this.title) write(this.title, title);
  }

  paintGlyph(state, group) {
    const shown = state !== "free" && (group > 0 || (state === "full" && this.kind !== "entry"));
    if (!shown) {
      for (const part of [this.glyph, this.letter]) if (part) set(part, { visibility: "hidden" });
      return;
    }
    const scale = (this.size / 15) * (group ? 1.06 : 0.5);
    this.glyph ??= svg("path", {}, this.root);
    set(this.glyph, {
      d: group ? shapeOf(group) : SHAPES[0],
      transform: `translate(${this.size / 2},${this.size / 2}) scale(${scale.toFixed(3)})`,
      visibility: "visible",
      class: group ? "qf-glyph" : "qf-glyph-plain",
      ...(group ? { fill: colorOf(group) } : {}),
    });
    if (!group) this.glyph.removeAttribute("fill");
    // In a smaller cell, a letter could not be read; the shape is then enough.
    const letter = group && this.size >= 20 ? letterOf(this.marks.groups, group) : "";
    if (!letter && !this.letter) return;
    this.letter ??= svg(
      "text",
      {
        x: this.size / 2,
        y: this.size / 2,
        class: "qf-letter",
        style: `font-size:${Math.max(11, Math.round(this.size * 0.36))}px`,
      },
      this.root,
    );
    set(this.letter, { visibility: letter ? "visible" : "hidden" });
    write(this.letter, letter);
  }

  paintAgain(again) {
    if (!again && !this.again) return;
    this.again ??= svg("path", { d: AGAIN, class: "qf-again" }, this.root);
    const scale = Math.max(0.55, this.size / 22);
    set(this.again, {
      transform: `translate(${this.size - 1},${1}) scale(${scale.toFixed(2)})`,
      visibility: again ? "visible" : "hidden",
    });
  }
}
