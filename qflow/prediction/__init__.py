"""Prediction: the behaviour of a broker with recorded clients, under the recorded settings or others.

The work flows through four modules, each with its theory at the top: ``evidence`` (what a client log shows)
→ ``client_model`` (the workload behind the log) → ``replays`` (simulations of it) → ``summary`` (intervals).

>>> from qflow.prediction import Settings
>>> lower = Settings(queues={"orders": {"qpid.flow_stop_count": 300, "qpid.flow_resume_count": 200}})
>>> lower.queues["orders"]["qpid.flow_stop_count"]
300
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.prediction.client_model import unknown_demand as unknown_demand
    from qflow.prediction.predict import Prediction as Prediction
    from qflow.prediction.predict import Settings as Settings
    from qflow.prediction.predict import predict as predict
    from qflow.prediction.summary import receipt_of as receipt_of
    from qflow.prediction.summary import score as score

open_room(__name__)
