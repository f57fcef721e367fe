// Landed: the counts that a picture shows at an instant. A count changes when its mark lands. A cell of a window is
// occupied from the start of its message until its completion has arrived; a completion is held from its arrival
// behind the gate until it leaves; a message is prefetched while it is in its slot. Where the picture rests, all marks
// have landed, and the counts are those of its frame.

import { LAST_HOME, TAKES } from "./flights.js";
import { firstOf } from "./numbers.js";

// The counts of each producer, queue and consumer, with the rows that they count; `key` changes with any of them.
export function landed(flights, time, frame) {
  const { timeline } = flights;
  const { topology } = timeline;
  const of = (kind) => topology[`${kind}s`].map((_, index) => ({ ...timeline.seen(kind, index, frame), rows: [] }));
  const found = { producer: of("producer"), queue: of("queue"), consumer: of("consumer"), held: new Set(), key: frame };
  if (timeline.kept) return { ...found, ...asItIs(timeline, found, frame) };
  for (const stay of heldAt(flights, time, frame)) if (flights.piled(stay) <= time) found.held.add(stay);
  for (const queue of found.queue) queue.held = 0;
  for (const producer of found.producer) [producer.held, producer.stays] = [0, new Set()];
  for (const stay of found.held) {
    found.queue[timeline.stays.get(stay, "queue")].held += 1;
    const row = flights.sendingOf[stay];
    if (row < 0 || flights.heldIn[row] !== stay) continue;
    const producer = found.producer[timeline.sendings.get(row, "producer")];
    producer.held += 1;
    producer.stays.add(row);
  }
  countSendings(flights, time, frame, found.producer);
  for (const row of timeline.holdings.alive(frame)) {
    const consumer = timeline.holdings.get(row, "consumer");
    if (consumer && flights.arrival(row) <= time && time < flights.farewell(row))
      found.consumer[consumer - 1].rows.push(row);
  }
  for (const consumer of found.consumer) consumer.holds = consumer.rows.length;
  const rows = [...found.producer, ...found.consumer].map((one) => `${one.sent} ${one.rows}`);
  found.key = [frame, ...rows, [...found.held]].join(";");
  return found;
}

// A picture that follows a server has no time for flights: the counts of its frame are shown.
function asItIs(timeline, { producer, consumer }, frame) {
  const shown = timeline.messages(frame);
  producer.forEach((one, index) => {
    one.rows = shown.sent[index];
    const isHeld = (row) =>
      timeline.sendings.get(row, "held_start") <= frame && timeline.sendings.get(row, "held_end") > frame;
    one.stays = new Set(one.rows.filter(isHeld));
  });
  consumer.forEach((one, index) => {
    one.rows = shown.taken[index];
  });
  const { held_start: from, held_end: to } = timeline.stays.columns;
  return { held: new Set(timeline.stays.alive(frame).filter((row) => from[row] <= frame && to[row] > frame)) };
}

// The stays whose completion is behind a gate or on its way there, both of messages on a queue and of those that have
// left it.
export function heldAt(flights, time, frame) {
  const { stays } = flights.timeline;
  const { held_start: from, held_end: to } = stays.columns;
  const found = stays.alive(frame).filter((row) => from[row] <= frame && time < flights.freed(row));
  const { rows } = flights.byFreed;
  for (let at = firstOf(rows, (row) => to[row] > frame) - 1; at >= 0; at -= 1) {
    if (flights.time(to[rows[at]]) < time - LAST_HOME * flights.pace) break;
    if (stays.end[rows[at]] <= frame && time < flights.freed(rows[at])) found.push(rows[at]);
  }
  return found;
}

// Count the transfers that have started, and whose completion has not arrived.
function countSendings(flights, time, frame, producers) {
  const { sendings } = flights.timeline;
  const add = (row) => producers[sendings.get(row, "producer")].rows.push(row);
  const { rows: ended } = flights.byEnd.sendings;
  const back = [];
  for (let at = firstOf(ended, (row) => sendings.end[row] > frame) - 1; at >= 0; at -= 1) {
    if (flights.time(sendings.end[ended[at]]) < time - LAST_HOME * flights.pace) break;
    if (flights.home(ended[at]) > time) back.push(ended[at]);
  }
  for (const row of back.reverse()) add(row);
  for (const row of sendings.alive(frame)) add(row);
  const { rows: begun } = flights.byStart.sendings;
  for (let at = firstOf(begun, (row) => sendings.start[row] > frame); at < begun.length; at += 1) {
    const begins = flights.time(sendings.start[begun[at]]);
    if (begins - TAKES.transfer * flights.pace > time) break;
    // Steps at the same time may have the same place in the picture's time, and follow the one that is shown.
    if (begins <= time || flights.departure(begun[at], begins) > time) continue;
    producers[sendings.get(begun[at], "producer")].sent += 1;
    add(begun[at]);
  }
  for (const one of producers) one.outstanding = one.rows.length;
}
