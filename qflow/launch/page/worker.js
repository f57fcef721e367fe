// Worker: starts Python for a page of the site. A module of qflow.launch answers its requests; see python.js.

// `report` is called with the progress of the download, and `hear` with messages that Python posts by itself.
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

// The progress as text for a page that waits: the megabytes downloaded, and then the start of Python.
export const loadingWords = ({ loaded, total }) =>
  loaded === total
    ? "Python starts …"
    : `Python is being fetched, once for the whole site: ${(loaded / 1e6).toFixed(1)} MB …`;
