// The words of the picture: the templates come from Python (words.py), and are filled here.

const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);

export function stepSentence(timeline, frame) {
  const { step, state } = timeline.picture.words;
  const seen = timeline.step(frame);
  if (!seen.parts) return frame === 0 ? state.start : "";
  const { producers, queues, consumers } = timeline.topology;
  const queue = queues[seen.queue];
  const name = (sender, number) => timeline.label(sender, number) || "a message";
  const values = {
    ...seen,
    ...timeline.seen("queue", seen.queue, frame),
    message: name(seen.sender, seen.number),
    lost: name(seen.lost_sender, seen.lost_number),
    delivery: name(seen.delivery_sender, seen.delivery_number),
    producer: producers[seen.producer]?.name,
    waiter: producers[seen.waiter]?.name,
    consumer: consumers[seen.consumer]?.name,
    queue: queue?.name,
    stop: queue?.stop_count,
    stop_size: queue?.stop_size,
  };
  return step
    .filter((_, bit) => (seen.parts >> bit) & 1)
    .map((template) => fill(template, values))
    .join(" ");
}

// Another form of drawing contains its captions: the last one up to the frame.
export const captionAt = (picture, frame) => picture.captions.findLast(([at]) => at <= frame)?.[1] ?? "";

// The caption while the picture plays: what happened at the last turn, and when, as each single step would disappear
// before it is read.
export function caption(timeline, frame) {
  const turn = timeline.picture.turns.findLast((at) => at <= frame);
  return turn === undefined
    ? stepSentence(timeline, frame)
    : `${seconds(timeline.time(turn))}: ${stepSentence(timeline, turn)}`;
}

// What producers may still do and what they wait for while a queue is ON; nothing if there are too many clients.
export function outlookSentence(timeline, frame, counted = null) {
  const { topology, picture, sendings } = timeline;
  const templates = picture.words.outlook;
  if (topology.producers.length > 2 || picture.form) return "";
  const said = topology.producers.map(({ name, capacity }, index) => {
    const [, on] =
      topology.routes.find(([producer, queue]) => producer === index && timeline.seen("queue", queue, frame).flow) ??
      [];
    const { mood } = timeline.seen("producer", index, frame);
    const { outstanding } = counted?.producer?.[index] ?? timeline.seen("producer", index, frame);
    if (on === undefined || mood > 2) return "";
    const values = { producer: name, queue: topology.queues[on].name, room: capacity - outstanding };
    if (outstanding >= capacity) return fill(templates.waits, values);
    const next = sendings.next(frame, (row) => sendings.get(row, "producer") === index);
    if (next < 0) return fill(templates.done, values);
    const time = timeline.time(sendings.start[next]);
    return fill(time - timeline.time(frame) > LONG_AWAITED ? templates.idle : templates.may_send, {
      ...values,
      time: `${(time / 1e6).toFixed(1)} s`,
    });
  });
  return said.filter(Boolean).join(" ");
}

// The microseconds of waiting from which on the reader is told when the next message is due.
const LONG_AWAITED = 300_000;

// The state of a producer as drawn: it still waits if its window was emptied but it has not continued, and its window
// is full while its last completion is on its way.
export function moodOf(moods, { mood, outstanding }, capacity) {
  if (mood === 0 && outstanding >= capacity) return moods[1];
  return outstanding < capacity ? moods[mood].replace(" with a full window", "") : moods[mood];
}

// `counted` has the counts of what has landed at an instant between two frames (landed.js).
export function stateSentence(timeline, frame, counted = null) {
  const seenOf = (kind, index) => counted?.[kind]?.[index] ?? timeline.seen(kind, index, frame);
  const { state, moods, flow } = timeline.picture.words;
  const { producers, queues, consumers } = timeline.topology;
  const said = queues.map((queue, index) => {
    const seen = seenOf("queue", index);
    return fill(queue.stop_count || queue.stop_size ? state.queue : state.free_queue, {
      ...seen,
      queue: queue.name,
      flow: flow[seen.flow],
    });
  });
  producers.forEach((producer, index) => {
    const seen = seenOf("producer", index);
    const mood = moodOf(moods, seen, producer.capacity);
    said.push(fill(state.producer, { ...seen, producer: producer.name, capacity: producer.capacity, mood }));
  });
  consumers.forEach((consumer, index) => {
    const seen = seenOf("consumer", index);
    const template = seen.present ? state.consumer : state.absent;
    said.push(fill(template, { ...seen, consumer: consumer.name, prefetch: consumer.prefetch }));
  });
  return said.join(" ");
}

export const seconds = (time) => `${(time / 1e6).toFixed(3)} s`;
