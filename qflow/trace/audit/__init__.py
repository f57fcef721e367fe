"""Audit: what a client log shows, held against the rules, and what the engine fills in."""

from qflow.trace.audit.audit import Audit, audit
from qflow.trace.audit.findings import Finding, Tolerance

__all__ = ["Audit", "Finding", "Tolerance", "audit"]
