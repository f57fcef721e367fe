// Worker: Python for a page of the site. What it is asked is answered by a module of qflow.launch; see python.js.

// `report` hears how much of the engine is here, and `hear` what Python posts by itself.
export function loadPython(script, module, { report = () => {}, hear = () => {} } = {}) {
  const worker = new Worker(script, { type: "module", name: module });
  return new Promise((ready, failed) => {
    const waiting = new Map();
    const ask = (settings, needs = {}) =>
      new Promise((answer) => {
        waiting.set(waiting.size + 1, answer);
        worker.postMessage({ number: waiting.size, settings: JSON.stringify(settings), needs });
      });
    ask.end = () => worker.terminate();
    worker.onerror = (event) => failed(new Error(event.message || "its script is not here"));
    worker.onmessage = ({ data }) => {
      if (data.error) failed(new Error(data.error));
      else if (data.isReady) ready(ask);
      else if (data.total) report(data);
      else if (data.posted) hear(JSON.parse(data.posted), data.buffers);
      else waiting.get(data.number)(JSON.parse(data.answer));
    };
  });
}

// In words, for a page that waits: megabytes that are here, then the start.
export const loadingWords = ({ loaded, total }) =>
  loaded === total
    ? "Python starts …"
    : `Python is being fetched, once for the whole site: ${(loaded / 1e6).toFixed(1)} MB …`;
