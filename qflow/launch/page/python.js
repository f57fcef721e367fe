// Python in a worker: the site's own Pyodide with the engine of the site's own wheel. The module of qflow.launch with
// the name of the worker answers the page's requests, and may post messages by itself. All files are downloaded once
// for the whole site: the browser stores them under the version that the build wrote into engine.json.

const top = new URL("../", import.meta.url);
const outside = self.fetch.bind(self);
const wanted = { loaded: 0, total: 0, store: null };
const WIDGETS = ["page_kernel"];

async function prepare() {
  const { version, bytes, widgets } = await (await outside(new URL("engine.json", import.meta.url))).json();
  wanted.total = bytes + (WIDGETS.includes(self.name) ? widgets : 0);
  // A page without a secure connection has no cache storage of its own; the browser's ordinary cache has to do.
  const name = `qflow ${version}`;
  wanted.store = await self.caches?.open(name).catch(() => null);
  for (const other of (await self.caches?.keys().catch(() => [])) ?? [])
    if (other.startsWith("qflow ") && other !== name) self.caches.delete(other);
}

// A fetch that uses the cache storage, and reports the downloaded bytes.
self.fetch = async (what, ...options) => {
  const url = String(what.url ?? what);
  const kept = await wanted.store?.match(url);
  const found = kept ?? (await outside(what, ...options));
  if (!found.ok) return found;
  if (!kept) wanted.store?.put(url, found.clone()).catch(() => {});
  const count = new TransformStream({
    transform(part, out) {
      wanted.loaded += part.byteLength;
      postMessage({ loaded: Math.min(wanted.loaded, wanted.total), total: wanted.total });
      out.enqueue(part);
    },
  });
  return new Response(found.body.pipeThrough(count), { status: found.status, headers: found.headers });
};

async function load() {
  await prepare();
  const { loadPyodide } = await import(new URL("static/pyodide/pyodide.mjs", top));
  const archives = ["engine.zip", ...(WIDGETS.includes(self.name) ? ["widgets.zip"] : [])].map(async (name) =>
    (await fetch(new URL(name, import.meta.url))).arrayBuffer(),
  );
  const python = await loadPyodide({ indexURL: new URL("static/pyodide/", top).href });
  for (const archive of archives) python.unpackArchive(await archive, "zip");
  const answers = python.pyimport(`qflow.launch.${self.name}`);
  if (WIDGETS.includes(self.name)) answers.connect(post);
  return { python, answer: answers.answer };
}

function post(posted, buffers) {
  postMessage({ posted, buffers: buffers.toJs() });
}

// Load the recordings and libraries that a cell needs; recordings are put where the kit's Python looks for them.
async function place(python, { files = {}, libraries = [] }) {
  if (libraries.length) await python.loadPackage(libraries);
  for (const [path, url] of Object.entries(files)) {
    const bytes = new Uint8Array(await (await outside(new URL(url, import.meta.url))).arrayBuffer());
    python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    python.FS.writeFile(path, bytes);
  }
}

const loading = load();
loading.then(
  () => postMessage({ isReady: true }),
  (error) => postMessage({ error: error.message }),
);
self.onmessage = async ({ data: { number, settings, needs } }) => {
  const { python, answer } = await loading;
  await place(python, needs);
  postMessage({ number, answer: await answer(settings) });
};
