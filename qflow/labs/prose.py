"""Prose: sentences beside a lab whose numbers are the lab's own.

A number in the text is a handle: it is dragged sideways, or moved with the arrow keys, and the picture
follows; a term that is pointed at lights its marks up in the picture, and the other way round. Both are drawn
in the browser (``static/prose.js``), which asks the lab's scene what a handle on the picture would ask.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from qflow.kit import RefusalError
from qflow.labs.html_export import STYLES, read_static
from qflow.labs.scene import Scene

_PART = re.compile(r"\{(\w+)\}|\[([^\]]+)\]\((\w+:[\w.-]+)\)")
"""A number, ``{stop}``; or a term with what it names in the picture, ``[the gate](queue:orders)``."""


class Prose(anywidget.AnyWidget):
    """Sentences with numbers that can be dragged, and terms that light up; see :meth:`.SliderLab.prose`."""

    _esm = read_static("svg.js", "prose.js")
    _css = read_static(*STYLES)

    # Texts, [setting] and [term, subject], in their order.
    parts = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    # Least, most and step of each number.
    bounds = traitlets.Dict().tag(sync=True)
    scene = traitlets.Instance(Scene).tag(sync=True, **widgets.widget_serialization)
    _sliders: Mapping[str, widgets.IntSlider] = {}

    def __init__(self, text: str, sliders: Mapping[str, widgets.IntSlider], scene: Scene) -> None:
        parts = list(_parts_of(text))
        named = {part[0]: None for part in parts if isinstance(part, list) and len(part) == 1}
        if unknown := sorted(set(named) - set(sliders)):
            raise RefusalError(f"this lab has no handle {unknown[0]!r}; it has {', '.join(sliders)}")
        bounds = {name: [sliders[name].min, sliders[name].max, sliders[name].step] for name in named}
        super().__init__(parts=parts, bounds=bounds, scene=scene)
        self._sliders = {name: sliders[name] for name in named}
        for slider in self._sliders.values():
            slider.observe(self._follow, names="value")
        self._follow(None)

    def _follow(self, _: object) -> None:
        self.values = {name: slider.value for name, slider in self._sliders.items()}

    def close(self) -> None:
        """Free the widget; the lab goes on."""
        # What is refused has no sliders, and Python closes what it collects once more.
        sliders, self._sliders = self._sliders, {}
        for slider in sliders.values():
            slider.unobserve(self._follow, names="value")
        super().close()

    def _text(self, number: Callable[[str], str], term: Callable[[str], str]) -> str:
        def say(part: str | list[str]) -> str:
            if isinstance(part, str):
                return term(part)
            return term(part[0]) if len(part) > 1 else number(str(self.values[part[0]]))

        return "".join(map(say, self.parts))

    def __repr__(self) -> str:
        return self._text(str, str)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # Without a kernel it is a text to read.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        text = self._text("<b>{}</b>".format, html.escape)
        return {**data, "text/html": f"<p>{text}</p>", "text/plain": repr(self)}, metadata


def _parts_of(text: str) -> Iterator[str | list[str]]:
    """Yield a text in parts."""
    end = 0
    for found in _PART.finditer(text):
        yield text[end : found.start()]
        setting, term, subject = found.groups()
        yield [setting] if setting else [term, subject]
        end = found.end()
    yield text[end:]
