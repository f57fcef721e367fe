// Cards: producers with their capacity window, consumers with their prefetch slots.

import { Cell, colorOf, shapeOf } from "./glyphs.js";
import { buildGrip } from "./handles.js";
import { fitted, set, svg, textWidth, write } from "./svg.js";
import { moodOf } from "./words.js";

// The layout of a window's cells: as large as the room allows, in rows of equal length.
export function cellGrid(capacity, width, form) {
  if (capacity > 240) return null;
  // On a phone the grip, which is as wide as a thumb, needs room beside the cells.
  const room = form.short ? width - 28 : width;
  let pitch = 32;
  while (pitch > 12 && Math.floor(room / pitch) * Math.floor(form.cells / pitch) < capacity) pitch -= 0.5;
  const rows = Math.ceil(capacity / Math.floor(room / pitch));
  const columns = Math.ceil(capacity / rows);
  return { rows, columns, pitch, size: pitch - Math.max(2, pitch * 0.16) };
}

// The number of cells that a window's grid is laid out for. While a grip is dragged, the cells keep their size.
export const laidOut = (timeline, { name, capacity, prefetch }) =>
  Math.max(capacity ?? prefetch, timeline.grids?.get(name) ?? 0);

export function cardHeight(capacity, width, form) {
  const grid = cellGrid(capacity, width - 28, form);
  return form.strip + form.counts + (grid ? grid.rows * grid.pitch : 26);
}

// `aside` is the width reserved for other elements in the row of the name.
export function buildCard(root, kind, spot, place, height, box, form, aside = 0) {
  const group = svg(
    "g",
    {
      class: `qf-${kind}`,
      "data-name": spot.name,
      "data-why": `${kind}:${spot.name}`,
      transform: `translate(${box.x},${place})`,
    },
    root,
  );
  svg("title", {}, group, `${spot.name}: ${spot.note}. Click to ask why.`);
  // The card is one tab stop; arrow keys move to the messages that the consumer holds (scene.js).
  if (kind === "consumer")
    set(group, { tabindex: 0, role: "group", "aria-label": `${spot.name}: ${spot.note}. Arrow down: its messages` });
  svg("rect", { width: box.width, height, rx: 8, class: "qf-card" }, group);
  const name = svg(
    "text",
    { x: 14, y: form.name, class: "qf-name" },
    group,
    fitted(spot.name, box.width - 28 - aside, sizeOf(form)),
  );
  if (form.isSmall) name.classList.add("qf-name-small");
  if (form.note) svg("text", { x: 14, y: form.note, class: "qf-note" }, group, fittedNote(spot.note, box.width - 22));
  return group;
}

const fittedNote = (note, room) =>
  fitted(1.1 * textWidth(note) > room ? note.replace(" for each message", " each") : note, room);

// The width of a card's name relative to the width of the text that is measured.
const sizeOf = (form) => (form.isSmall ? 1.4 : 1.65);

export function buildProducer(root, timeline, index, place, height, box, form, marks) {
  const spot = timeline.topology.producers[index];
  const group = buildCard(root, "producer", spot, place, height, box, form, form.moodBelow ? 0 : 100);
  const room = box.width - 28;
  const isBrief = form.isSmall || 1.65 * textWidth(spot.name) > box.width - 200;
  const mood = svg(
    "text",
    { x: form.moodBelow ? 14 : box.width - 14, y: form.moodBelow || form.name, class: "qf-mood" },
    group,
  );
  if (form.moodBelow) mood.classList.add("qf-mood-below");
  const strip = buildStrip(group, spot.capacity, laidOut(timeline, spot), 14, form.strip, room, marks, "cell", form);
  buildGrip(group, timeline, ["capacity", `capacity_${index + 1}`], spot, spot.capacity, strip);
  const counts = svg("text", { x: 14, y: height - form.countsUp, class: "qf-count" }, group);
  const sent = form.sentUp ? svg("text", { x: 14, y: height - form.sentUp, class: "qf-note" }, group) : null;
  const paint = (seen, words, flights) => {
    const { sendings } = timeline;
    const cells = [];
    for (const row of seen.rows) {
      const label = timeline.label(index + 1, sendings.get(row, "number"));
      cells[flights.cells[row]] = {
        state: seen.stays.has(row) ? "held" : "full",
        group: sendings.get(row, "group"),
        why: `transfer:${label}`,
        title: label,
      };
    }
    strip.paint(cells, seen.outstanding, seen.held);
    const isFull = seen.mood === 0 && seen.outstanding >= spot.capacity;
    write(mood, isBrief ? words.brief_moods[isFull ? 1 : seen.mood] : moodOf(words.moods, seen, spot.capacity));
    set(mood, { class: `qf-mood qf-mood-${isFull ? 1 : seen.mood}${form.moodBelow ? " qf-mood-below" : ""}` });
    write(counts, firstThatFits(wordsOf(seen, spot.capacity, form), room, 1.2));
    if (sent)
      write(
        sent,
        form.isTiny
          ? `${seen.sent} sent`
          : form.short
            ? firstThatFits([`${seen.held} held, ${seen.sent} sent`, `${seen.held} held`], room, 1.1)
            : `${seen.sent} sent so far`,
      );
    group.classList.toggle("qf-is-dead", seen.mood === DEAD);
    set(group, { "data-held": seen.held });
  };
  // The cross of a dead producer is drawn over the cells, so that the text stays readable.
  const floor = strip.end[1] + strip.end[2];
  const cross = [
    box.x + 14 + (strip.end[0] - 22) / 2,
    place + (form.strip + floor) / 2,
    Math.max(9, (floor - form.strip) / 2),
    form.isSmall ? 5 : 8,
  ];
  return {
    index,
    cross,
    box: { x: box.x, y: place, width: box.width, height },
    cell: strip.at(box.x, place),
    right: box.x + box.width,
    out: place + Math.min(34, height * 0.32),
    back: place + height - Math.min(34, height * 0.3),
    middle: place + height / 2,
    paint,
  };
}

// Texts for the outstanding and held transfers, from the longest to the shortest.
export function wordsOf({ outstanding, held }, capacity, form) {
  if (form.isTiny) return [`${outstanding}/${capacity}, ${held} held`, `${outstanding}, ${held} held`, `${held} held`];
  if (form.short) return [`${outstanding}/${capacity} out`, `${outstanding} out`];
  return [
    ...(form.isSmall ? [] : [`${outstanding} of ${capacity} outstanding, ${held} held`]),
    `${outstanding}/${capacity} outstanding, ${held} held`,
    `${outstanding}/${capacity} out, ${held} held`,
    `${outstanding} out, ${held} held`,
    `${held} held`,
  ];
}

export const firstThatFits = (texts, room, factor) =>
  texts.find((text) => factor * textWidth(text) <= room) ?? texts.at(-1);

const DEAD = 3;

export function buildConsumer(root, timeline, index, place, height, box, form, marks) {
  const spot = timeline.topology.consumers[index];
  const group = buildCard(
    root,
    "consumer",
    spot,
    place,
    height,
    box,
    form,
    timeline.locks.count && !form.short ? 92 : 0,
  );
  const strip = buildStrip(
    group,
    spot.prefetch,
    laidOut(timeline, spot),
    14,
    form.strip,
    box.width - 28,
    marks,
    "slot",
    form,
  );
  buildGrip(group, timeline, ["prefetch"], spot, spot.prefetch, strip);
  const counts = svg("text", { x: 14, y: height - form.countsUp, class: "qf-count" }, group);
  const accepted = form.sentUp ? svg("text", { x: 14, y: height - form.sentUp, class: "qf-note" }, group) : null;
  const locks = buildLocks(
    group,
    timeline,
    box,
    form,
    form.short ? 16 : 28 + sizeOf(form) * textWidth(group.querySelector(".qf-name").textContent),
  );
  const paint = (seen, flights) => {
    const { stays, holdings } = timeline;
    const cells = [];
    for (const row of seen.rows) {
      const stay = holdings.get(row, "stay");
      const label = timeline.labelOf(stay);
      const again = Boolean(holdings.get(row, "again"));
      cells[flights.slots[row]] = {
        state: "full",
        group: stay < 0 ? 0 : stays.get(stay, "group"),
        again: again && stay >= 0,
        why: label && `message:${label}`,
        title: again ? `${label}, redelivered` : label,
      };
    }
    strip.paint(cells, seen.holds, 0);
    write(
      counts,
      seen.present
        ? form.short
          ? `${seen.holds}/${spot.prefetch} taken`
          : `${seen.holds} of ${spot.prefetch} prefetched`
        : "not here",
    );
    if (accepted) write(accepted, form.short ? `${seen.accepted} accepted` : `${seen.accepted} accepted so far`);
  };
  const lockAt = (lock) => [box.x + locks.x(lock) + 5, place + locks.y];
  return {
    cell: strip.at(box.x, place),
    left: box.x,
    middle: place + height / 2,
    paint,
    paintLocks: locks.paint,
    lockAt,
  };
}

// A strip of cells. More than 240 could not be distinguished, so they become one bar. `at` returns where a cell is on
// the stage.
function buildStrip(parent, capacity, room, x, y, width, marks, kind, form) {
  const grid = cellGrid(room, width, form);
  if (!grid)
    return {
      paint: buildBar(parent, capacity, x, y, width, marks, kind),
      at: () => () => null,
      end: [x + width - 8, y, 18],
      pull: [x, y, width / capacity, Infinity],
    };
  const corner = (index) => [
    x + (index % grid.columns) * grid.pitch,
    y + Math.floor(index / grid.columns) * grid.pitch,
  ];
  const cells = Array.from({ length: capacity }, (_, index) => new Cell(parent, corner(index), grid.size, kind, marks));
  const paint = (shown) =>
    cells.forEach((cell, index) => {
      const one = shown[index];
      if (one) cell.paint(one.state, one.group, one.again, one.why, one.title);
      else cell.paint("free");
    });
  const at = (left, top) => (index) => {
    if (index < 0 || index >= capacity) return null;
    const [across, down] = corner(index);
    return [left + across + grid.size / 2, top + down + grid.size / 2, grid.size];
  };
  const [across, down] = corner(capacity - 1);
  return {
    paint,
    at,
    end: [across + grid.size + 8, down, grid.size],
    pull: [x, y, grid.pitch, grid.rows > 1 ? grid.columns : Infinity],
  };
}

function buildBar(parent, capacity, x, y, width, marks, kind) {
  svg("rect", { x, y, width, height: 18, rx: 2, class: `qf-${kind} qf-${kind}-free` }, parent);
  const full = svg("rect", { x, y, width: 0, height: 18, class: `qf-${kind}-full` }, parent);
  const stuck = svg("rect", { x, y, width: 0, height: 18, class: `qf-${kind}-held`, fill: marks.held }, parent);
  return (_, taken, held) => {
    set(full, { width: (width * Math.min(taken, capacity)) / capacity });
    set(stuck, { width: (width * Math.min(held, capacity)) / capacity });
  };
}

// Draw a lock on a consumer's card for each group that it owns, when the lock has arrived there. `taken` is the width
// that is used by other elements.
export function buildLocks(parent, timeline, box, form, taken) {
  const rows = [];
  const { locks } = timeline;
  // The names get the width of the longest one, as far as there is room beside the consumer's own name.
  const room = box.width - 18 - taken;
  const y = form.short ? form.name + 14 : form.name - 5;
  const { groups } = timeline.picture;
  const pitch = Math.min(room, Math.max(46, ...groups.map((name) => 34 + 1.1 * textWidth(name))));
  const names = groups.map((name) => fitted(name, pitch - 31));
  const most = Math.max(1, Math.floor(room / pitch));
  let alive = [];
  // The lock that the consumer has owned for longest is at the left.
  const x = (lock) =>
    box.width -
    8 -
    (alive.length > most ? 18 : 0) -
    pitch * (Math.min(most, Math.max(1, alive.length)) - Math.min(most - 1, Math.max(0, alive.indexOf(lock))));
  const row = (place) =>
    (rows[place] ??= (() => {
      const group = svg("g", { class: "qf-lock" }, parent);
      svg("path", { d: "M1.5,-3V-5.5A3.5,3.5 0 0 1 8.5,-5.5V-3", class: "qf-lock-bow" }, group);
      svg("rect", { x: 0, y: -3, width: 10, height: 8, rx: 1.5, class: "qf-lock-body" }, group);
      const glyph = svg("path", { class: "qf-glyph", transform: "translate(19,0)" }, group);
      const text = svg("text", { x: 27, y: 4.5, class: "qf-lock-word" }, group);
      return { group, glyph, text, title: svg("title", {}, group) };
    })());
  const paint = (owned, owner, hasLanded) => {
    alive = owned;
    alive.slice(0, most).forEach((lock, place) => {
      const { group, glyph, text, title } = row(place);
      const number = locks.get(lock, "group");
      const name = groups[number - 1];
      const more = place === most - 1 && alive.length > most ? ` +${alive.length - most}` : "";
      set(group, {
        transform: `translate(${x(lock)},${y})`,
        visibility: hasLanded(lock) ? "visible" : "hidden",
        "data-why": `group:${name}`,
      });
      set(glyph, { d: shapeOf(number), fill: colorOf(number) });
      write(text, `${names[number - 1]}${more}`);
      write(title, `${owner} owns group ${name}`);
    });
    for (let place = Math.min(most, alive.length); place < rows.length; place += 1)
      set(rows[place].group, { visibility: "hidden" });
  };
  return { paint, x, y };
}
