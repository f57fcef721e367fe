"""The engine: a deterministic model of the Apache Qpid C++ broker, of the standard library only.

Start with :class:`Broker`; everything a client can do is a method of a :class:`Session`.

Examples
--------
>>> from qflow.broker import Broker, Message
>>> broker = Broker()
>>> session = broker.session("shop")
>>> session.queue_declare("orders", {"qpid.max_count": 10})
>>> session.message_transfer(Message(100, routing_key="orders")).is_complete
True
>>> broker.queue("orders").statistics().msgDepth
1
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.broker.broker import Broker as Broker
    from qflow.broker.completions import RangeSet as RangeSet
    from qflow.broker.consuming import BYTE_UNIT as BYTE_UNIT
    from qflow.broker.consuming import CREDIT_MODE as CREDIT_MODE
    from qflow.broker.consuming import INFINITE as INFINITE
    from qflow.broker.consuming import MESSAGE_UNIT as MESSAGE_UNIT
    from qflow.broker.consuming import WINDOW_MODE as WINDOW_MODE
    from qflow.broker.errors import AmqpException as AmqpException
    from qflow.broker.errors import StartupError as StartupError
    from qflow.broker.events import Event as Event
    from qflow.broker.history.cluster import join as join
    from qflow.broker.history.cluster import replicate as replicate
    from qflow.broker.message import Message as Message
    from qflow.broker.options import BrokerOptions as BrokerOptions
    from qflow.broker.session import EXPLICIT as EXPLICIT
    from qflow.broker.session import NONE as NONE
    from qflow.broker.session import NOT_ACQUIRED as NOT_ACQUIRED
    from qflow.broker.session import PRE_ACQUIRED as PRE_ACQUIRED
    from qflow.broker.session import Session as Session
    from qflow.broker.store import DelayedStore as DelayedStore
    from qflow.broker.store import MessageStore as MessageStore

open_room(__name__)
