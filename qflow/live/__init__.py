"""Live: recordings of what clients of AMQP 1.0 and their broker say to each other.

``qflow record`` on the command line, :func:`recorder` in code.
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.live.recording import Recording as Recording
    from qflow.live.recording_tap import Upstream as Upstream

open_room(__name__)
