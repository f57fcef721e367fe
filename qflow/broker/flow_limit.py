"""QueueFlowLimit: thresholds, hysteresis, and the transfers a stopped queue holds (FC).

Lay it beside ``QueueFlowLimit.cpp``.  It watches a queue like any other observer; the queue does
not know that it exists.
"""

from __future__ import annotations

from dataclasses import dataclass

from qflow.broker.context import BrokerContext
from qflow.broker.errors import InvalidArgumentException
from qflow.broker.flow_state import FlowState
from qflow.broker.options import BrokerOptions
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.settings import QueueSettings
from qflow.broker.transfer import Transfer


@dataclass(frozen=True, slots=True)
class FlowThresholds:
    """The four levels of one queue; 0 means that this level does not take part.

    Examples
    --------
    >>> settings = QueueSettings.from_arguments({"qpid.max_count": 90, "qpid.max_size": 0})
    >>> FlowThresholds.of("orders", settings, BrokerOptions())      # FC-04: 62, not 63
    FlowThresholds(stop_count=72, resume_count=62, stop_size=0, resume_size=0)
    """

    stop_count: int
    resume_count: int
    stop_size: int
    resume_size: int

    @classmethod
    def of(cls, queue: str, settings: QueueSettings, options: BrokerOptions) -> FlowThresholds | None:
        """Work out the thresholds of a queue as the broker does when it is created (FC-02).

        Parameters
        ----------
        queue : str
            The queue's name, for the refusal's text.
        settings : QueueSettings
            What the queue is declared with.
        options : BrokerOptions
            What the broker was started with.

        Returns
        -------
        FlowThresholds or None
            None when the queue has no flow control: policy ring (FC-03) or both stops 0 (FC-08).

        Raises
        ------
        InvalidArgumentException
            542: resume above stop, or stop above the limit (FC-05), defaults included (FC-07).
        """
        if settings.policy == "ring":
            return None
        max_size = effective_max_size(settings, options)
        stop_count = _first_given(settings.flow_stop_count, _stop_default(settings.max_count, options))
        stop_size = _first_given(settings.flow_stop_size, _stop_default(max_size, options))
        resume_count = _first_given(settings.flow_resume_count, _resume_default(settings.max_count, options))
        resume_size = _first_given(settings.flow_resume_size, _resume_default(max_size, options))
        if not stop_count and not stop_size:
            return None
        resume_count = _validated(queue, "count", stop_count, resume_count, settings.max_count)
        resume_size = _validated(queue, "size", stop_size, resume_size, max_size)
        return cls(stop_count, resume_count, stop_size, resume_size)


class QueueFlowLimit(FlowState):
    """Turns ON above a stop threshold, OFF below both resume thresholds, and holds in between.

    Parameters
    ----------
    context : BrokerContext
        Where events go.
    queue : str
        Name of the queue it watches; held transfers are held by that name.
    thresholds : FlowThresholds
        Fixed for the life of the queue (FC-12).
    """

    __slots__ = ("thresholds", "held")

    def __init__(self, context: BrokerContext, queue: str, thresholds: FlowThresholds) -> None:
        super().__init__(context, queue)
        self.thresholds = thresholds
        self.held: dict[int, Transfer] = {}

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message, perhaps turn ON, and hold its transfer while ON (FC-14, FC-15)."""
        self.add(message)
        if not self.stopped and self._above_stop():
            self.turn_on()
        if self.stopped:
            self.held[message.position] = message.transfer
            self.hold(message.transfer)

    def dequeued(self, message: QueuedMessage) -> None:
        """Un-count the message, perhaps turn OFF, and release what that frees (FC-16, FC-17)."""
        self.subtract(message)
        if not self.stopped:
            return
        if self._below_resume():
            self.turn_off()
            held, self.held = self.held, {}
            for transfer in held.values():
                self.let_go(transfer)
        else:
            own = self.held.pop(message.position, None)
            if own is not None:
                self.let_go(own)

    def _above_stop(self) -> bool:
        stops = self.thresholds
        return bool(stops.stop_count and self.count > stops.stop_count) or bool(
            stops.stop_size and self.size > stops.stop_size
        )

    def _below_resume(self) -> bool:
        resumes = self.thresholds
        return (not resumes.resume_size or self.size < resumes.resume_size) and (
            not resumes.resume_count or self.count < resumes.resume_count
        )


def effective_max_size(settings: QueueSettings, options: BrokerOptions) -> int:
    """Return the byte limit in force: the declared one, 0 included, else the broker's (LP-01)."""
    return options.default_queue_limit if settings.max_size is None else settings.max_size


def _first_given(given: int | None, default: int) -> int:
    return default if given is None else given


def _stop_default(maximum: int, options: BrokerOptions) -> int:
    """Round half up, in doubles as the broker does (FC-02.4)."""
    return int(maximum * (options.default_flow_stop_threshold / 100.0) + 0.5)


def _resume_default(maximum: int, options: BrokerOptions) -> int:
    """Truncate, in doubles: 70 % of 90 is 62 because 0.7 is not exact (FC-04)."""
    return int(maximum * (options.default_flow_resume_threshold / 100.0))


def _validated(queue: str, unit: str, stop: int, resume: int, maximum: int) -> int:
    """Check one unit and return its resume threshold in force (FC-05)."""
    if not stop:
        return resume
    if resume > stop:
        raise InvalidArgumentException(
            f'Queue "{queue}": qpid.flow_resume_{unit}={resume} must be less or equal to '
            f"qpid.flow_stop_{unit}={stop}"
        )
    if maximum and maximum < stop:
        raise InvalidArgumentException(
            f'Queue "{queue}": qpid.flow_stop_{unit}={stop} must be less than qpid.max_{unit}={maximum}'
        )
    return resume or stop
