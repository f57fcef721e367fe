// Stage: the drawing of producers, exchanges, queues and consumers in columns, with a row for each.

import { buildConsumer, buildProducer, cardHeight, laidOut } from "./cards.js";
import { Motion } from "./motion.js";
import { patterns, set, svg, write } from "./svg.js";
import { buildTank, buildUnits } from "./tank.js";

const GAP = 14;
const TOP = 8;

// The positions of the columns. One picture has the whole width; of two, each has half of it, and of more, a third.
const COLUMNS = {
  third: {
    width: 500,
    bend: 9,
    turn: 12,
    gate: 154,
    reach: 16,
    sign: 158,
    card: { x: 2, width: 126 },
    desk: { x: 376, width: 122 },
    tank: { x: 178, width: 78, foot: 30 },
  },
  half: {
    width: 548,
    bend: 11,
    turn: 14,
    gate: 184,
    reach: 16,
    sign: 192,
    card: { x: 4, width: 148 },
    desk: { x: 432, width: 112 },
    tank: { x: 214, width: 92, foot: 30 },
  },
  // With a second tank, for bytes.
  bytes: {
    width: 1040,
    bend: 40,
    turn: 16,
    gate: 276,
    reach: 31,
    card: { x: 8, width: 228 },
    desk: { x: 842, width: 194 },
    tank: { x: 408, width: 112, foot: 54 },
    bytes: { x: 640, width: 56 },
  },
  exchange: {
    width: 1040,
    bend: 15,
    turn: 30,
    gate: 384,
    reach: 18,
    card: { x: 8, width: 212 },
    exchange: { x: 246, width: 100 },
    desk: { x: 800, width: 232 },
    tank: { x: 484, width: 176, foot: 30 },
  },
  // On a phone the drawing goes downwards: producers, queues, consumers. The connecting lines run along both sides.
  phone: {
    width: 340,
    bend: 0,
    turn: 0,
    gate: 72,
    reach: 20,
    sign: 92,
    card: { x: 2, width: 336 },
    desk: { x: 332, width: 0 },
    tank: { x: 126, width: 92, foot: 30 },
    ways: { out: 106, far: 8, back: 20, drain: 332 },
  },
  // If there are too many clients to draw, they are listed beside the drawing.
  alone: {
    width: 570,
    bend: 60,
    turn: 18,
    gate: 60,
    reach: 31,
    card: { x: 8, width: 0 },
    desk: { x: 562, width: 0 },
    tank: { x: 214, width: 190, foot: 34 },
  },
  whole: {
    width: 1040,
    turn: 18,
    gate: 332,
    card: { x: 8, width: 276 },
    desk: { x: 816, width: 220 },
    tank: { x: 486, width: 144, foot: 34 },
  },
};

function geometryOf({ producers, queues, consumers, exchanges }, isNarrow, hasBytes, isCrowd, isPhone) {
  const isSmall = isNarrow || queues.length > 2;
  const clients = Math.max(producers.length, consumers.length);
  const [kind] = [
    ["phone", isPhone && clients],
    ["third", isCrowd],
    ["half", isNarrow],
    ["bytes", hasBytes],
    ["exchange", exchanges.length],
    ["whole", clients],
    ["alone", true],
  ].find(([, isIt]) => isIt);
  const columns = { bend: producers.length > 1 ? 24 : 60, reach: isSmall ? 22 : 31, ...COLUMNS[kind] };
  const form = { ...formOf(clients, isNarrow, isCrowd && !isPhone), ...(kind === "bytes" && { isSmall: true }) };
  const least = { third: 254, half: 214, phone: 236 }[kind] ?? (isSmall ? 152 : 210);
  return {
    ...columns,
    isSmall,
    isNarrow,
    form,
    least,
    gateWords: !isSmall,
    tank: { ...columns.tank, head: isSmall ? 44 : 76 },
  };
}

// The texts of a card and their positions.
const FORM = { note: 0, moodBelow: 0, countsUp: 28, sentUp: 0, short: false, isSmall: true };
const BRIEF = { ...FORM, short: true, cells: 34 };

function formOf(clients, isNarrow, isCrowd) {
  if (isCrowd)
    return { ...BRIEF, isTiny: true, name: 24, moodBelow: 44, strip: 54, counts: 54, countsUp: 34, sentUp: 13 };
  if (isNarrow) return { ...BRIEF, name: 22, moodBelow: 40, strip: 50, counts: 46, sentUp: 11 };
  if (clients > 2) return { ...FORM, name: 22, strip: 32, cells: clients > 3 ? 28 : 50, counts: 28, countsUp: 10 };
  const cells = clients > 1 ? 60 : 116;
  return { ...FORM, isSmall: false, name: 25, note: 44, strip: 56, cells, counts: 50, countsUp: 30, sentUp: 12 };
}

// The height of each card, and the height of the stage that results.
function heightsOf(timeline, geometry) {
  const { producers, queues, consumers } = timeline.topology;
  const tall = (clients, width) => clients.map((client) => cardHeight(laidOut(timeline, client), width, geometry.form));
  const { ways, card, desk } = geometry;
  const cards = tall(producers, ways ? shareOf(producers, geometry) : card.width);
  const desks = tall(consumers, ways ? shareOf(consumers, geometry) : desk.width);
  const least = queues.length === 1 && !geometry.isSmall ? 300 : queues.length * geometry.least;
  return { cards, desks, room: ways ? least : Math.max(stackHeight(cards), stackHeight(desks), least) };
}

// On a phone cards are side by side, at most two in a row.
const shareOf = ({ length }, { card }) =>
  length > 2 ? (card.width - EDGE - GAP) / 2 : length > 1 ? (card.width - GAP) / 2 : card.width;

// The width of the connecting lines beside several rows of cards: at the left of producers, at the right of consumers.
const EDGE = 26;

// The box of each card, from a given height on, and the end of the last row.
function inRows(order, heights, geometry, from, edge = 0) {
  const boxes = [];
  let y = from;
  for (let at = 0; at < order.length; at += 2) {
    const row = order.slice(at, at + 2);
    const width = shareOf(order, geometry);
    const left = geometry.card.x + (order.length > 2 ? edge : 0);
    const foot = y + Math.max(...row.map((index) => heights[index]));
    row.forEach((index, place) => {
      boxes[index] = { x: left + place * (width + GAP), width, y, foot, isAbove: at + 2 < order.length };
    });
    y = foot + GAP;
  }
  return { boxes, end: y };
}

// Runs side by side have the height of the tallest, so that a level has the same height in all of them.
export function roomOf({ timelines, isNarrow }) {
  const isCrowd = timelines.length > 2;
  return Math.max(
    ...timelines.map(
      (timeline) => heightsOf(timeline, geometryOf(timeline.topology, isNarrow, false, isCrowd, timeline.isPhone)).room,
    ),
  );
}

export function buildStage(root, timeline, id, isNarrow, room) {
  const { producers, queues, consumers } = timeline.topology;
  const { verdicts } = timeline.picture;
  const isCrowd = timeline.beside.length > 2;
  const hasBytes = Boolean(verdicts) && !isNarrow;
  const geometry = geometryOf(timeline.topology, isNarrow, hasBytes, isCrowd, timeline.isPhone);
  const { form } = geometry;
  const { cards, desks } = heightsOf(timeline, geometry);
  root.replaceChildren();
  const marks = { ...patterns(root, id), groups: timeline.picture.groups };
  const links = svg("g", {}, root);
  const share = room / Math.max(1, queues.length);
  const { layout } = timeline.picture;
  const [cardBoxes, deskBoxes, from, height] = geometry.ways
    ? placesBelow(layout, cards, desks, room, geometry)
    : [
        boxesOf(stack(layout.producer, cards, room), geometry.card),
        boxesOf(stack(layout.consumer, desks, room), geometry.desk),
        TOP,
        room + TOP + 10,
      ];
  const rank = new Map(layout.queue.map((index, place) => [index, place]));
  const tanks = queues.map((_, index) =>
    Object.assign(buildTank(root, timeline, index, from + share * rank.get(index), share, geometry, marks), {
      rank: rank.get(index),
    }),
  );
  const sources = producers.map((_, index) =>
    buildProducer(root, timeline, index, cardBoxes[index].y, cards[index], cardBoxes[index], form, marks),
  );
  const sinks = consumers.map((_, index) =>
    buildConsumer(root, timeline, index, deskBoxes[index].y, desks[index], deskBoxes[index], form, marks),
  );
  if (geometry.ways) standBelow(sources, cardBoxes, cards);
  const units = geometry.bytes
    ? buildUnits(root, timeline, tanks[0], geometry, sources[0])
    : { paint: () => {}, levels: [] };
  const hubs = geometry.exchange ? buildExchanges(root, timeline, room, geometry.exchange) : [];
  const out = buildWays(links, timeline, sources, tanks, hubs, geometry, marks);
  const drains = consumers.map((consumer, index) =>
    geometry.ways
      ? buildDrainBelow(links, tanks, consumer.queue, deskBoxes[index], geometry, marks)
      : buildDrain(links, tanks[consumer.queue], sinks[index], geometry, marks),
  );
  set(root, { viewBox: `0 0 ${geometry.width} ${height}` });
  const isWorded =
    !geometry.isSmall && !geometry.bytes && queues.length === 1 && producers.length + consumers.length > 0;
  const word = (x, y) => svg("text", { x, y, class: "qf-lane-word" }, root);
  const lanes = isWorded
    ? {
        transfer: word(geometry.gate + 8, tanks[0].inlet - 13),
        accept: word(geometry.tank.x + geometry.tank.width + 17, tanks[0].outlet + 22),
      }
    : {};
  // If there are too many marks to follow, their rate is written as a number.
  const say = (lane, text) => lanes[lane] && write(lanes[lane], text);
  const places = {
    width: geometry.width,
    height,
    size: geometry.isSmall ? 6 : 8,
    tanks,
    levels: [...tanks, ...units.levels],
    sources,
    sinks,
    drains,
    out,
    say,
  };
  const motion = new Motion(timeline, places);

  const count = (now, frame) => motion.count(now, frame);
  const paint = (frame, counted) => {
    const shown = timeline.messages(frame);
    tanks.forEach((tank, index) => tank.paint(counted.queue[index], shown, frame, counted.held));
    units.paint(counted.queue[0], frame);
    sources.forEach((source, index) => source.paint(counted.producer[index], timeline.picture.words, motion.flights));
    sinks.forEach((sink, index) => sink.paint(counted.consumer[index], motion.flights));
  };
  const paintMarks = (brush, now, frame) => {
    motion.paint(brush, now, frame);
    if (timeline.locks.count) motion.paintOwned(sinks);
  };
  return { paint, count, paintMarks, motion, places, geometry };
}

function buildExchanges(root, timeline, room, { x, width }) {
  const { exchanges } = timeline.topology;
  const places = timeline.picture.layout.exchange;
  const hubs = [];
  places.forEach((index, place) => {
    const y = TOP + (room * (place + 0.5)) / places.length;
    const group = svg(
      "g",
      { class: "qf-exchange", "data-name": exchanges[index], transform: `translate(${x},${y})` },
      root,
    );
    svg("path", { d: `M12,-18H${width - 12}L${width},0L${width - 12},18H12L0,0Z`, class: "qf-exchange-box" }, group);
    svg("text", { x: width / 2, y: 4.5, class: "qf-exchange-name" }, group, exchanges[index] || "(default)");
    hubs[index] = { left: x, right: x + width, y };
  });
  return hubs;
}

// Draw a line for each route, straight from a producer or from its exchange, where it is shared by all its senders.
// Return a function from a producer and a queue to the lines that messages follow.
function buildWays(links, timeline, sources, tanks, hubs, geometry, marks) {
  const { producers, routes } = timeline.topology;
  const feeds = producers.map((producer, index) =>
    hubs.length && producer.exchange >= 0 ? buildFeed(links, sources[index], hubs[producer.exchange], marks) : null,
  );
  const lines = new Map();
  for (const [from, to] of routes)
    lines.set(
      `${from} ${to}`,
      buildRoute(links, sources[from], tanks[to], geometry, marks, hubs[producers[from].exchange] ?? null),
    );
  return (producer, queue) =>
    [feeds[producer], lines.get(`${producer} ${queue}`) ?? lines.values().next().value].filter(Boolean);
}

// Places

function stackHeight(heights) {
  return heights.reduce((sum, height) => sum + height + GAP, -GAP);
}

// The positions of the members of a column, in the given order, spread over the available height.
function stack(order, heights, room) {
  const places = [];
  const spare = Math.max(0, room - stackHeight(heights)) / (order.length + 1);
  let y = TOP + spare;
  for (const index of order) {
    places[index] = y;
    y += heights[index] + GAP + spare;
  }
  return places;
}

const boxesOf = (places, box) => places.map((y) => ({ ...box, y }));

// On a phone: the boxes of producers and consumers, the start of the queues, and the total height.
function placesBelow({ producer, consumer }, cards, desks, room, geometry) {
  const above = inRows(producer, cards, geometry, TOP, EDGE);
  const below = inRows(consumer, desks, geometry, above.end + LANES + room);
  return [above.boxes, below.boxes, above.end + LANES, below.end];
}

// The height of the connecting lines between the cards and the first queue.
const LANES = 14;

// Messages leave a card at its foot.
function standBelow(sources, boxes, heights) {
  sources.forEach((source, index) => {
    const { x, y, foot, isAbove } = boxes[index];
    // The lines are below the whole row of cards; a message that waits is drawn on its own card.
    Object.assign(source, { right: x + 36, out: foot + 8, back: y + heights[index], foot, isAbove });
  });
}

// Links: what is sent on its way to a queue, what is known complete on its way back, and deliveries

// Draw the lines of messages to a queue, and of completions from its gate back to the card; marks follow these lines.
function buildRoute(parent, source, tank, geometry, marks, via = null) {
  const { inlet, top, gate } = tank;
  const middle = geometry.tank.x + geometry.tank.width / 2;
  if (geometry.ways) {
    // The line goes down to the queue, past the queues above it; the line of completions goes up along the edge.
    const { out, far, back } = geometry.ways;
    const [x, lane, foot] = [source.right, tank.rank || source.isAbove ? far : out, source.foot];
    const way = `M${x},${source.back} V${foot + 8} H${lane} V${inlet} H${middle - 8} Q${middle},${inlet} ${middle},${inlet + 6} V${top - 2}`;
    const home = `M${gate.x},${gate.y} H${back} V${foot + 16} H${x - 16} V${source.back + 3}`;
    tank.home.set(source.index, svg("path", { d: home, class: "qf-back", "marker-end": marks.back }, parent));
    return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
  }
  const from = via ? { x: via.right, y: via.y } : { x: source.right, y: source.out };
  const bend = from.x + geometry.bend;
  // The last part is straight, so that the arrow points down even if there is little room.
  const turn = Math.min(10, (top - inlet) / 2);
  const way = [
    `M${from.x},${from.y}`,
    `C${bend},${from.y} ${bend - geometry.bend / 3},${inlet} ${bend + geometry.bend / 2},${inlet}`,
    `H${middle - 12} Q${middle},${inlet} ${middle},${inlet + turn} V${top - 2}`,
  ].join(" ");
  const out = svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
  const half = (gate.x - source.right) / 2;
  const below = via ? via.y + 32 : 0;
  const end = `${source.right + 3},${source.back}`;
  const straight = `C${gate.x - half},${gate.y} ${source.right + half},${source.back} ${end}`;
  // Below the exchange, as completions do not pass through it.
  const round =
    via &&
    [
      `C${gate.x - 24},${gate.y} ${via.right + 24},${below} ${via.right - 16},${below} H${via.left + 16}`,
      `C${via.left - 12},${below} ${source.right + 16},${source.back} ${end}`,
    ].join(" ");
  const home = `M${gate.x},${gate.y} ${round || straight}`;
  tank.home.set(source.index, svg("path", { d: home, class: "qf-back", "marker-end": marks.back }, parent));
  return out;
}

function buildFeed(parent, source, exchange, marks) {
  const middle = (source.right + exchange.left) / 2;
  const bend = `C${middle},${source.out} ${middle},${exchange.y} ${exchange.left - 2},${exchange.y}`;
  const way = `M${source.right},${source.out} ${bend}`;
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}

function buildDrain(parent, tank, sink, geometry, marks) {
  const x = geometry.tank.x + geometry.tank.width / 2;
  const { bottom, outlet } = tank;
  const turn = geometry.desk.x - geometry.turn;
  const down = sink.middle > outlet ? 12 : -12;
  const way = [
    `M${x},${bottom} V${outlet - 10} Q${x},${outlet} ${x + 12},${outlet}`,
    `H${turn - 12} Q${turn},${outlet} ${turn},${outlet + down}`,
    `V${sink.middle - down} Q${turn},${sink.middle} ${turn + 12},${sink.middle} H${sink.left - 3}`,
  ].join(" ");
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}

// On a phone consumers are below: the line goes straight down to the card, or along the right edge if a tank is in
// between.
function buildDrainBelow(parent, tanks, queue, box, geometry, marks) {
  const { bottom, outlet, rank } = tanks[queue];
  const x = geometry.tank.x + geometry.tank.width / 2;
  const { drain } = geometry.ways;
  const to = box.x + box.width / 2;
  const round = [
    `V${outlet - 8} Q${x},${outlet} ${x + 8},${outlet} H${drain - 8}`,
    `Q${drain},${outlet} ${drain},${outlet + 8} V${box.y - 12}`,
  ].join(" ");
  const isLast = rank === tanks.length - 1;
  const way = `M${x},${bottom} ${isLast ? `V${box.y - 12}` : round} H${to} V${box.y - 2}`;
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}
