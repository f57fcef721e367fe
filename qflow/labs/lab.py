"""Lab: a picture on the screen, with the sentences that say what it shows."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from qflow.labs.buttons import Buttons
from qflow.labs.comparison import Comparison
from qflow.labs.picture import Picture
from qflow.labs.scene import Scene
from qflow.labs.share import LABS, Token, TokenError
from qflow.labs.why import Why

if TYPE_CHECKING:
    from qflow.labs.chart import Chart
    from qflow.labs.linked import LinkedChart


class Lab(widgets.VBox):
    """A picture, or several side by side, and its claims, one above the other.

    Parameters
    ----------
    picture
        What to show first.
    controls
        Widgets above the picture.

    Attributes
    ----------
    picture
        What is shown.
    scene
        The widget that draws it.
    """

    def __init__(self, picture: Picture | Comparison, controls: Sequence[widgets.Widget] = ()) -> None:
        self.picture = picture
        self._alone: Picture | Comparison | None = None
        # A comparison of nothing is what a lab shows that is still at work: its scene stays empty.
        is_empty = isinstance(picture, Comparison) and not picture.pictures
        self.scene = Scene(None if is_empty else picture)
        self.why = Why(self.scene, lambda: self.picture)
        self._text = widgets.HTML(_listed(picture.claims)).add_class("qf-claims")
        self._charts: list[LinkedChart] = []
        super().__init__([*controls, self.scene, self._text])
        self.add_class("qflow-lab")
        self._buttons = Buttons(self)
        self.scene.is_live = self.can_explain

    @property
    def claims(self) -> tuple[str, ...]:
        """What the picture shows, in sentences."""
        return self.picture.claims

    @property
    def first(self) -> Picture:
        """The picture, or of several the last: the one that changes."""
        if isinstance(self.picture, Comparison):
            return list(self.picture.pictures.values())[-1]
        return self.picture

    def show(self, picture: Picture | Comparison, run: int) -> bool:
        """Show another picture, unless a later run is shown already.

        Parameters
        ----------
        picture
            What to show.
        run
            Its number, counted by whoever starts runs.

        Returns
        -------
        bool
            Whether it is shown.
        """
        if not self.scene.show(picture, run):
            return False
        self.picture = picture
        self._text.value = _listed(picture.claims)
        for chart in self._charts:
            chart.show(picture)
        if hasattr(self, "_buttons"):
            self._buttons.offer()
        return True

    def chart(self, make: Callable[..., Chart], **options: Any) -> LinkedChart:
        """Return a chart of what is shown, linked to the scene's cursor.

        Parameters
        ----------
        make
            Which chart: a function of a picture, such as :func:`qflow.labs.held_chart`.
        **options
            Its further arguments, such as ``queue``.

        Returns
        -------
        LinkedChart
            A widget. Its line is where the scene is, a click in it moves the scene, and every later run
            of the lab is drawn in it too; of several runs side by side, the last.

        Examples
        --------
        >>> from qflow.labs import capacity_lab, held_chart
        >>> lab = capacity_lab(messages=60, stop=20, resume=10)
        >>> chart = lab.chart(held_chart)
        >>> lab.sliders["capacity"].value = 2
        >>> print(chart)
        At most 2 completions of p1 were held at once.
        At most 2 completions of p2 were held at once.
        At most 2 completions of p3 were held at once.
        """
        from qflow.labs.linked import LinkedChart

        chart = LinkedChart(make, self.first, self.scene, **options)
        self._charts.append(chart)
        return chart

    def tell(self, claims: Sequence[str]) -> None:
        """Say something else below the picture."""
        self.picture = replace(self.picture, claims=tuple(claims))
        self._text.value = _listed(claims)

    # What the scene's buttons ask for

    can_explain = True
    """Whether the engine can be asked why: it needs the whole run, from its broker's start."""

    name = ""
    """What opens this lab again: a key of :data:`qflow.labs.share.LABS`, or "" if nothing does."""

    @property
    def settings(self) -> dict[str, Any]:
        """What it was opened with, and what was set since: the arguments that open it again."""
        return {}

    @property
    def can_share(self) -> bool:
        """Whether a token can open this lab elsewhere."""
        return self.name in LABS

    def token(self, time: int, back: int) -> str:
        """Return a token of an instant; see :mod:`qflow.labs.share`.

        Parameters
        ----------
        time, back
            Microseconds, and how many steps back from the last of that time.

        Raises
        ------
        TokenError
            If no token can open this lab.
        """
        if not self.can_share:
            raise TokenError("no token can open this lab")
        return Token(self.name, self.settings, time, back).text()

    def opened(self, token: Token) -> None:
        """Go to a token's instant, and say what is not as it was where the token was made."""
        self.scene.place = {"time": token.time, "back": token.back}
        self.scene.refusal = token.difference()

    @property
    def can_compare(self) -> bool:
        """Whether there is something to end: two runs side by side."""
        return isinstance(self.picture, Comparison) and self._alone is not None

    def show_beside(self, both: Comparison) -> None:
        """Show a run with another course of events beside it, until the comparison is ended."""
        self._alone = self.picture
        self.show(both, self.scene.run + 1)

    def compare(self) -> None:
        """End the comparison."""
        if self._alone is not None:
            alone, self._alone = self._alone, None
            self.show(alone, self.scene.run + 1)

    def close(self) -> None:
        """Free everything the lab used: its widgets, here and in the browser, and its run."""
        if hasattr(self, "_buttons"):  # a lab whose first run is refused never comes so far
            while self._charts:
                self._charts.pop().close()
            self.why.close()
            self._buttons.close()
        self.picture = Comparison({}, ())
        self._alone = None
        close_parts(self)
        super().close()

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        # ipywidgets would cut the text short, and it is all that a reader without a kernel gets.
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/plain": repr(self)}


def close_parts(widget: widgets.Widget) -> None:
    """Close every widget that another one consists of, and theirs; ipywidgets leaves them all behind."""
    for child in getattr(widget, "children", ()):
        close_parts(child)
        child.close()
    for name in ("layout", "style"):
        part = getattr(widget, name, None)
        if isinstance(part, widgets.Widget):
            part.close()


def _listed(claims: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(claim)}</li>" for claim in claims)
    return f"<b>What this picture shows</b><ul>{items}</ul>"
