// A sender of amqp10 (npm) that looks at the outcome, which the promise brings in a descriptor; as many workers
// as its window is wide.
const { Client, Policy } = require('amqp10');
const total = Number(process.env.AMQP_MESSAGES);
const limit = Number(process.env.WINDOW || 50);
const PAUSE = 200;
const ACCEPTED = 0x24;

async function main() {
  const client = new Client(Policy.Default);
  await client.connect(process.env.AMQP_URL);
  const sender = await client.createSender(process.env.AMQP_QUEUE);
  sender.on('errorReceived', giveUp);
  sender.on('detached', ({ error }) => { if (next < total) giveUp(error); });
  let next = 0;
  async function work() {
    for (let number = next++; number < total; number = next++) {
      while ((await sender.send('order ' + number)).toDescribedType().descriptor !== ACCEPTED) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
  }
  await Promise.all(Array.from({ length: limit }, work));
  await client.disconnect();
}

function giveUp(error) {
  console.error(String(error && (error.condition || error.message || error)));
  process.exit(1);
}

main().catch(giveUp);
