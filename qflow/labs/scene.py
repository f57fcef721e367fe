"""Scene: the widget that draws pictures. Its script and style are files beside this module."""

from __future__ import annotations

from importlib.resources import files

import anywidget
import traitlets

from qflow.labs.comparison import Comparison
from qflow.labs.layout import layout_of
from qflow.labs.picture import Picture

# One idea a file; the browser wants one module, whose last part is the widget itself.
SCRIPTS = (
    *("svg.js", "packing.js", "timeline.js", "spans.js", "track.js", "words.js", "glyphs.js"),
    *("tank.js", "cards.js", "links.js", "stage.js", "plot.js", "player.js", "transport.js"),
    *("why.js", "share.js", "sliders.js", "scene.js"),
)

STYLES = ("scene.css", "labs.css")


def read_static(*names: str) -> str:
    """Return files of the widget, one after the other."""
    folder = files("qflow.labs") / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def payload_of(shown: Picture | Comparison) -> list[dict[str, object]]:
    """Return all that the browser needs of one picture or several.

    Parameters
    ----------
    shown
        What is to be drawn.

    Returns
    -------
    list of dict
        JSON but for ``numbers`` and ``spans``, which are bytes.
    """
    pictures = shown.pictures if isinstance(shown, Comparison) else {"": shown}
    return [
        {
            **picture.payload(),
            "name": name,
            "layout": layout_of(picture.frames.topology),
        }
        for name, picture in pictures.items()
    ]


class Scene(anywidget.AnyWidget):
    """Draws pictures and lets the learner move through them, backwards too.

    The browser is sent each run once, as numbers; it draws them and decides nothing.

    Parameters
    ----------
    picture
        What to draw first; None draws nothing yet.

    Attributes
    ----------
    run
        Number of the run that is drawn. It only grows: a run that took longer than a later one is
        never drawn over it.
    is_whole
        Whether that run has ended; if not, the picture shows its beginning, and the whole one follows.
    pictures
        What is drawn: see :func:`payload_of`.
    refusal
        Text of a banner above the picture; empty for none.
    running, progress
        Number of a run that takes long, and which part of it is done; 0 when none does.
    cancelled
        Number of the run that the learner does not want to wait for any more.
    answer
        To the last question why: see :func:`qflow.labs.why.why`.
    place
        Where to go: ``time`` in microseconds, and how many steps ``back`` from the last of that time.
    actions
        What a fork can begin with: pairs of key and label.
    offers
        What else can be asked for: ``compare``, ``token``, ``html``; and ``pinned`` while comparing.
    token
        The last token asked for.
    is_live
        Whether anybody answers questions.
    cursor
        Microseconds of what is shown now, for charts beside the scene; it stays in the browser, and is -1
        here.
    """

    _esm = read_static(*SCRIPTS)
    _css = read_static(*STYLES)

    run = traitlets.Int(0).tag(sync=True)
    is_whole = traitlets.Bool(True).tag(sync=True)
    pictures = traitlets.List().tag(sync=True)
    refusal = traitlets.Unicode("").tag(sync=True)
    running = traitlets.Int(0).tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)
    cancelled = traitlets.Int(0).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)
    actions = traitlets.List().tag(sync=True)
    offers = traitlets.List().tag(sync=True)
    token = traitlets.Unicode("").tag(sync=True)
    is_live = traitlets.Bool(True).tag(sync=True)
    cursor = traitlets.Int(-1).tag(sync=True)

    def __init__(self, picture: Picture | Comparison | None = None) -> None:
        super().__init__()
        if picture is not None:
            self.show(picture, 1)

    def show(self, picture: Picture | Comparison, run: int, *, is_whole: bool = True) -> bool:
        """Draw a picture, unless a later run is drawn already, or this one as a whole.

        Parameters
        ----------
        picture
            What to draw.
        run
            Its number, counted by whoever starts runs.
        is_whole
            Whether the run has ended.

        Returns
        -------
        bool
            Whether it was drawn.
        """
        if run < self.run or (run == self.run and self.is_whole):
            return False
        with self.hold_sync():
            self.pictures = payload_of(picture)
            self.is_whole, self.run = is_whole, run
        return True

    @property
    def numbers(self) -> bytes:
        """The numbers of the first picture, as they are sent."""
        return bytes(self.pictures[0]["numbers"]) if self.pictures else b""

    def __repr__(self) -> str:
        counts = ", ".join(str(picture["count"]) for picture in self.pictures) or "0"
        return f"Scene(run={self.run}, frames={counts})"
