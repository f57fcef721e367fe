// Search: finds the sections of the book that have all words of a query, and sorts them.

// Words of a question that are not searched for.
const IDLE = new Set(
  "a an and are do does for how i in is it my of on or the to what when where which who why".split(" "),
);

const begins = (ways) => new RegExp(`(?<![a-z0-9])(?:${ways.map((way) => way.replace(/\W/g, "\\$&")).join("|")})`, "i");

// The words to search for. A word matches the beginning of a word in the text, or of a term that it is a synonym of.
export function searchedWords(asked, synonyms = {}) {
  const typed = asked.toLowerCase().split(/\s+/).filter(Boolean);
  const telling = typed.filter((word) => !IDLE.has(word));
  return (telling.length ? telling : typed).map((word) => {
    const meant = Object.keys(synonyms).filter(
      (known) => known === word || (word.length > 3 && known.startsWith(word)),
    );
    return Object.assign(begins([word, ...meant.flatMap((known) => synonyms[known])]), { word });
  });
}

// Whether two words differ by one letter that is added, missing or replaced.
function isNear(one, other) {
  if (Math.abs(one.length - other.length) > 1) return false;
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  const [skip, miss] = [one.length >= other.length ? 1 : 0, one.length <= other.length ? 1 : 0];
  return one.slice(at + skip) === other.slice(at + miss);
}

// Replace a word that no section has by the words of the book that differ from it by one letter.
export function repairedWords(pages, words) {
  const all = pages.flatMap(([, title, sections]) => sections.map(([, , text]) => `${title} ${text}`)).join("\n");
  let vocabulary = null;
  return words.map((word) => {
    if (word.test(all) || word.word.length < 4) return word;
    vocabulary ??= new Set(all.toLowerCase().match(/[a-z]{3,}/g));
    const near = [...vocabulary].filter((known) => isNear(word.word, known));
    return near.length ? Object.assign(begins(near), { word: near[0] }) : word;
  });
}

// Find the sections that have all words, or words that begin with them: first those whose heading has few other words,
// functions last.
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

// The part of a text to show: some words around the first search word.
export function placeOf(text, words) {
  const places = words.map((word) => text.search(word)).filter((place) => place >= 0);
  const start = places.length ? text.lastIndexOf(" ", Math.max(Math.min(...places) - 50, 0)) + 1 : 0;
  const end = text.indexOf(" ", start + 160);
  return { start, end: end < 0 ? undefined : end };
}
