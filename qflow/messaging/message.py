"""Message and Disposition, as applications hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qflow.messaging.constants import Constant
from qflow.messaging.exceptions import EncodeError

if TYPE_CHECKING:
    from qflow.messaging.receiver import Receiver

MAP, LIST = "amqp/map", "amqp/list"
_UNSPECIFIED: Final = Constant("UNSPECIFIED")


class Message:
    """Standard fields, the application's own properties, and content.

    Text carries no content type, as with the real client's native strings: that is where the
    26 + len(queue) + len(text) bytes of DQ-08 come from.

    Parameters
    ----------
    content : str, bytes, dict, list or None
        The body.
    content_type : str or None
        Derived from the content if not given: "amqp/map", "amqp/list" or None.
    id : object
        The message id; a UUID, or anything.
    subject : str or None
        On an exchange it is the routing key, instead of the sender's.
    user_id, reply_to, correlation_id : str or None
        ``reply_to`` is an address.
    durable : bool or None
        None leaves it to the sender's ``durable`` option.
    priority : int or None
        0 to 255 (QT-04).
    ttl : float or None
        Seconds to live, of told time (QT-07).
    properties : dict or None
        Application headers; group, last value and filter keys are looked up here (MG-04, QT-01).

    Attributes
    ----------
    redelivered : bool
        Whether somebody may have seen it before (CN-15).

    Examples
    --------
    >>> Message("to do", subject="new", properties={"cart": 7})
    Message(subject='new', properties={'cart': 7}, content='to do')
    """

    # Set by the session that received the message.
    _receiver: Receiver
    _transfer_id: int | None
    _disposition: Disposition | None

    def __init__(
        self,
        content: object = None,
        content_type: str | Constant | None = _UNSPECIFIED,
        id: object = None,
        subject: str | None = None,
        user_id: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | None = None,
        durable: bool | None = None,
        priority: int | None = None,
        ttl: float | None = None,
        properties: dict[str, object] | None = None,
    ) -> None:
        self.id = id
        self.subject = subject
        self.user_id = user_id
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.durable = durable
        self.priority = priority
        self.ttl = ttl
        self.redelivered = False
        self.properties: dict[str, object] = {} if properties is None else properties
        self.content_type: str | None = (
            get_type(content) if isinstance(content_type, Constant) else content_type
        )
        self.content = content

    def __repr__(self) -> str:
        args = [
            f"{name}={getattr(self, name)!r}"
            for name in ("id", "subject", "user_id", "reply_to", "correlation_id", "priority", "ttl")
            if getattr(self, name) is not None
        ]
        args += [
            f"{name}={getattr(self, name)!r}"
            for name in ("durable", "redelivered", "properties")
            if getattr(self, name)
        ]
        if self.content_type != get_type(self.content):
            args.append(f"content_type={self.content_type!r}")
        if self.content is not None:
            args.append(f"content={self.content!r}" if args else repr(self.content))
        return f"Message({', '.join(args)})"


class Disposition:
    """What becomes of a message instead of being accepted.

    Parameters
    ----------
    type : Constant or None
        ``RELEASED``, ``REJECTED``, or None for accepted.
    **options : object
        ``set_redelivered`` for ``RELEASED`` (CN-15); ``code`` and ``text`` for ``REJECTED``, which
        nobody sees.

    Examples
    --------
    >>> from qflow.messaging import RELEASED
    >>> Disposition(RELEASED, set_redelivered=True)
    Disposition(RELEASED, set_redelivered=True)
    """

    def __init__(self, type: Constant | None, **options: object) -> None:
        self.type = type
        self.options = options

    def __repr__(self) -> str:
        args = [str(self.type), *(f"{key}={value!r}" for key, value in self.options.items())]
        return f"Disposition({', '.join(args)})"


def get_type(content: object) -> str | None:
    """Return the content type of a body.

    Raises
    ------
    EncodeError
        If it is nothing a message can hold.
    """
    if isinstance(content, dict):
        return MAP
    if isinstance(content, list):
        return LIST
    if content is None or isinstance(content, str | bytes | bytearray | memoryview):
        return None
    raise EncodeError(
        text=f"content: got a {type(content).__name__}, allowed are str, bytes, dict, list and None"
    )


__all__ = ["Disposition", "Message"]
