"""The client API people know from ``qpid.messaging``, on brokers that live in this process.

Code written for the real client runs with only its import changed::

    from qflow.messaging import *

What differs: there is no network, and time is told.  A time-out passes at once, once nothing else
can happen; :func:`sleep` takes the place of ``time.sleep`` (or give the broker a clock, see
:meth:`Brokers.install`); a call that could never return raises a :class:`WouldBlockForever`.
:data:`brokers` gets at the broker behind a URL, for its management, its statistics and its events;
:mod:`qflow.messaging.console` shows them under the names QMF consoles have for them.

>>> from qflow.messaging import *
>>> session = Connection.establish("localhost").session()
>>> sender = session.sender("orders; {create: always, node: {x-declare: {arguments: {"
...                         "'qpid.group_header_key': cart, 'qpid.shared_msg_group': 1}}}}")
>>> sender.send(Message("a book", properties={"cart": "7"}))
>>> session.receiver("orders").fetch(timeout=1).properties["cart"]
'7'
>>> brokers.get("localhost").queue("orders").statistics().msgDepth
1
"""

from uuid import uuid4

from qflow.messaging import exceptions
from qflow.messaging.endpoints import Connection, Endpoint, Receiver, Sender, Session
from qflow.messaging.exceptions import *  # noqa: F403  (all exceptions, as the real package has them)
from qflow.messaging.hosts import Brokers, brokers, sleep
from qflow.messaging.messages import (
    AMQP_PORT,
    AMQPS_PORT,
    REJECTED,
    RELEASED,
    UNLIMITED,
    Constant,
    Disposition,
    Message,
)

__all__ = [
    "AMQPS_PORT",
    "AMQP_PORT",
    "REJECTED",
    "RELEASED",
    "UNLIMITED",
    "Constant",
    "Brokers",
    "Connection",
    "Disposition",
    "Endpoint",
    "Message",
    "Receiver",
    "Sender",
    "Session",
    "brokers",
    "sleep",
    "uuid4",
    *exceptions.__all__,
]
