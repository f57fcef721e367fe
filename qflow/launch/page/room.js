// Room: the additional script of a page in a class. It reports each guess, and each check of an exercise, to the
// teacher's laptop, which serves the page. What cannot be reported now is reported later. If the class is held, a
// guess waits until the teacher opens the question; then its page continues.

const [EVERY, AT_ONCE, GIVEN_UP] = [2000, 10, 5];
const outbox = [];
const waiting = new Map();
let [isHeld, isReporting, failures, refused] = [false, false, 0, ""];

// Session cookies: all tabs of a browser have the same seat, until the browser is closed.
const cookie = (name) => decodeURIComponent(document.cookie.match(`(?:^|; )qflow-${name}=([^;]*)`)?.[1] ?? "");
const setCookie = (name, value) =>
  // biome-ignore lint/suspicious/noDocumentCookie: it is read at once, and Cookie Store is not in every browser
  (document.cookie = `qflow-${name}=${encodeURIComponent(value)}; path=/; SameSite=Strict`);
if (!cookie("seat"))
  setCookie(
    "seat",
    Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join(""),
  );

// In a shadow DOM, so that the styles of the page do not apply to this bar.
const bar = document.createElement("aside");
bar.attachShadow({ mode: "open" }).innerHTML = `<style>
  form {
    align-items: center; background: Canvas; border: 1px solid GrayText; border-radius: 8px; bottom: 10px;
    color: CanvasText; display: flex; flex-wrap: wrap; font: 14px system-ui, sans-serif; gap: 4px 10px;
    max-width: calc(100vw - 44px); padding: 5px 10px; position: fixed; right: 10px; z-index: 1000;
  }
  input { font: inherit; width: 11em; } b:empty { display: none; }
</style><form aria-label="Class"><label>in class as <input maxlength="40"></label><b role="status"></b></form>`;
const [form, field, status] = ["form", "input", "b"].map((name) => bar.shadowRoot.querySelector(name));
field.value = cookie("name");
field.addEventListener("input", () => setCookie("name", field.value));
form.addEventListener("submit", (event) => event.preventDefault());

async function report() {
  if (isReporting) return;
  isReporting = true;
  const said = outbox.slice(0, AT_ONCE);
  const of = (type) => said.filter((each) => each.type === type).map((each) => each.detail);
  const told = {
    who: cookie("seat"),
    name: cookie("name"),
    page: location.pathname,
    guesses: of("qflow-prediction"),
    checks: of("qflow-exercise"),
  };
  const body = JSON.stringify(told, (_, value) => value ?? undefined);
  try {
    const answer = await fetch("/class/said", { method: "POST", body, signal: AbortSignal.timeout(5000) });
    const content = await answer.json();
    [failures, refused] = [0, answer.ok ? "" : content.error];
    outbox.splice(0, said.length);
    // A page without a seat is not held.
    heed(answer.ok ? content : { held: false });
  } catch {
    failures += 1;
    if (failures === GIVEN_UP || !isHeld) heed({ held: false });
  }
  isReporting = false;
  status.textContent =
    failures > 1
      ? "The class cannot be reached. What you say is kept."
      : isHeld && waiting.size
        ? "It goes on when your teacher says go."
        : refused;
  if (outbox.length && !failures) report();
}

function heed({ seat, held, open, room = {} }) {
  isHeld = held;
  if (seat) field.placeholder = `seat ${seat}, or your name`;
  for (const [id, goOn] of waiting) {
    if (held && !open.includes(id)) continue;
    waiting.delete(id);
    goOn();
  }
  // Pass on the guesses of the others, which the page shows beside the reader's own guess.
  for (const [id, answers] of Object.entries(room))
    document.dispatchEvent(new CustomEvent("qflow-room", { detail: { id, answers } }));
}

function hear(event) {
  const { goOn, ...detail } = event.detail;
  outbox.push({ type: event.type, detail: { ...detail, message: detail.message?.slice(0, 2000), at: Date.now() } });
  // Only the teacher's laptop knows whether the class is held now: the run continues after its answer.
  if (goOn) {
    event.preventDefault();
    waiting.set(detail.id, goOn);
  }
  report();
}

// Report that the reader has left the page; if another page of the book follows, that one reports at once.
addEventListener("pagehide", () => {
  const nothing = { name: cookie("name"), page: location.pathname, guesses: [], checks: [] };
  navigator.sendBeacon("/class/said", JSON.stringify({ ...nothing, who: cookie("seat"), left: true }));
});
for (const name of ["qflow-prediction", "qflow-exercise"]) document.addEventListener(name, hear);
document.body.append(bar);
setInterval(report, EVERY);
report();
