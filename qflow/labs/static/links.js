// Links: what is sent on its way to a queue, what is known complete on its way back, and deliveries.

import { svg } from "./svg.js";

export function buildExchange(root, name, x, y, width) {
  const group = svg("g", { class: "qf-exchange", "data-name": name, transform: `translate(${x},${y})` }, root);
  svg("path", { d: `M12,-18H${width - 12}L${width},0L${width - 12},18H12L0,0Z`, class: "qf-exchange-box" }, group);
  svg("text", { x: width / 2, y: 4.5, class: "qf-exchange-name" }, group, name || "(default)");
  return { left: x, right: x + width, y };
}

// The way of messages to a queue, and of completions from its gate back to the card; marks keep to these lines.
export function buildRoute(parent, source, tank, geometry, marks, via = null) {
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

export function buildFeed(parent, source, exchange, marks) {
  const middle = (source.right + exchange.left) / 2;
  const way = `M${source.right},${source.out} C${middle},${source.out} ${middle},${exchange.y} ${exchange.left - 2},${exchange.y}`;
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}

export function buildDrain(parent, tank, sink, geometry, marks) {
  const x = geometry.tank.x + geometry.tank.width / 2;
  const { bottom, outlet } = tank;
  const turn = geometry.desk.x - geometry.turn;
  const down = sink.middle > outlet ? 12 : -12;
  const way = `M${x},${bottom} V${outlet - 10} Q${x},${outlet} ${x + 12},${outlet} H${turn - 12} Q${turn},${outlet} ${turn},${outlet + down} V${sink.middle - down} Q${turn},${sink.middle} ${turn + 12},${sink.middle} H${sink.left - 3}`;
  return svg("path", { d: way, class: "qf-link", "marker-end": marks.arrow }, parent);
}
