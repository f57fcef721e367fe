"""Prediction: what a broker would have done with the recorded clients, as they were set up or otherwise.

>>> from qflow.prediction import Settings
>>> lower = Settings(queues={"orders": {"qpid.flow_stop_count": 300, "qpid.flow_resume_count": 200}})
>>> lower.queues["orders"]["qpid.flow_stop_count"]
300
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.prediction.intervals import receipt_of as receipt_of
    from qflow.prediction.intervals import score as score
    from qflow.prediction.predict import Prediction as Prediction
    from qflow.prediction.predict import Settings as Settings
    from qflow.prediction.predict import predict as predict

open_room(__name__)
