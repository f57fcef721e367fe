"""Traces and logs: what was recorded, what the engine makes of it, any instant of it, and why."""

from qflow.logs.client_log import ClientLog, QueueSample, replay
from qflow.logs.log_file import LogError, LogRow
from qflow.trace.diff import Comparison, compare
from qflow.trace.explain import Explanation, explain
from qflow.trace.files import read_trace, write_trace
from qflow.trace.replay import record, trace_of
from qflow.trace.schema import Row, Trace, TraceError
from qflow.trace.timeline import Timeline

__all__ = [
    "ClientLog",
    "Comparison",
    "Explanation",
    "LogError",
    "LogRow",
    "QueueSample",
    "Row",
    "Timeline",
    "Trace",
    "TraceError",
    "compare",
    "explain",
    "read_trace",
    "record",
    "replay",
    "trace_of",
    "write_trace",
]
