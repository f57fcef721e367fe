"""The engine: a deterministic model of the Apache Qpid C++ broker, of the standard library only.

Start with :class:`Broker`; everything a client can do is a method of a :class:`Session`.
"""

from qflow.broker.broker import Broker
from qflow.broker.consumer import BYTE_UNIT, CREDIT_MODE, INFINITE, MESSAGE_UNIT, WINDOW_MODE
from qflow.broker.events import Event
from qflow.broker.message import Message
from qflow.broker.options import BrokerOptions
from qflow.broker.session import EXPLICIT, NONE, NOT_ACQUIRED, PRE_ACQUIRED, Session

__all__ = [
    "BYTE_UNIT",
    "CREDIT_MODE",
    "EXPLICIT",
    "INFINITE",
    "MESSAGE_UNIT",
    "NONE",
    "NOT_ACQUIRED",
    "PRE_ACQUIRED",
    "WINDOW_MODE",
    "Broker",
    "BrokerOptions",
    "Event",
    "Message",
    "Session",
]
