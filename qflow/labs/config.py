"""The configuration experiment: enter the configuration of a queue, and read its effect.

:func:`config_run` reads a configuration in any of the supported notations, declares the queue on the engine,
and returns every effective value with the rule behind it, or the broker's refusal. Limits and thresholds are
drawn as two gauges, one for messages and one for bytes. :mod:`qflow.labs.config_widget` is the lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from qflow.configuration.declaration import BrokerSetup
from qflow.configuration.explanation import Effective, SettingsExplanation, explain
from qflow.configuration.notations import read_any
from qflow.wording import format_thousands

WIDTH, HEIGHT, TOP, BOTTOM = 860, 160, 50, 12
_SCALE = 120
# The style sheet of an inline SVG applies to its whole page; hence the class qfg. In a lab the page's theme
# defines the colours; elsewhere the fallbacks after the commas are used.
_COLORS = {
    "limit": "var(--qf-soft,#57606a)",
    "stop": "var(--qf-stop,#c04c00)",
    "resume": "var(--qf-go,#007a59)",
}
_STYLE = (
    ".qfg text{font:13px sans-serif;fill:var(--qf-soft,#57606a)}"
    ".qfg .t{font-weight:bold;fill:var(--qf-ink,#1c2126);font-size:15px}.qfg .n{font-weight:600}"
    ".qfg .g{fill:none;stroke:var(--qf-soft,#57606a);stroke-width:2.5}"
    ".qfg .h{fill:var(--qf-stop,#c04c00);fill-opacity:.14}.qfg .p{fill:var(--qf-card,#fff)}"
    ".qfg .b{fill:#56b4e9;fill-opacity:.28}.qfg .e{font-size:14px;fill:var(--qf-ink,#1c2126)}"
)


def _draw_gauge(explanation: SettingsExplanation) -> str:
    """Return an SVG document of a queue's limits and thresholds: a gauge for messages and one for bytes."""
    values = {item.name: item.value for item in _in_force(explanation)}
    name = escape(explanation.declaration.name)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="qfg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" role="img">',
        f"<title>Limits and thresholds of {name}</title><style>{_STYLE}</style>",
        f'<rect class="p" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="t" x="24" y="26">{name}</text>',
    ]
    if explanation.refusal:
        parts.append('<text class="e" x="24" y="70">refused: no such queue exists</text>')
    else:
        parts += _scale(values, "count", "messages", 40)
        parts += _scale(values, "size", "bytes", 40 + WIDTH // 2)
    return "\n".join([*parts, "</svg>"])


def _in_force(explanation: SettingsExplanation) -> tuple[Effective, ...]:
    return (*explanation.levels, *explanation.limits, *explanation.alerts)


def _scale(values: dict[str, int], unit: str, noun: str, x: int) -> list[str]:
    keys = {"limit": f"max_{unit}", "stop": f"stop_{unit}", "resume": f"resume_{unit}"}
    marks = {name: values[key] for name, key in keys.items() if values.get(key)}
    floor = HEIGHT - BOTTOM
    parts = [f'<text class="n" x="{x}" y="{TOP - 12}">{noun}</text>']
    glass = f'<rect class="g" x="{x}" y="{TOP}" width="{_SCALE}" height="{floor - TOP}"/>'
    if not marks:
        return [*parts, glass, f'<text x="{x + _SCALE + 16}" y="{TOP + 20}">no limit</text>']
    # Each unit has its own scale, as limits in bytes are thousands of times those in messages.
    top = max(marks.values()) * 1.08
    levels = {name: round(floor - (floor - TOP) * value / top, 1) for name, value in marks.items()}
    if stop := levels.get("stop"):
        # Below the resume threshold flow control is OFF, above the stop threshold it is ON; the state
        # between them depends on which threshold was crossed last.
        low = levels.get("resume", floor)
        parts += [
            f'<rect class="h" x="{x}" y="{TOP}" width="{_SCALE}" height="{stop - TOP:.1f}"/>',
            f'<rect class="b" x="{x}" y="{low}" width="{_SCALE}" height="{floor - low:.1f}"/>',
        ]
    return [*parts, glass, *_labels(marks, levels, x)]


def _labels(marks: dict[str, int], levels: dict[str, float], x: int) -> Iterator[str]:
    """Yield a tick and a label for each level; a label that would overlap the previous one is moved down."""
    free = 0.0
    for name, value in marks.items():
        at, color = levels[name], _COLORS[name]
        label = max(at, free)
        free = label + 18
        dash = ' stroke-dasharray="7 4"' if name == "resume" else ""
        yield (
            f'<path d="M{x - 8},{at}H{x + _SCALE + 8}L{x + _SCALE + 18},{label}" fill="none" '
            f'style="stroke:{color}" stroke-width="2"{dash}/>'
            f'<text class="n" x="{x + _SCALE + 24}" y="{label + 4.5}" '
            f'style="fill:{color}">{name} {format_thousands(value)}</text>'
        )


EXAMPLE = "orders --max-queue-count 1000 --flow-stop-count 900 --flow-resume-count 500"


@dataclass(frozen=True)
class ConfigPicture:
    """The effective configuration of a queue, or the broker's refusal, as a drawing and in sentences."""

    text: str
    explanation: SettingsExplanation

    @property
    def refusal(self) -> str:
        """The broker's refusal as a sentence, or "" if the broker accepts the configuration."""
        refusal = self.explanation.refusal
        return f"The broker refuses ({refusal.code} {refusal.name}): {refusal.text}" if refusal else ""

    @property
    def claims(self) -> tuple[str, ...]:
        """The effective configuration in sentences, each of which ends with the ids of its rules."""
        explanation = self.explanation
        return (
            self.refusal or _with_rules(explanation.flow, explanation.flow_rules),
            *(_with_rules(f"{it.name} = {it.value}: {it.why}.", it.rules) for it in _in_force(explanation)),
            *(_with_rules(remark.text, remark.rules) for remark in explanation.remarks),
        )

    @property
    def svg(self) -> str:
        """An SVG document with gauges of the effective thresholds and limits, in messages and in bytes."""
        return _draw_gauge(self.explanation)

    def values(self) -> dict[str, Effective]:
        """Return the effective values, keyed by names such as ``stop_count``."""
        return {value.name: value for value in _in_force(self.explanation)}

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_svg_(self) -> str:
        return self.svg


def config_run(text: str = EXAMPLE, *, broker_options: Sequence[str] = ()) -> ConfigPicture:
    """Return the effective settings of a queue, whose configuration may be given in any notation.

    Parameters:
        text: Options of ``qpid-config add queue``, an address string, or declare arguments as JSON.
        broker_options: Options of ``qpidd``, such as ``--default-flow-stop-threshold=90``.

    Returns:
        The effective configuration; its ``refusal`` is a sentence if the broker refuses the configuration,
        else "".

    Raises:
        ConfigurationError: If the text is invalid in the notation that it appears to be in.
        StartupError: If the broker does not start with these options.

    >>> config_run().claims[0]
    'Producers are held above 900 messages or 83886080 bytes, and resume below 500 messages and \
73400320 bytes (FC-14, FC-16).'
    """
    return ConfigPicture(text, explain(read_any(text), BrokerSetup.read(list(broker_options), {}, "")))


def _with_rules(text: str, rules: Sequence[str]) -> str:
    return f"{text.removesuffix('.')} ({', '.join(rules)})." if rules else text
