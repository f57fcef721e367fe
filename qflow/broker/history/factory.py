"""Choosing a queue's flow control: what shipped, or one of the alternatives (ALT-01 … ALT-05)."""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.errors import InvalidArgumentException
from qflow.broker.flow_limit import FlowThresholds, QueueFlowLimit
from qflow.broker.flow_state import FlowState
from qflow.broker.history.java_capacity import JavaCapacity
from qflow.broker.history.watermarks import WatermarkLimit
from qflow.broker.options import FLOW_CONTROLS
from qflow.broker.settings import QueueSettings

ARGUMENT = "qflow.flow_control"


def make_flow_control(
    context: BrokerContext, queue: str, settings: QueueSettings, thresholds: FlowThresholds | None
) -> FlowState | None:
    """Return the flow control of a queue, or None.

    ``pre-feature`` and ``overflow-list`` have none on the queue; the Java broker knows bytes only,
    so a queue without byte thresholds has none there either.

    Raises
    ------
    InvalidArgumentException
        542, for an unknown kind.
    """
    kind = settings.arguments.get(ARGUMENT, context.options.flow_control)
    if kind not in FLOW_CONTROLS:
        raise InvalidArgumentException(f"{ARGUMENT}: got {kind!r}, allowed are {', '.join(FLOW_CONTROLS)}")
    if thresholds is None or kind in ("pre-feature", "overflow-list"):
        return None
    if kind == "watermark":
        return WatermarkLimit(context, queue, thresholds)
    if kind == "java":
        if not thresholds.stop_size:
            return None
        return JavaCapacity(context, queue, thresholds.stop_size, thresholds.resume_size)
    return QueueFlowLimit(context, queue, thresholds)
