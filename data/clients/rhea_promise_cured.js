// A sender of rhea-promise with as many workers as its window is wide; each sends a message until it is accepted.
const { Connection } = require('rhea-promise');
const { hostname, port } = new URL(process.env.AMQP_URL);
const total = Number(process.env.AMQP_MESSAGES);
const limit = Number(process.env.WINDOW || 50);
const PAUSE = 200;
// The library gives up after 20 seconds otherwise, although the message is on the queue.
const PATIENT = { timeoutInSeconds: 2_000_000 };

async function main() {
  const connection = new Connection({ host: hostname.replace(/[[\]]/g, ''), port: Number(port), reconnect: false });
  await connection.open();
  const sender = await connection.createAwaitableSender({ target: { address: process.env.AMQP_QUEUE } });
  let next = 0;
  async function work() {
    for (let number = next++; number < total; number = next++) {
      while (!(await isAccepted({ body: 'order ' + number }))) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
  async function isAccepted(message) {
    try {
      await sender.send(message, PATIENT);
      return true;
    } catch (error) {
      if (['released', 'rejected', 'modified'].includes(error.code)) return false;
      throw error;
    }
  }
  await Promise.all(Array.from({ length: limit }, work));
  await connection.close();
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
