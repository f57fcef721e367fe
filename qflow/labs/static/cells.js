// Cells of a map of settings: decoding the data from the kernel, in rows from the bottom up, and moving from cell to
// cell.

const MAP_KINDS = ["safe", "below", "full", "dead"];
const POINTS = 40; // of a run's course

// The cell that an arrow key moves to, or the same cell at an edge; undefined for any other key.
export function cellBeside(at, key, width, cells) {
  const goals = {
    ArrowRight: (at + 1) % width ? at + 1 : at,
    ArrowLeft: at % width ? at - 1 : at,
    ArrowUp: at + width,
    ArrowDown: at - width,
  };
  const goal = goals[key];
  return goal < 0 || goal >= cells ? at : goal;
}

// Decode the cells, eight bytes each: kind, sessions that died, share of time blocked in 1/10,000, greatest depth.
export function readCells(packed, courses) {
  const found = [];
  for (let place = 0; place * 8 < packed.byteLength; place += 1) {
    const kind = MAP_KINDS[packed.getUint8(place * 8)];
    if (!kind) {
      found.push(null);
      continue;
    }
    const course = Array.from({ length: POINTS }, (_, part) => courses.getUint8(place * POINTS + part) / 255);
    found.push({
      kind,
      died: packed.getUint8(place * 8 + 1),
      blocked: packed.getUint16(place * 8 + 2, true) / 1e4,
      depth: packed.getUint32(place * 8 + 4, true),
      course,
    });
  }
  return found;
}
