"""Live: the engine behind a socket, for clients of AMQP 1.0 in any language.

``qflow serve`` on the command line, :func:`serve` in code.  ``qflow record`` writes down what clients and any
broker say to each other.

>>> from qflow.live import serve
>>> with serve("orders --flow-stop-count=10") as broker:
...     print(broker.table())
broker at ... s: 1 queue, 0 sessions
queue   messages  bytes  flow control  turned ON  stop above ...
orders         0      0  OFF                   0  10 messages, ...
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.live.client_card import ClientCard as ClientCard
    from qflow.live.client_card import Conditions as Conditions
    from qflow.live.client_card import client_table as client_table
    from qflow.live.client_check import check_client as check_client
    from qflow.live.client_faults import Ledger as Ledger
    from qflow.live.client_faults import check_faults as check_faults
    from qflow.live.peer import ClientLimits as ClientLimits
    from qflow.live.recorder import Recorder as Recorder
    from qflow.live.recorder import recorder as recorder
    from qflow.live.serving import Serving as Serving
    from qflow.live.serving import serve as serve

open_room(__name__)
