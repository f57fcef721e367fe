// Stage: producers, exchanges, queues and consumers side by side, in as many rows as there are of each.

const GAP = 14;
const TOP = 8;

// Where the columns stand. One picture has the whole width; of several, each has half of it.
function geometryOf(topology, isNarrow) {
  const { producers, queues, consumers, exchanges } = topology;
  const isSmall = isNarrow || queues.length > 2 || Math.max(producers.length, consumers.length) > 3;
  const head = isSmall ? 44 : 76;
  const shared = { isSmall, isNarrow, form: formOf(isSmall, isNarrow), least: isNarrow ? 214 : isSmall ? 176 : 210 };
  if (isNarrow) {
    return { ...shared, width: 520, bend: 18, turn: 14, gate: 0, card: { x: 4, width: 150 }, exchange: null, desk: { x: 402, width: 114 }, tank: { x: 188, width: 100, head, foot: 30, badge: 52 } };
  }
  if (exchanges.length) {
    return { ...shared, width: 1040, bend: 26, turn: 30, gate: 440, gateWords: false, card: { x: 8, width: 232 }, exchange: { x: 276, width: 100 }, desk: { x: 800, width: 232 }, tank: { x: 472, width: 188, head, foot: 30, badge: 100 } };
  }
  return { ...shared, width: 1040, bend: 60, turn: 30, gate: 396, gateWords: true, card: { x: 8, width: 304 }, exchange: null, desk: { x: 788, width: 244 }, tank: { x: 462, width: 132, head, foot: 30, badge: 130 } };
}

// What a card says, and where.
function formOf(isSmall, isNarrow) {
  if (isNarrow) return { name: 22, note: 0, moodBelow: 40, strip: 50, counts: 46, countsUp: 28, sentUp: 11, short: true, isSmall: true };
  if (isSmall) return { name: 22, note: 0, moodBelow: 0, strip: 32, counts: 32, countsUp: 11, sentUp: 0, short: false, isSmall: true };
  return { name: 25, note: 44, moodBelow: 0, strip: 56, counts: 50, countsUp: 30, sentUp: 12, short: false, isSmall: false };
}

// How tall each card is, and how tall they make the stage.
function heightsOf(topology, geometry) {
  const { producers, queues, consumers } = topology;
  const cards = producers.map((producer) => cardHeight(producer.capacity, geometry.card.width, geometry.form));
  const desks = consumers.map((consumer) => cardHeight(consumer.prefetch, geometry.desk.width, geometry.form));
  const least = queues.length === 1 && !geometry.isSmall ? 300 : queues.length * geometry.least;
  return { cards, desks, room: Math.max(stackHeight(cards), stackHeight(desks), least) };
}

// Runs side by side are as tall as the tallest of them: a level is then the same height in all.
function roomOf({ timelines }) {
  const isNarrow = timelines.length > 1;
  return Math.max(...timelines.map(({ topology }) => heightsOf(topology, geometryOf(topology, isNarrow)).room));
}

function buildStage(root, timeline, id, isNarrow, room) {
  const { producers, queues, consumers, exchanges } = timeline.topology;
  const geometry = geometryOf(timeline.topology, isNarrow);
  const { form } = geometry;
  const { cards, desks } = heightsOf(timeline.topology, geometry);
  root.replaceChildren();
  const marks = patterns(root, id);
  const links = svg("g", {}, root);
  const share = room / Math.max(1, queues.length);
  const { layout } = timeline.picture;
  const cardPlaces = stack(layout.producer, cards, room);
  const deskPlaces = stack(layout.consumer, desks, room);
  const rank = new Map(layout.queue.map((index, place) => [index, place]));
  const tanks = queues.map((_, index) => buildTank(root, timeline, index, TOP + share * rank.get(index), share, geometry, marks));
  const sources = producers.map((_, index) => buildProducer(root, timeline, index, cardPlaces[index], cards[index], geometry.card, form, marks));
  const sinks = consumers.map((_, index) => buildConsumer(root, timeline, index, deskPlaces[index], desks[index], geometry.desk, form, marks));
  const hubs = geometry.exchange ? placeExchanges(root, timeline, room, geometry) : [];
  const feeds = producers.map((producer, index) => (hubs.length && producer.exchange >= 0 ? buildFeed(links, sources[index], hubs[producer.exchange], marks) : null));
  const paintRoutes = routePainter(links, timeline, sources, tanks, hubs, geometry, marks);
  const drains = consumers.map((consumer, index) => buildDrain(links, tanks[consumer.queue], sinks[index], geometry, marks));
  const legendLines = isNarrow ? 0 : buildLegend(root, timeline, TOP + room + 24, geometry, marks);
  set(root, { viewBox: `0 0 ${geometry.width} ${room + TOP + (isNarrow ? 10 : 34 + legendLines)}` });

  return (frame) => {
    const step = timeline.step(frame);
    const words = timeline.picture.words;
    const did = (name) => Boolean(step.parts & (1 << words.parts.indexOf(name)));
    const shown = timeline.messages(frame);
    tanks.forEach((tank, index) => tank.paint(timeline.queue(frame, index), shown, frame));
    sources.forEach((source, index) => source.paint(timeline.producer(frame, index), shown.sent[index], frame, words));
    sinks.forEach((sink, index) => sink.paint(timeline.consumer(frame, index), shown.taken[index]));
    feeds.forEach((feed, index) => feed?.(did("sent") && step.producer === index));
    paintRoutes(frame, step, did);
    const receives = did("delivered") || did("delivered_many");
    drains.forEach((drain, index) => drain(receives && step.consumer === index));
  };
}

function placeExchanges(root, timeline, room, geometry) {
  const { exchanges } = timeline.topology;
  const places = timeline.picture.layout.exchange;
  const hubs = [];
  places.forEach((index, place) => {
    const y = TOP + (room * (place + 0.5)) / places.length;
    hubs[index] = buildExchange(root, exchanges[index], geometry.exchange.x, y, geometry.exchange.width);
  });
  return hubs;
}

// A line for each route: straight from a producer, or from its exchange, drawn once for all who send there.
function routePainter(links, timeline, sources, tanks, hubs, geometry, marks) {
  const { producers, routes } = timeline.topology;
  const lines = routes.map(([from, to]) => {
    const via = hubs[producers[from].exchange] ?? null;
    return buildRoute(links, sources[from], tanks[to], geometry, marks, via);
  });
  return (frame, step, did) =>
    routes.forEach(([from, to], index) => {
      const via = producers[from].exchange >= 0;
      const sends = did("sent") && step.producer === from && (via || step.queue === to);
      const before = timeline.producer(Math.max(0, frame - 1), from).outstanding;
      const released = timeline.producer(frame, from).outstanding < before;
      lines[index](sends, released || (sends && !did("held") && !did("refused")), timeline.queue(frame, to).flow);
    });
}

// Places

function stackHeight(heights) {
  return heights.reduce((sum, height) => sum + height + GAP, -GAP);
}

// By member, from its place in the order of its column; spread over the room there is.
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
