// Packing: tables of whole numbers as Python took them apart (packing.py), put together again, by columns.

// The bytes come as a view, which may begin anywhere within a larger buffer.
function unpackColumns(planes, view, start, rows) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const columns = planes.map((told) => {
    const parts = told.map((byte) => (byte < 0 ? bytes.subarray(start, (start += rows)) : byte));
    return unpackColumn(parts, rows);
  });
  return [columns, start];
}

// A part is a byte that all rows have, or one for each row.
function unpackColumn(parts, rows) {
  const [lowest, ...higher] = parts;
  // Most columns count little: their bytes are their numbers.
  if (typeof lowest !== "number" && higher.every((part) => part === 0)) return lowest;
  const column = new Int32Array(rows);
  parts.forEach((part, place) => {
    const shift = 8 * place;
    if (typeof part !== "number") for (let row = 0; row < rows; row += 1) column[row] |= part[row] << shift;
    else if (part) for (let row = 0; row < rows; row += 1) column[row] |= part << shift;
  });
  return column;
}
