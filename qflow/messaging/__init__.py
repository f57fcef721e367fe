"""The client API of ``qpid.messaging``, on brokers that run in this process.

Code written for the real client runs after only its import is changed::

    from qflow.messaging import *

There are two differences: there is no network, and time is virtual.  When nothing else can happen, a time-out
expires at once; :func:`sleep` replaces ``time.sleep``.  A call blocks only while another thread uses the
broker, and a call that could never return raises a :class:`WouldBlockForever`.  :func:`refuse` makes a URL
refuse connections.  ``brokers.get(url)`` returns the broker behind a URL, with its management, its statistics
and its events (:data:`brokers`); :mod:`qflow.messaging.console` shows these as a QMF console does.

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

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from uuid import uuid4 as uuid4

    from qflow.messaging import address as address
    from qflow.messaging import console as console
    from qflow.messaging import constants as constants
    from qflow.messaging import endpoints as endpoints
    from qflow.messaging import exceptions as exceptions
    from qflow.messaging import message as message
    from qflow.messaging import util as util
    from qflow.messaging.exceptions import AddressError as AddressError
    from qflow.messaging.exceptions import AssertionFailed as AssertionFailed
    from qflow.messaging.exceptions import AuthenticationFailure as AuthenticationFailure
    from qflow.messaging.exceptions import ConnectError as ConnectError
    from qflow.messaging.exceptions import ConnectionClosed as ConnectionClosed
    from qflow.messaging.exceptions import ConnectionError as ConnectionError
    from qflow.messaging.exceptions import ContentError as ContentError
    from qflow.messaging.exceptions import DecodeError as DecodeError
    from qflow.messaging.exceptions import Detached as Detached
    from qflow.messaging.exceptions import Empty as Empty
    from qflow.messaging.exceptions import EncodeError as EncodeError
    from qflow.messaging.exceptions import FetchError as FetchError
    from qflow.messaging.exceptions import FetchWouldBlock as FetchWouldBlock
    from qflow.messaging.exceptions import HeartbeatTimeout as HeartbeatTimeout
    from qflow.messaging.exceptions import InsufficientCapacity as InsufficientCapacity
    from qflow.messaging.exceptions import InternalError as InternalError
    from qflow.messaging.exceptions import InvalidOption as InvalidOption
    from qflow.messaging.exceptions import LinkClosed as LinkClosed
    from qflow.messaging.exceptions import LinkError as LinkError
    from qflow.messaging.exceptions import MalformedAddress as MalformedAddress
    from qflow.messaging.exceptions import MessagingError as MessagingError
    from qflow.messaging.exceptions import NontransactionalSession as NontransactionalSession
    from qflow.messaging.exceptions import NotFound as NotFound
    from qflow.messaging.exceptions import ReceiverError as ReceiverError
    from qflow.messaging.exceptions import ResolutionError as ResolutionError
    from qflow.messaging.exceptions import SenderError as SenderError
    from qflow.messaging.exceptions import SendError as SendError
    from qflow.messaging.exceptions import SendWouldBlock as SendWouldBlock
    from qflow.messaging.exceptions import ServerError as ServerError
    from qflow.messaging.exceptions import SessionClosed as SessionClosed
    from qflow.messaging.exceptions import SessionError as SessionError
    from qflow.messaging.exceptions import SyncWouldBlock as SyncWouldBlock
    from qflow.messaging.exceptions import TargetCapacityExceeded as TargetCapacityExceeded
    from qflow.messaging.exceptions import Timeout as Timeout
    from qflow.messaging.exceptions import TransactionAborted as TransactionAborted
    from qflow.messaging.exceptions import TransactionError as TransactionError
    from qflow.messaging.exceptions import TransactionUnknown as TransactionUnknown
    from qflow.messaging.exceptions import UnauthorizedAccess as UnauthorizedAccess
    from qflow.messaging.exceptions import VersionError as VersionError
    from qflow.messaging.exceptions import WouldBlockForever as WouldBlockForever
    from qflow.messaging.hosts import Brokers as Brokers
    from qflow.messaging.hosts import brokers as brokers
    from qflow.messaging.hosts import refuse as refuse
    from qflow.messaging.hosts import sleep as sleep
    from qflow.messaging.link_endpoints import Endpoint as Endpoint
    from qflow.messaging.link_endpoints import Receiver as Receiver
    from qflow.messaging.link_endpoints import Sender as Sender
    from qflow.messaging.messages import AMQP_PORT as AMQP_PORT
    from qflow.messaging.messages import AMQPS_PORT as AMQPS_PORT
    from qflow.messaging.messages import REJECTED as REJECTED
    from qflow.messaging.messages import RELEASED as RELEASED
    from qflow.messaging.messages import UNLIMITED as UNLIMITED
    from qflow.messaging.messages import Constant as Constant
    from qflow.messaging.messages import Disposition as Disposition
    from qflow.messaging.messages import Message as Message
    from qflow.messaging.messages import timestamp as timestamp
    from qflow.messaging.sessions import Connection as Connection
    from qflow.messaging.sessions import Session as Session

open_room(__name__)
