"""HTML export: a run as one file that plays offline and without a kernel, by the same scripts."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from pathlib import Path
from typing import Any

from qflow.labs.picture import Comparison, Picture

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:15px system-ui,sans-serif;margin:24px auto;max-width:1180px;padding:0 12px;background:#fff}}
@media (prefers-color-scheme:dark){{body{{background:#111;color:#e8edf2}}}}
{style}</style></head>
<body><h1>{title}</h1><div id="scene"></div>
<section class="qflow-lab"><b>What this picture shows</b><ul>{claims}</ul></section>
<script id="run" type="application/json">{payload}</script>
<script type="module">
{script}
const unpack = async (text) => {{
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new DataView(await new Response(stream).arrayBuffer());
}};
const pictures = JSON.parse(document.getElementById("run").textContent);
for (const picture of pictures) {{
  picture.numbers = await unpack(picture.numbers);
  picture.spans = await unpack(picture.spans);
}}
// What a widget would ask its kernel is asked of these values; there is nobody to answer a question.
const values = {{ run: 1, pictures, refusal: "", progress: 0, is_live: false, place: {place} }};
const nothing = () => {{}};
const get = (name) => values[name];
const model = {{ get, set: nothing, save_changes: nothing, send: nothing, on: nothing, off: nothing }};
if (matchMedia("(prefers-color-scheme: dark)").matches) document.body.dataset.jpThemeLight = "false";
render({{ model, el: document.getElementById("scene") }});
</script></body></html>
"""


def to_html(
    picture: Picture | Comparison, title: str = "qflow: a run", place: dict[str, int] | None = None
) -> str:
    """Return a run as one HTML page that plays it.

    Parameters
    ----------
    picture
        The run, or several side by side.
    title
        The page's heading.
    place
        The instant it opens at: ``time`` in microseconds, and steps ``back``; None for the most telling.

    Returns
    -------
    str
        It asks nobody for anything, and needs no kernel; questions why need one.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> page = to_html(flow_run(messages=20))
    >>> "http" in page.replace("http://www.w3.org/2000/svg", "")
    False
    """
    from qflow.labs.scene import SCRIPTS, STYLES, payload_of, read_static

    script = read_static(*SCRIPTS).replace("export default { render };", "")
    pictures = [_packed(payload) for payload in payload_of(picture)]
    claims = "".join(f"<li>{escape(claim)}</li>" for claim in picture.claims)
    return _PAGE.format(
        title=escape(title),
        style=read_static(*STYLES),
        claims=claims,
        # A "</script>" in a name would end the script there.
        payload=json.dumps(pictures).replace("</", "<\\/"),
        script=script,
        place=json.dumps(place or {}),
    )


def save_html(picture: Picture | Comparison, path: str | Path, title: str = "qflow: a run") -> Path:
    """Write a run as one HTML page; see :func:`to_html`.

    Parameters
    ----------
    picture
        What was run.
    path
        The file; what it held is replaced.
    title
        The page's.

    Returns
    -------
    Path
        Where it is.

    Raises
    ------
    OSError
        If the file cannot be written.

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


def _packed(payload: dict[str, Any]) -> dict[str, Any]:
    packed = {
        name: base64.b64encode(zlib.compress(payload[name], 9)).decode() for name in ("numbers", "spans")
    }
    return {**payload, **packed}
