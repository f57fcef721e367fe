"""Workloads: producers and consumers that drive the engine in virtual time.

>>> from qflow.workload import Consumer, Producer, Workload, simulate
>>> workload = Workload(
...     "first light",
...     duration=1,
...     queues={"orders": {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5}},
...     producers=(Producer("p1", ("", "orders"), rate=200, capacity=5, size=100, seed=1),),
...     consumers=(Consumer("c1", "orders", prefetch=2, service=("exp", 0.01), seed=2),),
... )
>>> run = simulate(workload)
>>> run.errors
{}
>>> kinds = [event.kind for event in run.events]
>>> kinds.count("flow_stopped") == kinds.count("flow_resumed") > 0
True
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.workload.attributes import WorkloadError as WorkloadError
    from qflow.workload.model import Consumer as Consumer
    from qflow.workload.model import Producer as Producer
    from qflow.workload.model import Workload as Workload
    from qflow.workload.network import Network as Network
    from qflow.workload.simulate import CLIENT_EVENTS as CLIENT_EVENTS
    from qflow.workload.simulate import Run as Run
    from qflow.workload.simulate import simulate as simulate

open_room(__name__)
