"""The endpoints of the client API, in a module named as in ``qpid.messaging``.

>>> from qflow.messaging.endpoints import Connection
>>> Connection.establish("localhost").opened()
True
"""

from qflow.messaging.link_endpoints import Endpoint as Endpoint
from qflow.messaging.link_endpoints import Receiver as Receiver
from qflow.messaging.link_endpoints import Sender as Sender
from qflow.messaging.sessions import Connection as Connection
from qflow.messaging.sessions import Session as Session
