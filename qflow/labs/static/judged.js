// Judged: judges guesses and returns the comments on them; the texts come from Python (teaching/predictions.py).

export const isRight = (guess, truth, within) =>
  typeof guess === "number" ? Math.abs(guess - Number(truth)) <= within : guess === truth;

export function sayingOf(guess, truth, { within, said }) {
  if (guess === null || guess === undefined) return said.none;
  return isRight(guess, truth, within) ? said.right : (said[guess] ?? filled(said.other, guess));
}

// A text with its gaps, {} each, filled one after the other.
export const filled = (text, ...values) => values.reduce((said, value) => said.replace("{}", value), text);

// Sentences on how many guesses were right, and whether the certainty was well judged.
export function judgeGuesses(made, words) {
  const lines = [filled(words.had, made.filter((guess) => guess.isRight).length, made.length)];
  const said = made.filter(({ sure }) => sure);
  if (!said.length) return lines;
  const sure = Math.round(said.reduce((sum, guess) => sum + guess.sure, 0) / said.length);
  const right = Math.round((100 * said.filter((guess) => guess.isRight).length) / said.length);
  const judged = words.judged[Math.abs(sure - right) <= words.fair ? 0 : sure > right ? 1 : 2];
  return [...lines, filled(words.sure, sure, right, judged)];
}
