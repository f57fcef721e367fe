"""Scene: the widget that draws a picture. Its script and style are files beside this module."""

from __future__ import annotations

from importlib.resources import files

import anywidget
import traitlets

from qflow.labs.picture import Picture

# One idea a file; the browser wants one module, whose last part is the widget itself.
_SCRIPTS = ("svg.js", "timeline.js", "words.js", "tank.js", "stage.js", "plot.js", "transport.js", "scene.js")


def _read(*names: str) -> str:
    folder = files("qflow.labs") / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


class Scene(anywidget.AnyWidget):
    """Draws a picture and lets the learner move through it, backwards too.

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
    refusal
        Text of a banner above the picture; empty for none.
    """

    _esm = _read(*_SCRIPTS)
    _css = _read("scene.css")

    run = traitlets.Int(0).tag(sync=True)
    picture = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Bytes(b"").tag(sync=True)
    refusal = traitlets.Unicode("").tag(sync=True)

    def __init__(self, picture: Picture | None = None) -> None:
        super().__init__()
        if picture is not None:
            self.show(picture, 1)

    def show(self, picture: Picture, run: int) -> bool:
        """Draw a picture, unless a later run is drawn already.

        Parameters
        ----------
        picture
            What to draw.
        run
            Its number, counted by whoever starts runs.

        Returns
        -------
        bool
            Whether it was drawn.
        """
        if run <= self.run:
            return False
        with self.hold_sync():
            self.picture = picture.payload()
            self.numbers = picture.frames.to_bytes()
            self.run = run
        return True

    def __repr__(self) -> str:
        return f"Scene(run={self.run}, frames={self.picture.get('count', 0)})"
