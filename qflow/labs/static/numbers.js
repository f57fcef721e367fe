// Numbers: limiting and interpolating numbers, searching sorted lists, and rounding.

export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
export const mix = (one, other, part) => one + (other - one) * part;
export function smooth(part) {
  const inside = clamp(part, 0, 1);
  return inside * inside * (3 - 2 * inside);
}
export const easeOut = (part) => 1 - (1 - clamp(part, 0, 1)) ** 3;

// The index of the first item of a sorted list for which a condition is true; the length of the list if there is none.
export function firstOf(sorted, holds) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(sorted[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

// A step of 1, 2 or 5 times a power of ten, such that a range has at most `most` steps.
export function roundStep(range, most) {
  const rough = Math.max(range, 1e-6) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}
