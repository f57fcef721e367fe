// Class: the teacher's screen. It asks for the state of the class each second and draws it: guesses at their heights
// on a tank, and for each exercise a square for each seat, with a list of the learners who are stuck. After "go" a
// line shows the right answer.

import { html, svg, write } from "../../labs/static/svg.js";

const shown = { text: "", room: null, place: -1, isChosen: false };
const [question, told, guesses, exercises, go, held, hearing, which, count] = [
  "question",
  "told",
  "guesses",
  "exercises",
  "go",
  "held",
  "hearing",
  "which",
  "count",
].map((id) => document.getElementById(id));
const short = (page) => decodeURIComponent(page.split("/").pop()).replace(/\.html$/, "");

async function look() {
  try {
    const text = await (await fetch(`${location.pathname}/seen`)).text();
    if (text === shown.text) return;
    Object.assign(shown, { text, room: JSON.parse(text) });
    showRoom();
  } catch {
    write(count, "the class is closed");
  }
}

async function order(what) {
  await fetch(location.pathname, { method: "POST", body: JSON.stringify(what) });
  look();
}

function showRoom() {
  const { room } = shown;
  if (!shown.isChosen) shown.place = room.questions.length - 1;
  const asked = room.questions[shown.place];
  held.checked = room.held;
  const here = room.seats.filter((seat) => seat.here);
  const guessed = asked ? `, ${here.filter(({ seat }) => seat in asked.answers).length} of them guessed` : "";
  write(count, `${here.length} here${guessed}`);
  const heard = here.filter((seat) => seat.heard).length;
  const said = room.held ? "held" : "not held";
  write(
    hearing,
    heard === here.length ? `${said}: every page has heard it` : `${heard} of ${here.length} pages have heard it`,
  );
  which.replaceChildren(
    ...room.questions.map(
      (each, place) => new Option(`${short(each.page)}: ${each.question}`, place, false, place === shown.place),
    ),
  );
  if (asked) showQuestion(asked, Object.values(asked.answers));
  if (room.exercises.length)
    exercises.replaceChildren(...room.exercises.map((each) => drawExercise(each, room.seats)).reverse());
}

function showQuestion(asked, answers) {
  const { truth, word, choices } = asked;
  const isTold = asked.open && truth !== null;
  write(question, asked.question);
  go.disabled = asked.open;
  const fact = (choices.length ? [truth, word] : [word || "It is", truth]).join(" ").trim();
  write(
    told,
    isTold
      ? `${fact}. ${answers.filter((answer) => answer === truth).length} of ${answers.length} said so.`
      : asked.open
        ? "The question is open."
        : "",
  );
  const [width, height] = [guesses.clientWidth, guesses.clientHeight];
  const picture = svg("svg", {
    width,
    height,
    role: "img",
    "aria-label": `${answers.length} guesses: ${answers.join(", ")}`,
  });
  const unit = Math.min(parseFloat(getComputedStyle(guesses).fontSize), width / 26);
  const text = (x, y, words, kind, anchor, size = 1) =>
    svg("text", { x, y, class: kind, "text-anchor": anchor, "font-size": unit * size }, picture, words);
  const drawing = { ...asked, truth: isTold ? truth : null, answers, picture, unit, text, width, height };
  if (answers.every((answer) => typeof answer === "number")) drawTank(drawing);
  else drawChoices(drawing);
  guesses.replaceChildren(picture);
}

// Draw a mark for each guess beside the tank; equal heights are side by side.
function drawTank({ picture, unit, text, tank, truth, word, answers, width, height }) {
  const most = tank?.most ?? 1.1 * Math.max(1, ...answers, truth ?? 0);
  const [left, top, bottom, right] = [unit * 8, unit * 2, height - 10, unit * 8 + Math.min(190, width * 0.22)];
  const y = (value) => bottom - (Math.max(0, value) / most) * (bottom - top);
  const line = (value, kind, from, to) =>
    svg("line", { x1: from, x2: to, y1: y(value), y2: y(value), class: kind }, picture);
  svg(
    "rect",
    { x: left, y: y(truth ?? 0), width: right - left, height: bottom - y(truth ?? 0), class: "level" },
    picture,
  );
  text((left + right) / 2, unit, tank?.name ?? "", "", "middle", 1.1);
  let free = Infinity;
  for (const kind of ["resume", "stop", "limit"].filter((name) => tank?.[name])) {
    line(tank[kind], kind, left - 8, right);
    free = Math.min(y(tank[kind]) + unit * 0.36, free - unit * 1.05);
    text(left - 14, free, `${kind} ${tank[kind]}`, kind, "end");
  }
  svg("path", { d: `M${left} ${top}V${bottom}H${right}V${top}`, class: "tank" }, picture);
  const median = [...answers].sort((one, other) => one - other)[Math.floor((answers.length - 1) / 2)];
  // Below the marks, so that none is struck out; the words are above them.
  line(median, "median", right, width);
  if (truth !== null) line(truth, "truth", left - 8, width);
  const count = Math.max(8, Math.min(26, Math.floor((bottom - top) / (unit * 0.8))));
  const rows = Array.from({ length: count }, (_, row) =>
    answers.filter((answer) => Math.min(count - 1, Math.floor((Math.max(0, answer) / most) * count)) === row),
  );
  const [thick, long] = [
    ((bottom - top) / count) * 0.8,
    Math.min(unit * 1.1, (width - right - unit * 7.5) / Math.max(...rows.map((row) => row.length))),
  ];
  rows.forEach((row, number) => {
    row
      .sort((one, other) => (one === truth) - (other === truth))
      .forEach((answer, place) => {
        const spot = {
          x: right + 16 + place * long,
          y: bottom - ((number + 0.9) / count) * (bottom - top),
          width: long * 0.88,
          height: thick,
          rx: Math.min(thick, long) * 0.4,
        };
        svg("rect", { ...spot, class: answer === truth ? "right" : "said" }, picture);
      });
  });
  text(width, y(median) + (truth > median ? unit : -6), `median ${median}`, "said", "end");
  if (truth === null) return;
  text(width, y(truth) + (truth > median ? -8 : unit), `${word} ${truth}`, "", "end", 1.15);
}

// Draw a row for each choice, including those that nobody has chosen.
function drawChoices({ picture, unit, text, choices, truth, answers, width }) {
  [...new Set([...choices, ...answers])].forEach((choice, place) => {
    const count = answers.filter((answer) => answer === choice).length;
    const [top, long] = [place * unit * 3, (count / answers.length) * (width - unit * 3)];
    text(0, top + unit, `${choice === truth ? "✓ " : ""}${choice}`, "", "start");
    svg(
      "rect",
      {
        x: 0,
        y: top + unit * 1.35,
        width: Math.max(3, long),
        height: unit,
        rx: 4,
        class: choice === truth ? "right" : "said",
      },
      picture,
    );
    text(long + 14, top + unit * 2.2, count, "", "start");
  });
}

// Draw a square for each seat, in the same order for each exercise, and below them the learners who are stuck.
function drawExercise({ page, id, seats }, everyone) {
  const box = html("section");
  const title = html("h3", { title: short(page) }, box, id);
  html(
    "span",
    {},
    title,
    `${everyone.filter(({ seat }) => seats[seat]?.state === "done").length} of ${everyone.length} done`,
  );
  const [squares, list] = [html("div", { class: "seats" }, box), html("ul", {}, box)];
  // By what they were told: one line for all who have the same trouble.
  const stuck = new Map();
  everyone.forEach(({ seat, name, here }) => {
    const { state, failed, message } = seats[seat] ?? { state: "not begun" };
    html(
      "i",
      { class: `${state}${here ? "" : " away"}`, title: `seat ${seat}: ${state}` },
      squares,
      { done: "✓", stuck: seat }[state] ?? "",
    );
    if (state !== "stuck") return;
    const who = `${name ? `${name}, ` : ""}seat ${seat}: ${failed.length} tries`;
    stuck.set(message, [...(stuck.get(message) ?? []), who]);
  });
  for (const [message, who] of stuck) {
    const item = html("li", {}, list);
    html("b", {}, item, who.join("; "));
    // The known misconception comes first, if there is one, as it helps the teacher most.
    const [known] = message.match(/This looks like .*?(?= Stuck\?|$)/s) ?? [];
    html("span", {}, item, known ? `${known} ${message.replace(known, "")}` : message);
  }
  return box;
}

go.addEventListener("click", () => order({ go: shown.place }));
held.addEventListener("change", () => order({ held: held.checked }));
which.addEventListener("change", () => {
  Object.assign(shown, { place: which.selectedIndex, isChosen: which.selectedIndex !== which.length - 1 });
  showRoom();
});
addEventListener("resize", () => shown.room && showRoom());
setInterval(look, 1000);
look();
