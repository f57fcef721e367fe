"""The configuration experiment without widgets: type a queue as you would, and read what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qflow.configuration.broker_setup import BrokerSetup
from qflow.configuration.explanation import Explanation, explain
from qflow.configuration.flow_words import Effective
from qflow.configuration.reading import read_any
from qflow.configuration.report import report
from qflow.labs.gauge import draw_gauge

EXAMPLE = "orders --max-queue-count 1000 --flow-stop-count 900 --flow-resume-count 500"


@dataclass(frozen=True)
class ConfigPicture:
    """What a queue's configuration comes to.

    Parameters
    ----------
    text
        What was typed.
    explanation
        The declaration, the thresholds in force and the rule behind each, or the broker's refusal.

    Examples
    --------
    >>> print(config_run("orders --max-queue-count 100 --flow-stop-count 5").refusal)
    The broker refuses (542 invalid-argument): Queue "orders": qpid.flow_resume_count=70 must be less or \
equal to qpid.flow_stop_count=5
    """

    text: str
    explanation: Explanation

    @property
    def refusal(self) -> str:
        """The broker's refusal; "" for none."""
        refusal = self.explanation.refusal
        return f"The broker refuses ({refusal.code} {refusal.name}): {refusal.text}" if refusal else ""

    @property
    def claims(self) -> tuple[str, ...]:
        """What the configuration comes to, in sentences; each ends with its rules."""
        explanation = self.explanation
        if explanation.refusal:
            return (self.refusal, *(_ruled(remark.text, remark.rules) for remark in explanation.remarks))
        values = (*explanation.levels, *explanation.limits, *explanation.alerts)
        return (
            _ruled(explanation.flow, explanation.flow_rules),
            *(_ruled(f"{level.name} = {level.value}: {level.why}.", level.rules) for level in values),
            *(_ruled(remark.text, remark.rules) for remark in explanation.remarks),
        )

    @property
    def report(self) -> str:
        """All of it as ``qflow config`` prints it."""
        return report(self.explanation)

    @property
    def svg(self) -> str:
        """A gauge for messages and one for bytes, with every threshold and limit in force, as a drawing."""
        return draw_gauge(self.explanation)

    def values(self) -> dict[str, Effective]:
        """Return every value in force by its name, such as ``stop_count``.

        Examples
        --------
        >>> config_run("orders --max-queue-count 90").values()["stop_count"].value
        72
        """
        explanation = self.explanation
        return {
            value.name: value for value in (*explanation.levels, *explanation.limits, *explanation.alerts)
        }

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_svg_(self) -> str:
        return self.svg


def config_run(text: str = EXAMPLE, *, broker_options: Sequence[str] = ()) -> ConfigPicture:
    """Read a queue's configuration however it is spelled, try it on the engine, and return what comes of it.

    Parameters
    ----------
    text
        Options of ``qpid-config add queue``, an address string, or declare arguments as JSON.
    broker_options
        Options of ``qpidd``, such as ``--default-flow-stop-threshold=90``.

    Returns
    -------
    ConfigPicture
        With a ``refusal`` if the broker refuses; nothing is raised for that.

    Raises
    ------
    ConfigurationError
        If the text cannot be read as what it looks like.
    StartupError
        If the broker does not start with these options.

    Examples
    --------
    >>> config_run().claims[0]
    'Producers are held above 900 messages or 83886080 bytes, and go on below 500 messages and \
73400320 bytes (FC-14, FC-16).'
    """
    return ConfigPicture(text, explain(read_any(text), BrokerSetup.read(list(broker_options), {}, "")))


def _ruled(text: str, rules: Sequence[str]) -> str:
    return f"{text.removesuffix('.')} ({', '.join(rules)})." if rules else text
