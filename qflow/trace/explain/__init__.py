"""Why? The causal chain behind what a producer, transfer, queue, message, group or consumer does."""

from qflow.trace.explain.chain import Explanation, Link, Section, Subject
from qflow.trace.explain.question import explain

__all__ = ["Explanation", "Link", "Section", "Subject", "explain"]
