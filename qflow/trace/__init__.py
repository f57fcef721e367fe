"""Traces and logs: what was recorded, and what the engine makes of it."""

from qflow.trace.client_log import ClientLog, LogError, LogRow, QueueSample, replay

__all__ = ["ClientLog", "LogError", "LogRow", "QueueSample", "replay"]
