"""HTML export: a run that plays offline and without a kernel, as a file or in the output of a cell.

The picture is drawn by the scripts beside this module (``static``), whether it is a widget of a notebook
(:class:`qflow.labs.scene.Scene`) or stored: then ``stored.js`` answers what a widget would ask of its kernel.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from qflow.labs.picture import Comparison, Picture, payload_of, pictures_of
from qflow.labs.scripts import STATIC, STYLES, join_script, read_styles

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:15px system-ui,sans-serif;margin:24px auto;max-width:1180px;padding:0 12px;background:#fff}}
@media (prefers-color-scheme:dark){{body{{background:#111;color:#e8edf2}}}}</style></head>
<body><h1>{title}</h1>
<script>{theme}</script>
{stored}
</body></html>
"""

THEME = (
    'const dark = matchMedia("(prefers-color-scheme: dark)");'
    "(dark.onchange = () => { document.body.dataset.jpThemeLight = String(!dark.matches); })();"
)
"""A script in the body of a page of ours: scenes are as light or as dark as the reader's system."""

# The sentences come first: they remain where a page runs no script.
_STORED = (
    '<div class="qflow-stored">\n'
    '<div class="qflow-lab"><b>{title}</b><ul>{claims}</ul></div>{still}\n'
    '<script type="application/json" class="qf-run">{run}</script>\n{scripts}\n'
    "<script>globalThis.qflowShow?.();</script>\n</div>"
)

_SCRIPTS = """<script class="qf-scripts">(async (text) => {{
const plain = text.replace(/[-_.]/g, (letter) => ({{ "-": "+", _: "/", ".": "0" }})[letter]);
const bytes = Uint8Array.from(atob(plain), (letter) => letter.charCodeAt(0));
const scripts = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const script = document.createElement("script");
script.textContent = await new Response(scripts).text();
document.head.append(script);
}})("{packed}");</script>"""

# Within a script, "<!--<script>" or "</script>" in a name would end or swallow it; two more end a line.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}

# An output's text is tidied of what looks like an address, 0x7f21a4, or a folder of a machine.
_LETTERS = str.maketrans("+/0", "-_.")


def to_fragment(
    picture: Picture | Comparison,
    place: dict[str, int] | None = None,
    *,
    plays: bool = False,
    states: dict[str, object] | None = None,
    asks: Sequence[dict[str, Any]] = (),
) -> str:
    """Return a run as an HTML fragment that plays in any page, without a server."""
    run = {"place": place or {}, "plays": plays, "pictures": picture_data(picture)}
    if states is not None:
        run["states"] = states
    if asks:
        run["asks"] = list(asks)
    claims = [asked["asking"]["question"] for asked in asks] or picture.claims
    return _STORED.format(
        title="What this picture asks" if asks else "What this picture shows",
        claims="".join(f"<li>{escape(claim)}</li>" for claim in claims),
        run=script_json(run),
        scripts=script_element(),
        still=draw_still(picture),
    )


_SLICES = 240

_STILL = (
    "<noscript><p>The picture, standing still: messages on {name} over time, at most "
    '{deepest}; flow control is ON {on}.</p><svg viewBox="0 0 740 140" width="740" role="img" '
    'aria-label="The depth of {name} over time">{marks}'
    '<path d="M10,10V130H730" fill="none" stroke="#57606a"/>'
    '<path d="M{line}" fill="none" stroke="#0072b2" stroke-width="2"/></svg></noscript>'
)


def draw_still(shown: Picture | Comparison) -> str:
    """Return the depth of a run's first queue with its times ON, for pages without scripts."""
    frames = next(iter(pictures_of(shown).values())).frames
    if not frames.topology.queues:
        return ""
    spot, end = frames.topology.queues[0], max(frames.topology.end, 1)
    depths = frames.column(f"queue.{spot.name}.depth")
    deepest = max(depths, default=0)
    scale = 110 / max(1, deepest, spot.stop_count)
    # A queue is as deep as it gets in each slice of time: no turn ON is hidden.
    slices: dict[int, int] = {}
    for time, depth in zip(frames.column("time"), depths, strict=True):
        at = _SLICES * time // end
        slices[at] = max(depth, slices.get(at, 0))
    line = " ".join(f"{10 + 3 * at},{130 - scale * depth:.0f}" for at, depth in slices.items())
    spans = frames.spans(f"queue.{spot.name}.flow")
    bands = [(10 + 720 * start // end, max(1, 720 * (to - start) // end)) for start, to in spans]
    marks = [f'<rect x="{x}" y="10" width="{wide}" height="120" fill="#fbe3d3"/>' for x, wide in bands]
    for level, colour in ((spot.stop_count, "#c04c00"), (spot.resume_count, "#007a59")):
        y = 130 - scale * level
        if level and y >= 10:
            marks.append(f'<path d="M10,{y:.0f}H730" stroke="{colour}" stroke-dasharray="7 4"/>')
    on = f"in {len(spans)} coloured spans" if spans else "at no time"
    return _STILL.format(name=escape(spot.name), deepest=deepest, on=on, marks="".join(marks), line=line)


def picture_data(picture: Picture | Comparison) -> list[dict[str, Any]]:
    """Return a run as JSON for the browser: its numbers as text, beside their digest."""
    pictures = []
    for payload in payload_of(picture):
        # Packed anew as text: a stored notebook is JSON, and its cells are compared and tidied as text.
        numbers = zlib.decompress(payload.pop("numbers"))
        digest = hashlib.sha256(numbers).hexdigest()
        pictures.append({**payload, "digest": digest, "numbers": pack_text(numbers)})
    return pictures


def pack_text(numbers: bytes) -> str:
    """Return bytes as text, deflated, in letters that no tidying of outputs mistakes for an address or id."""
    return base64.b64encode(zlib.compress(numbers, 9)).decode().translate(_LETTERS)


@cache
def script_element(name: str = "stored.js", folder: Path = STATIC) -> str:
    """Return the element with all scripts and styles that draw stored runs, or with a page's own module."""
    return _SCRIPTS.format(packed=pack_text(styled_script(name, folder).encode()))


def styled_script(name: str, folder: Path) -> str:
    """Return a module, and all that it imports, as a script that brings the styles of labs."""
    # Styles travel with the script: where no script runs, the sentences are shown without them.
    styles = script_json(read_styles(*STYLES))
    sheet = f"Object.assign(document.createElement('style'), {{textContent: {styles}}})"
    return f"document.head.append({sheet});\n{join_script(name, folder)}"


def script_json(value: object) -> str:
    """Return JSON that neither ends its enclosing script nor begins another."""
    return json.dumps(value).translate(_ESCAPES)


def to_html(
    picture: Picture | Comparison, title: str = "qflow: a run", place: dict[str, int] | None = None
) -> str:
    """Return a run as one HTML page that plays it without a server."""
    return _PAGE.format(title=escape(title), theme=THEME, stored=to_fragment(picture, place))


def save_html(picture: Picture | Comparison, path: str | Path, title: str = "qflow: a run") -> Path:
    """Write a run as one HTML page, replacing the file, and return its path; see :func:`to_html`.

    >>> from tempfile import TemporaryDirectory
    >>> from qflow.labs import flow_run
    >>> with TemporaryDirectory() as folder:
    ...     save_html(flow_run(messages=50), Path(folder, "run.html")).name
    'run.html'
    """
    path = Path(path)
    path.write_text(to_html(picture, title), encoding="utf-8")
    return path
