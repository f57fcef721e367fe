// Stage: producers, queues and consumers side by side, in as many rows as there are of each.

const STAGE = { width: 1040, gap: 14, top: 8, legend: 34 };
const CARD = { x: 8, width: 304 };
const TANK = { x: 462, width: 132, head: 76, foot: 30 };
const DESK = { x: 788, width: 244 };
const GATE = 396;

function buildStage(root, timeline, id) {
  const { producers, queues, consumers } = timeline.topology;
  const cards = producers.map((producer) => cardHeight(producer.capacity));
  const desks = consumers.map((consumer) => cardHeight(consumer.prefetch));
  const room = Math.max(stackHeight(cards), stackHeight(desks), 330, queues.length * 210);
  const height = room + STAGE.top + STAGE.legend;
  set(root, { viewBox: `0 0 ${STAGE.width} ${height}` });
  root.replaceChildren();
  const marks = patterns(root, id);
  const links = svg("g", {}, root);
  const cardPlaces = stack(cards, room);
  const deskPlaces = stack(desks, room);
  const share = room / Math.max(1, queues.length);
  const tanks = queues.map((queue, index) => buildTank(root, timeline, index, STAGE.top + share * index, share, marks));
  const sources = producers.map((producer, index) => buildProducer(root, producer, cardPlaces[index], cards[index], marks));
  const sinks = consumers.map((consumer, index) => buildConsumer(root, consumer, deskPlaces[index], desks[index], marks));
  const routes = timeline.topology.routes.map(([from, to]) => buildRoute(links, sources[from], tanks[to], marks));
  const drains = consumers.map((consumer, index) => buildDrain(links, tanks[consumer.queue], sinks[index], marks));
  buildLegend(root, height - 12, marks);

  return (frame) => {
    const step = timeline.step(frame);
    const [parts, words] = [step.parts, timeline.picture.words];
    const did = (name) => Boolean(parts & (1 << words.parts.indexOf(name)));
    tanks.forEach((tank, index) => tank.paint(timeline.queue(frame, index)));
    sources.forEach((source, index) => source.paint(timeline.producer(frame, index), words.moods));
    sinks.forEach((sink, index) => sink.paint(timeline.consumer(frame, index)));
    timeline.topology.routes.forEach(([from, to], index) => {
      const sends = did("sent") && step.producer === from && step.queue === to;
      const released = timeline.producer(frame, from).outstanding < timeline.producer(Math.max(0, frame - 1), from).outstanding;
      routes[index](sends, released || (sends && !did("held") && !did("refused")), timeline.queue(frame, to).flow);
    });
    const receives = did("delivered") || did("delivered_many");
    drains.forEach((drain, index) => drain(receives && step.consumer === index));
  };
}

// Places

function stackHeight(heights) {
  return heights.reduce((sum, height) => sum + height + STAGE.gap, -STAGE.gap);
}

function stack(heights, room) {
  let y = STAGE.top + Math.max(0, (room - stackHeight(heights)) / 2);
  return heights.map((height) => {
    const place = y;
    y += height + STAGE.gap;
    return place;
  });
}

function cellGrid(capacity, width) {
  if (capacity > 240) return null;
  const rows = Math.ceil(capacity / 20);
  const columns = Math.ceil(capacity / rows);
  const pitch = Math.min(26, width / columns);
  return { rows, columns, pitch, size: pitch - Math.max(2, pitch * 0.16) };
}

function cardHeight(capacity) {
  const grid = cellGrid(capacity, 276);
  return 106 + (grid ? grid.rows * grid.pitch : 26);
}

// Producers and consumers

function buildCard(root, name, spot, place, height, x, width) {
  const group = svg("g", { class: name, "data-name": spot.name, transform: `translate(${x},${place})` }, root);
  svg("rect", { width, height, rx: 8, class: "qf-card" }, group);
  svg("text", { x: 14, y: 25, class: "qf-name" }, group, spot.name);
  svg("text", { x: 14, y: 44, class: "qf-note" }, group, spot.note);
  return group;
}

function buildProducer(root, spot, place, height, marks) {
  const group = buildCard(root, "qf-producer", spot, place, height, CARD.x, CARD.width);
  const mood = svg("text", { x: CARD.width - 14, y: 25, class: "qf-mood" }, group);
  const strip = buildStrip(group, spot.capacity, 14, 56, CARD.width - 28, marks);
  const counts = svg("text", { x: 14, y: height - 30, class: "qf-count" }, group);
  const sent = svg("text", { x: 14, y: height - 12, class: "qf-note" }, group);
  const paint = (seen, moods) => {
    strip(seen.outstanding, seen.held);
    write(mood, moods[seen.mood]);
    classify(mood, `qf-mood qf-mood-${seen.mood}`);
    write(counts, `${seen.outstanding} of ${spot.capacity} outstanding, ${seen.held} held`);
    write(sent, `${seen.sent} sent so far`);
    set(group, { "data-outstanding": seen.outstanding, "data-held": seen.held, "data-mood": moods[seen.mood] });
  };
  return { right: CARD.x + CARD.width, out: place + 34, back: place + height - 34, paint };
}

function buildConsumer(root, spot, place, height, marks) {
  const group = buildCard(root, "qf-consumer", spot, place, height, DESK.x, DESK.width);
  const strip = buildStrip(group, spot.prefetch, 14, 56, DESK.width - 28, marks, "slot");
  const counts = svg("text", { x: 14, y: height - 30, class: "qf-count" }, group);
  const accepted = svg("text", { x: 14, y: height - 12, class: "qf-note" }, group);
  const paint = (seen) => {
    strip(seen.holds, 0);
    write(counts, seen.present ? `${seen.holds} of ${spot.prefetch} prefetched` : "not here yet");
    write(accepted, `${seen.accepted} accepted so far`);
    set(group, { "data-holds": seen.holds, "data-accepted": seen.accepted });
  };
  return { left: DESK.x, middle: place + height / 2, paint };
}

// A window as a strip of cells: first those held, then those outstanding, then those free.
function buildStrip(parent, capacity, x, y, width, marks, kind = "cell") {
  const grid = cellGrid(capacity, width);
  if (!grid) return buildBar(parent, capacity, x, y, width, marks, kind);
  const cells = [];
  for (let index = 0; index < capacity; index += 1) {
    const cx = x + (index % grid.columns) * grid.pitch;
    const cy = y + Math.floor(index / grid.columns) * grid.pitch;
    const cell = svg("g", {}, parent);
    svg("rect", { x: cx, y: cy, width: grid.size, height: grid.size, rx: 2 }, cell);
    svg("circle", { cx: cx + grid.size / 2, cy: cy + grid.size / 2, r: grid.size * 0.2 }, cell);
    cells.push(cell);
  }
  return (filled, held) => {
    cells.forEach((cell, index) => {
      const state = index < held ? "held" : index < filled ? "full" : "free";
      if (cell.state === state) return;
      cell.state = state;
      classify(cell, `qf-${kind} qf-${kind}-${state}`);
      cell.firstChild.setAttribute("fill", state === "held" ? marks.held : "none");
    });
  };
}

// Too many cells to tell apart: the same three parts as lengths of one bar.
function buildBar(parent, capacity, x, y, width, marks, kind) {
  svg("rect", { x, y, width, height: 18, rx: 2, class: `qf-${kind} qf-${kind}-free` }, parent);
  const full = svg("rect", { x, y, width: 0, height: 18, class: `qf-${kind}-full` }, parent);
  const stuck = svg("rect", { x, y, width: 0, height: 18, class: `qf-${kind}-held`, fill: marks.held }, parent);
  return (filled, held) => {
    set(full, { width: (width * Math.min(filled, capacity)) / capacity });
    set(stuck, { width: (width * Math.min(held, capacity)) / capacity });
  };
}

// Links

function buildRoute(parent, source, tank, marks) {
  const { inlet, top, gate } = tank;
  const middle = TANK.x + TANK.width / 2;
  const bend = source.right + 60;
  const way = `M${source.right},${source.out} C${bend},${source.out} ${bend - 20},${inlet} ${bend + 30},${inlet} H${middle - 12} Q${middle},${inlet} ${middle},${inlet + 10} V${top - 2}`;
  const transfer = svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
  const home = `M${GATE},${gate} C${bend - 6},${gate} ${bend - 10},${source.back} ${source.right + 3},${source.back}`;
  const completion = svg("path", { d: home, class: "qf-back", "marker-end": marks.back }, parent);
  return (sends, completes, isShut) => {
    classify(transfer, sends ? "qf-link qf-now" : "qf-link");
    classify(completion, isShut ? "qf-back qf-shut" : completes ? "qf-back qf-now" : "qf-back");
  };
}

function buildDrain(parent, tank, sink, marks) {
  const x = TANK.x + TANK.width / 2;
  const { bottom, outlet } = tank;
  const way = `M${x},${bottom} V${outlet - 10} Q${x},${outlet} ${x + 12},${outlet} H${DESK.x - 42} Q${DESK.x - 30},${outlet} ${DESK.x - 30},${outlet - 12} V${sink.middle + 12} Q${DESK.x - 30},${sink.middle} ${DESK.x - 18},${sink.middle} H${sink.left - 3}`;
  const link = svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
  return (isNow) => classify(link, isNow ? "qf-link qf-now" : "qf-link");
}

// Legend

function buildLegend(root, y, marks) {
  const group = svg("g", { class: "qf-legend", transform: `translate(8,${y})` }, root);
  let x = 0;
  const item = (draw, label) => {
    draw(x);
    const text = svg("text", { x: x + 20, y: 0 }, group, label);
    x += 38 + label.length * 6.35;
    return text;
  };
  const cell = (name, fill) => (at) => {
    const box = svg("g", { class: name }, group);
    svg("rect", { x: at, y: -11, width: 13, height: 13, rx: 2, fill }, box);
    svg("circle", { cx: at + 6.5, cy: -4.5, r: 2.6 }, box);
  };
  item(cell("qf-cell qf-cell-free", "none"), "free");
  item(cell("qf-cell qf-cell-full", "none"), "outstanding: sent, not known complete");
  item(cell("qf-cell qf-cell-held", marks.held), "held: on the queue, its completion withheld");
  item(cell("qf-level", "none"), "waiting on the queue");
  item(cell("qf-taken", marks.taken), "at a consumer, still counted");
}
