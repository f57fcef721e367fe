"""Scene: the widget that draws pictures, and lets the reader move through them, backwards too.

The browser gets each run once, as numbers; it draws them and decides nothing. What a reader asks of it comes
back as a message, which :class:`qflow.labs.lab.Lab` answers.
"""

from __future__ import annotations

import anywidget
import traitlets

from qflow.labs.html_export import SCRIPTS, STYLES, read_static
from qflow.labs.picture import Comparison, Picture, payload_of


class Scene(anywidget.AnyWidget):
    """The scene of a picture, or of several side by side.

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
        What is drawn: see :func:`qflow.labs.picture.payload_of`.
    refusal
        Text of a banner above the picture; empty for none.
    running, progress
        Number of a run that takes long, and which part of it is done; 0 when none does.
    cancelled
        Number of the run that the reader does not want to wait for any more.
    answer
        To the last question why: see :func:`qflow.labs.lab.why`.
    place
        Where to go: ``time`` in microseconds, and how many steps ``back`` from the last of that time.
    actions
        What a fork can begin with: pairs of key and label.
    offers
        What else can be asked for: ``compare``, ``token``, ``html``; and ``pinned`` while comparing.
    token
        The last token asked for.
    is_live
        Whether questions why are answered.
    cursor
        Microseconds of what is shown now, for charts beside the scene; it stays in the browser, and is -1
        here.
    """

    _esm = read_static(*SCRIPTS)
    _css = read_static(*STYLES)

    run = traitlets.Int(0).tag(sync=True)
    is_whole = traitlets.Bool(True)
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
            The number of its run.
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
