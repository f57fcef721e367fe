// A sender of rhea that stops at a window of 50 and loses nothing: only what is accepted is done.
// What is released or rejected is sent again after a pause; what cannot be sent any more is counted, with status 1.
const rhea = require('rhea');
const { hostname, port } = new URL(process.env.AMQP_URL);
const total = Number(process.env.AMQP_MESSAGES);
const PAUSE = 200;
const limit = Number(process.env.WINDOW || 50);
const waiting = Array.from({ length: total }, (_, number) => number);
const unsettled = new Map();
let sender, pause;

function fill() {
  while (!pause && waiting.length && unsettled.size < limit && sender.sendable()) {
    const number = waiting.shift();
    unsettled.set(sender.send({ body: 'order ' + number }).id, number);
  }
  if (!waiting.length && !unsettled.size) sender.connection.close();
}

function keep(context) {
  waiting.push(unsettled.get(context.delivery.id));
  unsettled.delete(context.delivery.id);
  pause ??= setTimeout(() => { pause = undefined; fill(); }, PAUSE);
}

function giveUp(context) {
  const error = (context.sender || context.connection).error || context.error || 'the connection is lost';
  console.error(`${error.condition || error}: ${waiting.length + unsettled.size} of ${total} not accepted`);
  process.exit(1);
}

const container = rhea.create_container();
container.on('sendable', fill);
container.on('accepted', (context) => { unsettled.delete(context.delivery.id); fill(); });
for (const outcome of ['released', 'rejected', 'modified']) container.on(outcome, keep);
for (const end of ['sender_error', 'connection_error', 'disconnected']) container.on(end, giveUp);
const connection = container.connect({ host: hostname.replace(/[[\]]/g, ''), port: Number(port), reconnect: false });
sender = connection.open_sender(process.env.AMQP_QUEUE);
