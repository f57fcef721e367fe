// Worker: Python for a page of the site. What it is asked is answered by a module of qflow.launch; see python.js.

export function loadPython(script, module) {
  const worker = new Worker(script, { type: "module", name: module });
  return new Promise((ready, failed) => {
    const waiting = new Map();
    const ask = (settings) =>
      new Promise((answer) => {
        waiting.set(waiting.size + 1, answer);
        worker.postMessage({ number: waiting.size, settings: JSON.stringify(settings) });
      });
    ask.end = () => worker.terminate();
    worker.onerror = (event) => failed(new Error(event.message || "its script is not here"));
    worker.onmessage = ({ data }) => {
      if (data.error) failed(new Error(data.error));
      else if (data.isReady) ready(ask);
      else waiting.get(data.number)(JSON.parse(data.answer));
    };
  });
}
