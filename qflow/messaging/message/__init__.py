"""The messages of the client API, in a module named as in ``qpid.messaging``.

It is a package, because no two files of the kit may have the same name and the engine has a ``message.py``.

>>> from qflow.messaging.message import Message
>>> Message("a book").content
'a book'
"""

from qflow.messaging.messages import Disposition as Disposition
from qflow.messaging.messages import Message as Message
from qflow.messaging.messages import timestamp as timestamp
