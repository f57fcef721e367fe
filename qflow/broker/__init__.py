"""The engine: a deterministic model of the Apache Qpid C++ broker, which uses only the standard library.

Start with :class:`Broker`; each command that a client can send is a method of a :class:`Session`.

>>> from qflow.broker import Broker, Message
>>> broker = Broker()
>>> session = broker.session("shop")
>>> session.queue_declare("orders", {"qpid.max_count": 10})
>>> session.message_transfer(Message(100, routing_key="orders")).is_complete
True
>>> broker.queue("orders").statistics().msgDepth
1
"""

from qflow.broker.broker import Broker
from qflow.broker.completions import RangeSet
from qflow.broker.consuming import BYTE_UNIT, CREDIT_MODE, INFINITE, MESSAGE_UNIT, WINDOW_MODE
from qflow.broker.errors import AmqpException, StartupError
from qflow.broker.events import Event
from qflow.broker.history import join, replicate
from qflow.broker.message import Message
from qflow.broker.options import BrokerOptions
from qflow.broker.session import EXPLICIT, NONE, NOT_ACQUIRED, PRE_ACQUIRED, Session
from qflow.broker.store import DelayedStore, MessageStore

__all__ = [
    "AmqpException",
    "BYTE_UNIT",
    "Broker",
    "BrokerOptions",
    "CREDIT_MODE",
    "DelayedStore",
    "EXPLICIT",
    "Event",
    "INFINITE",
    "MESSAGE_UNIT",
    "Message",
    "MessageStore",
    "NONE",
    "NOT_ACQUIRED",
    "PRE_ACQUIRED",
    "RangeSet",
    "Session",
    "StartupError",
    "WINDOW_MODE",
    "join",
    "replicate",
]
