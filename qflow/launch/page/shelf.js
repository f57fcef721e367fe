// Shelf: what lies packed beside the pages of the book, and is loaded once it is needed: from a server as deflated bytes;
// from a folder, where a page may not fetch, as a script that holds the same as text.

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

// Run a script that lies packed.
export async function runScript(place) {
  html("script", {}, document.head, await loadText(place));
}

// A script's load is told right after it ran: what it packed is still there.
function packedScript(src) {
  return new Promise((found, onerror) => {
    const onload = () => found(unpacked(globalThis.qflowPacked));
    Object.assign(html("script", { src }, document.head), { onload, onerror });
  });
}
