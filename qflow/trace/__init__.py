"""Traces: record a run of the engine, show the broker at any instant of it, and explain its state.

>>> from qflow.trace import explain, trace_of
>>> from qflow.workload import Producer, Workload, simulate
>>> producer = Producer("p", ("", "orders"), rate=100, capacity=5, size=100)
>>> run = simulate(Workload("small", 0.1, {"orders": {"qpid.flow_stop_count": 3}}, producers=(producer,)))
>>> print(explain(trace_of(run), subject="producer:p", time=90_000).links[0].text)
p is blocked: a message has been due since 0.079 s, and its window is full.
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.logs.client_log import ClientLog as ClientLog
    from qflow.logs.client_log import replay as replay
    from qflow.logs.log_file import LogError as LogError
    from qflow.logs.log_file import LogRow as LogRow
    from qflow.logs.log_file import QueueSample as QueueSample
    from qflow.trace.explain.chain import Explanation as Explanation
    from qflow.trace.explain.question import explain as explain
    from qflow.trace.files import read_trace as read_trace
    from qflow.trace.files import write_trace as write_trace
    from qflow.trace.replaying import record as record
    from qflow.trace.replaying import trace_of as trace_of
    from qflow.trace.schema import Row as Row
    from qflow.trace.schema import Trace as Trace
    from qflow.trace.schema import TraceError as TraceError
    from qflow.trace.timeline import Timeline as Timeline

open_room(__name__)
