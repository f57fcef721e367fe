// Shelf: loads the compressed files beside the pages of the book when they are needed: from a server as compressed
// bytes; from a folder, where a page cannot fetch files, as a script that contains them as text.

import { inflatedBytes, unpacked } from "../../labs/static/packed.js";
import { html } from "../../labs/static/svg.js";

export async function loadText(place) {
  const packed = location.protocol === "file:" ? await packedScript(`${place}.js`) : await packedBytes(`${place}.z`);
  return new TextDecoder().decode(await inflatedBytes(packed));
}

export const loadJson = async (place) => JSON.parse(await loadText(place));

async function packedBytes(place) {
  const found = await fetch(place);
  if (!found.ok) throw new Error(`${place} is not there`);
  return found.arrayBuffer();
}

// Run a compressed script.
export async function runScript(place) {
  html("script", {}, document.head, await loadText(place));
}

// The load event of a script fires right after it has run, when the data that it set is still there.
function packedScript(src) {
  return new Promise((found, onerror) => {
    const onload = () => found(unpacked(globalThis.qflowPacked));
    Object.assign(html("script", { src }, document.head), { onload, onerror });
  });
}
