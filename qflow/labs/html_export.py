"""HTML export: a run as one file that plays offline and without a kernel.

The picture is drawn by the scripts beside this module (``static``), whether it is a widget of a notebook
(:class:`qflow.labs.scene.Scene`) or such a page: the page only answers what a widget would ask of its kernel.
"""

from __future__ import annotations

import base64
import json
from html import escape
from importlib.resources import files
from pathlib import Path

from qflow.labs.picture import Comparison, Picture, payload_of

# One idea a file; the browser wants one module, whose last part is the widget itself.
SCRIPTS = (
    *("svg.js", "timeline.js", "spans.js", "track.js", "words.js", "glyphs.js", "marks.js", "flights.js"),
    *("motion.js", "tank.js", "cards.js", "links.js", "stage.js", "plot.js", "player.js", "transport.js"),
    *("why.js", "share.js", "sliders.js", "handles.js", "live.js", "scene.js"),
)
STYLES = ("scene.css", "labs.css", "live.css")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:15px system-ui,sans-serif;margin:24px auto;max-width:1180px;padding:0 12px;background:#fff}}
@media (prefers-color-scheme:dark){{body{{background:#111;color:#e8edf2}}}}
{style}</style></head>
<body><h1>{title}</h1><div id="scene"></div>
<section class="qflow-lab"><b>What this picture shows</b><ul>{claims}</ul></section>
<script id="run" type="application/json">{pictures}</script>
<script type="module">
{script}
const pictures = JSON.parse(document.getElementById("run").textContent);
for (const picture of pictures) {{
  picture.numbers = Uint8Array.from(atob(picture.numbers), (letter) => letter.charCodeAt(0));
}}
// What a widget would ask its kernel is asked of these values; a question why has no answer here.
const values = {{ run: 1, pictures, refusal: "", progress: 0, is_live: false, place: {place},
  plays: {plays} }};
const nothing = () => {{}};
const get = (name) => values[name];
const model = {{ get, set: nothing, save_changes: nothing, send: nothing, on: nothing, off: nothing }};
if (matchMedia("(prefers-color-scheme: dark)").matches) document.body.dataset.jpThemeLight = "false";
render({{ model, el: document.getElementById("scene") }});
</script></body></html>
"""

# Within a script, "<!--<script>" or "</script>" in a name would end or swallow it; two more end a line.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def to_html(
    picture: Picture | Comparison,
    title: str = "qflow: a run",
    place: dict[str, int] | None = None,
    *,
    plays: bool = False,
) -> str:
    """Return a run as one HTML page that plays it, and asks no server for anything.

    Parameters
    ----------
    picture
        The run, or several side by side.
    title
        The page's heading.
    place
        The instant it opens at: ``time`` in microseconds, and steps ``back``; None for the most telling.
    plays
        Whether it plays by itself when it is opened, from the start.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> page = to_html(flow_run(messages=20))
    >>> "http" in page.replace("http://www.w3.org/2000/svg", "")
    False
    """
    pictures = [
        {**payload, "numbers": base64.b64encode(bytes(payload["numbers"])).decode()}  # type: ignore[call-overload]
        for payload in payload_of(picture)
    ]
    return _PAGE.format(
        title=escape(title),
        style=read_static(*STYLES),
        claims="".join(f"<li>{escape(claim)}</li>" for claim in picture.claims),
        pictures=json.dumps(pictures).translate(_ESCAPES),
        script=read_static(*SCRIPTS).replace("export default { render };", ""),
        place=json.dumps(place or {}),
        plays=json.dumps(plays),
    )


def save_html(picture: Picture | Comparison, path: str | Path, title: str = "qflow: a run") -> Path:
    """Write a run as one HTML page, over what the file held, and return its path; see :func:`to_html`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from qflow.labs import flow_run
    >>> with TemporaryDirectory() as folder:
    ...     save_html(flow_run(messages=50), Path(folder, "run.html")).name
    'run.html'
    """
    path = Path(path)
    path.write_text(to_html(picture, title), encoding="utf-8")
    return path


def read_static(*names: str) -> str:
    """Return files of the widget, one after the other."""
    folder = files("qflow.labs") / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
