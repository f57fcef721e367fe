"""The constants of the client API, in a module named as in ``qpid.messaging``.

>>> from qflow.messaging.constants import UNLIMITED
>>> UNLIMITED
UNLIMITED
"""

from qflow.messaging.messages import AMQP_PORT as AMQP_PORT
from qflow.messaging.messages import AMQPS_PORT as AMQPS_PORT
from qflow.messaging.messages import REJECTED as REJECTED
from qflow.messaging.messages import RELEASED as RELEASED
from qflow.messaging.messages import UNLIMITED as UNLIMITED
from qflow.messaging.messages import Constant as Constant
