"""The messages of the client API, under the module name that ``qpid.messaging`` has for them.

It is a package, as no two files of the kit have one name, and the engine has a ``message.py``.

>>> from qflow.messaging.message import Message
>>> Message("a book").content
'a book'
"""

from qflow.messaging.messages import Disposition as Disposition
from qflow.messaging.messages import Message as Message
from qflow.messaging.messages import timestamp as timestamp
