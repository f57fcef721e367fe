// Python in a worker: the site's own Pyodide, the engine of the site's own wheel. The module that the worker is named
// after answers what a page asks.

const top = new URL("../", import.meta.url);

async function load() {
  const { loadPyodide } = await import(new URL("static/pyodide/pyodide.mjs", top));
  const python = await loadPyodide({ indexURL: new URL("static/pyodide/", top).href });
  const engine = await fetch(new URL("engine.zip", import.meta.url));
  python.unpackArchive(await engine.arrayBuffer(), "zip");
  return python.runPython(`from qflow.launch.${self.name} import answer\nanswer`);
}

const loading = load();
loading.then(
  () => postMessage({ isReady: true }),
  (error) => postMessage({ error: error.message }),
);
self.onmessage = async ({ data: { number, settings } }) => postMessage({ number, answer: (await loading)(settings) });
