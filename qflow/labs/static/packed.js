// Packed: decompresses data, which a page contains as text.

// Compressed bytes, decompressed by the browser itself.
export async function inflatedBytes(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The reverse of `pack_text` in html_export.py.
export const unpacked = (text) =>
  Uint8Array.from(atob(text.replace(/[-_.]/g, (letter) => ({ "-": "+", _: "/", ".": "0" })[letter])), (letter) =>
    letter.charCodeAt(0),
  );

export const unpackedJson = async (text) => JSON.parse(new TextDecoder().decode(await inflatedBytes(unpacked(text))));
