"""Audit a client log: replay it through the engine, and say where the two cannot both be right."""

from __future__ import annotations

from dataclasses import dataclass

from qflow.trace.audit.completions import Engine, completion_findings
from qflow.trace.audit.deliveries import DeliveryAudit
from qflow.trace.audit.discards import discard_findings
from qflow.trace.audit.findings import Finding, Tolerance, in_order
from qflow.trace.audit.membership import known_rows
from qflow.trace.audit.reports import Agreement, agreements
from qflow.trace.client_log import ClientLog
from qflow.trace.replay import replay
from qflow.workload.model import Workload
from qflow.workload.run import Run


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of it.

    Parameters
    ----------
    run : Run
        The log with the broker's inner events, as the engine reconstructs them.
    findings : list of Finding
        What the rules do not allow, in the order of the rows; empty for an honest log.
    tolerance : Tolerance
        What was not counted as a finding.
    agreements : dict
        Queue name to how far the engine agrees with what the broker reported of it.
    """

    run: Run
    findings: list[Finding]
    tolerance: Tolerance
    agreements: dict[str, Agreement]


def audit(log: ClientLog, workload: Workload, tolerance: Tolerance | None = None) -> Audit:
    """Replay a log through the engine and hold what the clients saw against the rules.

    Parameters
    ----------
    log : ClientLog
        What was recorded.
    workload : Workload
        What was run: queues, bindings, and who reads what.
    tolerance : Tolerance or None
        How far clocks and chance may go; None to estimate that from the log.

    Returns
    -------
    Audit
        Rows of clients that the workload has not are findings, and left out of the run.

    Raises
    ------
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> from qflow.trace import LogRow
    >>> from qflow.workload import Producer
    >>> producer = Producer("p", ("", "q"), rate=10, capacity=5, size=100)
    >>> workload = Workload("small", 1, {"q": {}}, producers=(producer,))
    >>> rows = [LogRow(1, "p", "transfer", "q", "p-1", 100, "")]
    >>> rows.append(LogRow(3, "p", "complete", "q", "p-2", 0, ""))
    >>> finding = audit(ClientLog("small", rows), workload).findings[0]
    >>> finding.row, finding.kind, finding.rule, finding.allowed
    (2, 'never sent', 'CM-01', 'a transfer that this producer sent before')
    """
    tolerance = tolerance or Tolerance.estimated(log.rows)
    known, findings = known_rows(log.rows, workload, tolerance)
    deliveries = DeliveryAudit(workload, tolerance)
    deliveries.take(known)
    run = replay(ClientLog(log.name, [row for _, row in known]), workload)
    engine = Engine(run)
    findings += deliveries.findings
    findings += completion_findings(known, engine, tolerance)
    findings += discard_findings(known, workload, engine)
    return Audit(run, in_order(findings), tolerance, agreements(log.rows, run))
