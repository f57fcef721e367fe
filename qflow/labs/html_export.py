"""HTML export: a run that can be played offline and without a kernel, as a file or in a cell's output.

The same scripts in ``static``, beside this module, draw a picture in a widget of a notebook
(:class:`qflow.labs.scene.Scene`) and a stored picture. For a stored picture ``stored.js`` answers the
requests that a widget would send to its kernel.
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
"""A script for the body of an exported page: it sets the light or dark theme of the reader's system."""

# The claims come first: they remain visible in a page that runs no scripts.
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

# Within a script element, "<!--<script>" or "</script>" in a name would end the element too early or too
# late; U+2028 and U+2029 end a line.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}

# The builder of the chapters replaces anything in an output that looks like an address, 0x7f21a4, or a
# folder; so these letters of base64 must not occur.
_LETTERS = str.maketrans("+/0", "-_.")


def to_fragment(
    picture: Picture | Comparison,
    place: dict[str, int] | None = None,
    *,
    plays: bool = False,
    states: dict[str, object] | None = None,
    asks: Sequence[dict[str, Any]] = (),
) -> str:
    """Return a run as an HTML fragment that can be played in any page, without a server."""
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
    """Return a still picture of a run's first queue, its depth and ON periods, for pages without scripts."""
    frames = next(iter(pictures_of(shown).values())).frames
    if not frames.topology.queues:
        return ""
    spot, end = frames.topology.queues[0], max(frames.topology.end, 1)
    depths = frames.column(f"queue.{spot.name}.depth")
    deepest = max(depths, default=0)
    scale = 110 / max(1, deepest, spot.stop_count)
    # Each slice of time shows its greatest depth, so that no short ON period is hidden.
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
    """Return the pictures of a run as data for JSON: the frames as compressed text, with their digest."""
    pictures = []
    for payload in payload_of(picture):
        # Compressed again as text, as a stored notebook is JSON, whose cells are compared and tidied as text.
        numbers = zlib.decompress(payload.pop("numbers"))
        digest = hashlib.sha256(numbers).hexdigest()
        pictures.append({**payload, "digest": digest, "numbers": pack_text(numbers)})
    return pictures


def pack_text(numbers: bytes) -> str:
    """Return bytes compressed as text, in letters that never look like a memory address or a folder."""
    return base64.b64encode(zlib.compress(numbers, 9)).decode().translate(_LETTERS)


@cache
def script_element(name: str = "stored.js", folder: Path = STATIC) -> str:
    """Return the HTML element with a module, its imports and the labs' styles, compressed."""
    return _SCRIPTS.format(packed=pack_text(styled_script(name, folder).encode()))


def styled_script(name: str, folder: Path) -> str:
    """Return a module and all that it imports as one script, which also adds the styles of the labs."""
    # Without scripts there are only sentences to show, which need no styles.
    styles = script_json(read_styles(*STYLES))
    sheet = f"Object.assign(document.createElement('style'), {{textContent: {styles}}})"
    return f"document.head.append({sheet});\n{join_script(name, folder)}"


def script_json(value: object) -> str:
    """Return a value as JSON, escaped so that it is safe inside a script element."""
    return json.dumps(value).translate(_ESCAPES)


def to_html(
    picture: Picture | Comparison, title: str = "qflow: a run", place: dict[str, int] | None = None
) -> str:
    """Return a self-contained HTML page that plays a run without a server."""
    return _PAGE.format(title=escape(title), theme=THEME, stored=to_fragment(picture, place))


def save_html(picture: Picture | Comparison, path: str | Path, title: str = "qflow: a run") -> Path:
    """Write a self-contained HTML page that plays a run without a server, and return its path.

    Parameters:
        picture: The run, or several runs side by side.
        path: The file to write; an existing file is replaced.
        title: The title of the page.

    >>> from tempfile import TemporaryDirectory
    >>> from qflow.labs import flow_run
    >>> with TemporaryDirectory() as folder:
    ...     save_html(flow_run(messages=50), Path(folder, "run.html")).name
    'run.html'
    """
    path = Path(path)
    path.write_text(to_html(picture, title), encoding="utf-8")
    return path
