"""Why? The causal chain behind what a producer, transfer, queue, message, group or consumer does."""

from qflow.trace.explain.explanation import Explanation, Link, Subject
from qflow.trace.explain.question import explain
from qflow.trace.explain.sections import Section

__all__ = ["Explanation", "Link", "Section", "Subject", "explain"]
