// Links: what is sent on its way to a queue, what is known complete on its way back, and deliveries.

function buildExchange(root, name, x, y, width) {
  const group = svg("g", { class: "qf-exchange", "data-name": name, transform: `translate(${x},${y})` }, root);
  svg("path", { d: `M12,-18H${width - 12}L${width},0L${width - 12},18H12L0,0Z`, class: "qf-exchange-box" }, group);
  svg("text", { x: width / 2, y: 4.5, class: "qf-exchange-name" }, group, name || "(default)");
  return { left: x, right: x + width, y };
}

// The way of messages to a queue, and of completions from its gate back to the card; marks keep to these lines.
function buildRoute(parent, source, tank, geometry, marks, via = null) {
  const { inlet, top, gate } = tank;
  const middle = geometry.tank.x + geometry.tank.width / 2;
  const from = via ? { x: via.right, y: via.y } : { x: source.right, y: source.out };
  const bend = from.x + geometry.bend;
  // The last stretch is straight, so that the arrow points down however little room there is.
  const turn = Math.min(10, (top - inlet) / 2);
  const way = `M${from.x},${from.y} C${bend},${from.y} ${bend - geometry.bend / 3},${inlet} ${bend + geometry.bend / 2},${inlet} H${middle - 12} Q${middle},${inlet} ${middle},${inlet + turn} V${top - 2}`;
  const out = svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
  const half = (gate.x - source.right) / 2;
  const below = via ? via.y + 32 : 0;
  const straight = `C${gate.x - half},${gate.y} ${source.right + half},${source.back} ${source.right + 3},${source.back}`;
  // Round below an exchange: completions do not pass through it.
  const round = via && `C${gate.x - 24},${gate.y} ${via.right + 24},${below} ${via.right - 16},${below} H${via.left + 16} C${via.left - 12},${below} ${source.right + 16},${source.back} ${source.right + 3},${source.back}`;
  const home = `M${gate.x},${gate.y} ${round || straight}`;
  tank.home.set(source.index, svg("path", { d: home, class: "qf-back", "marker-end": marks.back }, parent));
  return out;
}

function buildFeed(parent, source, exchange, marks) {
  const middle = (source.right + exchange.left) / 2;
  const way = `M${source.right},${source.out} C${middle},${source.out} ${middle},${exchange.y} ${exchange.left - 2},${exchange.y}`;
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}

function buildDrain(parent, tank, sink, geometry, marks) {
  const x = geometry.tank.x + geometry.tank.width / 2;
  const { bottom, outlet } = tank;
  const turn = geometry.desk.x - geometry.turn;
  const down = sink.middle > outlet ? 12 : -12;
  const way = `M${x},${bottom} V${outlet - 10} Q${x},${outlet} ${x + 12},${outlet} H${turn - 12} Q${turn},${outlet} ${turn},${outlet + down} V${sink.middle - down} Q${turn},${sink.middle} ${turn + 12},${sink.middle} H${sink.left - 3}`;
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}

// How wide a text of 12 pixels is; an element says so only once it is on the page.
function textWidth(text) {
  textWidth.pen ??= document.createElement("canvas").getContext("2d");
  textWidth.pen.font = "12px system-ui, sans-serif";
  return textWidth.pen.measureText(text).width;
}

// As much of a text as there is room for; the factor is its size and weight against what is measured.
function fitted(text, room, factor = 1.1) {
  // The number at its end is often all that two names differ in.
  const end = text.match(/\D?\d{1,4}$/)?.[0] ?? "";
  let shown = text;
  for (let length = text.length - end.length - 1; length > 0 && factor * textWidth(shown) > room; length -= 1) shown = `${text.slice(0, length)}…${end}`;
  return shown;
}

const hasAgain = (timeline) => timeline.stays.columns.again.some((frame) => frame < NEVER);

// Legend: what patterns, marks and shapes mean.
function buildLegend(root, timeline, y, geometry, marks) {
  const group = svg("g", { class: "qf-legend", transform: `translate(8,${y})` }, root);
  let [x, line] = [0, 0];
  const item = (draw, label) => {
    const width = 37 + textWidth(label);
    if (x + width > geometry.width - 16) [x, line] = [0, line + 18];
    draw(x, line);
    svg("text", { x: x + 19, y: line }, group, label);
    x += width;
  };
  const cell = (name, fill, state = "") => (at, down) => {
    const box = svg("g", { class: name }, group);
    svg("rect", { x: at, y: down - 11, width: 13, height: 13, rx: 2, fill }, box);
    if (state) svg("circle", { cx: at + 6.5, cy: down - 4.5, r: 2.6, class: "qf-glyph-plain" }, box);
  };
  item(cell("qf-cell qf-cell-free", "none"), "free");
  item(cell("qf-cell qf-cell-full", "none", "full"), "outstanding");
  item(cell("qf-cell qf-cell-held", marks.held), "held: its completion is withheld");
  item((at, down) => svg("rect", { x: at + 1, y: down - 10, width: 11, height: 11, rx: 2, class: "qf-sent" }, group), "on its way, not counted yet");
  item(cell("qf-entry qf-entry-full", "none"), "waiting on the queue");
  item(cell("qf-taken", marks.taken), "at a consumer, still on the queue");
  if (hasAgain(timeline)) {
    item((at, down) => svg("path", { d: AGAIN, class: "qf-again", transform: `translate(${at + 6},${down - 5})` }, group), "redelivered");
  }
  const names = timeline.picture.groups.map((name, index) => [name, index + 1]).slice(0, 10);
  names.sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  for (const [name, number] of names) item((at, down) => drawGlyph(group, number, at + 7, down - 4.5), name);
  return line;
}

const NEVER = 2 ** 31 - 1;
