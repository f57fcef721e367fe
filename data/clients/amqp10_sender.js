// A sender of amqp10 (npm) that sends all and awaits the promises, as its documentation does.
const { Client, Policy } = require('amqp10');
const total = Number(process.env.AMQP_MESSAGES);

async function main() {
  const client = new Client(Policy.Default);
  await client.connect(process.env.AMQP_URL);
  const sender = await client.createSender(process.env.AMQP_QUEUE);
  const sends = Array.from({ length: total }, (_, number) => sender.send('order ' + number));
  console.log(`done ${(await Promise.all(sends)).length}`);
  await client.disconnect();
}

main();
