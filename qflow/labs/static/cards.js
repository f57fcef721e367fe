// Cards: producers with their capacity window, consumers with their prefetch slots.

function cellGrid(capacity, width) {
  if (capacity > 240) return null;
  const most = Math.max(4, Math.floor(width / 14));
  const rows = Math.ceil(capacity / Math.min(20, most));
  const columns = Math.ceil(capacity / rows);
  const pitch = Math.min(26, width / columns);
  return { rows, columns, pitch, size: pitch - Math.max(2, pitch * 0.16) };
}

function cardHeight(capacity, width, form) {
  const grid = cellGrid(capacity, width - 28);
  return form.strip + form.counts + (grid ? grid.rows * grid.pitch : 26);
}

function buildCard(root, kind, spot, place, height, box, form) {
  const group = svg("g", { class: `qf-${kind}`, "data-name": spot.name, "data-why": `${kind}:${spot.name}`, transform: `translate(${box.x},${place})` }, root);
  svg("title", {}, group, `${spot.name}: ${spot.note}. Click to ask why.`);
  svg("rect", { width: box.width, height, rx: 8, class: "qf-card" }, group);
  const name = svg("text", { x: 14, y: form.name, class: "qf-name" }, group, spot.name);
  if (form.isSmall) name.classList.add("qf-name-small");
  if (form.note) svg("text", { x: 14, y: form.note, class: "qf-note" }, group, spot.note);
  return group;
}

function buildProducer(root, timeline, index, place, height, box, form, marks) {
  const spot = timeline.topology.producers[index];
  const group = buildCard(root, "producer", spot, place, height, box, form);
  const mood = svg("text", { x: form.moodBelow ? 14 : box.width - 14, y: form.moodBelow || form.name, class: "qf-mood" }, group);
  if (form.moodBelow) mood.classList.add("qf-mood-below");
  const strip = buildStrip(group, spot.capacity, 14, form.strip, box.width - 28, marks, "cell");
  const counts = svg("text", { x: 14, y: height - form.countsUp, class: "qf-count" }, group);
  const sent = form.sentUp ? svg("text", { x: 14, y: height - form.sentUp, class: "qf-note" }, group) : null;
  const { sendings } = timeline;
  const paint = (seen, rows, frame, words) => {
    const cells = rows.map((row) => {
      const held = sendings.get(row, "held_start") <= frame && sendings.get(row, "held_end") > frame;
      const label = timeline.label(index + 1, sendings.get(row, "number"));
      return { state: held ? "held" : "full", group: sendings.get(row, "group"), why: `transfer:${label}`, title: label };
    });
    // Held ones first: they fill the window from the left, as they are the ones that do not go away.
    cells.sort((one, other) => (one.state === "held" ? 0 : 1) - (other.state === "held" ? 0 : 1));
    strip(cells);
    const text = words.moods[seen.mood];
    write(mood, form.isSmall ? SHORT_MOODS[seen.mood] : text);
    classify(mood, `qf-mood qf-mood-${seen.mood}${form.moodBelow ? " qf-mood-below" : ""}`);
    write(counts, form.isSmall ? `${seen.outstanding}/${spot.capacity} ${form.short ? "out" : "outstanding"}, ${seen.held} held` : `${seen.outstanding} of ${spot.capacity} outstanding, ${seen.held} held`);
    if (sent) write(sent, form.short ? `${seen.sent} sent` : `${seen.sent} sent so far`);
    set(group, { "data-outstanding": seen.outstanding, "data-held": seen.held, "data-mood": text });
  };
  return { right: box.x + box.width, out: place + Math.min(34, height * 0.32), back: place + height - Math.min(34, height * 0.3), middle: place + height / 2, paint };
}

const SHORT_MOODS = ["free to send", "window full", "waits", "session dead", "asked to stop"];

function buildConsumer(root, timeline, index, place, height, box, form, marks) {
  const spot = timeline.topology.consumers[index];
  const group = buildCard(root, "consumer", spot, place, height, box, form);
  const strip = buildStrip(group, spot.prefetch, 14, form.strip, box.width - 28, marks, "slot");
  const counts = svg("text", { x: 14, y: height - form.countsUp, class: "qf-count" }, group);
  const accepted = form.sentUp ? svg("text", { x: 14, y: height - form.sentUp, class: "qf-note" }, group) : null;
  const { stays, holdings } = timeline;
  const paint = (seen, rows) => {
    strip(
      rows.map((row) => {
        const stay = holdings.get(row, "stay");
        if (stay < 0) return { state: "full", group: 0, why: "", title: "" };
        const label = timeline.label(stays.get(stay, "producer"), stays.get(stay, "number"));
        const again = Boolean(holdings.get(row, "again"));
        return { state: "full", group: stays.get(stay, "group"), again, why: label && `message:${label}`, title: again ? `${label}, redelivered` : label };
      }),
    );
    write(counts, seen.present ? (form.short ? `${seen.holds}/${spot.prefetch} taken` : `${seen.holds} of ${spot.prefetch} prefetched`) : form.short ? "not here" : "not here yet");
    if (accepted) write(accepted, form.short ? `${seen.accepted} accepted` : `${seen.accepted} accepted so far`);
    set(group, { "data-holds": seen.holds, "data-accepted": seen.accepted, "data-again": rows.filter((row) => holdings.get(row, "again")).length });
  };
  return { left: box.x, middle: place + height / 2, paint };
}

// A strip of cells; past 240 they cannot be distinguished, and become lengths of one bar.
function buildStrip(parent, capacity, x, y, width, marks, kind) {
  const grid = cellGrid(capacity, width);
  if (!grid) return buildBar(parent, capacity, x, y, width, marks, kind);
  const cells = Array.from({ length: capacity }, (_, index) => {
    const cell = new Cell(parent, grid.size, kind, marks);
    cell.move(x + (index % grid.columns) * grid.pitch, y + Math.floor(index / grid.columns) * grid.pitch);
    return cell;
  });
  return (shown) =>
    cells.forEach((cell, index) => {
      const one = shown[index];
      if (one) cell.paint(one.state, one.group, one.again, one.why, one.title);
      else cell.paint("free");
    });
}

function buildBar(parent, capacity, x, y, width, marks, kind) {
  svg("rect", { x, y, width, height: 18, rx: 2, class: `qf-${kind} qf-${kind}-free` }, parent);
  const full = svg("rect", { x, y, width: 0, height: 18, class: `qf-${kind}-full` }, parent);
  const stuck = svg("rect", { x, y, width: 0, height: 18, class: `qf-${kind}-held`, fill: marks.held }, parent);
  return (shown) => {
    const held = shown.filter((one) => one.state === "held").length;
    set(full, { width: (width * Math.min(shown.length, capacity)) / capacity });
    set(stuck, { width: (width * Math.min(held, capacity)) / capacity });
  };
}
