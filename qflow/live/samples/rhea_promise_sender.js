// A sender of rhea-promise in one of three manners: one (awaits each), fifty (awaits fifty at a time) or all at once.
// node rhea_promise_sender.js MANNER, where npm has put rhea-promise.
const { Connection } = require('rhea-promise');
const { hostname, port } = new URL(process.env.AMQP_URL);
const total = Number(process.env.AMQP_MESSAGES);
const batch = { one: 1, fifty: 50, all: total }[process.argv[2] || 'one'];

async function main() {
  const connection = new Connection({ host: hostname.replace(/[[\]]/g, ''), port: Number(port), reconnect: false });
  await connection.open();
  const sender = await connection.createAwaitableSender({ target: { address: process.env.AMQP_QUEUE } });
  const failures = {};
  for (let first = 0; first < total; first += batch) {
    const numbers = Array.from({ length: Math.min(batch, total - first) }, (_, index) => first + index);
    const sends = numbers.map((number) => sender.send({ body: 'order ' + number }, { timeoutInSeconds: 3600 }));
    for (const { reason } of await Promise.allSettled(sends)) if (reason) failures[reason.name] = (failures[reason.name] || 0) + 1;
  }
  for (const [name, count] of Object.entries(failures)) console.log(`${name}: ${count}`);
  await connection.close();
}

main();
