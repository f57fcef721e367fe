// Numbers: between two others, on the way from one to another, where a sorted list turns.

export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
export const mix = (one, other, part) => one + (other - one) * part;
export function smooth(part) {
  const inside = clamp(part, 0, 1);
  return inside * inside * (3 - 2 * inside);
}
export const easeOut = (part) => 1 - (1 - clamp(part, 0, 1)) ** 3;

// The first place of a sorted list at which something holds; its length if it never does.
export function firstOf(sorted, holds) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(sorted[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

// A step of 1, 2 or 5 with zeros, such that a range has at most so many.
export function roundStep(range, most) {
  const rough = Math.max(range, 1e-6) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}
