"""The configuration lab: a field for the configuration of a queue, with its effect below the field."""

from __future__ import annotations

import html
from typing import Any

import anywidget
import ipywidgets as widgets

from qflow.broker.errors import StartupError
from qflow.configuration.declaration import ConfigurationError
from qflow.configuration.explanation import Effective
from qflow.labs.config import EXAMPLE, ConfigPicture, config_run
from qflow.labs.lab import AnyLab, button_of
from qflow.labs.scripts import STYLES, read_styles
from qflow.labs.share import Token
from qflow.wording import format_thousands

_HINT = (
    "Options of qpid-config add queue, an address string, or declare arguments as JSON. Leave the field, "
    "with Tab or a click, to try it."
)
_KEPT = "The drawing is that of the last queue that the broker accepted."


class _Dress(anywidget.AnyWidget):
    """An invisible widget that brings the styles of the labs, for a lab without a scene."""

    _esm = "export default { render() {} }"
    _css = read_styles(*STYLES)

    def __repr__(self) -> str:
        return "_Dress()"


class ConfigLab(AnyLab):
    """The widget of the configuration lab: input fields, gauges and claims; see :func:`config_lab`."""

    name = "config"

    def __init__(self, text: str, broker_options: str) -> None:
        self.typed = _field("queue", text, _HINT).add_class("qf-typed")
        tip = "options of qpidd, such as --default-flow-stop-threshold=90"
        self.options = _field("qpidd", broker_options, tip).add_class("qf-options")
        self._refusal = widgets.HTML().add_class("qf-config-refusal")
        self._gauge = widgets.HTML().add_class("qf-gauge")
        self._claims = widgets.HTML().add_class("qf-claims")
        self._button = button_of("share", "A token that opens this configuration elsewhere", "qf-token")
        self._button.on_click(self._share)
        self._token = widgets.Text(disabled=True, layout={"width": "420px", "display": "none"})
        self.picture = config_run(text, broker_options=broker_options.split())
        self._read = (text, broker_options)
        hint = widgets.HTML(f"<small>{html.escape(_HINT)}</small>")
        shared = widgets.Box([self._button, self._token]).add_class("qf-buttons")
        parts = [_Dress(), self.typed, hint, self.options, self._refusal, self._gauge, self._claims, shared]
        super().__init__(parts)
        self.add_class("qflow-lab").add_class("qf-config")
        self._show()
        for field in (self.typed, self.options):
            field.observe(self._on_change, names="value")

    @property
    def settings(self) -> dict[str, Any]:
        """The last valid text and broker options, which are the arguments that reopen the lab."""
        return {"text": self._read[0], "broker_options": self._read[1]}

    def go_to(self, token: Token) -> None:
        """Show the differences between this environment and the one that the token was made in."""
        if token.difference():
            self._refuse(token.difference(), "")

    def _share(self, _: object) -> None:
        self._token.value = self.token()
        self._token.layout.display = None

    def _on_change(self, _: object) -> None:
        kept = "The picture is that of the last"
        try:
            self.picture = config_run(self.typed.value, broker_options=self.options.value.split())
        except ConfigurationError as error:
            self._refuse(f"This cannot be read: {error}", f"{kept} text that could.")
        except StartupError as error:
            self._refuse(f"The broker does not start: {error}", f"{kept} that did.")
        except Exception as error:  # a reader who only typed is never shown a traceback
            self._refuse(f"{type(error).__name__}: {error}", f"{kept} that worked.")
        else:
            self._read = (self.typed.value, self.options.value)
            self._show()

    def _show(self) -> None:
        if self.picture.refusal:
            self._refuse(self.picture.refusal, _KEPT if self._gauge.value else "")
        else:
            self._refusal.value = ""
            self._gauge.value = self.picture.svg
        self._claims.value = _list_claims(self.picture)

    def _refuse(self, text: str, kept: str) -> None:
        kept = f"<br>{html.escape(kept)}" if kept else ""
        self._refusal.value = f'<div class="qf-refused">{html.escape(text)}{kept}</div>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        # A notebook that is viewed without a kernel shows the drawing.
        shown = {"image/svg+xml": self.picture.svg} if self._gauge.value else {}
        return {**bundle, **shown, "text/plain": repr(self)}


def config_lab(text: str = EXAMPLE, *, broker_options: str = "") -> ConfigLab:
    """Open the configuration lab: a queue's effective settings with the rule behind each, or the refusal.

    Parameters:
        text: The initial text: options of ``qpid-config add queue``, an address string, or declare arguments
            as JSON.
        broker_options: Options of ``qpidd``, as on its command line.

    Returns:
        The lab, a widget. :func:`qflow.labs.config_run` returns the same without widgets.

    Raises:
        ConfigurationError: If the text cannot be read.
        StartupError: If the broker does not start with these options.

    >>> lab = config_lab("orders --max-queue-count 90")
    >>> lab.typed.value = '{"qpid.max_count": 200}'
    >>> lab.picture.values()["stop_count"].value
    160
    """
    return ConfigLab(text, broker_options)


def _field(label: str, text: str, tooltip: str) -> widgets.Textarea:
    # A field of the full width would be pushed out of sight by its margins.
    layout = {"width": "auto", "max_width": "1000px"}
    return widgets.Textarea(
        text, description=label, tooltip=tooltip, continuous_update=False, rows=2, layout=layout
    )


def _list_claims(picture: ConfigPicture) -> str:
    explanation, values = picture.explanation, picture.values().values()
    # A refused queue has no values; the refusal itself is shown above the drawing.
    first = () if explanation.refusal else picture.claims[:1]
    said = first + picture.claims[1 + len(values) :]
    items = "".join(f"<li>{html.escape(claim)}</li>" for claim in said)
    rows = "".join(map(_row, values))
    spelled = "".join(
        f"<div><small>{name}</small><pre>{html.escape(text)}</pre></div>"
        for name, text in (("qpid-config", explanation.line), ("address", explanation.address))
        if text
    )
    head = "".join(f"<th>{name}</th>" for name in ("value", "is", "because", "rule"))
    table = (
        f'<table class="qf-values"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        if rows
        else ""
    )
    # Most readers want the table; the same configuration in other notations can be unfolded.
    if table and spelled:
        spelled = f"<details><summary>the same in other spellings</summary>{spelled}</details>"
    return f"<b>What this comes to</b><ul>{items}</ul>{table}{spelled}"


def _row(value: Effective) -> str:
    cells = (format_thousands(value.value), html.escape(value.why), ", ".join(value.rules))
    return f"<tr><th>{value.name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
