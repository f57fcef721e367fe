// What is said of a guess, and of all guesses together.

import assert from "node:assert/strict";
import test from "node:test";

import { judgeGuesses, sayingOf } from "../../../qflow/labs/static/judged.js";

const KNOWN = {
  within: 5,
  said: { none: "No guess.", right: "You had it.", other: "You said {}.", 500: "That is resume." },
};

test("a number is right within its bounds, a choice if it is the one", () => {
  const said = [901, 906, 907, 500, null, undefined].map((guess) => sayingOf(guess, "901", KNOWN));
  assert.deepEqual(said, ["You had it.", "You had it.", "You said 907.", "That is resume.", "No guess.", "No guess."]);
  assert.deepEqual(
    ["ON", "OFF"].map((guess) => sayingOf(guess, "ON", KNOWN)),
    ["You had it.", "You said OFF."],
  );
});

test("guesses are counted, and those who said how sure they were are told how right", () => {
  const words = {
    had: "{} of {}.",
    sure: "{} % sure, {} % right: {}.",
    fair: 10,
    judged: ["fair", "too sure", "not sure enough"],
  };
  const made = (...guesses) =>
    judgeGuesses(
      guesses.map(([isRight, sure]) => ({ isRight, sure })),
      words,
    );
  assert.deepEqual(made([true, null], [false, null]), ["1 of 2."]);
  assert.deepEqual(made([true, 90], [false, 90]), ["1 of 2.", "90 % sure, 50 % right: too sure."]);
  assert.deepEqual(made([true, 50], [false, 60]), ["1 of 2.", "55 % sure, 50 % right: fair."]);
  assert.deepEqual(made([true, 50]), ["1 of 1.", "50 % sure, 100 % right: not sure enough."]);
});
