// A sender in one of three manners: credit, window (at most 50 without an outcome) or presettled.
// node rhea_sender.js MANNER, where npm has put rhea.
const rhea = require('rhea');
const { hostname, port } = new URL(process.env.AMQP_URL);
const total = Number(process.env.AMQP_MESSAGES);
const manner = process.argv[2] || 'credit';
const window = manner === 'window' ? 50 : Infinity;
let sent = 0, settled = 0;

function fill(sender) {
  while (sent < total && sent - settled < window && sender.sendable()) {
    sender.send({ body: 'order ' + sent });
    sent++;
  }
  if (manner === 'presettled' && sent === total) sender.connection.close();
}

const container = rhea.create_container();
container.on('sendable', (context) => fill(context.sender));
container.on('settled', (context) => {
  settled++;
  if (settled === total) context.connection.close();
  else fill(context.sender);
});
const connection = container.connect({ host: hostname.replace(/[[\]]/g, ''), port: Number(port), reconnect: false });
const presettled = manner === 'presettled' ? { snd_settle_mode: 1 } : {};
connection.open_sender({ target: process.env.AMQP_QUEUE, ...presettled });
