// A sender of rhea-promise that awaits one outcome at a time, fifty, or all at once.
// node rhea_promise_sender.js one|fifty|all, where npm has put rhea-promise.
const { Connection } = require('rhea-promise');
const { hostname, port } = new URL(process.env.AMQP_URL);
const total = Number(process.env.AMQP_MESSAGES);
const limit = { one: 1, fifty: 50, all: total }[process.argv[2] || 'one'];

async function main() {
  const connection = new Connection({ host: hostname.replace(/[[\]]/g, ''), port: Number(port), reconnect: false });
  await connection.open();
  const sender = await connection.createAwaitableSender({ target: { address: process.env.AMQP_QUEUE } });
  const failures = {};
  let next = 0;
  async function work() {
    for (let number = next++; number < total; number = next++) {
      await sender.send({ body: 'order ' + number }, { timeoutInSeconds: 3600 }).catch(({ name }) => {
        failures[name] = (failures[name] || 0) + 1;
      });
    }
  }
  await Promise.all(Array.from({ length: limit }, work));
  for (const [name, count] of Object.entries(failures)) console.log(`${name}: ${count}`);
  await connection.close();
}

main();
