"""What was proposed, tried or built before and beside what shipped (rules.md#alt-design-alternatives).

Each alternative plugs into the same engine: choose one with ``BrokerOptions(flow_control=…)``, or
for one queue with the declare argument ``qflow.flow_control``, and run the same commands.
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.broker.history.cluster import join as join
    from qflow.broker.history.cluster import replicate as replicate

open_room(__name__)
