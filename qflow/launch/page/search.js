// Search: which sections of the book have all words of a question, and in which order.

// Each word is found where one begins so.
export const searchedWords = (asked) =>
  asked
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => new RegExp(`(?<![a-z0-9])${word.replace(/\W/g, "\\$&")}`, "i"));

// Sections that have every word, or one that begins so: first those whose heading says little else, functions last.
export function findSections(pages, words) {
  const found = [];
  for (const [file, title, sections] of pages) {
    for (const [anchor, heading, text] of sections) {
      const said = `${title} ${text}`;
      const ranks = words.map(
        (word) =>
          (100 * (heading.match(word)?.[0].length ?? 0)) / (heading.length || 1) +
          Math.min(said.split(word).length - 1, 9),
      );
      if (!ranks.every(Boolean)) continue;
      const rank = ranks.reduce((sum, one) => sum + one) / (file.includes("/functions") ? 4 : 1);
      found.push({ place: `${file}#${anchor}`, title, heading, text, rank });
    }
  }
  return found.sort((one, other) => other.rank - one.rank);
}

// Which part of a text is shown: some words around the first that was looked for.
export function placeOf(text, words) {
  const places = words.map((word) => text.search(word)).filter((place) => place >= 0);
  const start = places.length ? text.lastIndexOf(" ", Math.max(Math.min(...places) - 50, 0)) + 1 : 0;
  const end = text.indexOf(" ", start + 160);
  return { start, end: end < 0 ? undefined : end };
}
