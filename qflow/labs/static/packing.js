// Packing: tables of whole numbers as Python took them apart (packing.py), put together again.

// The bytes come as a view, which may begin anywhere within a larger buffer.
function unpackTable(planes, view, start, rows) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const numbers = new Int32Array(rows * planes.length);
  planes.forEach((told, column) => {
    const constant = told.reduce((sum, byte, place) => sum | (byte < 0 ? 0 : byte << (8 * place)), 0);
    if (constant) for (let at = column; at < numbers.length; at += planes.length) numbers[at] = constant;
    told.forEach((byte, place) => {
      if (byte >= 0) return;
      for (let row = 0, at = column; row < rows; row += 1, at += planes.length) numbers[at] |= bytes[start + row] << (8 * place);
      start += rows;
    });
  });
  return [numbers, start];
}
